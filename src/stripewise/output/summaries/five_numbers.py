"""Five numbers of repeated runs: minimum, quartiles and maximum of each configuration in each context."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.meaning import Situation, acts, parameters
from stripewise.models.landscape import Landscape, describe_workload
from stripewise.models.table import Table

NUMBERS = ("minimum", "q1", "median", "q3", "maximum")


@dataclass(frozen=True)
class FiveNumbers:
    """One configuration in one context.

    Attributes
    ----------
    context : mapping
        The workload, without the operation.
    configuration : mapping
        Of the parameters that mean something here; the others are None.
    numbers : tuple of float
        Minimum, lower quartile, median, upper quartile, maximum, in the objective's unit.
    cluster : int
        From 1, the best first.
    picked, scored : float
        Medians of odd and of even repeats: what is picked by the one is scored by the other, so that luck is not
        crowned. Both are the median where there are not both.
    deviation : float
        Standard deviation of the runs' logarithms; 0 for a single run.
    """

    context: Mapping[str, Value]
    configuration: Mapping[str, Value | None]
    numbers: tuple[float, float, float, float, float]
    runs: int
    cluster: int = 0
    picked: float = 0.0
    scored: float = 0.0
    deviation: float = 0.0

    @property
    def median(self) -> float:
        """The median."""
        return self.numbers[2]

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        return (self.numbers[3] - self.numbers[1]) / abs(self.numbers[2])

    def as_json(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {
            "context": dict(self.context),
            "configuration": dict(self.configuration),
            **dict(zip(NUMBERS, self.numbers, strict=True)),
            "runs": self.runs,
            "cluster": self.cluster,
        }


def five_numbers(table: Table, apart: str | None = None) -> list[FiveNumbers]:
    """Summarise each configuration of each context; rows that act alike (inactive parameters) count as one.

    A parameter that cannot act on a context's workload by what the catalogue knows is inactive there.

    Parameters
    ----------
    apart : str, optional
        A context column to leave out of the summaries' contexts.
    """
    found: list[FiveNumbers] = []
    for context in table.contexts():
        land = Landscape.of(table, context)
        space = land.space
        active = space.active(space.points)
        dead = _list_dead(table, context)
        shown = {name: value for name, value in context.items() if name != apart}
        alike: dict[str, tuple[dict[str, Value | None], list[int]]] = {}
        for point in np.unique(land.groups):
            chosen = space.configuration(space.points[point])
            acting = {
                name: chosen[name] if on and name not in dead else None
                for name, on in zip(space.names, active[point], strict=True)
            }
            alike.setdefault(make_signature(acting), (acting, []))[1].append(int(point))
        for configuration, points in alike.values():
            rows = np.isin(land.groups, points)
            values, odd = land.table.values[rows], land.table.repeats[rows] % 2 == 1
            both = bool(odd.any() and (~odd).any())
            found.append(
                FiveNumbers(
                    shown,
                    configuration,
                    tuple(float(v) for v in np.quantile(values, [0, 0.25, 0.5, 0.75, 1])),  # type: ignore[arg-type]
                    len(values),
                    picked=float(np.median(values[odd] if both else values)),
                    scored=float(np.median(values[~odd] if both else values)),
                    deviation=float(np.log(values).std(ddof=1)) if len(values) > 1 and np.all(values > 0) else 0.0,
                )
            )
    return found


def _list_dead(table: Table, context: Mapping[str, Value]) -> frozenset[str]:
    """List the parameters that cannot act on a context's workload, whatever values they and the others have."""
    names = frozenset(column.name for column in table.schema.parameter)
    situation = Situation(describe_workload(table, context), unsure=names)
    known = parameters()
    own = (c.name for c in table.schema.parameter if c.carrier is None and c.name in known)
    return frozenset(name for name in own if acts(known[name], None, situation).acts is False)


def best_values(summaries: Sequence[FiveNumbers], maximize: bool, *, scored: bool = False) -> dict[str, float]:
    """The best median of each context; with ``scored``, the best by odd repeats at its value in even ones."""
    groups: dict[str, list[FiveNumbers]] = {}
    for entry in summaries:
        groups.setdefault(make_signature(entry.context), []).append(entry)
    pick = max if maximize else min
    found = {}
    for key, members in groups.items():
        if scored:
            found[key] = pick(members, key=lambda m: m.picked).scored
        else:
            found[key] = pick(m.median for m in members)
    return found


def by_configuration(summaries: Sequence[FiveNumbers]) -> list[list[FiveNumbers]]:
    """Gather what each configuration gave over its workloads, first those in which all that it sets can act.

    A parameter that cannot act in a workload (a property of HDF5 in a program without HDF5) is None there. What was
    measured then holds for each of its values: it joins every configuration that sets the same and more, and is no
    configuration of its own where there is one.
    """
    found: dict[tuple[str, ...], dict[tuple[str, ...], list[FiveNumbers]]] = {}
    for entry in summaries:
        active = tuple(sorted(name for name, value in entry.configuration.items() if value is not None))
        values = tuple(repr(entry.configuration[name]) for name in active)
        found.setdefault(active, {}).setdefault(values, []).append(entry)
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[FiveNumbers]] = {}
    joined: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    for active, by_values in found.items():
        fewer = [names for names in found if set(names) < set(active)]
        for values, members in by_values.items():
            said = dict(zip(active, values, strict=True))
            parts = [(names, tuple(said[name] for name in names)) for names in fewer]
            joined.update(parts)
            more = [entry for names, key in parts for entry in found[names].get(key, [])]
            groups[active, values] = members + more
    return [group for key, group in groups.items() if key not in joined]


def make_signature(values: Mapping[str, Any]) -> str:
    """Give a text that tells contexts or configurations apart."""
    return repr(sorted(values.items()))


def share(value: float, best: float, maximize: bool) -> float:
    """Value over best, or best over value where less is better."""
    return value / best if maximize else best / value


def keep_compared(summaries: Sequence[FiveNumbers]) -> list[FiveNumbers]:
    """Keep the workloads in which configurations can be compared: a single one is the best there by itself."""
    counts = Counter(make_signature(entry.context) for entry in summaries)
    return [entry for entry in summaries if counts[make_signature(entry.context)] > 1]
