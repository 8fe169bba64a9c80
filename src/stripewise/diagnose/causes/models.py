"""Linear models of time by size, one per condition, and the condition that fits an operation best."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.ownership import checked_model

FORMAT = "stripewise-calibration"
VERSION = 1
CONDITIONS = ("memory", "discarded", "cached", "uncached")
"""Answered by the process's memory; by the kernel without a file (data discarded); by the page cache; by storage."""

UNDECIDED = "undecided"
OVERLAP = 0.05
_LEAST_SPREAD = 0.05
_NARROWEST, _WIDEST = 0.4, 0.6
_FEW = 8

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TimeModel:
    """time = constant + slope * size, for one condition and direction.

    Attributes
    ----------
    constant : float
        Seconds.
    slope : float
        Seconds a byte.
    spread : float
        Robust standard deviation of log(time) about the model.
    smallest, largest : int
        Sizes that were measured.
    count : int
        Operations measured.
    """

    constant: float
    slope: float
    spread: float
    smallest: int
    largest: int
    count: int

    @property
    def width(self) -> float:
        """Width of log(time) by which distances are weighed.

        The spread, kept between 0.4 and 0.6: a condition that was quiet while it was calibrated is not to lose an
        operation half as fast again to one that is a thousand times slower and scattered.
        """
        return min(max(self.spread, _NARROWEST), _WIDEST)

    def time(self, size: float | Floats) -> Any:
        """Seconds that an operation takes."""
        return self.constant + self.slope * size


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> TimeModel:
    """Fit a model to operations under one condition.

    The fit minimises the relative error with a loss that outliers (an interrupt, a busy disk) do not dominate.

    Parameters
    ----------
    sizes, seconds : sequences of float
        Bytes and times, at least eight operations.

    Raises
    ------
    UserError
        For fewer operations.
    """
    x, y = np.asarray(sizes, float), np.asarray(seconds, float)
    if len(x) < _FEW:
        raise UserError(f"{len(x)} operations are too few to fit a model of time", f"measure at least {_FEW}")
    small = float(np.median(y[x <= np.quantile(x, 0.25)]))
    steep = max(float(np.median(y[x >= np.quantile(x, 0.75)])) / float(np.quantile(x, 0.9)), 1e-13)

    def miss(logs: Floats) -> Floats:
        found: Floats = np.log(np.exp(logs[0]) + np.exp(logs[1]) * x) - np.log(y)
        return found

    from scipy.optimize import least_squares  # noqa: PLC0415  slow to load

    best = least_squares(miss, [math.log(max(small, 1e-9)), math.log(steep)], loss="soft_l1", f_scale=0.2).x
    constant, slope = (float(v) for v in np.exp(best))
    residual = np.log(y) - np.log(constant + slope * x)
    low, high = np.quantile(residual, [0.1587, 0.8413])
    spread = max(_LEAST_SPREAD, float(high - low) / 2)
    return TimeModel(constant, slope, spread, int(x.min()), int(x.max()), len(x))


def overlap(one: TimeModel, other: TimeModel, size: float) -> float:
    """Give the part of operations that could belong to either: the overlap of two normal densities of log(time)."""
    a, b = math.log(one.time(size)), math.log(other.time(size))
    grid = np.linspace(
        min(a, b) - 5 * max(one.spread, other.spread), max(a, b) + 5 * max(one.spread, other.spread), 400
    )
    from scipy.stats import norm  # noqa: PLC0415  slow to load

    both = np.minimum(norm.pdf(grid, a, one.spread), norm.pdf(grid, b, other.spread))
    return float(np.trapezoid(both, grid))


@dataclass(frozen=True)
class Calibration:
    """The models of a site.

    Attributes
    ----------
    models : mapping
        ``read`` and ``write`` to condition to model.
    notes : mapping
        Where and how it was measured.
    """

    models: Mapping[str, Mapping[str, TimeModel]]
    notes: Mapping[str, Any] = field(default_factory=dict)

    def classify(self, operation: str, sizes: Sequence[float], seconds: Sequence[float]) -> list[str]:
        """Give each operation the condition whose model is nearest.

        ``undecided`` where the two nearest calibrated conditions overlap by more than 5% at that size and the time lies
        between or beside them so that either is likely; an operation far from all keeps the nearest.

        Parameters
        ----------
        operation : {"read", "write"}
        """
        known = self.models.get(operation, {})
        if not known:
            raise UserError(f"the calibration has no models of {operation}s", "calibrate again")
        x, y = np.asarray(sizes, float), np.asarray(seconds, float)
        names = list(known)
        away = np.stack([np.abs(np.log(y) - np.log(known[n].time(x))) / known[n].width for n in names])
        order = np.argsort(away, axis=0)
        cache: dict[tuple[int, int, float], bool] = {}
        found = []
        for i in range(len(x)):
            first = int(order[0, i])
            if len(names) > 1 and self._either(known, names, first, int(order[1, i]), float(x[i]), away[:, i], cache):
                found.append(UNDECIDED)
            else:
                found.append(names[first])
        return found

    @staticmethod
    def _either(
        known: Mapping[str, TimeModel],
        names: Sequence[str],
        first: int,
        second: int,
        size: float,
        away: Floats,
        cache: dict[tuple[int, int, float], bool],
    ) -> bool:
        key = (min(first, second), max(first, second), size)
        if key not in cache:
            cache[key] = overlap(known[names[first]], known[names[second]], size) > OVERLAP
        # Of two that overlap, one may still be out of the question for this time.
        return cache[key] and float(away[second]) < 3.0

    def among(self, *conditions: str) -> Calibration:
        """Give the calibration with some of its conditions alone, for a question between these."""
        kept = {way: {n: m for n, m in of.items() if n in conditions} for way, of in self.models.items()}
        return Calibration(kept, self.notes)

    def text(self) -> str:
        """Write it as JSON text."""
        models = {way: {name: asdict(model) for name, model in of.items()} for way, of in self.models.items()}
        return (
            json.dumps({"format": FORMAT, "version": VERSION, "models": models, "notes": dict(self.notes)}, indent=1)
            + "\n"
        )


def load(path: Path) -> Calibration:
    """Read a calibration.

    Raises
    ------
    UserError
        If the file cannot be read, is not a calibration, or others could have changed it.
    """
    try:
        with checked_model(path, "calibration") as place:
            data = json.loads(place.read_text("utf-8"))
        if data["format"] != FORMAT or data["version"] != VERSION:
            raise ValueError("another format or version")
        models = {
            str(way): {str(name): TimeModel(**entry) for name, entry in of.items()}
            for way, of in data["models"].items()
        }
        numbers = [number for of in models.values() for model in of.values() for number in vars(model).values()]
        if not all(type(number) in (int, float) for number in numbers):
            raise ValueError("a model's value is not a number")
        return Calibration(models, dict(data.get("notes", {})))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "check the path") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is not a calibration: {error}", "make one with stripewise site calibrate") from error
