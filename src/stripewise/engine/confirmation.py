"""When a gain is proven: the decision rules of the confirmation. Pure functions of the pairs seen so far.

The rules are those of noisy production systems: pairs of default and candidate in random order, no run of the search
among them, a claim only if the interval's lower bound exceeds the minimum effect, every look and every candidate paid
for, and a comparison of the default with itself that must claim nothing.

Looking at growing data more than once without fooling oneself: group-sequential boundaries.

The chance of a false claim is spent over the looks in proportion to the pairs seen (Lan and DeMets, 1983), and the
critical values follow from the joint distribution of the looks by recursive integration (Armitage, McPherson and Rowe,
1969). The statistic is the signed-rank test's: its joint null distribution does not depend on the noise, and normal
increments describe it well from eight pairs on (checked by simulation in the tests).

A large gain is proven before that, by the order alone: where eight runs are in random order, four of them of the
candidate, these are the best four in one of 70 orders if nothing is to be gained (the rank-sum test of Wilcoxon, 1945,
at its most extreme). The order is that of pairs, drawn at random among the eight, each in random order. So those pairs
count in later looks as all others do, whatever the machine does meanwhile.

In some orders, no run of an arm follows one of its own. There a candidate that leaves its work to the next run looks
like a gain. The eight runs have none of these orders: what is left is drawn 70/62 times as often, so each look spends
62/70 of its chance. Later pairs prove nothing before each arm has followed itself.

The confirmation's runs as pairs, and what they prove.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from stripewise.requests.experiment import Confirmation
from stripewise.requests.objective import Objective
from stripewise.result import Same
from stripewise.search.belief.costs import Costs
from stripewise.search.belief.posterior import Posterior, RepeatNoise
from stripewise.search.statistics import (
    Floats,
    Speedup,
    estimate_shuffled,
    estimate_speedup,
    log_speedups,
    signed_rank_p,
    smallest_p,
)
from stripewise.trial import History, Role, Run, State, Trial

_CHANCE = 0.8
_PRIOR_RUNS = 3
"""Weight of the typical noise: more careful than the search, whose mistakes cost a run and not a proof."""
FIRST_LOOK = 8
_LAST_EARLY = 12
_POINTS = 161
_WIDTH = 8.0
# Signed ranks of few pairs grow a little more jumpily than normal increments: simulated false claims are up to a tenth
# more often than computed (0.0275 for 0.025), so that much less is spent.
_SPENT_SHARE = 0.91


def _efficiency(pairs: int) -> float:
    """Share of the information in normal values that signed ranks use: 3/pi in the limit, less in few pairs."""
    return float(3 / np.pi * max(0.1, 1 - 2 / pairs))


def _alpha(rule: Confirmation) -> float:
    """One-sided chance of a false claim that each candidate has, all looks together."""
    return (1 - rule.confidence) / 2 / rule.candidates


def shuffled_pairs(rule: Confirmation) -> int:
    """Fewest pairs that can prove a gain if the order of all their runs is random."""
    return next(n for n in itertools.count(1) if _chance_of_order(n) <= _SPENT_SHARE * _share_drawn(n) * _alpha(rule))


def are_shuffled(first: int, rule: Confirmation) -> bool:
    """Whether all runs before a first look are in one random order: as pairs, these would prove nothing."""
    return first < provable_pairs(rule)


def shuffle(rng: np.random.Generator, pairs: int) -> list[tuple[int, str]]:
    """Order the runs of so many pairs at random: the pair of each, from 0, and its arm.

    Every order of the two arms is equally likely in which each follows itself; of a single pair, both are.
    """
    names = ("default", "candidate")
    while True:
        places = rng.permutation(2 * pairs).reshape(pairs, 2)
        found = sorted((int(row[i]), pair, names[i]) for pair, row in enumerate(places) for i in (0, 1))
        order = [(pair, arm) for _, pair, arm in found]
        if pairs == 1 or len({arm for (_, arm), (_, after) in itertools.pairwise(order) if arm == after}) == 2:
            return order


def _share_drawn(pairs: int) -> float:
    """Share of all orders in which each arm follows itself: in 2n of them, one of the arms does not."""
    return 1 - 2 * pairs / math.comb(2 * pairs, pairs)


def _chance_of_order(pairs: int) -> float:
    """Chance that in a random order every run of the candidate beats every run of the default, without a gain."""
    return 1 / math.comb(2 * pairs, pairs)


def looks(most_pairs: int, first: int = FIRST_LOOK) -> tuple[int, ...]:
    """Numbers of pairs at which the data are looked at: 8, then every 4, later every quarter more, and the last.

    An earlier first look is followed by one after every second pair until the twelfth.
    """
    if most_pairs <= first:
        return (most_pairs,) if most_pairs > 0 else ()
    planned = [first]
    while planned[-1] < most_pairs:
        early = first < FIRST_LOOK and planned[-1] < _LAST_EARLY
        planned.append(planned[-1] + (2 if early else max(4, planned[-1] // 16 * 4)))
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
def boundary(
    planned: tuple[int, ...], alpha: float, most_pairs: int, final: bool = False, first: int = FIRST_LOOK
) -> Boundary:
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
    first : int
        Pairs at the first look. A look before the eighth pair takes what winning every pair needs, or all runs in a
        random order, and the looks after it share the rest.
    """
    levels: list[float] = []
    shuffled = 0.5**first > alpha
    if len(planned) > 1:
        alpha *= _SPENT_SHARE
    if shuffled:
        alpha *= _share_drawn(first)
    spent, pairs = 0.0, 0
    price = _chance_of_order(first) if shuffled else 0.5**first
    early = first < FIRST_LOOK and planned[:1] == (first,) and (shuffled or first < most_pairs) and price <= alpha
    begun, paid = (first, price) if early else (0, 0.0)
    density = _Density.start()
    for index, n in enumerate(planned):
        last = final and index == len(planned) - 1
        share = min(1.0, (n - begun) / max(1, most_pairs - begun))
        target = alpha if last else paid + (alpha - paid) * share
        wanted = max(0.0, target - spent)
        critical = density.critical(n - pairs, n, wanted)
        # Ranks are discrete: what the attainable level leaves unspent stays available to later looks.
        level = smallest_p(n, float(scipy.special.ndtr(-critical))) if wanted > 0 else 0.0
        if paid and index == 0:
            level = paid
        levels.append(level)
        by_order = shuffled and level > 0 and n == first
        bound = -float(scipy.special.ndtri(level)) * np.sqrt(n) if level > 0 and not by_order else np.inf
        crossed, density = density.step(n - pairs, n, bound)
        # What is claimed by the order of the runs is no part of the sum of ranks: it is paid for apart.
        spent += paid if by_order else crossed
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
        bound = -float(scipy.special.ndtri(level)) * np.sqrt(n) if level > 0 else np.inf
        crossed, density = density.step(n - pairs, n, bound, drift)
        chances.append(crossed)
        pairs = n
    return tuple(chances)


