"""How many threads the linear algebra of the search uses."""

from __future__ import annotations

from contextlib import AbstractContextManager

from threadpoolctl import threadpool_limits


def one_thread() -> AbstractContextManager[object]:
    """Keep linear algebra in one thread while the context lasts.

    The matrices of a search have a hundred rows. Several threads gain nothing on them, and where a program runs on the
    same cores they wait for one another most of the time.
    """
    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits
