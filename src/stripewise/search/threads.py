"""How many threads the linear algebra of the search uses."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """Keep linear algebra in one thread while the context lasts.

    The matrices of a search have a hundred rows. Several threads gain nothing on them, and where a program runs on the
    same cores they wait for one another most of the time.
    """
    limits: AbstractContextManager[object] = _libraries(len(sys.modules)).limit(limits=1)
    return limits


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Find the libraries of linear algebra, anew only where more modules are loaded: it takes several milliseconds."""
    return ThreadpoolController()
