"""Experiments, trials and runs as documents: for the resources of REST and for the pages.

What a page shows of an experiment is read once for all who look at it, until it changes.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from stripewise.catalogue.plan import Plan
from stripewise.desk.server.service import Service, tell_unreadable, version
from stripewise.documents import make_finite
from stripewise.engine.reconfirmation import confirm_again
from stripewise.errors import NotFound, StripewiseError, UserError
from stripewise.observe.objectives import objective_of
from stripewise.output.experiment_view import ExperimentView, view_experiment
from stripewise.output.export import TARGETS, export
from stripewise.output.figures import figure_names
from stripewise.output.sections import sections
from stripewise.store import schema as rows
from stripewise.store.base import Record, read_or_skip
from stripewise.store.schema import experiments, runs, trials
from stripewise.store.service import database_of
from stripewise.store.service.jobs import ServiceJob
from stripewise.trial import Role, Run, Trial

_COLUMNS = [column for column in runs.c if column.name not in ("experiment", "token")]


def summaries(service: Service, records: Iterable[Record]) -> list[dict[str, Any]]:
    """Give a line for each experiment; see :class:`~stripewise.desk.server.documents.ExperimentSummary`."""
    listed = list(records)
    waiting = service.jobs.waiting()
    so_far = _extremes(service, [record for record in listed if record.result is None and record.ended])
    return [make_finite(_summary(record, waiting.get(record.id), so_far.get(record.id, {}))) for record in listed]


def summary(service: Service, record: Record) -> dict[str, Any]:
    """Give the line of one experiment, with the error of its last job."""
    line = summaries(service, [record])[0]
    job: ServiceJob | None = service.jobs.of(record.id)
    return {**line, "error": job.error if job is not None and record.state != "finished" else ""}


def detail(service: Service, record: Record) -> dict[str, Any]:
    """Give an experiment whole; see :class:`~stripewise.desk.server.documents.Detail`."""
    return complete_line(summary(service, record), record)


def complete_line(line: dict[str, Any], record: Record) -> dict[str, Any]:
    """Add to an experiment's line all that lists leave out."""
    return {
        **line,
        "definition": record.experiment.model_dump(mode="json"),
        "facts": make_finite(dict(record.facts)),
        "result": make_finite(record.result.as_json() if record.result else None),
        "notes": list(record.notes),
    }


def trial_document(trial: Trial, *, facts: bool = False) -> dict[str, Any]:
    """Give a trial with its runs."""
    return make_finite({**trial.as_json(), "runs": [run_document(run, facts=facts) for run in trial.runs]})


def run_document(run: Run, *, facts: bool = False) -> dict[str, Any]:
    """Give a run."""
    return {
        **run.as_json(),
        "folder": run.facts.folder,
        "facts": make_finite(dict(run.facts)) if facts else None,
    }


def find_experiments(
    service: Service, text: str, state: str | None, limit: int, offset: int
) -> tuple[int, list[Record]]:
    """Give how many experiments have a text in what is known of them by words, and a page of them, newest first."""
    # No text in the store holds a null character, and PostgreSQL takes none.
    text = text.replace("\0", "")
    like = f"%{text.replace('/', '//').replace('%', '/%').replace('_', '/_')}%"
    columns = (getattr(experiments.c, name) for name in ("name", "owner", "definition", "tags", "remark"))
    wanted = sa.or_(
        experiments.c.id.startswith(text, autoescape=True), *(one.ilike(like, escape="/") for one in columns)
    )
    query = sa.select(experiments.c.id).where(wanted).order_by(experiments.c.created.desc(), experiments.c.id)
    if state:
        query = query.where(experiments.c.state == state)

    def work(connection: sa.Connection) -> tuple[int, list[str]]:
        total = connection.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one()
        return total, list(connection.execute(query.limit(limit).offset(offset)).scalars())

    total, identifiers = database_of(service.store).read(work)
    records = []
    for one in identifiers:
        with contextlib.suppress(NotFound):  # deleted in the meantime
            records.append(read_or_skip(partial(service.store.record, one), tell_unreadable))
    return total, [record for record in records if record is not None]


