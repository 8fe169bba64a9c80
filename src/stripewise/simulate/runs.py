"""Runs as they would come out on a day: the engine's times with noise, drift and the load of others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stripewise.simulate import noise
from stripewise.simulate.batch import RunBatch
from stripewise.simulate.engine import SimulatedOutcome
from stripewise.spec.site import Site

SERVERS = ("oss", "ost")
"""Bounds that the load of others narrows: what one has for oneself (nodes, locks, rounds) it does not."""


def noisy(
    site: Site, batch: RunBatch, outcome: SimulatedOutcome, numbers: ArrayLike, seed: int, days: ArrayLike = 0.0
) -> SimulatedOutcome:
    """Give the times of runs with all that makes two runs of one configuration differ.

    The whole run is slowed, open and close included: the measured distribution is that of whole runs.

    Parameters
    ----------
    site : Site
        Its ``noise``, ``drift`` and ``background`` say what varies and how much.
    batch : RunBatch
    outcome : SimulatedOutcome
        Of :func:`~stripewise.simulate.engine.simulate` for that batch.
    numbers : array of int, shape (n,)
        The runs' numbers: the same number of the same seed is slowed in the same way.
    seed : int
    days : array of float, shape (n,) or scalar
        When the runs start, in days since the site's first.
    """
    which = np.asarray(numbers, dtype=np.int64)
    factor = slowdown(site, batch.write, which, seed) * noise.day_factors(site.drift, days, seed)
    bounds = dict(outcome.bounds)
    data = outcome.data_seconds
    if site.background.load > 0:
        spare = noise.spare_shares(site.background, which, seed)
        bounds |= {name: bounds[name] / spare for name in SERVERS}
        # Only as far as servers become the bottleneck do others lengthen the run.
        widest = np.maximum.reduce([seconds for name, seconds in outcome.bounds.items() if name != "metadata"])
        narrowed = np.maximum.reduce([seconds for name, seconds in bounds.items() if name != "metadata"])
        data = data + np.maximum(narrowed - widest, 0.0)
    return replace(
        outcome,
        open_seconds=outcome.open_seconds * factor,
        data_seconds=data * factor,
        close_seconds=outcome.close_seconds * factor,
        bounds={name: seconds * factor for name, seconds in bounds.items()},
    )


def slowdown(site: Site, write: NDArray[np.bool_], numbers: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Give the slowdown of single runs, shape (n,); 1 where the site's noise is switched off."""
    if not site.noise.enabled:
        return np.ones(numbers.shape)
    if write.all():
        return noise.slowdowns(site.noise.write, numbers, seed, noise.WRITE)
    reading = noise.slowdowns(site.noise.read, numbers, seed, noise.READ)
    if not write.any():
        return reading
    return np.where(write, noise.slowdowns(site.noise.write, numbers, seed, noise.WRITE), reading)
