"""What a rule of evidence is given and answers, and the comparison without which it calls nothing effective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from stripewise.catalogue.meaning import parse
from stripewise.catalogue.parameter import Parameter
from stripewise.observe.activity import Calls, FileActivity, SystemCalls, Within

Verdict = tuple[str, str]
"""Status and one sentence."""

WAYS = ("write", "read")
ECHOED, EFFECTIVE, NO_EFFECT, UNPROVABLE = "echoed", "effective", "no_effect", "unprovable"


@dataclass(frozen=True)
class Case:
    """What a rule judges.

    Attributes
    ----------
    parameter : Parameter
    value : str
        As it was passed on.
    file, before : FileActivity, FileActivity or None
        The file in a run with the setting, and in a run without.
    alone : bool
        Whether no other setting of the plan could change the same facts.
    baseline : tuple of FileActivity
        The file in all runs without the setting.
    every : tuple of FileActivity
        All files of the run with the setting, those of the program's own calls included.
    others : tuple of tuple of FileActivity
        The same of each run without the setting.
    varied, paired : tuple of FileActivity
        The file in runs with another value of the setting, and in those of them that had nothing else changed.
    switched : tuple of FileActivity
        The file in runs that lacked the setting and had all others of the plan: one thing was switched.
    bare : tuple of tuple of FileActivity
        All files of each of these runs.
    """

    parameter: Parameter
    value: str
    file: FileActivity
    before: FileActivity | None
    alone: bool
    baseline: tuple[FileActivity, ...] = ()
    every: tuple[FileActivity, ...] = ()
    others: tuple[tuple[FileActivity, ...], ...] = ()
    varied: tuple[FileActivity, ...] = ()
    paired: tuple[FileActivity, ...] = ()
    switched: tuple[FileActivity, ...] = ()
    bare: tuple[tuple[FileActivity, ...], ...] = ()

    def directions(self) -> list[str]:
        """The directions that count, that the parameter can influence and the file was used in."""
        return [way for way in self._influenced() if way in self.parameter.counted]

    def uncounted(self) -> list[str]:
        """The directions that the parameter can influence and the objective does not measure."""
        return [way for way in self._influenced() if way not in self.parameter.counted]

    def _influenced(self) -> list[str]:
        return [way for way in WAYS if way in self.parameter.operations and getattr(self.file.upper, way).count]

    @property
    def number(self) -> int | None:
        """The value as a number, as what reads it takes it."""
        value = parse(self.parameter, self.value).value
        return value if isinstance(value, int) and not isinstance(value, bool) else None


Judge = Callable[..., Verdict]
"""A rule: judges a case, or a case and a direction."""
Measure = Callable[..., Any]
"""What a rule goes by, of a file or of all files of a run; None where it was not seen."""


def compare_with_others(
    measure: Measure,
    *,
    whole: bool = False,
    otherwise: Callable[..., bool] | None = None,
    without_exchange: bool = False,
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
    without_exchange : bool
        Whether system calls alone show it: the setting changes nothing between ranks.
    """

    def decorate(judge: Judge) -> Judge:
        @wraps(judge)
        def rule(case: Case, *way: str) -> Verdict:
            status, sentence = judge(case, *way)
            if way and case.switched and not case.alone and status in (EFFECTIVE, UNPROVABLE):
                return _judge_switched(case, way[0], status, sentence, without_exchange)
            if status != EFFECTIVE or (otherwise is not None and otherwise(case, *way)):
                return status, sentence
            now = measure(case, case.every if whole else case.file, *way)
            without = [measure(case, other, *way) for other in (case.others if whole else case.baseline)]
            known = [value for value in without if value is not None]
            if not known and not whole:
                # Calls show all settings together; a layout or a property shows one.
                more = case.paired if way else case.varied
                known = [value for other in more if (value := measure(case, other, *way)) is not None]
                if known and _is_among(now, known):
                    return UNPROVABLE, f"{sentence}, as with another value; no run without it tells this"
            if not known:
                why = "tells this" if case.others else "was observed"
                return UNPROVABLE, f"{sentence}; no run without it {why}"
            if not _is_among(now, known):
                return status, sentence
            if case.alone or not way or _same_calls(case, *way):
                return NO_EFFECT, f"{sentence}, as by default"
            return UNPROVABLE, f"{sentence}, as by default; other settings changed with it"

        rule.compared = True  # type: ignore[attr-defined]  # tests ask whether a rule compares
        return rule

    return decorate


