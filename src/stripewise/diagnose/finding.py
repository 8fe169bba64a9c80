"""Findings: what is slow, why, and what to change. A function becomes a rule by :func:`rule` or :func:`each_way`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.expectation import Expected, Proposal
from stripewise.diagnose.limits import LIMITS, Limit, Thresholds
from stripewise.observe.activity import Activity

_FILES_SHOWN = 10


class Severity(enum.IntEnum):
    """How much a finding matters; ``ok`` says that something was done well."""

    OK = 0
    INFO = 1
    LOW = 2
    MEDIUM = 3
    HIGH = 4

    @property
    def word(self) -> str:
        """As printed."""
        return self.name.lower()


@dataclass(frozen=True)
class FindingKind:
    """A kind of finding.

    Attributes
    ----------
    code : str
        Stable: machines may rely on it.
    title : str
    mechanism : str
        Why it costs time, in a sentence.
    fix : str
        What to change.
    drishti : tuple of str
        Codes of Drishti's insights that say the same.
    """

    code: str
    title: str
    mechanism: str
    fix: str
    drishti: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something found.

    Attributes
    ----------
    kind : FindingKind
    severity : Severity
    says : str
        A sentence with the numbers.
    evidence : mapping
        The numbers by name; sizes are bytes, times seconds.
    files : tuple of str
        Those concerned, the most important first.
    ranks : tuple of int
        Those concerned; empty where all are, or none is known.
    proposal : Proposal
        Settings that fix it, where Stripewise can apply them and a gain is expected of them.
    share : float
        Part of the time in I/O calls that the calls concerned took, 0 to 1; nothing can give more.
    fix : str
        What to change here; the kind's where empty.
    """

    kind: FindingKind
    severity: Severity
    says: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    proposal: Proposal = field(default_factory=Proposal)
    share: float = 0.0
    fix: str = ""

    @property
    def code(self) -> str:
        """The kind's code."""
        return self.kind.code

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings proposed."""
        return self.proposal.settings

    @property
    def bound(self) -> float | None:
        """How many times shorter the I/O could become at most; None where the calls concerned are all of it."""
        return 1 / (1 - self.share) if self.share < 0.99 else None

    @property
    def expected(self) -> Expected:
        """What the settings are expected to bring to the I/O as a whole: at most what :attr:`bound` leaves."""
        known, most = self.proposal.expected, self.bound
        return known if most is None else replace(known, low=min(known.low, most), high=min(known.high, most))

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        expected = self.expected
        return {
            "code": self.code,
            "severity": self.severity.word,
            "title": self.kind.title,
            "says": self.says,
            "mechanism": self.kind.mechanism,
            "fix": self.fix or self.kind.fix,
            "evidence": dict(self.evidence),
            "files": list(self.files),
            "ranks": list(self.ranks),
            "settings": [setting.line() for setting in self.settings],
            "expected": {"speedup": [expected.low, expected.high], "reasons": list(expected.reasons)}
            if self.settings
            else None,
            "io_time_share": round(self.share, 4),
            "drishti": list(self.kind.drishti),
        }


Rule = Callable[[Activity, Thresholds], Iterator[Finding]]
RULES: dict[str, tuple[FindingKind, Rule]] = {}
"""Code to kind and function; filled by the modules of :mod:`stripewise.diagnose.rules`."""

Body = Callable[[Activity, Thresholds, FindingKind], Iterator[Finding]]


def rule(
    code: str,
    title: str,
    mechanism: str,
    fix: str,
    drishti: tuple[str, ...] = (),
    *,
    limits: Mapping[str, Limit] | None = None,
) -> Callable[[Body], Body]:
    """Register a function that looks for one kind of finding.

    Parameters
    ----------
    code, title, mechanism, fix : str
    drishti : tuple of str
        See :class:`FindingKind`.
    limits : mapping, optional
        Thresholds of this rule alone, by name; others are in :data:`stripewise.diagnose.limits.LIMITS`.
    """

    def register(body: Body) -> Body:
        LIMITS.update(limits or {})
        kind = FindingKind(code, title, mechanism, fix, drishti)
        RULES[code] = (kind, lambda activity, limits: body(activity, limits, kind))
        return body

    return register


Way = Callable[[Activity, Thresholds, FindingKind, str], Iterator[Finding]]


def each_way(*, read: FindingKind, write: FindingKind) -> Callable[[Way], Way]:
    """Register a function that looks for a kind of finding in reads, and for its twin in writes."""

    def register(body: Way) -> Way:
        for direction, kind in (("read", read), ("write", write)):

            def look(
                activity: Activity, limits: Thresholds, kind: FindingKind = kind, way: str = direction
            ) -> Iterator[Finding]:
                return body(activity, limits, kind, way)

            RULES[kind.code] = (kind, look)
        return body

    return register


def weigh(activity: Activity, limits: Thresholds, share: float, most: Severity = Severity.HIGH) -> Severity:
    """Weigh a finding by the part of the I/O time that it concerns, and the I/O by its part of the run."""
    severity = Severity.HIGH if share >= 0.5 else Severity.MEDIUM if share >= 0.15 else Severity.LOW
    part = activity.io_share
    if part is not None and part < limits["io_matters"]:
        severity = Severity(max(Severity.LOW, severity - 1))
    return min(severity, most)


def top(paths: Mapping[str, float]) -> tuple[str, ...]:
    """Give the files with the greatest weights."""
    return tuple(sorted(paths, key=lambda path: -paths[path])[:_FILES_SHOWN])
