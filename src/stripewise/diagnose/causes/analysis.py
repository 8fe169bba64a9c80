"""All that the times of operations tell, together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stripewise.diagnose.causes.anomalies import Anomaly, anomalies
from stripewise.diagnose.causes.density import Cluster, clusters
from stripewise.diagnose.causes.models import UNDECIDED, Calibration
from stripewise.diagnose.causes.rules import SpeedRules, speed_rules
from stripewise.diagnose.causes.timings import Timing

_FEW = 20
_SIZES = 12


@dataclass(frozen=True)
class CauseFactor:
    """A cluster of repeated operations, with the condition whose model is nearest, where the site is calibrated."""

    operation: str
    size: int
    cluster: Cluster
    condition: str | None


@dataclass(frozen=True)
class Causes:
    """What the times of operations tell.

    Attributes
    ----------
    counts : dict
        Direction to class to number of operations; empty without a calibration.
    seconds : dict
        The same in seconds.
    best : dict
        Direction to the seconds that its operations would take if the page cache had answered all: the best case
        that optimisation on the client can give.
    factors : tuple of CauseFactor
    anomalies : tuple of Anomaly
    rules : SpeedRules or None
    classes : tuple of str
        Class of each operation; empty without a calibration.
    """

    counts: dict[str, dict[str, int]]
    seconds: dict[str, dict[str, float]]
    best: dict[str, float]
    factors: tuple[CauseFactor, ...]
    anomalies: tuple[Anomaly, ...]
    rules: SpeedRules | None
    classes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        return {
            "counts": self.counts,
            "seconds": self.seconds,
            "best_case_seconds": self.best,
            "factors": [asdict(factor) for factor in self.factors],
            "anomalies": [asdict(anomaly) for anomaly in self.anomalies],
            "rules": None if self.rules is None else asdict(self.rules),
        }


def classify(timings: Sequence[Timing], calibration: Calibration) -> list[str]:
    """Give each operation its class.

    Raises
    ------
    UserError
        If the calibration lacks a direction.
    """
    classes = [UNDECIDED] * len(timings)
    for way in {timing.operation for timing in timings}:
        own = [i for i, timing in enumerate(timings) if timing.operation == way]
        given = calibration.classify(way, [timings[i].size for i in own], [timings[i].seconds for i in own])
        for i, name in zip(own, given, strict=True):
            classes[i] = name
    return classes


def analyse(timings: Sequence[Timing], calibration: Calibration | None = None) -> Causes:
    """Say what the times tell; without a calibration clusters and rules alone.

    Parameters
    ----------
    timings : sequence of Timing
        In order of time.
    calibration : Calibration, optional
        Of the site they come from.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    best: dict[str, float] = defaultdict(float)
    odd: list[Anomaly] = []
    classes: list[str] = []
    if calibration is not None:
        classes = classify(timings, calibration)
        for timing, name in zip(timings, classes, strict=True):
            counts[timing.operation][name] += 1
            seconds[timing.operation][name] += timing.seconds
            model = calibration.models[timing.operation].get("cached")
            best[timing.operation] += min(timing.seconds, float(model.time(timing.size))) if model else timing.seconds
        odd = anomalies(timings, classes, calibration)
    return Causes(
        {way: dict(of) for way, of in counts.items()},
        {way: dict(of) for way, of in seconds.items()},
        dict(best),
        tuple(_factors(timings, calibration)),
        tuple(odd),
        speed_rules(timings),
        tuple(classes),
    )


def _factors(timings: Sequence[Timing], calibration: Calibration | None) -> list[CauseFactor]:
    repeated: dict[tuple[str, int], list[float]] = defaultdict(list)
    for timing in timings:
        repeated[timing.operation, timing.size].append(timing.seconds)
    often = sorted((key for key, own in repeated.items() if len(own) >= _FEW), key=lambda key: -len(repeated[key]))
    found = []
    for way, size in sorted(often[:_SIZES]):
        for cluster in clusters(repeated[way, size]):
            condition = None
            if calibration is not None and calibration.models.get(way):
                condition = calibration.classify(way, [size], [cluster.seconds])[0]
            found.append(CauseFactor(way, size, cluster, condition))
    return found
