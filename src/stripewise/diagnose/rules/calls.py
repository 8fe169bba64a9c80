"""MPI-IO: what collective and independent calls became on their way to the file system.

What kind of job it is: more reading or more writing.
"""

from __future__ import annotations

from collections.abc import Iterator

from stripewise.diagnose.finding import Finding, FindingKind, Severity, each_way, rule, top, weigh
from stripewise.diagnose.limits import Thresholds
from stripewise.diagnose.rules.hdf5 import broken
from stripewise.diagnose.rules.settings import aggregation, joined, no_sieving
from stripewise.observe.activity import Activity, Calls, FileActivity, Level
from stripewise.sizes import format_size


def _modes(file: FileActivity, direction: str) -> tuple[int, int]:
    """Collective and independent data calls of a direction."""
    if file.modes is None:
        return 0, 0
    return getattr(file.modes, f"collective_{direction}s"), getattr(file.modes, f"independent_{direction}s")


@each_way(
    read=FindingKind(
        "independent-reads",
        "Independent reads of a shared file",
        "Each rank's small read is a request of its own; a collective call would let aggregators read large blocks "
        "once and pass the pieces on.",
        "Use MPI_File_read_all or read_at_all (HDF5: H5Pset_dxpl_mpio COLLECTIVE); no hint can make a call collective.",
        ("M02",),
    ),
    write=FindingKind(
        "independent-writes",
        "Independent writes to a shared file",
        "Each rank's small write is a request of its own with a lock of its own; a collective call would let "
        "aggregators merge the pieces of all ranks.",
        "Use MPI_File_write_all or write_at_all (HDF5: H5Pset_dxpl_mpio COLLECTIVE); no hint can make a call "
        "collective.",
        ("M03",),
    ),
)
def independent_calls(activity: Activity, limits: Thresholds, kind: FindingKind, direction: str) -> Iterator[Finding]:
    """Look for independent calls that a collective one would merge."""
    alone = 0
    moved = 0
    seconds = 0.0
    paths: dict[str, float] = {}
    for file in activity.files:
        # Where HDF5 itself breaks collective transfers up, asking for them is done already: another finding.
        if file.mpiio is None or file.ranks < 2 or broken(file):
            continue
        collective, independent = _modes(file, direction)
        calls: Calls = getattr(file.mpiio, direction)
        if not independent or independent / (collective + independent) < limits["independent_share"]:
            continue
        # Large contiguous calls need no merging, each is a good request already; pieces in a view do.
        if calls.mean >= limits["merge_below"] and file.view_contiguous is not False:
            continue
        alone += independent
        moved += calls.bytes
        paths[file.path] = independent
        seconds += calls.seconds
    if alone < limits["independent_calls"]:
        return
    share = activity.share(seconds)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{alone:,} independent {direction} calls of {format_size(round(moved / alone))} on average go to files that "
        "several ranks share",
        {"independent_calls": alone, "bytes": moved},
        top(paths),
        share=share,
    )


_OFF_IS_BETTER = (
    "Write or read larger pieces. No gain is expected of collective buffering here: on one node the exchange often "
    "costs more than it saves; tune measures it."
)


def piecewise(file: FileActivity, direction: str, limits: Thresholds) -> bool:
    """Whether the file system saw the pieces of collective calls one by one."""
    collective, independent = _modes(file, direction)
    if not collective or independent > collective or file.mpiio is None or file.posix is None or file.ranks < 2:
        return False
    called: Calls = getattr(file.mpiio, direction)
    made: Calls = getattr(file.posix, direction)
    return (
        made.count >= limits["piece_calls"]
        and made.mean < limits["piece_below"]
        and made.mean < limits["piece_ratio"] * called.mean
    )


