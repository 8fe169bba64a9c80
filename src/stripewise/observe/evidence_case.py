"""What a rule of evidence is given, what it answers, and the comparison without which nothing is effective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from stripewise.catalogue.parameter import Parameter
from stripewise.observe.report_file import FileReport

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
        The file in a run with the setting, and in a run without.
    alone : bool
        Whether no other setting of the plan could change the same facts.
    baseline : tuple of FileReport
        The file in all runs without the setting.
    every : tuple of FileReport
        All files of the run with the setting, those of the program's own calls included.
    others : tuple of tuple of FileReport
        The same of each run without the setting.
    varied, paired : tuple of FileReport
        The file in runs with another value of the setting, and in those of them that had nothing else changed.
    """

    parameter: Parameter
    value: str
    file: FileReport
    before: FileReport | None
    alone: bool
    baseline: tuple[FileReport, ...] = ()
    every: tuple[FileReport, ...] = ()
    others: tuple[tuple[FileReport, ...], ...] = ()
    varied: tuple[FileReport, ...] = ()
    paired: tuple[FileReport, ...] = ()

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


Judge = Callable[..., Verdict]
"""A rule: judges a case, or a case and a direction."""
Measure = Callable[..., Any]
"""What a rule goes by, of a file or of all files of a run; None where it was not seen."""


def compared(
    measure: Measure, *, whole: bool = False, otherwise: Callable[..., bool] | None = None
) -> Callable[[Judge], Judge]:
    """Let a rule call a setting effective only if what it goes by differs from all runs without the setting.

    This is the only place that decides it: a rule says what a run shows, and not whether the default shows it as well.

    Parameters
    ----------
    measure : callable
        Takes the case, the file and, where the rule has one, the direction.
    whole : bool
        Whether it takes all files of a run in place of one.
    otherwise : callable, optional
        Takes the case and the direction, and says whether the runs differ in something else that counts.
    """

    def decorate(judge: Judge) -> Judge:
        @wraps(judge)
        def rule(case: Case, *way: str) -> Verdict:
            status, sentence = judge(case, *way)
            if status != EFFECTIVE or (otherwise is not None and otherwise(case, *way)):
                return status, sentence
            now = measure(case, case.every if whole else case.file, *way)
            without = [measure(case, other, *way) for other in (case.others if whole else case.baseline)]
            known = [value for value in without if value is not None]
            if not known and not whole:
                # Calls show all settings together; a layout or a property shows one.
                more = case.paired if way else case.varied
                known = [value for other in more if (value := measure(case, other, *way)) is not None]
                if known and _among(now, known):
                    return UNPROVABLE, f"{sentence}, as with another value; no run without it tells this"
            if not known:
                why = "tells this" if case.others else "was observed"
                return UNPROVABLE, f"{sentence}; no run without it {why}"
            if not _among(now, known):
                return status, sentence
            if case.alone or not way or _same_calls(case, *way):
                return NO_EFFECT, f"{sentence}, as by default"
            return UNPROVABLE, f"{sentence}, as by default; other settings changed with it"

        rule.compared = True  # type: ignore[attr-defined]  # tests ask whether a rule compares
        return rule

    return decorate


def _among(now: Any, known: Sequence[Any]) -> bool:
    """Whether a value was seen without the setting, or lies within what chance alone makes of it."""
    if now in known:
        return True
    parts = [value if isinstance(value, tuple) else (value,) for value in (now, *known)]
    if any(len(part) != len(parts[0]) or not all(isinstance(n, int | float) for n in part) for part in parts):
        return False
    return all(min(column) <= value <= max(column) for value, *column in zip(*parts, strict=True))


def _same_calls(case: Case, way: str) -> bool:
    made = getattr(case.file.posix, way)
    return any(made == getattr(file.posix, way) for file in case.baseline)
