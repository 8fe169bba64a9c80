"""MPI-IO: which kinds of calls a job makes, and how many processes carry them out."""

from __future__ import annotations

from collections.abc import Iterator

from stripewise.diagnose.finding import Finding, FindingKind, Severity, each_way, rule
from stripewise.diagnose.limits import Thresholds
from stripewise.diagnose.rules.settings import hint, proposed
from stripewise.observe.activity import Activity, FileActivity


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
