"""What processes did to their files themselves, from the parts that they leave: a report, or a part of MPI's."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from stripewise.catalogue.carriers import LAYOUT, POSIX
from stripewise.catalogue.filesystems.base import mount_type
from stripewise.formats import OTHER_FILES
from stripewise.observe.left import parts_in, python_parts_in, reports_of
from stripewise.observe.plain_report import (
    MATTERS,
    is_program,
    no_program,
    over_all,
    read_plain,
    report_of_processes,
)
from stripewise.observe.process_part import (
    GIVEN,
    METADATA,
    OPERATIONS,
    REFUSED,
    SECOND,
    WAYS,
    Asked,
    Calls,
    Direction,
    FileRecord,
    Process,
    Windows,
    bytes_moved,
    decode_field,
    read_part,
)
from stripewise.ownership import written_whole

_MOST_PARTS = 20_000
_MOST_FILES = 20_000
_SLACK = 0.05
"""Seconds by which the clocks of two nodes may differ."""
_NO_SHARE = {"count": 0, "bytes": 0, "ranks": 0, "max_size": 0}
_NO_CALLS = {
    **_NO_SHARE,
    "min_size": 0,
    "sizes": list[list[int]](),
    **{f"during_{kind}": _NO_SHARE for kind in ("collective", "independent", "write")},
}
"""System calls within MPI-IO, of which there are none."""
_WHOLE = 0.9
"""Share of the bytes of a file, from which a process has read it as a whole."""


def merge_parts(folder: Path, report: Path, program: str = "") -> bool:
    """Write the report of a run whose processes left parts, and remove these; False if there are none.

    Where the runtime has left reports, what the processes did themselves is added to those of their programs, and what
    processes of Python told to the first of them.

    Parameters
    ----------
    folder, report : Path
    program : str
        The name or the path of the executable, or the name of the script, whose processes count; empty if all do.

    Raises
    ------
    UserError
        If no process ran that program.
    OSError
        If the report cannot be written.
    """
    merged = _merge_own_calls(folder, report, program)
    if not (left := python_parts_in(folder)):
        return merged
    from stripewise.observe.in_python import read_parts, with_python  # noqa: PLC0415  schemas are slow to load

    if not (parts := read_parts(left)):
        return merged
    path = next(iter(reports_of(report)), report)
    known = read_plain(path) if path.exists() else None
    if known is None or known:  # a damaged one stays as it is
        _write(path, with_python(known, parts))
    for part in left:
        part.unlink(missing_ok=True)
    return True


def _merge_own_calls(folder: Path, report: Path, program: str) -> bool:
    paths = parts_in(folder)
    processes = [process for path in paths[:_MOST_PARTS] if (process := read_part(path)) is not None]
    if not processes:
        return False
    _inherit_scripts(processes)
    reports = {path: known for path in reports_of(report) if (known := read_plain(path)) is not None}
    beside = {path: known for path, known in reports.items() if known.get("job", {}).get("interface") != "posix"}
    owned = _share_out(processes, list(beside.values()), bool(program))
    for (path, known), own in zip(beside.items(), owned, strict=True):
        # What has processes got them from a session that was killed before it had removed the parts.
        if own and known and "processes" not in known:
            _write(path, _add_own_calls(known, _report(own, moved=known["totals"])))
    if not beside and not _has_processes(reports.get(report, {}), processes):
        _write(report, _report_alone(processes, len(paths) > _MOST_PARTS, program))
    for path in paths:
        path.unlink(missing_ok=True)
    return True


def _share_out(processes: Sequence[Process], reports: Sequence[Mapping[str, Any]], named: bool) -> list[list[Process]]:
    """Give each report the processes of its program.

    A process belongs to the program that it runs, or else to that of its parent.

    Parameters
    ----------
    processes : sequence of Process
    reports : sequence of mapping
        As JSON.
    named : bool
        Whether the user named one of the programs. Otherwise what belongs to none of them counts with the first.
    """
    owners: dict[tuple[str, int], int | None] = {}
    found: list[list[Process]] = [[] for _ in reports]
    for process in sorted(processes, key=lambda process: process.start):
        owner = _owner(process, reports)
        if owner is None:
            owner = owners.get((process.host, process.head.parent))
        owners[process.host, process.head.pid] = owner
        if reports and (owner is not None or not named):
            found[owner or 0].append(process)
    return found


def _owner(process: Process, reports: Sequence[Mapping[str, Any]]) -> int | None:
    """Find the report of the program that a process runs: the next one that began while it was there."""
    jobs = [(at, report.get("job", {})) for at, report in enumerate(reports)]
    own = [
        (float(job.get("start") or 0), float(job.get("elapsed") or 0), at)
        for at, job in jobs
        if job.get("executable") == process.executable
    ]
    if not own:
        return None
    began = [at for start, _, at in sorted(own) if process.start - _SLACK <= start <= process.end + _SLACK]
    within = [at for start, elapsed, at in own if start <= process.start <= start + elapsed]
    return (began or within or [own[0][2]])[0]


def _add_own_calls(report: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Give a report of the runtime with what the processes of its program did themselves.

    Parameters
    ----------
    report : mapping
        Of the runtime, as JSON: what went through MPI-IO.
    own : mapping
        As a report of a program without MPI. Its bandwidths leave out files that do not matter beside MPI-IO's.
    """
    before, added = report["totals"], own["totals"]
    totals = dict(before)
    for way, moved in zip(WAYS, ("bytes_read", "bytes_written"), strict=True):
        through, rate = before.get(moved, 0), f"{way}_bandwidth"
        totals[moved] = through + added[moved]
        totals[rate] = over_all([(through, before.get(rate)), (added[moved], added[rate])])
        spent = before.get(f"{way}_time")
        totals[f"{way}_time"] = None if spent is None else spent + added[f"{way}_time"]
    # The slowest rank in MPI-IO may be another one than that in own calls: the sum is the most that one rank spent.
    job = {**report["job"], "io_time": report["job"].get("io_time", 0.0) + own["job"]["io_time"]}
    return {**report, "job": job, "totals": totals, "posix_files": own["files"], "processes": own["processes"]}


