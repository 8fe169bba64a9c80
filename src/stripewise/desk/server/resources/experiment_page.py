"""The page of one experiment, and its figures as JSON, fetched beside it so that text never waits for a drawing."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, Response

from stripewise.desk.server import experiment_documents
from stripewise.desk.server.experiment_documents import PageHistory, history, read
from stripewise.desk.server.html import as_json, figures_text, render
from stripewise.desk.server.policy import check_experiment
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import Resource
from stripewise.desk.server.resources.experiments import Id, line
from stripewise.desk.server.resources.runs import RunState, output_folder
from stripewise.desk.server.service import Here, Service, User, tell_unreadable, version
from stripewise.engine.confirmation import HOPELESS_PAIRS
from stripewise.engine.reconfirmation import USUAL_PAIRS, changed_since
from stripewise.errors import StripewiseError, UserError
from stripewise.facts import RunFacts
from stripewise.output import compare
from stripewise.output.bundle import log_tail
from stripewise.output.experiment_view import ExperimentView
from stripewise.sizes import format_value
from stripewise.store.base import Record
from stripewise.trial import Phase, Role, State, Trial

resource = Resource("/experiments/{id}")

_RUNS = 20
_MESSAGES = 30
_LAST_LINES = 12
_LAST_BYTES = 8192
_STATES = ("pending", "running", "finished", "failed", "pruned")
_MOST_PARAMETERS = 40


@resource.page("")
def experiment_page(
    request: Request,
    service: Here,
    user: User,
    id: Id,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    state: RunState | None = None,
    check: bool = False,
) -> HTMLResponse:
    """Show an experiment, with a page of its runs; ``check``: say whether its result still holds here."""
    if check and not user.operator:
        # It tells which files there are on the machine of the service.
        raise Refused(403, f"the token '{user.name}' may not look at programs here", "use an operator's token")
    known = history(service, id)
    record, found = known.record, known.found
    whole = record.result is not None
    job = service.jobs.of(record.id)
    return render(
        request,
        "experiment.html",
        title=record.experiment.name or record.id,
        record=record,
        line=line(experiment_documents.summaries(service, [record])[0]),
        error=job.error if job is not None and record.state not in ("finished", "running") else "",
        view=found,
        result=found.result,
        whole=whole,
        command=shlex.join(record.experiment.command),
        sections=known.sections,
        figures=known.figures,
        levels=[axis.name for axis in found.lines()[0]],
        targets=known.targets,
        can_confirm=known.can_confirm,
        most_pairs=HOPELESS_PAIRS,
        usual_pairs=USUAL_PAIRS,
        checked=check_record(record, service) if check else None,
        messages=_messages(service, record.id),
        steps=_steps(known),
        left=_seconds_left(known),
        output=_live_output(known),
        **_runs(service, known, page, state),
    )


def _runs(service: Service, known: PageHistory, page: int, state: str | None) -> dict[str, Any]:
    """Collect a page of the runs, each with what it changed."""
    record = known.record
    total = experiment_documents.count_runs(service, record.id, state)
    pages = max(1, -(-total // _RUNS))
    page = min(page, pages)
    if record.state == "running" and not state:
        # The newest first while it runs: that is what people watch.
        start = max(0, total - page * _RUNS)
        rows = experiment_documents.runs_page(service, record.id, min(_RUNS, total - (page - 1) * _RUNS), start, state)[
            ::-1
        ]
    else:
        rows = experiment_documents.runs_page(service, record.id, _RUNS, (page - 1) * _RUNS, state)
    return {
        "runs": [{**row, **known.about(row["trial"])} for row in rows],
        "runs_total": total,
        "runs_page": page,
        "runs_pages": pages,
        "runs_state": state,
        "runs_by_state": Counter(run.state.value for trial in known.trials for run in trial.runs),
        "run_states": _STATES,
    }


def check_record(record: Record, service: Service) -> dict[str, Any]:
    """Say what is not as it was when an experiment ran; nothing is started."""
    folder = Path(record.facts.folder or service.settings.data)
    check_experiment(record.experiment, folder, service.settings)
    try:
        differences, unknown = changed_since(record)
        return {"differences": differences, "unknown": "; ".join(unknown), "error": ""}
    except StripewiseError as error:
        return {"differences": [], "unknown": "", "error": f"{error.what}; {error.fix}" if error.fix else error.what}


def _messages(service: Service, identifier: str) -> list[dict[str, Any]]:
    """What the session had to say in words, the newest first."""
    said = [
        (message.time, _write_message(message.kind, message.data)) for message in service.messages.after(0, identifier)
    ]
    return [{"time": time, "text": text} for time, text in said[::-1] if text][:_MESSAGES]


def _write_message(kind: str, data: Mapping[str, Any]) -> str:
    """Write a message of a session; empty where it has nothing for people."""
    if kind == "prepared":
        return "; ".join([*data.get("summary", ()), *data.get("warnings", ())])
    if kind == "space":
        left = "; ".join(f"{name}: {why}" for name, why in data.get("left_out", {}).items())
        about = "" if data.get("exact") else "about "
        size = f"{about}{data.get('distinct', 0):,} configurations of {', '.join(data.get('names', ()))}"
        return f"Space: {size}." + (f" Left out: {left}." if left else "")
    return str(data.get("text") or data.get("verdict") or data.get("what") or "")


def _steps(known: PageHistory) -> list[tuple[str, str, int]]:
    """Name the steps of an experiment, where each stands (done, now, stopped, to come), and how many runs ended."""
    runs = [run for trial in known.trials for run in trial.runs]
    latest = max(runs, key=lambda run: run.number).phase if runs else None
    order = (Phase.WARMUP, Phase.SEARCH, Phase.CONFIRMATION)
    at = order.index(latest) if latest in order else 0
    over = known.record.result is not None
    # Nothing goes on in an experiment that was stopped or has failed.
    here = {"stopped": "stopped", "failed": "stopped", "created": "to come"}.get(known.record.state, "now")
    return [
        (
            "warm-up" if phase is Phase.WARMUP else phase.value,
            "done" if over or place < at else here if place == at else "to come",
            sum(run.phase is phase and run.state.ended for run in runs),
        )
        for place, phase in enumerate(order)
    ]


def _seconds_left(known: PageHistory) -> float | None:
    """Estimate how long the launches that the budget still allows would take; None before the first has ended."""
    took = [run.elapsed for trial in known.trials for run in trial.runs if run.elapsed]
    if not took or known.record.state != "running":
        return None
    budget = known.record.experiment.budget
    left = max(0, budget.runs - known.record.ended) * statistics.median(took)
    return left if budget.seconds is None else min(left, max(0.0, budget.seconds - known.record.facts.seconds))


def _live_output(known: PageHistory) -> tuple[int, str] | None:
    """Give the number of the run that is under way, and the last lines that it has printed."""
    record = known.record
    if record.state != "running":
        return None
    for trial in known.trials:
        for run in trial.runs:
            place = output_folder(record, {"folder": "", "state": run.state.value, "number": run.number})
            if run.state is State.RUNNING and place:
                text = log_tail(replace(run, facts=RunFacts({"folder": place})), "stdout", _LAST_BYTES) or ""
                return run.number, "\n".join(text.splitlines()[-_LAST_LINES:])
    return None


# -- figures -------------------------------------------------------------------------------------------------------


@resource.page("/figures.json")
def figures(service: Here, id: Id, part: Literal["runs", "facts", "values"] = "runs") -> Response:
    """Give the figures that need the runs alone, or those that need what was observed in each run."""
    record = service.store.record(id)

    def draw() -> str:
        _, trials, found = read(service, record.id, facts=part == "facts")
        if part == "facts":
            return figures_text(_of_facts(found))
        return figures_text(_of_values(found, trials) if part == "values" else _of_runs(found, trials))

    return Response(service.figures.get((part, *version(record)), draw), media_type="application/json")


def _of_runs(found: ExperimentView, trials: Sequence[Trial]) -> dict[str, Any]:
    """Draw what the report draws, and trials with their repeats taken together."""
    from stripewise.output.figures import figures as report_figures  # noqa: PLC0415
    from stripewise.output.plots.parameters import trials as trials_figure  # noqa: PLC0415

    drawn = dict(report_figures(found))
    drawn["trials"] = trials_figure(
        trials,
        found.describe,
        **found.scale,
        default=found.result.default.value,
        reference=found.result.reference.value if found.result.reference else None,
    )
    return drawn


def _of_values(found: ExperimentView, trials: Sequence[Trial]) -> dict[str, Any]:
    """Draw each parameter by itself, raw and with repeats taken together."""
    from stripewise.output.plots.parameters import (  # noqa: PLC0415
        Axis,
        LevelPoint,
        by_level,
    )

    drawn: dict[str, Any] = {}
    default = found.result.default.value
    best = (found.result.candidate or found.result.best).trial
    axes, _ = found.lines()
    own = [trial for trial in trials if trial.values and trial.role is not Role.REFERENCE]
    for index, axis in enumerate(axes[:_MOST_PARAMETERS]):
        levels = {trial.number: _found_level(found, trial, axis) for trial in own}
        known = [trial for trial in own if levels[trial.number] is not None]
        for name, each in (("runs", True), ("trials", False)):
            marks = [
                LevelPoint(levels[trial.number] or 0, value, found.describe(trial), trial.number == best)
                for trial in known
                for value in (trial.values if each else [float(trial.value or 0.0)])
            ]
            drawn[f"level-{index}-{name}"] = by_level(
                Axis(axis.name, axis.labels),
                marks,
                quantity=found.quantity,
                unit=found.unit,
                default=default,
            )
    return drawn


def _found_level(found: ExperimentView, trial: Trial, axis: Any) -> int | None:
    """Find the place of a trial's value on an axis; None if it has none."""
    value = {**found.default, **trial.configuration}.get(axis.name)
    text = format_value(value, found.units.get(axis.name, ""))
    return list(axis.labels).index(text) if text in axis.labels else None


