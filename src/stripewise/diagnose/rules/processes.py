"""Ranks and processes: who moves how much and who is slow; training jobs, their loaders, and Python itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from stripewise.catalogue.filesystems import GENERIC, of_file
from stripewise.diagnose.finding import (
    Finding,
    FindingKind,
    Limit,
    Severity,
    Thresholds,
    rule,
    top,
    weigh,
)
from stripewise.diagnose.rules.files import search_packages
from stripewise.diagnose.rules.requests import are_aggregated
from stripewise.observe.activity import Activity, Calls, FileActivity, ProcessActivity
from stripewise.sizes import count_of, format_size

_SMALL_BINS = 4


@rule(
    "read-by-every-process",
    "As many reads of a file as processes",
    "N processes fetch N times the bytes of the file, and the servers deliver each of them.",
    "Give each process its part of the samples (a sampler or shards per process), or read the file once per node. "
    "Share it by a copy on local disk, by shared memory, or by one reader that sends.",
    limits={"whole_share": Limit(0.25, "share", "of all bytes, read by a process although another one read them")},
)
def read_by_every_process(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for files that several processes read from end to end.

    Epochs over a contiguous part each are not the fault. A sampler that draws each process a new part in each epoch
    is: in the end each has read the whole file.
    """
    whole: dict[str, float] = {}
    seconds, most, held = 0.0, 0, 0
    for file in activity.files:
        read, size, readers = file.lower.read, file.size or 0, file.whole_readers or 0
        if readers > 1 and size and file.whole_read and not file.installed:
            whole[file.path] = file.whole_read - size
            seconds += read.seconds * (file.whole_read - size) / read.bytes
            most = max(most, readers)
            held += size
    again = int(sum(whole.values()))
    if again < limits["redundant_bytes"] or again < limits["whole_share"] * activity.bytes:
        return
    share, times = activity.share(seconds), (held + again) / held
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{count_of(len(whole), 'file')} read {times:.1f} times over by up to {most:,} processes: "
        f"{format_size(again)} more than {'the file holds' if len(whole) == 1 else 'the files hold'}",
        {"files": len(whole), "processes": most, "times": round(times, 2), "again_bytes": again},
        top(whole),
        share=share,
    )


def _count_scattered(calls: Calls) -> int | None:
    """Calls that neither continue the last one nor repeat its stride; where only a direction is known, the backward."""
    if calls.random is not None:
        return calls.random
    return None if calls.sequential is None else max(0, calls.count - calls.sequential)


def _at_random(file: FileActivity, limits: Thresholds) -> bool:
    calls = file.lower.read
    scattered = _count_scattered(calls)
    return (
        scattered is not None
        and calls.count >= limits["sample_reads"]
        and scattered >= limits["sample_random"] * calls.count
    )


@rule(
    "small-samples",
    "One small read per sample",
    "A loader that fetches each sample by itself in shuffled order waits once per sample, and read-ahead cannot help.",
    "Read batches: store samples in shards of some 100 MiB, shuffle the shards and a buffer of samples, and read whole "
    "blocks. Or let more workers read at the same time.",
    limits={
        "sample_reads": Limit(200, "count", "reads of a file, from which their order is judged"),
        "sample_random": Limit(0.35, "share", "of a file's reads that are in no order"),
        "sample_share": Limit(0.9, "share", "of a file's reads of at most 100 KiB, which are samples"),
    },
)
def small_samples(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for files that are read in small pieces at random places."""
    found: dict[str, FileActivity] = {}
    for file in activity.files:
        small = None if file.installed else file.lower.read.below(_SMALL_BINS)
        if small is not None and small >= limits["sample_share"] * file.lower.read.count and _at_random(file, limits):
            found[file.path] = file
    if not found or activity.totals.mpiio.count:
        return
    reads = [file.lower.read for file in found.values()]
    count, moved = sum(calls.count for calls in reads), sum(calls.bytes for calls in reads)
    share = activity.share(sum(calls.seconds for calls in reads))
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{count:,} reads of {format_size(round(moved / count))} on average, at random places of "
        f"{count_of(len(found), 'file')}",
        {"reads": count, "bytes": moved, "files": len(found)},
        top({path: file.lower.read.seconds for path, file in found.items()}),
        share=share,
    )


@rule(
    "random-striped",
    "Random reads of a striped file",
    "Each read of a sample goes to another server, and one that crosses a stripe to two. Stripes add requests, not "
    "speed, while none is large enough to use several servers.",
    "Put files that are read at random on one stripe each, and spread many such files over the servers; or read whole "
    "stripes.",
)
def random_striped(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for reads in no order, smaller than a stripe, of files on several stripes."""
    found: dict[str, FileActivity] = {}
    for file in activity.files:
        layout = file.layout
        striped = layout is not None and layout.stripe_count > 1 and file.lower.read.mean < layout.stripe_size
        # A file that the job also writes needs its stripes for that.
        if striped and not file.lower.write.bytes and _at_random(file, limits):
            found[file.path] = file
    if not found:
        return
    widest = max(file.layout.stripe_count for file in found.values() if file.layout)
    share = activity.share(sum(file.lower.read.seconds for file in found.values()))
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{count_of(len(found), 'file was', 'files were')} read at random places in pieces smaller than a stripe, "
        f"on up to {widest} stripes",
        {"files": len(found), "stripes": widest},
        top({path: file.lower.read.seconds for path, file in found.items()}),
        share=share,
    )


