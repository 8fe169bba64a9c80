"""The confirmation's runs as pairs, and what they prove."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from stripewise.engine.confirmation import Assessment, assess, pairs_needed
from stripewise.requests.experiment import Confirmation
from stripewise.requests.objective import Objective
from stripewise.search.statistics import Speedup, log_speedups
from stripewise.trial import Run, State

HOPELESS_PAIRS = 1000
"""A number of pairs that stands for no number at all."""


@dataclass(frozen=True)
class Pair:
    """One run of the default and one of the candidate, side by side in time.

    Attributes
    ----------
    number : int
    first : str
        The arm that runs first: ``default`` or ``candidate``.
    default, candidate : Run or None
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
        if self.default is None and self.candidate is None:
            return self.first
        return "default" if self.default is None else "candidate"


def against(run: Run) -> int:
    """The candidate's trial that a confirmation run was planned to be compared with or belongs to."""
    trial = run.facts.against
    assert trial is not None, "the planner writes it into every run of the confirmation"
    return trial


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
        if run.pair is not None and against(run) == candidate:
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
    return assess(
        default,
        candidate,
        maximize=objective.maximize,
        most_pairs=most,
        confidence=rule.confidence,
        minimum_effect=rule.minimum_effect,
        candidates=rule.candidates,
        final=final,
    )


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
