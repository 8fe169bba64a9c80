"""Striping: how files lie on the storage targets, and how evenly these are used."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from stripewise.catalogue.expectation import Proposal
from stripewise.catalogue.filesystems import of_file
from stripewise.diagnose.finding import Finding, FindingKind, Severity, rule, top, weigh
from stripewise.diagnose.limits import Limit, Thresholds
from stripewise.diagnose.rules.settings import stripes
from stripewise.observe.activity import Activity, Calls, FileActivity
from stripewise.sizes import format_size

_GRADES = "ABCDE"


def _extent(file: FileActivity) -> int:
    lower = file.lower
    return max(lower.read.extent or 0, lower.write.extent or 0, file.size or 0)


def _narrow(file: FileActivity, limits: Thresholds) -> bool:
    return (
        file.layout is not None
        and file.layout.stripe_count == 1
        and file.ranks >= limits["one_stripe_writers"]
        and _extent(file) >= limits["one_stripe_bytes"]
    )


def _wide(file: FileActivity, limits: Thresholds) -> bool:
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
)
def one_stripe(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for large shared files on one stripe."""
    found = [file for file in activity.files if _narrow(file, limits)]
    if not found:
        return
    largest = max(_extent(file) for file in found)
    ranks = max(file.ranks for file in found)
    share = activity.share(sum(file.seconds for file in found))
    # Four stripes for each GiB, at most one for each rank: a start that tune improves on.
    wanted = max(2, min(ranks, 64, -(-largest // (1 << 30)) * 4))
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{ranks:,} ranks use {len(found)} file(s) of up to {format_size(largest)} on one stripe each",
        {"files": len(found), "ranks": ranks, "largest_bytes": largest},
        top({file.path: float(_extent(file)) for file in found}),
        proposal=stripes(activity, found, wanted),
        share=share,
    )


@rule(
    "wide-stripes",
    "Wide stripes under small files",
    "Each stripe costs an object on another server at creation, stat and deletion, though the data fits on one.",
    "Give folders of small files a stripe count of 1.",
)
def wide_stripes(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for many small files with many stripes."""
    found = [file for file in activity.files if _wide(file, limits)]
    if len(found) < limits["wide_stripe_files"]:
        return
    width = max(file.layout.stripe_count for file in found if file.layout)
    share = activity.share(sum(file.upper.meta_seconds for file in found))
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{len(found)} files are smaller than their stripes, of which they have up to {width}",
        {"files": len(found), "stripe_count": width},
        top({file.path: float(file.layout.stripe_count) for file in found if file.layout}),
        proposal=stripes(activity, found, 1),
        share=share,
    )


def _usual(file: FileActivity) -> int:
    """Bytes of the file's most frequent request that could cross a stripe's boundary; 0 where unknown."""
    both = (file.upper.write, file.upper.read)
    sizes = [size for calls in both for size, _ in calls.common]
    sizes += [calls.largest or 0 for calls in both]
    return next((size for size in sizes if size >= 64 << 10), 0)


def _off_stripe(file: FileActivity) -> bool:
    """Whether the file's usual request neither divides nor is a multiple of its stripe."""
    layout, size = file.layout, _usual(file)
    if layout is None or layout.stripe_size <= 0 or layout.stripe_count < 2 or file.ranks < 2 or not size:
        return False
    return size % layout.stripe_size != 0 and layout.stripe_size % size != 0


@rule(
    "stripe-unaligned",
    "Requests across stripe boundaries",
    "A request that spills over into the next stripe needs two servers and two locks, and its neighbour "
    "needs the same ones.",
    "Choose a stripe size that the request size divides, or the reverse.",
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
    usual, proposal = _usual(first), Proposal()
    if usual % 65536 == 0:
        proposal = stripes(activity, [first], first.layout.stripe_count, usual)
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"requests of {usual:,} bytes do not fit stripes of {first.layout.stripe_size:,} bytes in {len(found)} file(s)",
        {"request_bytes": usual, "stripe_size": first.layout.stripe_size, "files": len(found)},
        top({file.path: float(file.bytes) for file in found}),
        proposal=proposal,
        share=share,
    )


@rule(
    "ost-imbalance",
    "Uneven load on the storage targets",
    "The fullest target is done last, and everyone waits for it.",
    "Let the file system choose the targets (no start index), and use more stripes for large files.",
)
def ost_imbalance(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Compare the bytes of the targets."""
    loads = {target: load.bytes for target, load in activity.osts.items() if load.bytes}
    if len(loads) < 2:
        return
    mean = sum(loads.values()) / len(loads)
    fullest = max(loads, key=lambda target: loads[target])
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


def _sorts(calls: Calls, direction: str, limits: Thresholds) -> Iterator[str]:
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
        sorts = {sort for way in ("read", "write") for sort in _sorts(getattr(file.lower, way), way, limits)}
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
        f"settings of the clients may limit {len(paths)} file(s) with {format_size(sum(paths.values()))}",
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
    poor = sum(file.bytes for file in striped if _narrow(file, limits))
    wide = sum(_wide(file, limits) for file in striped) / len(striped)
    off = sum(file.bytes for file in striped if _off_stripe(file))
    loads = [load.bytes for load in activity.osts.values() if load.bytes]
    uneven = 1 - (sum(loads) / len(loads)) / max(loads) if loads else 0.0
    # Each fault counts with the part of the data (wide stripes: of the files) that it concerns.
    fault = poor / moved + 0.5 * wide + 0.5 * off / moved + 0.7 * uneven
    grade = _GRADES[min(4, int(fault * 5))]
    yield Finding(
        kind,
        Severity.OK if grade in "AB" else Severity.INFO,
        f"striping {grade}: {poor / moved:.0%} of the bytes on one stripe under many ranks, {wide:.0%} of the files "
        f"striped too wide, {off / moved:.0%} of the bytes across stripe boundaries, "
        f"{uneven:.0%} lost to uneven targets",
        {"grade": grade, "narrow": poor / moved, "wide": wide, "unaligned": off / moved, "uneven": uneven},
    )
