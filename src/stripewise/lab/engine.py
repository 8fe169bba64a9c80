"""The engine: from a site and a batch to seconds, by the bottleneck of each row.

T = max of the bounds, plus the serial terms of metadata. The mechanisms are in
:mod:`~stripewise.lab.layout`, :mod:`~stripewise.lab.romio`,
:mod:`~stripewise.lab.traffic` and :mod:`~stripewise.lab.lustre`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stripewise.lab import layout, lustre, noise, romio
from stripewise.lab.batch import Flags, Numbers, RunBatch
from stripewise.lab.site import Site
from stripewise.lab.traffic import NONE, traffic

BOUNDS = ("client", "rpc", "oss", "ost", "locks", "rounds", "cache")
"""Bounds of the data phase: the slowest of them is the time. ``metadata`` is the open and close phases."""

MIB = float(1 << 20)
_CHUNK = 1 << 13


@dataclass(frozen=True, eq=False)
class SimulatedOutcome:
    """What the engine says of a batch, without noise.

    Attributes
    ----------
    open_seconds, data_seconds, close_seconds : ndarray, shape (n,)
    bytes : ndarray, shape (n,)
        Bytes that the program moved.
    bounds : mapping of str to ndarray, shape (n,)
        Seconds that the data phase would take if this bound alone acted; ``metadata`` is open and close together.
    aggregated : ndarray of bool, shape (n,)
        Whether calls went through aggregators.
    aggregators, rounds : ndarray, shape (n,)
        Processes that did the I/O of collective calls, and rounds of exchange; 0 where not aggregated.
    stripe_count, stripe_size : ndarray, shape (n,)
        The striping that acted.
    sieved : ndarray of bool, shape (n,)
        Whether a process' own calls were sieved.
    """

    open_seconds: Numbers
    data_seconds: Numbers
    close_seconds: Numbers
    bytes: Numbers
    bounds: Mapping[str, Numbers]
    aggregated: Flags
    aggregators: Numbers
    rounds: Numbers
    stripe_count: Numbers
    stripe_size: Numbers
    sieved: Flags

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def seconds(self) -> Numbers:
        """All phases."""
        return self.open_seconds + self.data_seconds + self.close_seconds

    @property
    def bandwidth(self) -> Numbers:
        """MiB/s from open to close."""
        result: Numbers = self.bytes / MIB / self.seconds
        return result

    @property
    def binding(self) -> NDArray[np.str_]:
        """Name of the largest bound of each row."""
        names = np.array(list(self.bounds))
        binding: NDArray[np.str_] = names[np.argmax(np.stack(list(self.bounds.values())), axis=0)]
        return binding

    @property
    def margin(self) -> Numbers:
        """The largest bound over the next: how much everything else could slow down unnoticed, shape ``(n,)``."""
        ordered = np.sort(np.stack(list(self.bounds.values())), axis=0)
        result: Numbers = ordered[-1] / np.maximum(ordered[-2], np.finfo(float).tiny)
        return result


def simulate(site: Site, batch: RunBatch, ost_speeds: Numbers | None = None) -> SimulatedOutcome:
    """Simulate every row of a batch, without noise.

    Parameters
    ----------
    ost_speeds : ndarray, shape (n_ost,), optional
        c_o, the speed of each OST in these runs relative to the site's; the site's own where not given. Files begin at
        the first OST.
    """
    n = len(batch)
    if ost_speeds is None and site.ost.speeds:
        ost_speeds = np.ones(site.ost.count)
        ost_speeds[: len(site.ost.speeds)] = site.ost.speeds
    if n <= _CHUNK:
        return _simulate(site, batch, ost_speeds, n)
    # In pieces that stay in the processor's cache, and so that memory does not grow with every intermediate array.
    parts = [batch[start : start + _CHUNK] for start in range(0, n, _CHUNK)]
    done = [_simulate(site, part, ost_speeds, len(part)) for part in parts]
    return _join_parts(done)


def _simulate(site: Site, batch: RunBatch, ost_speeds: Numbers | None, n: int) -> SimulatedOutcome:
    stripes = layout.striping(site, batch)
    parts = layout.pieces(batch)
    way = romio.choose_way(site, batch, stripes, parts)
    row = traffic(site, batch, stripes, parts, way)
    kept = lustre.compute_write_behind(row)
    bounds = {
        "client": lustre.client_seconds(row),
        "rpc": np.maximum(lustre.window_seconds(row), lustre.latency_seconds(row)),
        "oss": lustre.server_seconds(row),
        "ost": lustre.target_seconds(row, ost_speeds),
    }
    if kept.any():
        bounds = {name: seconds * (1.0 - kept) for name, seconds in bounds.items()}
    bounds |= {
        "locks": lustre.lock_seconds(row),
        "rounds": lustre.round_seconds(row),
        "cache": lustre.memory_seconds(row, kept),
    }
    data = bounds["client"]
    for seconds in bounds.values():
        if seconds is not NONE:
            data = np.maximum(data, seconds)
    opening, closing = lustre.open_seconds(row), lustre.close_seconds(row)
    bounds["metadata"] = opening + closing

    def full(array: NDArray[Any]) -> Any:
        return array if array.shape == (n,) else np.broadcast_to(array, (n,))

    return SimulatedOutcome(
        full(opening),
        full(data),
        full(closing),
        full(parts.moved),
        {name: full(seconds) for name, seconds in bounds.items()},
        full(way.aggregated),
        full(np.where(way.aggregated, way.aggregators, 0.0) if way.any_aggregated else NONE),
        full(np.where(way.aggregated, way.rounds, 0.0) if way.any_aggregated else NONE),
        full(stripes.count),
        full(stripes.size),
        full(way.sieved),
    )


def _join_parts(parts: list[SimulatedOutcome]) -> SimulatedOutcome:
    fields = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in parts[0].__dataclass_fields__
        if name != "bounds"
    }
    bounds = {name: np.concatenate([part.bounds[name] for part in parts]) for name in parts[0].bounds}
    return SimulatedOutcome(**fields, bounds=bounds)


SERVERS = ("oss", "ost")
"""Bounds that the load of other users narrows. Nodes, locks and rounds belong to one job alone."""


def add_noise(
    site: Site, batch: RunBatch, outcome: SimulatedOutcome, numbers: ArrayLike, seed: int, days: ArrayLike = 0.0
) -> SimulatedOutcome:
    """Give the times of runs with all that makes two runs of one configuration differ.

    The whole run is slowed, open and close included: the measured distribution is that of whole runs.

    Parameters
    ----------
    site : Site
        Its ``noise``, ``drift`` and ``background`` say what varies and how much.
    outcome : SimulatedOutcome
        Of :func:`~stripewise.lab.engine.simulate` for that batch.
    numbers : array of int, shape (n,)
        The runs' numbers: the same number of the same seed is slowed in the same way.
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
