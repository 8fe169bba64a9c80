"""The jobs of workers besides experiments: training, validating and evaluating models, and campaigns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stripewise.model.table import read_table
from stripewise.model.training import learn
from stripewise.server.files import campaign_in, folder_of, table_path
from stripewise.spec.campaign_points import Points
from stripewise.store.service.jobs import ServiceJob
from stripewise.store.service.keeping import Items
from stripewise.tuning.session import Stopped

if TYPE_CHECKING:
    from stripewise.profiling.carry import CampaignEnd

Stopping = Callable[[], bool]


def train(job: ServiceJob, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Learn a model from a table that was uploaded, or that a campaign has made."""
    request = job.request
    place = folder_of(data, "model", job.subject)
    measured = read_table(table_path(data, request["table"]))
    place.mkdir(parents=True, exist_ok=True)
    explain = bool(request.get("explain"))
    made = learn(measured, request["model"], request["options"], request["seed"], place / "model", explain=explain)
    document = {"kind": request["model"], "table": request["table"], "rows": made.rows, "seconds": made.seconds}
    items.put("model", job.subject, request["name"], job.submitter, document)
    return {"model": job.subject, **document, "name": measured.name, "speed_rules": made.speed_rules}


def validate(job: ServiceJob, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Say how well a kind of model does on a table."""
    # Slow to load, and large: only a worker that validates has need of it.
    from stripewise.evaluation import validation  # noqa: PLC0415

    request = job.request
    measured = read_table(table_path(data, request["table"]))
    kind = request["model"]

    def progress(done: int, of: int) -> None:
        if stopping():
            raise Stopped("the validation was stopped")

    found = validation.validate(
        measured,
        kind,
        request["options"],
        folds=request["folds"],
        inverse=request["inverse"],
        columns=request["leave_out"],
        depths=request.get("depths", ()),
        seed=request["seed"],
        progress=progress,
    )
    document = {
        **found.as_json(),
        "table": request["table"],
        "name": measured.name,
        "objective": {"name": measured.objective.name, "unit": measured.objective.unit},
        "pairs": _some(found.pairs),
    }
    # Kept as an item, so that it can be found again without knowing the job.
    items.put("validation", job.subject, f"{kind} on {request['table']}", job.submitter, document)
    return document


def _some(pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most 2,000 of the pairs, evenly taken."""
    step = -(-len(pairs) // 2000) or 1
    return pairs[::step]


def campaign(job: ServiceJob, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Make the runs of a campaign that are left, and write its table."""
    # As in validate.
    from stripewise.profiling.carry import WHOLE, write  # noqa: PLC0415
    from stripewise.profiling.outcome import summary  # noqa: PLC0415
    from stripewise.profiling.plan import CampaignPlan  # noqa: PLC0415

    place = folder_of(data, "campaign", job.subject)
    asked = campaign_in(place)
    points = Points(asked)
    done = _carry_on(points, place, place / "journal", job, stopping)
    bench, whole = done.bench, CampaignPlan(points).known(done.runs)
    saved = write(points, whole, done.runs, bench.objective(points.all[0]), bench.kind, place / "table")
    return summary(
        asked,
        done.progress.runs,
        done.runs,
        kind=bench.kind,
        complete=done.progress.complete,
        table=saved,
        shard=WHOLE,
        left_out=points.left_out,
    )


def evaluate(job: ServiceJob, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Measure a campaign's test cases and what a model prescribes for them."""
    # As in validate.
    from stripewise.evaluation.measured import Evaluation  # noqa: PLC0415
    from stripewise.profiling.carry import values  # noqa: PLC0415
    from stripewise.profiling.designs import first_batch  # noqa: PLC0415

    place = folder_of(data, "evaluation", job.subject)
    asked = campaign_in(place)
    model = folder_of(data, "model", job.request["model"]) / "model"
    question = Evaluation.prepare(asked, model, first_batch(Points(asked)), eager=bool(job.request["eager"]))
    # A model that was replaced since asks for other runs.
    kept = place / f"journal-{question.points.campaign.digest}"
    done = _carry_on(question.points, place, kept, job, stopping)
    return {**question.document(*values(question.points, done.runs), done.bench), "says": question.says}


def _carry_on(points: Points, place: Path, kept: Path, job: ServiceJob, stopping: Stopping) -> CampaignEnd:
    from stripewise.profiling.carry import carry_on  # noqa: PLC0415
    from stripewise.profiling.session import Paused  # noqa: PLC0415

    def listen(kind: str, about: Mapping[str, Any]) -> None:
        if stopping():
            raise Paused("it was stopped", "start it again to go on")

    try:
        return carry_on(points, place, kept, job.owner, listen, retry=bool(job.request.get("retry")))
    except Paused as error:
        raise Stopped(error.what, error.fix) from error


WORK: dict[str, Callable[[ServiceJob, Path, Items, Stopping], dict[str, Any]]] = {
    "training": train,
    "validation": validate,
    "campaign": campaign,
    "evaluation": evaluate,
}
"""What carries each kind of job on."""
