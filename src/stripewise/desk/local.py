"""The desk of this machine: a store, and work that is done here."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stripewise.desk.desk import (
    Count,
    Desk,
    Face,
    Measuring,
    Question,
    SmallCase,
    Training,
    Validated,
    Validating,
)
from stripewise.errors import UserError
from stripewise.facts import Facts

if TYPE_CHECKING:
    from stripewise.engine.campaign.plan import PlannedPoint
    from stripewise.models.base import PerformanceModel
    from stripewise.models.prescribe.prescription import Prescription
    from stripewise.models.prescribe.request import PrescriptionRequest
    from stripewise.models.table import Table
    from stripewise.models.training import Learned
    from stripewise.observe.activity import Activity
    from stripewise.observe.darshan_logs import LogResult
    from stripewise.requests.experiment import Experiment
    from stripewise.result import Result
    from stripewise.store.base import Record, Store

# Each command needs one of these methods, and what the others load is slow: they import it themselves.
# ruff: noqa: PLC0415


class LocalDesk(Desk):
    """Answers on this machine, with the store of an address, or the usual one."""

    def __init__(self, store: str | None, face: Face) -> None:
        self._store = store
        self._face = face

    def experiments(self) -> Store:
        """Open the store."""
        from stripewise.store.opening import open_store

        return open_store(self._store)

    def stop(self, identifier: str) -> Record:
        """Ask an experiment to stop; see :meth:`Desk.stop`."""
        with self.experiments() as opened:
            record = opened.record(identifier)
            if record.state != "running":
                raise UserError(f"experiment {record.id} is {record.state}, not running", "there is nothing to stop")
            opened.request_stop(record.id)
        return record

    def check_trust(self, record: Record, *what: str) -> None:
        """Ask before anything of another user of the store acts; see :meth:`Desk.check_trust`."""
        from stripewise.engine.consent import check_author
        from stripewise.engine.process import user_name

        check_author(record, user_name(), self._face.consent(), *what)

    def dry_run(self, experiment: Experiment, folder: str | None, small: SmallCase | None = None) -> dict[str, Any]:
        """Say what an experiment would do; see :meth:`Desk.dry_run`."""
        from stripewise.engine.dryrun import dry_run
        from stripewise.engine.folders import runs_folder, working_folder
        from stripewise.runners.registry import make_runner

        later = []
        if small is not None:
            from stripewise.desk.carrying import case_of
            from stripewise.engine.schedule import schedule_of

            most = schedule_of(experiment).counted(experiment.budget.runs)
            later.append(f"then at full size, at most {most} of: {shlex.join(experiment.command)}")
            experiment = case_of(experiment, small, self._face)
        place = working_folder(Facts(folder=folder))
        with make_runner(experiment, runs_folder(experiment) / "dry-run", cwd=place) as runner:
            found = dry_run(experiment, runner)
        return {**found, "notes": [*found["notes"], *later]}

    def begin(self, experiment: Experiment, folder: str | None, small: SmallCase | None = None) -> tuple[str, Result]:
        """Carry an experiment out, or first its small case; see :meth:`Desk.begin`."""
        from stripewise.desk import carrying

        with self.experiments() as opened:
            if small is not None:
                return carrying.begin_small(opened, experiment, small, self._face)
            return carrying.begin(opened, experiment, folder, self._face)

    def carry_on(self, identifier: str) -> tuple[str, Result]:
        """Go on with an experiment; see :meth:`Desk.carry_on`."""
        from stripewise.desk import carrying

        with self.experiments() as opened:
            return carrying.carry_on(opened, opened.record(identifier).id, self._face)

    def train(self, training: Training) -> tuple[str, Learned]:
        """Train a model; see :meth:`Desk.train`."""
        from stripewise.models.training import learn, update

        measured = table_with(training.table, training.stacks)
        if training.update and training.out.exists():
            return measured.name, update(measured, training.seed, training.out, explain=training.explain)
        found = learn(measured, training.model, training.options, training.seed, training.out, explain=training.explain)
        return measured.name, found

    def validate(self, asked: Validating, count: Count) -> Validated:
        """Judge a kind of model; see :meth:`Desk.validate`."""
        from stripewise.models.validation import validate

        measured = table_with(asked.table, asked.stacks)
        result = validate(measured, asked.model, asked.options, asked.hold_out, count)
        schema, objective = measured.schema, measured.objective
        return Validated(
            result.as_json(), result.pairs, measured.name, schema.description, objective.name, objective.unit
        )

    def prescribe(
        self, questions: Mapping[str, Question], request: PrescriptionRequest, observed: Path | None
    ) -> dict[str, Prescription]:
        """Ask models or policies; see :meth:`Desk.prescribe`."""
        return {name: _make_prescription(asked, request, observed) for name, asked in questions.items()}

    def activities(self, logs: Sequence[Path], workers: int | None) -> Iterator[LogResult]:
        """Read logs with several processes; see :meth:`Desk.activities`."""
        from stripewise.observe.sources import open_all

        return open_all(logs, workers)

    def expected(self, activity: Activity, model: Path) -> dict[str, Any]:
        """Ask a model about a log; see :meth:`Desk.expected`."""
        from stripewise.diagnose.prediction import predict

        return predict(activity, model).as_json()

    def foresee(self, asked: Measuring) -> tuple[dict[str, Any], Sequence[PlannedPoint]]:
        """Say what a campaign would do, and whether there is room for it; see :meth:`Desk.foresee`."""
        from stripewise.desk import measuring

        return measuring.foresee(asked)

    def measure(self, asked: Measuring) -> dict[str, Any]:
        """Measure a campaign; see :meth:`Desk.measure`."""
        from stripewise.desk import measuring

        return measuring.measure(asked, self._face)

    def evaluate(self, asked: Measuring, model: str, eager: bool) -> dict[str, Any]:
        """Measure what a model prescribes; see :meth:`Desk.evaluate`."""
        from stripewise.desk import measuring

        return measuring.evaluate(asked, model, eager, self._face)

    def bundle(self, identifier: str) -> tuple[str, bytes]:
        """Make the helpdesk's bundle; see :meth:`Desk.bundle`."""
        from stripewise.output.bundle import helpdesk_bundle

        with self.experiments() as opened:
            record = opened.record(identifier)
            return record.id, helpdesk_bundle(record, opened.trials(record.id))


