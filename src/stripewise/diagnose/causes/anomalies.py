"""Operations that depart from the model of their class, and what may be behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stripewise.diagnose.causes.models import UNDECIDED, Calibration
from stripewise.diagnose.causes.timings import Timing, patterns

_FAR = 4.0
_SLOWER = 2.0
_RUN = 16


@dataclass(frozen=True)
class Anomaly:
    """Operations that took much longer than their condition explains.

    Attributes
    ----------
    cause : str
        ``read-ahead``, ``write-behind`` or ``slow``.
    says : str
    count : int
    ratio : float
        Median of the time over the expected one.
    seconds : float
        Lost in all.
    examples : tuple of int
        Places in the series.
    """

    cause: str
    says: str
    count: int
    ratio: float
    seconds: float
    examples: tuple[int, ...]


_SAYS = {
    "read-ahead": "reverse reads wait longer than single reads do: read-ahead fetches what lies behind "
    "and is not asked for",
    "write-behind": "writes that followed a run of fast ones waited: the limit of write-behind was "
    "reached and storage set the pace",
    "slow": "operations took far longer than the slowest calibrated condition: another job, the network or the device",
}


def anomalies(timings: Sequence[Timing], classes: Sequence[str], calibration: Calibration) -> list[Anomaly]:
    """Find departures from the models.

    A read is compared with the uncached model: there is nothing slower in the calibration. A write is compared with
    the cached one where the writes before it went to the cache.

    Parameters
    ----------
    timings : sequence of Timing
        In order of time.
    classes : sequence of str
        The class of each, as :meth:`Calibration.classify` gives it.
    calibration : Calibration
    """
    ways = patterns(timings)
    found: dict[str, list[tuple[int, float, float]]] = {}
    for i, timing in enumerate(timings):
        models = calibration.models.get(timing.operation, {})
        cause, name = None, "uncached"
        if timing.operation == "write" and _cached_before(timings, classes, i):
            cause, name = "write-behind", "cached"
        elif timing.operation == "read" and ways[i] == "reverse":
            cause = "read-ahead"
        model = models.get(name)
        if model is None:
            continue
        expected = float(model.time(timing.size))
        far = np.log(timing.seconds / expected) / model.spread
        reverse = cause == "read-ahead" and timing.seconds > _SLOWER * expected
        if (far > _FAR and timing.seconds > _SLOWER * expected) or reverse:
            found.setdefault(cause or "slow", []).append((i, timing.seconds / expected, timing.seconds - expected))
    return [
        Anomaly(
            cause,
            _SAYS[cause],
            len(own),
            float(np.median([ratio for _, ratio, _ in own])),
            float(sum(lost for _, _, lost in own)),
            tuple(i for i, _, _ in own[:5]),
        )
        for cause, own in sorted(found.items())
    ]


def _cached_before(timings: Sequence[Timing], classes: Sequence[str], place: int) -> bool:
    before = range(max(0, place - _RUN), place)
    fast = [
        classes[i] in ("cached", "discarded", "memory", UNDECIDED) for i in before if timings[i].operation == "write"
    ]
    return len(fast) >= _RUN // 2 and sum(fast) >= 0.75 * len(fast)
