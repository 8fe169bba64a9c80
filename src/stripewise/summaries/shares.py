"""What a configuration achieves as a share of the best of its workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stripewise.summaries.five import FiveNumbers


def best_values(
    summaries: Sequence[FiveNumbers], maximize: bool, *, scored: bool = False, picked: bool = False
) -> dict[str, float]:
    """The best median of each context; with ``scored``, the best by odd repeats at its value in even ones."""
    groups: dict[str, list[FiveNumbers]] = {}
    for entry in summaries:
        groups.setdefault(signature(entry.context), []).append(entry)
    pick = max if maximize else min
    found = {}
    for key, members in groups.items():
        if scored:
            found[key] = pick(members, key=lambda m: m.picked).scored
        else:
            found[key] = pick(m.picked if picked else m.median for m in members)
    return found


def by_configuration(summaries: Sequence[FiveNumbers]) -> dict[str, list[FiveNumbers]]:
    """Gather a configuration's summaries over its workloads."""
    groups: dict[str, list[FiveNumbers]] = {}
    for entry in summaries:
        groups.setdefault(signature(entry.configuration), []).append(entry)
    return groups


def signature(values: Mapping[str, Any]) -> str:
    """Give a text that tells contexts or configurations apart."""
    return repr(sorted(values.items()))


def share(value: float, best: float, maximize: bool) -> float:
    """Value over best, or best over value where less is better."""
    return value / best if maximize else best / value


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return float(np.mean(values))


def geometric(values: Sequence[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(values))))
