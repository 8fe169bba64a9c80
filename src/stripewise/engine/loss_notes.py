"""What is said of the time that trying loses within one launch."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.requests.experiment import Experiment
from stripewise.trial import Role, Run, Trial


def loss_told(run: Run, trials: Sequence[Trial], experiment: Experiment) -> str:
    """Say what trying has lost once a phase has taken it above what it may lose; empty for any other run.

    Parameters
    ----------
    run : Run
        The latest that ended.
    trials : sequence of Trial
    experiment : Experiment
    """
    most, lost = experiment.within.max_loss, run.facts.lost or 0.0
    usual = next((trial.value for trial in trials if trial.role is Role.DEFAULT), None)
    others = [one for trial in trials for one in trial.runs if one.facts.lost is not None and one.number < run.number]
    before = max(others, key=lambda one: one.number).facts.lost or 0.0 if others else 0.0
    if not before <= most < lost or not run.value or not usual:
        return ""
    waits = experiment.counted(run.facts.waits)
    return (
        f"run {run.number} took {usual / run.value:.3g} times as long as the default: trying has lost {lost:.0%} of "
        f"the default's I/O time so far, and {most:.0%} are allowed. Settings that nobody has tried wait for about "
        f"{waits} of the default, in which what is allowed grows; what is known to be faster, and its proof, go on"
    )
