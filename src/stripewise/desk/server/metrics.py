"""Counters in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Mapping

_BOUNDS = (0.01, 0.05, 0.1, 0.3, 1.0, 5.0)


class Metrics:
    """What this process has answered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, str, int], int] = {}
        self._seconds: dict[float, int] = dict.fromkeys(_BOUNDS, 0)
        self._count, self._sum = 0, 0.0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer; ``route`` is the pattern of the path, of which there are few."""
        known = method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
        with self._lock:
            key = (known, route, status)
            self._requests[key] = self._requests.get(key, 0) + 1
            self._count += 1
            self._sum += seconds
            for bound in _BOUNDS:
                self._seconds[bound] += seconds <= bound

    def text(self, gauges: Mapping[str, tuple[str, Mapping[str, float]]]) -> str:
        """Write all.

        Parameters
        ----------
        gauges : mapping
            Name to its help and its values by label text (``state="running"``; empty for none).
        """
        with self._lock:
            requests, seconds = dict(self._requests), dict(self._seconds)
            count, total = self._count, self._sum
        lines = [
            "# HELP stripewise_requests_total Answers by route and status.",
            "# TYPE stripewise_requests_total counter",
        ]
        for (method, route, status), number in sorted(requests.items()):
            lines.append(f'stripewise_requests_total{{method="{method}",route="{route}",status="{status}"}} {number}')
        lines += ["# HELP stripewise_request_seconds Time to answer.", "# TYPE stripewise_request_seconds histogram"]
        lines += [f'stripewise_request_seconds_bucket{{le="{bound:g}"}} {number}' for bound, number in seconds.items()]
        lines += [f'stripewise_request_seconds_bucket{{le="+Inf"}} {count}']
        lines += [f"stripewise_request_seconds_sum {total:.6f}", f"stripewise_request_seconds_count {count}"]
        for name, (about, values) in gauges.items():
            lines += [f"# HELP {name} {about}", f"# TYPE {name} gauge"]
            lines += [
                f"{name}{{{label}}} {value:g}" if label else f"{name} {value:g}" for label, value in values.items()
            ]
        return "\n".join(lines) + "\n"
