"""A kind of files: how one is recognised, and what is made of it.

Each kind is a module that declares one :class:`Source`; :mod:`stripewise.observe.sources` asks them in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.observe.activity import Activity

Row = dict[str, Any]
"""One measurement: columns by name, with ``bandwidth`` in MiB/s or ``rate`` in operations per second."""


@dataclass(frozen=True)
class Measured:
    """What a file measured, for tables.

    Attributes
    ----------
    rows : list of Row
        None of a row's values is where the file does not tell.
    form : str
        Which form of its kind the file has, for messages.
    notes : list of str
        What was left out, one sentence each.
    """

    rows: list[Row]
    form: str
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Source:
    """A kind of files that this process reads; logs and traces have child processes.

    Attributes
    ----------
    name : str
        The ``kind`` of activities made of it.
    title, plural : str
        As messages name one and several.
    holds : callable
        Whether a file is one, by the beginning of its text.
    read : callable or None
        Makes activities of a file, one a job; None where it shows no calls.
    measured : callable or None
        Gives what the file measured, where that is more than a job's two rates.
    instead : str
        What to do with a file where one of them is None.
    lists : bool
        Whether it lists what other outputs say in full.
    repeats : callable
        Whether files beside one say the same and more, so that one of a folder is passed over.
    """

    name: str
    title: str
    plural: str
    holds: Callable[[str], bool]
    read: Callable[[Path], Sequence[Activity]] | None = None
    measured: Callable[[Path], Measured] | None = None
    instead: str = ""
    lists: bool = False
    repeats: Callable[[Path], bool] = lambda path: False


def read_text(path: Path) -> str:
    """Read a text, whatever its bytes are."""
    return path.read_text("utf-8", errors="replace")
