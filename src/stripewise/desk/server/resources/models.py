"""Models: uploaded, or learned by workers; what they learned and how well they predict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Form, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from pydantic import Field

from stripewise.desk.server import child as bounded
from stripewise.desk.server.documents import JobDocument, RequestDocument, job_document
from stripewise.desk.server.files import checked_name, folder_of, new_identifier, table_path
from stripewise.desk.server.html import as_json, render
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import (
    BODY,
    MOST,
    ItemPage,
    Limit,
    Name,
    Offset,
    Once,
    Resource,
    Upload,
    model_path,
    page_of,
    show_item,
)
from stripewise.desk.server.resources import prescriptions, tables
from stripewise.desk.server.service import Here, Service, User
from stripewise.errors import NotFound, StripewiseError, UserError
from stripewise.models.registry import make_model, model_names
from stripewise.store.service.jobs import ServiceJob
from stripewise.store.service.tokens import Token

resource = Resource("/models", "models")
validations = Resource("/validations")

ModelName = Annotated[str, Query(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class Learning(RequestDocument):
    """A table and the kind of model that learns it."""

    table: str = Field(min_length=1, max_length=128, description="a table's name, or campaign:ID")
    model: str = Field(default="auto", max_length=64)
    options: dict[str, str] = Field(default_factory=dict)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class Training(Learning):
    """A model to learn."""

    name: str = Field(min_length=1, max_length=64)
    replace: bool = Field(default=False, description="in place of your own model of this name, if there is one")
    explain: bool = Field(default=False, description="the job's result has rules for slow, average and fast too")


class Validation(Learning):
    """A kind of model to judge."""

    folds: int | None = Field(default=None, ge=2, le=1000)
    inverse: int | None = Field(default=None, ge=2, le=1000)
    leave_out: list[str] = Field(default_factory=list, max_length=100)
    depths: list[Annotated[int, Field(ge=1, le=30)]] = Field(
        default_factory=list, max_length=30, description="of trees that prescribe, with leave_out"
    )


@resource.get("", model=ItemPage)
def list_models(service: Here, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Return a page of models."""
    return page_of(service, "model", limit, offset)


@resource.post("", 409, 415, status=201, openapi_extra=BODY)
def upload_model(service: Here, user: User, name: ModelName, upload: Upload) -> dict[str, Any]:
    """Store a model written by `stripewise site train`."""
    place = folder_of(service.settings.data, "model", checked_name(name, "model"))
    try:
        kind = bounded.ask("describe_model", path=str(upload))["kind"]
    except UserError as error:
        raise UserError(error.what.replace(str(upload), "the upload"), error.fix) from error
    _refuse_second(service, name)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    upload.rename(place / "model")
    return show_item(service.items.put("model", name, name, user.name, {"kind": kind, "table": "", "rows": None}))


@resource.post("/train", 404, 409, status=202, model=JobDocument)
def train_model(service: Here, user: User, asked: Training, once: Once) -> Response:
    """Let a worker train a model; the answer is the job."""
    return once("train", asked, lambda: job_document(train(service, asked, user)), 202)


@resource.post("/validate", 404, 409, status=202, model=JobDocument)
def validate_model(service: Here, user: User, asked: Validation, once: Once) -> Response:
    """Let a worker validate a kind of model on data that it has not seen."""
    return once("validate", asked, lambda: job_document(validate(service, asked, user)), 202)


@resource.get("/{id}", 404)
def show_model(service: Here, id: Name) -> dict[str, Any]:
    """Return what is known about a model."""
    return show_item(service.items.get("model", id))


@resource.file("/{id}/file", 404, kind=FileResponse, responses={200: {"content": {"application/octet-stream": {}}}})
def download_model(service: Here, id: Name) -> FileResponse:
    """Return the file of a model."""
    return FileResponse(model_path(service, id), media_type="application/octet-stream", filename=f"{id}.model")


@resource.action("/{id}", 404, back="/models", method="DELETE", status=200)
def delete_model(service: Here, id: Name) -> dict[str, Any]:
    """Delete a model."""
    return tables.delete_item(service, "model", id)


def train(service: Service, asked: Training, user: Token) -> ServiceJob:
    """Ask a worker to learn a model.

    Raises
    ------
    UserError
        If the table or the kind of model does not exist, or an option is wrong.
    """
    checked_name(asked.name, "model")
    _refuse_second(service, asked.name, user.name if asked.replace else None)
    request = asked.model_dump(exclude={"replace"})
    return service.jobs.submit("training", asked.name, user.name, _list_possible(service, request))


def validate(service: Service, asked: Validation, user: Token) -> ServiceJob:
    """Ask a worker to judge a kind of model on a table; raises as :func:`train`."""
    return service.jobs.submit("validation", new_identifier(), user.name, _list_possible(service, asked.model_dump()))


def _list_possible(service: Service, request: dict[str, Any]) -> dict[str, Any]:
    if "weights" in request["options"]:
        # It names a file of the service's machine.
        raise Refused(403, "a service takes no weights", "train on the command line, and upload the model")
    make_model(request["model"], request["options"])
    table_path(service.settings.data, request["table"])
    return request


def _refuse_second(service: Service, name: str, but_of: str | None = None) -> None:
    try:
        if service.items.get("model", name).owner == but_of:
            return
    except UserError:
        return
    raise Refused(409, f"there is a model '{name}' already", "choose another name, or delete it")


# -- pages ---------------------------------------------------------------------------------------------------------


