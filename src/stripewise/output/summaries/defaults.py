"""The best one setting for a site, and for each class of its workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stripewise.catalogue.configuration import Value
from stripewise.models.table import Column, Table
from stripewise.output.summaries.five import FiveNumbers, best_values, by_configuration, mean, share, signature
from stripewise.sizes import format_size

_CLASSES = 3


@dataclass(frozen=True)
class Default:
    """The best one setting for a class of workloads.

    Attributes
    ----------
    workload : mapping
        The class: values, or ranges, of the context; empty for all workloads together.
    configuration : mapping
    contexts, of : int
        In how many of the class's contexts it was measured.
    arithmetic, harmonic, worst : float
        Achieved over best, over these contexts; above 1 by noise only, since pick and score are from different repeats.
    declared : float or None
        The same arithmetic mean for the setting that acts when nothing is set, where the table says which and has it.
    """

    workload: Mapping[str, str]
    configuration: Mapping[str, Value | None]
    contexts: int
    of: int
    arithmetic: float
    harmonic: float
    worst: float
    declared: float | None


def defaults(table: Table, summaries: Sequence[FiveNumbers], apart: str | None = None) -> list[Default]:
    """Find the best one setting for all workloads, and for each class of them.

    A class is a combination of the categorical columns of the context; ordered ones with more than three values are
    cut into thirds. A setting must have been measured in all contexts of its class, or, where none was, in as many as
    any; a class of whose contexts no setting met more than half is left out, for there a model has to prescribe.
    """
    columns = [c for c in table.schema.context if c.name != apart]
    varied = [c for c in columns if len({repr(s.context[c.name]) for s in summaries}) > 1]
    names = {c.name: _classes(c, [s.context[c.name] for s in summaries]) for c in varied}
    best = best_values(summaries, table.objective.maximize, scored=True)
    declared = {c.name: c.default for c in table.schema.parameter}
    found = [*_default({}, summaries, best, declared, table.objective.maximize)]
    groups: dict[tuple[tuple[str, str], ...], list[FiveNumbers]] = {}
    for entry in summaries:
        key = tuple((c.name, names[c.name][repr(entry.context[c.name])]) for c in varied)
        groups.setdefault(key, []).append(entry)
    if len(groups) > 1:
        for key, members in groups.items():
            found += _default(dict(key), members, best, declared, table.objective.maximize)
    return found


def _default(
    workload: Mapping[str, str],
    members: Sequence[FiveNumbers],
    best: Mapping[str, float],
    declared: Mapping[str, Value | None],
    maximize: bool,
) -> list[Default]:
    of = len({signature(m.context) for m in members})
    groups = by_configuration(members)
    widest = max(map(len, groups))
    if 2 * widest <= of and of > 1:
        return []
    full = [group for group in groups if len(group) == widest]
    # Picked by odd repeats relative to the best of odd repeats, scored by even ones.
    top = best_values(members, maximize, picked=True)
    chosen = max(full, key=lambda group: mean([share(m.picked, top[signature(m.context)], maximize) for m in group]))
    ratios = [share(m.scored, best[signature(m.context)], maximize) for m in chosen]
    found = Default(
        workload,
        chosen[0].configuration,
        len(chosen),
        of,
        mean(ratios),
        len(ratios) / sum(1 / ratio for ratio in ratios),
        min(ratios),
        _declared(members, best, declared, maximize),
    )
    return [found]


def _declared(
    members: Sequence[FiveNumbers], best: Mapping[str, float], declared: Mapping[str, Value | None], maximize: bool
) -> float | None:
    if any(value is None for value in declared.values()):
        return None
    own = [m for m in members if all(v is None or v == declared[n] for n, v in m.configuration.items())]
    return mean([share(m.scored, best[signature(m.context)], maximize) for m in own]) if own else None


def _classes(column: Column, values: Sequence[Value]) -> dict[str, str]:
    """Name the class of each value: itself, or the third of the column's values in which it lies."""
    present = [value for value in column.values if value in values]

    def said(value: Value) -> str:
        if column.unit == "B" and isinstance(value, int) and not isinstance(value, bool):
            return format_size(value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    if column.kind == "categorical" or len(present) <= _CLASSES:
        return {repr(value): said(value) for value in present}
    named = {}
    size = -(-len(present) // _CLASSES)
    for start in range(0, len(present), size):
        part = present[start : start + size]
        for value in part:
            named[repr(value)] = f"{said(part[0])} to {said(part[-1])}" if len(part) > 1 else said(part[0])
    return named
