"""Interfaces and settings: streams, settings without effect, figures that the cache made.

MPI-IO: which kinds of calls a job makes, and how many processes carry them out.
"""

from __future__ import annotations

from collections.abc import Iterator

from stripewise.catalogue.filesystems import of_file
from stripewise.catalogue.meaning import Situation, find_parameter, parse, unread
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.finding import Finding, FindingKind, Severity, each_way, rule, top, weigh
from stripewise.diagnose.limits import Thresholds
from stripewise.diagnose.rules.hdf5 import broken
from stripewise.diagnose.rules.settings import hint, ompio, proposed
from stripewise.observe.activity import Activity, FileActivity
from stripewise.sizes import format_size

_STREAMS = ("<STDIN>", "<STDOUT>", "<STDERR>")


@rule(
    "stdio",
    "Data through buffered streams",
    "fwrite and fread copy through a small buffer and turn into requests of a few KiB; formatted output "
    "costs even more.",
    "Write data with write, MPI-IO or a library; keep streams for logs, or give them a large buffer with setvbuf.",
    ("S01",),
)
def stdio(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for data that goes through streams."""
    through = {
        file.path: float(file.stdio.bytes) for file in activity.files if file.stdio and file.path not in _STREAMS
    }
    moved = sum(through.values())
    total = sum(file.bytes for file in activity.files if file.path not in _STREAMS)
    if not total or moved < limits["stdio_bytes"] or moved / total < limits["stdio_share"]:
        return
    seconds = sum(file.stdio.seconds for file in activity.files if file.stdio and file.path not in _STREAMS)
    share = activity.share(seconds)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{format_size(moved)} ({moved / total:.0%} of all data) went through buffered streams",
        {"bytes": int(moved), "share": moved / total, "seconds": seconds},
        top({path: amount for path, amount in through.items() if amount}),
        share=share,
    )


def dead(file: FileActivity) -> dict[str, str]:
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
    system = of_file(file.file_system, file.driver)
    if ompio([file]):
        found |= {key: why for key, one in known.items() if (why := unread(one, Situation(io="ompio")))}
    elif file.driver is not None:
        where = Situation(Workload(driver=file.driver, file_system=file.file_system))
        found |= {key: why for key, one in known.items() if key in requested and (why := unread(one, where))}
        if file.modes is not None and file.modes.collective_writes:
            found |= {key: why for key, why in system.unread_hints.items() if key in requested}
        if "romio_cb_write" in requested or "romio_cb_read" in requested:
            found |= _no_calls(file, requested)
    return found


def _no_calls(file: FileActivity, requested: dict[str, str]) -> dict[str, str]:
    found = {}
    for direction in ("read", "write"):
        key = f"romio_cb_{direction}"
        calls = getattr(file.modes, f"collective_{direction}s") if file.modes else 0
        if key in requested and not calls:
            found[key] = f"the program makes no collective {direction} call"
    return found


@rule(
    "dead-settings",
    "Settings that do nothing here",
    "A setting that the library does not know, or that does not apply here, is ignored silently: whoever set it "
    "expects an effect that does not exist.",
    "Remove them, or set what this stack supports.",
)
def dead_settings(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for settings without effect."""
    found: dict[str, str] = {}
    paths: dict[str, float] = {}
    for file in activity.files:
        own = dead(file)
        if own:
            found |= own
            paths[file.path] = len(own)
    if not found:
        return
    reasons = "; ".join(f"{key}: {why}" for key, why in sorted(found.items()))
    yield Finding(kind, Severity.MEDIUM, reasons, {"settings": sorted(found)}, top(paths))


def _reread(file: FileActivity) -> int:
    """Bytes read that the same job wrote shortly before, so that memory can have answered."""
    level = file.lower
    if not level.write.bytes or not level.read.bytes or (broken(file) and "read" not in file.transfers):
        return 0
    if file.beneath is not None:
        return min(max(0, level.read.bytes - file.beneath.read_while_writing), level.write.bytes)
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
    "For a measurement read with another node than wrote (the kernel's and IOR's --reorder on several nodes), "
    "write more than the memory holds, or drop the caches between; treat the read bandwidth as cached until then.",
)
def cached_reads(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for reads of what the job just wrote."""
    again = {file.path: float(_reread(file)) for file in activity.files}
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
        Severity.LOW,
        f"{format_size(total)} of the {format_size(moved)} read had been written by the same job",
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


@each_way(
    read=FindingKind(
        "collective-reads",
        "Collective reads",
        "Aggregators can merge them.",
        "Nothing to fix.",
        ("M04",),
    ),
    write=FindingKind(
        "collective-writes",
        "Collective writes",
        "Aggregators can merge them.",
        "Nothing to fix.",
        ("M05",),
    ),
)
def collective_calls(activity: Activity, limits: Thresholds, kind: FindingKind, direction: str) -> Iterator[Finding]:
    """Say that a direction is collective."""
    modes = activity.totals.modes
    together = getattr(modes, f"collective_{direction}s")
    alone = getattr(modes, f"independent_{direction}s")
    if together and together / (together + alone) > limits["independent_share"]:
        part = together / (together + alone)
        yield Finding(
            kind,
            Severity.OK,
            f"{together:,} ({part:.0%}) of the MPI-IO {direction}s are collective",
            {"collective_calls": together, "independent_calls": alone},
        )


def _aggregators(activity: Activity) -> tuple[FileActivity, int, int] | None:
    """The first file with collective calls, its aggregators and the nodes; None where they are not known."""
    nodes = activity.job.nodes
    for file in activity.files:
        count = file.info.get("cb_nodes", "")
        collective = file.modes is not None and file.modes.collective_reads + file.modes.collective_writes > 0
        if nodes and count.isdigit() and collective:
            return file, int(count), nodes
    return None


@rule(
    "aggregators",
    "Number of aggregators",
    "With fewer aggregators than nodes some network links stay idle; with several per node they share one link.",
    "Start from one aggregator per node; tune finds the best number.",
    ("M08", "M09"),
)
def aggregators(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for another number of aggregators than nodes."""
    known = _aggregators(activity)
    if known is None or known[1] == known[2]:
        return
    file, number, nodes = known
    where = "several per node" if number > nodes else "fewer than one per node"
    yield Finding(
        kind,
        Severity.INFO,
        f"{number} aggregators on {nodes} node(s): {where}",
        {"aggregators": number, "nodes": nodes},
        (file.path,),
        proposal=proposed(activity, [file], [(hint("cb_nodes", str(nodes)), hint("cb_config_list", "*:1"))]),
    )


@rule(
    "aggregator-a-node",
    "One aggregator per node",
    "Each node's network link carries its part.",
    "Nothing to fix.",
    ("M10",),
)
def aggregator_a_node(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Say that each node has one aggregator."""
    known = _aggregators(activity)
    if known is not None and known[1] == known[2]:
        evidence = {"aggregators": known[1], "nodes": known[2]}
        yield Finding(kind, Severity.OK, f"one aggregator per node ({known[2]})", evidence)