def _of_facts(found: ExperimentView) -> dict[str, Any]:
    """Draw what held simulated runs back, and the storage targets and nodes that runs used."""
    from stripewise.output.places import collect_placement, place_map  # noqa: PLC0415
    from stripewise.output.plots.job_io import bounds  # noqa: PLC0415

    drawn: dict[str, Any] = {}
    bounded = found.bounded()
    if bounded:
        drawn["bounds"] = bounds(bounded)
    where = collect_placement(found)
    if where.osts:
        drawn["osts"] = place_map(where.osts, kind="OST")
    if where.nodes:
        drawn["nodes"] = place_map(where.nodes, kind="node")
    return drawn


# -- several experiments side by side ----------------------------------------------------------------------------------

comparisons = Resource("/compare")

MOST = 8
_CHOICES = 100
Ids = Annotated[list[Annotated[str, Query(max_length=64)]] | None, Query()]


def comparison(service: Service, identifiers: list[str]) -> dict[str, Any]:
    """Collect what the page shows.

    Raises
    ------
    UserError
        More than :data:`MOST`, or one that does not exist.
    """
    found = _views(service, identifiers)
    readings = list(found.values())
    chosen = {one.record.id for one in readings}
    others = [
        record
        for record in service.store.records(limit=_CHOICES, descending=True, on_unreadable=tell_unreadable)
        if record.id not in chosen
    ]
    return {
        "lines": [line(entry) for entry in experiment_documents.summaries(service, [one.record for one in readings])],
        "views": readings,
        "titles": list(found),
        "parameters": compare.parameters(readings),
        "facts": _facts(readings),
        "notes": compare.differences(readings) if len(readings) > 1 else [],
        "others": others,
        "query": "&".join(f"id={one.record.id}" for one in readings),
    }


