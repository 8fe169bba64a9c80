"""Carry-over: whether what ran before a phase changes what the phase costs, as the write-back of its data may."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_FEWEST = 4
_LEVEL = 0.05


@dataclass(frozen=True)
class CarryOver:
    """How phases after one with the candidate's settings compare with phases after one with the default's.

    Attributes
    ----------
    ratio : float
        How many times longer they took for a byte.
    p : float
        Two-sided, of the rank-sum test.
    phases : int
        In all.
    """

    ratio: float
    p: float
    phases: int

    @property
    def seen(self) -> bool:
        """Whether there is a carry-over, by a test at 5%."""
        return self.p < _LEVEL


def carry_over(default: Sequence[tuple[float, bool]], candidate: Sequence[tuple[float, bool]]) -> CarryOver | None:
    """Test for it (Mann and Whitney 1947), with the difference of the two arms taken out.

    Parameters
    ----------
    default, candidate : sequence of (float, bool)
        Of the phases of each arm: ln of the time for a byte, and whether the phase before had settings.

    Returns
    -------
    CarryOver or None
        None with fewer than four phases on one side.
    """
    rest: dict[bool, list[float]] = {False: [], True: []}
    for arm in (default, candidate):
        means = [statistics.fmean(x for x, after in arm if after is which) for which in {after for _, after in arm}]
        if len(means) == 2:  # else the arm says nothing of what came before
            middle = statistics.fmean(means)
            for x, after in arm:
                rest[after].append(x - middle)
    if min(map(len, rest.values())) < _FEWEST:
        return None
    from scipy.stats import mannwhitneyu  # noqa: PLC0415  slow to load

    p = float(mannwhitneyu(rest[True], rest[False]).pvalue)
    difference = statistics.median(rest[True]) - statistics.median(rest[False])
    return CarryOver(math.exp(difference), p, sum(map(len, rest.values())))
