"""The runtime's report: what a program did to its files, as read from JSON.

``native/include/formats.toml`` defines its keys for both sides.

One file in the runtime's report: the calls that were made on it, and what HDF5 did to it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stripewise.errors import StripewiseError, UserError
from stripewise.formats import REPORT_FORMAT, REPORT_VERSION
from stripewise.observe.plain_report import is_program, no_program, over_all


class ReportPart(BaseModel):
    """A part of the report. It keeps what a newer runtime adds, so that a stored report is whole."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False, defer_build=True)


class Pattern(ReportPart):
    """Sizes and order of the calls of one direction."""

    histogram: list[int] = Field(default_factory=list)
    top: list[tuple[int, int]] = Field(default_factory=list)
    contiguous: int = 0
    strided: int = 0
    random: int = 0


class Patterns(ReportPart):
    """Both directions; None where no bytes were moved."""

    write: Pattern | None = None
    read: Pattern | None = None


class Transfers(Pattern):
    """Calls of H5Dwrite or H5Dread on a dataset."""

    calls: int = 0
    bytes: int = 0
    collective: int = 0
    independent: int = 0
    broken_collective: int = 0
    broken_by: list[str] = Field(default_factory=list)
    time_max: float = 0.0
    time_sum: float = 0.0
    selections: dict[str, int] = Field(default_factory=dict)
    box: list[int] = Field(default_factory=list)
    chunk_ranks: float | None = None


class Dataset(ReportPart):
    """One dataset; ``size`` and ``chunk`` in elements, slowest dimension first."""

    name: str
    creates: int = 0
    opens: int = 0
    ranks: int = 0
    nodes: int = 0
    storage: str | None = None
    element_size: int = 0
    size: list[int] = Field(default_factory=list)
    chunk: list[int] = Field(default_factory=list)
    filters: list[str] = Field(default_factory=list)
    cache_bytes: int | None = None
    cache_slots: int | None = None
    address: int | None = None
    write: Transfers | None = None
    read: Transfers | None = None

    @property
    def bytes(self) -> int:
        """Bytes that its elements take, before any filter."""
        return math.prod(self.size) * self.element_size


class Hdf5Calls(ReportPart):
    """Calls of one operation of HDF5."""

    count: int = 0
    time_max: float = 0.0
    time_sum: float = 0.0


class Hdf5Report(ReportPart):
    """What HDF5 did to a file, and the properties it says the open file has."""

    driver: str | None = None
    library: str | None = None
    properties: dict[str, str] = Field(default_factory=dict)
    operations: dict[str, Hdf5Calls] = Field(default_factory=dict)
    datasets: list[Dataset] = Field(default_factory=list)


class Operation(ReportPart):
    """Calls of one MPI function on a file, over all ranks."""

    count: int = 0
    bytes: int = 0
    time_max: float = 0.0
    time_sum: float = 0.0
    min_size: int | None = None
    max_size: int | None = None
    messages: int = 0


class Mode(ReportPart):
    """Collective or independent data calls."""

    calls: int = 0
    bytes: int = 0


class View(ReportPart):
    """The file view through which most bytes moved."""

    filetype_size: int
    contiguous: bool
    piece_size: int | None = None


class SystemCalls(ReportPart):
    """System calls that moved a file's data."""

    count: int = 0
    bytes: int = 0
    ranks: int = 0
    max_size: int = 0


class Share(SystemCalls):
    """System calls made within one kind of MPI call; ``time_sum`` is None in reports of earlier versions."""

    time_sum: float | None = None


class Posix(SystemCalls):
    """System calls that really moved a file's data."""

    min_size: int = 0
    sizes: list[tuple[int, int]] = Field(default_factory=list)
    during_collective: Share = Share()
    during_independent: Share = Share()
    during_write: Share = Share()


class PosixCalls(ReportPart):
    """Both directions."""

    write: Posix = Posix()
    read: Posix = Posix()


class SettingOutcome(ReportPart):
    """What became of one setting of the plan on one file."""

    layer: str
    key: str
    requested: str | None = None
    application: str | None = None
    given: str | None = None
    echoed: str | None = None
    outcome: str = ""
    note: str = ""
    acted: int | None = None
    missed: int | None = None


class Place(ReportPart):
    """A place in the source code from which data moved: its line, and the lines that called it."""

    direction: str
    calls: int
    bytes: int
    lines: list[str]


class ReportedObject(ReportPart):
    """A class or function of Python that settings are for; ``path`` is its name."""

    path: str
    calls: int = 0
    settings: list[SettingOutcome] = Field(default_factory=list)


class ReportedLoader(ReportPart):
    """One loader of samples in a process of Python; seconds."""

    host: str = ""
    pid: int = 0
    workers: int = 0
    prefetch: int = 0
    workers_started: int = 0
    iterators: int = 0
    batches: int = 0
    samples: int = 0
    batch_bytes: int = 0
    wait: float = Field(default=0.0, ge=0)
    busy: float = Field(default=0.0, ge=0)