def _report_alone(processes: Sequence[Process], cut: bool, program: str) -> dict[str, Any]:
    """Give the report of a command without MPI."""
    programs = _programs(processes)
    chosen = [one for one in processes if not program or is_program(program, one.executable, one.script)]
    if not chosen:
        raise no_program(program, [one["script"] or one["executable"] for one in programs])
    found = _report(chosen, cut)
    return {**found, "programs": programs} if len(programs) > 1 else found


def _write(report: Path, found: Mapping[str, Any]) -> None:
    with written_whole(report) as part:
        part.write_text(json.dumps(found) + "\n", "utf-8")


def _has_processes(report: Mapping[str, Any], processes: Sequence[Process]) -> bool:
    """Whether a report was made of these processes, and of others whose parts are gone already."""
    known = {(one["host"], one["pid"], one["start"]) for one in report.get("processes", ())}
    return {(one.host, one.head.pid, one.start) for one in processes} < known


def _inherit_scripts(processes: Sequence[Process]) -> None:
    """Count processes of an interpreter without a script, such as spawned workers, with that of their parent."""
    by_pid = {(one.host, one.head.pid): one for one in processes}
    for process in sorted(processes, key=lambda process: process.start):
        parent = by_pid.get((process.host, process.head.parent))
        if parent and not process.script and process.executable == parent.executable:
            process.script = parent.script


