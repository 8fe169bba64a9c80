"""Findings: what is slow, why, and what to change. A function becomes a rule by :func:`rule` or :func:`each_way`.

The values of the thresholds were chosen on some seeds of the labelled set in ``benchmarks/diagnosis`` and scored on
others; its README says which on which.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stripewise.catalogue.carriers import HDF5, HINT, LAYOUT, Setting
from stripewise.catalogue.expectation import Expected, Proposal, propose
from stripewise.catalogue.filesystems import OMPIO, USUAL, has_driver
from stripewise.catalogue.meaning import find_breakage
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError, choose
from stripewise.observe.activity import Activity, FileActivity
from stripewise.observe.workload import workload_of


@dataclass(frozen=True)
class Limit:
    """One threshold.

    Attributes
    ----------
    unit : str
        ``B``, ``s``, ``share`` (0 to 1), ``ratio`` or ``count``.
    """

    value: float
    unit: str
    meaning: str


LIMITS: dict[str, Limit] = {
    "small_share": Limit(0.1, "share", "of the bytes of a direction, moved by requests of at most 100 KiB"),
    "small_calls": Limit(50, "count", "small requests of a direction"),
    "unaligned_share": Limit(0.1, "share", "of the requests that begin or lie off the alignment"),
    "unaligned_calls": Limit(50, "count", "requests off the alignment"),
    "unaligned_blocks": Limit(64, "ratio", "mean request to the alignment, from which its two ends do not matter"),
    "random_share": Limit(0.2, "share", "of a direction's requests that go backwards in the file"),
    "random_calls": Limit(50, "count", "requests that go backwards"),
    "random_below": Limit(4 << 20, "B", "mean request of a file, from which the order of requests does not matter"),
    "redundant_ratio": Limit(1.5, "ratio", "bytes moved to bytes of the file that were touched"),
    "redundant_bytes": Limit(1 << 20, "B", "moved again"),
    "independent_share": Limit(0.5, "share", "of a file's MPI-IO data calls that are independent"),
    "independent_calls": Limit(50, "count", "independent calls on shared files"),
    "merge_below": Limit(1 << 20, "B", "mean independent call that a collective one would merge"),
    "piece_ratio": Limit(
        0.5, "ratio", "mean request to the file system to mean collective call, below it is piecewise"
    ),
    "piece_below": Limit(256 << 10, "B", "mean request of a piecewise access"),
    "piece_calls": Limit(50, "count", "piecewise requests"),
    "aggregate_above": Limit(1 << 20, "B", "mean contiguous collective call whose exchange saves nothing"),
    "rewrite_share": Limit(0.1, "share", "bytes read in order to write, of the bytes written"),
    "posix_shared_share": Limit(0.5, "share", "of the bytes in files that several ranks share without MPI-IO"),
    "blocking_calls": Limit(100, "count", "blocking MPI-IO calls of a direction, and no other"),
    "one_stripe_writers": Limit(4, "count", "ranks that write one file on one stripe"),
    "one_stripe_bytes": Limit(256 << 20, "B", "of a file on one stripe"),
    "wide_stripe_bytes": Limit(1 << 20, "B", "of a file for each of its stripes"),
    "wide_stripe_files": Limit(8, "count", "small files that are striped widely"),
    "stripe_share": Limit(0.1, "share", "of the requests that cross or miss the stripes' boundaries"),
    "ost_ratio": Limit(1.5, "ratio", "bytes of the fullest OST to the mean of those used"),
    "ost_time_ratio": Limit(2.0, "ratio", "seconds per byte of the slowest OST to the median"),
    "own_files": Limit(16, "count", "ranks that each write a file of their own"),
    "own_share": Limit(0.5, "share", "of the ranks that write a file of their own"),
    "meta_share": Limit(0.15, "share", "of the I/O time in calls that move no data"),
    "meta_calls": Limit(100, "count", "opens, stats and syncs"),
    "meta_bytes": Limit(4096, "B", "moved for each open, stat or sync, below it they are what the job does"),
    "meta_seconds": Limit(30.0, "s", "of one rank in calls that move no data"),
    "reopens": Limit(4.0, "ratio", "opens of a file by each of its ranks"),
    "reopened_opens": Limit(8, "count", "opens of files that were open before"),
    "reopen_share": Limit(0.01, "share", "of the I/O time in such opens, below it twice as many are needed"),
    "small_files": Limit(64, "count", "files below 1 MiB with data"),
    "small_files_share": Limit(0.5, "share", "of all files that are below 1 MiB"),
    "writes_a_sync": Limit(8.0, "ratio", "writes for each flush, below it each flush waits for little"),
    "syncs": Limit(16, "count", "flushes of one file beyond one per rank"),
    "balance": Limit(0.3, "share", "of the busiest rank's bytes that the mean rank lacks"),
    "balance_bytes": Limit(1 << 20, "B", "of the busiest rank"),
    "straggler": Limit(0.6, "share", "of the slowest rank's time that the fastest one lacks with like bytes"),
    "straggler_seconds": Limit(0.2, "s", "between slowest and fastest rank"),
    "funnel_share": Limit(0.9, "share", "of the bytes that one rank moves"),
    "funnel_ranks": Limit(3, "count", "ranks of a job with a funnel"),
    "stdio_share": Limit(0.1, "share", "of the bytes through buffered streams"),
    "stdio_bytes": Limit(1 << 20, "B", "through buffered streams"),
    "reread_share": Limit(0.5, "share", "of the bytes read that the same job wrote shortly before"),
    "shared_bytes": Limit(1 << 18, "B", "in files that several ranks write without MPI-IO"),
    "flush_share": Limit(0.05, "share", "of the I/O time on streams that are flushed after few writes"),
    "flush_wait": Limit(0.25, "share", "of the I/O time in flushes"),
    "io_matters": Limit(0.05, "share", "of the run time in I/O; below it findings weigh less"),
    "io_negligible": Limit(0.01, "share", "of the run time in I/O; below it no finding is more than low"),
}


class Thresholds:
    """Thresholds with some of them replaced.

    Parameters
    ----------
    changed : mapping, optional
        Name to value.

    Raises
    ------
    UserError
        For a name that does not exist.
    """

    def __init__(self, changed: Mapping[str, float] | None = None) -> None:
        unknown = sorted(set(changed or {}) - set(LIMITS))
        if unknown:
            raise UserError(f"threshold '{unknown[0]}' does not exist", choose(unknown[0], LIMITS))
        self._values = {name: limit.value for name, limit in LIMITS.items()} | dict(changed or {})

    def __getitem__(self, name: str) -> float:
        return self._values[name]


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
    mechanism : str
        Why it costs time, in a sentence.
    fix : str
        What to change.
    drishti : tuple of str
        Codes of Drishti's insights that say the same.
    examples : tuple of str
        Code that shows the change to a program; see :mod:`stripewise.diagnose.code_examples`.
    """

    code: str
    title: str
    mechanism: str
    fix: str
    drishti: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something found.

    Attributes
    ----------
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
        Part of the time in I/O calls that the calls concerned took, 0 to 1.
    fix : str
        What to change here; the kind's where empty.
    lines : tuple of str
        Source lines from which the files' data moves, with their share of the calls; empty where none are known.
    examples : tuple of str
        Those of the kind that fit the job.
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
    lines: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The kind's code."""
        return self.kind.code

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings proposed; none where they concern too small a share for a gain."""
        return self.proposal.settings if self.expected.gains else ()

    @property
    def expected(self) -> Expected:
        """What the settings are expected to bring to the I/O as a whole, of which they concern a share."""
        known = self.proposal.expected
        if self.share >= _WHOLE:
            return known
        most = 1 / (1 - self.share)
        return replace(known, low=min(known.low, most), high=min(known.high, most))

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
            "lines": list(self.lines),
            "ranks": list(self.ranks),
            "settings": [setting.line() for setting in self.settings],
            "expected": {"speedup": [expected.low, expected.high], "reasons": list(expected.reasons)}
            if self.settings
            else None,
            "io_time_share": round(self.share, 4),
            "drishti": list(self.kind.drishti),
            "examples": list(self.examples),
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
    examples: tuple[str, ...] = (),
    limits: Mapping[str, Limit] | None = None,
) -> Callable[[Body], Body]:
    """Register a function that looks for one kind of finding.

    Parameters
    ----------
    drishti, examples : tuple of str
        See :class:`FindingKind`.
    limits : mapping, optional
        Thresholds of this rule alone, by name; others are in :data:`stripewise.diagnose.finding.LIMITS`.
    """

    def register(body: Body) -> Body:
        LIMITS.update(limits or {})
        kind = FindingKind(code, title, mechanism, fix, drishti, examples)
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


_WHOLE = 0.99


def weigh(activity: Activity, limits: Thresholds, share: float, most: Severity = Severity.HIGH) -> Severity:
    """Weigh a finding by the part of the I/O time that it concerns, and the I/O by its part of the run."""
    severity = Severity.HIGH if share >= 0.5 else Severity.MEDIUM if share >= 0.15 else Severity.LOW
    part = activity.io_share
    if part is not None and part < limits["io_matters"]:
        severity = Severity(max(Severity.LOW, severity - 1))
    if part is not None and part < limits["io_negligible"]:
        severity = min(severity, Severity.LOW)
    return min(severity, most)


def top(paths: Mapping[str, float]) -> tuple[str, ...]:
    """Give the files with the greatest weights."""
    return tuple(sorted(paths, key=lambda path: -paths[path])[:_FILES_SHOWN])


NOTHING: Mapping[str, str] = {}
_AGGREGATION = ("enable", "disable", "automatic")


def hint(key: str, value: str) -> Setting:
    """An MPI-IO hint."""
    return Setting(HINT, key, value)


def ompio(files: Sequence[FileActivity]) -> bool:
    """Whether OMPIO does the I/O, to which ROMIO's hints mean nothing."""
    return any(has_driver(file.driver, OMPIO) for file in files)


