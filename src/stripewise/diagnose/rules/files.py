"""Files: how many, how often opened and flushed; how they are striped, and how evenly targets are used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import median

from stripewise.catalogue.expectation import Proposal
from stripewise.catalogue.filesystems import USUAL, of_file
from stripewise.diagnose.finding import (
    Finding,
    FindingKind,
    Limit,
    Severity,
    Thresholds,
    rule,
    stripes,
    top,
    weigh,
)
from stripewise.diagnose.rules.requests import are_aggregated
from stripewise.observe.activity import Activity, Calls, FileActivity, Level
from stripewise.sizes import count_of, format_size


def _is_striped(file: FileActivity) -> bool:
    return file.layout is not None or of_file(file.file_system) is USUAL


@rule(
    "file-per-process",
    "A file for each rank",
    "Thousands of creations hit the metadata server at once, and later readers of the files open thousands again.",
    "Write one shared file, or a few with a group of ranks each (subfiling). If each rank keeps its own file, use"
    " a stripe count of 1.",
    examples=("collective",),
)
def file_per_process(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for one file per rank at scale."""
    counted = activity.counted
    if counted.writers < limits["own_files"] or counted.writers < limits["own_share"] * activity.job.ranks:
        return
    own = [file for file in activity.files if file.ranks == 1 and file.upper.write.bytes]
    share = activity.share(sum(_meta(file) for file in own))
    severity = (
        weigh(activity, limits, share) if counted.writers >= 1000 else weigh(activity, limits, share, Severity.LOW)
    )
    yield Finding(
        kind,
        severity,
        f"{counted.writers:,} of {activity.job.ranks:,} ranks wrote {counted.written_single:,} files of their own",
        {"ranks": counted.writers, "files": counted.written_single},
        top({file.path: float(file.bytes) for file in own}),
        proposal=stripes(activity, [file for file in own if _is_striped(file)], 1),
        share=share,
    )


_NO_METADATA = frozenset({"sync", "seek", "map", "advise"})
"""Calls that move no data, but ask no metadata server; of flushes another finding tells."""


def _meta(file: FileActivity) -> float:
    levels = [level for level in (file.mpiio or file.posix, file.stdio) if level is not None]
    return sum(level.meta_seconds - sum(level.calls.get(name, 0.0) for name in _NO_METADATA) for level in levels)


_FLUSH_ONCE = "Flush once before the file is closed, or at each checkpoint that must survive."


def search_packages(activity: Activity, limits: Thresholds) -> tuple[int, int] | None:
    """Give the calls on paths and the opens of modules where two of three files that a job opens are modules."""
    opened = sum(file.lower.opens for file in activity.files if file.of_python)
    # A report has failed opens among the calls on paths; a log counts opens that succeeded by file.
    processes = activity.processes
    calls = sum(one.path_calls for one in processes) if processes else activity.totals.posix.stats
    if opened < limits["import_files"] or calls < limits["import_calls"]:
        return None
    if not limits["import_ratio"] <= calls / opened <= limits["import_most"]:
        return None
    others = sum(file.lower.opens for file in activity.files if not file.installed)
    return (calls, opened) if 2 * others <= opened else None


