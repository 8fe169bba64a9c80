"""Prescriptions: settings for a workload, from a model of the service or a policy; nothing is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stripewise.errors import UserError
from stripewise.measure.observed import observe
from stripewise.model.registry import load_model
from stripewise.model.table import read_table
from stripewise.prescribe.policies import by_policy, policy_names
from stripewise.prescribe.prescriber import Prescriber
from stripewise.prescribe.request import Request
from stripewise.report.export import export
from stripewise.server.diagnosing import log_path
from stripewise.server.models import model_path
from stripewise.server.places import table_path
from stripewise.server.service import Service
from stripewise.spec.stack import Scalar
from stripewise.spec.workload import Workload


class Asked(BaseModel):
    """A request for settings."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "policy": "t3pio-like",
                    "osts": 16,
                    "workload": {"operation": "write", "nodes": 4, "processes_per_node": 8, "file_size": "64 GiB"},
                }
            ]
        },
    )
    model: str | None = Field(default=None, max_length=64, description="a model of the service")
    policy: str | None = Field(default=None, max_length=64, description="without a model: a rule of thumb")
    osts: int | None = Field(default=None, ge=1, le=1_000_000, description="OSTs of the file system, for policies")
    workload: Workload | None = None
    current: dict[str, Scalar] = Field(default_factory=dict, description="settings of today")
    context: dict[str, Scalar] = Field(default_factory=dict, description="columns that no word of the workload names")
    diagnosis: str | None = Field(default=None, max_length=64, description="an uploaded log: what a run did")
    table: str | None = Field(default=None, max_length=128, description="measurements, for reasons")
    to: str | None = Field(default=None, max_length=40, description="also as one of the targets of export")


def prescribe(service: Service, asked: Asked) -> dict[str, Any]:
    """Choose settings.

    Raises
    ------
    UserError
        If the request says too little, or something wrong.
    """
    if asked.workload is None and asked.diagnosis is None:
        raise UserError("there is no workload", "give one, or the diagnosis of an uploaded log")
    if asked.model is not None and asked.policy is not None:
        raise UserError("both a model and a policy are given", "leave one of them out")
    loaded = None if asked.model is None else load_model(model_path(service, asked.model))
    request = Request(asked.workload or Workload(), asked.current, asked.context)
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
