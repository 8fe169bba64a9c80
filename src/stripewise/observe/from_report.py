"""The runtime's report as an activity."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import PurePath
from typing import Any, Literal

from stripewise.catalogue.filesystems import of_role
from stripewise.formats import OTHER_FILES, SIZE_LIMITS, SIZE_NAMES
from stripewise.observe.activity import (
    Activity,
    ActivityJob,
    ActivityTotals,
    Beneath,
    Calls,
    Counted,
    Dataset,
    DatasetTransfers,
    FileActivity,
    FileLayout,
    Level,
    LoaderActivity,
    Modes,
    Moved,
    Place,
    ProcessActivity,
    RankLoads,
    SettingOutcome,
    SystemCalls,
    Within,
)
from stripewise.observe.plain_report import MATTERS
from stripewise.observe.report import FileReport, Operation, Pattern, Posix, Report, ReportedProcess
from stripewise.observe.report import SystemCalls as ReportedCalls
from stripewise.shell import SHELLS

_UNSEEN = "a runtime report has no offsets: alignment, order and repeated reads are not judged"
_UNSEEN_RANKS = "a runtime report has no figures of single ranks: balance is not judged"
_UNSEEN_ALONE = "a runtime report holds MPI-IO only: other POSIX files and streams are not judged"
_UNSEEN_OFFSETS = (
    "a report of a program without MPI does not have the offset of each call. Alignment is not judged, and of repeated "
    "reads only what exceeds the range that was read"
)
_KNOWN_SIZES = 0.95
_OVERLAP = 1.05
"""Times the span of a file that those of its reads and writes take together, from which they overlap."""
_MIXED = 0.1
"""Part of a direction's bytes in files with both, from which its time from open to close says little."""
Direction = Literal["read", "write"]
DIRECTIONS: tuple[Direction, ...] = ("read", "write")
_ELSEWHERE = frozenset(
    ["su", "sudo", "runuser", "doas", "pkexec", "ssh", "rsh", "docker", "podman", "machinectl", "systemd-run", "sbatch"]
)
"""Programs that start others as another user or on another machine, where the runtime is not loaded or cannot write."""
_MOVING = ("read", "write", "iread", "iwrite")
_WITHOUT_REQUEST = (*_MOVING, "seek", "map", "advise")
"""First words of operations that move data, or that ask the file system for nothing."""
_UNSEEN_POSIX = (
    "characters read or written one by one (getc, putc), scanf, and output by printf and puts are not counted",
    "io_uring, waiting for asynchronous calls, and reads and writes through mapped memory are not counted",
)


def _bin(size: int) -> int:
    return bisect_left(SIZE_LIMITS, size)


def _sizes(operations: list[Operation], count: int, pattern: Pattern | None) -> list[int]:
    """Calls by size: as the report counts them, else where the smallest and the largest call share a bin."""
    if pattern is not None and sum(pattern.histogram) == count:
        return pattern.histogram
    sizes = [0] * len(SIZE_NAMES)
    for op in operations:
        if op.count and op.min_size is not None and op.max_size is not None:
            if _bin(op.min_size) != _bin(op.max_size):
                return []
            sizes[_bin(op.max_size)] += op.count
    return sizes


def _of_direction(made: Mapping[str, Operation], way: str) -> dict[str, Operation]:
    return {name: operation for name, operation in made.items() if name.split("_")[0] in (way, f"i{way}")}


def _is_collective(name: str) -> bool:
    return any(mark in name for mark in ("_all", "_ordered"))


def _count(made: Mapping[str, Operation]) -> int:
    """Number of data calls, of which an end counts with its begin."""
    return sum(operation.count for name, operation in made.items() if not name.endswith("_end"))


