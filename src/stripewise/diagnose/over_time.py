"""What many logs show together: which files cost most, and whether a program's I/O becomes faster or slower over time.

The trend is the seasonal Kendall test (Hirsch, Slack and Smith, Water Resources Research, 1982): jobs are compared with
jobs of the same program alone that had as many ranks and moved about as many bytes, so that a program that moves more
from month to month is not called slower. The size of a trend is the median of the slopes of all pairs (Sen, 1968).
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.formats import OTHER_FILES
from stripewise.observe.activity import Activity

_MOST_FAMILIES = 100_000
_MOST_JOBS = 1000
"""Of one program with like jobs: of more, an even sample is compared, pair by pair."""
_CRITICAL = 2.576
"""Of the normal distribution: a trend is told where chance shows one in a hundred times."""
_LEAST_CHANGE = 1.1
_ALIKE = 4.0
"""Jobs are alike whose bytes are in the same range of this factor."""
_DIGITS = re.compile(r"\d+")
_ENDING = re.compile(r"\.[A-Za-z]\w{0,3}$")


def _family_of(path: str) -> str:
    """Write a path with ``*`` for digits; those of an ending such as ``.h5`` stay."""
    ending = _ENDING.search(path)
    stem = path[: ending.start()] if ending else path
    return _DIGITS.sub("*", stem) + path[len(stem) :]


@dataclass
class FileCost:
    """A file family, with what all jobs did to it; seconds are summed over ranks.

    Attributes
    ----------
    name : str
        Of the file, or of the family with ``*`` for digits where there were several files.
    """

    name: str
    jobs: int = 0
    files: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    read_seconds: float = 0.0
    write_seconds: float = 0.0
    meta_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Time in all calls."""
        return self.read_seconds + self.write_seconds + self.meta_seconds

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        return {**vars(self), "seconds": self.seconds}


@dataclass(frozen=True)
class Trend:
    """How a program's bandwidth changed from its first to its last job.

    Attributes
    ----------
    verdict : str
        ``better``, ``stable`` or ``worse``; ``too few jobs`` where no result could tell them apart.
    factor : float or None
        Bandwidth at the end to that at the beginning; None where there are too few jobs.
    first, last : float
        Epoch seconds.
    """

    program: str
    jobs: int
    first: float
    last: float
    verdict: str
    factor: float | None

    @property
    def says(self) -> str:
        """The same in words."""
        if self.factor is None:
            return "too few jobs that are alike to tell"
        if self.verdict == "stable":
            return "stable"
        return f"{self.verdict}: {self.factor:.2g} times the bandwidth at the end"

    @property
    def days(self) -> str:
        """The day of the first job, and of the last."""
        first, last = (
            datetime.datetime.fromtimestamp(one, datetime.UTC).strftime("%Y-%m-%d") for one in (self.first, self.last)
        )
        return first if first == last else f"{first} to {last}"


@dataclass
class OverTime:
    """Costs of files and the jobs of each program, in bounded memory."""

    _files: dict[str, FileCost] = field(default_factory=dict)
    _jobs: dict[str, dict[tuple[int, int], list[tuple[float, float]]]] = field(default_factory=dict)

    def add(self, activity: Activity) -> None:
        """Add a job."""
        met: set[str] = set()
        for file in activity.files:
            family = _family_of(file.path)
            if family not in self._files and len(self._files) >= _MOST_FAMILIES:
                family = OTHER_FILES
            cost = self._files.setdefault(family, FileCost(file.path if family != OTHER_FILES else family))
            if cost.name != file.path:
                cost.name = family
            cost.jobs += family not in met
            met.add(family)
            cost.files += 1
            both = file.mpiio or file.posix
            for level in (one for one in (both, file.stdio) if one is not None):
                cost.bytes_read += level.read.bytes
                cost.bytes_written += level.write.bytes
                cost.read_seconds += level.read.seconds
                cost.write_seconds += level.write.seconds
                cost.meta_seconds += level.meta_seconds
        job, rate = activity.job, activity.bandwidth
        if job.started and rate and activity.bytes:
            name = job.name or "unknown"
            alike = (job.ranks, int(math.log(activity.bytes, _ALIKE)))
            self._jobs.setdefault(name, {}).setdefault(alike, []).append((job.started, math.log(rate)))

    def files(self) -> list[FileCost]:
        """List the file families, the one with most time first; without times, that with most bytes."""
        return sorted(
            self._files.values(), key=lambda cost: (-cost.seconds, -cost.bytes_read - cost.bytes_written, cost.name)
        )

    def trends(self) -> list[Trend]:
        """Judge each program: those that became worse first, then by their number of jobs."""
        found = [_judge(name, list(strata.values())) for name, strata in self._jobs.items()]
        order = ("worse", "better", "stable", "too few jobs")
        return sorted(found, key=lambda one: (order.index(one.verdict), -one.jobs, one.program))

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        return {
            "files": [cost.as_json() for cost in self.files()],
            "programs": [vars(trend) for trend in self.trends()],
        }


def _judge(program: str, strata: list[list[tuple[float, float]]]) -> Trend:
    times = [when for jobs in strata for when, _ in jobs]
    first, last = min(times), max(times)
    score = variance = 0.0
    most = 0.0
    slopes: list[NDArray[np.float64]] = []
    for jobs in strata:
        for run, rise in _pairs(jobs):
            score += float(np.sign(rise).sum())
            most += len(run)
            slopes.append(rise / run)
        n = min(len(jobs), _MOST_JOBS)
        variance += n * (n - 1) * (2 * n + 5) / 18
    if most - 1 < _CRITICAL * math.sqrt(variance) or not slopes:
        return Trend(program, len(times), first, last, "too few jobs", None)
    factor = math.exp(float(np.median(np.concatenate(slopes))) * (last - first))
    sure = abs(score) - 1 > _CRITICAL * math.sqrt(variance)
    verdict = "stable"
    if sure and not 1 / _LEAST_CHANGE < factor < _LEAST_CHANGE:
        verdict = "better" if factor > 1 else "worse"
    return Trend(program, len(times), first, last, verdict, factor)


def _pairs(jobs: list[tuple[float, float]]) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Give, for each job, the seconds to all later ones and how much the logarithm of the rate rose until then."""
    ordered = sorted(jobs)
    if len(ordered) > _MOST_JOBS:
        keep = np.linspace(0, len(ordered) - 1, _MOST_JOBS).astype(int)
        ordered = [ordered[index] for index in keep]
    when, rate = (np.array(column, dtype=np.float64) for column in zip(*ordered, strict=True))
    for index in range(len(ordered) - 1):
        later = when[index + 1 :] > when[index]
        if later.any():
            yield when[index + 1 :][later] - when[index], rate[index + 1 :][later] - rate[index]
