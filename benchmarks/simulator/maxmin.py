"""Max-min fair sharing among flows, and the time they take where their sizes differ.

Flows cross resources (a client's link, a server, an OST) and share each of them fairly: no flow can get more without
taking from one that has no more than it. Rates follow from filling all flows alike until a resource is full, fixing the
flows that cross it, and going on with the rest (Bertsekas and Gallager, *Data Networks*, 6.5.2). This is what a
flow-level simulator computes; :func:`bound` is what remains if one looks at each resource by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_TIE = 1e-12


@dataclass(frozen=True, eq=False)
class Flows:
    """Flows and the resources they cross.

    Attributes
    ----------
    routes : ndarray of int, shape (n, k)
        Index of each resource that a flow crosses; -1 fills the rows of flows that cross fewer.
    capacities : ndarray of float, shape (r,)
        Bytes a second; above zero.
    limits : ndarray of float, shape (n,)
        Most that a flow gets whatever is free (its window of requests), bytes a second; infinite if nothing holds it.
    """

    routes: NDArray[np.int64]
    capacities: Floats
    limits: Floats

    @classmethod
    def of(cls, routes: ArrayLike, capacities: ArrayLike, limits: ArrayLike | None = None) -> Flows:
        """Check and make flows.

        Raises
        ------
        ValueError
            If a capacity or limit is not above zero, a route names an unknown resource, or nothing holds a flow.
        """
        way = np.atleast_2d(np.asarray(routes, dtype=np.int64))
        room = np.asarray(capacities, dtype=float)
        most = np.full(len(way), np.inf) if limits is None else np.asarray(limits, dtype=float)
        if way.size and (way.max(initial=-1) >= len(room) or way.min(initial=0) < -1):
            raise ValueError("a route names an unknown resource")
        if not (room > 0).all() or not (most > 0).all() or most.shape != (len(way),):
            raise ValueError("capacities and limits must be above zero, one limit for each flow")
        if (np.isinf(most) & (way < 0).all(axis=1)).any():
            raise ValueError("nothing holds a flow: it crosses no resource and has no limit")
        return cls(way, room, most)

    def take(self, keep: NDArray[np.bool_]) -> Flows:
        """Give some of the flows, on the same resources."""
        return Flows(self.routes[keep], self.capacities, self.limits[keep])


def rates(flows: Flows) -> Floats:
    """Give every flow its max-min fair rate, bytes a second, shape (n,).

    Fair shares only grow while flows are fixed, so a resource whose share is the smallest for each of its flows can be
    fixed at once, wherever it stands in the order of bottlenecks. So few rounds are needed, each vectorised.
    """
    count = len(flows.capacities)
    # The last place is a resource of infinite room for rows that are filled up with -1. Whole columns at a time: numpy
    # is slow along short rows.
    left = np.append(flows.capacities, np.inf)
    columns = _columns(flows.routes, count)
    rate = np.zeros(len(flows.routes))
    active = np.arange(len(rate))
    limits = flows.limits
    while len(active):
        every = [np.bincount(column, minlength=count + 1) for column in columns]
        crossing = sum(every, np.zeros(count + 1))
        share = np.full(count + 1, np.inf)
        np.divide(left, crossing, out=share, where=crossing > 0)
        share[count] = np.inf
        shares = [share.take(column) for column in columns]
        smallest = limits
        for mine in shares:
            smallest = np.minimum(smallest, mine)
        above = smallest * (1 + _TIE)
        # A resource is a bottleneck now if none of its flows is held below its share elsewhere.
        full = np.ones(count + 1, dtype=bool)
        for column, mine, crossed in zip(columns, shares, every, strict=True):
            full &= np.bincount(column, mine <= above, minlength=count + 1) == crossed
        full[count] = False
        done = limits <= smallest
        for column in columns:
            done |= full.take(column)
        if done.all():
            rate[active] = smallest
            break
        rate[active[done]] = smallest[done]
        for column in columns:
            left -= np.bincount(column[done], smallest[done], minlength=count + 1)
        left = np.maximum(left, 0.0)
        kept = ~done
        active, limits = active[kept], limits[kept]
        columns = [column[kept] for column in columns]
    return rate


def _columns(routes: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    """Resources that flows cross first, second and so on, with ``count`` for those that cross fewer."""
    found = [np.ascontiguousarray(column) for column in routes.T]
    return [np.where(column < 0, count, column) if column.min(initial=0) < 0 else column for column in found]


def finish_times(flows: Flows, sizes: ArrayLike) -> Floats:
    """Give the time at which each flow ends, seconds, shape (n,): rates are shared anew whenever one ends.

    Parameters
    ----------
    flows : Flows
    sizes : array of float, shape (n,)
        Bytes; flows of none end at once.
    """
    left = np.asarray(sizes, dtype=float).copy()
    ends = np.zeros(len(left))
    active = np.flatnonzero(left > 0)
    now = 0.0
    while len(active):
        keep = np.zeros(len(left), dtype=bool)
        keep[active] = True
        rate = rates(flows.take(keep))
        needs = left[active] / rate
        step = needs.min()
        now += step
        left[active] -= rate * step
        done = needs <= step * (1 + 1e-9)
        ends[active[done]] = now
        active = active[~done]
    return ends


def makespan(flows: Flows, sizes: ArrayLike) -> float:
    """Give the time until the last flow has ended, seconds."""
    return float(finish_times(flows, sizes).max(initial=0.0))


def bound(flows: Flows, sizes: ArrayLike) -> float:
    """Give the time below which no sharing can be, seconds: the busiest resource, or the longest flow alone.

    It is exact where all flows are equal, and optimistic where small flows leave a resource idle that large ones then
    need.
    """
    amount = np.asarray(sizes, dtype=float)
    count = len(flows.capacities)
    room = np.append(flows.capacities, np.inf)
    loads, narrowest = np.zeros(count + 1), flows.limits
    for column in _columns(flows.routes, count):
        loads += np.bincount(column, amount, minlength=count + 1)
        narrowest = np.minimum(narrowest, room[column])
    return float(max((loads / room).max(initial=0.0), (amount / narrowest).max(initial=0.0)))