def calls_of(made: Mapping[str, Operation], way: str, pattern: Pattern | None = None) -> Calls:
    """Give the data calls of a direction, of operations by their names; an end counts with its begin."""
    own = _of_direction(made, way)
    count = _count(own)
    operations = [operation for name, operation in own.items() if not name.endswith("_end") or operation.bytes]
    same = (
        {op.max_size for op in operations if op.count}
        if all(op.min_size == op.max_size for op in operations)
        else set()
    )
    only = next(iter(same)) if len(same) == 1 else None
    return Calls(
        count=count,
        bytes=sum(op.bytes for op in own.values()),
        seconds=sum(op.time_sum for op in own.values()),
        sizes=_sizes(operations, count, pattern) if count else [],
        random=pattern.random if pattern is not None else None,
        common=[(only, count)] if only is not None and count else [],
        largest=max((op.max_size or 0 for op in operations), default=0) or None,
    )


def _from_posix(made: Posix) -> Calls:
    listed = sum(count for _, count in made.sizes)
    sizes: list[int] = []
    if made.count and listed >= _KNOWN_SIZES * made.count:
        sizes = [0] * len(SIZE_NAMES)
        for size, count in made.sizes:
            sizes[_bin(size)] += count
    elif made.count and _bin(made.min_size) == _bin(made.max_size):
        sizes = [0] * len(SIZE_NAMES)
        sizes[_bin(made.max_size)] = made.count
    return Calls(
        count=made.count,
        bytes=made.bytes,
        sizes=sizes,
        common=[(size, count) for size, count in made.sizes],
        largest=made.max_size or None,
        ranks=made.ranks,
    )


def file_layout(known: Mapping[str, Any] | None) -> FileLayout | None:
    """Give the stripes of a file, as the runtime writes them; None where they are not known."""
    if not known or "stripe_count" not in known:
        return None
    return FileLayout(
        file_system=str(known.get("file_system", "")),
        stripe_count=max(0, int(known["stripe_count"])),
        stripe_size=max(0, int(of_role(known, "stripe_size") or 0)),
    )


def _transfers(file: FileReport) -> dict[Direction, DatasetTransfers]:
    found: dict[Direction, DatasetTransfers] = {}
    datasets = file.hdf5.datasets if file.hdf5 is not None else []
    for way in DIRECTIONS:
        used = [
            (dataset, calls)
            for dataset in datasets
            if (calls := getattr(dataset, way)) is not None and (calls.calls or calls.bytes)
        ]
        if used:
            found[way] = DatasetTransfers(
                collective=sum(calls.collective for _, calls in used),
                independent=sum(calls.independent for _, calls in used),
                broken=sum(calls.broken_collective for _, calls in used),
                broken_by=sorted({cause for _, calls in used for cause in calls.broken_by}),
                bytes=sum(dataset.bytes for dataset, _ in used),
                moved=sum(calls.bytes for _, calls in used),
                selections=sorted({name for _, calls in used for name, count in calls.selections.items() if count}),
                common=[entry for _, calls in used for entry in calls.top],
                flat=all(len(dataset.size) == 1 for dataset, _ in used),
            )
    return found


def _program(report: Report) -> str:
    """The name of the program, which a shell may only start."""
    name = PurePath(report.job.executable).name
    named = [one for one in report.processes if one.script or PurePath(one.executable).name not in SHELLS]
    if not report.job.interface or not named:
        scripts = {one.script for one in report.processes if one.executable == report.job.executable}
        return (scripts.pop() if len(scripts) == 1 else "") or name
    # Of what a shell starts one after another, each without MPI, the longest is what the job is for.
    longest = max(named, key=lambda one: one.elapsed)
    return longest.script or PurePath(longest.executable).name


def _hidden(report: Report) -> str:
    """The program that waited for most of the run for others that were not seen; empty where there is none."""
    waiting = [one for one in report.processes if PurePath(one.executable).name in _ELSEWHERE]
    others = [one.elapsed for one in report.processes if one not in waiting]
    longest = max(waiting, key=lambda one: one.elapsed, default=None)
    if longest is None or not report.job.interface or longest.elapsed < max(0.5 * report.job.elapsed, *others, 0.0):
        return ""
    return PurePath(longest.executable).name


