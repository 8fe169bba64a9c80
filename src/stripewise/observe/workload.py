"""What a program was seen to do, as a workload: from a Darshan log or a report of the runtime, for prescriptions.

An observer sees no plans: what is not in the log stays unknown. The settings that the run had are found too, as far as
the log tells (the layout of the main file, the hints that the MPI library echoed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stripewise.catalogue.carriers import ADIOS2, ARGUMENT, HDF5, HINT, Carrier, Setting
from stripewise.catalogue.filesystems import CRAYS, USUAL, of_role
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.formats import RECORD_HEADER
from stripewise.observe.activity import Activity, Calls, FileActivity
from stripewise.observe.darshan_logs import is_log, read_log
from stripewise.observe.profile_features import traits_of, traits_of_report
from stripewise.observe.record_reading import read_record
from stripewise.observe.recorded import report_of
from stripewise.observe.report import FileReport, Pattern, Posix, Report, read_report

_NEGLIGIBLE = 0.001
_MOSTLY = 0.95
_PIECE = 256 << 10
"""Larger requests may be parts of a contiguous call that the library cut at its buffers."""
_MAX_REPORT = 256 << 20


@dataclass(frozen=True)
class Observed:
    """An observed profile.

    Attributes
    ----------
    workload : Workload
    processes : int or None
        Ranks, which are known even where the number of nodes is not.
    layout : mapping
        ``stripe_count`` and ``stripe_size`` (bytes) of the file that most bytes went through.
    in_force : tuple of Setting
        What acted on the main file besides its layout: hints as the MPI library echoed them, properties as HDF5 told
        them, and variables and arguments of a plan.
    notes : tuple of str
        What could not be seen.
    traits : mapping
        See :mod:`stripewise.observe.profile_features`.
    """

    workload: Workload
    processes: int | None = None
    layout: Mapping[str, int] = field(default_factory=dict)
    in_force: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()
    traits: Mapping[str, float] = field(default_factory=dict)

    @property
    def hints(self) -> dict[str, str]:
        """Hints in effect, by key."""
        return {setting.key: setting.value for setting in self.in_force if setting.carrier is HINT}


def observe(path: Path) -> Observed:
    """Read a Darshan log, a trace, a report of the runtime (JSON), or a record of a program.

    Raises
    ------
    UserError
        If it is none of them, or cannot be read.
    """
    if is_log(path):
        return of_activity(read_log(path))
    try:
        with path.open("rb") as stream:
            head = stream.read(64)
            if head.startswith(RECORD_HEADER.encode()):
                return of_report(report_of(read_record(path)))
            if head.lstrip()[:1] == b"{":
                if path.stat().st_size > _MAX_REPORT:
                    raise UserError(f"report {path} is larger than {_MAX_REPORT >> 20} MiB", "is it the right file?")
                return of_report(read_report((head + stream.read()).decode("utf-8", "surrogateescape"), str(path)))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "check the path") from error
    return of_activity(read_log(path))


def of_report(report: Report) -> Observed:
    """Describe what a job did, as far as the runtime's report shows it."""
    report = report.of_most_bytes
    main = report.main
    notes = []
    if report.runtime.plan_id is not None:
        notes.append("the run applied a plan: what it shows of the access pattern may be the plan's doing")
    return Observed(
        observed_workload(report).model_copy(update=_of_datasets(report)),
        report.job.ranks,
        layout_of(report),
        () if main is None else _in_force(main),
        tuple(notes),
        traits_of_report(report),
    )


def _in_force(main: FileReport) -> tuple[Setting, ...]:
    found = [Setting(HINT, key, value) for key, value in main.info.items()]
    if main.hdf5 is not None:
        found += [Setting(HDF5, key, value) for key, value in main.hdf5.properties.items()]
    told = {setting.target for setting in found}
    for outcome in main.settings:
        carrier = next((c for c in Carrier.known.values() if c.verb == outcome.layer and not c.of_file_system), None)
        # The launcher put them into the command or a file, where the runtime does not see them.
        value = outcome.requested if carrier in (ADIOS2, ARGUMENT) else outcome.echoed or outcome.given
        if carrier is not None and value is not None:
            setting = Setting(carrier, outcome.key, value)
            found += [] if setting.target in told else [setting]
    return tuple(found)


def observed_workload(report: Report) -> Workload:
    """Describe what the program did, as far as the report shows it; the rest stays unknown.

    The report must come from a run without a plan: how ROMIO carried out the calls then shows whether ranks interleave.
    """
    job, totals, main = report.job, report.totals, report.main
    known: dict[str, Any] = {
        "nodes": job.nodes,
        "processes_per_node": math.ceil(job.ranks / job.nodes),
        "files": len(report.files),
        "operation": _operation(totals.bytes_read, totals.bytes_written),
    }
    if main is not None and main.bytes:
        known |= {
            "api": "hdf5"
            if any(file.hdf5 is not None and file.hdf5.driver == "mpio" for file in report.files)
            else report.job.interface or "mpiio",
            "file_size": main.size,
            "transfer_size": _transfer_size(main),
            "collective": _collective_calls(report),
            "file_per_process": job.ranks > 1 and all(file.ranks <= 1 for file in report.files if file.bytes),
            "driver": _driver_name(main.driver),
            "file_system": main.file_system,
            **_pattern(report, main),
        }
    return Workload.model_validate({name: value for name, value in known.items() if value is not None})


