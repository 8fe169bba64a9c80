"""Requests to the file system: their size, alignment and order, and what is moved twice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from stripewise.catalogue.meaning import Situation, in_version, parameters
from stripewise.diagnose.finding import (
    Finding,
    FindingKind,
    Limit,
    Severity,
    Thresholds,
    aggregation,
    alignment,
    each_way,
    ompio,
    rule,
    top,
    weigh,
)
from stripewise.formats import SIZE_LIMITS
from stripewise.observe.activity import Activity, Calls, Dataset, FileActivity, Within
from stripewise.sizes import format_size

_SMALL_BINS = 4


def small_bytes(calls: Calls) -> float:
    """Bytes that requests of at most 100 KiB moved, estimated from the histogram.

    Each bin counts with the geometric mean of its edges, scaled so that all bins together give the bytes moved; sizes
    that are known exactly come first.
    """
    small = calls.below(_SMALL_BINS)
    if not small or not calls.bytes:
        return 0.0
    edges = (50, *SIZE_LIMITS)
    middle = [math.sqrt(low * high) for low, high in zip(edges, edges[1:], strict=False)] + [float(1 << 30)]
    weights = [count * size for count, size in zip(calls.sizes, middle, strict=True)]
    known = sum(size * count for size, count in calls.common if size <= SIZE_LIMITS[_SMALL_BINS - 1])
    if sum(count for size, count in calls.common if size <= SIZE_LIMITS[_SMALL_BINS - 1]) >= small:
        return float(min(known, calls.bytes))
    large = sum(weights[_SMALL_BINS:])
    if not large:
        return float(calls.bytes)
    # What the small ones moved cannot be more than their bins' upper edges allow.
    most = sum(count * edge for count, edge in zip(calls.sizes[:_SMALL_BINS], SIZE_LIMITS, strict=False))
    return min(calls.bytes * sum(weights[:_SMALL_BINS]) / sum(weights), float(most))


def _default_cache(version: str | None) -> int | None:
    """HDF5's own cache of the chunks of a dataset; None where it depends on a version that is not known."""
    parameter = in_version(parameters()["hdf5_chunk_cache"], Situation(versions={"HDF5": version} if version else {}))
    return None if parameter.defaults else int(parameter.default)


def _list_uncached(file: FileActivity) -> Iterator[tuple[int, str]]:
    """Give bytes of chunks that do not fit into the cache of their dataset, and the sentence that says so."""
    default = _default_cache(file.hdf5_version)
    told = [one for one in file.datasets if one.chunk and one.cache_bytes is not None]
    for one in told:
        size, cache = math.prod(one.chunk) * one.element_size, one.cache_bytes or 0
        if size > cache:
            says = f"{one.name} has chunks of {format_size(size)}, and HDF5's cache of it holds {format_size(cache)}"
            yield size, says
    size = file.chunk_bytes or 0
    if told or size <= (default or _default_cache("1.14") or 0):
        return
    said = f"The chunks of HDF5 have up to {format_size(size)}, and its cache holds "
    if default is not None:
        yield size, f"{said}{format_size(default)} of a dataset"
    else:
        old, new = (format_size(_default_cache(version) or 0) for version in ("1.14", "2.0"))
        yield size, f"{said}{old} of a dataset before HDF5 2.0, and {new} since"


def _advise_on_chunks(files: list[FileActivity], direction: str) -> str:
    """What to change where HDF5 reads chunks in pieces because they do not fit into its cache; empty elsewhere."""
    if direction != "read":
        return ""
    _, sentence = max((found for file in files for found in _list_uncached(file)), default=(0, ""))
    return sentence and (
        f"{sentence}. A larger chunk is read piece by piece. Make the cache larger than a chunk "
        "(H5Pset_chunk_cache, rdcc_nbytes in h5py), or read whole chunks."
    )


def _advise_alone(files: list[FileActivity], direction: str) -> str:
    """What to change where no file is shared or opened by MPI-IO: there collective calls cannot help; else empty."""
    if any(file.mpiio is not None or file.ranks > 1 for file in files):
        return ""
    return f"{direction.capitalize()} more at a time: larger buffers in the program or its library."


