"""How many threads the linear algebra of the search uses."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """Keep linear algebra in one thread while the context lasts.

    The matrices of a search have a hundred rows. Several threads gain nothing on them, and where a program runs on the
    same cores they wait for one another most of the time.
    """
    limited: AbstractContextManager[object] = _libraries().limit(limits=1, user_api="blas")
    return limited
