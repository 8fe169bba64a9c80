"""Many jobs: a table of them, and what they say of the site.

From one job's activity to its findings.
"""

from __future__ import annotations

import csv
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from statistics import median
from typing import Any, TextIO

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.expectation import Proposal
from stripewise.catalogue.plan import Plan
from stripewise.diagnose.code_examples import fitting
from stripewise.diagnose.finding import LIMITS, RULES, Finding, Severity, Thresholds
from stripewise.diagnose.rules.files import seconds_a_byte
from stripewise.errors import StripewiseError
from stripewise.observe.activity import Activity
from stripewise.ownership import open_to_write
from stripewise.plugins import import_all

ENTRY_POINTS = "stripewise.findings"
"""Modules of other packages whose import registers rules."""
_FIRST = 3
_SMALL = 0.1
"""Share of a run from which whole percents say enough."""


@dataclass(frozen=True)
class Diagnosis:
    """What was found in one job.

    Attributes
    ----------
    findings : tuple of Finding
        The one that matters most first.
    """

    activity: Activity
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Findings that call for a change."""
        return tuple(finding for finding in self.findings if finding.severity >= Severity.LOW)

    @property
    def first(self) -> tuple[Finding, ...]:
        """The three that matter most."""
        return self.problems[:_FIRST]

    @property
    def worst(self) -> Severity:
        """The greatest severity."""
        return max((finding.severity for finding in self.findings), default=Severity.OK)

    @property
    def verdict(self) -> str:
        """Say in one sentence whether there is anything to gain, and where to begin."""
        share = self.activity.io_share
        said = "How much of this run is I/O is unknown"
        if share is not None:
            said = f"I/O is {share:.0%} of this run" if share >= _SMALL else f"I/O is {100 * share:.2g}% of this run"
            if share < LIMITS["io_negligible"].value:
                return f"{said}: nothing to gain"
            said += ": little to gain" if share < LIMITS["io_matters"].value else ""
        if not self.problems:
            return f"{said}; none of the known problems was found"
        first = self.problems[0]
        if share is not None and share >= LIMITS["io_matters"].value and first.severity <= Severity.LOW:
            said += "; what was found is little of it"
        return f"{said}; begin with: {first.kind.title} ({first.severity.word})"

    def settings(self) -> tuple[Setting, ...]:
        """All settings that the problems ask for; of two values of one key the more important finding's counts."""
        chosen: dict[tuple[str, str, str], Setting] = {}
        for finding in self.problems:
            for setting in finding.settings:
                chosen.setdefault((setting.carrier.name, setting.layer, setting.key), setting)
        return tuple(chosen.values())

    def led_by(self, prediction: Mapping[str, Any]) -> Diagnosis:
        """Let a model decide on the settings that it knows: a proposal of another value for one of them goes.

        The model was measured on a site; what proposals are expected to gain is known of stacks in general.

        Parameters
        ----------
        prediction : mapping
            As :meth:`stripewise.diagnose.prediction.SettingsPrediction.as_json` gives it.
        """
        chosen = {line.rpartition(" ")[0]: line for line in prediction["decided"]}

        def agreed(finding: Finding) -> Finding:
            against = [s for s in finding.settings if chosen.get(s.target, s.line()) != s.line()]
            if not against:
                return finding
            lines = ", ".join(setting.line() for setting in against)
            fix = f"{finding.fix or finding.kind.fix} ({lines} is not proposed: the model expects no gain of it here)"
            return replace(finding, proposal=Proposal(), fix=fix)

        return replace(self, findings=tuple(agreed(finding) for finding in self.findings))

    def plan(self) -> str:
        """Write the settings as a plan; empty where there are none."""
        settings = self.settings()
        return Plan(settings, identifier="diagnosis").text() if settings else ""

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        job = self.activity.job
        return {
            "verdict": self.verdict,
            "source": self.activity.source,
            "kind": self.activity.kind,
            "version": self.activity.version,
            "job": job.model_dump(),
            "bytes": self.activity.bytes,
            "io_seconds": self.activity.io_time,
            "io_time_of_run": self.activity.io_share,
            "seen": self.activity.seen,
            "unseen": self.activity.unseen,
            "partial": self.activity.partial,
            "worst": self.worst.word,
            "findings": [finding.as_json() for finding in self.findings],
            "settings": [setting.line() for setting in self.settings()],
        }


