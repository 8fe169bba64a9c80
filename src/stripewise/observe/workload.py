"""What a program was seen to do, as a workload, for prescriptions and searches: of an activity, whatever its source.

An observer sees no plans: what is not in the log stays unknown. The settings that the run had are found too, as far as
the log tells (the layout of the main file, the hints that the MPI library echoed).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from stripewise.catalogue.carriers import ADIOS2, ARGUMENT, HDF5, HINT, Carrier, Setting
from stripewise.catalogue.filesystems import CRAYS, USUAL, has_driver
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.observe.activity import Activity, Calls, FileActivity, Within
from stripewise.observe.profile_features import traits_of

_NEGLIGIBLE = 0.001
_MOSTLY = 0.95
_PIECE = 256 << 10
"""Larger requests may be parts of a contiguous call that the library cut at its buffers."""
_WAYS: tuple[Literal["write", "read"], ...] = ("write", "read")


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
    mpi : str
        The program's MPI library, as it names itself.
    io : str or None
        Its MPI-IO implementation: ``romio``, ``ompio`` or ``unknown``.
    """

    workload: Workload
    processes: int | None = None
    layout: Mapping[str, int] = field(default_factory=dict)
    in_force: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()
    traits: Mapping[str, float] = field(default_factory=dict)
    mpi: str = ""
    io: str | None = None

    @property
    def hints(self) -> dict[str, str]:
        """Hints in effect, by key."""
        return {setting.key: setting.value for setting in self.in_force if setting.carrier is HINT}


def describe_workload(activity: Activity) -> Observed:
    """Describe what a job did, as far as its source shows it; the rest stays unknown.

    Raises
    ------
    UserError
        If the source shows no I/O.
    """
    main = _find_main(_files(activity))
    if main is None or not main.bytes:
        raise UserError(f"{activity.source} shows no I/O", "was the program's I/O observed?")
    workload = workload_of(activity)
    notes = []
    if activity.job.nodes is None:
        notes.append("the log does not say on how many nodes the program ran")
    if activity.planned:
        notes.append("the run applied a plan: what it shows of the access pattern may be the plan's doing")
    if activity.kind not in _RUNTIME:
        unseen = [name for name in ("collective", "transfer_size") if getattr(workload, name) is None]
        notes += [f"{name} cannot be told from the log" for name in unseen]
    return Observed(
        workload,
        activity.job.ranks,
        layout_of(activity),
        _in_force(activity, main),
        tuple(notes),
        traits_of(activity),
        activity.job.mpi or "",
        activity.job.mpi_io,
    )


_RUNTIME = ("report", "record")
"""Sources of the runtime: they name each call and its view, and see what MPI-IO moved as such."""


def workload_of(activity: Activity) -> Workload:
    """Give the workload alone; with the number of files where there was no I/O.

    Of a report, the run should have had no plan: how ROMIO carried out the calls then shows whether ranks interleave.
    """
    files, job = _files(activity), activity.job
    main = _find_main(files)
    left_out = activity.counted.files - len(activity.files)
    read, written = _count_moved(activity)
    known: dict[str, Any] = {
        "nodes": job.nodes,
        "processes_per_node": None if job.nodes is None else math.ceil(job.ranks / job.nodes),
        "files": len(files) + max(0, left_out) if files else 0 if activity.kind in _RUNTIME else None,
        "operation": _operation(read, written),
    }
    if main is not None and main.bytes:
        moved = [getattr(main.upper, way).bytes for way in _WAYS]
        way = _WAYS[moved[1] > moved[0]]
        seen = activity.kind in _RUNTIME
        known |= {
            "api": _api(files, main),
            "file_size": _size(main),
            "transfer_size": _transfer(getattr(main.upper, way)),
            "collective": _was_collective(files, main),
            "file_per_process": _file_per_process(files, max(0, left_out), job.ranks),
            "driver": _driver_name(main.driver),
            "file_system": main.file_system,
            **(_pattern(files, main, job.mpi_io) if seen else _shape(main, job.ranks, way)),
            **_of_datasets(main),
        }
    return Workload.model_validate({name: value for name, value in known.items() if value is not None})


def _files(activity: Activity) -> Sequence[FileActivity]:
    """The files that the workload is about: of a program that the runtime saw use MPI-IO, those that it used so."""
    through = [file for file in activity.files if file.mpiio is not None]
    if activity.kind in _RUNTIME and any(file.bytes for file in through):
        return through
    return activity.files


def _find_main(files: Sequence[FileActivity]) -> FileActivity | None:
    """The file that most bytes went through; not the record of many files, of which little is known."""
    return max(files, key=lambda f: (f.bytes > 0 and not f.stands_for_several, f.bytes), default=None)


def _in_force(activity: Activity, main: FileActivity) -> tuple[Setting, ...]:
    found = [Setting(HINT, key, value) for key, value in {**activity.hints, **main.info}.items()]
    found += [Setting(HDF5, key, value) for key, value in main.properties.items()]
    told = {setting.target for setting in found}
    for one in main.asked:
        carrier = next((c for c in Carrier.known.values() if c.verb == one.layer and not c.of_file_system), None)
        # The launcher put them into the command or a file, where the runtime does not see them.
        value = one.requested if carrier in (ADIOS2, ARGUMENT) else one.in_force
        if carrier is not None and value is not None:
            setting = Setting(carrier, one.key, value)
            found += [] if setting.target in told else [setting]
    return tuple(found)


def layout_of(activity: Activity) -> dict[str, int]:
    """Give ``stripe_count`` and ``stripe_size`` (bytes) of the file that most bytes went through, as far as known."""
    main = _find_main(_files(activity))
    if main is None or main.layout is None:
        return {}
    roles = {"stripe_count": main.layout.stripe_count, "stripe_size": main.layout.stripe_size}
    return {role: value for role, value in roles.items() if value > 0}