def _split_streams(file: FileReport, whole: Level) -> dict[str, Level]:
    """Split the calls into those on streams of C, which are no requests since the library gathers them, and others."""
    streams = {name: op for name, op in file.operations.items() if name.endswith("_stream") and op.bytes}
    others = {name: op for name, op in file.operations.items() if name not in streams}
    if not streams:
        return {"posix": whole}
    if not any(op.bytes for name, op in others.items() if name.split("_")[0] in _MOVING):
        return {"stdio": whole}

    def calls(made: Mapping[str, Operation], way: Direction) -> Calls:
        beside = _of_direction(streams if made is others else others, way)
        pattern = getattr(file.pattern, way)
        if beside and pattern is not None:
            # Sizes are counted of both together: those of one interface are what is not of the other one.
            sizes = _sizes(list(beside.values()), _count(beside), None)
            rest = [both - one for both, one in zip(pattern.histogram, sizes, strict=False)]
            pattern = pattern.model_copy(update={"histogram": rest}) if rest and min(rest) >= 0 else None
        known = calls_of(made, way, pattern)
        return known.model_copy(update={"extent": getattr(whole, way).extent if known.bytes else None})

    return {
        "posix": whole.model_copy(update={way: calls(others, way) for way in DIRECTIONS}),
        "stdio": Level(read=calls(streams, "read"), write=calls(streams, "write")),
    }


def _file(file: FileReport, interface: str | None) -> FileActivity:
    others = {name: op for name, op in file.operations.items() if name.split("_")[0] not in _MOVING}
    syncs = file.operations.get("sync")
    made, size = file.posix, file.size
    seen = partial(
        FileActivity,
        path=file.path,
        file_system=file.file_system,
        ranks=max(1, file.ranks),
        nodes=file.nodes or None,
        processes=file.processes,
        whole_readers=file.whole_readers,
        whole_read=file.whole_read,
        size=size,
        layout=file_layout(file.layout),
        told_layout={key: value for key, value in (file.layout or {}).items() if isinstance(value, int | str)},
        driver=file.driver,
        info=file.info,
        own_hints=file.application_info,
        places=[Place.model_validate(one, from_attributes=True) for one in file.places],
        asked=[SettingOutcome.model_validate(one, from_attributes=True) for one in file.settings],
    )
    write, read = (calls_of(file.operations, way, getattr(file.pattern, way)) for way in ("write", "read"))
    program = Level(
        read=read,
        write=write.model_copy(update={"extent": size}) if size and write.bytes else write,
        opens=file.opens,
        syncs=syncs.count if syncs else 0,
        meta_seconds=sum(op.time_sum for op in others.values()),
        calls={name: op.time_sum for name, op in others.items() if op.time_sum > 0},
    )
    if interface == "posix":
        if size and read.bytes > size:
            # However the reads lie, what is beyond the size of the file was read more than once.
            program = program.model_copy(update={"read": read.model_copy(update={"extent": size})})
        return seen(**_split_streams(file, program))
    return seen(
        mpiio=program,
        posix=Level(read=_from_posix(made.read), write=_from_posix(made.write))
        if made.read.count or made.write.count
        else None,
        modes=modes_of(file.operations).model_copy(
            update={"collective_bytes": file.collective.bytes, "independent_bytes": file.independent.bytes}
        ),
        beneath=Beneath(
            write=_read_collective(file, "write"),
            read=_read_collective(file, "read"),
            independent_write=_read_within(made.write.during_independent),
            independent_read=_read_within(made.read.during_independent),
            reading_back=_read_within(made.read.during_write),
        ),
        calls={name: operation.count for name, operation in file.operations.items() if operation.count},
        view_contiguous=None if file.view is None else file.view.contiguous,
        view_bytes=None if file.view is None else file.view.filetype_size,
        view_piece=None if file.view is None else file.view.piece_size,
        hdf5_driver=None if file.hdf5 is None else file.hdf5.driver,
        hdf5_version=None if file.hdf5 is None else file.hdf5.library,
        hdf5_calls={} if file.hdf5 is None else {name: one.count for name, one in file.hdf5.operations.items()},
        properties={} if file.hdf5 is None else file.hdf5.properties,
        transfers=_transfers(file),
        chunk_bytes=_find_chunk(file),
        datasets=[
            Dataset.model_validate(one, from_attributes=True) for one in (file.hdf5.datasets if file.hdf5 else [])
        ],
    )


