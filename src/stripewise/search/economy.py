"""Among configurations nearly as good as the best, the cheapest: fewer stripes, fewer aggregators, less memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stripewise.search.posterior import Posterior
from stripewise.spec.configuration import Value
from stripewise.spec.space import Space
from stripewise.spec.trial import History, Role, Trial

NEAR = 0.05
"""How much worse than the best a cheaper configuration may be."""


def price(space: Space, configuration: Mapping[str, Value]) -> float:
    """Price a configuration: the sum over parameters of their ``cost``, in full at the highest level."""
    levels = space.levels([configuration])[0]
    return sum(
        p.cost * int(level) / max(1, len(p.values) - 1) for p, level in zip(space.parameters, levels, strict=True)
    )


def departures(space: Space, configuration: Mapping[str, Value]) -> int:
    """Count the parameters that a configuration sets to anything but their default."""
    return int(np.sum(space.levels([configuration]) != space.levels([space.default])))


def economical(space: Space, history: History, ranked: Sequence[Trial]) -> list[Trial]:
    """Put the cheapest trial that is believed to be within 5% of the best in front.

    Of several as cheap, the one that changes least of the default: settings that do nothing are not kept for nothing.

    A single lucky run does not bring a trial near the best: values count as far as they were repeated
    (:class:`stripewise.search.posterior.Posterior`). Trials ranked behind the default are left where they are.

    Parameters
    ----------
    space : Space
    history : History
    ranked : sequence of Trial
        Best first.
    """
    mean = _means(history)
    contenders: list[Trial] = []
    for trial in ranked:
        if trial.role is Role.DEFAULT:
            break
        contenders.append(trial)
    if not contenders:
        return list(ranked)
    best = contenders[0]
    near = [trial for trial in contenders if mean[trial.number] - mean[best.number] <= -np.log(1 - NEAR)]

    def burden(trial: Trial) -> tuple[float, int]:
        return price(space, trial.configuration), departures(space, trial.configuration)

    chosen = min(near, key=burden)
    return [chosen, *(trial for trial in ranked if trial is not chosen)]


def dearer(space: Space, history: History, chosen: Trial) -> Trial | None:
    """Give the trial that is believed best, if the chosen one was preferred to it for its price."""
    mean = _means(history)
    candidates = [t for t in history.trials if t.number in mean and t.role is Role.CANDIDATE]
    if chosen.role is not Role.CANDIDATE or chosen.number not in mean:
        return None
    best = min(candidates, key=lambda trial: mean[trial.number])
    ahead = mean[chosen.number] - mean[best.number]
    saved = price(space, best.configuration) - price(space, chosen.configuration)
    return best if 0 < ahead <= -np.log(1 - NEAR) and saved > 0 else None


def _means(history: History) -> dict[int, float]:
    posterior = Posterior.of(history)
    return {trial.number: float(mean) for trial, mean in zip(posterior.trials, posterior.mean, strict=True)}