def trials_page(
    service: Service, identifier: str, limit: int, offset: int, *, facts: bool = False
) -> tuple[int, list[dict[str, Any]]]:
    """Give how many trials an experiment has, and a page of them, without reading the others."""

    def work(connection: sa.Connection) -> tuple[int, list[sa.Row[Any]], list[sa.Row[Any]]]:
        mine = trials.c.experiment == identifier
        total = connection.execute(sa.select(sa.func.count()).select_from(trials).where(mine)).scalar_one()
        columns = [column for column in trials.c if column.name != "experiment"]
        query = sa.select(*columns).where(mine).order_by(trials.c.number).limit(limit).offset(offset)
        found = list(connection.execute(query))
        numbers = [row.number for row in found]
        query = _runs(identifier, None, *_COLUMNS).where(runs.c.trial.in_(numbers)).order_by(runs.c.number)
        return total, found, list(connection.execute(query)) if numbers else []

    total, found, made = database_of(service.store).read(work)
    of: dict[int, list[Run]] = {}
    for row in made:
        of.setdefault(row.trial, []).append(rows.run(row, identifier))
    given = [rows.trial(row, tuple(of.get(row.number, ())), identifier) for row in found]
    return total, [trial_document(trial, facts=facts) for trial in given]


def runs_page(service: Service, identifier: str, limit: int, offset: int, state: str | None) -> list[dict[str, Any]]:
    """Give a page of an experiment's runs without reading the others."""
    query = _runs(identifier, state, *_COLUMNS).order_by(runs.c.number).limit(limit).offset(offset)
    found = database_of(service.store).all(query)
    return [make_finite(run_document(rows.run(row, identifier))) for row in found]


def count_runs(service: Service, identifier: str, state: str | None) -> int:
    """Count an experiment's runs."""
    query = _runs(identifier, state, sa.func.count())
    return int(database_of(service.store).read(lambda connection: connection.execute(query).scalar_one()))


def one_run(service: Service, identifier: str, number: int) -> dict[str, Any] | None:
    """Give one run with its facts, or None."""
    query = _runs(identifier, None, *_COLUMNS).where(runs.c.number == number)
    row = database_of(service.store).first(query)
    return None if row is None else make_finite(run_document(rows.run(row, identifier), facts=True))


def _runs(identifier: str, state: str | None, *columns: Any) -> sa.Select[Any]:
    query = sa.select(*columns).where(runs.c.experiment == identifier)
    return query.where(runs.c.state == state) if state else query


def _summary(record: Record, waiting: str | None, so_far: Mapping[str, Any]) -> dict[str, Any]:
    result, experiment = record.result, record.experiment
    objective = result.objective.as_json() if result else _objective(record)
    minimize = objective["direction"] == "minimize"
    default = result.default.value if result else so_far.get("default")
    best = result.best.value if result else so_far.get("low" if minimize else "high")
    interval = result.speedup_interval if result else None
    return {
        "id": record.id,
        "name": experiment.name,
        "state": record.state,
        "queued": waiting is not None and record.state != "running",
        "command": list(experiment.command),
        "runner": experiment.runner,
        "objective": objective,
        "simulated": result.simulated if result else experiment.runner.startswith("sim:"),
        "default": default,
        "best": best,
        "speedup": result.speedup if result else None,
        "speedup_ci95": interval.ci95 if interval else None,
        "confirmed": bool(result and result.confirmed),
        "trials": record.trials,
        "runs": record.runs,
        "ended": record.ended,
        "budget": experiment.budget.runs,
        "elapsed": result.seconds if result else record.facts.seconds or None,
        "created": record.created,
        "updated": record.updated,
        "submitter": record.facts.submitter,
        "owner": record.owner,
        "error": "",
        "tags": list(record.tags),
        "remark": record.remark,
    }


def _objective(record: Record) -> dict[str, Any]:
    try:
        built = objective_of(record.experiment.objective)
    except StripewiseError:
        # A definition of an earlier version, which this one would refuse: it is shown as it is.
        given = record.experiment.objective
        return {"name": given.name, "direction": given.direction or "minimize", "unit": given.unit or ""}
    return built.as_json()


