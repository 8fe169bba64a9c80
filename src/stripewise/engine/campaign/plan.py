"""All runs of a campaign as far as they are known: a sequential design chooses the next ones from results.

Repeats are interleaved, so that a drift of the machine meets all combinations alike.

The combinations that a campaign measures: all, some at random, some spread evenly, or where a model is unsure.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration
from stripewise.errors import UserError
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Point, Points
from stripewise.trial import Run, State

Floats = NDArray[np.float64]
_TREES = 100
_NEAR = 64


def first_batch(points: Points) -> list[Point]:
    """Choose what is measured before any result is known: everything, but for a sequential design.

    Returns
    -------
    list of Point
        Operation by operation. The same for the same campaign, whenever it is asked.
    """
    design = points.campaign.design
    found: list[Point] = []
    for operation in points.campaign.operations:
        whole = points.of(operation)
        size = {"grid": None, "sequential": design.initial}.get(design.kind, design.size)
        if design.kind == "sequential" and design.size is not None:
            size = min(design.initial, design.size)
        if size is None or size >= len(whole):
            found += whole
            continue
        rng = _generator(points.campaign, operation, 0)
        if design.kind == "subset":
            chosen = rng.choice(len(whole), size, replace=False)
        else:
            chosen = _spread_points(points.levels(operation), size, rng)
        found += [whole[int(index)] for index in np.sort(chosen)]
    return found


def next_batch(points: Points, measured: dict[str, dict[int, float]], number: int) -> list[Point]:
    """Choose the next combinations of a sequential design: where an ensemble of trees is least sure, well apart.

    Parameters
    ----------
    measured : dict
        By operation: index of a point in :meth:`Points.of` to its median so far; failed points have NaN.
    number : int
        Of the batch, from 1; part of the seed.

    Returns
    -------
    list of Point
        Empty when the design is complete.
    """
    design = points.campaign.design
    found: list[Point] = []
    if design.kind != "sequential":
        return []
    for operation in points.campaign.operations:
        whole, known = points.of(operation), measured.get(operation, {})
        wanted = min(design.batch, (design.size or 0) - len(known), len(whole) - len(known))
        if wanted <= 0:
            continue
        rng = _generator(points.campaign, operation, number)
        found += [whole[index] for index in _rank_doubtful(points.levels(operation), known, wanted, rng)]
    return found


def _generator(campaign: Campaign, operation: str, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([campaign.seed, len(operation), number]))


def _spread_points(levels: Floats, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A Latin hypercube on the unit cube, each of its points moved to the nearest combination that is left."""
    dimensions = levels.shape[1]
    cube = np.stack([rng.permutation(size) for _ in range(dimensions)], axis=1)
    wanted = (cube + rng.random((size, dimensions))) / size
    from scipy.spatial import cKDTree  # noqa: PLC0415  slow to load

    tree = cKDTree(levels + rng.uniform(-1e-6, 1e-6, levels.shape))
    taken: set[int] = set()
    for place in wanted:
        near = min(_NEAR, len(levels))
        while True:
            _, order = tree.query(place, k=near)
            free = next((int(index) for index in np.atleast_1d(order) if int(index) not in taken), None)
            if free is not None:
                taken.add(free)
                break
            near = min(2 * near, len(levels))
    return np.array(sorted(taken), dtype=np.int64)


def _rank_doubtful(levels: Floats, known: dict[int, float], wanted: int, rng: np.random.Generator) -> list[int]:
    usable = [index for index, value in known.items() if np.isfinite(value) and value > 0]
    left = np.array([index for index in range(len(levels)) if index not in known], dtype=np.int64)
    from scipy.spatial import cKDTree  # noqa: PLC0415  slow to load

    gap = np.asarray(cKDTree(levels[list(known)]).query(levels[left])[0], dtype=np.float64)
    doubt = np.ones(len(left))
    if len(usable) >= 4:
        from sklearn.ensemble import ExtraTreesRegressor  # noqa: PLC0415  slow to load

        forest = ExtraTreesRegressor(_TREES, min_samples_leaf=1, random_state=int(rng.integers(2**31)), bootstrap=True)
        forest.fit(levels[usable], np.log([known[index] for index in usable]))
        doubt = np.std([tree.predict(levels[left]) for tree in forest.estimators_], axis=0)
    chosen: list[int] = []
    for _ in range(wanted):
        # The deviation alone would pick neighbours; the distance keeps a batch apart.
        best = int(np.argmax((doubt + 1e-9) * np.sqrt(gap + 1e-9)))
        chosen.append(int(left[best]))
        gap = np.minimum(gap, np.linalg.norm(levels[left] - levels[left[best]], axis=1))
        doubt[best] = -1.0
    return chosen


