"""How children are started: Python processes, and commands that answer a question."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


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


def ask(
    command: Sequence[str], seconds: float, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command that reads nothing and answers in text; bytes that are not UTF-8 are replaced.

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
        env=None if environment is None else dict(environment),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        check=False,
    )
