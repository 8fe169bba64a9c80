"""The best one setting for a site, or for a class of its workloads."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from stripewise.catalogue.configuration import Value
from stripewise.models.table import Column, Table
from stripewise.output.summaries.five_numbers import FiveNumbers, best_values, by_configuration, make_signature, share
from stripewise.output.summaries.main_effects import OF_MEDIAN, SettingEffect, expect_values
from stripewise.result import USUAL_LEVEL, Interval
from stripewise.sizes import format_size

_CLASSES = 3


@dataclass(frozen=True)
class Default:
    """The best one setting for a class of workloads.

    Attributes
    ----------
    workload : mapping
        The class: values, or ranges, of the context; empty for all workloads together.
    contexts, of : int
        In how many of the class's contexts it was measured.
    arithmetic, harmonic, worst : float
        Achieved over best, over these contexts. Pick and score are from different repeats, so noise can bring one
        above 1, where it is cut.
    declared : float or None
        The same arithmetic mean for the setting that acts when nothing is set, where the table says which and has it.
    gain : SettingGain or None
        What it brings over that setting; None where no repeats tell.
    changed : mapping
        What it sets otherwise than that setting, as far as the table says it.
    untold : tuple of str
        Of these, what no measurement tells from its usual value.
    alone : bool
        Whether no other setting was measured in as many of the contexts.
    """

    workload: Mapping[str, str]
    configuration: Mapping[str, Value | None]
    contexts: int
    of: int
    arithmetic: float
    harmonic: float
    worst: float
    declared: float | None
    gain: SettingGain | None = None
    changed: Mapping[str, Value] = field(default_factory=dict)
    untold: tuple[str, ...] = ()
    alone: bool = False

    def shares(self) -> tuple[str, str, str]:
        """Write the means and the worst; of a single workload nothing but its own best stands beside it."""
        if self.of == 1:
            return ("-", "-", "-")
        return f"{self.arithmetic:.1%}", f"{self.harmonic:.1%}", f"{self.worst:.1%}"

    @property
    def today(self) -> str:
        """Write what today's setting reaches; empty where it was not measured."""
        return "" if self.declared is None else f"{self.declared:.1%}"


@dataclass(frozen=True)
class SettingGain:
    """How many times as good as another one setting was, over the same workloads."""

    factor: float
    interval: Interval


def defaults(
    table: Table, summaries: Sequence[FiveNumbers], apart: str | None = None, told: Sequence[SettingEffect] = ()
) -> list[Default]:
    """Find the best one setting for all workloads, and for each class of them.

    A class is a combination of the categorical columns of the context; ordered ones with more than three values are
    cut into thirds. A setting must have been measured in all contexts of its class, or, where none was, in as many as
    any; a class of whose contexts no setting met more than half is left out, for there a model has to prescribe.

    Parameters
    ----------
    told : sequence of SettingEffect
        Of :func:`effects`: what tells values apart besides.
    """
    columns = [c for c in table.schema.context if c.name != apart]
    varied = [c for c in columns if len({repr(s.context[c.name]) for s in summaries}) > 1]
    names = {c.name: _classes(c, [s.context[c.name] for s in summaries]) for c in varied}
    best = best_values(summaries, table.objective.maximize, scored=True)
    declared = {c.name: c.default for c in table.schema.parameter}
    found = [*_default({}, summaries, best, declared, told, table.objective.maximize)]
    groups: dict[tuple[tuple[str, str], ...], list[FiveNumbers]] = {}
    for entry in summaries:
        key = tuple((c.name, names[c.name][repr(entry.context[c.name])]) for c in varied)
        groups.setdefault(key, []).append(entry)
    if len(groups) > 1:
        for key, members in groups.items():
            found += _default(dict(key), members, best, declared, told, table.objective.maximize)
    return found


def _default(
    workload: Mapping[str, str],
    members: Sequence[FiveNumbers],
    best: Mapping[str, float],
    declared: Mapping[str, Value | None],
    told: Sequence[SettingEffect],
    maximize: bool,
) -> list[Default]:
    of = len({make_signature(m.context) for m in members})
    groups = by_configuration(members)
    widest = max(map(len, groups))
    if 2 * widest <= of and of > 1:
        return []
    full = [group for group in groups if len(group) == widest]
    # Picked by odd repeats, scored by even ones.
    expected = {id(m): value for m, value in zip(members, expect_values(members, maximize), strict=True)}
    top: dict[str, float] = {}
    for m in members:
        key = make_signature(m.context)
        top[key] = max(expected[id(m)], top.get(key, -math.inf))
    chosen = max(
        full,
        key=lambda group: statistics.fmean([math.exp(expected[id(m)] - top[make_signature(m.context)]) for m in group]),
    )
    chosen, proven = _simplify(chosen, full, declared, told, maximize)
    ratios = [min(1.0, share(m.scored, best[make_signature(m.context)], maximize)) for m in chosen]
    now, usual = chosen[0].configuration, _declared_members(members, declared)
    changed = {name: value for name, value in now.items() if value is not None and value != declared[name]}
    found = Default(
        workload,
        chosen[0].configuration,
        len(chosen),
        of,
        statistics.fmean(ratios),
        len(ratios) / sum(1 / ratio for ratio in ratios),
        min(ratios),
        statistics.fmean([min(1.0, share(m.scored, best[make_signature(m.context)], maximize)) for m in usual])
        if usual
        else None,
        _measure_gain(chosen, usual, maximize),
        changed,
        tuple(name for name in changed if declared[name] is not None and name not in proven),
        len(full) == 1,
    )
    return [found]


