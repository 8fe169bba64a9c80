"""All runs of a campaign as far as they are known: a sequential design chooses the next ones from results.

Repeats are interleaved, so that a drift of the machine meets all combinations alike.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stripewise.catalogue.configuration import Configuration
from stripewise.engine.campaign.designs import first_batch, next_batch
from stripewise.errors import UserError
from stripewise.requests.campaign_points import Point, Points
from stripewise.trial import Run, State

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
    point : Point
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
    repeats, seed : int
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
    """Grows the plan of a campaign with its results; the same results give the same plan.

    Parameters
    ----------
    points : Points
    """

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