def _is_mostly(together: int, alone: int) -> bool | None:
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


def _pattern(files: Sequence[FileActivity], file: FileActivity, io: str | None) -> dict[str, Any]:
    """Layout and piece size of the file that matters most, where its view and calls make them certain."""
    if len({other.view_contiguous is not False for other in files if other.bytes}) > 1:
        return {}
    transfer = max(getattr(file.upper, way).largest or 0 for way in _WAYS) or None
    together = file.modes is not None and file.modes.collective_reads + file.modes.collective_writes > 0
    aggregated = _was_aggregated(file, io)
    if file.view_contiguous is not False:
        # Each call is one piece. Ranks out of order still make ROMIO aggregate: then the layout is not segmented.
        if together and aggregated is not False:
            return {"layout": "random" if io == "romio" else None, "piece_size": transfer}
        return {"layout": "segmented"}
    repeated = transfer is not None and 0 < (file.view_bytes or 0) < transfer
    piece = file.view_piece
    if piece is None and repeated:
        piece = file.view_bytes
    if aggregated is None:
        return {"piece_size": piece}
    if not aggregated:
        # A view with gaps whose ranges do not interleave: blocks of whole rows, where no piece is known.
        alone = file.modes is not None and file.modes.independent_bytes
        return {"piece_size": piece} if piece is not None or alone else {"layout": "segmented"}
    return {"layout": "strided" if repeated and piece == file.view_bytes else "tile", "piece_size": piece}


def _was_aggregated(file: FileActivity, io: str | None) -> bool | None:
    """Whether ROMIO's "automatic" took the way through aggregators; None where that cannot be told."""
    modes, beneath = file.modes, file.beneath
    if io != "romio" or modes is None or beneath is None or file.ranks <= (file.nodes or 0):
        return None
    if not modes.collective_reads + modes.collective_writes or has_driver(file.driver, (*USUAL.drivers, CRAYS)):
        return None  # these drivers' "automatic" aggregates whatever the ranges are
    for way in _WAYS:
        made: Within = getattr(beneath, way)
        if made.count and file.info.get(f"romio_cb_{way}", "automatic").lower() == "automatic":
            if made.ranks < file.ranks:
                return True
            # As many system calls as MPI calls: each rank wrote its own. Anything else is a mixture (random offsets).
            return False if made.count == made.moving else None
    return None


def _of_datasets(main: FileActivity) -> dict[str, Any]:
    """What datasets of HDF5 tell: the calls below them are of metadata, too, and their views are of HDF5's making."""
    transfers = list(main.transfers.values())
    together, alone = (sum(getattr(one, how) for one in transfers) for how in ("collective", "independent"))
    if main.hdf5_driver != _PARALLEL or not together + alone:
        return {}
    selections = frozenset(name for one in transfers for name in one.selections)
    known = {frozenset({"block"}): "segmented", frozenset({"strided"}): "strided"}
    sizes = [entry for one in transfers for entry in one.common]
    return {
        **({"transfer_size": max(sizes, key=lambda entry: entry[0] * entry[1])[0]} if sizes else {}),
        "collective": None if together and alone else together > 0,
        # Of more dimensions a block may be rows of all ranks or a tile of one.
        "layout": known.get(selections) if all(one.flat for one in transfers) else None,
        "piece_size": None,
    }


_PARALLEL = "mpio"
"""The driver of HDF5 that goes through MPI-IO."""


def _count_moved(activity: Activity) -> tuple[int, int]:
    levels = [file.upper for file in activity.files]
    return sum(level.read.bytes for level in levels), sum(level.write.bytes for level in levels)


def _operation(read: int, written: int) -> str | None:
    if not read + written:
        return None
    if read <= _NEGLIGIBLE * (read + written):
        return "write"
    return "read" if written <= _NEGLIGIBLE * (read + written) else "both"


def _api(files: Sequence[FileActivity], main: FileActivity) -> str | None:
    """The highest interface: datasets have records of their own, so those of all files are looked at."""
    if any((file.hdf5 is not None and file.hdf5.count) or file.hdf5_driver == _PARALLEL for file in files):
        return "hdf5"
    if any(file.pnetcdf is not None and file.pnetcdf.count for file in files):
        return "pnetcdf"
    for name, level in (("mpiio", main.mpiio), ("posix", main.posix)):
        if level is not None and (level.count or level.bytes):
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


def _was_collective(files: Sequence[FileActivity], main: FileActivity) -> bool | None:
    """Whether nearly all was collective, by bytes where the source tells them: else by the main file's calls.

    Libraries write their headers independently.
    """
    modes = main.modes
    if main.mpiio is None:
        return False
    if modes is None:
        return None
    if modes.collective_bytes is not None:
        every = [file.modes for file in files if file.modes is not None]
        return _is_mostly(sum(m.collective_bytes or 0 for m in every), sum(m.independent_bytes or 0 for m in every))
    together = modes.collective_reads + modes.collective_writes
    alone = modes.independent_reads + modes.independent_writes + modes.nonblocking_reads + modes.nonblocking_writes
    return _is_mostly(together, alone)


def _file_per_process(files: Sequence[FileActivity], left_out: int, ranks: int) -> bool:
    moving = [file for file in files if file.bytes]
    own = all(file.ranks <= 1 or file.stands_for_several for file in moving)
    return ranks > 1 and len(moving) + left_out >= ranks and own


def _shape(file: FileActivity, ranks: int, way: str) -> dict[str, Any]:
    """Layout and, where collective calls reached the file system in small scattered pieces, the size of these."""
    layout = _layout(file, ranks)
    if layout is None and file.mpiio is not None and file.posix is not None and _was_collective([file], file):
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
