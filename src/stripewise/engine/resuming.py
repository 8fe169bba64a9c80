"""What a session does with what an earlier one has left: the same environment, runs that were interrupted."""

from __future__ import annotations

from dataclasses import replace

from stripewise.engine.launching import make_launch
from stripewise.engine.ledger import Ledger
from stripewise.engine.space import BoundSpace
from stripewise.errors import UserError
from stripewise.runners.base import Preflight, Runner
from stripewise.trial import Run, State, Trial


def check_same_environment(ledger: Ledger, preflight: Preflight) -> None:
    """Never pool runs that differ: another MPI or program makes another experiment.

    Raises
    ------
    UserError
        If something differs from the runs that have a value.
    """
    now, earlier = dict(preflight.fingerprint), ledger.facts.fingerprint
    if earlier is None or not any(run.state is State.FINISHED for _, run in ledger.runs()):
        # No run has a value yet: the user may have repaired the program meanwhile, and wants to tune that.
        ledger.remember(fingerprint=now, environment=dict(preflight.environment))
    elif earlier != now:
        name = next(name for name in sorted({*earlier, *now}) if earlier.get(name) != now.get(name))
        raise UserError(
            f"{name} was '{earlier.get(name)}' in the earlier runs and is '{now.get(name)}' now",
            "restore it, or start a new experiment: runs that differ are never pooled",
        )


def reap_interrupted(ledger: Ledger, runner: Runner, bound: BoundSpace | None) -> list[tuple[Trial, Run]]:
    """End the processes of runs that an earlier session planned and did not finish; give these runs, to start again."""
    interrupted = [(trial, run) for trial, run in ledger.runs() if not run.state.ended]
    for trial, run in interrupted:
        again = replace(run, facts=run.facts.with_(attempt=next_attempt(run)))
        runner.reap(make_launch(ledger, bound, trial, again))
    return interrupted


def next_attempt(run: Run) -> int:
    """The attempt that launching an interrupted run will be; one that was only planned was never launched."""
    return run.facts.attempt + (run.state is not State.PENDING)