def _gathered_unseen(file: FileActivity, direction: str) -> bool:
    """Whether most calls are collective, and the source does not say which requests became of them."""
    if file.posix is not None or file.modes is None:
        return False
    together, alone = (getattr(file.modes, f"{how}_{direction}s") for how in ("collective", "independent"))
    return bool(together > alone)


def split_collective(file: FileActivity, direction: str) -> tuple[float, float]:
    """Split the time of the collective calls of a direction; zeros where it was not measured.

    Returns
    -------
    tuple of (float, float)
        Seconds that a rank spends in them, and seconds in requests to the file system of a rank that makes any, both on
        average. Ranks without requests wait for those that make them.
    """
    within: Within = getattr(file.beneath, direction) if file.beneath is not None else Within()
    # One rank has nobody to exchange with. OMPIO makes asynchronous requests, which take no time in any system call.
    if within.exchange is None or not within.ranks or file.ranks < 2 or ompio([file]):
        return 0.0, 0.0
    outside, whole = within.exchange
    return whole / file.ranks, (whole - outside) / within.ranks


@each_way(
    read=FindingKind(
        "small-reads",
        "Small reads",
        "Each request pays a fixed price for the system call, the network and the server, whatever its size.",
        "Read more at a time: larger buffers, collective reads, or data sieving for pieces close to each other.",
        ("P05", "P15"),
        examples=("collective",),
    ),
    write=FindingKind(
        "small-writes",
        "Small writes",
        "Each request pays a fixed price for the system call, the network, the server and its lock, whatever its size.",
        "Write more at a time: larger buffers, or collective writes whose aggregators merge the pieces of all ranks.",
        ("P06", "P16"),
        examples=("collective", "buffer"),
    ),
)
def small_requests(activity: Activity, limits: Thresholds, kind: FindingKind, direction: str) -> Iterator[Finding]:
    """Look for small requests of one direction."""
    moved = few = calls = 0.0
    paths: dict[str, float] = {}
    times: dict[str, float] = {}
    concerned: list[FileActivity] = []
    beside = ""
    for file in activity.files:
        if file.stdio is not None and not file.installed:
            moved += getattr(file.stdio, direction).bytes
        if (file.posix is None and file.mpiio is None) or _gathered_unseen(file, direction):
            continue
        own: Calls = getattr(file.lower, direction)
        if file.installed:
            beside = " beside installed software" if own.bytes else beside
            continue
        moved += own.bytes
        if file.ranks == 1 and own.count <= file.lower.opens and not file.stands_for_several:
            continue  # a file that goes in one request has no more for it
        small = small_bytes(own)
        few += small
        calls += own.below(_SMALL_BINS) or 0
        if own.bytes and small / own.bytes >= limits["small_share"]:
            paths[file.path] = small
            concerned.append(file)
            each, requests = split_collective(file, direction)
            exchanging = file.ranks * max(0.0, each - requests)
            times[file.path] = (getattr(file.upper, direction).seconds - exchanging) * small / own.bytes
    if not moved or few / moved < limits["small_share"] or calls < limits["small_calls"]:
        return
    share = activity.share(sum(times.values()))
    shared = sum(file.ranks > 1 for file in concerned)
    what = "read" if direction == "read" else "written"
    typical = few / calls
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{calls:,.0f} requests of at most 100 KiB (about {format_size(round(typical))} each) moved {few / moved:.0%} "
        f"of the {format_size(moved)} {what}{beside}",
        {"small_requests": int(calls), "small_bytes": round(few), "bytes": int(moved), "shared_files": shared},
        top(times if any(times.values()) else paths),
        proposal=aggregation(activity, concerned, direction),
        share=share,
        fix=_advise_on_chunks(concerned, direction) or _advise_alone(concerned, direction),
    )


_FITTING = 0.9
"""Of a file's requests whose sizes divide the alignment, or the reverse, from which the file counts as fitting."""


