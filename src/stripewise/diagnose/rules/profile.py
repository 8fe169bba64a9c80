"""What kind of job it is: more reading or more writing."""

from __future__ import annotations

from collections.abc import Iterator

from stripewise.diagnose.finding import Finding, FindingKind, Severity, rule
from stripewise.diagnose.limits import Thresholds
from stripewise.observe.activity import Activity, Level

_MORE = 0.1
"""Difference of shares from which a job counts as one or the other, as in Drishti."""


def _level(activity: Activity) -> Level:
    return activity.totals.posix if activity.totals.posix.count else activity.totals.mpiio


def _leaning(activity: Activity, kind: FindingKind, way: str) -> Iterator[Finding]:
    level = _level(activity)
    for what, reads, writes in (
        ("requests", level.read.count, level.write.count),
        ("bytes", level.read.bytes, level.write.bytes),
    ):
        total = reads + writes
        mine, other = (writes, reads) if way == "write" else (reads, writes)
        if total and (mine - other) / total > _MORE:
            yield Finding(
                kind, Severity.INFO, f"{mine / total:.0%} of the {what} are {way}s", {what: mine, "all": total}
            )
            return


@rule("write-heavy", "Mostly writing", "Settings for writes matter most.", "Nothing to fix.", ("P01", "P03"))
def write_heavy(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Say that the job mostly writes."""
    yield from _leaning(activity, kind, "write")


@rule("read-heavy", "Mostly reading", "Settings for reads matter most.", "Nothing to fix.", ("P02", "P04"))
def read_heavy(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Say that the job mostly reads."""
    yield from _leaning(activity, kind, "read")