_IMPORT_LESS = "Shorten PYTHONPATH, keep .pyc files, and import in one process before it forks the others."


@rule(
    "import-storm",
    "Python searches its packages",
    "Each import looks for many names in every folder of sys.path, and each process of a job does it again. These are "
    "thousands of requests to the metadata servers before the program begins.",
    f"Put the environment on local disk or into a container image (one file). {_IMPORT_LESS}",
    limits={
        "import_files": Limit(40, "count", "modules of Python that were opened"),
        "import_calls": Limit(250, "count", "stats, failed opens and listings"),
        "import_ratio": Limit(2.0, "ratio", "calls on paths to opened modules"),
        "import_most": Limit(60.0, "ratio", "the same, at most"),
    },
)
def import_storm(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for many calls on paths beside many modules of Python."""
    found = search_packages(activity, limits)
    if found is None:
        return
    calls, opened = found
    processes = activity.processes
    modules = [file for file in activity.files if file.of_python]
    others = [file for file in activity.files if not file.of_python]
    paths = activity.totals.posix
    renamed = paths.calls.get("change", 0.0)
    spent = max(0.0, paths.meta_seconds - renamed - sum(f.posix.meta_seconds for f in others if f.posix))
    shared = sorted({file.file_system or "" for file in modules if of_file(file.file_system) is not GENERIC})
    share = activity.share(spent)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{calls:,} stats, failed opens and listings beside {opened:,} opens of files of Python packages"
        + (f" on {', '.join(shared)}" if shared else ""),
        {"calls": calls, "modules": opened, "processes": len(processes), "seconds": spent},
        top({file.path: file.lower.meta_seconds for file in modules}),
        share=share,
        fix=_IMPORT_LESS if all(file.file_system in GENERIC.local for file in modules) else "",
    )


@rule(
    "checkpoint-one-rank",
    "One rank writes the checkpoint",
    "One process and its network link carry the state of all, which wait for it.",
    "Write in parallel: a shard of the state per rank (a sharded or distributed checkpoint), or several threads "
    "or files. "
    "Write in the background if the framework can.",
    limits={"checkpoint_bytes": Limit(16 << 20, "B", "written by one rank for all")},
)
def checkpoint_one_rank(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for jobs where many ranks read and one writes."""
    loads = activity.ranks
    if loads is None or not loads.written or activity.job.ranks < limits["funnel_ranks"]:
        return
    total, most = sum(loads.written), max(loads.written)
    rank = loads.written.index(most)
    readers = sum(moved > 0 for moved in loads.read)
    if total < limits["checkpoint_bytes"] or most < limits["funnel_share"] * total or readers <= 1:
        return
    modes = activity.totals.modes
    if modes.collective_writes or is_funnelled(activity, limits):
        return  # an aggregator writes for the others, as it should; or one rank reads all as well, another finding
    share = activity.share(activity.totals.posix.write.seconds + activity.totals.stdio.write.seconds)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"rank {rank} wrote {most / total:.0%} of {format_size(total)}, {readers} of {activity.job.ranks} ranks read",
        {"rank": rank, "bytes": total, "readers": readers},
        top({file.path: float(file.lower.write.bytes) for file in activity.files if file.lower.write.bytes}),
        ranks=(rank,),
        share=share,
    )