def _fits_alignment(file: FileActivity) -> bool:
    """Whether sizes divide the alignment and begin at their own multiples: then no request needs two blocks.

    Of such requests only one in alignment / size begins at the alignment, and that is as it should be.
    """
    lower = file.lower
    unit, off = lower.file_alignment or 0, lower.unaligned_file or 0
    common = lower.common or lower.write.common or lower.read.common
    known = sum(count for _, count in common)
    if unit < 2 or not common or known < _FITTING * lower.count:
        return False
    fitting = [(size, count) for size, count in common if size and unit % size == 0]
    if sum(count for _, count in fitting) < _FITTING * known:
        return False
    expected = sum(count * size / unit for size, count in fitting)
    return expected < 1 or lower.count - off >= expected / 2


def are_aggregated(file: FileActivity) -> bool:
    """Whether aggregators made the requests to a file, which choose where these begin."""
    modes, lower = file.modes, file.posix
    if modes is None or lower is None or file.mpiio is None:
        return False
    together = modes.collective_reads + modes.collective_writes
    return together > 0 and (lower.count < file.mpiio.count or opened_by_few(file))


def opened_by_few(file: FileActivity) -> bool:
    """Whether MPI-IO opened the file on a few ranks only: then these made the requests of all, however many."""
    if file.mpiio is None or file.posix is None:
        return False
    return 0 < 2 * file.posix.opens <= file.mpiio.opens


@rule(
    "unaligned-file",
    "Requests off the file's alignment",
    "A request that begins within a block or stripe makes the server read and rewrite that block. Ranks wait for "
    "each other's lock on it.",
    "Begin requests at multiples of the block or stripe: pad headers, choose transfer sizes that divide the stripe, "
    "or set the alignment of the library.",
    ("P08",),
    examples=("striping",),
)
def unaligned_file(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for requests off the alignment."""
    off = calls = 0
    seconds = 0.0
    paths: dict[str, float] = {}
    concerned: list[FileActivity] = []
    for file in activity.files:
        lower = file.lower  # of a record that is MPI-IO
        # Blocks that are only read are neither rewritten nor locked against other readers.
        if lower.unaligned_file is None or not lower.count or not lower.write.bytes:
            continue
        calls += lower.count
        if _fits_alignment(file) or are_aggregated(file):
            continue
        if lower.bytes >= limits["unaligned_blocks"] * (lower.file_alignment or 0) * lower.count > 0:
            continue  # only the first and the last of many blocks are shared with a neighbour
        off += lower.unaligned_file
        if lower.unaligned_file / lower.count >= limits["unaligned_share"]:
            paths[file.path] = lower.unaligned_file
            concerned.append(file)
            seconds += lower.unaligned_file / lower.count * file.upper.write.seconds
    if not calls or off / calls < limits["unaligned_share"] or off < limits["unaligned_calls"]:
        return
    share = activity.share(seconds)
    unit = next((f.lower.file_alignment for f in concerned if f.lower.file_alignment), None)
    multiple = f"a multiple of {format_size(unit)}" if unit else "the alignment"
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{off / calls:.0%} of {calls:,} requests do not begin at {multiple}",
        {"unaligned": off, "requests": calls, "alignment": unit},
        top(paths),
        proposal=alignment(activity, concerned, unit),
        share=share,
    )


@rule(
    "unaligned-memory",
    "Buffers off the memory's alignment",
    "Buffers off the memory's alignment prevent direct and zero-copy transfers.",
    "Allocate buffers with posix_memalign.",
    ("P07",),
)
def unaligned_memory(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for buffers off the alignment."""
    level = activity.totals.posix
    off = level.unaligned_memory or 0
    if not level.count or off / level.count < limits["unaligned_share"] or off < limits["unaligned_calls"]:
        return
    yield Finding(
        kind,
        Severity.INFO,
        f"{off / level.count:.0%} of {level.count:,} requests have a buffer off the memory's alignment",
        {"unaligned": off, "requests": level.count},
    )


def _count_backwards(calls: Calls) -> int:
    return max(0, calls.count - (calls.sequential or 0))


@each_way(
    read=FindingKind(
        "random-reads",
        "Reads in random order",
        "Jumps defeat read-ahead: each request waits for the disk or server in full.",
        "Sort the requests, read a larger region at once and pick from memory, or read collectively.",
        ("P11",),
        examples=("collective",),
    ),
    write=FindingKind(
        "random-writes",
        "Writes in random order",
        "Jumps prevent write-behind from merging requests, and the lock of each stripe moves back and forth.",
        "Sort the requests, or write collectively, so that aggregators write in order.",
        ("P13",),
        examples=("collective",),
    ),
)
def random_order(activity: Activity, limits: Thresholds, kind: FindingKind, direction: str) -> Iterator[Finding]:
    """Look for requests that go backwards."""
    back = count = 0
    seconds = 0.0
    paths: dict[str, float] = {}
    concerned: list[FileActivity] = []
    for file in activity.files:
        if file.posix is None:
            continue
        calls: Calls = getattr(file.posix, direction)
        if calls.sequential is None or not calls.count or calls.mean >= limits["random_below"]:
            continue
        # The first request after an open goes nowhere: it is not a jump.
        own = max(0, _count_backwards(calls) - max(file.ranks, file.posix.opens))
        count += calls.count
        back += own
        if own / calls.count >= limits["random_share"]:
            paths[file.path] = own
            concerned.append(file)
            seconds += getattr(file.upper, direction).seconds * own / calls.count
    if not count or back / count < limits["random_share"] or back < limits["random_calls"]:
        return
    share = activity.share(seconds)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{back / count:.0%} of {count:,} {direction} requests go backwards in the file",
        {"backwards": back, "requests": count},
        top(paths),
        proposal=aggregation(activity, concerned, direction),
        share=share,
    )