def power(pairs: int, gain: float, noise: float, confidence: float = 0.95) -> float:
    """Chance to prove a gain with at most ``pairs`` pairs.

    Parameters
    ----------
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
        return float(np.sum(self.weight * scipy.special.ndtr((self.at + drift * more - bound) / np.sqrt(more))))

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
    return float(scipy.special.ndtri(chance))


_HOPELESS = 0.02
_FEWEST_HOPELESS = 5
"""Pairs from which on each may end a proof in vain, where an early first look was fixed; that claims no gain."""
_PROMISING = 0.1
_LARGEST = 1000
_PRICE_OF_LOOKING = 1.2
_GAINS = 15
"""Gains that stand for all that the search leaves possible."""
_USUAL = Confirmation()


class Decision(StrEnum):
    """What the pairs so far call for."""

    CONTINUE = "continue"
    PROVEN = "proven"
    NOT_PROVEN = "not_proven"
    FUTILE = "futile"
    INVALID = "invalid"
    SHIFTED = "shifted"
    IDLE = "idle"
    BROKEN = "broken"


@dataclass(frozen=True)
class Assessment:
    """The state of a confirmation.

    Attributes
    ----------
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
    rule: Confirmation = _USUAL,
    final: bool = False,
    first: int = FIRST_LOOK,
    mute: int = 0,
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
    rule : Confirmation
        The two-sided confidence for all looks and candidates together, the speed-up that the lower bound must exceed,
        and how many candidates may be tested in all; each gets its share of the level.
    final : bool
        No more pairs will come, for a reason outside the values (a budget): judge now.
    first : int
        Pairs at the first look; fixed before the first pair.
    mute : int
        How many of the first pairs prove nothing by themselves, for a reason outside the values.

    Raises
    ------
    ValueError
        See :func:`~stripewise.search.statistics.log_speedups`.
    """
    n = len(default)
    alpha = _alpha(rule)
    offset = math.log(rule.minimum_effect)
    most_pairs = max(most_pairs, n)
    shuffled = first if are_shuffled(first, rule) else 0
    planned = looks(most_pairs, first)
    reached = tuple(look for look in planned if look <= n)
    upcoming = next((look for look in planned if look > n), None)
    if not n:
        return Assessment(Decision.NOT_PROVEN if final or not upcoming else Decision.CONTINUE, None, 0.0)

    def estimate(pairs: int, level: float) -> Speedup:
        find = estimate_shuffled if pairs == shuffled else estimate_speedup
        return find(default[:pairs], candidate[:pairs], maximize, 1 - 2 * level)

    logs = log_speedups(default, candidate, maximize)
    design = boundary(reached, alpha, most_pairs, first=first)
    level = design.levels[-1] if design.levels and n > mute else 0.0
    for look, at in zip(design.looks, design.levels, strict=True):
        if look <= mute:
            continue
        found = estimate(look, at)
        by_order = look == shuffled and found.interval.low > rule.minimum_effect
        if by_order or (look != shuffled and _claims_gain(logs[:look], offset, at)):
            # What was proven at an earlier look stays proven; its interval is the one that was paid for.
            return Assessment(Decision.PROVEN, found, at)
    if not upcoming:
        return Assessment(Decision.NOT_PROVEN, estimate(n, level), level)
    judged = n in reached or (first < FIRST_LOOK and n >= _FEWEST_HOPELESS)
    if judged and _is_hopeless(logs, offset, alpha, most_pairs, first):
        return Assessment(Decision.FUTILE, estimate(n, level), level)
    if final:
        ended = boundary((*(look for look in reached if look < n), n), alpha, most_pairs, True, first)
        level = ended.levels[-1] if n > mute else 0.0
        decision = Decision.PROVEN if _claims_gain(logs, offset, level) else Decision.NOT_PROVEN
        return Assessment(decision, estimate(n, level), level)
    return Assessment(Decision.CONTINUE, estimate(n, level), level)


def _claims_gain(logs: Floats, offset: float, level: float) -> bool:
    return level > 0 and signed_rank_p(logs, offset) <= level * (1 + 1e-9)


def _is_hopeless(logs: Floats, offset: float, alpha: float, most_pairs: int, first: int) -> bool:
    if signed_rank_p(logs, offset) <= _PROMISING:
        return False
    return _conditional_power(logs - offset, alpha, most_pairs, first) < _HOPELESS


def _conditional_power(logs: Floats, alpha: float, most_pairs: int, first: int) -> float:
    """Chance that later looks still prove a gain, if the truth is one standard error better than what was seen."""
    n = len(logs)
    p = min(max(signed_rank_p(logs), 1e-12), 1 - 1e-12)
    score = -quantile(p)
    design = boundary(looks(most_pairs, first), alpha, most_pairs, first=first)
    drift = (score + 1.0) / math.sqrt(n)
    return sum(crossing_probabilities(design, drift, (n, score * math.sqrt(n))))


def same_against_same(default: Sequence[float], maximize: bool, confidence: float = 0.95) -> Same | None:
    """Compare neighbouring runs of the default with each other, by the rules that compare it with the candidate.

    Each run is used once; which of two neighbours plays the candidate alternates, as the order of real pairs does.
    Failed runs are left out. None with fewer than two runs; no interval where so few runs bound nothing. It has not
    passed where the rules would have claimed a gain: nothing that was measured then proves anything.
    """
    values = [value for value in default if 0 < value < math.inf]
    pairs = [values[i : i + 2] for i in range(0, len(values) - 1, 2)]
    if not pairs:
        return None
    turned = [pair[::-1] if index % 2 else pair for index, pair in enumerate(pairs)]
    found = estimate_speedup([a for a, _ in turned], [b for _, b in turned], maximize, confidence)
    bounded = found.interval.low > 0 and math.isfinite(found.interval.high)
    interval = found.interval if bounded else None
    return Same(ratio=found.estimate, interval=interval, passed=not found.interval.low > 1.0, runs=len(values))


def pairs_needed(gain: float, noise: float, confidence: float = 0.95, chance: float = 0.8, most: int = _LARGEST) -> int:
    """Fewest pairs that prove a gain with the given chance; as a limit of :func:`assess`, whose looks are paid for.

    Parameters
    ----------
    gain : float
        Logarithm of the true speed-up.
    noise : float
        Standard deviation of the logarithm of one run.
    most : int
        How many the caller has: the answer takes longer the larger it is, and one that exceeds these is 1000.

    Returns
    -------
    int
        At most 1000, which stands for hopeless.
    """
    alpha = (1 - confidence) / 2
    if gain <= 0:
        return _LARGEST
    gain = min(gain, 10.0)
    fixed = 2 * ((quantile(1 - alpha) + quantile(chance)) * noise / gain) ** 2
    low = max(math.ceil(-math.log2(alpha)), math.floor(fixed))
    if low > most:
        return _LARGEST
    if low > _LARGEST // 4:
        return min(_LARGEST, math.ceil(fixed * _PRICE_OF_LOOKING))
    high = low
    while power(high, math.exp(gain), noise, confidence) < chance:
        if high == most:
            return _LARGEST
        low, high = high + 1, min(most, high + max(2, high // 4))
    while low < high:
        middle = (low + high) // 2
        if power(middle, math.exp(gain), noise, confidence) < chance:
            low = middle + 1
        else:
            high = middle
    return low


HOPELESS_PAIRS = 1000
"""A number of pairs that stands for no number at all."""


@dataclass(frozen=True)
class Pair:
    """One run of the default and one of the candidate, side by side in time.

    Attributes
    ----------
    first : str
        The arm that runs first: ``default`` or ``candidate``.
    """

    number: int
    first: str
    default: Run | None = None
    candidate: Run | None = None

    @property
    def complete(self) -> bool:
        """Whether both arms have run."""
        return self.default is not None and self.candidate is not None

    @property
    def next_arm(self) -> str:
        """The arm that is still to run."""
        return "default" if self.default is None else "candidate"


def find_candidate(run: Run) -> int:
    """Give the candidate's trial of the pair that a confirmation run belongs to, whichever arm the run is."""
    trial = run.facts.against
    assert trial is not None, "the planner writes it into every run of the confirmation"
    return trial


