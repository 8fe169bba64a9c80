"""Prescriptions: settings for a workload, from a model of the service or a policy; nothing is run or kept."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from pydantic import Field, ValidationError

from stripewise.errors import UserError
from stripewise.measure.observed import observe
from stripewise.model.base import PerformanceModel
from stripewise.model.registry import load_model
from stripewise.model.table import Column, read_table
from stripewise.prescribe.policies import by_policy, policy_names
from stripewise.prescribe.prescriber import Prescriber
from stripewise.prescribe.request import PrescriptionRequest
from stripewise.report.export import export
from stripewise.report.markup import measured_text
from stripewise.server.documents import RequestDocument
from stripewise.server.files import table_path
from stripewise.server.resource import Resource, log_path, model_path
from stripewise.server.service import Here
from stripewise.spec.configuration import plain_number
from stripewise.spec.stack import Scalar
from stripewise.spec.workload import Workload

resource = Resource("/prescriptions", "prescriptions")


class SettingsRequest(RequestDocument):
    """A request for settings."""

    model: str | None = Field(default=None, max_length=64, description="a model of the service")
    policy: str | None = Field(default=None, max_length=64, description="without a model: a rule of thumb")
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
    if asked.model is not None and asked.policy is not None:
        raise UserError("both a model and a policy are given", "leave one of them out")
    loaded = None if asked.model is None else load_model(model_path(service, asked.model))
    request = PrescriptionRequest(asked.workload or Workload(), asked.current, asked.context)
    if asked.diagnosis is not None:
        seen = observe(log_path(service, asked.diagnosis))
        domain = None if loaded is None else loaded.domain
        request = request.with_observed(seen.workload, domain, seen.processes, seen.layout, seen.hints)
    if loaded is None:
        found = by_policy(asked.policy or policy_names()[0], request.workload, asked.osts)
    else:
        table = None if asked.table is None else read_table(table_path(service.settings.data, asked.table))
        found = Prescriber(loaded, table).prescribe(request)
    document = found.as_json()
    if asked.to is not None:
        changed: Mapping[str, Any] = {change.name: change.value for change in found.changes}
        made = export(found.plan, asked.to, directory=found.directory, changed=changed)
        document["export"] = {"target": asked.to, "text": made.text, "undo": made.undo, "cannot": list(made.cannot)}
    return document


# -- the form on a model's page ------------------------------------------------------------------------------------


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


def asked_of(item: Mapping[str, Any], given: Mapping[str, str], tables: Container[str]) -> SettingsRequest:
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
