"""Five-number summaries of repeated measurements, clusters of them, and the settings that are good whatever the load.

Benchmarks on a shared file system scatter; a configuration is described by minimum, quartiles and maximum of its
repeats, configurations of like behaviour are found by hierarchical clustering of these, and what is recommended is what
stays good at its lower quartile, not what was best once. Reads and writes are kept apart throughout. A default is one
setting for a site, or for a class of its workloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stripewise.errors import UserError
from stripewise.models.table import Table
from stripewise.output.markup import list_changes
from stripewise.output.summaries.clusters import Clusters, cluster
from stripewise.output.summaries.consistency import Consistency, rank_consistent
from stripewise.output.summaries.five_numbers import NUMBERS, FiveNumbers, five_numbers, keep_compared
from stripewise.output.summaries.main_effects import SettingEffect, effects
from stripewise.output.summaries.site_defaults import Default, SettingGain, defaults

__all__ = [
    "NUMBERS",
    "Clusters",
    "Consistency",
    "Default",
    "FiveNumbers",
    "SettingEffect",
    "SettingGain",
    "SummaryReport",
    "cluster",
    "five_numbers",
    "rank_consistent",
    "summarise",
    "write_values",
]


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

    @property
    def compared(self) -> bool:
        """Whether a workload was measured with two configurations."""
        return bool(keep_compared(self.summaries))

    def verdict(self, units: Mapping[str, str]) -> str:
        """Say in one sentence which single setting is the best default, and what it brings."""
        which = "" if self.operation == "all" else f" for {self.operation}s"
        if not self.compared:
            return f"nothing to compare{which}: no workload was measured with two configurations"
        best = next((default for default in self.defaults if not default.workload), None)
        if best is None:
            return f"no best default{which}: no setting was measured in most workloads, so let a model prescribe"
        if not best.changed:
            if best.alone:
                return f"only today's settings were measured in all workloads{which}, so let a model prescribe"
            return f"no single default{which} is measurably better than today's settings"
        named = {name: value for name, value in best.changed.items() if name not in best.untold} or best.changed
        said = f"best single default{which}: {write_values(named, units)}"
        if best.contexts < best.of:
            said += f" (measured in {best.contexts} of {best.of} workloads)"
        if best.gain is not None:
            low, high = best.gain.interval.low, best.gain.interval.high
            said += (
                f", {best.gain.factor:.2f} times today's ({low:.2f} to {high:.2f}{', not proven' if low <= 1 else ''})"
            )
        elif best.declared is not None:
            said += "; without repeats, nothing tells how far it is from today's"
        elif best.of > 1:
            said += f"; it reaches {best.arithmetic:.0%} of the best, at worst {best.worst:.0%}"
        if best.untold:
            which = "these settings help" if named is best.changed else f"{', '.join(best.untold)} would help too"
            said += f". The measurements do not tell whether {which}"
        return said


def write_values(values: Mapping[str, Any], units: Mapping[str, str]) -> str:
    """Write settings, or a class of workloads, as words; what cannot act there is left out."""
    return " ".join(list_changes({name: value for name, value in values.items() if value is not None}, units=units))


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
    compared = keep_compared(found)
    # Without repeats nothing shows what load does: the quartiles are the median.
    repeated = any(entry.runs > 1 for entry in compared)
    told = tuple(effects(compared, maximize)) if compared else ()
    sign = -1 if maximize else 1
    ordered = sorted(found, key=lambda entry: sign * entry.median)
    return SummaryReport(
        operation,
        tuple(ordered),
        clusters,
        tuple(rank_consistent(compared, maximize)) if repeated else (),
        told,
        tuple(defaults(table, compared, apart, told)) if compared else (),
    )
