"""Why a prescription is what it is: measured cells nearby, and rules that its own predictions follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import plain_number
from stripewise.models.base import PerformanceModel
from stripewise.models.cells import Data
from stripewise.models.domain import Floats
from stripewise.models.prescribe.grid import CandidateGrid
from stripewise.models.prescribe.prescription import Neighbour
from stripewise.models.table import Table
from stripewise.sizes import format_size

_NEAREST = 3
_DEPTH = 3
_ROWS = 20_000


def neighbours(model: PerformanceModel, table: Table | None, current: Floats, chosen: Floats) -> tuple[Neighbour, ...]:
    """Find the measured cells nearest to a workload with its prescribed settings, and with the current ones.

    Parameters
    ----------
    model : PerformanceModel
    table : Table or None
        What was measured; without it the cells that the model remembers, if it does.
    current, chosen : ndarray, shape (c,)
        Points.
    """
    cells = _cells(model, table)
    if cells is None:
        return ()
    points, values, runs = cells
    encoder = model.encoder
    known = encoder.encode(points).astype(np.float64)
    spread = known.std(axis=0)
    spread[spread == 0] = 1.0
    found: list[Neighbour] = []
    for point, is_chosen in ((chosen, True), (current, False)):
        if not is_chosen and np.array_equal(current, chosen):
            continue
        own = encoder.encode(model.domain.folded(point[None, :])).astype(np.float64)
        distance = np.sqrt(np.sum(((known - own) / spread) ** 2, axis=1))
        if model.domain.operation is not None:  # a read says nothing of a write
            distance[points[:, model.domain.operation] != point[model.domain.operation]] = np.inf
        nearest = np.argsort(distance, kind="stable")[:_NEAREST]
        for cell in nearest[np.isfinite(distance[nearest])]:
            row = {
                column.name: plain_number(model.domain.values(place, points[cell, [place]]).tolist()[0])
                for place, column in enumerate(model.domain.columns)
            }
            number = None if runs is None else int(runs[cell])
            found.append(Neighbour(row, float(values[cell]), number, float(distance[cell]), is_chosen))
    return tuple(found)


def _cells(model: PerformanceModel, table: Table | None) -> tuple[Floats, Floats, NDArray[np.int64] | None] | None:
    """Points of the measured cells, their typical values, and how many runs each had."""
    if table is not None:
        data = Data.of(model.domain, table)
        _, first, cell = np.unique(data.cells, return_index=True, return_inverse=True)
        order = np.argsort(cell, kind="stable")
        parts = np.split(data.target[order], np.cumsum(np.bincount(cell))[:-1])
        return data.points[first], np.exp([np.median(part) for part in parts]), np.bincount(cell)
    remembered = model.measured()
    return None if remembered is None else (*remembered, None)


def rules(grid: CandidateGrid, fixed: Floats, words: Mapping[str, Any], chosen: Floats) -> tuple[str, ...]:
    """Put the predictions for this workload into rules: a small tree over all combinations, and the way to the choice.

    Returns
    -------
    tuple of str
        One sentence for each turn on the way, and the leaf's value beside what the other settings get.
    """
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415  slow import

    points = grid.points(fixed[:1])
    points = points[grid.lawful(points, words, fixed[:1])]
    if len(points) > _ROWS:
        points = points[np.random.default_rng(0).permutation(len(points))[:_ROWS]]
    domain = grid.model.domain
    places = [tunable.place for tunable in grid.free if np.ptp(points[:, tunable.place]) > 0]
    if len(points) < 2 or not places:
        return ()
    mean = grid.predict(points).mean
    columns, names = _columns(grid, points, places)
    own, _ = _columns(grid, chosen[None, :], places, names)
    tree = DecisionTreeRegressor(max_depth=_DEPTH, min_samples_leaf=max(1, len(points) // 50), random_state=0)
    tree.fit(columns, mean)
    path = tree.decision_path(own.astype(np.float32)).indices
    inner = tree.tree_
    found = []
    sign = 1.0 if domain.objective.maximize else -1.0
    for node in path:
        if inner.children_left[node] < 0:
            continue
        name, place, category = names[inner.feature[node]]
        left = own[0, inner.feature[node]] <= inner.threshold[node]
        mine, other = inner.children_left[node], inner.children_right[node]
        if not left:
            mine, other = other, mine
        ratio = float(np.exp(inner.value[mine, 0, 0] - inner.value[other, 0, 0]))
        found.append(
            f"{_turn(domain, name, place, category, bool(left), points, inner.threshold[node])}: "
            f"{ratio:.2f} times what the others get"
        )
    leaf = path[-1]
    typical = float(np.exp(sign * inner.value[leaf, 0, 0]))
    unit = domain.objective.unit
    found.append(f"so about {typical:.4g} {unit}".rstrip() + f" ({int(inner.n_node_samples[leaf])} combinations)")
    return tuple(found)


_Name = tuple[str, int, int | None]


def _columns(
    grid: CandidateGrid, points: Floats, places: list[int], names: list[_Name] | None = None
) -> tuple[Floats, list[_Name]]:
    """Numbers as they are, categories as indicators."""
    domain = grid.model.domain
    if names is None:
        names = []
        for place in places:
            column = domain.columns[place]
            if column.kind == "categorical":
                names += [(column.name, place, int(level)) for level in np.unique(points[:, place])]
            else:
                names.append((column.name, place, None))
    columns = [points[:, place] if level is None else points[:, place] == level for _, place, level in names]
    return np.stack(columns, axis=1).astype(np.float64), names


def _turn(
    domain: Any, name: str, place: int, category: int | None, left: bool, points: Floats, threshold: float
) -> str:
    column = domain.columns[place]
    if category is not None:
        return f"{name} is {'not ' if left else ''}{column.values[category]}"
    values = np.unique(points[:, place])
    below, above = values[values <= threshold], values[values > threshold]
    number = float(below[-1] if left else above[0])
    unit = "" if column.unit == "count" else column.unit
    shown = format_size(number) if unit == "B" else f"{number:g} {unit}".rstrip()
    return f"{name} at {'most' if left else 'least'} {shown}"