def _extremes(service: Service, records: list[Record]) -> dict[str, dict[str, Any]]:
    """Give what :func:`_so_far` does, from the store only for experiments that have changed since."""
    known = {record.id: service.extremes.known(version(record)) for record in records}
    fresh = _so_far(service, [identifier for identifier, seen in known.items() if seen is None])
    for record in records:
        if known[record.id] is None:
            service.extremes.keep(version(record), fresh.get(record.id, {}))
    return {**{identifier: seen for identifier, seen in known.items() if seen is not None}, **fresh}


def _so_far(service: Service, identifiers: list[str]) -> dict[str, dict[str, Any]]:
    """Values of experiments that have no result yet: extremes of the search, and the default's mean."""
    if not identifiers:
        return {}
    searched = sa.and_(runs.c.phase == "search", runs.c.state == "finished")
    default = sa.case((sa.and_(searched, trials.c.role == "default"), runs.c.value))
    query = (
        sa.select(
            runs.c.experiment,
            sa.func.min(sa.case((searched, runs.c.value))).label("low"),
            sa.func.max(sa.case((searched, runs.c.value))).label("high"),
            sa.func.avg(default).label("default"),
        )
        .join(trials, sa.and_(trials.c.experiment == runs.c.experiment, trials.c.number == runs.c.trial))
        .where(runs.c.experiment.in_(identifiers))
        .group_by(runs.c.experiment)
    )
    found = database_of(service.store).all(query)
    return {row.experiment: dict(row._mapping) for row in found}


SECTIONS = ("headline", "proof", "effects", "apply", "machine", "validity", "cost", "provenance")
"""Of the report's sections those that a page shows as they are."""


@dataclass(frozen=True)
class PageHistory:
    """An experiment as far as its page shows the same until something happens to it.

    Attributes
    ----------
    figures : set of str
        Names of the figures that there will be.
    sections : dict
        Of the result, if there is one.
    targets : list of str
        Of export.
    can_confirm : bool
        Whether its result can be confirmed once more.
    """

    record: Record
    trials: tuple[Trial, ...]
    found: ExperimentView
    figures: set[str]
    sections: dict[str, Any]
    targets: list[str]
    can_confirm: bool

    def about(self, number: int) -> dict[str, Any]:
        """Say of a run's trial what it changes, where it is a candidate, and its role."""
        trial = next((trial for trial in self.trials if trial.number == number), None)
        if trial is None or trial.role is Role.CANDIDATE:
            return {"settings": [] if trial is None else self.found.changed(trial), "role": "candidate"}
        return {"settings": [], "role": trial.role.value}


def history(service: Service, identifier: str) -> PageHistory:
    """Read an experiment with its trials, once for all who look at it until it changes."""
    record = service.store.record(identifier)

    def make() -> PageHistory:
        trials = service.store.trials(record.id, facts=False)
        found = view_experiment(record, trials, _complete_commands(service))
        # The facts of simulated runs say what held them back; they are read with the figure.
        names = figure_names(found) | ({"bounds"} if found.result.simulated else set())
        if record.result is None:
            return PageHistory(record, trials, found, names, {}, [], False)
        return PageHistory(
            record, trials, found, names, sections(found, names, SECTIONS), _targets(found), _can_confirm(record)
        )

    kept: PageHistory = service.readings.get(version(record), make)
    return kept


def read(service: Service, identifier: str, *, facts: bool = False) -> tuple[Record, tuple[Trial, ...], ExperimentView]:
    """Read an experiment with its trials."""
    if not facts:
        known = history(service, identifier)
        return known.record, known.trials, known.found
    record = service.store.record(identifier)
    trials = service.store.trials(record.id)
    return record, trials, view_experiment(record, trials, _complete_commands(service))


def _complete_commands(service: Service) -> Callable[[str], str]:
    """Commands name the store where the service was given one; a password in its address is not shown."""
    if service.settings.store is None:
        return str
    return lambda text: f"{text} --store {shlex.quote(service.store.url)}"


def _targets(found: ExperimentView) -> list[str]:
    if not found.result.applicable:
        return []
    plan = Plan.parse(found.result.plan, "the result's plan")
    return [
        target for target in TARGETS if not export(plan, target, changed=found.result.changed(found.result.best)).empty
    ]


def _can_confirm(record: Record) -> bool:
    try:
        confirm_again(record)
    except UserError:
        return False
    return True
