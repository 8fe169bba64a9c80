"""What people are told while an experiment goes on: what the search has learned, each once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from stripewise.engine.ineffective import Idle
from stripewise.observe.objectives import kind_of
from stripewise.observe.objectives.plain import own_figure
from stripewise.result import LevelChange

_READ_OUTPUT = 1 << 20


class Remarks:
    """Tells what is new since it was asked last; what earlier sessions have told is not told again.

    Parameters
    ----------
    note : callable
        Is told a sentence.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._changes: int | None = None
        self._idle: frozenset[tuple[str, object]] | None = None

    def changes(self, changes: Sequence[LevelChange]) -> None:
        """Say when the machine changed, as soon as the search believes it."""
        for change in changes[len(changes) if self._changes is None else self._changes :]:
            self._note(change.sentence)
        self._changes = max(self._changes or 0, len(changes))

    def idle(self, parameters: Sequence[Idle]) -> None:
        """Say which parameters are no longer varied."""
        idle = {(one.name, one.where): one for one in parameters}
        for key in () if self._idle is None else idle.keys() - self._idle:
            self._note(idle[key].sentence)
        self._idle = (self._idle or frozenset()) | idle.keys()


def beside_own_figure(objective: str, folder: str | None) -> str:
    """Say how an objective may differ from the figure that the program prints itself; empty if it prints none.

    Parameters
    ----------
    objective : str
    folder : str or None
        Of a finished run.
    """
    kind = kind_of(objective)
    if not kind.leaves_room or folder is None:
        return ""
    try:
        with (Path(folder) / "stdout").open("rb") as stream:
            printed = stream.read(_READ_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return ""
    if (found := own_figure(printed, objective)) is None:
        return ""
    line, name = found
    return (
        f"note: the program prints its own figure, '{line[:100]}'; {objective} is timed "
        f"{kind.timed}, so the two may differ, and so may the best settings: "
        f"--objective {shlex.quote(name)} --direction maximize would use the program's"
    )