Shard = tuple[int, int]
AGAIN = 1_000_000_000
"""Added to a failed run's number when it is made once more."""


@dataclass(frozen=True)
class PlannedPoint:
    """A run to make.

    Attributes
    ----------
    number : int
        Its number in the whole campaign, in whichever shard it is made.
    trial : int
        Number of its point.
    repeat : int
        From 0.
    """

    number: int
    trial: int
    point: Point
    repeat: int


def schedule(points: Sequence[Point], first: int, repeats: int, seed: int) -> list[PlannedPoint]:
    """Order the runs of a batch: repeat by repeat, in each operation by operation, in each in random order.

    Parameters
    ----------
    points : sequence of Point
        Of the batch.
    first : int
        Number of its first point; runs are numbered from ``first * repeats``.
    """
    operations = list(dict.fromkeys(point.operation for point in points))
    places = {name: [i for i, point in enumerate(points) if point.operation == name] for name in operations}
    found: list[PlannedPoint] = []
    for repeat in range(repeats):
        rng = np.random.Generator(np.random.PCG64([seed, first, repeat]))
        for operation in operations:
            for place in rng.permutation(places[operation]):
                number = first * repeats + len(found)
                found.append(PlannedPoint(number, first + int(place), points[int(place)], repeat))
    return found


def parse_shard(text: str) -> Shard:
    """Read ``i/n``.

    Raises
    ------
    UserError
        If it is not that, or i is not one of 1 to n.
    """
    match = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
    if match is None:
        raise UserError(f"--shard '{text}' is not i/n", "write 2/8 for the second of eight")
    index, count = int(match[1]), int(match[2])
    if not 1 <= index <= count:
        raise UserError(
            f"--shard {index}/{count}: this part does not exist", f"choose from 1/{count} to {count}/{count}"
        )
    return index, count


def of_shard(runs: Sequence[PlannedPoint], shard: Shard) -> list[PlannedPoint]:
    """Give the runs of a shard: every n-th, so that each has all operations and repeats."""
    index, count = shard
    return [run for run in runs if run.number % count == index - 1]


@dataclass(frozen=True)
class Progressed:
    """Planned runs.

    Attributes
    ----------
    runs : tuple of PlannedPoint
        In the order in which they are made.
    complete : bool
        Whether no further batch will follow.
    """

    runs: tuple[PlannedPoint, ...]
    complete: bool


class CampaignPlan:
    """Grows the plan of a campaign with its results; the same results give the same plan."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._runs: list[PlannedPoint] = []
        self._batches = 0
        self._trials = 0
        self._done = False
        self._index: dict[str, dict[Configuration, int]] = {
            operation: {point.values: index for index, point in enumerate(points.of(operation))}
            for operation in points.campaign.operations
        }

    def known(self, results: Mapping[int, Run]) -> Progressed:
        """Give the runs that are known, with one more batch where all before have ended.

        Parameters
        ----------
        results : mapping
            Runs by number.
        """
        while not self._done and all(value_of(results, run.number) is not None for run in self._runs):
            campaign = self._points.campaign
            if self._batches == 0:
                batch = first_batch(self._points)
            else:
                batch = next_batch(self._points, self._medians(results), self._batches)
            if not batch:
                self._done = True
                break
            self._runs += schedule(batch, self._trials, campaign.repeats, campaign.seed)
            self._trials += len(batch)
            self._batches += 1
            if campaign.design.kind != "sequential":
                self._done = True
        return Progressed(tuple(self._runs), self._done)

    def _medians(self, results: Mapping[int, Run]) -> dict[str, dict[int, float]]:
        values: dict[tuple[str, int], list[float]] = {}
        for planned in self._runs:
            place = self._index[planned.point.operation][planned.point.values]
            run = value_of(results, planned.number)
            kept = values.setdefault((planned.point.operation, place), [])
            if run is not None and run.value is not None:
                kept.append(run.value)
        found: dict[str, dict[int, float]] = {}
        for (operation, place), kept in values.items():
            found.setdefault(operation, {})[place] = statistics.median(kept) if kept else float("nan")
        return found


def value_of(results: Mapping[int, Run], number: int) -> Run | None:
    """Give the ended run of a planned number: the finished one, where a failed run was made again."""
    found: Run | None = None
    while number in results:
        run = results[number]
        if run.state.ended:
            found = run
            if run.state is State.FINISHED:
                break
        number += AGAIN
    return found
