"""How often someone may ask."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

_MOST = 10_000


class Rates:
    """A bucket for each who asks.

    Parameters
    ----------
    rate : float
        Requests a second.
    burst : int
        Requests that may come at once.
    clock : callable
        Seconds.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allow(self, who: str) -> bool:
        """Count a request; False if it is one too many."""
        now = self._clock()
        left, then = self._left.pop(who, (self._burst, now))
        left = min(self._burst, left + (now - then) * self._rate)
        self._left[who] = (max(0.0, left - 1.0) if left >= 1.0 else left, now)
        # Those who have not asked for longest have full buckets again.
        while len(self._left) > _MOST:
            self._left.popitem(last=False)
        return left >= 1.0
