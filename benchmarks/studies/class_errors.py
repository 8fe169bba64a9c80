"""Why a tree's class error is what it is: how far neighbours are apart, and what runs scatter."""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


def neighbours(table: Path) -> dict[str, Any]:
    """Classes between configurations that differ in one step of the block size alone, in a table of medians.

    A tree repeats values that it learned from; the nearest to a row held out that it can have seen is such a neighbour.
    """
    rows = _rows(table)
    blocks = sorted({int(row["piece_size"]) for row in rows})
    bounds = _bounds([float(row["bandwidth"]) for row in rows])
    places = {_key(row): _class(float(row["bandwidth"]), bounds) for row in rows}
    found = []
    for row in rows:
        at = blocks.index(int(row["piece_size"]))
        if at + 1 < len(blocks):
            other = places.get(_key({**row, "piece_size": str(blocks[at + 1])}))
            if other is not None:
                found.append(abs(other - places[_key(row)]))
    return {"pairs": len(found), "mean": statistics.mean(found), "median": statistics.median(found), "most": max(found)}


def scatter(table: Path) -> dict[str, Any]:
    """Class error of an oracle: each run predicted by the median of the others of its configuration."""
    from stripewise.models.validation import measure_class_error  # noqa: PLC0415  loads the models

    runs: dict[Any, list[float]] = defaultdict(list)
    for row in _rows(table):
        runs[_key(row)].append(float(row["bandwidth"]))
    actual, predicted = np.array(list(_left_out(runs))).T
    spread = statistics.median(statistics.stdev(values) / statistics.mean(values) for values in runs.values())
    return {"class_error": measure_class_error(actual, predicted, maximize=True), "spread": spread, "runs": len(actual)}


def of_medians(table: Path, draws: int = 20) -> dict[str, Any]:
    """Class error of an oracle that knows every true median, where it is judged by medians of as few runs as here.

    The scatter is the measured one: residuals of the logarithms about their means, of all configurations together, made
    larger by what the mean of so few runs takes of them. The observed medians stand for the true ones.
    """
    from stripewise.models.validation import measure_class_error  # noqa: PLC0415  loads the models

    runs: dict[Any, list[float]] = defaultdict(list)
    for row in _rows(table):
        runs[_key(row)].append(float(row["bandwidth"]))
    logs = np.log(np.array(list(runs.values())))
    repeats = logs.shape[1]
    residuals = ((logs - logs.mean(axis=1, keepdims=True)) * np.sqrt(repeats / (repeats - 1))).ravel()
    true = np.median(logs, axis=1)
    draw = np.random.default_rng(0)
    found = []
    for _ in range(draws):
        seen = np.median(true[:, None] + draw.choice(residuals, logs.shape), axis=1)
        found.append(measure_class_error(np.exp(seen), np.exp(true), maximize=True))
    return {"class_error": statistics.mean(found), "draws": draws}


def _left_out(runs: dict[Any, list[float]]) -> Iterator[tuple[float, float]]:
    for values in runs.values():
        for place, value in enumerate(values):
            yield value, statistics.median(values[:place] + values[place + 1 :])


def _rows(table: Path) -> list[dict[str, str]]:
    with table.with_suffix(".csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def _key(row: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in row.items() if name not in ("bandwidth", "repeat")))


def _bounds(values: list[float]) -> Any:
    from stripewise.models.validation import list_class_bounds  # noqa: PLC0415

    return list_class_bounds(max(values))


def _class(value: float, bounds: Any) -> int:
    from stripewise.models.validation import classify_values  # noqa: PLC0415

    return int(classify_values(np.array([value]), bounds)[0])
