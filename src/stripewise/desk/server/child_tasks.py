"""What a bounded child does with models, tables, logs and scripts: of paths and JSON values it makes JSON values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.desk.desk import Question, Training, Unattended, Validating
from stripewise.desk.local import LocalDesk
from stripewise.desk.server.documents import describe_stack
from stripewise.desk.server.files import campaign_in
from stripewise.diagnose.knobs import Surroundings, review_script
from stripewise.diagnose.site import diagnose
from stripewise.engine.campaign.measured import choose_for_cases
from stripewise.engine.campaign.plan import first_batch
from stripewise.models.base import PerformanceModel
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import load_model
from stripewise.models.table import Column, read_table
from stripewise.observe.sources import open_one
from stripewise.output.export import export
from stripewise.output.markup import measured_text
from stripewise.requests.campaign import changed_campaign, parse_campaign
from stripewise.requests.campaign_points import Points

Step = Callable[[], None]
_DESK = LocalDesk(None, Unattended())


def describe_model(path: str, step: Step) -> dict[str, Any]:
    """Say of which kind a model is, what it has learned, and what the form for its prescriptions asks."""
    loaded = load_model(path)
    explained = loaded.explain()
    return {
        "kind": loaded.name,
        "rules": explained.rules[:60],
        "importance": explained.importance,
        "single": [name for name, seen in zip(loaded.domain.names, loaded.domain.seen, strict=True) if len(seen) < 2],
        "fields": fields(loaded),
    }


def describe_table(path: str, step: Step) -> dict[str, Any]:
    """Say what is in a table."""
    table = read_table(path)
    return {
        "rows": len(table),
        "columns": [column.name for column in table.schema.columns],
        "objective": table.objective.as_json(),
    }


def read_stack(path: str, step: Step) -> dict[str, Any]:
    """Read a stack file, and say what can be set with it."""
    return describe_stack(load_stack(path))


def prescribe(
    asked: Mapping[str, Any], model: str | None, table: str | None, log: str | None, step: Step
) -> dict[str, Any]:
    """Choose settings for a workload or for what a log shows."""
    workload = Workload.model_validate(asked["workload"] or {})
    request = PrescriptionRequest(workload, asked["current"], asked["context"])
    question = Question(model, table, asked["policy"], asked["osts"])
    found = _DESK.prescribe({"": question}, request, None if log is None else Path(log))[""]
    document = found.as_json()
    if asked["to"] is not None:
        changed = {change.name: change.value for change in found.changes}
        made = export(found.plan, asked["to"], directory=found.directory, changed=changed)
        document["export"] = {"target": asked["to"], "text": made.text, "undo": made.undo, "cannot": list(made.cannot)}
    return document


def fields(model: PerformanceModel) -> list[dict[str, Any]]:
    """Describe the inputs of the form: a workload's words, other contexts, and the current settings."""
    domain = model.domain
    found = []
    for place, column in enumerate(domain.columns):
        values = [column.values[level] for level in domain.seen[place]]
        context = place < domain.contexts
        group = _group(column, context)
        found.append(
            {
                "name": f"{group}.{column.role if group == 'workload' else column.name}",
                "label": column.name,
                "context": context,
                "choices": [str(value).lower() if isinstance(value, bool) else str(value) for value in values]
                if column.kind != "ordinal" or len(values) <= 1
                else [],
                "known": f"{measured_text(values[0], column.unit)} to {measured_text(values[-1], column.unit)}"
                if column.kind == "ordinal" and len(values) > 1
                else "",
                "default": "" if column.default is None else str(column.default),
            }
        )
    return found


def _group(column: Column, context: bool) -> str:
    if not context:
        return "current"
    return "workload" if column.role in Workload.model_fields and not column.role.endswith("_size") else "context"


def read_log(path: str, step: Step) -> dict[str, Any]:
    """Read a log, a report, a record or a benchmark's output, and diagnose it."""
    activity = open_one(Path(path))
    found = diagnose(activity)
    return {**found.as_json(), "plan": found.plan(), "activity": activity.model_dump(mode="json")}