def table_with(path: str, stacks: Sequence[str]) -> Table:
    """Read a table, with what stack files say of it.

    Raises
    ------
    UserError
        If either cannot be read, or a stack has none of the table's columns.
    """
    from stripewise.models.table import read_table
    from stripewise.models.tunables import describe_schema

    table = read_table(path)
    if not stacks:
        return table
    names = [column.name for column in table.schema.parameter]
    _check_stacks(stacks, names, f"table {table.name}")
    return replace(table, schema=describe_schema(table.schema, stacks))


def model_with(path: str, stacks: Sequence[str]) -> PerformanceModel:
    """Read a model, with what stack files say of its parameters.

    Raises
    ------
    UserError
        If either cannot be read, or a stack has none of the model's columns.
    """
    from stripewise.models.registry import load_model

    return _with_stacks(load_model(path), path, stacks)


def _make_prescription(asked: Question, request: PrescriptionRequest, observed: Path | None) -> Prescription:
    from stripewise.models.prescribe.policies import apply_policy, policy_names
    from stripewise.models.prescribe.prescriber import Prescriber
    from stripewise.models.registry import make_model
    from stripewise.models.table import read_table, table_files
    from stripewise.observe.sources import observe

    seen = None if observed is None else observe(observed)
    if asked.model is None:
        request = request if seen is None else request.with_observed(seen, None)
        policy = asked.policy or policy_names()[0]
        return apply_policy(policy, request.workload, asked.osts, request.current, existing=request.existing)
    table = None if asked.table is None else read_table(asked.table)
    if asked.learn and all(file.is_file() for file in table_files(asked.model)):
        table = read_table(asked.model)
        model = _with_stacks(make_model("auto").fit(table), asked.model, asked.stacks)
    else:
        model = model_with(asked.model, asked.stacks)
    return Prescriber(model, table).prescribe(request if seen is None else request.with_observed(seen, model.domain))


def _with_stacks(model: PerformanceModel, path: str, stacks: Sequence[str]) -> PerformanceModel:
    if stacks:
        _check_stacks(stacks, model.domain.names[model.domain.contexts :], f"the model {path}")
        model.add_stacks(stacks)
    return model


def _check_stacks(stacks: Sequence[str], names: Sequence[str], what: str) -> None:
    """Refuse stacks that have none of some columns: they would say nothing."""
    from stripewise.catalogue.stack import load_stack

    for name in stacks:
        own = [parameter.name for parameter in load_stack(name).parameters]
        if not set(own) & set(names):
            raise UserError(
                f"--stack {name} has none of the columns of {what}",
                f"it has {', '.join(own)}; the columns are {', '.join(names)}",
            )
