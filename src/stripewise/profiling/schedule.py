"""In which order runs are made: repeats interleaved, so that a drift of the machine meets all combinations alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stripewise.errors import UserError
from stripewise.spec.campaign_points import Point

Shard = tuple[int, int]


@dataclass(frozen=True)
class PlannedPoint:
    """A run that is to be made.

    Attributes
    ----------
    number : int
        Its number in the whole campaign; the same whoever makes it.
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