def _views(service: Service, identifiers: list[str]) -> dict[str, ExperimentView]:
    wanted = list(dict.fromkeys(identifiers))
    if len(wanted) > MOST:
        raise UserError(f"{len(wanted)} experiments are too many to compare", f"choose up to {MOST}")
    found: dict[str, ExperimentView] = {}
    for identifier in wanted:
        record, _, one = read(service, identifier)
        found[f"{record.experiment.name or 'experiment'} {record.id}"] = one
    return found


def _facts(readings: list[ExperimentView]) -> list[tuple[str, list[str]]]:
    return [
        ("Objective", [f"{one.quantity} ({one.result.objective.direction})" for one in readings]),
        ("Sampler", [one.record.experiment.sampler for one in readings]),
        ("Runner", [one.record.experiment.runner for one in readings]),
        ("MPI", [str(one.result.environment.get("mpi") or "–") for one in readings]),
        ("Ranks", [str(one.result.validity.ranks or "–") for one in readings]),
        ("Nodes", [str(one.result.workload.nodes or "–") for one in readings]),
        ("Verdict", [one.result.verdict or "not finished" for one in readings]),
    ]


@comparisons.page("")
def compare_experiments(request: Request, service: Here, id: Ids = None) -> HTMLResponse:
    """Compare experiments."""
    return render(request, "compare.html", title="Compare", **comparison(service, id or []))


@comparisons.page("/figures.json")
def comparison_figures(service: Here, id: Ids = None) -> Response:
    """Give the figures."""
    return as_json(compare.figures(_views(service, id or [])))
