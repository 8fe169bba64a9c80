"""Points of requests: what is told, what is not, and what acts if nothing is set."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from stripewise.catalogue.configuration import Value
from stripewise.errors import UserError
from stripewise.models.carriers import TunableColumn
from stripewise.models.domain import Domain, Floats
from stripewise.models.prescribe.request import Known

_MOST_GROUPS = 64


def all_rows(domain: Domain, known: Sequence[Known], every: Sequence[TunableColumn]) -> Floats:
    """Points of requests that leave nothing open, one row each."""
    defaults = {tunable.name: default_of(domain, tunable) for tunable in every}
    if any(one.unknown for one in known):
        what = next(one.unknown[0] for one in known if one.unknown)
        raise UserError(f"a workload leaves {what} open", "give every context a value")
    filled = [{**defaults, **one.values} for one in known]
    return domain.points({name: [one[name] for one in filled] for name in domain.names})


def rows_of(domain: Domain, known: Known, every: Sequence[TunableColumn], processes: int | None = None) -> Floats:
    """Points of a request: one row for each combination of what is unknown, parameters at their current value.

    Raises
    ------
    UserError
        If that are too many.
    """
    spread: list[list[Value]] = []
    for place, column in enumerate(domain.columns):
        if column.name in known.values and column.name not in known.new:
            spread.append([known.values[column.name]])
        elif column.name in (*known.unknown, *known.new):
            spread.append([column.values[level] for level in domain.seen[place]])
        else:
            spread.append([default_of(domain, next(k for k in every if k.place == place))])
    if np.prod([len(values) for values in spread], dtype=np.float64) > _MOST_GROUPS:
        raise UserError(
            f"too much is unknown of the workload: {', '.join((*known.unknown, *known.new))}",
            "say more under [workload] or [context]",
        )
    rows = _with_ranks(domain, list(itertools.product(*spread)), processes)
    return domain.points({name: [row[i] for row in rows] for i, name in enumerate(domain.names)})


def _with_ranks(domain: Domain, rows: list[Any], processes: int | None) -> list[Any]:
    """Keep the rows whose nodes and processes per node make the ranks that were seen, if any do."""
    roles = [column.role for column in domain.columns]
    if processes is None or "nodes" not in roles or "processes_per_node" not in roles:
        return rows
    nodes, each = roles.index("nodes"), roles.index("processes_per_node")
    return [row for row in rows if row[nodes] * row[each] == processes] or rows


def default_of(domain: Domain, tunable: TunableColumn) -> Value:
    """The value that acts if nothing is set: declared in the table, else the stack's, else the first measured."""
    column = tunable.column
    seen = [column.values[level] for level in domain.seen[tunable.place]]
    if column.default is not None and column.default in seen:
        return column.default
    if tunable.parameter is not None and tunable.parameter.default in seen:
        return tunable.parameter.default
    first: Value = seen[0]
    return first
