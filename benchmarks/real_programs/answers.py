"""Does each setting in an answer earn its place? Judged by the whole record of the sweep that was searched."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from sweep import Record

from stripewise.catalogue.configuration import Configuration, find_changes
from stripewise.result import Result

CHANCE = 1.64
"""Standard errors by which the record must show a configuration without a setting to be worse: one in twenty."""
LITTLE = math.log(1.02)
"""What a setting must bring at least by the record's own estimate, or it has no effect."""


@dataclass
class Tally:
    """Settings of proven answers.

    Attributes
    ----------
    settings : int
        In all answers together.
    judged : int
        Of these, the ones whose answer without them is in the sweep; without a single setting, that is the default.
    unshown : int
        Of these, the ones that the record does not show to be needed: its runs are few.
    idle : int
        Of the unshown, the ones that bring nothing by the record's own estimate either.
    losing : int
        Of these, the ones without which the record shows the answer to be faster.
    measured, covered : int
        Shares of answers with several settings, and those whose interval holds the record's factor.
    """

    searches: int = 0
    proven: int = 0
    settings: int = 0
    judged: int = 0
    unshown: int = 0
    idle: int = 0
    losing: int = 0
    measured: int = 0
    covered: int = 0
    names: Counter[str] = field(default_factory=Counter)

    def add(self, record: Record, result: Result) -> None:
        """Count one search."""
        self.searches += 1
        if not result.confirmed:
            return
        self.proven += 1
        answer = Configuration(result.best.configuration)
        shares = {share.name: share for share in getattr(result, "shares", ())}
        changed = find_changes(answer, record.space.default)
        for name in changed:
            self.settings += 1
            without = record.space.levels([answer.with_values(**{name: record.space[name].default})])
            if not record.space.feasible(without)[0]:
                continue
            self.judged += 1
            factor, error = compare(record, answer, record.space.configuration(without[0]))
            if factor < CHANCE * error:
                self.unshown += 1
                self.idle += factor < LITTLE
                self.names[f"{record.about['case']}: {name}={answer[name]}, {math.exp(factor):.2f} times"] += 1
            self.losing += factor < -CHANCE * error
            share = shares.get(name)
            if len(changed) > 1 and share is not None and share.interval is not None:
                self.measured += 1
                # What the record knows of the factor is uncertain, too.
                low, high = math.log(share.interval.low) - 2 * error, math.log(share.interval.high) + 2 * error
                self.covered += low <= factor <= high

    def merge(self, other: Tally) -> None:
        """Add another tally to this one."""
        for name in ("searches", "proven", "settings", "judged", "unshown", "idle", "losing", "measured", "covered"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.names += other.names

    def row(self, title: str) -> str:
        """Write it as a row of a table."""
        cells = [self.searches, self.proven, self.settings, self.judged, self.unshown, self.idle, self.losing]
        return f"| {title} | {' | '.join(map(str, cells))} | {self.covered} of {self.measured} |"


TITLES = "series | searches | proven | settings | judged | not shown | no effect | harmful | share within its interval"


def compare(record: Record, answer: Configuration, without: Configuration) -> tuple[float, float]:
    """Logarithm of how many times slower a configuration is than the answer, and its standard error."""
    points = record.space.index(record.space.levels([answer, without]))
    sign = 1 if record.objective.maximize else -1
    best, less = np.log(record.truth[points])
    runs = [int(np.sum(record.points == point)) for point in points]
    return float(sign * (best - less)), record.noise * math.sqrt(sum(1 / max(1, count) for count in runs))
