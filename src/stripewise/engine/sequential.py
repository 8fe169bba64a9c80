"""Looking at growing data more than once without fooling oneself: group-sequential boundaries.

The chance of a false claim is spent over the looks in proportion to the pairs seen (Lan and DeMets, 1983), and the
critical values follow from the joint distribution of the looks by recursive integration (Armitage, McPherson and Rowe,
1969). The statistic is the signed-rank test's: its joint null distribution does not depend on the noise, and normal
increments describe it well from eight pairs on (checked by simulation in the tests).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from stripewise.search.statistics import smallest_p

FIRST_LOOK = 8
_POINTS = 161
_WIDTH = 8.0
# Signed ranks of few pairs grow a little more jumpily than normal increments: simulated false claims are up to a tenth
# more often than computed (0.0275 for 0.025), so that much less is spent.
_SPENT_SHARE = 0.91


def _efficiency(pairs: int) -> float:
    """Share of the information in normal values that signed ranks use: 3/pi in the limit, less in few pairs."""
    return float(3 / np.pi * max(0.1, 1 - 2 / pairs))


def looks(most_pairs: int) -> tuple[int, ...]:
    """Numbers of pairs at which the data are looked at: 8, then every 4, later every quarter more, and the last."""
    if most_pairs <= FIRST_LOOK:
        return (most_pairs,) if most_pairs > 0 else ()
    planned = [FIRST_LOOK]
    while planned[-1] < most_pairs:
        planned.append(planned[-1] + max(4, planned[-1] // 16 * 4))
    return (*planned[:-1], most_pairs)


@dataclass(frozen=True)
class Boundary:
    """The test at each look.

    Attributes
    ----------
    looks : tuple of int
        Pairs at each look.
    levels : tuple of float
        One-sided level at each look: a gain is claimed if the exact p-value is at most this. 0: no claim possible.
    """

    looks: tuple[int, ...]
    levels: tuple[float, ...]


@lru_cache(maxsize=512)
def boundary(planned: tuple[int, ...], alpha: float, most_pairs: int, final: bool = False) -> Boundary:
    """Find the level of each look.

    Parameters
    ----------
    planned : tuple of int
        Pairs at the looks, ascending.
    alpha : float
        One-sided chance of a false claim, all looks together.
    most_pairs : int
        Pairs at which everything is spent.
    final : bool
        Whether the last look is the end of the experiment although ``most_pairs`` was not reached: what is left is
        spent there. Valid where the end did not depend on the values (a budget).
    """
    levels: list[float] = []
    if len(planned) > 1:
        alpha *= _SPENT_SHARE
    spent, pairs = 0.0, 0
    density = _Density.start()
    for index, n in enumerate(planned):
        last = final and index == len(planned) - 1
        target = alpha if last else alpha * min(1.0, n / most_pairs)
        wanted = max(0.0, target - spent)
        critical = density.critical(n - pairs, n, wanted)
        # Ranks are discrete: what the attainable level leaves unspent stays available to later looks.
        level = smallest_p(n, float(ndtr(-critical))) if wanted > 0 else 0.0
        levels.append(level)
        bound = -float(ndtri(level)) * np.sqrt(n) if level > 0 else np.inf
        crossed, density = density.step(n - pairs, n, bound)
        spent += crossed
        pairs = n
    return Boundary(planned, tuple(levels))


def crossing_probabilities(design: Boundary, drift: float, start: tuple[int, float] = (0, 0.0)) -> tuple[float, ...]:
    """Chance of the first claim at each look, for a mean of ``drift`` standard deviations a pair.

    ``start`` gives pairs already seen and the sum of their standardised values: the chances are then conditional on it.
    """
    pairs, total = start
    density = _Density.start(total)
    chances = []
    for n, level in zip(design.looks, design.levels, strict=True):
        if n <= pairs:
            chances.append(0.0)
            continue
        bound = -float(ndtri(level)) * np.sqrt(n) if level > 0 else np.inf
        crossed, density = density.step(n - pairs, n, bound, drift)
        chances.append(crossed)
        pairs = n
    return tuple(chances)


def power(pairs: int, gain: float, noise: float, confidence: float = 0.95) -> float:
    """Chance to prove a gain with at most ``pairs`` pairs.

    Parameters
    ----------
    pairs : int
    gain : float
        True speed-up (1.1 is 10%).
    noise : float
        Standard deviation of the logarithm of one run.
    """
    if pairs < 1 or gain <= 1.0:
        return 0.0
    design = boundary(looks(pairs), (1 - confidence) / 2, pairs)
    drift = float(np.log(gain)) / max(noise * np.sqrt(2), 1e-9) * np.sqrt(_efficiency(pairs))
    return min(1.0, sum(crossing_probabilities(design, min(drift, 20.0))))


@dataclass(frozen=True)
class _Density:
    """Distribution of the running sum of standardised values, where no look has stopped yet."""

    at: NDArray[np.float64]
    weight: NDArray[np.float64]

    @classmethod
    def start(cls, total: float = 0.0) -> _Density:
        return cls(np.array([total]), np.array([1.0]))

    def _tail(self, more: int, bound: float, drift: float) -> float:
        return float(np.sum(self.weight * ndtr((self.at + drift * more - bound) / np.sqrt(more))))

    def critical(self, more: int, n: int, chance: float) -> float:
        """The standard score at ``n`` pairs that is exceeded with ``chance`` (and not before)."""
        low, high = -_WIDTH, _WIDTH
        for _ in range(60):
            middle = (low + high) / 2
            if self._tail(more, middle * np.sqrt(n), 0.0) > chance:
                low = middle
            else:
                high = middle
        return high

    def step(self, more: int, n: int, bound: float, drift: float = 0.0) -> tuple[float, _Density]:
        """Add ``more`` pairs: the chance to exceed ``bound``, and the distribution of what did not."""
        crossed = self._tail(more, bound, drift) if np.isfinite(bound) else 0.0
        centre = drift * more
        low = self.at[0] + centre - _WIDTH * np.sqrt(more)
        high = min(bound, self.at[-1] + centre + _WIDTH * np.sqrt(more))
        if high <= low:
            return crossed, _Density(np.array([low]), np.array([0.0]))
        points = np.linspace(low, high, _POINTS)
        simpson = np.full(_POINTS, 2.0)
        simpson[1::2] = 4.0
        simpson[[0, -1]] = 1.0
        simpson *= (points[1] - points[0]) / 3
        score = (points[:, None] - self.at[None, :] - centre) / np.sqrt(more)
        spread = np.exp(-(score**2) / 2) / np.sqrt(2 * np.pi * more)
        return crossed, _Density(points, simpson * (spread @ self.weight))


def quantile(chance: float) -> float:
    """Standard normal quantile."""
    return float(ndtri(chance))