_CHANCE = 0.1
"""Numbers of calls that depend on chance differ by less."""


def _judge_switched(case: Case, way: str, status: str, sentence: str, without_exchange: bool) -> Verdict:
    """Judge by runs in which only this setting was switched: no other comparison tells several settings apart."""
    made = _list_made(case.file, way)
    known = [_list_made(file, way) for file in case.switched]
    if not _is_among(made, known):
        # Where ranks read back what others write meanwhile, the number of calls differs from run to run.
        if made[-2] and any(one[-2] and _is_near(made, one) for one in known):
            return UNPROVABLE, f"{sentence}; nearly the same calls as without it"
        return EFFECTIVE, f"{sentence}; other calls than without it, all else alike"
    if status == EFFECTIVE or made[-1] or without_exchange:
        return NO_EFFECT, f"{sentence}; the same calls as without it, all else alike"
    return status, sentence


def _is_near(made: Sequence[int], other: Sequence[int]) -> bool:
    return all(abs(a - b) <= _CHANCE * max(a, b) for a, b in zip(made, other, strict=True))


def _list_made(file: FileActivity, way: str) -> tuple[int, ...]:
    """What MPI-IO did in a direction, in numbers; the messages last."""
    within = find_collective(file, way)
    return *key_calls(find_all(file, way)), *key_calls(within), count_sieved(file, way), within.messages


def _is_among(now: Any, known: Sequence[Any]) -> bool:
    """Whether a value was seen without the setting, or lies within what chance alone makes of it."""
    if now in known:
        return True
    parts = [value if isinstance(value, tuple) else (value,) for value in (now, *known)]
    if any(len(part) != len(parts[0]) or not all(isinstance(n, int | float) for n in part) for part in parts):
        return False
    return all(min(column) <= value <= max(column) for value, *column in zip(*parts, strict=True))


def _same_calls(case: Case, way: str) -> bool:
    made = find_all(case.file, way)
    return any(made == find_all(file, way) for file in case.baseline)


def find_all(file: FileActivity, way: str) -> SystemCalls:
    """The system calls of one direction that MPI-IO made."""
    made = Calls() if file.beneath is None or file.posix is None else getattr(file.posix, way)
    return SystemCalls(count=made.count, bytes=made.bytes, ranks=made.ranks or 0, largest=made.largest or 0)


def find_collective(file: FileActivity, way: str) -> Within:
    """The system calls within collective calls of one direction."""
    made: Within = Within() if file.beneath is None else getattr(file.beneath, way)
    return made


def find_independent(file: FileActivity, way: str) -> SystemCalls:
    """The system calls within independent calls of one direction."""
    made: SystemCalls = SystemCalls() if file.beneath is None else getattr(file.beneath, f"independent_{way}")
    return made


def find_called(file: FileActivity, way: str) -> Calls:
    """The program's own calls of one direction."""
    made: Calls = getattr(file.upper, way)
    return made


def key_calls(made: SystemCalls) -> tuple[int, ...]:
    """What system calls are compared by."""
    return made.count, made.bytes, made.ranks, made.largest


def count_sieved(file: FileActivity, way: str) -> int:
    """Reads inside write calls; of reads, whether more was read than asked for."""
    if way == "write":
        return 0 if file.beneath is None else file.beneath.reading_back.count
    asked = find_called(file, "read").bytes
    made = find_all(file, "read")
    return int(made.bytes > asked * 1.01 or made.largest > (find_called(file, way).largest or 0))