@resource.page("")
def models_page(request: Request, service: Here, training: Annotated[str, Query(max_length=64)] = "") -> HTMLResponse:
    """Show all models."""
    return render(
        request,
        "models.html",
        title="Models",
        models=[show_item(item) for item in service.items.page("model", MOST)],
        kept=[show_item(item) for item in service.items.page("table", MOST)],
        validations=[show_item(item) for item in service.items.page("validation", MOST)],
        tables=tables.list_choices(service),
        kinds=model_names(),
        busy={"name": training, **_describe_standing(service, training)} if training else None,
    )


@resource.form("/train")
def train_from_page(
    service: Here,
    user: User,
    name: Annotated[str, Form(max_length=64)],
    table: Annotated[str, Form(max_length=128)],
    kind: Annotated[str, Form(max_length=64)] = "auto",
    options: Annotated[str, Form(max_length=4000)] = "",
) -> RedirectResponse:
    """Let a worker learn a model."""
    checked_name(name, "model")
    train(service, Training(name=name, table=table, model=kind, options=_options(options)), user)
    return RedirectResponse(f"/models?training={name}", 303)


@resource.form("/validate")
def validate_from_page(
    service: Here,
    user: User,
    table: Annotated[str, Form(max_length=128)],
    kind: Annotated[str, Form(max_length=64)] = "auto",
    how: Annotated[str, Form(max_length=20, pattern="^(folds|contexts|inverse)$")] = "folds",
    folds: Annotated[int, Form(ge=2, le=50)] = 5,
    options: Annotated[str, Form(max_length=4000)] = "",
) -> RedirectResponse:
    """Let a worker validate a kind of model on data that it has not seen."""
    held: dict[str, Any] = {"inverse": folds} if how == "inverse" else {"folds": folds}
    if how == "contexts":
        held["leave_out"] = ["contexts"]
    job = validate(service, Validation(table=table, model=kind, options=_options(options), **held), user)
    return RedirectResponse(f"/validations/{job.subject}", 303)


def _options(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        if line.strip():
            name, equal, value = line.partition("=")
            if not equal:
                raise UserError(f"option '{line.strip()}' is not NAME=VALUE", "write an option a line")
            found[name.strip()] = value.strip()
    return found


@resource.page("/{id}")
def model_page(request: Request, service: Here, id: Name) -> HTMLResponse:
    """Show a model, and its prescription if one was asked for."""
    item = show_model(service, id)
    described = bounded.ask("describe_model", path=str(model_path(service, id)))
    given = {key: value for key, value in request.query_params.items() if len(value) < 200}
    answer, error = None, None
    if any(key.split(".")[0] in ("workload", "context", "current") for key in given):
        try:
            prescriptions.require_answers(described["fields"], given)
            known = {one["value"] for one in tables.list_choices(service)}
            answer = prescriptions.prescribe(service, prescriptions.make_question(item, given, known))
        except StripewiseError as found:
            error = found
    own = _validation_of(service, item)
    return render(
        request,
        "model.html",
        title=f"Model {id}",
        name=id,
        item=item,
        rules=described["rules"],
        importance=described["importance"],
        fields=described["fields"],
        given=given,
        answer=answer,
        error=error,
        validation=own[0] if own else None,
        simulated=bool(answer and answer["simulated"]),
    )


@resource.page("/{id}/figures.json")
def model_figures(service: Here, id: Name) -> Response:
    """Give the figures of a model."""
    from stripewise.output.plots.parameters import importance  # noqa: PLC0415

    item = show_model(service, id)
    described = bounded.ask("describe_model", path=str(model_path(service, id)))
    shares = described["importance"]
    drawn = {"importance": importance(shares, single=described["single"])} if any(shares.values()) else {}
    own = _validation_of(service, item)
    return as_json(drawn | _accuracy(own[1]) if own else drawn)


def _validation_of(service: Service, item: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    """Find the latest validation of a model's kind on its table."""
    for one in service.items.page("validation", MOST):
        if one.document.get("table") == item["table"] and one.document.get("model") == item["kind"]:
            return one.id, one.document
    return None


@validations.page("/{id}")
def validation_page(request: Request, service: Here, id: Name) -> HTMLResponse:
    """Show how well a kind of model predicts, or that a worker is at it."""
    where = _describe_standing(service, id)
    document = _validation(service, id)
    if document is None and where["state"] == "created":
        raise NotFound(f"validation '{id}' does not exist", "see the list of models")
    return render(request, "validation.html", title="Validation", name=id, document=document, where=where)


@validations.page("/{id}/figures.json")
def validation_figures(service: Here, id: Name) -> Response:
    """Give the figure of predicted and measured values."""
    return as_json(_accuracy(_validation(service, id)))


def _validation(service: Service, name: str) -> dict[str, Any] | None:
    try:
        return dict(service.items.get("validation", name).document)
    except UserError:
        return None


def _accuracy(document: Mapping[str, Any] | None) -> dict[str, Any]:
    if not document or not document.get("pairs"):
        return {}
    from stripewise.output.plots.accuracy import predicted_measured  # noqa: PLC0415

    measured, predicted = zip(*document["pairs"], strict=True)
    objective = document["objective"]
    drawn = predicted_measured(
        measured, predicted, quantity=objective["name"], unit=objective["unit"], how=document["held_out"]
    )
    return {"accuracy": drawn}


def _describe_standing(service: Service, subject: str) -> dict[str, Any]:
    """Say where the work on something stands, and whether it may still change."""
    job = service.jobs.of(subject)
    if job is None:
        return {"state": "created", "error": "", "open": False}
    state = "finished" if job.state == "done" else job.state
    return {"state": state, "error": job.error, "open": job.state in ("queued", "running")}