class FileReport(ReportPart):
    """One file."""

    path: str
    opens: int = 0
    ranks: int = 0
    nodes: int = 0
    processes: int | None = None
    whole_readers: int | None = None
    whole_read: int | None = None
    driver: str | None = None
    file_system: str | None = None
    size: int | None = None
    span: float | None = None
    write_span: float | None = None
    read_span: float | None = None
    operations: dict[str, Operation] = Field(default_factory=dict)
    collective: Mode = Mode()
    independent: Mode = Mode()
    view: View | None = None
    pattern: Patterns = Patterns()
    posix: PosixCalls = PosixCalls()
    places: list[Place] = Field(default_factory=list)
    layout: dict[str, Any] | None = None
    application_info: dict[str, str] = Field(default_factory=dict)
    info: dict[str, str] = Field(default_factory=dict)
    settings: list[SettingOutcome] = Field(default_factory=list)
    hdf5: Hdf5Report | None = None


_MOST_BYTES = 64 << 20


class Runtime(ReportPart):
    """The library that wrote the report."""

    version: str = ""
    mode: str = ""
    plan: str | None = None
    plan_id: str | None = None
    plan_error: str | None = None


class ReportedMpi(ReportPart):
    """The MPI library of the program."""

    library: str = ""
    abi: str = ""
    io: str = "unknown"


class ReportedJob(ReportPart):
    """The job as a whole; seconds."""

    executable: str = ""
    ranks: int = Field(ge=1)
    nodes: int = Field(ge=1)
    start: float = 0.0
    elapsed: float = Field(ge=0)
    io_time: float = Field(ge=0)
    complete: bool = True
    ranks_reported: int = 0
    interface: Literal["posix"] | None = None


class ReportedTotals(ReportPart):
    """Sums over all files; bytes, seconds, MiB/s."""

    bytes_read: int = Field(ge=0)
    bytes_written: int = Field(ge=0)
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None
    read_time: float | None = None
    write_time: float | None = None


class ReportedProgram(ReportPart):
    """One of several programs of a command; ``io_time`` and ``processes`` are of programs without MPI."""

    executable: str
    script: str = ""
    ranks: int
    elapsed: float
    bytes_read: int
    bytes_written: int
    io_time: float | None = None
    processes: int | None = None

    @property
    def name(self) -> str:
        """The name of the script, or else that of the executable, without its folder."""
        return self.script or PurePath(self.executable).name


class PathCalls(ReportPart):
    """Calls of one kind on paths."""

    count: int = 0
    time_sum: float = 0.0


class ReportedProcess(ReportPart):
    """One process of a program without MPI."""

    pid: int
    parent: int | None = None
    executable: str = ""
    script: str = ""
    rank: int | None = None
    start: float = 0.0
    elapsed: float = Field(default=0.0, ge=0)
    ended: bool = True
    io_time: float = Field(default=0.0, ge=0)
    bytes_read: int = 0
    bytes_written: int = 0
    reads: int = 0
    metadata: dict[str, PathCalls] = Field(default_factory=dict)
    windows_fetches: int | None = None
    windows_fetched: int | None = None
    windows_unused: int | None = None
    windows_memory: int | None = None


class Candidate(ReportPart):
    """Settings that the mode ``online`` considered for a file family; empty for the default."""

    settings: str = ""
    phases: int = 0
    bandwidth: float | None = None


class Learned(ReportPart):
    """What the mode ``online`` learned of a file family."""

    site: str
    operation: str = "write"
    phases: int = 0
    settled: bool = False
    choice: int = Field(default=0, ge=0)
    why: str | None = None
    candidates: list[Candidate] = Field(min_length=1)

    @model_validator(mode="after")
    def _chosen(self) -> Self:
        if self.choice >= len(self.candidates):
            raise ValueError("'choice' is not one of the candidates")
        return self


class Report(ReportPart):
    """A whole report."""

    format: Literal["stripewise-report"]
    version: int
    runtime: Runtime = Runtime()
    mpi: ReportedMpi = ReportedMpi()
    job: ReportedJob
    totals: ReportedTotals
    files: list[FileReport] = Field(default_factory=list)
    posix_files: list[FileReport] = Field(default_factory=list)
    online: list[Learned] = Field(default_factory=list)
    programs: list[ReportedProgram] = Field(default_factory=list)
    processes: list[ReportedProcess] = Field(default_factory=list)
    objects: list[ReportedObject] = Field(default_factory=list)
    loaders: list[ReportedLoader] = Field(default_factory=list)
    files_left_out: int = 0

    def as_json(self, files: int) -> dict[str, Any]:
        """Give it as JSON, with the ``files`` that moved most bytes: a job may use thousands of them.

        Of processes as many stay: those that spent most time in I/O.
        """
        kept = self
        if len(self.processes) > files:
            longest = sorted(self.processes, key=lambda process: -process.io_time)[:files]
            kept = kept.model_copy(update={"processes": longest})
        left = 0
        for name in ("files", "posix_files"):
            if len(every := getattr(self, name)) > files:
                most = sorted(every, key=lambda file: -sum(call.bytes for call in file.operations.values()))
                left += len(every) - files
                kept = kept.model_copy(update={name: most[:files], "files_left_out": left})
        return kept.model_dump(mode="json", exclude_unset=True)