def predict_job(log: str, model: str, step: Step) -> dict[str, Any]:
    """Say what a model expects of the job that a log shows."""
    return _DESK.expected(open_one(Path(log)), Path(model))


def train(table: str, request: Mapping[str, Any], out: str, step: Step) -> dict[str, Any]:
    """Learn a model from a table, and write it."""
    asked = Training(
        table,
        request["model"],
        request["options"],
        request["seed"],
        Path(out),
        explain=bool(request.get("explain")),
    )
    name, made = _DESK.train(asked)
    return {"rows": made.rows, "seconds": made.seconds, "name": name, "speed_rules": made.speed_rules}


def validate(table: str, request: Mapping[str, Any], step: Step) -> dict[str, Any]:
    """Say how well a kind of model does on a table."""
    # Slow to load, and large: only a worker that validates has need of it.
    from stripewise.models.validation import HoldOut  # noqa: PLC0415

    held = {"folds": "folds", "inverse": "inverse", "leave_out": "columns", "depths": "depths", "seed": "seed"}
    hold_out = HoldOut(**{field: request[name] for name, field in held.items() if name in request})
    asked = Validating(table, request["model"], request["options"], hold_out)
    found = _DESK.validate(asked, lambda done, of: step())
    return {
        **found.found,
        "name": found.table,
        "description": found.description,
        "objective": {"name": found.quantity, "unit": found.unit},
        "pairs": _thin_out(found.pairs),
    }


def count_points(toml: str, changes: Mapping[str, Any], step: Step) -> int:
    """Count the combinations of a campaign, which takes time and memory for each."""
    return len(Points(changed_campaign(parse_campaign(toml, "campaign"), changes.items(), "campaign")).all)


def prescribe_cases(campaign: str, model: str, eager: bool, step: Step) -> dict[str, Any]:
    """Prescribe for the test cases of the campaign in a folder."""
    asked = campaign_in(Path(campaign))
    return choose_for_cases(asked, Path(model), first_batch(Points(asked)), eager=eager)


def judge_settings(
    script: str, mpi: str, file_system: str, workload: Mapping[str, Any], effects: Mapping[str, Any], step: Step
) -> dict[str, Any]:
    """Judge the settings in the text of a job script."""
    shown = {name: (status, evidence) for name, (status, evidence) in effects.items()}
    where = Surroundings(mpi, file_system, "", Workload.model_validate(workload), shown)
    return review_script(script, where).as_json()


@functools.lru_cache(maxsize=1)
def _open_model(path: str) -> PerformanceModel:
    return load_model(path)


def open_model(path: str, step: Step) -> dict[str, Any]:
    """Read a model to use it, and say what it is."""
    _open_model.cache_clear()
    return {"name": _open_model(path).name, "domain": _open_model(path).domain.as_json()}


def expect(path: str, points: Sequence[Sequence[float]], step: Step) -> list[float]:
    """Say what a model that was opened expects of points."""
    expected: list[float] = _open_model(path).expected(np.asarray(points, dtype=np.float64)).tolist()
    return expected


def load_libraries(work: str) -> None:
    """Load what models need and is slow and large, for a work with models: reasons and training load it themselves."""
    if work in _WITH_MODELS:
        import sklearn.ensemble  # noqa: F401, PLC0415


def _thin_out(pairs: Sequence[Any]) -> Sequence[Any]:
    """At most 2,000 of the pairs, evenly taken."""
    step = -(-len(pairs) // 2000) or 1
    return pairs[::step]


_MODELS = (describe_model, prescribe, predict_job, train, validate, prescribe_cases, open_model, expect)
_OTHERS = (describe_table, read_stack, read_log, count_points, judge_settings)
_WITH_MODELS = frozenset(work.__name__ for work in _MODELS)
WORK: dict[str, Callable[..., Any]] = {work.__name__: work for work in (*_MODELS, *_OTHERS)}
