"""What processes of Python leave of settings for their objects, and of their loaders, merged into a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from stripewise.observe.plain_report import report_of_processes
from stripewise.observe.report import ReportedLoader, ReportedObject, ReportPart, SettingOutcome

_MOST_PARTS = 20_000
_MOST_BYTES = 1 << 20
_WEIGHT = {"applied": 3, "refused": 2, "application_wins": 1}


class _Object(ReportPart):
    path: str
    calls: int = 0
    settings: list[SettingOutcome] = Field(default_factory=list)
    loaders: list[ReportedLoader] = Field(default_factory=list)


class _Part(ReportPart):
    """What ``in_python/stripewise_settings.py`` of the runners writes."""

    pid: int
    host: str
    executable: str = ""
    rank: str | None = None
    start: float
    end: float
    objects: list[_Object] = Field(default_factory=list)


def read_parts(paths: Sequence[Path]) -> list[_Part]:
    """Read the parts that are whole: others were written by a process that is not one of Stripewise's."""
    found = []
    for path in paths[:_MOST_PARTS]:
        try:
            if path.stat().st_size <= _MOST_BYTES:
                found.append(_Part.model_validate_json(path.read_bytes()))
        except (OSError, ValidationError):
            continue
    return found


def with_python(report: dict[str, Any] | None, parts: Sequence[_Part]) -> dict[str, Any]:
    """Give a report with what the processes of Python told, or one of these alone where there is none."""
    by_name: dict[str, list[_Object]] = {}
    for part in parts:
        for one in part.objects:
            by_name.setdefault(one.path, []).append(one)
    objects = [
        ReportedObject(
            path=name,
            calls=sum(one.calls for one in same),
            settings=[_sum_outcomes(list(outcomes)) for outcomes in zip(*(one.settings for one in same), strict=False)],
        )
        for name, same in by_name.items()
    ]
    loaders = [
        loader.model_copy(update={"host": part.host, "pid": part.pid})
        for part in parts
        for one in part.objects
        for loader in one.loaders
    ]
    return {
        **(report or _alone(parts)),
        "objects": [one.model_dump(mode="json") for one in objects],
        "loaders": [one.model_dump(mode="json") for one in loaders],
    }


def _sum_outcomes(same: Sequence[SettingOutcome]) -> SettingOutcome:
    """Sum what became of a setting in several processes; the outcome is the strongest of them."""
    first = max(same, key=lambda one: _WEIGHT.get(one.outcome, 0))
    counts = {name: sum(getattr(one, name) or 0 for one in same) for name in ("acted", "missed")}
    return first.model_copy(update=counts)


def _alone(parts: Sequence[_Part]) -> dict[str, Any]:
    """Give the report of a command of which nothing else was observed."""
    start, ranks = min(part.start for part in parts), {part.rank for part in parts}
    job = {
        "executable": min(parts, key=lambda part: part.start).executable,
        "ranks": len(ranks),
        "nodes": len({part.host for part in parts}),
        "start": start,
        "elapsed": max(0.0, max(part.end for part in parts) - start),
        "io_time": 0.0,
        "complete": True,
        "ranks_reported": len(ranks),
    }
    totals = {"bytes_read": 0, "bytes_written": 0, "read_bandwidth": None, "write_bandwidth": None}
    return report_of_processes(job, totals)
