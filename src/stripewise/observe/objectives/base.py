"""The interface of an objective: everything in which one differs from another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from stripewise.errors import UserError
from stripewise.launch import Outcome
from stripewise.observe.activity import Activity
from stripewise.requests.objective import Direction
from stripewise.requests.policy import load_policy

Phases = Mapping[str, tuple[float, float]]
"""Direction (``read``, ``write``) to the bytes that it moved and the seconds from open to close."""


@dataclass(frozen=True)
class Conditions:
    """What is known of an experiment's runs before the first of them.

    Attributes
    ----------
    runner : str
        The runner's name.
    program : str
        The program, for messages.
    nodes : int or None
        Nodes of a run, where they are known.
    unseen : str
        Why the runtime cannot be in the program, so that no report will be written; empty if it can.
    isolated : str
        Why nothing can be put into the program's Python; empty if it can, or nothing shows a Python.
    """

    runner: str
    program: str = ""
    nodes: int | None = None
    unseen: str = ""
    isolated: str = ""


class ObjectiveKind(ABC):
    """A kind of objective.

    Parameters
    ----------
    given : str
        What the user wrote behind the name and a colon; empty if nothing.

    Raises
    ------
    UserError
        If that is wrong.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    """What is measured, in a few words, for people who choose one."""
    direction: ClassVar[Direction | None]
    """None where only the user knows which is better."""
    unit: ClassVar[str] = ""
    text: ClassVar[str] = ""
    """What the text behind the colon is, in capitals; empty if the name stands alone."""
    optional: ClassVar[bool] = False
    """Whether the text may be left out."""
    example: ClassVar[str] = ""
    """Such a text."""
    reported: ClassVar[bool] = False
    """Whether only the runtime's report tells the value."""
    of_loaders: ClassVar[bool] = False
    """Whether only what is put into the program's Python tells the value."""
    wall_time: ClassVar[bool] = False
    """Whether the value is the run's wall time, so that a run that was stopped is known to be worse than its bound."""
    operation: ClassVar[str] = ""
    """The one operation that it looks at, ``read`` or ``write``; empty where the whole run counts."""
    timed: ClassVar[str] = ""
    """From where to where I/O is timed, if it is timed apart from all else; empty if it is not."""
    leaves_room: ClassVar[str] = ""
    """How a program's own figure of the same may differ, for people who compare the two; empty if nothing is known."""

    def __init__(self, given: str = "") -> None:
        wrong = not self.text if given else bool(self.text) and not self.optional
        if wrong:
            raise UserError(f"objective '{self.name}{given and ':'}{given}' is unknown", f"write {self.usage()}")
        self.given = given

    @classmethod
    def usage(cls) -> str:
        """Give how it is written."""
        if not cls.text:
            return cls.name
        return f"{cls.name}[:{cls.text}]" if cls.optional else f"{cls.name}:{cls.text}"

    @property
    def title(self) -> str:
        """The name of the objective as the user wrote it."""
        return f"{self.name}:{self.given}" if self.given else self.name

    @property
    def column(self) -> str:
        """Its column in a table."""
        return self.name

    @property
    def completed(self) -> str:
        """The text behind the colon; where the user gave none, that of the site file."""
        return self.given or load_policy().objectives.get(self.name, "")

    @property
    def starts(self) -> str:
        """The command of the user's that measuring starts; empty if there is none."""
        return ""

    def of_operation(self, operation: str) -> str:
        """Give the name of the objective that says the same of one operation, ``read`` or ``write``."""
        return self.title

    def explain(self, activity: Activity) -> str:
        """Say what of a run makes the value mean something else than its name; empty if nothing does."""
        return ""

    def check(self, conditions: Conditions) -> None:
        """Check before the first run that the objective can be measured.

        Raises
        ------
        UserError
            If it cannot.
        """
        if self.reported and conditions.unseen:
            raise UserError(
                f"objective {self.title} is measured by the preloaded runtime, which cannot be in "
                f"{conditions.program}: {conditions.unseen}",
                "use --objective elapsed, or regex:PATTERN on what the program prints",
            )

    def environment(self, folder: Path) -> Mapping[str, str]:
        """Give variables that a run needs, unless the user sets them; ``folder`` is the run's."""
        return {}

    @contextmanager
    def metered(self) -> Iterator[Mapping[str, float]]:
        """Measure what can only be measured while the program runs; entered before it starts, left when it has ended.

        Yields
        ------
        mapping
            Empty at first; afterwards the value by :attr:`title`, if it was measured.
        """
        yield {}

    @abstractmethod
    def value(self, outcome: Outcome) -> float:
        """Read the value of a finished run.

        Raises
        ------
        RunFailed
            If it cannot be read, with the reason and what to do.
        """

    def read(self, outcome: Outcome) -> tuple[float, str]:
        """Read the value of a finished run, and the unit in which the program printed it; empty where it has none."""
        return self.value(outcome), ""

    def simulated(self, phases: Phases) -> float | None:
        """Give the value of a simulated run; None where the phases do not tell it."""
        return None
