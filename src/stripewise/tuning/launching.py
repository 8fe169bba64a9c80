"""From a planned run to what the runner is asked to launch."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.spec.experiment import Experiment
from stripewise.spec.launch import Launch
from stripewise.spec.parameter import Apply
from stripewise.spec.plan import Plan, Setting, settings_of
from stripewise.spec.trial import Role, Run, Trial
from stripewise.tuning.space import BoundSpace

_FIRST_TIMEOUT = 3600.0
_LEAST_TIMEOUT = 60.0
_TIMES_DEFAULT = 30.0


def make_launch(
    identifier: str,
    experiment: Experiment,
    bound: BoundSpace | None,
    trial: Trial,
    run: Run,
    *,
    timeout: float | None = None,
    bound_seconds: float | None = None,
    attempt: int = 0,
) -> Launch:
    """Make the launch of a run.

    The default sets nothing but the environment that switches a component on; the reference switches it off.
    """
    reference = trial.role is Role.REFERENCE
    settings: list[Setting] = []
    command: str | None = None
    unset: list[str] = []
    for stack in bound.stacks if bound is not None else ():
        if reference and stack.off is not None:
            settings += [Setting(Apply.ENV, key, value) for key, value in stack.off.env.items()]
            command = stack.off.command or command
            unset += stack.off.unset
        else:
            settings += [Setting(Apply.ENV, key, value) for key, value in (stack.env or {}).items()]
    configuration = trial.configuration
    if bound is not None and trial.role is Role.CANDIDATE:
        settings += settings_of(bound.space, configuration)
    elif bound is not None:
        configuration = bound.space.default
    return Launch(
        experiment=identifier,
        number=run.number,
        configuration=configuration,
        plan=Plan(tuple(settings), f"{identifier}.{trial.number}", experiment.override, experiment.files),
        phase=run.phase,
        reference=reference,
        timeout=timeout,
        bound=bound_seconds,
        attempt=attempt,
        command=command,
        unset=tuple(unset),
    )


def run_timeout(experiment: Experiment, trials: Sequence[Trial], spent_seconds: float | None) -> float:
    """Seconds after which a run counts as hung.

    Parameters
    ----------
    experiment : Experiment
    trials : sequence of Trial
        A run may take thirty times as long as the default did, for a bad configuration can be that slow.
    spent_seconds : float or None
        Wall time used so far; no run may outlive the time budget. None where time is simulated.
    """
    limit = experiment.timeout
    if limit is None:
        elapsed = [run.elapsed for t in trials for run in t.runs if t.role is Role.DEFAULT and run.elapsed]
        limit = max(_LEAST_TIMEOUT, _TIMES_DEFAULT * max(elapsed)) if elapsed else _FIRST_TIMEOUT
    if experiment.budget.seconds is not None and spent_seconds is not None:
        limit = min(limit, max(1.0, experiment.budget.seconds - spent_seconds))
    return limit
