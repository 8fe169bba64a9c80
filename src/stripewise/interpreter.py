"""How a child that is a Python process is started."""

from __future__ import annotations

import sys


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