@rule(
    "metadata-storm",
    "Time goes to metadata",
    "Opens, stats and creations are served by few metadata servers; they do not get faster with more ranks.",
    "Open once and keep files open, stat on one rank, use fewer files; with HDF5, use collective metadata.",
    ("P17",),
    examples=("open_once",),
)
def metadata_storm(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for a great part of the time, or much time of one rank, in calls that move no data.

    Where files are small a write takes as long as an open, and where memory answers both are short: a job that opens as
    often as it moves data, and moves less than a page each time, does nothing else whatever the clock says.
    """
    totals = activity.totals
    spent = sum(_meta(file) for file in activity.files)
    levels: tuple[Level, ...] = (totals.posix, totals.stdio)
    named = "opens, stats and flushes of"
    parallel = activity.counts_opens_once and "MPI-IO" in activity.seen
    through = False
    if activity.counts_opens_once:
        own = sum(_meta(file) for file in activity.files if file.mpiio is not None)
        # Calls on paths belong to no file: they are in the totals alone.
        beside = spent - own + sum(totals.posix.calls.values())
        # What MPI looks for as it starts is no reason for what its files cost.
        through = parallel and own >= beside
        levels, spent = ((totals.mpiio,), own) if through else (levels, beside)
        named = named if through else "opens, stats, renames and deletions, with"
    calls = sum(level.opens + level.stats + level.syncs for level in levels)
    a_rank = spent / activity.job.ranks
    share = activity.share(spent)
    moved = sum(level.bytes for level in levels)
    # Streams gather their calls: only the others are requests.
    asked = sum(level.opens + level.stats for level in levels)
    nothing_else = asked >= levels[0].count and moved < limits["meta_bytes"] * asked
    great = share >= limits["meta_share"] or (nothing_else and (through or not parallel))
    own_calls = calls - (_OF_MPI * activity.job.ranks if parallel and not through else 0)
    opening = own_calls >= limits["meta_calls"] and great and calls > _find_least_storm(activity)
    if not opening and a_rank < limits["meta_seconds"]:
        return
    if not through and search_packages(activity, limits) is not None:
        return  # a finding of its own, with another cause
    what = f"{calls:,} {named} {count_of(activity.counted.files, 'file')}"
    timed = f"{share:.0%} of the I/O time ({spent:.3g} s over all processes) went to {what}"
    if activity.io_time is None:
        timed = f"{spent:.3g} s over all processes and threads went to {what}"
    elif share < limits["meta_share"] and nothing_else:
        timed = f"{what} took only {share:.0%} of the I/O time here ({spent:.3g} s over all processes)"
    longest = _find_longest(activity, spent, through)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        timed + longest
        if activity.timed
        else f"{what} are nearly all that the job did; how long they took was not recorded",
        {"meta_seconds": spent, "share": share, "calls": calls, "files": activity.counted.files},
        top({file.path: _meta(file) for file in activity.files if _meta(file)}),
        share=share,
        fix=_FEWER if activity.job.interface else _VIEWS if "set_view" in longest else "",
    )


_VIEWS = (
    "MPI_File_set_view waits for all ranks. Set the view once for each file, not before each call; HDF5 sets it for "
    "each collective transfer, so move more with each."
)
_FEWER = "Use fewer files, keep them open, and look less often for what is there."


_MOST = 0.5
_OF_MPI = 400
"""Calls on paths that a process makes at most as MPI starts: 294 with MPICH 4.0.2, 273 with Open MPI 4.1.4."""


_ON_PATHS = {"failed_open": "opens that failed", "list": "listing folders", "change": "changes of paths"}


def _find_longest(activity: Activity, spent: float, through: bool) -> str:
    """Name the call that took most of the time, as far as the source tells; empty where it does not."""
    paths = {} if through else activity.totals.posix.calls
    named = Counter({_ON_PATHS.get(name, name): spent for name, spent in paths.items()})
    own = views = 0.0
    for file in activity.files:
        prefix = "MPI_File_" if through else ""
        calls = file.upper.calls if through == (file.mpiio is not None) else {}
        named.update({f"{prefix}{name}": spent for name, spent in calls.items() if name not in _NO_METADATA})
        if file.mpiio is not None and file.posix is not None and not file.mpiio.calls:
            own += max(0.0, file.mpiio.meta_seconds - file.posix.meta_seconds)
            views += file.modes.views if file.modes is not None else 0
    if named:
        words, seconds = named.most_common(1)[0]
        return f"; {words} took {seconds:.3g} s of them"
    if own >= _MOST * spent and views:
        return (
            f"; {own:.3g} s of them passed within MPI-IO itself, not in the file system: in MPI_File_open, close or "
            f"set_view, which was called {views:,.0f} times"
        )
    return ""


def _find_least_storm(activity: Activity) -> float:
    """A tenth of the data calls: fewer metadata calls than this are not a storm, whatever a slow one took."""
    return 0.1 * (activity.totals.posix.count + activity.totals.stdio.count or activity.totals.mpiio.count)


def _opened(file: FileActivity) -> Level:
    """The level at which the program opened a file: MPI-IO opens it more often than it is asked to."""
    return file.mpiio or file.posix or file.stdio or Level()


def _opening(file: FileActivity) -> float:
    """Seconds in opens and closes; where the source does not tell them apart, in all that moves no data."""
    made = _opened(file).calls
    return made.get("open", 0.0) + made.get("close", 0.0) if made else _meta(file)


@rule(
    "reopens",
    "Files opened again and again",
    "Each open asks the metadata server and throws away what the client had cached.",
    "Open before the loop and close after it; with HDF5 raise the file-close degree or keep the file handle.",
    examples=("open_once",),
)
def reopens(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for files that their ranks open many times."""
    again: dict[str, float] = {}
    seconds = 0.0
    for file in activity.files:
        opens = _opened(file).opens
        # A collective open counts once in reports, once a rank in logs; others count in each process.
        together = activity.counts_opens_once and file.mpiio is not None
        once = 1 if together else max(1, file.ranks, file.processes or 0)
        if opens / once >= limits["reopens"] and not file.stands_for_several and not file.installed:
            again[file.path] = opens - once
            seconds += _opening(file) * again[file.path] / opens
    needed = limits["reopened_opens"] / (activity.job.ranks if activity.counts_opens_once else 1)
    if sum(again.values()) < needed:
        return
    share = activity.share(seconds)
    if 0 < share < limits["reopen_share"] and sum(again.values()) < 2 * needed:
        return
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{count_of(len(again), 'file was', 'files were')} opened {sum(again.values()):,.0f} times more than needed",
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
    # Nobody combines the files of installed software; of the imports of Python another finding tells.
    installed = [file for file in activity.files if file.installed]
    small = activity.counted.small - sum(0 < file.bytes < 1 << 20 for file in installed)
    files = activity.counted.files - len(installed)
    if small < limits["small_files"] or small < limits["small_files_share"] * files:
        return
    share = activity.share(sum(_meta(file) for file in activity.files if not file.installed))
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{small:,} of {count_of(files, 'file')} have less than 1 MiB",
        {"small_files": small, "files": files, "folders": activity.counted.folders},
        proposal=stripes(activity, [file for file in activity.files if _is_striped(file)], 1),
        share=share,
    )