def _report(processes: Sequence[Process], cut: bool = False, moved: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Give the report of processes; files with far fewer bytes than ``moved`` do not count for the bandwidths."""
    _file_system.cache_clear()
    start, end = min(p.start for p in processes), max(p.end for p in processes)
    ranks = {process.rank for process in processes}
    by_path: dict[str, list[tuple[Process, FileRecord]]] = {}
    for process in processes:
        for record in process.files:
            path = decode_field(record.path) or OTHER_FILES
            known = path in by_path or len(by_path) < _MOST_FILES
            by_path.setdefault(path if known else OTHER_FILES, []).append((process, record))
    files = [_file(path, used) for path, used in by_path.items()]
    own = {way: sum(file["moved"][way] for file in files) for way in WAYS}
    totals: dict[str, Any] = {"bytes_read": own["read"], "bytes_written": own["write"]}
    for way, total in zip(WAYS, ("bytes_read", "bytes_written"), strict=True):
        totals[f"{way}_bandwidth"] = _bandwidth(files, way, (moved or {}).get(total, 0))
        totals[f"{way}_time"] = max(_by_rank(processes, lambda p, way=way: p.seconds(way)).values())
    for file in files:
        del file["moved"], file["spans"]
    declared = max(process.head.ranks for process in processes)
    first = min(processes, key=lambda process: process.start)
    job = {
        "executable": first.executable,
        # Ranks that used no file are ranks, too.
        "ranks": max(len(ranks), declared if len(ranks) > 1 else 1),
        "nodes": len({process.host for process in processes}),
        "start": start,
        "elapsed": end - start,
        "io_time": max(_by_rank(processes, Process.seconds).values()),
        "complete": not cut and len(ranks) >= (declared if len(ranks) > 1 else 1),
        "ranks_reported": len(ranks),
    }
    own_files = sorted(files, key=lambda file: -file["independent"]["bytes"])
    told = [_process(process) for process in sorted(processes, key=lambda process: process.start)]
    return {**report_of_processes(job, totals, own_files), "processes": told}


def _programs(processes: Sequence[Process]) -> list[dict[str, Any]]:
    """What the processes of each program did together, in the order in which the first of them began."""
    by_name: dict[tuple[str, str], list[Process]] = {}
    for process in sorted(processes, key=lambda process: process.start):
        by_name.setdefault((process.executable, process.script), []).append(process)
    return [
        {
            "executable": executable,
            "script": script,
            "ranks": len({process.rank for process in own}),
            "elapsed": max(process.end for process in own) - min(process.start for process in own),
            "bytes_read": sum(bytes_moved(process.files, "read") for process in own),
            "bytes_written": sum(bytes_moved(process.files, "write") for process in own),
            "io_time": max(_by_rank(own, Process.seconds).values()),
            "processes": len(own),
        }
        for (executable, script), own in by_name.items()
    ]


def _by_rank(processes: Iterable[Process], seconds: Any) -> dict[int, float]:
    """Sum over the processes of each rank; those that no launcher numbered are one rank together."""
    found: dict[int, float] = {}
    for process in processes:
        found[process.rank] = found.get(process.rank, 0.0) + seconds(process)
    return found


def _process(process: Process) -> dict[str, Any]:
    head = process.head
    reads, writes = (sum(sum(file.way[at].bins) for file in process.files) for at in range(len(WAYS)))
    return {
        "pid": head.pid,
        "parent": head.parent,
        "rank": head.rank if head.rank >= 0 else None,
        "host": process.host,
        "executable": process.executable,
        "script": process.script,
        "start": process.start,
        "elapsed": process.end - process.start,
        "ended": bool(head.end),
        "io_time": process.seconds(),
        "bytes_read": bytes_moved(process.files, "read"),
        "bytes_written": bytes_moved(process.files, "write"),
        "reads": reads,
        "writes": writes,
        "opens": sum(file.calls[0].count for file in process.files),
        "metadata": {
            name: {"count": one.count, "time_sum": one.time / SECOND}
            for name, one in zip(METADATA, head.metadata, strict=True)
            if one.count
        },
        **({"settings_misread": head.misread} if head.misread else {}),
        **_windows(head.windows),
    }


def _windows(found: Windows) -> dict[str, int]:
    """What the accelerator of small reads fetched; nothing if it fetched nothing."""
    if not found.fetches:
        return {}
    # A process that was killed may have counted one and not yet the other.
    unused = max(found.fetched - found.used, 0)
    told = {"fetches": found.fetches, "fetched": found.fetched, "unused": unused, "memory": found.memory}
    return {f"windows_{name}": value for name, value in told.items()}


def _file(path: str, used: Sequence[tuple[Process, FileRecord]]) -> dict[str, Any]:
    records = [record for _, record in used]
    moved = {way: bytes_moved(records, way) for way in WAYS}
    spans = {
        way: [
            (process.moment(record.way[at].first), process.moment(record.way[at].last))
            for process, record in used
            if record.way[at].first
        ]
        for at, way in enumerate(WAYS)
    }
    every = [span for way in WAYS for span in spans[way]]
    size = _size(path)
    patterns = {way: _pattern([record.way[at] for record in records]) for at, way in enumerate(WAYS)}
    return {
        "path": path,
        "opens": sum(record.calls[0].count for record in records),
        "ranks": len({process.rank for process, _ in used}),
        "nodes": len({process.host for process, _ in used}),
        "processes": len(used),
        **_whole_readers(records, size),
        "driver": None,
        "file_system": (_file_system(Path(path).parent) or None) if size is not None or _is_shared(path) else None,
        "size": size,
        "span": max(end for _, end in every) - min(start for start, _ in every) if every else None,
        "write_span": _union([spans["write"]]) or None,
        "read_span": _union([spans["read"]]) or None,
        "operations": {
            name: _operation([(process.rank, record.calls[at]) for process, record in used])
            for at, name in enumerate(OPERATIONS)
            if any(record.calls[at].count for record in records)
        },
        "collective": {"calls": 0, "bytes": 0},
        "independent": {
            "calls": sum(sum(p["histogram"]) for p in patterns.values() if p),
            "bytes": sum(moved.values()),
        },
        "view": None,
        "pattern": patterns,
        "posix": dict.fromkeys(WAYS, _NO_CALLS),
        "layout": _layout(used),
        "info": {},
        "decision": None,
        "settings": _settings(used),
        "hdf5": None,
        "moved": moved,
        "spans": spans,
    }


def _whole_readers(records: Sequence[FileRecord], size: int | None) -> dict[str, int]:
    """Count the processes that read a file from end to end, which is more than as many bytes: epochs over a part."""
    if not size:
        return {}
    spans = ((record.way[0], bytes_moved([record], "read")) for record in records)
    whole = [
        read
        for reads, read in spans
        if 0 < reads.low <= 1 + (1 - _WHOLE) * size and min(reads.high, read) >= _WHOLE * size
    ]
    return {"whole_readers": len(whole), "whole_read": sum(whole)}


def _settings(used: Sequence[tuple[Process, FileRecord]]) -> list[dict[str, Any]]:
    """What became of each setting that the processes were asked for and met a call on the file with."""
    noted = [record for _, record in used if record.note]
    note = max(noted, key=lambda record: any(one.failed for one in record.effects)).note if noted else b""
    found = []
    for at, asked in enumerate(used[0][0].head.settings):
        if not asked.state:
            continue
        effects = [record.effects[at] for _, record in used]
        acted, missed = sum(one.acted for one in effects), sum(one.missed for one in effects)
        if acted or missed:
            failed = any(one.failed for one in effects)
            found.append(_setting(asked, acted, missed, failed, decode_field(note)))
    return found


def _setting(one: Asked, acted: int, missed: int, failed: bool, note: str) -> dict[str, Any]:
    name, value = decode_field(one.name), decode_field(one.value)
    laid = " " in name  # the key of a layout stands behind its file system
    if one.state == REFUSED or (failed and not acted):
        outcome = "refused"
    else:
        outcome = "applied" if acted or not laid else "not_applicable"
    if one.state == REFUSED:
        note = "the value is not one that the library knows"
    return {
        "layer": LAYOUT.verb if laid else POSIX.verb,
        "key": name,
        "requested": value,
        "application": None,
        "given": value if one.state == GIVEN and outcome == "applied" else None,
        "echoed": None,
        "outcome": outcome,
        "note": note if outcome != "applied" else "",
        "acted": acted,
        "missed": missed,
    }


def _layout(used: Sequence[tuple[Process, FileRecord]]) -> dict[str, Any] | None:
    """What the file system told of the file's layout to the first process that asked."""
    for process, record in used:
        # A file that was written to its end is not therefore whole.
        if 0 < record.place <= len(process.head.layouts):
            layouts = process.head.layouts[record.place - 1]
            known = zip(layouts.keys, record.layout, strict=True)
            numbers = {decode_field(key.value): number for key, number in known if number >= 0}
            return {"file_system": decode_field(layouts.system), **numbers}
    return None


def _is_shared(path: str) -> bool:
    """Whether a record is that of all Python modules of a folder, as ``native/observer/part.c`` names it."""
    return PurePath(path).stem == "*"


def _size(path: str) -> int | None:
    """Size of a regular file; None if it is gone or out of reach."""
    try:
        about = Path(path).stat() if path.startswith("/") else None
    except OSError:
        return None
    return about.st_size if about and stat.S_ISREG(about.st_mode) else None


@lru_cache(maxsize=1024)
def _file_system(folder: Path) -> str:
    return mount_type(folder)


def _operation(calls: Sequence[tuple[int, Calls]]) -> dict[str, Any]:
    """What the calls of one operation on a file were, by the ranks that made them."""
    by_rank: dict[int, int] = {}
    for rank, one in calls:
        by_rank[rank] = by_rank.get(rank, 0) + one.time
    found: dict[str, Any] = {
        "count": sum(one.count for _, one in calls),
        "bytes": sum(one.bytes for _, one in calls),
        "time_max": max(by_rank.values()) / SECOND,
        "time_sum": sum(by_rank.values()) / SECOND,
    }
    # A process may have been killed after it counted the bytes of a call and before it noted their size.
    if least := [one.least for _, one in calls if one.least]:
        found |= {"min_size": min(least) - 1, "max_size": max(one.most for _, one in calls)}
    return found


def _pattern(ways: Sequence[Direction]) -> dict[str, Any] | None:
    if not any(way.first for way in ways):
        return None
    sizes: dict[int, int] = {}
    for one in (one for way in ways for one in way.top):
        if one.count:
            sizes[one.size] = sizes.get(one.size, 0) + one.count
    return {
        "histogram": [sum(counts) for counts in zip(*(way.bins for way in ways), strict=True)],
        "top": sorted(([size, count] for size, count in sizes.items()), key=lambda pair: -pair[1])[:4],
        **{name: sum(getattr(way, name) for way in ways) for name in ("contiguous", "strided", "random")},
    }


def _bandwidth(files: Sequence[dict[str, Any]], way: str, besides: int) -> float | None:
    """MiB/s of the files that matter: a script that its shell reads line by line is open all the time.

    ``besides`` are the bytes that moved through MPI-IO.
    """
    least = MATTERS * max([besides, *(file["moved"][way] for file in files)])
    main = [file for file in files if file["moved"][way] >= max(1, least)]
    seconds = _union(file["spans"][way] for file in main)
    return sum(file["moved"][way] for file in main) / 2**20 / seconds if seconds else None


def _union(groups: Iterable[Sequence[tuple[float, float]]]) -> float:
    """Seconds in which at least one of some spans lasted."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(span for group in groups for span in group):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
