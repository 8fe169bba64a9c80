"""How many runs a search needs on a recorded sweep until it has tried a configuration that is close to the best."""

from __future__ import annotations

import numpy as np
from sweep import Record

from stripewise.catalogue.configuration import Configuration
from stripewise.engine.race import Search, moves
from stripewise.search.base import Sampler


def runs_to_within(record: Record, sampler: Sampler, seed: int, budget: int, share: float = 0.95) -> int | None:
    """Count the runs until one has that share of the best value of the sweep at one level of the machine.

    The run of the default counts. Each run is answered from the record, with the drift of its time: the search begins
    somewhere in it, and at its end goes on at its beginning.

    Returns
    -------
    int or None
        None where ``budget`` runs are not enough.
    """
    rng = np.random.default_rng([seed, 3])
    clock = rng.uniform(0, record.seconds)

    def answer(configuration: Configuration) -> float:
        nonlocal clock
        point = int(record.space.index(record.space.levels([configuration]))[0])
        value, took = record.at(point, clock % record.seconds, rng)
        clock += took
        return value

    racer = Search(record.space, record.objective, sampler, seed)
    for number, (configuration, *_) in enumerate(moves(racer, answer, record.space.default, budget), 1):
        if record.share_of_best(configuration) >= share:
            return number
    return None
