"""Calls and settings: writes that read, streams, cached reads, blocking calls, dead settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from stripewise.catalogue.meaning import Situation, acts, explain_unread, find_parameter, parse, value_of
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.finding import (
    Finding,
    FindingKind,
    Severity,
    Thresholds,
    each_way,
    hint,
    no_sieving,
    ompio,
    rule,
    top,
    weigh,
)
from stripewise.diagnose.rules.collective import broke_collective, count_modes
from stripewise.observe.activity import Activity, FileActivity, Level
from stripewise.sizes import count_of, format_size


@rule(
    "read-modify-write",
    "Reading in order to write",
    "Data sieving reads a whole block, changes the pieces in it and writes it back under a lock. More is read than "
    "anyone asked for, and ranks wait for each other.",
    "Write collectively without gaps, or larger pieces. Without data sieving (romio_ds_write disable) each piece "
    "is a request of its own, which is slower for small pieces.",
    examples=("collective",),
)
def read_modify_write(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for reads below write calls."""
    found: dict[str, float] = {}
    files = []
    asked = back = made = 0
    seconds = 0.0
    for file in activity.files:
        if file.mpiio is None or file.posix is None or not file.mpiio.write.bytes:
            continue
        wanted, more = file.mpiio.write.bytes, 0
        if file.beneath is not None:
            read = file.beneath.reading_back.bytes
        else:
            # Darshan cannot tell which call reads for a write: what nobody asked for was read for that.
            read = max(0, file.posix.read.bytes - file.mpiio.read.bytes) if not file.mpiio.read.bytes else 0
            # Blocks of a new file are read in vain, and then written with all that lies between the pieces.
            more = max(0, file.posix.write.bytes - wanted) if file.posix.read.count else 0
        if max(read, more) >= limits["rewrite_share"] * wanted:
            found[file.path] = max(read, more)
            files.append(file)
            asked, back, made = asked + wanted, back + read, made + wanted + more
            seconds += file.mpiio.write.seconds
    if not found:
        return
    share = activity.share(seconds)
    says = f"{format_size(back)} were read in order to write {format_size(asked)}"
    if back < limits["rewrite_share"] * asked:
        says = f"{format_size(made)} were written for {format_size(asked)}, with all that lies between the pieces"
    yield Finding(
        kind,
        weigh(activity, limits, share),
        says,
        {"read_bytes": back, "written_bytes": asked, "made_bytes": made},
        top(found),
        proposal=no_sieving(activity, files),
        share=share,
    )