def diagnose(activity: Activity, limits: Mapping[str, float] | None = None) -> Diagnosis:
    """Look for every kind of finding.

    Parameters
    ----------
    limits : mapping, optional
        Thresholds to replace, by the names of :data:`stripewise.diagnose.finding.LIMITS`.

    Raises
    ------
    UserError
        For a threshold that does not exist, or a module of another package that cannot be loaded.
    """
    import_all("findings", ENTRY_POINTS)
    thresholds = Thresholds(limits)
    found = [finding for _, look in RULES.values() for finding in look(activity, thresholds)]
    found = [
        replace(finding, lines=_source_lines(activity, finding), examples=fitting(finding.kind.examples, activity))
        for finding in found
    ]
    found.sort(key=lambda finding: (-finding.severity, -finding.share, finding.code))
    return Diagnosis(activity, tuple(found))


_SOURCE_LINES = 3
_LEAST_CALLS = 0.01


def _source_lines(activity: Activity, finding: Finding) -> tuple[str, ...]:
    """Say from where in the code most calls on a finding's files come, if these calls are what it is about."""
    way = next((way for way in ("read", "write") if finding.code.endswith(f"-{way}s")), "")
    if not way and not finding.kind.examples:
        return ()
    calls: Counter[tuple[str, ...]] = Counter()
    for file in activity.files:
        if file.path in finding.files:
            for place in file.places:
                if place.direction == way or not way:
                    calls[tuple(place.lines)] += place.calls
    return tuple(
        f"{', called from '.join(lines)} ({count / calls.total():.0%} of the calls)"
        for lines, count in calls.most_common(_SOURCE_LINES)
        if count >= _LEAST_CALLS * calls.total()
    )


_TOP = 10
_RESERVOIR = 20_000


@dataclass(frozen=True)
class JobRow:
    """One job in the table; sizes are bytes, times seconds, bandwidth MiB/s.

    Attributes
    ----------
    io_time : float or None
        See :attr:`stripewise.observe.activity.Activity.io_time`.
    requests : int
        To the file system.
    collective_share : float or None
        Of the MPI-IO data calls.
    metadata_share : float
        Of the I/O time.
    bandwidth : float or None
        See :attr:`stripewise.observe.activity.Activity.bandwidth`.
    worst : str
        The greatest severity.
    codes : str
        Problems found, separated by blanks.
    """

    source: str
    executable: str
    ranks: int
    files: int
    elapsed: float
    io_time: float | None
    bytes_read: int
    bytes_written: int
    requests: int
    mean_request: float
    collective_share: float | None
    metadata_share: float
    bandwidth: float | None
    worst: str
    codes: str


def row_of(diagnosis: Diagnosis) -> JobRow:
    """Give a job's row."""
    activity = diagnosis.activity
    totals, modes = activity.totals, activity.totals.modes
    lower = totals.posix if totals.posix.count else totals.mpiio if totals.mpiio.count else totals.stdio
    together = modes.collective_reads + modes.collective_writes
    alone = modes.independent_reads + modes.independent_writes
    upper = totals.mpiio if totals.mpiio.bytes > totals.posix.bytes else totals.posix
    read, written = upper.read.bytes + totals.stdio.read.bytes, upper.write.bytes + totals.stdio.write.bytes
    meta = sum(file.upper.meta_seconds for file in activity.files)
    return JobRow(
        source=activity.source,
        executable=activity.job.name,
        ranks=activity.job.ranks,
        files=activity.counted.files,
        elapsed=activity.job.elapsed,
        io_time=activity.io_time,
        bytes_read=read,
        bytes_written=written,
        requests=lower.count,
        mean_request=lower.bytes / lower.count if lower.count else 0.0,
        collective_share=together / (together + alone) if together + alone else None,
        metadata_share=activity.share(meta),
        bandwidth=activity.bandwidth,
        worst=diagnosis.worst.word,
        codes=" ".join(dict.fromkeys(finding.code for finding in diagnosis.problems)),
    )