def _find_chunk(file: FileReport) -> int | None:
    """Give the bytes of the largest chunk of the file's datasets; None where none has chunks."""
    datasets = file.hdf5.datasets if file.hdf5 is not None else []
    return max((math.prod(one.chunk) * one.element_size for one in datasets if one.chunk), default=None)


def modes_of(made: Mapping[str, Operation]) -> Modes:
    """Say how MPI-IO was called, of operations by their names; an end counts with its begin."""
    counts: Counter[str] = Counter()
    moved = {True: 0, False: 0}
    for name, operation in made.items():
        word, together = name.split("_")[0], _is_collective(name)
        way = next((way for way in DIRECTIONS if word in (way, f"i{way}")), None)
        if way is None:
            continue
        moved[together] += operation.bytes
        calls = 0 if name.endswith("_end") else operation.count
        counts[f"{'collective' if together else 'independent'}_{way}s"] += calls
        counts[f"nonblocking_{way}s"] += calls if word.startswith("i") else 0
    views = made["set_view"].count if "set_view" in made else 0
    return Modes(**counts, views=views, collective_bytes=moved[True], independent_bytes=moved[False])


def _read_within(made: ReportedCalls) -> SystemCalls:
    return SystemCalls(count=made.count, bytes=made.bytes, ranks=made.ranks, largest=made.max_size)


def _read_collective(file: FileReport, way: Direction) -> Within:
    """System calls within collective calls of a direction, and what is known of these calls themselves."""
    made, pattern = getattr(file.posix, way), getattr(file.pattern, way)
    together = {name: op for name, op in _of_direction(file.operations, way).items() if _is_collective(name)}
    alone = {name: op for name, op in _of_direction(file.operations, way).items() if not _is_collective(name)}
    moving = _count(together)
    if pattern is not None:
        moving = min(moving, sum(pattern.histogram) - _count(alone))
    back = file.posix.read.during_write.time_sum
    system, exchange = made.during_collective.time_sum, None
    if system is not None and back is not None:
        whole = sum(op.time_sum for op in together.values())
        exchange = max(0.0, whole - (system + back if way == "write" else system - back)), whole
    messages = sum(op.messages for op in together.values())
    calls = _read_within(made.during_collective).model_dump()
    return Within(**calls, moving=moving, messages=messages, exchange=exchange)


def sum_of(levels: Sequence[Level]) -> Level:
    """Give the sums of calls on several files."""

    def calls(direction: str) -> Calls:
        own: list[Calls] = [getattr(level, direction) for level in levels]
        return Calls(
            count=sum(c.count for c in own),
            bytes=sum(c.bytes for c in own),
            seconds=sum(c.seconds for c in own),
            sizes=[sum(column) for column in zip(*(c.sizes for c in own if c.sizes), strict=True)],
        )

    return Level(
        read=calls("read"),
        write=calls("write"),
        opens=sum(level.opens for level in levels),
        syncs=sum(level.syncs for level in levels),
        meta_seconds=sum(level.meta_seconds for level in levels),
    )


def _with_paths(level: Level, counts: Mapping[str, int], calls: Mapping[str, float]) -> Level:
    """Add calls on paths, which belong to no file, to the calls of all files."""
    return level.model_copy(
        update={
            "stats": sum(count for name, count in counts.items() if name != "failed_open"),
            "opens": level.opens + counts.get("failed_open", 0),
            "meta_seconds": level.meta_seconds + sum(calls.values()),
            "calls": calls,
        }
    )


