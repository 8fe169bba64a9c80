"""Models: what they learned, how well they predict, and what they would prescribe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import ValidationError

from stripewise.errors import StripewiseError, UserError
from stripewise.model.base import PerformanceModel
from stripewise.model.registry import load_model, model_names
from stripewise.model.table import Column
from stripewise.report.markup import measured_text
from stripewise.server import models, prescribing
from stripewise.server.pages.drawings import as_json
from stripewise.server.pages.jobs_of import standing
from stripewise.server.pages.view import PageRoute, render
from stripewise.server.places import table_path
from stripewise.server.service import Here, Service, User
from stripewise.server.uploads import checked_name
from stripewise.spec.workload import Workload

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_MOST = 200
_SHOWN_VALUES = 40
Name = Annotated[str, Path(min_length=1, max_length=64)]


def tables(service: Service) -> list[dict[str, str]]:
    """List the tables that a model can learn: uploaded ones, and those of campaigns that have ended."""
    found = [{"value": item.id, "words": item.name} for item in service.items.page("table", _MOST)]
    for item in service.items.page("campaign", _MOST):
        try:
            table_path(service.settings.data, f"campaign:{item.id}")
        except UserError:
            continue
        found.append({"value": f"campaign:{item.id}", "words": f"campaign {item.name} {item.id}"})
    return found


def overview(service: Service) -> dict[str, Any]:
    """Collect what the page of all models shows."""
    validations = service.items.page("validation", _MOST)
    return {
        "models": [models.shown(item) for item in service.items.page("model", _MOST)],
        "kept": [models.shown(item) for item in service.items.page("table", _MOST)],
        "validations": [models.shown(item) for item in validations],
        "tables": tables(service),
        "kinds": model_names(),
    }


@router.get("/models")
def show_models(request: Request, service: Here, training: Annotated[str, Query(max_length=64)] = "") -> HTMLResponse:
    """Show all models."""
    busy = {"name": training, **standing(service, training)} if training else None
    return render(request, "models.html", title="Models", **overview(service), busy=busy)


@router.post("/models/train")
def train(
    service: Here,
    user: User,
    name: Annotated[str, Form(max_length=64)],
    table: Annotated[str, Form(max_length=128)],
    kind: Annotated[str, Form(max_length=64)] = "auto",
    options: Annotated[str, Form(max_length=4000)] = "",
) -> RedirectResponse:
    """Let a worker learn a model."""
    checked_name(name, "model")
    asked = {"table": table, "model": kind, "options": _options(options), "seed": 0}
    models.train(service, name, asked, user)
    return RedirectResponse(f"/models?training={name}", 303)


@router.post("/models/validate")
def validate(
    service: Here,
    user: User,
    table: Annotated[str, Form(max_length=128)],
    kind: Annotated[str, Form(max_length=64)] = "auto",
    how: Annotated[str, Form(max_length=20, pattern="^(folds|contexts|inverse)$")] = "folds",
    folds: Annotated[int, Form(ge=2, le=50)] = 5,
    options: Annotated[str, Form(max_length=4000)] = "",
) -> RedirectResponse:
    """Let a worker say how well a kind of model predicts what it has not seen."""
    asked = {
        "table": table,
        "model": kind,
        "options": _options(options),
        "seed": 0,
        "folds": None if how == "inverse" else folds,
        "inverse": folds if how == "inverse" else None,
        "leave_out": ["contexts"] if how == "contexts" else [],
    }
    job = models.validate(service, asked, user)
    return RedirectResponse(f"/validations/{job.subject}", 303)


@router.post("/models/{name}/delete")
def delete_model(service: Here, name: Name) -> RedirectResponse:
    """Delete a model."""
    models.delete(service, "model", name)
    return RedirectResponse("/models", 303)


@router.post("/tables/{name}/delete")
def delete_table(service: Here, name: Name) -> RedirectResponse:
    """Delete a table."""
    models.delete(service, "table", name)
    return RedirectResponse("/models", 303)


@router.get("/validations/{name}")
def show_validation(request: Request, service: Here, name: Name) -> HTMLResponse:
    """Show how well a kind of model predicts, or that a worker is at it."""
    where = standing(service, name)
    document = _validation(service, name)
    if document is None and where["state"] == "created":
        raise UserError(f"there is no validation '{name}'", "see the list of models")
    return render(request, "validation.html", title="Validation", name=name, document=document, where=where)


def _validation(service: Service, name: str) -> dict[str, Any] | None:
    try:
        return dict(service.items.get("validation", name).document)
    except UserError:
        return None


@router.get("/validations/{name}/figures.json")
def validation_figures(service: Here, name: Name) -> Response:
    """Give the figure of predicted and measured values."""
    return as_json(_accuracy(_validation(service, name)))


def _accuracy(document: Mapping[str, Any] | None) -> dict[str, Any]:
    if not document or not document.get("pairs"):
        return {}
    from stripewise.plots.accuracy import predicted_measured  # noqa: PLC0415

    measured, predicted = zip(*document["pairs"], strict=True)
    objective = document["objective"]
    drawn = predicted_measured(
        measured, predicted, quantity=objective["name"], unit=objective["unit"], how=document["held_out"]
    )
    return {"accuracy": drawn}


# -- one model ---------------------------------------------------------------------------------------------


def model_page(service: Service, name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Collect what the page of one model shows, and its prescription if one was asked for."""
    item = models.shown(service.items.get("model", name))
    loaded = load_model(models.model_path(service, name))
    explained = loaded.explain()
    own = [
        one
        for one in service.items.page("validation", _MOST)
        if one.document.get("table") == item["table"] and one.document.get("model") == item["kind"]
    ]
    answer, error = None, None
    if any(key.split(".")[0] in ("workload", "context", "current") for key in given):
        try:
            answer = prescribing.prescribe(service, asked_of(service, name, item, given))
        except StripewiseError as found:
            error = found
    return {
        "item": item,
        "rules": list(explained.rules)[:60],
        "importance": dict(explained.importance),
        "fields": fields(loaded),
        "given": dict(given),
        "answer": answer,
        "error": error,
        "validation": own[0].id if own else None,
        "simulated": bool(answer and answer["simulated"]),
    }


