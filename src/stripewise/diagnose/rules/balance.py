"""Ranks: who moves how much, and who is slow."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stripewise.diagnose.finding import Finding, FindingKind, rule, top, weigh
from stripewise.diagnose.limits import Thresholds
from stripewise.observe.activity import Activity, FileActivity
from stripewise.sizes import format_size

_SHOWN = 16


def _moved(activity: Activity) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Bytes of each rank, None where the source does not tell."""
    loads = activity.ranks
    if loads is None or not loads.read or activity.job.ranks < 2:
        return None
    return np.array(loads.read, np.int64) + np.array(loads.written, np.int64)


def _collective(activity: Activity) -> bool:
    """Whether aggregators do the I/O of others: then unequal ranks are as it should be."""
    modes = activity.totals.modes
    together = modes.collective_reads + modes.collective_writes
    return together > 0 and together >= modes.independent_reads + modes.independent_writes


@rule(
    "rank-funnel",
    "All I/O through one rank",
    "One rank's core, memory and network link carry the data of all, while the others wait.",
    "Let all ranks write their part of a shared file through MPI-IO, collectively.",
)
def rank_funnel(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for a single rank that moves nearly everything."""
    moved = _moved(activity)
    if moved is None or activity.job.ranks < limits["funnel_ranks"] or _collective(activity):
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


def funnelled(activity: Activity, limits: Thresholds) -> bool:
    """Whether one rank moves nearly everything, which is a finding of its own."""
    moved = _moved(activity)
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
)
def rank_imbalance(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for ranks with much more data than the mean."""
    moved = _moved(activity)
    if moved is None or _collective(activity) or funnelled(activity, limits):
        return
    most, mean = int(moved.max()), float(moved.mean())
    if most < limits["balance_bytes"] or 1 - mean / most < limits["balance"]:
        return
    busy = np.argsort(-moved, kind="stable")
    heavy = tuple(int(rank) for rank in busy[:_SHOWN] if moved[rank] > mean / (1 - limits["balance"] / 2))
    lost = 1 - mean / most
    files = {file.path: float(file.bytes) for file in activity.files}
    yield Finding(
        kind,
        weigh(activity, limits, lost),
        f"rank {int(busy[0])} moved {format_size(most)}, the mean rank {format_size(round(mean))}: {lost:.0%} of the "
        "time a rank could write in goes to waiting",
        {"busiest_rank": int(busy[0]), "bytes": most, "mean_bytes": round(mean), "lost": lost},
        top(files),
        ranks=heavy,
        share=lost,
    )


def _late(file: FileActivity, limits: Thresholds) -> float:
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
    "One rank takes much longer than another for the same number of bytes: its node, its network link or the "
    "target it uses is busy, and all wait for it.",
    "Check whether it is always the same rank, node or OST: then the machine is the cause. Otherwise spread the "
    "load over more targets.",
    ("P19",),
)
def stragglers(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for slow ranks among those with as many bytes."""
    late = {file.path: _late(file, limits) for file in activity.files}
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
    who = ", ".join(str(rank) for rank in ranks[:3])
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"rank {who} took {gap:.3g} s longer than the fastest for as many bytes",
        {"seconds": gap, "files": len(found)},
        top({file.path: late[file.path] for file in found}),
        ranks=ranks[:_SHOWN],
        share=share,
    )


def _slow_ranks(activity: Activity, limits: Thresholds) -> tuple[tuple[int, ...], float] | None:
    """Ranks whose own files took much longer than the fastest tenth's, with like bytes."""
    loads = activity.ranks
    moved = _moved(activity)
    if loads is None or moved is None or len(loads.seconds) != len(moved) or _collective(activity):
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
