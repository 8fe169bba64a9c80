"""Prescriptions: settings for a workload, from a model of the service or a policy; nothing is run or kept."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationError

from stripewise.catalogue.configuration import plain_number
from stripewise.catalogue.stack import Scalar
from stripewise.catalogue.workload import Workload
from stripewise.desk.server import child as bounded
from stripewise.desk.server.documents import RequestDocument
from stripewise.desk.server.files import table_path
from stripewise.desk.server.resource import Resource, log_path, model_path
from stripewise.desk.server.service import Here
from stripewise.errors import UserError

resource = Resource("/prescriptions", "prescriptions")


class SettingsRequest(RequestDocument):
    """A request for settings."""

    model: str | None = Field(default=None, max_length=64, description="a model of the service")
    policy: str | None = Field(
        default=None, max_length=64, description="without a model: measurements elsewhere or a rule of thumb"
    )
    osts: int | None = Field(default=None, ge=1, le=1_000_000, description="OSTs of the file system, for policies")
    workload: Workload | None = None
    current: dict[str, Scalar] = Field(default_factory=dict, description="current settings")
    context: dict[str, Scalar] = Field(default_factory=dict, description="columns that no word of the workload names")
    diagnosis: str | None = Field(default=None, max_length=64, description="an uploaded log: what a run did")
    table: str | None = Field(default=None, max_length=128, description="measurements, for reasons")
    to: str | None = Field(default=None, max_length=40, description="also as one of the targets of export")


@resource.post("", 404)
def prescribe(service: Here, asked: SettingsRequest) -> dict[str, Any]:
    """Choose settings for a workload or for what an uploaded log shows; this runs and stores nothing."""
    if asked.workload is None and asked.diagnosis is None:
        raise UserError("the workload is missing", "give one, or the diagnosis of an uploaded log")
    if asked.diagnosis is None and not asked.context and asked.workload == Workload():
        raise UserError("the workload is unknown", "give what you know of it, such as operation and nodes")
    if asked.model is not None and asked.policy is not None:
        raise UserError("both a model and a policy are given", "leave one of them out")
    given = asked.model_dump(mode="json", exclude={"model", "table", "diagnosis"})
    answer: dict[str, Any] = bounded.ask(
        "prescribe",
        asked=given,
        model=None if asked.model is None else str(model_path(service, asked.model)),
        table=None if asked.table is None else str(table_path(service.settings.data, asked.table)),
        log=None if asked.diagnosis is None else str(log_path(service, asked.diagnosis)),
    )
    return answer


# -- the form on a model's page ------------------------------------------------------------------------------------


def require_answers(fields: Sequence[Mapping[str, Any]], given: Mapping[str, str]) -> None:
    """Refuse a form in which nothing is said of the workload; words of which one value was measured ask nothing.

    Raises
    ------
    UserError
        With what is missing.
    """
    asked = {str(one["name"]): str(one["label"]) for one in fields if one["context"] and len(one["choices"]) != 1}
    if asked and not any(given.get(name, "").strip() for name in asked):
        raise UserError(
            "nothing is predicted: the workload is unknown",
            f"fill in what you know of: {', '.join(asked.values())}",
        )


def make_question(item: Mapping[str, Any], given: Mapping[str, str], tables: Container[str]) -> SettingsRequest:
    """Make the question that a filled form asks; its model's table gives reasons if it is one of ``tables``.

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
    known = table if table in tables else None
    return SettingsRequest(
        model=item["id"], workload=workload, context=parts["context"], current=parts["current"], table=known
    )


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        number = float(text)
    except ValueError:
        return text
    return plain_number(number)
