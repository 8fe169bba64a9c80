"""Settings that are good whatever the load, and what single values do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stripewise.catalogue.configuration import Value
from stripewise.output.summaries.five import FiveNumbers, best_values, by_configuration, geometric, share, signature


@dataclass(frozen=True)
class Consistency:
    """How good a setting is over the workloads in which it was measured.

    Attributes
    ----------
    configuration : mapping
    contexts : int
    of : int
        Contexts that the operation has.
    typical : float
        Geometric mean over contexts of its median as a share of the context's best median.
    low : float
        The same with its worse quartile in place of its median: what it gives under load.
    worst : float
        The smallest of these over contexts.
    spread : float
        Median over contexts of interquartile range over median.
    best_cluster : float
        Share of its contexts in which it lies in the best cluster that any setting of the context lies in: clusters are
        of all contexts together, and a slow one need not have a part in the best of all.
    """

    configuration: Mapping[str, Value | None]
    contexts: int
    of: int
    typical: float
    low: float
    worst: float
    spread: float
    best_cluster: float


@dataclass(frozen=True)
class SettingEffect:
    """What one value of one parameter does, over all workloads and all values of the others.

    Attributes
    ----------
    parameter, value
    median : float
        Factor on the median against the parameter's worst value, by least squares on the logarithms with a term for
        each workload: designs that are not full grids still compare like with like.
    low : float
        The same for the worse quartile: under load.
    configurations : int
        That have the value.
    """

    parameter: str
    value: Value
    median: float
    low: float
    configurations: int


def consistent(summaries: Sequence[FiveNumbers], maximize: bool = True) -> list[Consistency]:
    """Rank settings by what they give under load, over all contexts in which they were measured.

    Settings measured in fewer than half as many contexts as the widest known one are left out: they may have met the
    easy ones only. None is given where no setting met more than half of the contexts: see :func:`effects` there.
    """
    best = best_values(summaries, maximize)
    reached: dict[str, int] = {}
    for entry in summaries:
        key = signature(entry.context)
        reached[key] = min(entry.cluster, reached.get(key, entry.cluster))
    groups = by_configuration(summaries)
    widest = max(len(members) for members in groups)
    if 2 * widest <= len(best) and len(best) > 1:
        return []
    rows = []
    for members in groups:
        if 2 * len(members) < widest:
            continue
        quartile = 1 if maximize else 3
        typical = [share(m.median, best[signature(m.context)], maximize) for m in members]
        low = [share(m.numbers[quartile], best[signature(m.context)], maximize) for m in members]
        rows.append(
            Consistency(
                members[0].configuration,
                len(members),
                len(best),
                geometric(typical),
                geometric(low),
                min(low),
                float(np.median([m.spread for m in members])),
                sum(m.cluster == reached[signature(m.context)] for m in members) / len(members),
            )
        )
    return sorted(rows, key=lambda row: (-row.low, -row.worst))


def effects(summaries: Sequence[FiveNumbers], maximize: bool = True) -> list[SettingEffect]:
    """Tell the parameters' values apart by their main effects.

    Parameters
    ----------
    summaries : sequence of FiveNumbers
    maximize : bool
    """
    parameters = list(summaries[0].configuration)
    contexts = {key: place for place, key in enumerate(dict.fromkeys(signature(s.context) for s in summaries))}
    columns: dict[tuple[str, str], int] = {}
    values: dict[tuple[str, str], Value] = {}
    for entry in summaries:
        for name in parameters:
            value = entry.configuration[name]
            if value is not None:
                columns.setdefault((name, repr(value)), len(contexts) + len(columns))
                values[name, repr(value)] = value
    matrix = np.zeros((len(summaries), len(contexts) + len(columns)))
    for row, entry in enumerate(summaries):
        matrix[row, contexts[signature(entry.context)]] = 1
        for name in parameters:
            if entry.configuration[name] is not None:
                matrix[row, columns[name, repr(entry.configuration[name])]] = 1
    sign = 1 if maximize else -1
    quartile = 1 if maximize else 3
    targets = np.log([[s.median, s.numbers[quartile]] for s in summaries])
    solved = sign * np.linalg.lstsq(matrix, targets, rcond=None)[0]
    found = []
    for name in parameters:
        own = [key for key in columns if key[0] == name]
        if len(own) < 2:
            continue
        base = solved[[columns[key] for key in own]].min(axis=0)
        rows = [
            SettingEffect(
                name,
                values[key],
                float(np.exp(solved[columns[key], 0] - base[0])),
                float(np.exp(solved[columns[key], 1] - base[1])),
                int(matrix[:, columns[key]].sum()),
            )
            for key in own
        ]
        found += sorted(rows, key=lambda row: -row.low)
    return found