@each_way(
    read=FindingKind(
        "sequential-reads",
        "Reads in order",
        "Read-ahead works best with requests in order.",
        "Nothing to fix.",
        ("P12",),
    ),
    write=FindingKind(
        "sequential-writes",
        "Writes in order",
        "Write-behind works best with requests in order.",
        "Nothing to fix.",
        ("P14",),
    ),
)
def in_order(activity: Activity, limits: Thresholds, kind: FindingKind, direction: str) -> Iterator[Finding]:
    """Say that requests go forwards."""
    calls: Calls = getattr(activity.totals.posix, direction)
    if not calls.count or not calls.sequential or calls.count < limits["random_calls"]:
        return
    part = calls.sequential / calls.count
    if part > 1 - limits["random_share"]:
        together = f", {calls.consecutive / calls.count:.0%} without a gap" if calls.consecutive else ""
        yield Finding(
            kind,
            Severity.OK,
            f"{part:.0%} of {calls.count:,} {direction} requests go forwards{together}",
            {"sequential": calls.sequential, "consecutive": calls.consecutive, "requests": calls.count},
        )


@each_way(
    read=FindingKind(
        "redundant-reads",
        "The same data read again",
        "Data that was read once could have been kept or sent to the other ranks over the network, which is faster.",
        "Keep what was read, or read it on one rank and broadcast it.",
        ("P09",),
        examples=("open_once",),
    ),
    write=FindingKind(
        "redundant-writes",
        "The same place written again",
        "Time spent on data that is overwritten is lost.",
        "Write a place once it has its last value, or keep it in memory until then.",
        ("P10",),
    ),
)
def moved_again(activity: Activity, limits: Thresholds, kind: FindingKind, direction: str) -> Iterator[Finding]:
    """Look for data that is read, or places that are written, more than once."""
    again = moved = 0
    seconds = 0.0
    paths: dict[str, float] = {}
    everyone = 0
    for file in activity.files:
        level = file.mpiio if file.mpiio is not None and file.mpiio.read.extent else file.lower
        calls: Calls = getattr(level, direction)
        moved += calls.bytes
        if direction == "read" and (_reads_of_others(file) or file.installed):
            continue
        extra = max(0, calls.bytes - _first_bytes(activity, limits, file, calls, direction))
        if direction == "read":
            extra = max(extra, (file.redundant_read or 0) - _count_sieved(file, calls, direction))
        if extra and calls.bytes / max(1, calls.bytes - extra) >= limits["redundant_ratio"]:
            again += extra
            paths[file.path] = extra
            seconds += getattr(file.upper, direction).seconds * extra / calls.bytes
            everyone += file.ranks > 1 and calls.bytes >= 0.9 * file.ranks * (calls.extent or calls.bytes)
    if not moved or again < limits["redundant_bytes"] or moved / max(1, moved - again) < limits["redundant_ratio"]:
        return
    share = activity.share(seconds)
    what = "read" if direction == "read" else "written"
    fix = ""
    if direction == "read" and everyone:
        fix = "Every rank reads all of the file: let one rank read and broadcast it, or read collectively."
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{format_size(again)} of {format_size(moved)} were {what} more than once",
        {"again_bytes": again, "bytes": moved, "files_read_by_every_rank": everyone},
        top(paths),
        share=share,
        fix=fix,
    )