def choose_proposal(
    activity: Activity,
    files: Sequence[FileActivity],
    candidates: Sequence[Sequence[Setting]],
    direction: str | None = None,
    now: Mapping[str, str] = NOTHING,
) -> Proposal:
    """Give the candidate of which most is expected for the file that matters most; none where no gain is expected.

    Parameters
    ----------
    files : sequence of FileActivity
        Those concerned, the most important first.
    direction : {"read", "write"}, optional
        Of the calls concerned; by default what the program does.
    now : mapping
        Settings in effect, by key, that the source shows only by what they did.
    """
    if not files:
        return Proposal()
    file = files[0]
    layout = (
        {}
        if file.layout is None
        else {"stripe_count": file.layout.stripe_count, "stripe_size": file.layout.stripe_size}
    )
    current = {**file.info, **{key: str(value) for key, value in layout.items()}, **now}
    candidates = [settings for settings in candidates if not _breaks(settings, activity.files)]
    io = "ompio" if ompio(files) else activity.job.mpi_io
    job = activity.job
    return propose(candidates, _workload(activity, file, direction), current, job.ranks, io, job.mpi or "")


def _breaks(settings: Sequence[Setting], files: Sequence[FileActivity]) -> bool:
    """Whether settings break calls of the program, on whichever file: what is proposed may be set for all of them."""
    broken = {call for one in map(find_breakage, settings) if one is not None for call in one.calls}
    return any(not broken.isdisjoint(file.calls) for file in files)