def fields(model: PerformanceModel) -> list[dict[str, Any]]:
    """Describe the inputs of the form: a workload's words, other contexts, and the settings of today."""
    domain = model.domain
    found = []
    for place, column in enumerate(domain.columns):
        values = [column.values[level] for level in domain.seen[place]]
        context = place < domain.contexts
        group = _group(column, context)
        found.append(
            {
                "name": f"{group}.{column.role if group == 'workload' else column.name}",
                "label": column.name.replace("_", " "),
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


def asked_of(service: Service, name: str, item: Mapping[str, Any], given: Mapping[str, str]) -> prescribing.Asked:
    """Make the question that a filled form asks.

    Raises
    ------
    UserError
        If a value cannot be read.
    """
    parts: dict[str, dict[str, Any]] = {"workload": {}, "context": {}, "current": {}}
    for key, text in given.items():
        group, _, own = key.partition(".")
        if group in parts and own and text.strip():
            parts[group][own] = _value(text.strip()) if group != "workload" else text.strip()
    try:
        workload = Workload.model_validate(parts["workload"])
    except ValidationError as error:
        first = error.errors()[0]
        place = " ".join(str(part) for part in first["loc"])
        raise UserError(f"workload: {place} = {first['input']!r}: {first['msg']}", "correct it") from error
    table = str(item.get("table") or "")
    known = table if table and table in {one["value"] for one in tables(service)} else None
    return prescribing.Asked(
        model=name, workload=workload, context=parts["context"], current=parts["current"], table=known
    )


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number == int(number) else number


def _options(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        if line.strip():
            name, equal, value = line.partition("=")
            if not equal:
                raise UserError(f"option '{line.strip()}' is not NAME=VALUE", "write an option a line")
            found[name.strip()] = value.strip()
    return found


@router.get("/models/{name}")
def show_model(request: Request, service: Here, name: Name) -> HTMLResponse:
    """Show a model."""
    given = {key: value for key, value in request.query_params.items() if len(value) < 200}
    return render(request, "model.html", title=f"Model {name}", name=name, **model_page(service, name, given))


@router.get("/models/{name}/figures.json")
def model_figures(service: Here, name: Name) -> Response:
    """Give the figures of a model."""
    from stripewise.plots.parameters import importance  # noqa: PLC0415

    item = models.shown(service.items.get("model", name))
    shares = load_model(models.model_path(service, name)).explain().importance
    drawn: dict[str, Any] = {}
    if any(shares.values()):
        drawn["importance"] = importance(dict(shares))
    for one in service.items.page("validation", _MOST):
        if one.document.get("table") == item["table"] and one.document.get("model") == item["kind"]:
            return as_json(drawn | _accuracy(one.document))
    return as_json(drawn)
