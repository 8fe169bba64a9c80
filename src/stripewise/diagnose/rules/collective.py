"""Collective and independent calls of MPI-IO and HDF5, and the ranks that aggregate them."""

from __future__ import annotations

from collections.abc import Iterator

from stripewise.diagnose.finding import (
    Finding,
    FindingKind,
    Limit,
    Severity,
    Thresholds,
    aggregation,
    choose_proposal,
    each_way,
    hint,
    join_proposals,
    rule,
    top,
    weigh,
)
from stripewise.diagnose.rules.requests import opened_by_few, split_collective
from stripewise.observe.activity import Activity, Calls, FileActivity
from stripewise.sizes import count_of, format_size

_FIXES = {
    "datatype_conversion": "Give H5Dwrite and H5Dread memory of the dataset's own type, so that nothing is converted. "
    "Write the members of a compound type together, or give each member a dataset of its own. A member alone makes "
    "HDF5 read and rewrite all others.",
    "data_transforms": "Leave out H5Pset_data_transform, and transform the data in the program.",
    "filters": "Write filtered datasets with HDF5 1.10.2 or later, all ranks together, or leave out the filters.",
    "not_simple_dataspaces": "Give every rank a simple dataspace; a rank without data selects none of it.",
    "not_contiguous_or_chunked": "Create the dataset contiguous or chunked: compact ones have no collective transfer.",
    "mpi_optimized_types_disabled": "Remove HDF5_MPI_OPT_TYPES=0 from the environment.",
}


def broke_collective(file: FileActivity) -> bool:
    """Whether HDF5 made transfers independently for which the program asked for collective ones."""
    return any(transfers.broken for transfers in file.transfers.values())