def list_tested(runs: Sequence[Run]) -> list[int]:
    """List the trials of the candidates that runs of a confirmation are about, the latest last."""
    return list(dict.fromkeys(map(find_candidate, runs)))


def pairs_of(runs: Sequence[Run], candidate: int) -> list[Pair]:
    """Put the confirmation runs about one candidate into pairs, in order.

    Parameters
    ----------
    runs : sequence of Run
        Of the confirmation, in order of planning.
    candidate : int
        The candidate's trial.
    """
    arms_of: dict[int, list[Run]] = {}
    for run in runs:
        if run.pair is not None and find_candidate(run) == candidate:
            arms_of.setdefault(run.pair, []).append(run)
    pairs = []
    for number, both in sorted(arms_of.items()):
        by_arm = {run.arm: run for run in both}
        pairs.append(Pair(number, both[0].arm, by_arm.get("default"), by_arm.get("candidate")))
    return pairs


def value_of(run: Run, objective: Objective) -> float:
    """A run's value; a failed run counts against its arm as the worst there is."""
    if run.state is State.FINISHED and run.value is not None:
        return run.value
    return 0.0 if objective.maximize else math.inf


def arms(pairs: Sequence[Pair], objective: Objective) -> tuple[list[float], list[float]]:
    """Values of the default and of the candidate in the complete pairs."""
    whole = [
        (pair.default, pair.candidate) for pair in pairs if pair.default is not None and pair.candidate is not None
    ]
    return [value_of(d, objective) for d, _ in whole], [value_of(c, objective) for _, c in whole]