@rule(
    "strided-without-buffering",
    "Strided pieces without collective buffering",
    "A collective call over scattered pieces reached the file system piece by piece, because its aggregators are "
    "switched off: many small requests where a few large ones would do.",
    "Switch collective buffering on.",
)
def strided_without_buffering(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for collective calls that are carried out in pieces."""
    for direction in ("write", "read"):
        found = [file for file in activity.files if piecewise(file, direction, limits)]
        if not found:
            continue
        pieces = sum(getattr(file.posix, direction).count for file in found)
        calls = sum(_modes(file, direction)[0] for file in found)
        moved = sum(getattr(file.posix, direction).bytes for file in found)
        share = activity.share(sum(getattr(file.upper, direction).seconds for file in found))
        off = {f"romio_cb_{direction}": "disable"}
        proposal = aggregation(activity, found, direction, off)
        yield Finding(
            kind,
            weigh(activity, limits, share),
            f"{calls:,} collective {direction}s became {pieces:,} requests of "
            f"{format_size(round(moved / pieces))} on average",
            {"direction": direction, "collective_calls": calls, "requests": pieces, "bytes": moved},
            top({file.path: getattr(file.posix, direction).count for file in found}),
            proposal=proposal,
            share=share,
            fix="" if proposal.settings else _OFF_IS_BETTER,
        )
        return


def _aggregated(file: FileActivity) -> bool | None:
    """Whether few ranks did the I/O of all; None where it cannot be told."""
    if file.beneath is not None and file.beneath.collective_ranks:
        return file.beneath.collective_ranks < file.ranks
    if file.beneath is None and file.spread is not None and file.posix is not None:
        return file.spread.fastest_bytes == 0 and file.posix.bytes > 0
    return None


@rule(
    "collective-costs",
    "Collective calls that save nothing",
    "Each rank already writes or reads one large contiguous block, yet the data is first sent to aggregators: the "
    "exchange costs time and only a few ranks do the I/O.",
    "Use collective buffering only for ranks whose pieces interleave: switch it off here.",
)
def collective_costs(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for aggregation of blocks that are large already."""
    found = []
    for file in activity.files:
        calls = sum(_modes(file, direction)[0] for direction in ("read", "write"))
        if not calls or file.mpiio is None or file.ranks < 2 or file.view_contiguous is False:
            continue
        if file.modes is not None and file.view_contiguous is None and file.modes.views:
            continue
        if file.mpiio.bytes / max(1, file.mpiio.count) >= limits["aggregate_above"] and _aggregated(file):
            found.append((file, calls))
    if not found:
        return
    files = [file for file, _ in found]
    count = sum(calls for _, calls in found)
    mean = sum(file.mpiio.bytes for file in files if file.mpiio) / max(1, sum(f.mpiio.count for f in files if f.mpiio))
    share = activity.share(sum(file.upper.read.seconds + file.upper.write.seconds for file in files))
    # That they are on is seen by what they did: a log does not hold the hints.
    each = [aggregation(activity, files, way, {f"romio_cb_{way}": "enable"}) for way in ("read", "write")]
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{count:,} collective calls of {format_size(round(mean))}, contiguous for each rank, went through aggregators",
        {
            "collective_calls": count,
            "mean_bytes": round(mean),
            "aggregators": max((file.beneath.collective_ranks for file in files if file.beneath), default=None),
        },
        top({file.path: file.bytes for file in files}),
        proposal=joined(each),
        share=share,
    )


@rule(
    "read-modify-write",
    "Reading in order to write",
    "Data sieving reads a whole block, changes the pieces in it and writes it back under a lock: more is read than "
    "anyone asked for, and ranks wait for each other.",
    "Write collectively without gaps, or larger pieces. Without data sieving (romio_ds_write disable) each piece "
    "is a request of its own, which is slower for small pieces.",
)
def read_modify_write(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for reads below write calls."""
    found: dict[str, float] = {}
    files = []
    written = 0
    seconds = 0.0
    for file in activity.files:
        if file.mpiio is None or file.posix is None or not file.mpiio.write.bytes:
            continue
        if file.beneath is not None:
            read = file.beneath.read_while_writing
        else:
            # Darshan cannot tell which call reads for a write: what nobody asked for was read for that.
            read = max(0, file.posix.read.bytes - file.mpiio.read.bytes) if not file.mpiio.read.bytes else 0
        if read >= limits["rewrite_share"] * file.mpiio.write.bytes:
            found[file.path] = read
            files.append(file)
            written += file.mpiio.write.bytes
            seconds += file.mpiio.write.seconds
    if not found:
        return
    share = activity.share(seconds)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{format_size(sum(found.values()))} were read in order to write {format_size(written)}",
        {"read_bytes": int(sum(found.values())), "written_bytes": written},
        top(found),
        proposal=no_sieving(activity, files),
        share=share,
    )


@rule(
    "shared-without-mpiio",
    "Shared files without MPI-IO",
    "Ranks that write one file through POSIX know nothing of each other: they cannot aggregate or set layout "
    "hints, and each waits for the others' locks.",
    "Open shared files through MPI-IO, or a library on it (HDF5, PnetCDF, ADIOS2); then settings can help as well.",
    ("M01",),
)
def shared_without_mpiio(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for shared files without MPI-IO."""
    if activity.kind != "darshan" or activity.job.ranks < 2:
        return
    shared = {
        file.path: float(file.bytes) for file in activity.files if file.ranks > 1 and not file.mpiio and file.posix
    }
    moved = sum(shared.values())
    if not activity.bytes or not moved or moved / activity.bytes < limits["posix_shared_share"]:
        return
    share = activity.share(sum(file.seconds for file in activity.files if file.path in shared))
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{format_size(moved)} of {format_size(activity.bytes)} went to {len(shared)} shared file(s) "
        "through POSIX alone",
        {"files": len(shared), "bytes": int(moved)},
        top(shared),
        share=share,
    )


_MORE = 0.1
"""Difference of shares from which a job counts as one or the other, as in Drishti."""


def _level(activity: Activity) -> Level:
    return activity.totals.posix if activity.totals.posix.count else activity.totals.mpiio


def _leaning(activity: Activity, kind: FindingKind, way: str) -> Iterator[Finding]:
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


@rule("write-heavy", "Mostly writing", "Settings for writes matter most.", "Nothing to fix.", ("P01", "P03"))
def write_heavy(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Say that the job mostly writes."""
    yield from _leaning(activity, kind, "write")


@rule("read-heavy", "Mostly reading", "Settings for reads matter most.", "Nothing to fix.", ("P02", "P04"))
def read_heavy(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Say that the job mostly reads."""
    yield from _leaning(activity, kind, "read")
