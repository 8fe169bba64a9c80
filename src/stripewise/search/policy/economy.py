"""Among configurations nearly as good as the best, the cheapest: fewer stripes, fewer aggregators, less memory.

Compare the one-standard-error rule (Breiman et al., Classification and Regression Trees, 1984), which prefers the
simplest model among those as good as the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import ndtri

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.space import Space
from stripewise.search.belief.posterior import Posterior
from stripewise.trial import History, Role, Trial

NEAR = 0.05
"""How much worse than the best a cheaper configuration may be."""
LIKELY = 0.6
"""How probable that must be for the cheaper one to be preferred."""


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
    """Put the cheapest trial that is probably within 5% of the best in front.

    1. Take the trials ranked before the default; if there are none, keep the order.
    2. Keep those that are within :data:`NEAR` of the first with a probability of at least :data:`LIKELY`, by the
       posterior of their costs (:class:`stripewise.search.belief.posterior.Posterior`). So one lucky run is not enough.
    3. Choose the one with the lowest price; of several, the one that changes the fewest parameters.

    Parameters
    ----------
    space : Space
    history : History
    ranked : sequence of Trial
        Best first.
    """
    belief = _beliefs(history)
    contenders: list[Trial] = []
    for trial in ranked:
        if trial.role is Role.DEFAULT:
            break
        contenders.append(trial)
    if not contenders:
        return list(ranked)
    best = contenders[0]
    near = [best, *(t for t in contenders[1:] if _probably_near(belief[t.number], belief[best.number]))]

    def price_then_changes(trial: Trial) -> tuple[float, int]:
        return price(space, trial.configuration), departures(space, trial.configuration)

    chosen = min(near, key=price_then_changes)
    return [chosen, *(trial for trial in ranked if trial is not chosen)]


def passed_over(space: Space, history: History, chosen: Trial) -> Trial | None:
    """Give the trial that is believed best, if the chosen one was preferred to it for its price."""
    belief = _beliefs(history)
    candidates = [t for t in history.trials if t.number in belief and t.role is Role.CANDIDATE]
    if chosen.role is not Role.CANDIDATE or chosen.number not in belief:
        return None
    best = min(candidates, key=lambda trial: belief[trial.number][0])
    ahead = belief[chosen.number][0] - belief[best.number][0]
    saved = price(space, best.configuration) - price(space, chosen.configuration)
    near = _probably_near(belief[chosen.number], belief[best.number])
    return best if ahead > 0 and near and saved > 0 else None


def _beliefs(history: History) -> dict[int, tuple[float, float]]:
    """Mean and standard deviation of each trial's cost."""
    posterior = Posterior.of(history)
    beliefs = zip(posterior.trials, posterior.mean, posterior.sd, strict=True)
    return {trial.number: (float(mean), float(sd)) for trial, mean, sd in beliefs}


def _probably_near(trial: tuple[float, float], best: tuple[float, float]) -> bool:
    room = -np.log(1 - NEAR) - (trial[0] - best[0])
    return bool(room >= ndtri(LIKELY) * np.hypot(trial[1], best[1]))