def judge(
    pairs: Sequence[Pair], objective: Objective, rule: Confirmation, most: int, *, final: bool = False
) -> Assessment:
    """Judge the complete pairs so far; ``final`` where no more will come."""
    default, candidate = arms(pairs, objective)
    first = first_look_of(pairs)
    found = assess(
        default,
        candidate,
        maximize=objective.maximize,
        most_pairs=most,
        rule=rule,
        final=final,
        first=first,
        mute=count_alternating(pairs),
    )
    # What has broken a limit of the objective once is no answer, however many pairs it wins.
    return replace(found, decision=Decision.BROKEN) if broken_in(pairs) else found


def count_alternating(pairs: Sequence[Pair]) -> int:
    """Count the first pairs before a launch of each arm followed one of its own.

    Until then, nothing tells a gain from work that the candidate leaves to the run after it.
    """
    launched: dict[int, str] = {}
    followed: set[str] = set()
    for count, pair in enumerate(pairs):
        for arm, run in (("default", pair.default), ("candidate", pair.candidate)):
            if run is None:
                continue
            if run.facts.file_family:  # phases of one launch follow their own kind
                return 0
            launched[run.number] = arm
            if arm in (launched.get(run.number - 1), launched.get(run.number + 1)):
                followed.add(arm)
        if len(followed) == 2:
            return count
    return len(pairs)


