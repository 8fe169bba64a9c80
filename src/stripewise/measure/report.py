"""The runtime's report: what a program did to its files, as read from JSON.

The fields and their exact meaning are documented in ``native/include/stripewise_format.h``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stripewise.errors import StripewiseError
from stripewise.measure.report_hdf5 import Hdf5, Patterns
from stripewise.spec.workload import Workload

FORMAT = "stripewise-report"
VERSION = 1
_NEGLIGIBLE = 0.001


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Runtime(_Part):
    """The library that wrote the report."""

    version: str = ""
    mode: str = ""
    plan: str | None = None
    plan_id: str | None = None
    plan_error: str | None = None


class Mpi(_Part):
    """The MPI library of the program."""

    library: str = ""
    abi: str = ""
    io: str = "unknown"
    thread_level: str = ""
    library_path: str | None = None


class Job(_Part):
    """The job as a whole; seconds."""

    executable: str = ""
    ranks: int = Field(ge=1)
    nodes: int = Field(ge=1)
    start: float = 0.0
    elapsed: float = Field(ge=0)
    io_time: float = Field(ge=0)
    complete: bool = True
    ranks_reported: int = 0


class Totals(_Part):
    """Sums over all files; bytes, seconds, MiB/s."""

    bytes_read: int = Field(ge=0)
    bytes_written: int = Field(ge=0)
    read_time: float = 0.0
    write_time: float = 0.0
    meta_time: float = 0.0
    read_bandwidth: float | None = None
    write_bandwidth: float | None = None


class Operation(_Part):
    """Calls of one MPI function on a file, over all ranks."""

    count: int = 0
    bytes: int = 0
    time_max: float = 0.0
    time_sum: float = 0.0
    min_size: int | None = None
    max_size: int | None = None


class Mode(_Part):
    """Collective or independent data calls."""

    calls: int = 0
    bytes: int = 0


class View(_Part):
    """The last file view."""

    etype_size: int
    filetype_size: int
    filetype_extent: int
    contiguous: bool


class Share(_Part):
    """System calls made within one kind of MPI call."""

    count: int = 0
    bytes: int = 0
    ranks: int = 0
    max_size: int = 0


class Posix(Share):
    """System calls that really moved a file's data."""

    min_size: int = 0
    sizes: list[tuple[int, int]] = Field(default_factory=list)
    during_collective: Share = Share()
    during_independent: Share = Share()
    during_write: Share = Share()


class PosixCalls(_Part):
    """Both directions."""

    write: Posix = Posix()
    read: Posix = Posix()


class SettingOutcome(_Part):
    """What became of one setting of the plan on one file."""

    layer: str
    key: str
    requested: str | None = None
    application: str | None = None
    given: str | None = None
    echoed: str | None = None
    outcome: str = ""
    note: str = ""


class FileReport(_Part):
    """One file."""

    path: str
    opens: int = 0
    ranks: int = 0
    nodes: int = 0
    amode: list[str] = Field(default_factory=list)
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
    layout: dict[str, Any] | None = None
    info: dict[str, str] = Field(default_factory=dict)
    settings: list[SettingOutcome] = Field(default_factory=list)
    hdf5: Hdf5 | None = None

    @property
    def bytes(self) -> int:
        """Bytes that MPI-IO calls moved."""
        return self.collective.bytes + self.independent.bytes

    def moved(self, direction: str) -> list[Operation]:
        """Data operations of a direction, ``read`` or ``write``."""
        names = (direction, f"i{direction}")
        return [operation for name, operation in self.operations.items() if name.split("_")[0] in names]

    def calls(self, direction: str, collective: bool) -> int:
        """Number of data calls of a direction, summed over ranks."""
        together = ("_all", "_ordered")
        return sum(
            operation.count
            for name, operation in self.operations.items()
            if name.split("_")[0] in (direction, f"i{direction}")
            and not name.endswith("_end")
            and any(mark in name for mark in together) is collective
        )


class Report(_Part):
    """A whole report."""

    format: Literal["stripewise-report"]
    version: int
    runtime: Runtime = Runtime()
    mpi: Mpi = Mpi()
    job: Job
    totals: Totals
    files: list[FileReport] = Field(default_factory=list)

    @property
    def main(self) -> FileReport | None:
        """The file that most bytes went through."""
        return max(self.files, key=lambda file: file.bytes, default=None)


