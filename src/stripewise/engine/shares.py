"""What each setting of a proven answer contributes: measured beside the proof, by leaving it out in some pairs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import scipy.special

from stripewise.catalogue.space import Space
from stripewise.engine.budget import RUNS_FOR_SHARE
from stripewise.engine.confirmation import Pair
from stripewise.engine.riders import list_changed
from stripewise.requests.objective import Objective
from stripewise.result import Effect, Interval, Share
from stripewise.search.statistics import log_speedups
from stripewise.trial import Run, State, Trial


def list_shares(
    space: Space,
    answer: Trial,
    effects: Sequence[Effect],
    pairs: Sequence[Pair],
    without: Sequence[Run],
    objective: Objective,
    whole: Share,
) -> tuple[Share, ...]:
    """Give the share of each setting of an answer whose gain is proven.

    Parameters
    ----------
    answer : Trial
        What the result proposes.
    pairs, without : sequence of Pair, sequence of Run
        Its confirmation, and the runs beside the pairs that leave a setting out.
    whole : Share
        Of all settings together, which is that of a single one.

    Returns
    -------
    tuple of Share
        In the order of the parameters; what no run measured says so.
    """
    names = list_changed(space, answer.configuration)
    if len(names) == 1:
        return (whole.model_copy(update={"name": names[0]}),)
    acting = {effect.name for effect in effects if effect.status == "effective"}
    beside = {pair.number: pair.candidate for pair in pairs if pair.candidate is not None}
    level = whole.interval.level if whole.interval is not None else Interval(0.0, math.inf).level
    found = []
    for name in names:
        own = [run for run in without if run.facts.left_out == name and run.pair in beside]
        share = _measure(own, beside, objective, level)
        found.append(share.model_copy(update={"name": name, "acts": name in acting}))
    return tuple(found)


def _measure(own: Sequence[Run], beside: Mapping[int, Run], objective: Objective, level: float) -> Share:
    """Compare runs without a setting with the candidate's of the same pairs; nothing where too few pairs have both."""
    both = [
        (run.value, with_it.value)
        for run in own
        if run.pair is not None
        and (with_it := beside[run.pair]).state is State.FINISHED
        and run.state is State.FINISHED
        and run.value is not None
        and with_it.value is not None
    ]
    if len(both) < RUNS_FOR_SHARE:
        return Share(pairs=len(both))
    logs = log_speedups([less for less, _ in both], [more for _, more in both], objective.maximize)
    mean = statistics.fmean(logs)
    # Few pairs: normal noise of the logarithms is assumed, as their ranks alone could bound nothing (Student, 1908).
    reach = float(scipy.special.stdtrit(len(logs) - 1, (1 + level) / 2)) * statistics.stdev(logs) / math.sqrt(len(logs))
    interval = Interval(math.exp(mean - reach), math.exp(mean + reach), level)
    return Share(slowdown=math.exp(mean), interval=interval, pairs=len(logs))