def _process(one: ReportedProcess) -> ProcessActivity:
    return ProcessActivity(
        parent=one.parent,
        elapsed=one.elapsed,
        io_seconds=one.io_time,
        reads=one.reads,
        read=one.bytes_read,
        written=one.bytes_written,
        path_calls=sum(one.metadata[name].count for name in ("stat", "failed_open", "list") if name in one.metadata),
    )


def _list_unseen(report: Report) -> list[str]:
    several = any(file.path == OTHER_FILES for file in (*report.files, *report.posix_files))
    others = [f"{OTHER_FILES} is one record of many: there are more files than are counted here"] if several else []
    if any(file.path.endswith(("/*.py", "/*.pyc")) for file in (*report.files, *report.posix_files)):
        others.append("the modules of a Python package count as one file")
    if any(file.path.endswith("/*") for file in (*report.files, *report.posix_files)):
        others.append("the files of a package below /usr/share count as one file")
    if hidden := _hidden(report):
        others.insert(0, f"what {hidden} started, as another user or elsewhere: observe that program itself")
    if report.job.interface:
        return [*others, _UNSEEN_OFFSETS, *_UNSEEN_POSIX]
    balance = [] if _loads(report) else [_UNSEEN_RANKS]
    return [*others, _UNSEEN, *balance, *(_UNSEEN_POSIX if report.processes else [_UNSEEN_ALONE])]


def _loads(report: Report) -> RankLoads | None:
    """Sums over the processes of each rank, where a launcher numbered them; not of what went through MPI-IO."""
    if any(file.collective.bytes + file.independent.bytes for file in report.files) and not report.job.interface:
        return None
    ranks = sorted({one.rank for one in report.processes if one.rank is not None})
    if len(ranks) < 2:
        return None
    own = {rank: [one for one in report.processes if one.rank == rank] for rank in ranks}
    return RankLoads(
        source="report",
        read=[sum(one.bytes_read for one in own[rank]) for rank in ranks],
        written=[sum(one.bytes_written for one in own[rank]) for rank in ranks],
        seconds=[sum(one.io_time for one in own[rank]) for rank in ranks],
    )


def _shares_opens(file: FileReport) -> bool:
    """Whether reads and writes of a file went through the same opens, or through opens at the same time."""
    both = (file.read_span or 0.0) + (file.write_span or 0.0)
    return bool(file.read_span and file.write_span and file.span) and both > _OVERLAP * (file.span or 0.0)


def _list_mixed(report: Report) -> list[Direction]:
    """List the directions whose time from open to close holds a good part of the other one's."""
    found: list[Direction] = []
    for way in DIRECTIONS:
        moved = [(sum(op.bytes for op in _of_direction(file.operations, way).values()), file) for file in report.files]
        whole = sum(size for size, _ in moved)
        if whole and sum(size for size, file in moved if _shares_opens(file)) > _MIXED * whole:
            found.append(way)
    return found


def _rate_calls(report: Report, way: Direction) -> float | None:
    """MiB/s of a direction over the time in its calls, with its part of the calls that move no data.

    A sync belongs to the writes; open, close and all others count by bytes. None where calls do not tell the time: of
    nonblocking calls, or of the program's own beside MPI-IO, whose calls of several threads may overlap. What a
    launcher or a shell moves besides is too little to matter.
    """
    totals = report.totals
    size, seconds = (
        (totals.bytes_written, totals.write_time) if way == "write" else (totals.bytes_read, totals.read_time)
    )
    behind = any(name.startswith(f"i{way}") for file in report.files for name in file.operations)
    own = sum(op.bytes for file in report.posix_files for op in _of_direction(file.operations, way).values())
    if not size or not seconds or behind or report.job.interface or own >= MATTERS * size:
        return None
    share = size / (totals.bytes_read + totals.bytes_written)
    for file in report.files:
        for name, operation in file.operations.items():
            if name.split("_")[0] not in _MOVING:
                part = float(way == "write") if name == "sync" else share
                seconds += part * operation.time_sum / report.job.ranks
    return size / 2**20 / seconds


