"""The engine: from a site and a batch to seconds, by the bottleneck of each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stripewise.simulate.batch import Batch, Numbers
from stripewise.spec.site import Site

BOUNDS = ("client", "rpc", "oss", "ost", "locks", "rounds", "cache")
"""Bounds of the data phase: the slowest of them is the time. Metadata is the open and close phases."""

MIB = float(1 << 20)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the engine says of a batch, without noise.

    Attributes
    ----------
    open_seconds, data_seconds, close_seconds : ndarray, shape (n,)
    bytes : ndarray, shape (n,)
        Bytes that the program moved.
    bounds : mapping of str to ndarray, shape (n,)
        Seconds that the data phase would take if this bound alone acted; ``metadata`` is open and close together.
    """

    open_seconds: Numbers
    data_seconds: Numbers
    close_seconds: Numbers
    bytes: Numbers
    bounds: Mapping[str, Numbers]

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


def simulate(site: Site, batch: Batch, ost_speeds: Numbers | None = None) -> Outcome:
    """Simulate every row of a batch, without noise.

    Parameters
    ----------
    site : Site
    batch : Batch
    ost_speeds : ndarray, shape (n_ost,), optional
        c_o, the speed of each OST in these runs relative to the site's; the site's own where not given.

    Returns
    -------
    Outcome
    """
    n = len(batch)
    write = batch.write
    node = np.where(write, site.network.node_write_bandwidth, site.network.node_read_bandwidth)
    disk = np.where(write, site.ost.write_bandwidth, site.ost.read_bandwidth)
    total = np.broadcast_to(batch.bytes, (n,))
    stripes = np.where(batch.stripe_count == 0, site.defaults.stripe_count, batch.stripe_count)
    stripes = np.where(stripes < 0, site.ost.count, np.minimum(stripes, site.ost.count))
    bounds = {
        "client": total / (batch.nodes * node),
        "oss": total / (site.oss.count * site.oss.bandwidth),
        "ost": total / (np.minimum(stripes * batch.files, site.ost.count) * disk),
    }
    data = np.maximum.reduce(list(bounds.values()))
    opening = np.broadcast_to(site.mds.open_seconds + batch.processes / site.mds.rate, (n,))
    closing = np.zeros(n)
    return Outcome(opening, data, closing, total, {**bounds, "metadata": opening + closing})
