"""Begin an experiment in a store, or go on with it, and show what happens."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from dataclasses import astuple
from pathlib import Path

import typer

from stripewise.cli.hints import completed
from stripewise.cli.output import ask, console, notes, remark
from stripewise.cli.progress import Progress
from stripewise.cli.result import deliver
from stripewise.errors import NothingWorks, UserError
from stripewise.runner.registry import make_runner
from stripewise.spec.experiment import Experiment
from stripewise.spec.facts import Facts
from stripewise.spec.policy import load_policy
from stripewise.spec.result import Result
from stripewise.spec.trial import State
from stripewise.store.base import Store
from stripewise.tuning.budget import spent
from stripewise.tuning.consent import Consent, granted
from stripewise.tuning.folders import make_runs_folder, runs_folder, working_folder
from stripewise.tuning.process import owner_name, terminated_as_interrupted, user_name
from stripewise.tuning.session import Session
from stripewise.tuning.small import after_small, small_case


def begin(
    store: Store, experiment: Experiment, folder: str | None, report: Path | None, json_output: bool, yes: bool
) -> None:
    """Create an experiment, carry it out and print its result."""
    identifier, result = _begun(store, experiment, folder, json_output, yes)
    deliver(store, identifier, result, report, json_output)


def begin_small(
    store: Store, experiment: Experiment, small: str, runs: int, report: Path | None, json_output: bool, yes: bool
) -> None:
    """Search the small case of a program, then begin the experiment at full size from what it showed."""
    try:
        words = shlex.split(small)
    except ValueError as error:
        raise UserError(f"--small '{small}' is not a command: {error}", "check its quotes") from error
    case = small_case(experiment, words, runs)
    folder = str(Path.cwd())
    remark(f"first the small case, {case.counted(runs)} of: {small}")
    identifier, result = _begun(store, case, folder, json_output, yes)
    found = result.candidate.configuration if result.candidate is not None else result.best.configuration
    shown = " ".join(f"{name}={value}" for name, value in found.items() if value != result.default.configuration[name])
    remark(f"the small case, experiment {identifier}, liked best: {shown or 'the defaults'}; now the full size")
    begin(store, after_small(experiment, store.record(identifier)), folder, report, json_output, yes)


def carry_on(store: Store, identifier: str, report: Path | None, json_output: bool, yes: bool) -> None:
    """Go on with an experiment and print its result."""
    deliver(store, identifier, _carried(store, identifier, json_output, yes), report, json_output)


def _begun(
    store: Store, experiment: Experiment, folder: str | None, json_output: bool, yes: bool
) -> tuple[str, Result]:
    make_runs_folder(experiment)
    identifier = store.create(experiment, Facts(folder=folder or str(Path.cwd()), user=user_name()))
    try:
        return identifier, _carried(store, identifier, json_output, yes)
    except UserError:
        if not store.trials(identifier):
            # It never began: what is wrong is said, and there is nothing to resume.
            store.delete(identifier)
        raise


def _carried(store: Store, identifier: str, json_output: bool, yes: bool) -> Result:
    record = store.record(identifier)
    folder = runs_folder(record.experiment) / identifier
    runner = make_runner(record.experiment, folder, cwd=working_folder(record.facts))
    with Progress(notes if json_output or not console.is_terminal else console) as progress:
        consent = granted if yes else asking(progress, json_output)
        session = Session(store, identifier, runner, owner_name(), progress, consent=consent, policy=load_policy())
        try:
            with terminated_as_interrupted():
                return session.run()
        except KeyboardInterrupt:
            progress.__exit__()
            remark(completed(f"stopped; nothing is lost: stripewise resume {identifier} goes on"))
            raise typer.Exit(130) from None
        except NothingWorks as error:
            raise with_a_way_on(store, identifier, error) from error


def with_a_way_on(store: Store, identifier: str, error: NothingWorks) -> NothingWorks:
    """Say where the failed run's output is, and how to go on once the program works."""
    record = store.record(identifier)
    trials, budget = store.trials(identifier), record.experiment.budget
    used = spent(trials, record.facts.seconds)
    limits = (budget.runs, budget.seconds, budget.node_hours)
    fix = error.fix
    if all(most is None or have < most for have, most in zip(astuple(used), limits, strict=True)):
        fix += f", then: stripewise resume {identifier} tries it again"
    runs = [run for trial in trials for run in trial.runs]
    folders = [run.facts.folder for run in runs if run.state is State.FAILED and run.facts.folder]
    return NothingWorks(error.what, f"{fix} (its output: {folders[-1]})" if folders else fix)


def asking(progress: Progress | None, json_output: bool) -> Consent:
    """Ask on the terminal, past what is shown there; where nobody is there to answer, nothing is agreed to."""

    def answered(question: str) -> bool:
        with nullcontext() if progress is None else progress.paused():
            return ask(question, json_output)

    return answered
