"""Begin an experiment in a store, or go on with it, and show what happens on a face."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from stripewise.catalogue.configuration import find_changes
from stripewise.desk.desk import Face, Interrupted, SmallCase
from stripewise.engine.consent import check_author
from stripewise.engine.events import Listener
from stripewise.engine.folders import make_runs_folder, runs_folder, working_folder
from stripewise.engine.ledger import spent
from stripewise.engine.process import owner_name, terminated_as_interrupted, user_name
from stripewise.engine.schedule import schedule_of
from stripewise.engine.session import Given, Session
from stripewise.engine.smaller_case import after_small, small_case
from stripewise.errors import NotFound, NothingWorks, UserError
from stripewise.facts import Facts
from stripewise.requests.experiment import Experiment
from stripewise.requests.policy import load_policy
from stripewise.result import Result
from stripewise.runners.registry import make_runner
from stripewise.store.base import Store
from stripewise.trial import State

_LOOKED_AT = 1000
"""Experiments of one name among which one that a kill has left is looked for."""


def begin(store: Store, experiment: Experiment, folder: str | None, face: Face) -> tuple[str, Result]:
    """Create an experiment and carry it out; give its identifier and its result."""
    identifier = _create_experiment(store, experiment, Facts(folder=folder or str(Path.cwd()), user=user_name()))
    return identifier, _begin_experiment(store, identifier, face)


def begin_small(store: Store, experiment: Experiment, small: SmallCase, face: Face) -> tuple[str, Result]:
    """Search the small case of a program, then begin the experiment at full size from what it showed."""
    case = case_of(experiment, small, face)
    whole = experiment.model_dump(mode="json")
    identifier = _create_experiment(store, case, Facts(folder=str(Path.cwd()), user=user_name(), whole=whole))
    _begin_experiment(store, identifier, face)
    return _follow(store, identifier, face)


def case_of(experiment: Experiment, small: SmallCase, face: Face) -> Experiment:
    """Make the experiment that searches the small case, and tell its size."""
    try:
        words = shlex.split(small.command)
    except ValueError as error:
        raise UserError(f"--small '{small.command}' is not a command: {error}", "check its quotes") from error
    case = small_case(experiment, words, small.runs)
    face.tell(f"first the small case, {schedule_of(case).counted(small.runs)} of: {small.command}")
    return case


def carry_on(store: Store, identifier: str, face: Face) -> tuple[str, Result]:
    """Go on with an experiment, and with the one at full size after a small case; give the last one and its result."""
    record = store.record(identifier)
    result = record.result if record.state == "finished" else None
    if result is None or (record.facts.whole is not None and not _has_experiment(store, record.facts.followed)):
        check_author(record, user_name(), face.consent())
    if result is None:
        result = _carry_on(store, identifier, face)
    return (identifier, result) if record.facts.whole is None else _follow(store, identifier, face)


def _follow(store: Store, identifier: str, face: Face) -> tuple[str, Result]:
    """Begin the experiment at full size after its small case, or go on with it."""
    small = store.record(identifier)
    result, whole = small.result, small.facts.whole
    assert result is not None
    assert whole is not None
    if _has_experiment(store, small.facts.followed):
        face.tell(f"experiment {identifier} is a small case: its full size is experiment {small.facts.followed}")
        return carry_on(store, small.facts.followed, face)
    found = result.candidate.configuration if result.candidate is not None else result.best.configuration
    shown = " ".join(f"{name}={value}" for name, value in find_changes(found, result.default.configuration).items())
    face.tell(f"the small case, experiment {identifier}, liked best: {shown or 'the defaults'}; now the full size")
    experiment = after_small(Experiment.model_validate(whole), small)
    following = _find_unbegun(store, experiment) or _create_experiment(
        store, experiment, Facts(folder=small.facts.folder, user=user_name())
    )
    claim = store.claim(identifier, owner_name())
    store.update(identifier, claim=claim, facts=small.facts.with_(followed=following))
    store.release(claim)
    return following, _begin_experiment(store, following, face)


def _find_unbegun(store: Store, experiment: Experiment) -> str:
    """Find an experiment at full size that was made and never begun: a kill came before its small case named it."""
    made = store.records("created", experiment.name, limit=_LOOKED_AT, on_unreadable=lambda *_: None)
    # It starts from this small case alone, so no other definition is the same.
    same = (record.id for record in made if record.experiment == experiment and record.facts.user == user_name())
    return next(same, "")


def _has_experiment(store: Store, identifier: str) -> bool:
    if not identifier:
        return False
    try:
        store.record(identifier)
    except NotFound:
        return False
    return True


def _create_experiment(store: Store, experiment: Experiment, facts: Facts) -> str:
    make_runs_folder(experiment)
    return store.create(experiment, facts)


def _begin_experiment(store: Store, identifier: str, face: Face) -> Result:
    try:
        return _carry_on(store, identifier, face)
    except UserError:
        if not store.trials(identifier):
            # It never began: what is wrong is said, and there is nothing to resume.
            store.delete(identifier)
        raise


def _carry_on(store: Store, identifier: str, face: Face) -> Result:
    with face.watching() as (listener, consent):
        session = make_session(store, identifier, owner_name(), listener, Given(consent, load_policy()))
        try:
            with terminated_as_interrupted():
                return session.run()
        except KeyboardInterrupt:
            raise Interrupted(f"stopped; nothing is lost: stripewise resume {identifier} goes on") from None
        except NothingWorks as error:
            raise with_a_way_on(store, identifier, error) from error


def make_session(
    store: Store,
    identifier: str,
    owner: str,
    listener: Listener,
    given: Given,
    deletes_in: Sequence[Path] | None = None,
) -> Session:
    """Get ready to carry an experiment on, where its definition says; ``deletes_in`` as for ``make_runner``."""
    record = store.record(identifier)
    folder = runs_folder(record.experiment) / identifier
    runner = make_runner(record.experiment, folder, cwd=working_folder(record.facts), deletes_in=deletes_in)
    return Session(store, identifier, runner, owner, listener, given=given)


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