@rule(
    "starved-workers",
    "Workers wait for their data",
    "Loader processes that spend most of their life in reads cannot prepare samples in time, and the trainer waits.",
    "Start more workers (num_workers) and let each read further ahead (prefetch_factor), read larger pieces, or move "
    "the data to faster storage.",
    limits={
        "starved_share": Limit(0.5, "share", "of the life of worker processes that they spent in I/O"),
        "worker_reads": Limit(32, "count", "reads of one worker"),
    },
)
def starved_workers(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for sibling processes that mostly read and do little else."""
    families: dict[int, list[ProcessActivity]] = defaultdict(list)
    for one in activity.processes:
        if one.parent is not None and one.reads >= limits["worker_reads"] and one.read > one.written:
            families[one.parent].append(one)
    workers = max(families.values(), key=len, default=[])
    lived, spent = sum(one.elapsed for one in workers), sum(one.io_seconds for one in workers)
    if len(workers) < 2 or lived <= 0 or spent < limits["starved_share"] * lived:
        return
    share = activity.share(spent)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{len(workers)} worker processes spent {min(1.0, spent / lived):.0%} of their time in I/O",
        {"workers": len(workers), "io_seconds": spent, "seconds": lived},
        share=share,
    )


@rule(
    "loader-balance",
    "Who waits for whom",
    "A program that waits for each batch leaves its processors idle; one that never waits gains nothing from a faster "
    "loader.",
    "If it is input-bound, try more workers and read-ahead: stripewise tune --stack torch --objective sample_rate.",
    limits={
        "loader_wait": Limit(
            0.25, "share", "of the time of a loader's consumer in waits, from which it is input-bound"
        ),
        "loader_idle": Limit(0.1, "share", "of the same, below which it is compute-bound"),
        "loader_batches": Limit(8, "count", "batches, from which the shares are judged"),
    },
)
def loader_balance(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Compare the time that consumers of loaders spend in these and between two batches."""
    used = [one for one in activity.loaders if one.batches >= limits["loader_batches"]]
    wait, busy = sum(one.wait for one in used), sum(one.busy for one in used)
    if wait + busy <= 0:
        return
    share, batches = wait / (wait + busy), sum(one.batches for one in used)
    workers = sorted({one.workers for one in used})
    word, severity = "compute-bound", Severity.OK
    if share >= limits["loader_idle"]:
        word, severity = "balanced", Severity.INFO
    if share >= limits["loader_wait"]:
        word, severity = "input-bound", Severity.HIGH if share >= 0.5 else Severity.MEDIUM
    with_workers = " or ".join(str(one) for one in workers) + (" worker" if workers == [1] else " workers")
    yield Finding(
        kind,
        severity,
        f"{word}: {share:.0%} of the time that {batches:,} batches took went by in waits for them, with {with_workers}",
        {"wait_seconds": wait, "busy_seconds": busy, "batches": batches, "workers": workers[-1]},
        share=share,
    )


_SHOWN = 16


def _count_moved(activity: Activity) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Bytes of each rank, None where the source does not tell."""
    loads = activity.ranks
    if loads is None or not loads.read or activity.job.ranks < 2:
        return None
    return np.array(loads.read, np.int64) + np.array(loads.written, np.int64)


def _is_collective(activity: Activity) -> bool:
    """Whether aggregators do the I/O of others: then unequal ranks are as it should be."""
    modes = activity.totals.modes
    together = modes.collective_reads + modes.collective_writes
    merged = sum(file.lower.bytes for file in activity.files if are_aggregated(file))
    many = together >= modes.independent_reads + modes.independent_writes
    return together > 0 and (many or 2 * merged >= sum(file.lower.bytes for file in activity.files))


@rule(
    "rank-funnel",
    "All I/O through one rank",
    "One rank's core, memory and network link carry the data of all, while the others wait.",
    "Let all ranks write their part of a shared file through MPI-IO, collectively.",
    examples=("collective",),
)
def rank_funnel(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for a single rank that moves nearly everything."""
    moved = _count_moved(activity)
    if moved is None or activity.job.ranks < limits["funnel_ranks"] or _is_collective(activity):
        return
    total = int(moved.sum())
    rank = int(moved.argmax())
    if total < limits["balance_bytes"] or moved[rank] < limits["funnel_share"] * total:
        return
    part = moved[rank] / total
    files = {file.path: float(file.bytes) for file in activity.files}
    yield Finding(
        kind,
        weigh(activity, limits, float(part)),
        f"rank {rank} moved {part:.0%} of the {format_size(total)}",
        {"rank": rank, "share": float(part), "bytes": total},
        top(files),
        ranks=(rank,),
        share=min(0.98, float(part) * (1 - 1 / activity.job.ranks)),
    )


def is_funnelled(activity: Activity, limits: Thresholds) -> bool:
    """Whether one rank moves nearly everything, which is a finding of its own."""
    moved = _count_moved(activity)
    return (
        moved is not None
        and activity.job.ranks >= limits["funnel_ranks"]
        and int(moved.max()) >= limits["funnel_share"] * int(moved.sum())
    )


@rule(
    "rank-imbalance",
    "Unequal shares of the ranks",
    "The rank with most data is done last, and the next barrier waits for it.",
    "Cut the data into equal parts, or write collectively, so that aggregators get equal parts.",
    ("P18", "P21", "P22"),
    examples=("collective",),
)
def rank_imbalance(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for ranks with much more data than the mean."""
    moved = _count_moved(activity)
    if moved is None or _is_collective(activity) or is_funnelled(activity, limits):
        return
    most, mean = int(moved.max()), float(moved.mean())
    if most < limits["balance_bytes"] or 1 - mean / most < limits["balance"]:
        return
    busy = np.argsort(-moved, kind="stable")
    heavy = tuple(int(rank) for rank in busy[:_SHOWN] if moved[rank] > mean / (1 - limits["balance"] / 2))
    lost = 1 - mean / most
    way = "read" if activity.ranks is not None and sum(activity.ranks.read) > sum(activity.ranks.written) else "write"
    files = {file.path: float(file.bytes) for file in activity.files}
    yield Finding(
        kind,
        weigh(activity, limits, lost),
        f"rank {int(busy[0])} moved {format_size(most)}, the mean rank {format_size(round(mean))}: {lost:.0%} of the "
        f"time a rank could {way} in goes to waiting",
        {"busiest_rank": int(busy[0]), "bytes": most, "mean_bytes": round(mean), "lost": lost},
        top(files),
        ranks=heavy,
        share=lost,
    )


def _measure_lateness(file: FileActivity, limits: Thresholds) -> float:
    """Seconds between slowest and fastest rank of a shared file that did like work; 0 without stragglers."""
    spread = file.spread
    if spread is None or file.ranks < 2 or spread.slowest_seconds <= 0:
        return 0.0
    gap = spread.slowest_seconds - spread.fastest_seconds
    like = min(spread.slowest_bytes, spread.fastest_bytes) >= 0.7 * max(spread.slowest_bytes, spread.fastest_bytes)
    enough = gap >= limits["straggler_seconds"] and gap / spread.slowest_seconds >= limits["straggler"]
    return gap if like and enough and spread.slowest_bytes > 0 else 0.0


@rule(
    "stragglers",
    "Ranks that are slow with equal work",
    "One rank takes much longer than another for the same number of bytes. Its node, its network link or the "
    "target it uses is busy, and all wait for it.",
    "Check whether it is always the same rank, node or OST: then the machine is the cause. Otherwise spread the "
    "load over more targets.",
    ("P19",),
)
def stragglers(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for slow ranks among those with as many bytes."""
    late = {file.path: _measure_lateness(file, limits) for file in activity.files}
    found = [file for file in activity.files if late[file.path]]
    ranks = tuple(dict.fromkeys(file.spread.slowest_rank for file in found if file.spread))
    gap = sum(late.values())
    slow = _slow_ranks(activity, limits)
    if not found and slow is None:
        return
    if slow is not None and slow[1] > gap:
        ranks, gap = slow
    spent = max(activity.io_seconds, gap)
    share = min(0.98, gap / spent) if spent > 0 else 0.0
    *others, last = (str(rank) for rank in ranks[:3])
    who = f"ranks {', '.join(others)} and {last}" if others else f"rank {last}"
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{who} took {gap:.3g} s longer than the fastest for as many bytes{' in all' * (len(found) > 1)}",
        {"seconds": gap, "files": len(found)},
        top({file.path: late[file.path] for file in found}),
        ranks=ranks[:_SHOWN],
        share=share,
    )


def _slow_ranks(activity: Activity, limits: Thresholds) -> tuple[tuple[int, ...], float] | None:
    """Ranks whose own files took much longer than the fastest tenth's, with like bytes."""
    loads = activity.ranks
    moved = _count_moved(activity)
    if loads is None or moved is None or len(loads.seconds) != len(moved) or _is_collective(activity):
        return None
    seconds = np.array(loads.seconds)
    alike = (moved >= 0.7 * moved.max()) & (moved > 0)
    if alike.sum() < 2:
        return None
    fast = float(np.quantile(seconds[alike], 0.1))
    slowest = float(seconds[alike].max())
    if slowest - fast < limits["straggler_seconds"] or (slowest - fast) / slowest < limits["straggler"]:
        return None
    late = np.flatnonzero(alike & (seconds > fast + (slowest - fast) / 2))
    order = late[np.argsort(-seconds[late], kind="stable")]
    return tuple(int(rank) for rank in order[:_SHOWN]), slowest - fast
