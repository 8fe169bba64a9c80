"""When a gain is proven: the decision rules of the confirmation. Pure functions of the pairs seen so far.

The rules are those of noisy production systems: pairs of default and candidate in random order, no run of the search
among them, a claim only if the interval's lower bound exceeds the minimum effect, every look and every candidate paid
for, and a comparison of the default with itself that must claim nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from stripewise.engine import sequential
from stripewise.result import Same
from stripewise.search.statistics import Floats, Speedup, log_speedups, paired_speedup, signed_rank_p

_HOPELESS = 0.02
_PROMISING = 0.1
_LARGEST = 1000
_PRICE_OF_LOOKING = 1.2


class Decision(StrEnum):
    """What the pairs so far call for."""

    CONTINUE = "continue"
    PROVEN = "proven"
    NOT_PROVEN = "not_proven"
    FUTILE = "futile"
    INVALID = "invalid"


@dataclass(frozen=True)
class Assessment:
    """The state of a confirmation.

    Attributes
    ----------
    decision : Decision
    speedup : Speedup or None
        Its interval is adjusted for looks and candidates: the lower end exceeds the minimum effect exactly if the gain
        is proven. None without pairs.
    level : float
        One-sided level of the last look.
    """

    decision: Decision
    speedup: Speedup | None
    level: float


def assess(
    default: Sequence[float],
    candidate: Sequence[float],
    *,
    maximize: bool,
    most_pairs: int,
    confidence: float = 0.95,
    minimum_effect: float = 1.0,
    candidates: int = 1,
    final: bool = False,
) -> Assessment:
    """Judge the pairs so far.

    Parameters
    ----------
    default, candidate : sequence of float, shape (n,)
        Values of the complete pairs in order; a failed run as the worst value there is.
    maximize : bool
        Whether larger values are better.
    most_pairs : int
        Pairs after which the confirmation ends; fixed before the first.
    confidence : float
        Two-sided, for all looks and candidates together.
    minimum_effect : float
        Speed-up that the lower bound must exceed.
    candidates : int
        How many candidates may be tested in all; each gets its share of the level.
    final : bool
        No more pairs will come, for a reason outside the values (a budget): judge now.

    Raises
    ------
    ValueError
        See :func:`~stripewise.search.statistics.log_speedups`.
    """
    n = len(default)
    alpha = (1 - confidence) / 2 / candidates
    offset = math.log(minimum_effect)
    most_pairs = max(most_pairs, n)
    planned = sequential.looks(most_pairs)
    reached = tuple(look for look in planned if look <= n)
    upcoming = next((look for look in planned if look > n), None)
    if not n:
        return Assessment(Decision.NOT_PROVEN if final or not upcoming else Decision.CONTINUE, None, 0.0)
    logs = log_speedups(default, candidate, maximize)
    design = sequential.boundary(reached, alpha, most_pairs)
    level = design.levels[-1] if design.levels else 0.0
    for look, at in zip(design.looks, design.levels, strict=True):
        if _claims(logs[:look], offset, at):
            # What was proven at an earlier look stays proven; its interval is the one that was paid for.
            found = paired_speedup(default[:look], candidate[:look], maximize, 1 - 2 * at)
            return Assessment(Decision.PROVEN, found, at)
    if not upcoming:
        return Assessment(Decision.NOT_PROVEN, paired_speedup(default, candidate, maximize, 1 - 2 * level), level)
    if reached and reached[-1] == n and _hopeless(logs, offset, alpha, most_pairs):
        return Assessment(Decision.FUTILE, paired_speedup(default, candidate, maximize, 1 - 2 * level), level)
    if final:
        ended = sequential.boundary((*(look for look in reached if look < n), n), alpha, most_pairs, True)
        level = ended.levels[-1]
        decision = Decision.PROVEN if _claims(logs, offset, level) else Decision.NOT_PROVEN
        return Assessment(decision, paired_speedup(default, candidate, maximize, 1 - 2 * level), level)
    return Assessment(Decision.CONTINUE, paired_speedup(default, candidate, maximize, 1 - 2 * level), level)


def _claims(logs: Floats, offset: float, level: float) -> bool:
    return level > 0 and signed_rank_p(logs, offset) <= level * (1 + 1e-9)


def _hopeless(logs: Floats, offset: float, alpha: float, most_pairs: int) -> bool:
    if signed_rank_p(logs, offset) <= _PROMISING:
        return False
    return _conditional_power(logs - offset, alpha, most_pairs) < _HOPELESS


def _conditional_power(logs: Floats, alpha: float, most_pairs: int) -> float:
    """Chance that later looks still prove a gain, if the truth is one standard error better than what was seen."""
    n = len(logs)
    p = min(max(signed_rank_p(logs), 1e-12), 1 - 1e-12)
    score = -sequential.quantile(p)
    design = sequential.boundary(sequential.looks(most_pairs), alpha, most_pairs)
    drift = (score + 1.0) / math.sqrt(n)
    return sum(sequential.crossing_probabilities(design, drift, (n, score * math.sqrt(n))))


def same_against_same(default: Sequence[float], maximize: bool, confidence: float = 0.95) -> Same | None:
    """Compare neighbouring runs of the default with each other, by the rules that compare it with the candidate.

    Each run is used once; which of two neighbours plays the candidate alternates, as the order of real pairs does.
    Failed runs are left out. None with fewer than two runs. It has not passed where the rules would have claimed a
    gain: nothing that was measured then proves anything.
    """
    values = [value for value in default if 0 < value < math.inf]
    pairs = [values[i : i + 2] for i in range(0, len(values) - 1, 2)]
    if not pairs:
        return None
    turned = [pair[::-1] if index % 2 else pair for index, pair in enumerate(pairs)]
    found = paired_speedup([a for a, _ in turned], [b for _, b in turned], maximize, confidence)
    return Same(ratio=found.estimate, interval=found.interval, passed=not found.interval.low > 1.0)


def pairs_needed(gain: float, noise: float, confidence: float = 0.95, chance: float = 0.8) -> int:
    """Fewest pairs that prove a gain with the given chance; as a limit of :func:`assess`, whose looks are paid for.

    Parameters
    ----------
    gain : float
        Logarithm of the true speed-up.
    noise : float
        Standard deviation of the logarithm of one run.

    Returns
    -------
    int
        At most 1000, which stands for hopeless.
    """
    alpha = (1 - confidence) / 2
    if gain <= 0:
        return _LARGEST
    gain = min(gain, 10.0)
    fixed = 2 * ((sequential.quantile(1 - alpha) + sequential.quantile(chance)) * noise / gain) ** 2
    low = max(math.ceil(-math.log2(alpha)), math.floor(fixed))
    if low > _LARGEST // 4:
        return min(_LARGEST, math.ceil(fixed * _PRICE_OF_LOOKING))
    high = low
    while sequential.power(high, math.exp(gain), noise, confidence) < chance:
        low, high = high + 1, high + max(2, high // 4)
    while low < high:
        middle = (low + high) // 2
        if sequential.power(middle, math.exp(gain), noise, confidence) < chance:
            low = middle + 1
        else:
            high = middle
    return low