def sum_reports(reports: Sequence[Report], program: str = "") -> Report:
    """Give one report for the MPI programs of a command, in the order in which they ended.

    Times and bytes are sums, bandwidths all bytes over all the time; a file that several programs used is listed once
    for each.

    Parameters
    ----------
    reports : sequence of Report
        Of all the programs; ``programs`` of the answer lists them.
    program : str
        The name or the path of the executable that counts; empty if all do.

    Raises
    ------
    UserError
        If none of them is that program.
    """
    started = [_program_of(report) for report in reports]
    if program:
        reports = [report for report in reports if _is_of(report, program)]
    if not reports:
        raise no_program(program, [one.executable for one in started])
    if len(started) == 1:
        return reports[0]
    if len(reports) == 1:
        return reports[0].model_copy(update={"programs": started})
    jobs, totals = [report.job for report in reports], [report.totals for report in reports]
    libraries = {report.mpi.io for report in reports}
    first = reports[0]
    job = {
        "ranks": max(job.ranks for job in jobs),
        "nodes": max(job.nodes for job in jobs),
        "start": min(job.start for job in jobs),
        "elapsed": sum(job.elapsed for job in jobs),
        "io_time": sum(job.io_time for job in jobs),
        "complete": all(job.complete for job in jobs),
        "ranks_reported": max(job.ranks_reported for job in jobs),
    }
    changes: dict[str, Any] = {
        "runtime": next((report.runtime for report in reports if report.runtime.plan_error), first.runtime),
        "mpi": first.mpi if len(libraries) == 1 else first.mpi.model_copy(update={"io": "unknown"}),
        "job": first.job.model_copy(update=job),
        "totals": ReportedTotals(
            bytes_read=sum(total.bytes_read for total in totals),
            bytes_written=sum(total.bytes_written for total in totals),
            read_bandwidth=over_all([(total.bytes_read, total.read_bandwidth) for total in totals]),
            write_bandwidth=over_all([(total.bytes_written, total.write_bandwidth) for total in totals]),
            read_time=_sum([total.read_time for total in totals]),
            write_time=_sum([total.write_time for total in totals]),
        ),
        "files": [file for report in reports for file in report.files],
        "posix_files": [file for report in reports for file in report.posix_files],
        "processes": [process for report in reports for process in report.processes],
        "objects": [one for report in reports for one in report.objects],
        "loaders": [one for report in reports for one in report.loaders],
        "programs": started,
    }
    return first.model_copy(update=changes)


def _is_of(report: Report, program: str) -> bool:
    """Whether a report is of the program that the user named; of one without MPI, any of its processes tells."""
    own = report.processes if report.job.interface else []
    return is_program(program, report.job.executable) or any(
        is_program(program, one.executable, one.script) for one in own
    )


def _program_of(report: Report) -> ReportedProgram:
    job, totals = report.job, report.totals
    return ReportedProgram(
        executable=job.executable,
        ranks=job.ranks,
        elapsed=job.elapsed,
        bytes_read=totals.bytes_read,
        bytes_written=totals.bytes_written,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    return None if any(value is None for value in values) else sum(value for value in values if value is not None)


def read_report_file(path: Path) -> Report:
    """Read the report that the runtime wrote into a file.

    Raises
    ------
    UserError
        If there is none, if the file cannot be read, or as :func:`read_report`.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{path} is larger than {_MOST_BYTES >> 20} MiB", "narrow the experiment's 'files'")
        return read_report(path.read_text("utf-8"), str(path))
    except FileNotFoundError as error:
        raise UserError("the runtime wrote none", "does the program call MPI_Init and MPI_Finalize?") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", "check who may read it") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not text: {error}", "was the file changed? Run the program again") from error


def read_report(text: str, origin: str) -> Report:
    """Read a report from JSON.

    Raises
    ------
    UserError
        As :func:`parse_report`, naming the origin.
    """
    try:
        return parse_report(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{origin} is not JSON: {error}", "was the program stopped before its end?") from error
    except StripewiseError as error:
        raise UserError(f"{origin}: {error.what}", error.fix) from error


def parse_report(data: Mapping[str, Any]) -> Report:
    """Read a report.

    Raises
    ------
    StripewiseError
        If it is not a report, of a newer version, or malformed; the message names the wrong field.
    """
    if not isinstance(data, Mapping) or data.get("format") != REPORT_FORMAT:
        raise StripewiseError(
            "this is not a report of the runtime", "give the file that STRIPEWISE_REPORT named for the program"
        )
    try:
        report = Report.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "top level"
        raise StripewiseError(
            f"the runtime's report is malformed: {place}: {first['msg']}",
            "was the file changed? Run the program again with the runtime that stripewise site native build makes",
        ) from error
    if report.version != REPORT_VERSION:
        raise StripewiseError(
            f"the runtime's report has version {report.version}, this Stripewise reads {REPORT_VERSION}",
            "use one Stripewise for both: stripewise site native build makes the runtime of this one",
        )
    return report