@rule(
    "flushes",
    "Flushes",
    "Each flush writes at once what could wait, and so defeats write-behind.",
    _FLUSH_ONCE,
)
def flushes(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for files that are flushed after few writes."""
    for name, call in (("posix", "fsync"), ("mpiio", "MPI_File_sync"), ("stdio", "fflush")):
        found = [(file, level) for file in activity.files if _is_flushed(level := getattr(file, name), file, limits)]
        if not found:
            continue
        share = activity.share(sum(level.meta_seconds + level.write.seconds for _, level in found))
        if name == "stdio" and share < limits["flush_share"]:
            continue
        total, writes = (sum(getter(level) for _, level in found) for getter in (_count_syncs, _count_writes))
        yield Finding(
            kind,
            weigh(activity, limits, share, Severity.LOW if name == "stdio" else Severity.HIGH),
            f"{total:,} calls of {call} for {writes:,} writes",
            {"flushes": total, "writes": writes, "call": call},
            top({file.path: float(level.syncs) for file, level in found}),
            share=share,
            fix=_FLUSH_STREAMS if name == "stdio" else "",
        )
        return
    waits = {file.path: wait for file in activity.files if (wait := file.upper.calls.get("sync", 0.0))}
    spent = sum(waits.values())
    share = activity.share(spent)
    if share < limits["flush_wait"] and spent < limits["meta_seconds"] * activity.job.ranks:
        return
    total = sum(file.upper.syncs for file in activity.files)
    # One by each rank for each file, when it is complete, is what safety costs.
    once = sum(file.ranks for file in activity.files if file.path in waits)
    most = Severity.MEDIUM if total <= 2 * once else Severity.HIGH
    yield Finding(
        kind,
        weigh(activity, limits, share, most),
        f"{count_of(total, 'flush', 'flushes')} to disk took {spent:.3g} s, {share:.0%} of the I/O time",
        {"flushes": total, "seconds": spent},
        top(waits),
        share=share,
        fix=_FLUSH_LATE,
    )


_FLUSH_LATE = (
    "A flush waits until the data is on disk. Flush only what a crash must not take, once it is complete; with a "
    "database, put more into each transaction."
)
_FLUSH_STREAMS = (
    "fflush passes the buffer to the kernel and waits for no disk, but each call costs a write of its own. Flush less "
    "often, or let the stream do it when its buffer is full."
)
_FEW = 4
"""Flushes by each rank that are as many as a phase needs: at its end, and when the file is closed."""


def _is_flushed(level: Level | None, file: FileActivity, limits: Thresholds) -> bool:
    few = level is None or not level.write.count or level.syncs < _FEW * file.ranks
    if level is None or few or file.stands_for_several:
        return False
    return level.syncs - file.ranks >= limits["syncs"] and level.write.count / level.syncs < limits["writes_a_sync"]


def _count_syncs(level: Level) -> int:
    return level.syncs


def _count_writes(level: Level) -> int:
    return level.write.count


_GRADES = "ABCDE"


def _extent(file: FileActivity) -> int:
    lower = file.lower
    return max(lower.read.extent or 0, lower.write.extent or 0, file.size or 0)


def _is_narrow(file: FileActivity, limits: Thresholds) -> bool:
    return (
        file.layout is not None
        and file.layout.stripe_count == 1
        and file.ranks >= limits["one_stripe_writers"]
        and _extent(file) >= limits["one_stripe_bytes"]
    )


def _is_wide(file: FileActivity, limits: Thresholds) -> bool:
    return (
        file.layout is not None
        and file.layout.stripe_count > 1
        and 0 < _extent(file) < limits["wide_stripe_bytes"] * file.layout.stripe_count
        and _extent(file) <= file.layout.stripe_size * (file.layout.stripe_count - 1)
    )


@rule(
    "one-stripe",
    "One stripe under many ranks",
    "All ranks share the bandwidth of a single storage target, while the others are idle.",
    "Set a layout with more targets before the file is created.",
    examples=("striping",),
)
def one_stripe(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for large shared files on one stripe."""
    found = [file for file in activity.files if _is_narrow(file, limits)]
    if not found:
        return
    largest = max(_extent(file) for file in found)
    ranks = max(file.ranks for file in found)
    share = activity.share(sum(file.seconds for file in found))
    # Four stripes for each GiB, at most one for each rank: a start that tune improves on.
    wanted = max(2, min(ranks, 64, -(-largest // (1 << 30)) * 4))
    files = f"1 file of {format_size(largest)} on one stripe"
    if len(found) > 1:
        files = f"{len(found):,} files of up to {format_size(largest)} on one stripe each"
    # Only a new file gets another layout: one that the job only reads was there before.
    new = [file for file in found if file.upper.write.bytes or (file.stdio and file.stdio.write.bytes)]
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{ranks:,} ranks use {files}",
        {"files": len(found), "ranks": ranks, "largest_bytes": largest},
        top({file.path: float(_extent(file)) for file in found}),
        proposal=stripes(activity, new, wanted),
        share=share,
        fix="" if new else _LAY_OUT_AGAIN,
    )


_LAY_OUT_AGAIN = (
    "The job only reads this file, and settings lay out new files alone. Lay it out over more targets with lfs migrate "
    "-c, or copy it into a folder with such a layout."
)


@rule(
    "wide-stripes",
    "Wide stripes under small files",
    "Each stripe costs an object on another server at creation, stat and deletion, though the data fits on one.",
    "Give folders of small files a stripe count of 1.",
    examples=("striping",),
)
def wide_stripes(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for many small files with many stripes."""
    found = [file for file in activity.files if _is_wide(file, limits)]
    if len(found) < limits["wide_stripe_files"]:
        return
    width = max(file.layout.stripe_count for file in found if file.layout)
    share = activity.share(sum(file.upper.meta_seconds for file in found))
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{count_of(len(found), 'file has', 'files have')} less than {format_size(int(limits['wide_stripe_bytes']))} "
        f"for each stripe, of up to {width:,}",
        {"files": len(found), "stripe_count": width},
        top({file.path: float(file.layout.stripe_count) for file in found if file.layout}),
        proposal=stripes(activity, found, 1),
        share=share,
    )


def _find_usual(file: FileActivity) -> int:
    """Bytes of the file's most frequent request that could cross a stripe's boundary; 0 where unknown."""
    level = file.lower if file.lower.common or file.lower.write.common or file.lower.read.common else file.upper
    both = (level.write, level.read)
    sizes = [size for calls in both for size, _ in calls.common] or [size for size, _ in level.common]
    sizes += [calls.largest or 0 for calls in both]
    return next((size for size in sizes if size >= 64 << 10), 0)


def _off_stripe(file: FileActivity) -> bool:
    """Whether the file's usual request neither divides nor is a multiple of its stripe."""
    layout, size = file.layout, _find_usual(file)
    if layout is None or layout.stripe_size <= 0 or layout.stripe_count < 2 or file.ranks < 2 or not size:
        return False
    if are_aggregated(file) or not file.upper.write.bytes:
        return False
    return size % layout.stripe_size != 0 and layout.stripe_size % size != 0


@rule(
    "stripe-unaligned",
    "Requests across stripe boundaries",
    "A request that spills over into the next stripe needs two servers and two locks, and its neighbour "
    "needs the same ones.",
    "Choose a stripe size that the request size divides, or the reverse.",
    examples=("striping",),
)
def stripe_unaligned(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for request sizes that do not fit the stripes."""
    found = [file for file in activity.files if _off_stripe(file)]
    moved = sum(file.bytes for file in found)
    if not found or moved < limits["stripe_share"] * activity.bytes:
        return
    share = activity.share(sum(file.upper.read.seconds + file.upper.write.seconds for file in found))
    first = max(found, key=lambda file: file.bytes)
    assert first.layout is not None
    usual, proposal = _find_usual(first), Proposal()
    if usual % 65536 == 0:
        proposal = stripes(activity, [first], first.layout.stripe_count, usual)
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"requests of {usual:,} bytes do not fit stripes of {first.layout.stripe_size:,} bytes in "
        f"{count_of(len(found), 'file')}",
        {"request_bytes": usual, "stripe_size": first.layout.stripe_size, "files": len(found)},
        top({file.path: float(file.bytes) for file in found}),
        proposal=proposal,
        share=share,
    )


def _compare_targets(activity: Activity, limits: Thresholds) -> tuple[dict[int, int], int | None]:
    """Give the bytes of each target, and the fullest one where it can hold the others up."""
    loads = {target: load.bytes for target, load in activity.osts.items() if load.bytes}
    # One rank uses its targets one after the other.
    if len(loads) < 2 or activity.job.ranks < 2:
        return loads, None
    fullest = max(loads, key=lambda target: loads[target])
    narrow = [file for file in activity.files if file.layout and fullest in file.layout.osts]
    if sum(file.bytes for file in narrow if _is_narrow(file, limits)) >= loads[fullest] / 2:
        return loads, None  # a file on one stripe is the cause, which is a finding of its own
    return loads, fullest


@rule(
    "ost-imbalance",
    "Uneven load on the storage targets",
    "The fullest target is done last, and everyone waits for it.",
    "Let the file system choose the targets (no start index), and use more stripes for large files.",
)
def ost_imbalance(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Compare the bytes of the targets."""
    loads, fullest = _compare_targets(activity, limits)
    if fullest is None:
        return
    mean = sum(loads.values()) / len(loads)
    if loads[fullest] / mean < limits["ost_ratio"] or loads[fullest] < limits["balance_bytes"]:
        return
    share = 1 - mean / loads[fullest]
    striped = [file for file in activity.files if file.layout and fullest in file.layout.osts]
    concerned = activity.share(share * sum(file.seconds for file in striped))
    yield Finding(
        kind,
        weigh(activity, limits, concerned),
        f"OST {fullest} carried {format_size(loads[fullest])}, {loads[fullest] / mean:.1f} times the mean "
        f"of {len(loads)}",
        {"fullest_ost": fullest, "bytes": loads[fullest], "mean_bytes": round(mean), "osts": len(loads)},
        top({file.path: float(file.bytes) for file in striped}),
        share=concerned,
    )


@rule(
    "slow-ost",
    "A slow storage target",
    "One target needs far more time per byte than the others: it is busy with other jobs, rebuilding or failing.",
    "Tell the operators; avoid the target with a pool or a list of targets until it is repaired. The settings are"
    " not the cause.",
)
def slow_ost(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Compare the seconds per byte of the targets, where a trace or files on one target tell them."""
    costs = seconds_a_byte(activity)
    if len(costs) < 4:
        return
    middle = median(costs.values())
    slow = {target: cost for target, cost in costs.items() if middle > 0 and cost / middle >= limits["ost_time_ratio"]}
    if not slow or len(slow) > len(costs) / 4:
        return
    worst = max(slow, key=lambda target: slow[target])
    on_it = [file for file in activity.files if file.layout and worst in file.layout.osts]
    share = activity.share(sum(file.seconds * (1 - middle / slow[worst]) for file in on_it))
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"OST {worst} took {slow[worst] / middle:.1f} times as long per byte as the median of {len(costs)} OSTs",
        {"osts": {str(target): round(cost / middle, 2) for target, cost in slow.items()}, "compared": len(costs)},
        top({file.path: file.seconds for file in on_it}),
        share=share,
    )


def seconds_a_byte(activity: Activity) -> dict[int, float]:
    """Seconds per byte of each target: from a trace, else from the files that lie on one target alone."""
    traced = {
        t: load.seconds / load.bytes for t, load in activity.osts.items() if load.seconds and load.bytes > 1 << 20
    }
    if traced:
        return traced
    seconds: dict[int, float] = {}
    moved: dict[int, int] = {}
    for file in activity.files:
        if file.layout is not None and len(file.layout.osts) == 1 and file.bytes:
            target = file.layout.osts[0]
            seconds[target] = seconds.get(target, 0.0) + file.seconds
            moved[target] = moved.get(target, 0) + file.bytes
    return {target: seconds[target] / moved[target] for target in seconds if moved[target] > 1 << 20}


def _list_sorts(calls: Calls, direction: str, limits: Thresholds) -> Iterator[str]:
    """Name the sort of one file's requests of a direction, as file systems advise on it."""
    if not calls.count or calls.bytes < limits["client_bytes"]:
        return
    if calls.mean >= limits["client_large"]:
        yield "large"
    elif calls.mean <= limits["client_small"] and direction == "write":
        yield "small writes"
    elif direction == "read" and calls.sequential is not None:
        backwards = 1 - calls.sequential / calls.count
        if backwards >= limits["random_share"]:
            yield "reads at random"
        elif calls.mean <= limits["client_small"]:
            yield "small reads in sequence"


@rule(
    "client-settings",
    "What operators could change on the clients",
    "The client of the file system limits how much is under way, dirty in memory or read ahead, and the program cannot"
    " change that.",
    "Take these numbers to the operators; Stripewise changes nothing of it.",
    limits={
        "client_bytes": Limit(1 << 30, "B", "of a direction on one file, from which client settings are worth a word"),
        "client_large": Limit(4 << 20, "B", "mean request that is large for a client"),
        "client_small": Limit(64 << 10, "B", "mean request that is small for a client"),
    },
)
def client_settings(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Name the clients' settings that fit the requests."""
    moved: dict[str, dict[str, float]] = {}
    for file in activity.files:
        known = of_file(file.file_system or (file.layout.file_system if file.layout else None)).client_settings
        sorts = {sort for way in ("read", "write") for sort in _list_sorts(getattr(file.lower, way), way, limits)}
        if sorts and file.lower.unaligned_file and file.lower.unaligned_file >= limits["unaligned_calls"]:
            sorts.add("unaligned")
        for sort in sorts & known.keys():
            moved.setdefault(f"{sort}: {known[sort]}", {})[file.path] = float(file.bytes)
    if not moved:
        return
    advice = sorted(moved, key=lambda words: sum(moved[words].values()), reverse=True)
    paths = {path: size for files in moved.values() for path, size in files.items()}
    yield Finding(
        kind,
        Severity.INFO,
        f"settings of the clients may limit {count_of(len(paths), 'file')} with {format_size(sum(paths.values()))}",
        {"files": len(paths), "bytes": round(sum(paths.values()))},
        top(paths),
        fix=f"Ask the operators about, for requests that are {'; '.join(advice)}. Stripewise changes nothing of it.",
    )


@rule(
    "striping-grade",
    "Grade of the layout",
    "Large shared files need many stripes and small ones need one; requests should fit the stripes, and all "
    "targets should be used evenly.",
    "See the findings on layout.",
)
def striping_grade(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Grade the striping chosen, A to E."""
    striped = [file for file in activity.files if file.layout is not None and file.bytes]
    moved = sum(file.bytes for file in striped)
    if not moved:
        return
    poor = sum(file.bytes for file in striped if _is_narrow(file, limits))
    wide = sum(_is_wide(file, limits) for file in striped) / len(striped)
    off = sum(file.bytes for file in striped if _off_stripe(file))
    loads, fullest = _compare_targets(activity, limits)
    uneven = 0.0 if fullest is None else 1 - sum(loads.values()) / len(loads) / loads[fullest]
    # Each fault counts with the part of the data (wide stripes: of the files) that it concerns.
    fault = poor / moved + 0.5 * wide + 0.5 * off / moved + 0.7 * uneven
    grade = _GRADES[min(4, int(fault * 5))]
    yield Finding(
        kind,
        Severity.OK if grade in "AB" else Severity.INFO,
        f"striping {grade}: {poor / moved:.0%} of the bytes on one stripe, {off / moved:.0%} across stripe boundaries, "
        f"{wide:.0%} of the files too wide, {uneven:.0%} lost to uneven targets",
        {"grade": grade, "narrow": poor / moved, "wide": wide, "unaligned": off / moved, "uneven": uneven},
    )