def broken_in(pairs: Sequence[Pair]) -> str:
    """The limit of the objective that the candidate broke in a complete pair; empty where all held."""
    runs = (pair.candidate for pair in pairs if pair.complete)
    return next((run.facts.broken for run in runs if run is not None and run.facts.broken), "")


def first_look_of(pairs: Sequence[Pair]) -> int:
    """Give the pairs at the first look, which is fixed with the first pair's first run."""
    runs = (run for pair in pairs for run in (pair.default, pair.candidate) if run is not None)
    return next((run.facts.first_look for run in runs if run.facts.first_look), FIRST_LOOK)


def more_pairs(found: Speedup, pairs: Sequence[Pair], objective: Objective, rule: Confirmation) -> int | None:
    """Pairs that would prove the gain found with 80% chance; None if there is none or no number would."""
    default, candidate = arms(pairs, objective)
    logs = [v for v in log_speedups(default, candidate, objective.maximize) if math.isfinite(v)]
    if len(logs) < 2:
        return None
    # The estimate that is shown; runs that failed in all pairs of one side leave none.
    seen = math.log(found.estimate) if 0 < found.estimate < math.inf else statistics.median(logs)
    gain = seen - math.log(rule.minimum_effect)
    confidence = 1 - (1 - rule.confidence) / rule.candidates
    # Two independent runs make a pair: its spread is that of one run times the root of two.
    needed = pairs_needed(gain, statistics.stdev(logs) / math.sqrt(2), confidence) if gain > 0 else HOPELESS_PAIRS
    return needed if needed < HOPELESS_PAIRS else None