@rule(
    "shared-without-mpiio",
    "Shared files without MPI-IO",
    "Ranks that write one file through POSIX know nothing of each other. They cannot aggregate or set layout "
    "hints, and each waits for the others' locks.",
    "Open shared files through MPI-IO, or a library on it (HDF5, PnetCDF, ADIOS2); then settings can help as well.",
    ("M01",),
    examples=("collective",),
)
def shared_without_mpiio(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for shared files without MPI-IO."""
    if activity.kind != "darshan" or activity.job.ranks < 2:
        return
    shared = {
        file.path: float(file.bytes)
        for file in activity.files
        if file.ranks > 1 and not file.mpiio and file.posix and file.posix.write.bytes
    }
    moved = sum(shared.values())
    if moved < limits["shared_bytes"] or moved < limits["posix_shared_share"] * activity.bytes:
        return
    share = activity.share(sum(file.seconds for file in activity.files if file.path in shared))
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{format_size(moved)} of {format_size(activity.bytes)} went to {count_of(len(shared), 'shared file')} "
        "through POSIX alone",
        {"files": len(shared), "bytes": int(moved)},
        top(shared),
        share=share,
    )


_MORE = 0.1
"""Difference of shares from which a job counts as one or the other, as in Drishti."""


def _level(activity: Activity) -> Level:
    return activity.totals.posix if activity.totals.posix.count else activity.totals.mpiio


@each_way(
    read=FindingKind(
        "read-heavy", "Mostly reading", "Settings for reads matter most.", "Nothing to fix.", ("P02", "P04")
    ),
    write=FindingKind(
        "write-heavy", "Mostly writing", "Settings for writes matter most.", "Nothing to fix.", ("P01", "P03")
    ),
)
def leaning(activity: Activity, limits: Thresholds, kind: FindingKind, way: str) -> Iterator[Finding]:
    """Say that the job mostly reads, or writes."""
    level = _level(activity)
    for what, reads, writes in (
        ("requests", level.read.count, level.write.count),
        ("bytes", level.read.bytes, level.write.bytes),
    ):
        total = reads + writes
        mine, other = (writes, reads) if way == "write" else (reads, writes)
        if total and (mine - other) / total > _MORE:
            yield Finding(
                kind, Severity.INFO, f"{mine / total:.0%} of the {what} are {way}s", {what: mine, "all": total}
            )
            return


_STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")
_MOSTLY_READ = 0.1
_WHOLE = 16 << 10
"""Bytes of a mean call from which streams pass it on as it is, but for its ends: their buffer is 4 KiB."""
_READ_OTHERWISE = "Read data with read, MPI-IO or a library; or give streams a large buffer with setvbuf."


@rule(
    "stdio",
    "Data through buffered streams",
    "Streams (fwrite, fread) copy through a small buffer and turn into requests of a few KiB; formatted output "
    "costs even more.",
    "Write data with write, MPI-IO or a library; keep streams for logs, or give them a large buffer with setvbuf.",
    ("S01",),
    examples=("buffer",),
)
def stdio(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for data that goes through streams."""
    buffered = [
        (file, calls)
        for file in activity.files
        if file.stdio and file.path not in _STREAMS and not file.installed
        for calls in (file.stdio.read, file.stdio.write)
        if calls.mean < _WHOLE
    ]
    through: Counter[str] = Counter()
    for file, calls in buffered:
        through[file.path] += calls.bytes
    moved = sum(through.values())
    total = sum(file.bytes for file in activity.files if file.path not in _STREAMS)
    if not total or moved < limits["stdio_bytes"] or moved / total < limits["stdio_share"]:
        return
    times = {path: 0.0 for path, amount in through.items() if amount}
    for file, calls in buffered:
        if through[file.path]:
            times[file.path] += calls.seconds
    for file in activity.files:
        if file.stdio and through[file.path]:
            times[file.path] += file.stdio.meta_seconds - file.stdio.calls.get("sync", 0.0)
    seconds = sum(times.values())
    written = sum(calls.bytes for file, calls in buffered if file.stdio and calls is file.stdio.write)
    share = activity.share(seconds)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{format_size(moved)} ({moved / total:.0%} of all data) went through buffered streams, "
        f"{format_size(round(moved / sum(calls.count for _, calls in buffered)))} a call",
        {"bytes": int(moved), "share": moved / total, "seconds": seconds},
        top(times if seconds else {path: float(amount) for path, amount in through.items() if amount}),
        share=share,
        fix=_READ_OTHERWISE if written < _MOSTLY_READ * moved else "",
    )


def list_dead(file: FileActivity) -> dict[str, str]:
    """Settings of a file that do nothing, with the reason."""
    found = {a.key: a.note or "it was refused" for a in file.asked if a.outcome in ("refused", "not_applicable")}
    found |= {
        a.key: "the program sets another value, which wins" for a in file.asked if a.outcome == "application_wins"
    }
    requested = {a.key: a.requested or "" for a in file.asked}
    # What was asked for first: a library echoes its default in place of a value that it does not know.
    values = {**file.info, **requested}
    known = {key: parameter for key in values if (parameter := find_parameter(hint(key, ""))) is not None}
    found |= {key: why for key, one in known.items() if values[key] and (why := parse(one, values[key]).wrong)}
    if ompio([file]):
        found |= {key: why for key, one in known.items() if (why := explain_unread(one, Situation(io="ompio")))}
    elif file.driver is not None:
        wheres = _situations(file, requested)
        for key, one in known.items():
            answers = [acts(one, None, where) for where in wheres] if key in requested else []
            if answers and all(answer.acts is False for answer in answers):
                found[key] = answers[0].why
    return found


def _situations(file: FileActivity, requested: Mapping[str, str]) -> list[Situation]:
    """What is known of a file's writes, and of its reads: a setting that acts on neither does nothing."""
    known = {key: parameter for key in requested if (parameter := find_parameter(hint(key, ""))) is not None}
    values = {one.name: value_of(one, requested[key]) for key, one in known.items()}
    place = Workload(driver=file.driver, file_system=file.file_system)
    workloads = []
    for way in ("write", "read"):
        together, alone = count_modes(file, way)
        if together or alone:
            mixed = bool(together and alone)
            workloads.append(place.model_copy(update={"operation": way, "collective": None if mixed else together > 0}))
    return [Situation(workload, values=values) for workload in workloads or [place]]