class TableWriter:
    """A CSV file with one row per job, written as the jobs come in.

    Raises
    ------
    StripewiseError
        If it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        try:
            opened = open_to_write(path, "choose another file with --table")
            self._file: TextIO = os.fdopen(opened, "w", encoding="utf-8", newline="", errors="backslashreplace")
        except OSError as error:
            raise StripewiseError(f"cannot write {path}: {error.strerror}", "check the folder") from error
        self._writer = csv.DictWriter(self._file, [entry.name for entry in fields(JobRow)])
        self._writer.writeheader()

    def add(self, row: JobRow) -> None:
        """Write a row."""
        self._writer.writerow({key: "" if value is None else value for key, value in asdict(row).items()})

    def close(self) -> None:
        """End the file."""
        self._file.close()


@dataclass
class SiteProfile:
    """What many jobs say of a site, in bounded memory.

    Quantiles come from the first 20,000 jobs, and medians from the first 20,000 that used a target.
    """

    jobs: int = 0
    unreadable: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    io_seconds: float = 0.0
    codes: Counter[str] = field(default_factory=Counter)
    worst: Counter[str] = field(default_factory=Counter)
    executables: Counter[str] = field(default_factory=Counter)
    file_systems: Counter[str] = field(default_factory=Counter)
    ost_bytes: Counter[int] = field(default_factory=Counter)
    _slowness: dict[int, list[float]] = field(default_factory=dict)
    _sample: list[tuple[float, float, float]] = field(default_factory=list)

    def add(self, diagnosis: Diagnosis, row: JobRow) -> None:
        """Add a job."""
        self.jobs += 1
        self.bytes_read += row.bytes_read
        self.bytes_written += row.bytes_written
        self.io_seconds += row.io_time or 0.0
        self.codes.update(dict.fromkeys((f.code for f in diagnosis.findings if f.severity >= Severity.LOW), 1))
        self.worst[row.worst] += 1
        self.executables[row.executable or "unknown"] += 1
        for file in diagnosis.activity.files:
            if file.file_system:
                self.file_systems[file.file_system] += file.bytes
        for target, load in diagnosis.activity.osts.items():
            self.ost_bytes[target] += load.bytes
        for target, ratio in slowness(diagnosis).items():
            own = self._slowness.setdefault(target, [])
            if len(own) < _RESERVOIR:
                own.append(ratio)
        if len(self._sample) < _RESERVOIR:
            share = diagnosis.activity.io_share
            self._sample.append((row.mean_request, row.bandwidth or math.nan, math.nan if share is None else share))

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        slow = {target: median(costs) for target, costs in self._slowness.items()}
        return {
            "jobs": self.jobs,
            "unreadable": self.unreadable,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "io_seconds": self.io_seconds,
            "findings": dict(self.codes.most_common()),
            "worst": dict(self.worst),
            "executables": dict(self.executables.most_common(_TOP)),
            "file_systems": dict(self.file_systems.most_common()),
            "mean_request": self._quantiles(0),
            "bandwidth": self._quantiles(1),
            "io_time_of_run": self._quantiles(2),
            "osts": {
                str(target): {"bytes": amount, "slowness": slow.get(target)}
                for target, amount in sorted(self.ost_bytes.items())
            },
        }

    def _quantiles(self, column: int) -> Mapping[str, float] | None:
        values = sorted(row[column] for row in self._sample if not math.isnan(row[column]))
        return _summarise_five(values) if values else None


def _summarise_five(values: Sequence[float]) -> dict[str, float]:
    def at(part: float) -> float:
        return values[min(len(values) - 1, int(part * len(values)))]

    return {"minimum": values[0], "lower": at(0.25), "median": at(0.5), "upper": at(0.75), "maximum": values[-1]}


def slowness(diagnosis: Diagnosis) -> dict[int, float]:
    """Each storage target's time per byte, relative to the median."""
    costs = seconds_a_byte(diagnosis.activity)
    middle = median(costs.values()) if costs else 0.0
    return {target: cost / middle for target, cost in costs.items()} if middle > 0 else {}
