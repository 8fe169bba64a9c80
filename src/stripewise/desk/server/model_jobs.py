"""The jobs of workers besides experiments: training, validating and evaluating models, and campaigns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from stripewise.desk.desk import CampaignListener, Measuring, Unattended
from stripewise.desk.local import LocalDesk
from stripewise.desk.server.child import Child
from stripewise.desk.server.files import campaign_in, folder_of, table_path
from stripewise.errors import Stopped, UserError
from stripewise.models.domain import Domain, Floats
from stripewise.requests.campaign_points import Points
from stripewise.store.service.jobs import ServiceJob
from stripewise.store.service.keeping import Items

Stopping = Callable[[], bool]
_MEMORY = 8 << 30
_STEP_SECONDS = 3600.0
"""How long a training may take, and a fold of a validation."""
_MOST_KEPT = 1 << 30
"""Bytes that a child takes at most, with its libraries, which waits for the next job."""


def train(job: ServiceJob, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Learn a model from a table that was uploaded, or that a campaign has made."""
    request = job.request
    place = folder_of(data, "model", job.subject)
    place.mkdir(parents=True, exist_ok=True)
    table, out = str(table_path(data, request["table"])), str(place / "model")
    made = _in_child("train", stopping, table=table, request=request, out=out)
    document = {"kind": request["model"], "table": request["table"], "rows": made["rows"], "seconds": made["seconds"]}
    items.put("model", job.subject, request["name"], job.submitter, document)
    return {"model": job.subject, **document, "name": made["name"], "speed_rules": made["speed_rules"]}


def validate(job: ServiceJob, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Say how well a kind of model does on a table."""
    request = job.request
    found = _in_child("validate", stopping, table=str(table_path(data, request["table"])), request=request)
    document = {**found, "table": request["table"]}
    # Kept as an item, so that it can be found again without knowing the job.
    name = f"{request['model']} on {request['table']}"
    items.put("validation", job.subject, name, job.submitter, document)
    return document


_kept: list[Child] = []
# A fork is another process with the same names: the children stay with the process that started them.
os.register_at_fork(after_in_child=_kept.clear)


class Helper:
    """A child that does work of a job in bounded time and memory.

    The next job gets it, since loading its libraries takes seconds. It is ended after work that failed, and with the
    context where it has much memory left.

    Parameters
    ----------
    stopping : callable
        Says whether the job is to stop; then the child is ended.
    """

    def __init__(self, stopping: Stopping) -> None:
        self._child = _kept.pop() if _kept else Child(_MEMORY, {})
        self._stopping = stopping

    def ask(self, work: str, **given: Any) -> Any:
        """Do some work; raises as :meth:`Child.ask`, and Stopped."""
        try:
            return self._child.ask(work, _STEP_SECONDS, self._step, **given)
        except BaseException:
            self._child.end()
            raise

    def _step(self) -> None:
        if self._stopping():
            raise Stopped("it was stopped")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if 0 < self._child.resident() < _MOST_KEPT:
            _kept.append(self._child)
        else:
            self._child.end()


def end_kept() -> None:
    """End the child that waits for the next job."""
    while _kept:
        _kept.pop().end()


class HelpedModel:
    """A performance model that a helper reads and uses; see :class:`stripewise.engine.model_prior.Expecting`."""

    def __init__(self, helper: Helper, path: str) -> None:
        self._helper, self._path = helper, path
        found = self._ask("open_model")
        self.name: str = found["name"]
        self.domain = Domain.from_json(found["domain"])

    def expected(self, points: Floats) -> Floats:
        """Natural logarithm of performance, larger is better."""
        return np.asarray(self._ask("expect", points=points.tolist()), dtype=np.float64)

    def _ask(self, work: str, **given: Any) -> Any:
        try:
            return self._helper.ask(work, path=self._path, **given)
        except UserError as error:
            raise UserError(f"the model {self._path}: {error.what}", error.fix) from error


def _in_child(work: str, stopping: Stopping, **given: Any) -> dict[str, Any]:
    with Helper(stopping) as helper:
        made: dict[str, Any] = helper.ask(work, **given)
        return made


class _JobFace(Unattended):
    """Ends a campaign when its job is to stop."""

    def __init__(self, stopping: Stopping) -> None:
        self._stopping = stopping

    @contextlib.contextmanager
    def measuring(self) -> Iterator[CampaignListener]:
        """Let a campaign look after each run whether to go on."""
        from stripewise.engine.campaign.session import Paused  # noqa: PLC0415  as in validate

        try:
            yield self
        except Paused as error:
            raise Stopped(error.what, error.fix) from error

    def __call__(self, kind: str, data: Mapping[str, Any]) -> None:
        """Hear of an event of a session."""
        from stripewise.engine.campaign.session import Paused  # noqa: PLC0415  as in validate

        if self._stopping():
            raise Paused("it was stopped", "start it again to go on")


def campaign(job: ServiceJob, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Make the runs of a campaign that are left, and write its table."""
    place = folder_of(data, "campaign", job.subject)
    asked = campaign_in(place)
    retry = bool(job.request.get("retry"))
    measuring = Measuring(asked.name, (), Points(asked), place / "table", journal=place / "journal", retry=retry)
    return LocalDesk(None, _JobFace(stopping)).measure(measuring)


def evaluate(job: ServiceJob, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Measure a campaign's test cases and what a model prescribes for them."""
    # As in validate.
    from stripewise.desk.measuring import measure_cases  # noqa: PLC0415
    from stripewise.engine.campaign.measured import Evaluation  # noqa: PLC0415
    from stripewise.engine.campaign.plan import first_batch  # noqa: PLC0415

    place = folder_of(data, "evaluation", job.subject)
    asked = campaign_in(place)
    model = folder_of(data, "model", job.request["model"]) / "model"
    eager = bool(job.request["eager"])
    found = _in_child("prescribe_cases", stopping, campaign=str(place), model=str(model), eager=eager)
    question = Evaluation.of(asked, first_batch(Points(asked)), found, eager=eager)
    # A model that was replaced since asks for other runs.
    kept = place / f"journal-{question.points.campaign.digest}"
    retry = bool(job.request.get("retry"))
    return {**measure_cases(question, kept, _JobFace(stopping), keep=True, retry=retry), "says": question.says}


WORK: dict[str, Callable[[ServiceJob, Path, Items, Stopping], dict[str, Any]]] = {
    "training": train,
    "validation": validate,
    "campaign": campaign,
    "evaluation": evaluate,
}
"""What carries each kind of job on."""
