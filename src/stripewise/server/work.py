"""The jobs of workers besides experiments: training and validating models, and campaigns."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stripewise.model.registry import make_model
from stripewise.model.table import read_table
from stripewise.server.places import folder_of, table_path
from stripewise.spec.campaign import parse_campaign
from stripewise.spec.campaign_points import Points
from stripewise.store.service.jobs import Job
from stripewise.store.service.keeping import Items
from stripewise.tuning.session import Stopped

Stopping = Callable[[], bool]


def train(job: Job, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Learn a model from a table that was uploaded, or that a campaign has made."""
    request = job.request
    place = folder_of(data, "model", job.subject)
    measured = read_table(table_path(data, request["table"]))
    begun = time.perf_counter()
    fitted = make_model(request["model"], request["options"]).fit(measured, request["seed"])
    place.mkdir(parents=True, exist_ok=True)
    fitted.save(place / "model")
    seconds = time.perf_counter() - begun
    document = {"kind": request["model"], "table": request["table"], "rows": len(measured), "seconds": seconds}
    items.put("model", job.subject, request["name"], job.submitter, document)
    return {"model": job.subject, **document}


def validate(job: Job, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Say how well a kind of model does on a table."""
    # Slow to load, and large: only a worker that validates has need of it.
    from stripewise.evaluation.validation import cross_validate, inverse_validate, leave_out  # noqa: PLC0415

    request = job.request
    measured = read_table(table_path(data, request["table"]))
    options, seed, kind = request["options"], request["seed"], request["model"]

    def progress(done: int, of: int) -> None:
        if stopping():
            raise Stopped("the validation was stopped")

    if request["leave_out"]:
        columns = list(request["leave_out"])
        found = leave_out(
            measured, kind, columns, options, folds=request["folds"], depths=[], seed=seed, progress=progress
        )
    elif request["inverse"]:
        found = inverse_validate(measured, kind, options, folds=request["inverse"], seed=seed, progress=progress)
    else:
        found = cross_validate(measured, kind, options, folds=request["folds"] or 5, seed=seed, progress=progress)
    document = {
        **found.as_json(),
        "table": request["table"],
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


def campaign(job: Job, data: Path, items: Items, stopping: Stopping) -> dict[str, Any]:
    """Make the runs of a campaign that are left, and write its table."""
    # As in validate.
    from stripewise.profiling.book import Book  # noqa: PLC0415
    from stripewise.profiling.outcome import save, summary, table_of  # noqa: PLC0415
    from stripewise.profiling.plan import Plan  # noqa: PLC0415
    from stripewise.profiling.session import Paused, Session  # noqa: PLC0415
    from stripewise.runner.benchmark import Bench  # noqa: PLC0415

    place = folder_of(data, "campaign", job.subject)
    asked = parse_campaign((place / "campaign.toml").read_text("utf-8"), "campaign.toml")
    points = Points(asked)
    bench = Bench(asked, points, place / "runs", dict(os.environ))
    book = Book(asked, (1, 1), place / "journal", job.owner)

    def listen(kind: str, about: Any) -> None:
        if stopping():
            raise Paused("the campaign was stopped", "start it again to go on")

    with contextlib.closing(book):
        try:
            progress = Session(points, bench, book, (1, 1), place / "runs", listen).run()
        except Paused as error:
            raise Stopped(error.what, error.mend) from error
        whole = Plan(points).known(book.runs)
        kind = bench.kind
        about = {
            "simulated": f"Simulated on {asked.runner}: computed, not measured.",
            "replayed": f"Replayed from {asked.runner.partition(':')[2]}.",
        }.get(kind, f"Measured with {asked.program}.")
        grid = asked.design.kind == "grid"
        table = table_of(points, whole.runs, book.runs, bench.objective(points.all[0]), about, grid)
        saved = save(table, place / "table")
        return summary(
            asked,
            progress.runs,
            book.runs,
            kind=kind,
            complete=progress.complete,
            table=saved,
            shard=(1, 1),
            left_out=points.left_out,
        )


WORK: dict[str, Callable[[Job, Path, Items, Stopping], dict[str, Any]]] = {
    "training": train,
    "validation": validate,
    "campaign": campaign,
}
"""What carries each kind of job on."""