def _workload(activity: Activity, file: FileActivity, direction: str | None) -> Workload:
    """What the program does, as ``prescribe`` sees it; of one direction and file where that is known better."""
    workload = workload_of(activity)
    extents = (file.size, file.lower.read.extent, file.lower.write.extent)
    size = max((extent for extent in extents if extent), default=None)
    known: dict[str, Any] = {"driver": file.driver, "file_system": file.file_system, "file_size": size}
    if direction is not None:
        known["operation"] = direction
        if file.modes is not None:
            together, alone = (getattr(file.modes, f"{how}_{direction}s") for how in ("collective", "independent"))
            known["collective"] = None if bool(together) == bool(alone) else together > 0
    return workload.model_copy(update={name: value for name, value in known.items() if value is not None})


def aggregation(
    activity: Activity,
    files: Sequence[FileActivity],
    direction: str,
    now: Mapping[str, str] = NOTHING,
) -> Proposal:
    """Switch collective buffering on or off, where collective calls are made: hints cannot make a call collective."""
    collective = [f for f in files if f.modes and getattr(f.modes, f"collective_{direction}s")]
    key = f"romio_cb_{direction}"
    return choose_proposal(activity, collective, [(hint(key, value),) for value in _AGGREGATION], direction, now)


def join_proposals(proposals: Sequence[Proposal]) -> Proposal:
    """Propose all of these together; the least and the most that any of them brings is expected of all."""
    some = [proposal for proposal in proposals if proposal.settings]
    if not some:
        return Proposal()
    expected = Expected(
        min(one.expected.low for one in some),
        max(one.expected.high for one in some),
        tuple(dict.fromkeys(reason for one in some for reason in one.expected.reasons)),
    )
    return Proposal(tuple(setting for one in some for setting in one.settings), expected)


def no_sieving(activity: Activity, files: Sequence[FileActivity]) -> Proposal:
    """Let writes of pieces not read and rewrite what lies between them."""
    if any(file.modes and file.modes.collective_writes for file in files):
        return aggregation(activity, files, "write")
    return choose_proposal(activity, files, [(hint("romio_ds_write", "disable"),)], "write")


def alignment(activity: Activity, files: Sequence[FileActivity], unit: int | None) -> Proposal:
    """Let the library above align its objects."""
    if not unit or unit < 2:
        return Proposal()
    if any(file.hdf5 for file in files):
        return choose_proposal(activity, files, [(Setting(HDF5, "alignment", str(unit)),)])
    if any(file.pnetcdf for file in files):
        return choose_proposal(activity, files, [(hint("nc_var_align_size", str(unit)),)])
    return Proposal()


def stripes(activity: Activity, files: Sequence[FileActivity], count: int, size: int | None = None) -> Proposal:
    """Lay new files out over ``count`` targets, where the files are on a file system with stripes."""
    found = [Setting(LAYOUT, "stripe_count", str(count), USUAL.name)]
    if size:
        found.append(Setting(LAYOUT, "stripe_size", str(size), USUAL.name))
    return choose_proposal(activity, files, [found])