def _transfer_size(file: FileReport) -> int | None:
    return max((op.max_size or 0 for op in (*file.moved("read"), *file.moved("write"))), default=0) or None


def _collective_calls(report: Report) -> bool | None:
    """Whether nearly all bytes moved collectively or nearly none: libraries write their headers independently."""
    together = sum(file.collective.bytes for file in report.files)
    return _mostly(together, sum(file.independent.bytes for file in report.files))


def _mostly(together: int, alone: int) -> bool | None:
    """Whether nearly all is collective; None where both matter, or nothing was seen."""
    if not together + alone:
        return None
    if together >= _MOSTLY * (together + alone):
        return True
    return False if alone >= _MOSTLY * (together + alone) else None


def _driver_name(driver: str | None) -> str | None:
    # The value of romio_filesystem_type continues with a sentence: "UFS: Generic ROMIO driver ..."
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
    repeated = transfer is not None and 0 < file.view.filetype_size < transfer
    piece = file.view.piece_size
    if piece is None and repeated:
        piece = file.view.filetype_size
    if aggregated is None:
        return {"piece_size": piece}
    if not aggregated:
        # A view with gaps whose ranges do not interleave: blocks of whole rows, where no piece is known.
        known = piece is not None or file.independent.calls
        return {"piece_size": piece} if known else {"layout": "segmented"}
    return {"layout": "strided" if repeated and piece == file.view.filetype_size else "tile", "piece_size": piece}


def _aggregated(report: Report, file: FileReport) -> bool | None:
    """Whether ROMIO's "automatic" took the way through aggregators; None where that cannot be told."""
    if report.mpi.io != "romio" or not file.collective.calls or file.ranks <= file.nodes:
        return None
    if (file.driver or "").startswith((*USUAL.drivers, CRAYS)):
        return None  # whose "automatic" aggregates whatever the ranges are
    for direction, hint in (("write", "romio_cb_write"), ("read", "romio_cb_read")):
        made: Posix = getattr(file.posix, direction)
        if made.during_collective.count and file.info.get(hint, "automatic").lower() == "automatic":
            if made.during_collective.ranks < file.ranks:
                return True
            # As many system calls as MPI calls: each rank wrote its own. Anything else is a mixture (random offsets).
            return False if made.during_collective.count == _moving_calls(file, direction) else None
    return None


def _moving_calls(file: FileReport, direction: str) -> int:
    """Collective calls of a direction that moved bytes: some ranks may only take part, as in writing a header."""
    pattern: Pattern | None = getattr(file.pattern, direction)
    calls = file.calls(direction, collective=True)
    if pattern is None:
        return calls
    return min(calls, sum(pattern.histogram) - file.calls(direction, collective=False))


def layout_of(report: Report) -> dict[str, int]:
    """Give ``stripe_count`` and ``stripe_size`` (bytes) of the file that most bytes went through, as far as known."""
    main = report.main
    if main is None or main.layout is None:
        return {}
    layout = main.layout
    found = {role: of_role(layout, role) for role in ("stripe_count", "stripe_size")}
    return {role: int(value) for role, value in found.items() if isinstance(value, int) and value > 0}


def _of_datasets(report: Report) -> dict[str, Any]:
    """What datasets of HDF5 tell: the calls below them are of metadata, too, and their views are of HDF5's making."""
    main = report.main
    if main is None or main.hdf5 is None or main.hdf5.driver != "mpio":
        return {}
    used = [dataset for dataset in main.hdf5.datasets if dataset.write or dataset.read]
    transfers = [calls for dataset in used for calls in (dataset.write, dataset.read) if calls is not None]
    together, alone = (sum(getattr(calls, how) for calls in transfers) for how in ("collective", "independent"))
    if not together + alone:
        return {}
    selections = {name for calls in transfers for name, count in calls.selections.items() if count}
    # Of more dimensions a block may be rows of all ranks or a tile of one.
    flat = all(len(dataset.size) == 1 for dataset in used)
    known = {frozenset({"block"}): "segmented", frozenset({"strided"}): "strided"}
    sizes = [entry for calls in transfers for entry in calls.top]
    return {
        **({"transfer_size": max(sizes, key=lambda entry: entry[0] * entry[1])[0]} if sizes else {}),
        "collective": None if together and alone else together > 0,
        "layout": known.get(frozenset(selections)) if flat else None,
        "piece_size": None,
    }


