"""Which settings stay good under load, whatever the workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stripewise.catalogue.configuration import Value
from stripewise.output.summaries.five_numbers import FiveNumbers, best_values, by_configuration, make_signature, share


@dataclass(frozen=True)
class Consistency:
    """How good a setting is over the workloads in which it was measured.

    Attributes
    ----------
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


def rank_consistent(summaries: Sequence[FiveNumbers], maximize: bool = True) -> list[Consistency]:
    """Rank settings by what they give under load, over all contexts in which they were measured.

    Settings measured in fewer than half as many contexts as the widest known one are left out: they may have met the
    easy ones only. None is given where no setting met more than half of the contexts: see :func:`effects` there.
    """
    best = best_values(summaries, maximize)
    reached: dict[str, int] = {}
    for entry in summaries:
        key = make_signature(entry.context)
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
        typical = [share(m.median, best[make_signature(m.context)], maximize) for m in members]
        low = [share(m.numbers[quartile], best[make_signature(m.context)], maximize) for m in members]
        rows.append(
            Consistency(
                members[0].configuration,
                len(members),
                len(best),
                _geometric(typical),
                _geometric(low),
                min(low),
                float(np.median([m.spread for m in members])),
                sum(m.cluster == reached[make_signature(m.context)] for m in members) / len(members),
            )
        )
    return sorted(rows, key=lambda row: (-row.low, -row.worst))


def _geometric(values: Sequence[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(values))))
