"""What the confirmation came to, in numbers and in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stripewise.measure.confirmation import Assessment, Decision, SameAgainstSame, same_against_same
from stripewise.measure.statistics import SpeedupInterval
from stripewise.spec.experiment import Experiment
from stripewise.spec.objective import Objective
from stripewise.spec.trial import Trial
from stripewise.spec.workload import Workload
from stripewise.tuning.budget import pairs_left
from stripewise.tuning.confirm import Pair, arms, judge, more_pairs
from stripewise.tuning.protocol import protocol_points


@dataclass(frozen=True)
class Conclusion:
    """What the confirmation came to.

    Attributes
    ----------
    decision : Decision
    speedup : SpeedupInterval
    same : SameAgainstSame or None
        None where the pairs are too few for it.
    more : int or None
        Pairs that a gain of the size seen would need, if it was not proven.
    """

    decision: Decision
    speedup: SpeedupInterval
    same: SameAgainstSame | None
    more: int | None


def conclusion_of(
    pairs: Sequence[Pair], objective: Objective, experiment: Experiment, trials: Sequence[Trial]
) -> Conclusion | None:
    """Judge the pairs once no more will come; None without a complete pair."""
    rule = experiment.confirmation
    complete = [pair for pair in pairs if pair.complete]
    verdict: Assessment = judge(complete, objective, rule, pairs_left(experiment, trials), final=True)
    if verdict.interval is None:
        return None
    default, _ = arms(complete, objective)
    same = same_against_same(default, objective.maximize, rule.confidence)
    decision = verdict.decision
    if decision is Decision.PROVEN and same is not None and not same.passed:
        decision = Decision.INVALID
    more = None if decision is Decision.PROVEN else more_pairs(complete, objective, rule.confidence)
    return Conclusion(decision, verdict.interval, same, more)


def interval(conclusion: Conclusion | None) -> list[float] | None:
    """The speed-up's interval, or None where the pairs cannot bound it."""
    if conclusion is None:
        return None
    low, high = conclusion.speedup.low, conclusion.speedup.high
    return [low, high] if math.isfinite(low) and math.isfinite(high) else None


def verdict(
    conclusion: Conclusion | None,
    shown: Trial | None,
    default: Trial,
    objective: Objective,
    reason: str,
    experiment: Experiment,
) -> str:
    """Say in a sentence or two what was shown, for people."""
    least = experiment.confirmation.minimum_effect
    bar = "1" if least == 1 else f"the required {least:g}"
    if conclusion is None:
        if shown is None or shown.number == default.number:
            return f"No configuration was better than the default, which is kept ({reason})."
        return f"The default is kept: {reason}, so nothing was confirmed."
    speedup = conclusion.speedup
    interval = f"95% interval {speedup.low:.2f} to {speedup.high:.2f}"
    if experiment.confirmation.confidence != 0.95:
        interval = interval.replace("95%", f"{100 * experiment.confirmation.confidence:g}%")
    match conclusion.decision:
        case Decision.PROVEN:
            return f"Proven: {speedup.estimate:.2f} times the default ({interval}, {speedup.pairs} pairs)."
        case Decision.INVALID:
            return (
                "The default is kept: the machine changed so much during the confirmation that the default differs "
                "from itself. Repeat when it is quieter."
            )
        case _:
            return (
                f"Not proven, so the default is kept: the best found looks {speedup.estimate:.2f} times as fast, but "
                f"its {interval} does not clear {bar}."
            )


def confirmation_section(
    conclusion: Conclusion | None,
    pairs: Sequence[Pair],
    tested: Sequence[int],
    objective: Objective,
    experiment: Experiment,
    facts: Mapping[str, Any],
    workload: Workload,
    simulated: bool,
) -> dict[str, Any]:
    """The result's section on the confirmation, as plain values."""
    kept, not_kept = protocol_points(
        experiment,
        len(pairs),
        conclusion.speedup if conclusion else None,
        conclusion.same if conclusion else None,
        facts,
        workload,
        simulated,
    )
    rows = [
        {
            "pair": pair.number,
            "order": f"{pair.first}-first",
            "default": None if pair.default is None else pair.default.value,
            "candidate": None if pair.candidate is None else pair.candidate.value,
        }
        for pair in pairs
    ]
    known: dict[str, Any] = {
        "pairs": rows,
        "candidate_trial": tested[-1] if tested else None,
        "candidates_tested": len(tested),
        "minimum_effect": experiment.confirmation.minimum_effect,
        "confidence": experiment.confirmation.confidence,
        "decision": "none" if conclusion is None else conclusion.decision.value,
        "kept": kept,
        "not_kept": not_kept,
        "more_budget": _more_budget(conclusion),
    }
    if conclusion is not None:
        same = conclusion.same
        known |= {
            "estimate": _finite(conclusion.speedup.estimate),
            "ci95": interval(conclusion),
            "geometric_mean": _finite(conclusion.speedup.geometric_mean),
            "p10": _finite(conclusion.speedup.p10),
            "same_against_same": None
            if same is None
            else {"ratio": same.ratio, "ci95": [_finite(same.low), _finite(same.high)], "passed": same.passed},
        }
    return known


def _more_budget(conclusion: Conclusion | None) -> str:
    if conclusion is None or conclusion.more is None or conclusion.more <= conclusion.speedup.pairs:
        return ""
    more = conclusion.more
    return f"If the gain is real, {more} pairs would prove it in four cases out of five (--pairs {more})."


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
