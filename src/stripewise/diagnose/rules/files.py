"""Files as such: how many, how often opened, created and flushed."""

from __future__ import annotations

from collections.abc import Iterator

from stripewise.catalogue.filesystems import USUAL, of_file
from stripewise.diagnose.finding import Finding, FindingKind, Severity, rule, top, weigh
from stripewise.diagnose.limits import Thresholds
from stripewise.diagnose.rules.settings import stripes
from stripewise.observe.activity import Activity, FileActivity, Level


def _striped(file: FileActivity) -> bool:
    return file.layout is not None or of_file(file.file_system) is USUAL


@rule(
    "file-per-process",
    "A file for each rank",
    "Thousands of creations hit the metadata server at once, and whoever reads the files later opens thousands again.",
    "Write one shared file, or a few with a group of ranks each (subfiling); if each rank keeps its own file, use"
    " a stripe count of 1.",
)
def file_per_process(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for one file per rank at scale."""
    counted = activity.counted
    if counted.writers < limits["own_files"] or counted.writers < limits["own_share"] * activity.job.ranks:
        return
    own = [file for file in activity.files if file.ranks == 1 and file.upper.write.bytes]
    share = activity.share(sum(file.seconds for file in own))
    severity = (
        weigh(activity, limits, share) if counted.writers >= 1000 else weigh(activity, limits, share, Severity.LOW)
    )
    yield Finding(
        kind,
        severity,
        f"{counted.writers:,} of {activity.job.ranks:,} ranks wrote {counted.written_single:,} files of their own",
        {"ranks": counted.writers, "files": counted.written_single},
        top({file.path: float(file.bytes) for file in own}),
        proposal=stripes(activity, [file for file in own if _striped(file)], 1),
        share=share,
    )


def _meta(file: FileActivity) -> float:
    level = file.mpiio or file.posix
    return (level.meta_seconds if level else 0.0) + (file.stdio.meta_seconds if file.stdio else 0.0)


@rule(
    "metadata-storm",
    "Time goes to metadata",
    "Opens, stats and creations are served by few metadata servers; they do not get faster with more ranks.",
    "Open once and keep files open, stat on one rank, use fewer files; with HDF5, use collective metadata.",
    ("P17",),
)
def metadata_storm(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for a great part of the time, or much time of one rank, in calls that move no data.

    Where files are small a write takes as long as an open, and where memory answers both are short: a job that opens as
    often as it moves data, and moves less than a page each time, does nothing else whatever the clock says.
    """
    totals = activity.totals
    spent = sum(_meta(file) for file in activity.files)
    levels: tuple[Level, ...] = (totals.posix, totals.stdio)
    if activity.counts_opens_once and "MPI-IO" in activity.seen:
        levels = (totals.mpiio,)
    elif activity.counts_opens_once:
        # Calls on paths belong to no file: they are in the totals alone.
        spent = totals.posix.meta_seconds
    calls = sum(level.opens + level.stats + level.syncs for level in levels)
    a_rank = spent / activity.job.ranks
    share = activity.share(spent)
    moved = sum(level.bytes for level in levels)
    # Streams gather their calls: only the others are requests.
    nothing_else = calls >= levels[0].count and moved < limits["meta_bytes"] * calls
    great = share >= limits["meta_share"] or nothing_else
    opening = calls >= limits["meta_calls"] and great and calls > _moving(activity)
    if not opening and a_rank < limits["meta_seconds"]:
        return
    what = f"{calls:,} opens, stats and flushes of {activity.counted.files:,} files"
    timed = f"{share:.0%} of the I/O time ({spent:.3g} s over all ranks) went to {what}"
    yield Finding(
        kind,
        weigh(activity, limits, share),
        timed if activity.timed else f"{what} are nearly all that the job did; how long they took was not recorded",
        {"meta_seconds": spent, "share": share, "calls": calls, "files": activity.counted.files},
        top({file.path: _meta(file) for file in activity.files if _meta(file)}),
        share=share,
    )


def _moving(activity: Activity) -> float:
    """A tenth of the data calls: fewer metadata calls than this are not a storm, whatever a slow one took."""
    return 0.1 * (activity.totals.posix.count + activity.totals.stdio.count or activity.totals.mpiio.count)


def _opened(file: FileActivity) -> Level:
    return file.posix or file.stdio or file.mpiio or Level()


@rule(
    "reopens",
    "Files opened again and again",
    "Each open asks the metadata server and throws away what the client had cached.",
    "Open before the loop and close after it; with HDF5 raise the file-close degree or keep the file handle.",
)
def reopens(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for files that their ranks open many times."""
    again: dict[str, float] = {}
    seconds = 0.0
    for file in activity.files:
        opens = _opened(file).opens
        # A collective open counts once in reports, once a rank in logs.
        each = opens if activity.counts_opens_once else opens / max(1, file.ranks)
        if each >= limits["reopens"]:
            again[file.path] = opens - (1 if activity.counts_opens_once else file.ranks)
            seconds += _meta(file)
    needed = limits["reopened_opens"] / (activity.job.ranks if activity.counts_opens_once else 1)
    if sum(again.values()) < needed:
        return
    share = activity.share(seconds)
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{len(again)} file(s) were opened {sum(again.values()):,.0f} times more than needed",
        {"files": len(again), "opens_again": int(sum(again.values()))},
        top(again),
        share=share,
    )


@rule(
    "small-files",
    "Many small files",
    "A small file costs as many metadata requests as a large one, for little data.",
    "Combine them: one shared file, an archive, or a container format (HDF5, ADIOS2).",
)
def small_files(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for many files with little data."""
    counted = activity.counted
    if counted.small < limits["small_files"] or counted.small < limits["small_files_share"] * counted.files:
        return
    share = activity.share(sum(_meta(file) for file in activity.files))
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{counted.small:,} of {counted.files:,} files have less than 1 MiB",
        {"small_files": counted.small, "files": counted.files, "folders": counted.folders},
        proposal=stripes(activity, [file for file in activity.files if _striped(file)], 1),
        share=share,
    )


@rule(
    "flushes",
    "Frequent flushes",
    "Each flush waits until the data is on the disks, and so defeats write-behind.",
    "Flush once before the file is closed, or at each checkpoint that must survive.",
)
def flushes(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for files that are flushed after few writes."""
    found: dict[str, float] = {}
    seconds = 0.0
    writes = 0
    for file in activity.files:
        for level in (file.posix, file.stdio, file.mpiio):
            if level is None or not level.write.count:
                continue
            extra = level.syncs - file.ranks
            if extra >= limits["syncs"] and level.write.count / level.syncs < limits["writes_a_sync"]:
                found[file.path] = max(found.get(file.path, 0.0), level.syncs)
                seconds += level.meta_seconds + level.write.seconds
                writes += level.write.count
                break
    if not found:
        return
    share = activity.share(seconds)
    total = int(sum(found.values()))
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{total:,} flushes for {writes:,} writes",
        {"flushes": total, "writes": writes},
        top(found),
        share=share,
    )
