"""What people are told while an experiment goes on: what the search has learned, each once.

What is said of the time that trying loses within one launch.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from stripewise.engine.ineffective import Idle
from stripewise.engine.schedule import schedule_of
from stripewise.observe.objectives import kind_of
from stripewise.observe.objectives.plain import own_figure
from stripewise.requests.experiment import Experiment
from stripewise.result import LevelChange
from stripewise.trial import Role, Run, Trial

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


def loss_told(run: Run, trials: Sequence[Trial], experiment: Experiment) -> str:
    """Say what trying has lost once a phase has taken it above what it may lose; empty for any other run.

    Parameters
    ----------
    run : Run
        The latest that ended.
    trials : sequence of Trial
    experiment : Experiment
    """
    most, lost = experiment.within.max_loss, run.facts.lost or 0.0
    usual = next((trial.value for trial in trials if trial.role is Role.DEFAULT), None)
    others = [one for trial in trials for one in trial.runs if one.facts.lost is not None and one.number < run.number]
    before = max(others, key=lambda one: one.number).facts.lost or 0.0 if others else 0.0
    if not before <= most < lost or not run.value or not usual:
        return ""
    waits = schedule_of(experiment).counted(run.facts.waits)
    return (
        f"run {run.number} took {usual / run.value:.3g} times as long as the default: trying has lost {lost:.0%} of "
        f"the default's I/O time so far, and {most:.0%} are allowed. Settings that nobody has tried wait for about "
        f"{waits} of the default, in which what is allowed grows; what is known to be faster, and its proof, go on"
    )
