"""How many threads models and searches use."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

from threadpoolctl import ThreadpoolController

_MANY_ROWS = 8000


def threads(rows: int) -> int:
    """Threads for so many rows: one for few, for which threads would mostly wait for one another."""
    return 1 if rows < _MANY_ROWS else len(os.sched_getaffinity(0))


def for_rows(rows: int) -> AbstractContextManager[object]:
    """Let linear algebra on so many rows have as many threads as :func:`threads` says."""
    return one_thread() if threads(rows) == 1 else nullcontext()


def one_thread() -> AbstractContextManager[object]:
    """Keep linear algebra in one thread while the context lasts.

    The matrices of a search, or of a model of few rows, have some hundred rows. Several threads gain nothing on them,
    and where a program runs on the same cores they wait for one another most of the time.
    """
    # It brings a library of its own, which must be there to be limited, and is slow to load.

    limits: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1)
    return limits


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Find the libraries of linear algebra, anew only where more modules are loaded: it takes several milliseconds."""
    return ThreadpoolController()