def _first_bytes(activity: Activity, limits: Thresholds, file: FileActivity, calls: Calls, direction: str) -> int:
    """Bytes that the program had to move, at the least.

    Whoever opens a file again may write it again: a checkpoint, or a benchmark's next repetition. What MPI-IO moves
    beyond what its callers moved is data sieving, which is another finding, and so are opens again and again.
    """
    first = calls.extent or calls.bytes
    sieved = _count_sieved(file, calls, direction)
    if direction == "read":
        # Processes of a program without MPI keep nothing for each other; those at the same time are another finding's.
        return first * (max(1, file.processes or 0) if activity.job.interface else 1) + sieved
    opens = file.upper.opens
    each = opens if activity.counts_opens_once else opens // max(1, file.ranks)
    return calls.bytes if each >= limits["reopens"] else first * max(1, each) + sieved


def _count_sieved(file: FileActivity, calls: Calls, direction: str) -> int:
    called: Calls | None = getattr(file.mpiio, direction, None)
    return 0 if called is None else max(0, calls.bytes - called.bytes)


def _reads_of_others(file: FileActivity) -> bool:
    """Whether the reads below MPI-IO are of its own making: read-modify-write, which is another finding."""
    return file.mpiio is not None and not file.mpiio.read.count


_ONE_BY_ONE = 1000
"""Elements of a dataset from which chunks of one element each are named."""


def _doubt_chunks(one: Dataset, limits: Thresholds) -> Iterator[tuple[str, float]]:
    """Say what does not fit of a dataset's chunks, each with its weight in bytes."""
    elements, size = math.prod(one.chunk), math.prod(one.chunk) * one.element_size
    moved = sum(calls.bytes for calls in (one.write, one.read) if calls is not None)
    if elements == 1 and math.prod(one.size) >= _ONE_BY_ONE:
        yield f"{one.name} has {math.prod(one.size):,} chunks of 1 element each", moved
        return
    read, write = one.read, one.write
    kept = one.cache_bytes is None or size <= one.cache_bytes
    parts = read is not None and bool(read.box) and any(a < min(b, c) for a, b, c in _against(read.box, one))
    if not kept and parts and read is not None and math.prod(read.box) * read.calls > elements:
        again = "unpacked again for each part" if one.filters else "read in parts from the file"
        yield (
            f"{one.name} has chunks of {format_size(size)}, its cache holds {format_size(one.cache_bytes or 0)}, and "
            f"reads want parts: a chunk is {again}",
            read.bytes,
        )
    if write is not None and (write.chunk_ranks or 0) >= limits["chunk_ranks"]:
        yield f"each chunk of {one.name} is written by {write.chunk_ranks:.1f} ranks on average", write.bytes


def _against(box: Sequence[int], one: Dataset) -> Iterator[tuple[int, int, int]]:
    return zip(box, one.chunk, one.size, strict=False)


@rule(
    "chunks",
    "Chunks of HDF5 that do not fit their use",
    "HDF5 finds, caches and filters whole chunks: tiny ones cost a search each, and those beyond the cache are read "
    "again.",
    "Let hdf5_chunk_shape try other shapes, or enlarge the cache.",
    limits={"chunk_ranks": Limit(2, "ranks", "that write each chunk, on average")},
)
def chunks(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for chunks of one element, of many ranks, or larger than their cache."""
    found = [
        (weight, says, file)
        for file in activity.files
        for one in file.datasets
        if one.chunk and one.size
        for says, weight in _doubt_chunks(one, limits)
    ]
    if not found:
        return
    found.sort(key=lambda doubt: -doubt[0])
    files = {file.path: file for _, _, file in found}
    share = activity.share(sum(file.seconds for file in files.values()))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{found[0][1]}{more}",
        {"datasets": len(found)},
        top({path: file.bytes for path, file in files.items()}),
        share=share,
    )
