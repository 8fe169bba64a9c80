"""The desk of a service: what lies here is sent, what the workers make is written here."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stripewise import __version__
from stripewise.desk.client.client import Client
from stripewise.desk.client.store import RemoteStore
from stripewise.desk.client.transport import ServiceError, reads_answers
from stripewise.desk.desk import (
    Count,
    Desk,
    Face,
    Interrupted,
    Measuring,
    Question,
    SmallCase,
    Training,
    Validated,
    Validating,
)
from stripewise.errors import NothingWorks, StripewiseError, UserError
from stripewise.models.files import write_whole
from stripewise.models.table import table_files
from stripewise.ownership import checked_model, names_file

if TYPE_CHECKING:
    from stripewise.engine.campaign.plan import PlannedPoint
    from stripewise.models.prescribe.prescription import Prescription
    from stripewise.models.prescribe.request import PrescriptionRequest
    from stripewise.models.training import Learned
    from stripewise.observe.activity import Activity
    from stripewise.observe.darshan_logs import LogResult
    from stripewise.requests.experiment import Experiment
    from stripewise.result import Result
    from stripewise.store.base import Record

# What one request needs and others do not is loaded by it.
# ruff: noqa: PLC0415


@reads_answers
class RemoteDesk(Desk):
    """Asks a service."""

    def __init__(self, client: Client, face: Face) -> None:
        self.client = client
        self._face = face
        self._last = ""

    def experiments(self) -> RemoteStore:
        """Read the service's experiments as those of a store."""
        return RemoteStore(self.client)

    def stop(self, identifier: str) -> Record:
        """Ask an experiment to stop, or take it from the queue; the service refuses others."""
        opened = self.experiments()
        record = opened.record(identifier)
        opened.request_stop(record.id)
        return record

    def check_trust(self, record: Record, *what: str) -> None:
        """Do nothing: the service's operators have decided who starts experiments."""

    def dry_run(self, experiment: Experiment, folder: str | None, small: SmallCase | None = None) -> dict[str, Any]:
        """Let the service say what an experiment would do; see :meth:`Desk.dry_run`."""
        _refuse_small(small)
        found = self.client.dry_run(experiment.model_dump(mode="json"), folder)
        lists = (found["found"], found["first"], found["notes"], found["space"]["parameters"])
        if not all(isinstance(given, list) for given in lists):
            raise TypeError
        return {**found, "left_out": dict(found["left_out"]), "worst_case": dict(found["worst_case"])}

    def begin(self, experiment: Experiment, folder: str | None, small: SmallCase | None = None) -> tuple[str, Result]:
        """Let a worker carry an experiment out; see :meth:`Desk.begin`."""
        _refuse_small(small)
        opened = self.experiments()
        # A key makes it harmless to send the request again where the answer was lost.
        made = self.client.create(
            experiment.model_dump(mode="json"), folder, agreed=self._face.agreed, key=secrets.token_hex(16)
        )
        identifier = str(made["id"])
        try:
            return self._follow(opened, identifier)
        except UserError:
            if not opened.trials(identifier, facts=False):
                opened.delete(identifier)
            raise

    def carry_on(self, identifier: str) -> tuple[str, Result]:
        """Let a worker go on with an experiment; see :meth:`Desk.carry_on`."""
        opened = self.experiments()
        record = opened.record(identifier)
        if record.state == "finished" and record.result is not None:
            return record.id, record.result
        known = self.client.messages(record.id)
        runs = [run for trial in opened.trials(record.id, facts=False) for run in trial.runs]
        self.client.resume(record.id, agreed=self._face.agreed)
        told = [run.number for run in runs if run.state.ended]
        return self._follow(opened, record.id, known[-1]["number"] if known else 0, told)

    def _follow(
        self, opened: RemoteStore, identifier: str, after: int = 0, told: Sequence[int] = ()
    ) -> tuple[str, Result]:
        """Show what a service's worker does, and end as if it had been done here."""
        from stripewise.desk.carrying import with_a_way_on
        from stripewise.desk.client.follow import Follower
        from stripewise.engine.events import Event

        with self._face.watching() as (listener, _):
            try:
                follower = Follower(self.client, identifier, lambda kind, data: listener(Event(kind, data)))
                return identifier, follower.run(after, told)
            except KeyboardInterrupt:
                raise Interrupted(
                    f"no longer watched; the service continues experiment {identifier}; "
                    f"stripewise experiment stop {identifier} ends it"
                ) from None
            except NothingWorks as error:
                raise with_a_way_on(opened, identifier, error) from error

    def train(self, training: Training) -> tuple[str, Learned]:
        """Let a worker train: the model stays there under the name of its file, and is written here."""
        from stripewise.models.registry import load_model
        from stripewise.models.training import Learned

        _refuse(training.stacks)
        if training.update:
            raise UserError("a service does not update a model", "update it where its table is, without --server")
        asked = {"options": dict(training.options), "seed": training.seed, "explain": training.explain}
        table = self.send_table(training.table)
        job = self.client.train(training.out.stem, table, training.model, replace=True, **asked)
        made = self.wait(job)
        self.fetch(f"/models/{made['model']}/file", training.out)
        learned = Learned(load_model(training.out), made["rows"], made["seconds"], made["speed_rules"])
        return str(made["name"]), learned

    def validate(self, asked: Validating, count: Count) -> Validated:
        """Let a worker judge; see :meth:`Desk.validate`."""
        _refuse(asked.stacks)
        held = asked.hold_out
        found = self.wait(
            self.client.validate(
                self.send_table(asked.table),
                asked.model,
                options=asked.options,
                leave_out=list(held.columns),
                folds=held.folds,
                inverse=held.inverse,
                depths=held.depths,
                seed=held.seed,
            )
        )
        name, objective, shown = found.pop("name"), found.pop("objective"), found.pop("pairs")
        description = found.pop("description", "")
        del found["table"]
        return Validated(found, shown, name, description, objective["name"], objective["unit"])

    def prescribe(
        self, questions: Mapping[str, Question], request: PrescriptionRequest, observed: Path | None
    ) -> dict[str, Prescription]:
        """Ask the service; a log is uploaded once and stays there as a diagnosis."""
        from stripewise.models.prescribe.prescription import read_prescription

        asked = {name: self._asked(question) for name, question in questions.items()}
        about: dict[str, Any] = {"workload": request.workload.model_dump(mode="json", exclude_none=True)}
        about |= {"current": dict(request.current), "context": dict(request.context)}
        if observed is not None:
            about["diagnosis"] = self.client.upload("/diagnoses", observed)["id"]
        return {
            name: read_prescription(self.client.post("/prescriptions", {**given, **about}))
            for name, given in asked.items()
        }

    def _asked(self, question: Question) -> dict[str, Any]:
        _refuse(question.stacks)
        if question.learn and question.model is not None:
            return {"model": self._learned(question.model)}
        return {
            "policy": question.policy,
            "osts": question.osts,
            "model": None if question.model is None else self.send_model(question.model),
            "table": None if question.table is None else self.send_table(question.table),
        }

    def activities(self, logs: Sequence[Path], workers: int | None) -> Iterator[LogResult]:
        """Send logs, which the service reads and keeps as diagnoses; see :meth:`Desk.activities`."""
        from stripewise.observe.darshan_logs import LogResult, UnreadableLogError
        from stripewise.observe.sources import find

        for path in find(logs):
            try:
                yield LogResult(path, self._activity(path))
            except ServiceError as error:
                if error.status != 422:
                    raise
                yield LogResult(path, None, UnreadableLogError(error.what, error.fix))

    def _activity(self, log: Path) -> Activity:
        from stripewise.observe.activity import Activity

        try:
            self._last = str(self.client.upload("/diagnoses", log)["id"])
        except ServiceError as error:
            raise ServiceError(error.status, error.what.replace("the upload", str(log)), error.fix) from error
        found = Activity.model_validate(self.client.get(f"/diagnoses/{self._last}/activity"))
        return found.model_copy(update={"source": str(log)})

    def expected(self, activity: Activity, model: Path) -> dict[str, Any]:
        """Ask a model of the service, or one that is sent; see :meth:`Desk.expected`."""
        answer = self.client.post(f"/diagnoses/{self._last}/prediction", {"model": self.send_model(str(model))})
        needed = ("origin", "expectations", "settings", "decided", "notes")
        missing = [name for name in needed if name not in answer]
        if missing:
            raise StripewiseError(
                f"the service's answer has no '{missing[0]}': the service is version "
                f"{self.client.get('/health')['version']}, this program is version {__version__}",
                "use the same Stripewise on both sides",
            )
        return dict(answer)

    def foresee(self, asked: Measuring) -> tuple[dict[str, Any], Sequence[PlannedPoint]]:
        """Say what a campaign would do, wherever that is; see :meth:`Desk.foresee`."""
        from stripewise.engine.campaign.running import WHOLE, preview

        return preview(asked.points, asked.shard or WHOLE)

    def measure(self, asked: Measuring) -> dict[str, Any]:
        """Let workers measure a campaign; its table is written here."""
        from stripewise.requests.campaign import campaign_text

        given = {"--shard": asked.shard, "--journal": asked.journal}
        wrong = [name for name, value in given.items() if value is not None]
        if wrong:
            raise UserError(f"{wrong[0]} means nothing to a service", "leave it out, or --server")
        with self._face.measuring() as listener:
            runs = listener.plan(asked.points)
            found = self.client.run_campaign(
                campaign_text(asked.campaign)[0], _name_changes(asked.changed), resume=True, retry=asked.retry
            )
            place = f"/campaigns/{found['id']}"
            with watch_interruption(f"campaign {found['id']}"):
                while found["state"] in ("queued", "running"):
                    if found["ended"]:
                        listener.show(found["ended"], max(0, runs - found["ended"]))
                    time.sleep(0.5)
                    found = self.client.get(place)
        if found["state"] != "done":
            what, _, fix = str(found["error"] or f"campaign {found['id']} was stopped").partition("; ")
            raise StripewiseError(what, fix or "the same command goes on")
        assert asked.out is not None, "only an evaluation writes no table"
        files = {ending: asked.out.with_name(asked.out.name + ending) for ending in (".csv", ".toml")}
        for ending, file in files.items():
            self.fetch(f"{place}/table{ending}", file)
        return {**found["result"], "table": str(files[".csv"])}

    def evaluate(self, asked: Measuring, model: str, eager: bool) -> dict[str, Any]:
        """Let a worker measure what a model prescribes; see :meth:`Desk.evaluate`."""
        from stripewise.requests.campaign import campaign_text

        if asked.journal is not None:
            raise UserError("both --journal and --server are given", "leave --journal out: a service keeps its results")
        name, text = self.send_model(model), campaign_text(asked.campaign)[0]
        job = self.client.evaluate(text, name, _name_changes(asked.changed), eager=eager, retry=asked.retry)
        document = self.wait(job)
        self._face.tell(str(document.pop("says")))
        return document

    def bundle(self, identifier: str) -> tuple[str, bytes]:
        """Let the service make the helpdesk's bundle; see :meth:`Desk.bundle`."""
        record = self.experiments().record(identifier)
        return record.id, self.client.bundle(record.id)

    # -- what the operations share -------------------------------------------------------------------------

    def send_table(self, table: str) -> str:
        """Give a table's name on the service: one that lies here is sent, under a name made of its content."""
        files = table_files(table)
        if not self._is_here(table, files, "table"):
            return table
        try:
            toml, csv = (file.read_bytes().decode() for file in files)
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"cannot read {table}: {error}", "check its two files") from error
        name = _name_of(csv, toml)
        with _known_already():
            self.client.keep_table(name, csv, toml)
        return name

    def send_model(self, model: str) -> str:
        """Give a model's name on the service: one that lies here is sent, as a table is."""
        path = Path(model)
        if not self._is_here(model, [path], "model"):
            return model
        with checked_model(path) as place:
            name = _name_of(place.read_bytes())
            with _known_already():
                self.client.upload("/models", place, name=name)
        return name

    def _learned(self, given: str) -> str:
        """Give a model's name on the service; on a table that lies here a model is trained there."""
        if not self._is_here(given, table_files(given), "table"):
            return self.send_model(given)
        name = self.send_table(given)
        with _known_already():
            self.wait(self.client.train(name, name, "auto"))
        return name

    def _is_here(self, word: str, files: Sequence[Path], noun: str) -> bool:
        """Whether a word is that of files that lie here; a remark says so where the service's are taken instead."""
        here = all(file.is_file() for file in files)
        if here and not names_file(word):
            self._face.tell(f"{noun} {word} is the service's; write ./{word} for the one in this folder")
        return here and names_file(word)

    def fetch(self, address: str, path: Path) -> None:
        """Write a file of the service here, whole or not at all."""
        content = self.client.download(address)
        write_whole(path, lambda part: part.write_bytes(content), "file")

    def wait(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Wait for a job, and give its result; an interruption ends the waiting alone."""
        said = ""

        def hear(found: Mapping[str, Any]) -> None:
            nonlocal said
            if found["state"] != said and found["state"] == "queued":
                self._face.tell("waits for a worker of the service")
            said = found["state"]

        with watch_interruption(f"job {job['id']}"):
            return self.client.wait(job, hear)


@contextlib.contextmanager
def watch_interruption(what: str) -> Iterator[None]:
    """Say on an interruption that the service goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"no longer watched; the service continues {what}") from None


def _name_changes(changed: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Give changes of a campaign's file under the names of a service's requests."""
    return {name.rpartition(".")[2]: value for name, value in changed}


def _refuse_small(small: SmallCase | None) -> None:
    """Refuse a small case: a service knows one experiment at a time."""
    if small is not None:
        raise UserError("--server does not take --small", "leave one of them out")


def _refuse(stacks: Sequence[str]) -> None:
    if stacks:
        raise UserError(
            "both --stack and --server are given",
            "train here with --stack: the model then holds the stack; tables of campaigns hold theirs already",
        )


def _name_of(*contents: str | bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content.encode() if isinstance(content, str) else content)
        digest.update(b"\0")
    return f"sent-{digest.hexdigest()[:16]}"


@contextlib.contextmanager
def _known_already() -> Iterator[None]:
    """Pass over the refusal of what has the same name, and so the same content."""
    try:
        yield
    except ServiceError as error:
        if error.status != 409:
            raise
