"""Synthetic landscapes to develop samplers on, so that measured tables are left for validation.

Each is a small model of a tunable system: main effects of several shapes, interactions, a bottleneck, switches that
make other parameters meaningless, parameters that do nothing, cliffs, a residue that no model explains, and noise
with stragglers. Everything follows from the seed.
"""

from __future__ import annotations

import numpy as np

from stripewise.models.landscape import Landscape
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table

_MOST_POINTS = 6000
_REPEATS = 6
_WORDS = ["automatic", "disable", "enable", "lazy", "eager", "dynamic"]


def landscape(seed: int) -> Landscape:
    """Make a landscape of 200 to 6,000 points with 3 to 9 parameters."""
    rng = np.random.default_rng([seed, 20260])
    while True:
        columns = _columns(rng)
        grid = int(np.prod([len(c.values) for c in columns]))
        if 300 <= grid <= 200_000:
            break
    shape = [len(c.values) for c in columns]
    numbers = rng.choice(grid, size=min(grid, _MOST_POINTS), replace=False) if grid > _MOST_POINTS else np.arange(grid)
    levels = np.stack(np.unravel_index(np.sort(numbers), shape), axis=1)
    folded, columns = _switch(rng, columns, levels)
    log_time = _log_time(rng, columns, folded)
    if rng.random() < 0.25:  # a constrained grid
        a, b = rng.choice(len(columns), 2, replace=False)
        keep = levels[:, a] / shape[a] + levels[:, b] / shape[b] < rng.uniform(0.9, 1.5)
        if keep.sum() >= 300:
            levels, log_time = levels[keep], log_time[keep]
    noise = float(rng.choice([0.0, 0.02, 0.05, 0.1, 0.2, 0.4]))
    measured = log_time[:, None] + noise * _errors(rng, (len(levels), _REPEATS))
    stragglers = rng.random(measured.shape) < (rng.choice([0.0, 0.03, 0.08]) if noise else 0.0)
    measured += stragglers * rng.uniform(0.3, 1.5, size=measured.shape)
    maximize = bool(rng.random() < 0.6)
    values = 1000 * np.exp(-measured if maximize else measured)
    schema = Schema(
        name=f"synthetic_{seed}",
        objective=ObjectiveColumn(direction="maximize" if maximize else "minimize", unit=""),
        parameter=columns,
    )
    rows = np.repeat(np.arange(len(levels)), _REPEATS)
    return Landscape.of(
        Table(
            schema,
            levels[rows],
            np.empty((len(rows), 0), dtype=np.int64),
            np.tile(np.arange(_REPEATS), len(levels)),
            values.ravel(),
        )
    )