def of_activity(activity: Activity) -> Observed:
    """Describe what a job did, as far as its log shows it; the rest stays unknown.

    Raises
    ------
    UserError
        If the log shows no I/O.
    """
    main = max(activity.files, key=lambda file: file.bytes, default=None)
    if main is None or not main.bytes:
        raise UserError(f"{activity.source} shows no I/O", "was the program's I/O observed?")
    nodes = activity.job.nodes
    notes = []
    if nodes is None:
        notes.append("the log does not say on how many nodes the program ran")
    read, written = _moved(activity)
    operation = _operation(read, written)
    level = main.upper
    calls = level.read if read > written else level.write
    known: dict[str, Any] = {
        "nodes": nodes,
        "processes_per_node": None if nodes is None else math.ceil(activity.job.ranks / nodes),
        "files": activity.counted.files or None,
        "operation": operation,
        "api": _api(main, activity),
        "file_size": _size(main),
        "transfer_size": _transfer(calls),
        "collective": _collective(main),
        "file_per_process": _file_per_process(activity),
        **_shape(main, activity.job.ranks, "read" if read > written else "write"),
        "driver": main.driver,
        "file_system": main.file_system,
    }
    workload = Workload.model_validate({name: value for name, value in known.items() if value is not None})
    layout = {}
    if main.layout is not None and main.layout.stripe_count:
        layout = {"stripe_count": main.layout.stripe_count, "stripe_size": main.layout.stripe_size}
    in_force = tuple(Setting(HINT, key, value) for key, value in {**activity.hints, **main.info}.items())
    unseen = [name for name in ("collective", "transfer_size") if known[name] is None]
    notes += [f"{name} cannot be told from the log" for name in unseen]
    return Observed(workload, activity.job.ranks, layout, in_force, tuple(notes), traits_of(activity))


def _moved(activity: Activity) -> tuple[int, int]:
    levels = [file.upper for file in activity.files]
    return sum(level.read.bytes for level in levels), sum(level.write.bytes for level in levels)


def _operation(read: int, written: int) -> str | None:
    if not read + written:
        return None
    if read <= _NEGLIGIBLE * (read + written):
        return "write"
    return "read" if written <= _NEGLIGIBLE * (read + written) else "both"


def _api(main: FileActivity, activity: Activity) -> str | None:
    """The highest interface: datasets have records of their own, so those of all files are looked at."""
    if any(file.hdf5 is not None and file.hdf5.count for file in activity.files):
        return "hdf5"
    if any(file.pnetcdf is not None and file.pnetcdf.count for file in activity.files):
        return "pnetcdf"
    for name, level in (("mpiio", main.mpiio), ("posix", main.posix)):
        if level is not None and level.count:
            return name
    return None


def _size(file: FileActivity) -> int | None:
    extents = [calls.extent for level in (file.posix, file.mpiio) if level for calls in (level.read, level.write)]
    return file.size or max((extent for extent in extents if extent), default=None)


def _transfer(calls: Calls) -> int | None:
    """Bytes of the call that moved most: the commonest size weighs with its bytes."""
    if calls.common:
        return max(calls.common, key=lambda entry: entry[0] * entry[1])[0] or None
    if calls.largest:
        return calls.largest
    return round(calls.mean) or None


def _collective(file: FileActivity) -> bool | None:
    modes = file.modes
    if file.mpiio is None:
        return False
    if modes is None:
        return None
    together = modes.collective_reads + modes.collective_writes
    alone = modes.independent_reads + modes.independent_writes + modes.nonblocking_reads + modes.nonblocking_writes
    return _mostly(together, alone)


def _file_per_process(activity: Activity) -> bool:
    moving = [file for file in activity.files if file.bytes]
    return activity.job.ranks > 1 and len(moving) >= activity.job.ranks and all(file.ranks <= 1 for file in moving)


def _shape(file: FileActivity, ranks: int, way: str) -> dict[str, Any]:
    """Layout and, where collective calls reached the file system in small scattered pieces, the size of these."""
    layout = _layout(file, ranks)
    if layout is None and file.mpiio is not None and file.posix is not None and _collective(file):
        called: Calls = getattr(file.mpiio, way)
        made: Calls = getattr(file.posix, way)
        if 0 < made.mean < min(_PIECE, called.mean / 2):
            return {"layout": "strided", "piece_size": round(made.mean)}
    return {"layout": layout}


def _layout(file: FileActivity, ranks: int) -> str | None:
    """Segmented where each rank goes through its part from front to back; anything else needs a trace."""
    if file.view_contiguous is False:
        return None
    level = file.upper if file.mpiio is None else (file.posix or file.upper)
    calls = level.write if level.write.bytes >= level.read.bytes else level.read
    if calls.consecutive is None or not calls.count or (file.modes is not None and file.modes.views):
        return None
    each = max(1, min(ranks, file.ranks))
    return "segmented" if calls.consecutive >= _MOSTLY * max(0, calls.count - each) else None