def activity_of(report: Report, source: str) -> Activity:
    """Give a report as an activity.

    Parameters
    ----------
    report : Report
    source : str
        Where it came from.
    """
    interface = report.job.interface
    paths = [(name, calls) for process in report.processes for name, calls in process.metadata.items()]
    on_paths = sum(calls.time_sum for _, calls in paths)
    requests = [
        operation
        for file in (*report.files, *report.posix_files)
        for name, operation in file.operations.items()
        if name.split("_")[0] not in _WITHOUT_REQUEST
    ]
    found = [_file(file, interface) for file in report.files] + [_file(file, "posix") for file in report.posix_files]
    files = sorted(found, key=lambda file: -file.seconds)
    modes = [file.modes for file in files if file.modes]
    own = [file for file in files if file.ranks == 1 and file.upper.write.bytes]
    mixed = _list_mixed(report)
    return Activity(
        source=source,
        kind="report",
        counts_opens_once=True,
        version=str(report.version),
        job=ActivityJob(
            executable=report.job.executable,
            program=_program(report),
            ranks=report.job.ranks,
            nodes=report.job.nodes,
            elapsed=report.job.elapsed,
            started=report.job.start or None,
            mpi=report.mpi.library or None,
            mpi_io=report.mpi.io,
            interface=interface,
            ranks_seen=None if report.job.complete else report.job.ranks_reported,
        ),
        seen=["POSIX"] if interface else ["MPI-IO", "POSIX"] if report.processes else ["MPI-IO"],
        unseen=[
            *_list_unseen(report),
            *([] if report.job.complete else ["not all ranks reported: figures are too low"]),
        ],
        io_seconds=0.0 if _hidden(report) else report.job.io_time,
        moved=report.totals.bytes_read + report.totals.bytes_written if report.files_left_out else None,
        summed_seconds=sum(file.seconds for file in files) + on_paths,
        rates={way: rate for way in reversed(DIRECTIONS) if (rate := getattr(report.totals, f"{way}_bandwidth"))},
        mixed=mixed,
        phase_rates={way: rate for way in mixed if (rate := _rate_calls(report, way)) is not None},
        directions={
            "read": Moved(bytes=report.totals.bytes_read, seconds=report.totals.read_time or 0.0),
            "write": Moved(bytes=report.totals.bytes_written, seconds=report.totals.write_time or 0.0),
        },
        programs=[one.name for one in report.programs],
        totals=ActivityTotals(
            mpiio=sum_of([file.mpiio for file in files if file.mpiio]),
            stdio=sum_of([file.stdio for file in files if file.stdio]),
            posix=_with_paths(
                sum_of([file.posix for file in files if file.posix]),
                {name: sum(one.count for other, one in paths if other == name) for name, _ in paths},
                {name: sum(one.time_sum for other, one in paths if other == name) for name, _ in paths},
            ),
            modes=Modes(**{name: sum(getattr(m, name) or 0 for m in modes) for name in Modes.model_fields}),
            other_calls=sum(op.count for op in requests) + sum(calls.count for _, calls in paths),
            other_seconds=sum(op.time_sum for op in requests) + on_paths,
        ),
        counted=Counted(
            # A file has two records where the program used it by calls of its own, too.
            files=len({file.path for file in files}) + report.files_left_out,
            shared=sum(file.ranks > 1 for file in files),
            written_single=len(own),
            # Each of these files was opened by one rank alone; who it was the report does not say, at most all ranks.
            writers=min(len(own), report.job.ranks),
            small=sum(file.bytes > 0 and 0 < (file.size or 0) < 1 << 20 for file in files),
            folders=len({file.path.rpartition("/")[0] for file in files}),
        ),
        files=files,
        ranks=_loads(report),
        processes=[_process(one) for one in report.processes],
        objects=[
            FileActivity(
                path=one.path,
                asked=[SettingOutcome.model_validate(outcome, from_attributes=True) for outcome in one.settings],
            )
            for one in report.objects
        ],
        loaders=[LoaderActivity.model_validate(one, from_attributes=True) for one in report.loaders],
        planned=report.runtime.plan_id is not None,
    )