def _errors(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Errors of size about 1: normal, with heavy tails, or with two modes (a cache that helps or does not)."""
    kind = rng.choice(["normal", "heavy", "two modes"], p=[0.5, 0.25, 0.25])
    if kind == "normal":
        return rng.standard_normal(shape)
    if kind == "heavy":
        return rng.standard_t(3, size=shape) * 0.7
    slow = rng.random(shape) < rng.uniform(0.1, 0.4)
    return 0.4 * rng.standard_normal(shape) + 1.8 * slow


def _columns(rng: np.random.Generator) -> list[Column]:
    columns = []
    declared = rng.random() < 0.7
    for number in range(int(rng.integers(3, 10))):
        name = f"p{number}"
        kind = rng.choice(["log2", "linear", "categorical", "boolean"], p=[0.4, 0.2, 0.25, 0.15])
        values: list[int] | list[str]
        if kind == "log2":
            values = [2 ** int(k) for k in np.arange(int(rng.integers(3, 9))) + int(rng.integers(0, 12))]
        elif kind == "linear":
            values = [int(v) for v in np.arange(1, int(rng.integers(4, 17))) * int(rng.integers(1, 5))]
        else:
            values = _WORDS[: 2 if kind == "boolean" else int(rng.integers(3, 6))]
        default = values[int(rng.integers(len(values)))] if declared else None
        ordered = kind in ("log2", "linear")
        columns.append(
            Column(
                name=name,
                kind="ordinal" if ordered else "categorical",
                scale="log2" if kind == "log2" else "linear",
                values=values,
                default=default,
            )
        )
    return columns


def _switch(rng: np.random.Generator, columns: list[Column], levels: np.ndarray) -> tuple[np.ndarray, list[Column]]:
    """Let one category switch off one to three other parameters."""
    switches = [i for i, c in enumerate(columns) if c.kind == "categorical"]
    if not switches or rng.random() < 0.5 or columns[0].default is None:
        return levels, columns
    switch = int(rng.choice(switches))
    others = [i for i in range(len(columns)) if i != switch]
    off = rng.choice(others, size=min(len(others) - 1, int(rng.integers(1, 4))), replace=False)
    value = columns[switch].values[-1]
    folded = levels.copy()
    result = list(columns)
    for i in off:
        result[i] = columns[i].model_copy(update={"active_if": f"{columns[switch].name} != '{value}'"})
        folded[levels[:, switch] == len(columns[switch].values) - 1, i] = columns[i].values.index(columns[i].default)
    return folded, result


def _effect(rng: np.random.Generator, column: Column) -> np.ndarray:
    """Log time by level, over a range of about 1."""
    count = len(column.values)
    if column.kind == "categorical":
        return rng.normal(size=count) * 0.6
    x = np.linspace(0, 1, count)
    shape = rng.choice(
        ["saturating", "peak", "slope", "cliff", "smooth", "zigzag"], p=[0.25, 0.25, 0.15, 0.15, 0.12, 0.08]
    )
    sign = rng.choice([-1.0, 1.0])
    if shape == "saturating":
        x = x if sign > 0 else 1 - x
        return np.exp(-x / rng.uniform(0.1, 0.5))
    if shape == "peak":
        return ((x - rng.uniform(0, 1)) / rng.uniform(0.4, 1.0)) ** 2
    if shape == "slope":
        return sign * x
    if shape == "cliff":
        return sign * (x > rng.uniform(0.1, 0.9))
    if shape == "zigzag":
        return 0.5 * (np.arange(count) % 2) + sign * 0.5 * x
    return sum(rng.normal() / k * np.cos(np.pi * k * x + rng.uniform(0, 6)) for k in (1, 2, 3)) * 0.6


def _log_time(rng: np.random.Generator, columns: list[Column], levels: np.ndarray) -> np.ndarray:
    d = len(columns)
    strength = np.exp(rng.normal(-1.0, 0.9, size=d))
    strength[rng.random(d) < rng.uniform(0, 0.5)] = 0.0

    def component() -> np.ndarray:
        total = np.zeros(len(levels))
        for i, column in enumerate(columns):
            total += strength[i] * _effect(rng, column)[levels[:, i]]
        return total

    log_time = component()
    live = np.flatnonzero(strength)
    for _ in range(int(rng.integers(0, 2 * d))):
        if len(live) < 2:
            break
        a, b = (int(v) for v in rng.choice(live, 2, replace=False))
        size = rng.uniform(0.2, 1.2) * np.sqrt(strength[a] * strength[b])
        if rng.random() < 0.35:  # what counts is the product of two: a buffer for each process, threads of a block
            both = Column(
                name="both", kind="ordinal", values=list(range(len(columns[a].values) + len(columns[b].values)))
            )
            log_time += 1.5 * size * _effect(rng, both)[levels[:, a] + levels[:, b]]
            continue
        ea, eb = _effect(rng, columns[a]), _effect(rng, columns[b])
        log_time += size * ea[levels[:, a]] * eb[levels[:, b]]
    if rng.random() < 0.4:  # two stages in a row: whichever is slower sets the time
        other = component() + rng.normal() * 0.3
        log_time = np.logaddexp(3 * log_time, 3 * other) / 3
    if rng.random() < 0.3 and len(live) >= 2:  # out of memory, thrashing: a corner that is many times slower
        a, b = (int(v) for v in rng.choice(live, 2, replace=False))
        corner = levels[:, a] / len(columns[a].values) + levels[:, b] / len(columns[b].values)
        log_time += rng.uniform(0.7, 2.5) * (corner > rng.uniform(1.1, 1.6))
    rugged = float(rng.choice([0.0, 0.02, 0.05, 0.1])) * max(0.2, float(np.std(log_time)))
    residue = rng.standard_normal(200_003)
    key = np.zeros(len(levels), dtype=np.int64)
    for i in range(d):
        key = (key * 31 + levels[:, i] * (strength[i] > 0)) % 200_003
    return log_time + rugged * residue[key]