def provable_pairs(rule: Confirmation) -> int:
    """Fewest pairs that can prove a gain at all: as many as make winning every one of them unlikely enough."""
    return math.ceil(-math.log2(_alpha(rule)))


def pairs_to_prove(
    rule: Confirmation,
    history: History,
    trial: Trial,
    *,
    block: int = 1,
    share: float = 1.0,
    chance: float = _CHANCE,
    most: int = HOPELESS_PAIRS,
) -> int | None:
    """Pairs that would prove with a chance a share of the gain that a trial's search runs show; None without one.

    More than ``most`` are :data:`HOPELESS_PAIRS`, see :func:`pairs_needed`.
    """
    seen = _seen_gain(rule, history, trial, share)
    if seen is None:
        return None
    noise = RepeatNoise.of(history).deviation(_PRIOR_RUNS)
    return pairs_needed(seen, noise / math.sqrt(block), 1 - (1 - rule.confidence) / rule.candidates, chance, most)


def chance_of_shuffled(rule: Confirmation, history: History, trial: Trial, *, share: float = 1.0) -> float:
    """Chance that a share of the gain that a trial's search runs show is proven by the order of the fewest runs."""
    seen = _seen_gain(rule, history, trial, share)
    return 0.0 if seen is None else _chance_by_order(rule, seen, RepeatNoise.of(history).deviation(_PRIOR_RUNS))


def _chance_by_order(rule: Confirmation, gain: float, noise: float) -> float:
    n = shuffled_pairs(rule)
    if gain <= 0:
        return 0.0
    # Where the best run of the default falls, in standard deviations, and all runs of the candidate above it.
    best = np.linspace(-_WIDTH, _WIDTH, _POINTS)
    density = n * np.exp(-(best**2) / 2) / math.sqrt(2 * math.pi) * scipy.special.ndtr(best) ** (n - 1)
    above = scipy.special.ndtr(gain / noise - best) ** n
    return float(np.sum(density * above) * (best[1] - best[0]))


def expected_gain(rule: Confirmation, history: History, trial: Trial, pairs: int) -> float | None:
    """Logarithm of the gain that a proof is expected to bring; None where the runs of the search do not tell.

    Each gain that these leave possible counts by the chance that so many pairs prove it.
    """
    default = next((t for t in history.trials if t.role is Role.DEFAULT), None)
    found = None if default is None else Posterior.of(history).compare(default, trial)
    if found is None:
        return None
    noise = RepeatNoise.of(history).deviation(_PRIOR_RUNS)
    confidence, least = 1 - (1 - rule.confidence) / rule.candidates, math.log(rule.minimum_effect)
    gains = found[0] + found[1] * scipy.special.ndtri((np.arange(_GAINS) + 0.5) / _GAINS)
    shuffled = pairs >= shuffled_pairs(rule)
    chances = [
        max(
            power(pairs, math.exp(gain - least), noise, confidence),
            _chance_by_order(rule, gain - least, noise) if shuffled else 0.0,
        )
        for gain in gains
    ]
    return float(np.mean(np.maximum(gains, 0.0) * chances))


def _seen_gain(rule: Confirmation, history: History, trial: Trial, share: float) -> float | None:
    """Logarithm of what a share of the gain of a trial's search runs exceeds the minimum effect by; None without."""
    default = next((t for t in history.trials if t.role is Role.DEFAULT and t.values), None)
    if default is None or trial.number == default.number or not trial.values:
        return None
    cost = dict(zip((t.number for t in history.trials), Costs.of(history).cost, strict=True))
    if trial.number in cost:
        seen = float(cost[default.number] - cost[trial.number])
    else:
        # The reference is not part of the history.
        ratio = history.objective.speedup(float(trial.value or 0.0), float(default.value or 0.0))
        seen = math.log(ratio) if ratio > 0 else -math.inf
    return share * seen - math.log(rule.minimum_effect)
