"""Our process among others: its name where it holds something, and how it ends when it is told to."""

from __future__ import annotations

import contextlib
import getpass
import os
import signal
import socket
from collections.abc import Iterator


def user_name() -> str:
    """Give the name of this process's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # In a container the user may have a number only.
        return str(os.getuid())


def owner_name() -> str:
    """Say who works, for people: user, host and process."""
    return f"{user_name()}@{socket.gethostname()}:{os.getpid()}"


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """End like Ctrl-C where a scheduler or a closed terminal ends us: runs are cancelled, claims are given back."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            # A handler that a preloaded library (libdarshan) had set in C is unknown to Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
