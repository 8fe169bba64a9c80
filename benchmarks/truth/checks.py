"""Whether a statement holds: by the calls that a program makes with and without a setting, or by pairs of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stripewise.search.statistics import Speedup, estimate_speedup

from .programs import Trace
from .statements import Statement

TRUE, FALSE, WRONG_WAY, OPEN = "true", "false", "wrong direction", "open"
CONFIDENCE = 0.98
"""Of the intervals that refute a statement: of fifty true ones, chance calls about one false."""
SLACK = 1.05
"""A difference in time below this does not count as an effect."""


@dataclass(frozen=True)
class Verdict:
    """What a check found: one of the four words above, and the facts."""

    word: str
    found: str


def judge_calls(statement: Statement, arm: Sequence[Trace], other: Sequence[Trace], pairs: Speedup | None) -> Verdict:
    """Judge a statement that a setting acts, or does not, by the calls with it and without it.

    Calls that differ from run to run tell nothing. Where the calls are the same, the time may still show an effect.
    """
    arm, other = ([_leave_out(trace, statement.beside) for trace in traces] for traces in (arm, other))
    facts: dict[str, Callable[[Trace], tuple[Any, ...]]] = {"system calls": _calls, "messages": _messages}
    if any(len({fact(trace) for trace in traces}) > 1 for fact in facts.values() for traces in (arm, other)):
        facts = {"numbers and sizes of system calls": _sums, "messages": _messages}
        changed = [name for name, fact in facts.items() if _apart([*map(fact, arm)], [*map(fact, other)])]
        same = "system calls that differ no more than from run to run"
    else:
        changed = [name for name, fact in facts.items() if fact(arm[0]) != fact(other[0])]
        same = "the same system calls and messages"
    acts, found = bool(changed), f"other {' and '.join(changed)}" if changed else same
    if not changed and pairs is not None:
        found += f"; {describe(pairs)}"
        acts = pairs.interval.low > SLACK or pairs.interval.high < 1 / SLACK
    if not acts and statement.kind == "answer" and "does not show" in statement.says and not _messages(arm[0]):
        return Verdict(OPEN, f"{found}; nobody sees what happens between the ranks")
    return Verdict(TRUE if acts == (statement.kind != "no effect") else FALSE, found)


def _leave_out(trace: Trace, beside: str) -> Trace:
    """Leave out the calls of a direction; messages do not tell for which direction they were sent."""
    if not beside:
        return trace
    return tuple(tuple(one for one in calls if beside not in one[0][0]) for calls in trace[0]), ()


def _calls(trace: Trace) -> tuple[Any, ...]:
    return trace[0]


def is_decided(statement: Statement, verdict: Verdict, arm: Sequence[Trace]) -> bool:
    """Whether calls decide alone: a difference does, and equal calls do where messages are seen."""
    if statement.kind == "no effect":
        return verdict.word == FALSE or bool(_messages(arm[0]) and not statement.beside)
    return verdict.word == TRUE


def _messages(trace: Trace) -> tuple[int, ...]:
    return trace[1]


def _sums(trace: Trace) -> tuple[int, ...]:
    """Processes, and of each kind of call the number and the bytes."""
    made = [(call, times) for calls in trace[0] for call, times in calls]
    kinds = ("write", "read", "sync", "truncate", "allocate")
    found = [len(trace[0])]
    for kind in kinds:
        mine = [(call[3], times) for call, times in made if kind in call[0]]
        found += [sum(times for _, times in mine), sum(size * times for size, times in mine)]
    return tuple(found)


def _apart(ones: Sequence[tuple[Any, ...]], others: Sequence[tuple[Any, ...]]) -> bool:
    """Whether some number lies outside of what it was in the others' runs, by more than chance moved it there."""
    if len({len(one) for one in (*ones, *others)}) > 1:
        return True
    for one, other in zip(zip(*ones, strict=True), zip(*others, strict=True), strict=True):
        moved = max(max(one) - min(one), max(other) - min(other))
        if min(one) > max(other) + moved or max(one) < min(other) - moved:
            return True
    return False


def judge_speed(statement: Statement, pairs: Speedup) -> Verdict:
    """Judge a statement of how many times as fast one arm is as the other."""
    low, high = pairs.interval.low, pairs.interval.high
    found = describe(pairs)
    if not math.isfinite(high):
        return Verdict(OPEN, f"{found}: too few runs")
    if (statement.low > 1 and high < 1) or (statement.high < 1 and low > 1):
        return Verdict(WRONG_WAY, found)
    if statement.low > high or statement.high < low:
        return Verdict(FALSE, found)
    return Verdict(TRUE, found)


def compare(first: Sequence[float], second: Sequence[float], maximize: bool) -> Speedup | None:
    """Say how many times as fast the first runs are as the second, round by round; None without a whole round."""
    whole = [(a, b) for a, b in zip(first, second, strict=True) if a > 0 and b > 0]
    if not whole:
        return None
    return estimate_speedup([b for _, b in whole], [a for a, _ in whole], maximize, CONFIDENCE)


def describe(pairs: Speedup) -> str:
    """Give the factor with its interval."""
    return f"{pairs.estimate:.2f} times as fast ({pairs.interval.low:.2f} to {pairs.interval.high:.2f})"
