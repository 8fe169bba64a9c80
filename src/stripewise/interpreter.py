"""How children are started: what they inherit, Python processes, and commands that answer a question."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_SECRETS = ("STRIPEWISE_TOKEN", "STRIPEWISE_TOKEN_FILE")
_STORE = "STRIPEWISE_STORE"
_OF_SERVICE = (
    *("STRIPEWISE_STORE", "STRIPEWISE_SERVER", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "LISTEN_FDNAMES"),
    *("PGAPPNAME", "PGCHANNELBINDING", "PGDATABASE", "PGGSS", "PGHOST", "PGKRB", "PGOPTIONS", "PGPASS", "PGPORT"),
    *("PGREQUIRE", "PGSERVICE", "PGSSL", "PGSYSCONFDIR", "PGTARGETSESSIONATTRS", "PGUSER"),
)
"""How the names begin of what a service is given for itself. Compilers of PGI have names with PGI, which stay."""

_jobs_of_others = 0


@contextmanager
def for_others() -> Iterator[None]:
    """Say that this process, a service's worker, starts programs for those who ask the service."""
    global _jobs_of_others  # noqa: PLW0603  the role of the whole process: runners start programs in threads
    _jobs_of_others += 1
    try:
        yield
    finally:
        _jobs_of_others -= 1


def inherit_environment(environment: Mapping[str, str] | None = None, *, service: bool = False) -> dict[str, str]:
    """Give the environment of what Stripewise starts: without what is secret, and needed by Stripewise alone.

    Parameters
    ----------
    environment : mapping, optional
        What it starts from; by default, that of this process.
    service : bool
        Whether this process belongs to a service; so does a worker within :func:`for_others`.
    """
    given = os.environ if environment is None else environment
    withheld = _SECRETS + (_OF_SERVICE if service or _jobs_of_others else ())
    if _has_password(given.get(_STORE, "")):
        withheld += (_STORE,)
    return {name: value for name, value in given.items() if not name.startswith(withheld)}


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:
        return True


def python(*words: str, alone: bool = False) -> list[str]:
    """Give the command of a child that runs this interpreter.

    The working folder is not on the child's path for modules: it may be a job's folder or a download, and a file
    ``numpy.py`` there would be run instead of NumPy. ``PYTHONPATH`` counts as it does for Stripewise itself, since a
    site may have installed Stripewise through it.

    Parameters
    ----------
    *words : str
        Options and arguments, such as ``-m stripewise``.
    alone : bool
        For children that need only the standard library: ``PYTHONPATH`` and installed packages do not count either.
    """
    return [sys.executable, *(("-I", "-S") if alone else ("-P",)), *words]


class Probing:
    """Whether programs may be started to find something out, and what stays unknown where they may not.

    Parameters
    ----------
    allowed : bool
        False in a dry run and in a check, to which nobody has agreed: they read files alone.
    """

    def __init__(self, *, allowed: bool = True) -> None:
        self.allowed = allowed
        self._unknown: dict[str, None] = {}

    @property
    def unknown(self) -> tuple[str, ...]:
        """What was not found out because it needs a program, in words."""
        return tuple(self._unknown)

    def allows(self, what: str) -> bool:
        """Say whether a program may be started for something; remember it as unknown if not."""
        if not self.allowed:
            self._unknown[what] = None
        return self.allowed


PROBING = Probing()
"""For whoever was asked to start the program."""


def ask(
    command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that reads nothing and answers in text; bytes that are not UTF-8 are replaced.

    It gets the environment of :func:`inherit_environment`, from ``environment`` or from that of this process.

    Raises
    ------
    OSError
        If it cannot be started.
    subprocess.TimeoutExpired
        If it does not end in time.
    """
    return subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        env=inherit_environment(environment),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        check=False,
    )
