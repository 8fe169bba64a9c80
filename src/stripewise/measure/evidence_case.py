"""What a rule of evidence is given, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from stripewise.spec.parameter import Parameter
from stripewise.spec.report_file import FileReport

Verdict = tuple[str, str]
"""Status and one sentence."""

EFFECTIVE, NO_EFFECT, UNPROVABLE = "effective", "no_effect", "unprovable"


@dataclass(frozen=True)
class Case:
    """What a rule judges.

    Attributes
    ----------
    parameter : Parameter
    value : str
        As it was passed on.
    file, before : FileReport, FileReport or None
        The file in a run with the plan, and in a run without.
    alone : bool
        Whether no other setting of the plan could change the same facts.
    baseline : tuple of FileReport
        The file in all runs without a plan.
    every : tuple of FileReport
        All files of the run with the plan, those of the program's own calls included.
    """

    parameter: Parameter
    value: str
    file: FileReport
    before: FileReport | None
    alone: bool
    baseline: tuple[FileReport, ...] = ()
    every: tuple[FileReport, ...] = ()

    def directions(self) -> list[str]:
        """The directions that the parameter can influence and the file was used in."""
        return [way for way in ("write", "read") if way in self.parameter.operations and self.file.moved(way)]

    @property
    def number(self) -> int | None:
        """The value as a number."""
        try:
            return int(self.value)
        except ValueError:
            return None
