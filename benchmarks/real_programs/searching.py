"""How many runs a search needs on a recorded sweep until it has tried a configuration that is close to the best."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from sweep import Record

from stripewise.engine.race import SamplerPlayer
from stripewise.search.base import Sampler
from stripewise.search.policy.resampling import make_resampler


def runs_to_within(record: Record, sampler: Sampler, seed: int, budget: int, share: float = 0.95) -> int | None:
    """Count the runs until one has that share of the best value of the sweep at one level of the machine.

    The run of the default counts. Each run is answered from the record, with the drift of its time: the search begins
    somewhere in it, and at its end goes on at its beginning.

    Returns
    -------
    int or None
        None where ``budget`` runs are not enough.
    """
    place: Any = SimpleNamespace(space=record.space, table=SimpleNamespace(objective=record.objective))
    rng = np.random.default_rng([seed, 3])
    player, clock = SamplerPlayer(place, sampler, make_resampler({}), seed), rng.uniform(0, record.seconds)
    for number in range(1, budget + 1):
        configuration = player.propose()
        if configuration is None:
            return None
        if record.share_of_best(configuration) >= share:
            return number
        point = int(record.space.index(record.space.levels([configuration]))[0])
        value, took = record.at(point, clock % record.seconds, rng)
        clock += took
        player.observe(configuration, value)
    return None
