"""Traces of other tools: a file or folder with each call of a program, summed up into the same form as a Darshan log.

A form of traces is a module here with the functions of :class:`TraceForm`. The process that reads logs calls
``summarise``; everything else asks only whether a path is a trace.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from stripewise.observe.traces import dftracer, dxt, recorder, recorder_parquet


class TraceForm(Protocol):
    """What a module of this package has.

    Attributes
    ----------
    NAME : str
        The ``kind`` of activities made of it.
    TITLE : str
        As messages name it.
    SUFFIXES : tuple of str
        How the names of its files end; empty where only folders are traces.
    INNER : tuple of str
        Folders within one that hold the same trace in another form.
    CUT : str
        What to check where a trace cannot be read.
    """

    NAME: str
    TITLE: str
    SUFFIXES: tuple[str, ...]
    INNER: tuple[str, ...]
    CUT: str

    def holds(self, path: Path) -> bool:
        """Whether a file or a folder is such a trace; looks at names, and at the beginning of few kinds of files."""
        ...

    def parts(self, path: Path) -> list[Path]:
        """Give the files of a trace."""
        ...

    def summarise(self, path: Path) -> dict[str, Any]:
        """Sum up a trace: an activity as JSON.

        Raises
        ------
        LogError
            If it cannot be read.
        """
        ...


FORMS: tuple[TraceForm, ...] = (dftracer, recorder_parquet, recorder, dxt)
SUFFIXES = tuple(suffix for form in FORMS for suffix in form.SUFFIXES)
"""How the names of traces that are files end."""


def form_of(path: Path) -> TraceForm | None:
    """Give the form of the trace at a path; None if it is none. A pipe is none, and could be waited for for ever."""
    if not (path.is_file() or path.is_dir()):
        return None
    return next((form for form in FORMS if form.holds(path)), None)


def traces_within(folder: Path) -> Iterator[Path]:
    """Give the folders that are traces, the folder itself and all below it, in order of their names."""
    for place, folders, _ in os.walk(folder):
        path = Path(place)
        if (form := form_of(path)) is not None:
            yield path
            folders[:] = [name for name in folders if name not in form.INNER]
        folders.sort()
