"""The system calls of a simulated run, by the rules of the simulated MPI library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stripewise.simulate.batch import Batch
from stripewise.simulate.layout import pieces, striping
from stripewise.simulate.romio import way
from stripewise.spec.site import Site


@dataclass(frozen=True)
class SystemCalls:
    """System calls of one direction, over all processes and files.

    Attributes
    ----------
    count, bytes, size : int
        Calls, bytes that they moved, and bytes of the largest.
    ranks : int
        Processes that made them.
    read_first : int
        Reads inside write calls (read-modify-write).
    """

    count: int
    bytes: int
    size: int
    ranks: int
    read_first: int


def system_calls(site: Site, batch: Batch) -> SystemCalls:
    """Count the system calls of a batch of one row, by the way that the site's MPI library takes."""
    stripes, parts = striping(site, batch), pieces(batch)
    taken = way(site, batch, stripes, parts)

    def of(values: np.ndarray[Any, Any]) -> float:
        return float(values[0])

    write, processes, moved = bool(batch.write[0]), int(of(batch.processes)), of(parts.moved)
    if bool(taken.aggregated[0]):
        # Holes are filled by reading the buffer first, unless ds_in_coll is off: then pieces are written one by one.
        holes = of(parts.span) > 1
        filled = not write or not holes or bool(batch.ds_in_coll[0])
        amount = of(batch.bytes) * (of(parts.span) if filled else 1.0)
        size = of(taken.buffer) if filled else min(of(parts.size), of(taken.buffer))
        count = max(1, round(np.ceil(amount / size)))
        return SystemCalls(
            count, int(amount), int(size), int(of(taken.aggregators)), count if write and holes and filled else 0
        )
    if bool(taken.sieved[0]):
        stride = of(parts.size) + of(parts.hole)
        span = of(parts.a_call) * stride - of(parts.hole)
        size = min(of(taken.sieve_buffer), span)
        each = np.ceil(span / size) * np.ceil(of(parts.calls))
        amount = span * np.ceil(of(parts.calls)) * processes
        return SystemCalls(int(each * processes), int(amount), int(size), processes, int(each * processes) * write)
    several = of(parts.a_call) > 1
    size = of(parts.size) if several else min(of(batch.transfer_size), moved / processes)
    return SystemCalls(max(processes, round(moved / size)), int(moved), int(size), processes, 0)