@rule(
    "dead-settings",
    "Settings that do nothing here",
    "A setting that the library does not know, or that does not apply here, is ignored silently. Its author "
    "expects an effect that does not exist.",
    "Remove them, or set what this stack supports.",
)
def dead_settings(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for settings without effect."""
    found: dict[str, str] = {}
    paths: dict[str, float] = {}
    for file in activity.files:
        own = list_dead(file)
        if own:
            found |= own
            paths[file.path] = len(own)
    if not found:
        return
    reasons = "; ".join(f"{key}: {why}" for key, why in sorted(found.items()))
    yield Finding(kind, Severity.MEDIUM, reasons, {"settings": sorted(found)}, top(paths))


def _count_reread(file: FileActivity) -> int:
    """Bytes read that the same job wrote shortly before, so that memory can have answered."""
    level = file.lower
    if not level.write.bytes or not level.read.bytes or (broke_collective(file) and "read" not in file.transfers):
        return 0
    if file.beneath is not None:
        return min(max(0, level.read.bytes - file.beneath.reading_back.bytes), level.write.bytes)
    if file.mpiio is not None:
        return min(file.mpiio.read.bytes, file.mpiio.write.bytes)
    write_end, read_end = level.write.end, level.read.end
    if write_end is not None and read_end is not None and read_end <= (level.write.start or 0.0):
        return 0
    return min(level.read.bytes, level.write.bytes)


@rule(
    "cached-reads",
    "Reads that memory may have answered",
    "What the job itself wrote shortly before may still be in the client's memory: then a read measures "
    "memory, not storage.",
    "Treat the read bandwidth as cached. To measure, read on another node than wrote (--reorder of IOR), write more "
    "than memory holds, or drop the caches.",
)
def cached_reads(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for reads of what the job just wrote."""
    again = {file.path: float(_count_reread(file)) for file in activity.files}
    moved = sum(file.lower.read.bytes for file in activity.files)
    total = sum(again.values())
    if not moved or total < limits["redundant_bytes"] / 4 or total / moved < limits["reread_share"]:
        return
    seconds = sum(file.upper.read.seconds for file in activity.files if again[file.path])
    evidence = {"bytes": int(total), "read_bytes": moved}
    if seconds > 0 and activity.timed:
        evidence["mib_per_s_a_rank"] = round(total / seconds / 2**20)
    yield Finding(
        kind,
        # Only who measures storage minds; and of a program without MPI it is not known which came first.
        Severity.INFO if activity.job.interface else Severity.LOW,
        f"{format_size(total)} of the {format_size(moved)} read are of files that the same job wrote",
        evidence,
        top({path: amount for path, amount in again.items() if amount}),
        share=activity.share(seconds),
    )


@each_way(
    read=FindingKind(
        "blocking-reads",
        "Blocking reads only",
        "A rank that waits for its data cannot compute meanwhile.",
        "Start reads early with MPI_File_iread and wait when the data is needed (HDF5: the asynchronous "
        "VOL connector).",
        ("M06",),
    ),
    write=FindingKind(
        "blocking-writes",
        "Blocking writes only",
        "A rank that waits for its data to be written cannot compute meanwhile.",
        "Start writes with MPI_File_iwrite and wait before the buffer is used again (HDF5: the asynchronous "
        "VOL connector).",
        ("M07",),
    ),
)
def blocking_calls(activity: Activity, limits: Thresholds, kind: FindingKind, direction: str) -> Iterator[Finding]:
    """Say that all calls of a direction block."""
    modes = activity.totals.modes
    waiting = getattr(modes, f"collective_{direction}s") + getattr(modes, f"independent_{direction}s")
    nonblocking = getattr(modes, f"nonblocking_{direction}s")
    if nonblocking or waiting < limits["blocking_calls"]:
        return
    share = activity.share(getattr(activity.totals.mpiio, direction).seconds)
    yield Finding(
        kind,
        Severity.INFO,
        f"all {waiting:,} MPI-IO {direction}s wait for their end",
        {"blocking_calls": waiting},
        share=share,
    )