def _simplify(
    chosen: list[FiveNumbers],
    groups: Sequence[list[FiveNumbers]],
    declared: Mapping[str, Value | None],
    told: Sequence[SettingEffect],
    maximize: bool,
) -> tuple[list[FiveNumbers], Set[str]]:
    """Take back each setting without which the measurements are not worse: it is not named.

    Returns
    -------
    tuple of (list of FiveNumbers, set of str)
        The setting without them, and what it was measurably worse without.
    """
    known = {make_signature(group[0].configuration): group for group in groups}
    factors = {(effect.parameter, repr(effect.value)): effect for effect in told}
    proven = set()
    for name, usual in declared.items():
        now = chosen[0].configuration
        if usual is None or now[name] is None or now[name] == usual:
            continue
        alone, default = factors.get((name, repr(now[name]))), factors.get((name, repr(usual)))
        if alone is not None and default is not None and alone.median_interval.low > default.median:
            proven.add(name)
            continue
        less = known.get(make_signature({**now, name: usual}))
        if less is not None:
            if _is_better(chosen, less, maximize):
                proven.add(name)
            else:
                chosen = less
    return chosen, proven


_TOLD = 1.64
"""Standard errors by which a setting must be better than its default to be named: one in twenty is chance."""


def _compare(
    members: Sequence[FiveNumbers], others: Sequence[FiveNumbers], maximize: bool, *, scored: bool = False
) -> tuple[float, float, int] | None:
    """Compare two settings over these workloads; with ``scored``, by the repeats that did not choose one.

    Returns
    -------
    tuple of (float, float, int) or None
        Mean gain (ln), its standard error, and the degrees of freedom of that; None where nothing tells the error.
    """
    beside = {make_signature(entry.context): entry for entry in others}
    pairs = [(one, beside[key]) for one in members if (key := make_signature(one.context)) in beside]
    values = [[one.scored if scored else one.median for one in pair] for pair in pairs]
    gains = [(1 if maximize else -1) * math.log(one / other) for one, other in values]
    free = sum(one.runs - 1 for pair in pairs for one in pair)
    if free:
        runs = [(one, -(-one.runs // 2) if scored else one.runs) for pair in pairs for one in pair]
        error = math.sqrt(OF_MEDIAN * sum(one.deviation**2 / count for one, count in runs)) / len(gains)
        return statistics.fmean(gains), error, free
    if len(gains) > 1:
        return statistics.fmean(gains), statistics.stdev(gains) / math.sqrt(len(gains)), len(gains) - 1
    return None


def _is_better(members: Sequence[FiveNumbers], others: Sequence[FiveNumbers], maximize: bool) -> bool:
    """Whether one setting is measurably better than another."""
    found = _compare(members, others, maximize)
    return found is not None and found[0] > _TOLD * found[1]


def _measure_gain(members: Sequence[FiveNumbers], others: Sequence[FiveNumbers], maximize: bool) -> SettingGain | None:
    found = _compare(members, others, maximize, scored=True)
    if found is None:
        return None
    from scipy.special import stdtrit  # noqa: PLC0415  slow to load

    middle, error, free = found
    half = float(stdtrit(free, (1 + USUAL_LEVEL) / 2)) * error
    return SettingGain(math.exp(middle), Interval(math.exp(middle - half), math.exp(middle + half)))


def _declared_members(members: Sequence[FiveNumbers], declared: Mapping[str, Value | None]) -> list[FiveNumbers]:
    """Give what was measured with the setting that acts when nothing is set."""
    if any(value is None for value in declared.values()):
        return []
    return [m for m in members if all(v is None or v == declared[n] for n, v in m.configuration.items())]


def _classes(column: Column, values: Sequence[Value]) -> dict[str, str]:
    """Name the class of each value: itself, or the third of the column's values in which it lies."""
    present = [value for value in column.values if value in values]

    def spell(value: Value) -> str:
        if column.unit == "B" and isinstance(value, int) and not isinstance(value, bool):
            return format_size(value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    if column.kind == "categorical" or len(present) <= _CLASSES:
        return {repr(value): spell(value) for value in present}
    named = {}
    size = -(-len(present) // _CLASSES)
    for start in range(0, len(present), size):
        part = present[start : start + size]
        for value in part:
            named[repr(value)] = f"{spell(part[0])} to {spell(part[-1])}" if len(part) > 1 else spell(part[0])
    return named