def parse_report(data: Mapping[str, Any]) -> Report:
    """Read a report.

    Raises
    ------
    StripewiseError
        If it is none, of a newer version, or malformed, naming the field that is wrong.
    """
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise StripewiseError(
            "this is JSON, but no report of the runtime", "give the file that STRIPEWISE_REPORT named for the program"
        )
    try:
        report = Report.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "top level"
        raise StripewiseError(
            f"the runtime's report is malformed: {place}: {first['msg']}",
            "was the file changed? Run the program again with the runtime that stripewise native build makes",
        ) from error
    if report.version != VERSION:
        raise StripewiseError(
            f"the runtime's report has version {report.version}, this Stripewise reads {VERSION}",
            "use one Stripewise for both: stripewise native build makes the runtime of this one",
        )
    return report


def observed_workload(report: Report) -> Workload:
    """Describe what the program did, as far as the report shows it; the rest stays unknown.

    The report must come from a run without a plan: how ROMIO carried out the calls then shows whether ranks interleave.
    """
    job, totals, main = report.job, report.totals, report.main
    known: dict[str, Any] = {
        "nodes": job.nodes,
        "processes_per_node": math.ceil(job.ranks / job.nodes),
        "files": len(report.files),
        "operation": _operation(totals),
    }
    if main is not None and main.bytes:
        known |= {
            "api": "hdf5"
            if any(file.hdf5 is not None and file.hdf5.driver == "mpio" for file in report.files)
            else "mpiio",
            "file_size": main.size,
            "transfer_size": _transfer_size(main),
            "collective": _collective(report),
            "file_per_process": job.ranks > 1 and all(file.ranks <= 1 for file in report.files if file.bytes),
            "driver": _driver_name(main.driver),
            "file_system": main.file_system,
            **_pattern(report, main),
        }
    return Workload.model_validate({name: value for name, value in known.items() if value is not None})


def _operation(totals: Totals) -> str | None:
    moved = totals.bytes_read + totals.bytes_written
    if not moved:
        return None
    if totals.bytes_read <= _NEGLIGIBLE * moved:
        return "write"
    return "read" if totals.bytes_written <= _NEGLIGIBLE * moved else "both"


def _transfer_size(file: FileReport) -> int | None:
    return max((op.max_size or 0 for op in (*file.moved("read"), *file.moved("write"))), default=0) or None


def _collective(report: Report) -> bool | None:
    calls = sum(file.collective.calls for file in report.files)
    alone = sum(file.independent.calls for file in report.files)
    if not calls and not alone:
        return None
    return None if calls and alone else calls > 0


def _driver_name(driver: str | None) -> str | None:
    # romio_filesystem_type goes on with a sentence: "UFS: Generic ROMIO driver ..."
    if driver is None or ":" not in driver:
        return driver
    return driver.partition(":")[0] + ":"


def _pattern(report: Report, file: FileReport) -> dict[str, Any]:
    """Layout and piece size of the file that matters most, where they are certain."""
    transfer = _transfer_size(file)
    if len({other.view is None or other.view.contiguous for other in report.files if other.bytes}) > 1:
        return {}
    aggregated = _aggregated(report, file)
    if file.view is None or file.view.contiguous:
        # Each call is one piece. Ranks out of order still make ROMIO aggregate: then the layout is not segmented.
        if file.collective.calls and aggregated is not False:
            return {"layout": "random" if report.mpi.io == "romio" else None, "piece_size": transfer}
        return {"layout": "segmented"}
    piece = file.view.filetype_size if transfer and 0 < file.view.filetype_size < transfer else None
    if aggregated is None:
        return {"piece_size": piece}
    if not aggregated:
        # A view with gaps whose ranges do not interleave: blocks of whole rows.
        return {"layout": "segmented"} if not file.independent.calls else {}
    return {"layout": "strided" if piece else "tile", "piece_size": piece}


def _aggregated(report: Report, file: FileReport) -> bool | None:
    """Whether ROMIO's "automatic" took the way through aggregators; None where that cannot be told."""
    if report.mpi.io != "romio" or not file.collective.calls or file.ranks <= file.nodes:
        return None
    if (file.driver or "").startswith("LUSTRE"):
        return None  # whose "automatic" aggregates whatever the ranges are
    for direction, hint in (("write", "romio_cb_write"), ("read", "romio_cb_read")):
        made: Posix = getattr(file.posix, direction)
        if made.during_collective.count and file.info.get(hint, "automatic").lower() == "automatic":
            if made.during_collective.ranks < file.ranks:
                return True
            # As many system calls as MPI calls: each rank wrote its own. Anything else is a mixture (random offsets).
            return False if made.during_collective.count == file.calls(direction, collective=True) else None
    return None
