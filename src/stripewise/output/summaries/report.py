"""All there is to say of the operations of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from stripewise.errors import UserError
from stripewise.models.table import Table
from stripewise.output.summaries.clusters import Clusters, cluster
from stripewise.output.summaries.defaults import Default, defaults
from stripewise.output.summaries.dependable import Consistency, SettingEffect, consistent, effects
from stripewise.output.summaries.five import FiveNumbers, five_numbers


@dataclass(frozen=True)
class SummaryReport:
    """All there is to say of one operation of a table.

    Attributes
    ----------
    operation : str
        ``read``, ``write``, or ``all`` where the table does not tell them apart.
    summaries : tuple of FiveNumbers
        The best median first.
    clusters : Clusters or None
        None for fewer than four configurations.
    consistent : tuple of Consistency
        The most dependable first.
    effects : tuple of SettingEffect
        Parameter by parameter, the best value first.
    defaults : tuple of Default
        All workloads together first, then by class; those are left out of whose
        workloads no setting met more than half.
    """

    operation: str
    summaries: tuple[FiveNumbers, ...]
    clusters: Clusters | None
    consistent: tuple[Consistency, ...]
    effects: tuple[SettingEffect, ...]
    defaults: tuple[Default, ...]


def summarise(table: Table) -> list[SummaryReport]:
    """Summarise a table, operation by operation.

    Raises
    ------
    UserError
        If a value is not above zero, which a bandwidth or a time cannot be.
    """
    if np.any(table.values <= 0):
        row = int(np.argmax(table.values <= 0)) + 1
        raise UserError(
            f"table {table.name}: row {row}: the objective is {table.values[row - 1]:g}, not above zero",
            "leave failed runs out",
        )
    column = next((c for c in table.schema.context if c.role == "operation" or c.name == "operation"), None)
    if column is None:
        return [_report(table, "all", None)]
    reports = []
    for value in column.values:
        rows = table.take(table.of({column.name: value}))
        if len(rows):
            reports.append(_report(rows, str(value), column.name))
    return reports


def _report(table: Table, operation: str, apart: str | None) -> SummaryReport:
    maximize = table.objective.maximize
    found = five_numbers(table, apart)
    clusters, labels = cluster([entry.numbers for entry in found], maximize)
    found = [replace(entry, cluster=int(label)) for entry, label in zip(found, labels, strict=True)]
    sign = -1 if maximize else 1
    ordered = sorted(found, key=lambda entry: sign * entry.median)
    return SummaryReport(
        operation,
        tuple(ordered),
        clusters,
        tuple(consistent(found, maximize)),
        tuple(effects(found, maximize)),
        tuple(defaults(table, found, apart)),
    )