@rule(
    "broken-collective",
    "Collective transfers that HDF5 made independently",
    "The program asks for collective transfers, but HDF5 cannot make them so. It moves the data of each rank by "
    "itself, in pieces of its conversion buffer, and may read and rewrite what lies between.",
    "Remove what prevents collective transfers (H5Pget_mpio_no_collective_cause names it); asking for them again does "
    "not help.",
    limits={"broken_share": Limit(0.1, "share", "of a file's collective transfers that HDF5 made independently")},
)
def broken_collective(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for collective transfers that HDF5 carried out independently."""
    found = [file for file in activity.files if broke_collective(file)]
    each = [transfers for file in found for transfers in file.transfers.values()]
    asked, lost = sum(one.collective for one in each), sum(one.broken for one in each)
    if not lost or lost < limits["broken_share"] * asked:
        return
    causes = sorted({cause for one in each for cause in one.broken_by})
    held = sum(max(one.bytes for one in file.transfers.values()) for file in found)
    written, read = (sum(getattr(file.lower, way).bytes for file in found) for way in ("write", "read"))
    share = activity.share(sum(file.seconds for file in found))
    more = (written + read) / held if held else 0.0
    fix = " ".join(_FIXES[cause] for cause in causes if cause in _FIXES)
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{lost:,} of {count_of(asked, 'collective transfer')} became independent ({', '.join(causes)}): "
        f"{format_size(written)} were written and {format_size(read)} read for datasets of {format_size(held)}",
        {
            "broken": lost,
            "collective": asked,
            "causes": causes,
            "dataset_bytes": held,
            "written_bytes": written,
            "read_bytes": read,
            "amplification": round(more, 2),
        },
        top({file.path: file.bytes for file in found}),
        share=share,
        fix=fix,
    )


def count_modes(file: FileActivity, direction: str) -> tuple[int, int]:
    """Collective and independent data calls of a direction."""
    if file.modes is None:
        return 0, 0
    return getattr(file.modes, f"collective_{direction}s"), getattr(file.modes, f"independent_{direction}s")


_MOSTLY = 0.9
_MEASURE = "On one node the exchange can cost more than it saves: measure both."


def _independent_bytes(file: FileActivity, direction: str) -> float | None:
    """Bytes of the independent calls of a direction; None where the source does not tell them from collective ones."""
    collective, independent = count_modes(file, direction)
    calls: Calls = getattr(file.upper, direction)
    if not collective:
        return calls.bytes
    other = "write" if direction == "read" else "read"
    modes = file.modes
    if modes is not None and modes.independent_bytes is not None and not getattr(file.upper, other).bytes:
        return modes.independent_bytes
    # Darshan counts them together, but one size is often that of nearly all independent calls.
    size, count = max(calls.common, key=lambda one: one[1], default=(0, 0))
    return float(size) * independent if _MOSTLY * independent <= count <= independent else None


def _find_mean(file: FileActivity, direction: str) -> float:
    """Bytes of the mean independent call, of all calls where these cannot be told apart."""
    own = _independent_bytes(file, direction)
    mean: float = getattr(file.upper, direction).mean
    return mean if own is None else own / max(1, count_modes(file, direction)[1])


@each_way(
    read=FindingKind(
        "independent-reads",
        "Independent reads of a shared file",
        "Each rank's small read is a request of its own; a collective call would let aggregators read large blocks "
        "once and pass the pieces on.",
        "Use MPI_File_read_all or read_at_all (HDF5: H5Pset_dxpl_mpio COLLECTIVE); no hint can make a call collective. "
        + _MEASURE,
        ("M02",),
        examples=("collective",),
    ),
    write=FindingKind(
        "independent-writes",
        "Independent writes to a shared file",
        "Each rank's small write is a request of its own with a lock of its own. A collective call would let "
        "aggregators merge the pieces of all ranks.",
        "Use MPI_File_write_all or write_at_all (HDF5: H5Pset_dxpl_mpio COLLECTIVE); no hint can make a call "
        "collective. " + _MEASURE,
        ("M03",),
        examples=("collective",),
    ),
)
def independent_calls(activity: Activity, limits: Thresholds, kind: FindingKind, direction: str) -> Iterator[Finding]:
    """Look for independent calls that a collective one would merge."""
    alone = 0
    moved: float | None = 0
    seconds = 0.0
    paths: dict[str, float] = {}
    for file in activity.files:
        # Where HDF5 itself breaks collective transfers up, asking for them is done already: another finding.
        if file.mpiio is None or file.ranks < 2 or broke_collective(file):
            continue
        collective, independent = count_modes(file, direction)
        calls: Calls = getattr(file.mpiio, direction)
        if not independent or independent / (collective + independent) < limits["independent_share"]:
            continue
        # Large contiguous calls need no merging, each is a good request already; pieces in a view do.
        if _find_mean(file, direction) >= limits["merge_below"] and file.view_contiguous is not False:
            continue
        alone += independent
        own = _independent_bytes(file, direction)
        moved = None if own is None or moved is None else moved + own
        paths[file.path] = independent
        seconds += calls.seconds * independent / (collective + independent)
    if alone < limits["independent_calls"]:
        return
    share = activity.share(seconds)
    size = "" if moved is None else f" of {format_size(round(moved / alone))} on average"
    yield Finding(
        kind,
        weigh(activity, limits, share),
        f"{alone:,} independent {direction} calls{size} go to files that several ranks share",
        {"independent_calls": alone, "bytes": moved},
        top(paths),
        share=share,
    )


_OFF_IS_BETTER = (
    "Write or read larger pieces. Collective buffering helps small pieces on several nodes; on one, the exchange often "
    "costs more than it saves. Say how many there were with --nodes, or let tune measure it."
)


def piecewise(file: FileActivity, direction: str, limits: Thresholds) -> bool:
    """Whether the file system saw the pieces of collective calls one by one."""
    collective, independent = count_modes(file, direction)
    if not collective or independent > collective or file.mpiio is None or file.posix is None or file.ranks < 2:
        return False
    called: Calls = getattr(file.mpiio, direction)
    made: Calls = getattr(file.posix, direction)
    return (
        not opened_by_few(file)
        and made.count >= limits["piece_calls"]
        and made.count > called.count
        and made.mean < limits["piece_below"]
        and made.mean < limits["piece_ratio"] * called.mean
    )


@rule(
    "strided-without-buffering",
    "Strided pieces without collective buffering",
    "A collective call over scattered pieces reached the file system piece by piece, because its aggregators are "
    "switched off. Many small requests do what a few large ones could.",
    "Switch collective buffering on.",
)
def strided_without_buffering(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for collective calls that are carried out in pieces."""
    for direction in ("write", "read"):
        found = [file for file in activity.files if piecewise(file, direction, limits)]
        found = [file for file in found if not _mostly_exchanges(file, direction, limits)]
        if found:
            yield _report_requests(activity, limits, kind, direction, found)
            return


def _report_requests(
    activity: Activity, limits: Thresholds, kind: FindingKind, direction: str, found: list[FileActivity]
) -> Finding:
    """Report files whose collective calls reached the file system without being merged."""
    made = sum(getattr(file.posix, direction).count for file in found)
    calls = sum(count_modes(file, direction)[0] for file in found)
    moved = sum(getattr(file.posix, direction).bytes for file in found)
    share = activity.share(sum(getattr(file.upper, direction).seconds for file in found))
    proposal = aggregation(activity, found, direction, {f"romio_cb_{direction}": "disable"})
    return Finding(
        kind,
        weigh(activity, limits, share),
        f"{count_of(calls, f'collective {direction}')} became {count_of(made, 'request')} of "
        f"{format_size(round(moved / made))} on average",
        {"direction": direction, "collective_calls": calls, "requests": made, "bytes": moved},
        top({file.path: getattr(file.posix, direction).count for file in found}),
        proposal=proposal,
        share=share,
        fix="" if proposal.settings else _OFF_IS_BETTER,
    )


_SCATTERED = 0.5
_SAME = 0.9


def not_aggregated(file: FileActivity, direction: str, limits: Thresholds) -> bool:
    """Whether small collective calls, scattered over the file, reached the file system one by one."""
    collective, independent = count_modes(file, direction)
    if collective < limits["piece_calls"] or independent > collective or file.mpiio is None or file.posix is None:
        return False
    called: Calls = getattr(file.mpiio, direction)
    made: Calls = getattr(file.posix, direction)
    if file.ranks < 2 or called.mean >= limits["merge_below"] or made.count < _SAME * called.count:
        return False
    if opened_by_few(file):
        return False
    # Ranks that each move one contiguous part need no merging, whatever calls they make.
    return made.consecutive is not None and made.consecutive < _SCATTERED * made.count


@rule(
    "collective-not-aggregated",
    "Collective calls that nobody merged",
    "The program calls collectively, but each rank made its own requests: the pieces of the ranks lie between one "
    "another, and no aggregator merged them.",
    "Switch collective buffering on; by itself ROMIO merges only where it sees that the ranks of one call interleave.",
)
def collective_not_aggregated(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for collective calls that became as many requests of the same size."""
    for direction in ("write", "read"):
        found = [file for file in activity.files if not_aggregated(file, direction, limits)]
        found = [file for file in found if not piecewise(file, direction, limits)]
        found = [file for file in found if not _mostly_exchanges(file, direction, limits)]
        if found:
            yield _report_requests(activity, limits, kind, direction, found)


def _was_aggregated(file: FileActivity) -> bool | None:
    """Whether few ranks did the I/O of all; None where it cannot be told."""
    if file.beneath is not None and file.beneath.collective_ranks:
        return file.beneath.collective_ranks < file.ranks
    if file.beneath is None and file.spread is not None and file.posix is not None:
        return file.spread.fastest_bytes == 0 and file.posix.bytes > 0
    return None


def _saves_nothing(file: FileActivity, limits: Thresholds) -> bool:
    """Whether blocks that are large and contiguous for each rank went through aggregators."""
    calls = sum(count_modes(file, direction)[0] for direction in ("read", "write"))
    if not calls or file.mpiio is None or file.ranks < 2 or file.view_contiguous is False:
        return False
    if file.modes is not None and file.view_contiguous is None and file.modes.views:
        return False
    moved, made = _collective_part(file)
    return moved / max(1, made) >= limits["aggregate_above"] and bool(_was_aggregated(file))


def _collective_part(file: FileActivity) -> tuple[int, int]:
    """Bytes and number of a file's collective calls; of all its MPI-IO calls where the source does not tell them apart.

    HDF5 writes its metadata in small independent calls beside them.
    """
    assert file.mpiio is not None
    if file.modes is not None and file.modes.collective_bytes:
        return file.modes.collective_bytes, sum(count_modes(file, direction)[0] for direction in ("read", "write"))
    return file.mpiio.bytes, file.mpiio.count


def _mostly_exchanges(file: FileActivity, direction: str, limits: Thresholds) -> bool:
    """Whether requests to the file system are a small part of the collective calls of a direction."""
    each, requests = split_collective(file, direction)
    return each >= limits["exchange_seconds"] and requests <= (1 - limits["exchange_share"]) * each


@rule(
    "collective-costs",
    "Collective calls that save nothing",
    "Each rank already writes or reads one large contiguous block, yet the data is first sent to aggregators. The "
    "exchange costs time, and only a few ranks do the I/O.",
    "Use collective buffering only for ranks whose pieces interleave: switch it off here.",
)
def collective_costs(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for aggregation of blocks that are large already."""
    files = [file for file in activity.files if _saves_nothing(file, limits)]
    if not files:
        return
    count = sum(count_modes(file, direction)[0] for file in files for direction in ("read", "write"))
    moved, made = (sum(column) for column in zip(*map(_collective_part, files), strict=True))
    mean = moved / max(1, made)
    share = activity.share(sum(file.upper.read.seconds + file.upper.write.seconds for file in files))
    # That they are on is seen by what they did: a log does not hold the hints.
    each = [aggregation(activity, files, way, {f"romio_cb_{way}": "enable"}) for way in ("read", "write")]
    yield Finding(
        kind,
        weigh(activity, limits, share, Severity.MEDIUM),
        f"{count_of(count, 'collective call')} of {format_size(round(mean))}, contiguous for each rank, went "
        "through aggregators",
        {
            "collective_calls": count,
            "mean_bytes": round(mean),
            "aggregators": max((file.beneath.collective_ranks for file in files if file.beneath), default=None),
        },
        top({file.path: file.bytes for file in files}),
        proposal=join_proposals(each),
        share=share,
    )


@rule(
    "exchange-costs",
    "Collective calls that hardly reach the file system",
    "Ranks agree on who does what, and send their pieces to aggregators. With small calls or pieces, that takes longer "
    "than the requests themselves.",
    "Move more data with each call, in larger contiguous pieces. Otherwise let tune measure it: other aggregators, or "
    "on one node no collective buffering, can be many times as fast.",
    limits={
        "exchange_share": Limit(0.75, "share", "of the time in collective calls that is not spent in requests"),
        "exchange_seconds": Limit(0.5, "s", "that a rank spends in collective calls of a direction"),
    },
)
def exchange_costs(activity: Activity, limits: Thresholds, kind: FindingKind) -> Iterator[Finding]:
    """Look for collective calls of which requests to the file system are a small part."""
    each = [(file, way) for way in ("write", "read") for file in activity.files if _mostly_exchanges(file, way, limits)]
    each = [(file, way) for file, way in each if not _saves_nothing(file, limits)]
    if not each:
        return
    # Files may be those of other ranks each: what all ranks spend is shared out among those of the job.
    times = [tuple(file.ranks * seconds for seconds in split_collective(file, way)) for file, way in each]
    called, requests = (sum(column) / activity.job.ranks for column in zip(*times, strict=True))
    files, ways = {file.path: file for file, _ in each}, list(dict.fromkeys(way for _, way in each))
    # Only the last view of a file is known.
    pieces = {file.view_piece if file.modes and file.modes.views <= file.ranks else None for file, _ in each}
    piece = pieces.pop() if len(pieces) == 1 else None
    calls = " and ".join(f"{way}s" for way in ways) + ("" if piece is None else f" of pieces of {format_size(piece)}")
    share = activity.share((called - requests) * activity.job.ranks)
    exchanging = [(file, way) for file, way in each if not _waits(file, way)]
    rest = "exchange between ranks, and waiting" if exchanging else "more than an exchange takes: ranks come late"
    yield Finding(
        kind,
        weigh(activity, limits, share) if exchanging else Severity.INFO,
        f"the mean rank spends {called:.3g} s in collective {calls}, and requests to the file system take "
        f"{requests:.2g} s of it; the rest is {rest}",
        {"seconds": round(called, 3), "request_seconds": round(requests, 3), "piece_bytes": piece},
        top({path: file.bytes for path, file in files.items()}),
        proposal=join_proposals(
            [
                aggregation(
                    activity, [file for file, its in exchanging if its == way], way, {f"romio_cb_{way}": "enable"}
                )
                for way in dict.fromkeys(way for _, way in exchanging)
            ]
        ),
        share=share,
    )


_SLOWEST_CALL, _SLOWEST_RANK, _SLOWEST_PIECE, _SLOWEST_RATE = 0.02, 1e-4, 2e-5, 4 << 20
"""Seconds of an exchange, and of each rank and piece in it, and bytes a second, beyond which no machine is as slow."""


def _waits(file: FileActivity, direction: str) -> bool:
    """Whether ranks must have waited for late ones in collective calls: no exchange takes so long."""
    calls = count_modes(file, direction)[0] / file.ranks
    moved: Calls = getattr(file.upper, direction)
    # The last view need not be that of all calls.
    piece = moved.mean if file.modes is not None and not file.modes.views else file.view_piece
    if not calls or not piece:
        return False
    each, requests = split_collective(file, direction)
    longest = _SLOWEST_CALL + _SLOWEST_RANK * file.ranks
    longest += moved.bytes / calls * (_SLOWEST_PIECE / piece + 1 / _SLOWEST_RATE)
    return (each - requests) / calls > longest


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
    merged = not any(
        not_aggregated(file, direction, limits) or piecewise(file, direction, limits) for file in activity.files
    )
    if merged and together and together / (together + alone) > limits["independent_share"]:
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
        f"{count_of(number, 'aggregator')} on {count_of(nodes, 'node')}: {where}",
        {"aggregators": number, "nodes": nodes},
        (file.path,),
        proposal=choose_proposal(activity, [file], [(hint("cb_nodes", str(nodes)), hint("cb_config_list", "*:1"))]),
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
