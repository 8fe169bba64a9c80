"""What a campaign will cost, and whether there is room for it; looked at before anything is started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stripewise.engine.campaign.plan import PlannedPoint
from stripewise.errors import UserError
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Point
from stripewise.sizes import format_size

_JOURNAL_BYTES = 4096
_RUN_BYTES = 2 << 20
_RUN_INODES = 16
"""Of one run's own folder and of its lines in the journal, generously."""


@dataclass(frozen=True)
class CampaignCost:
    """What runs will use.

    Attributes
    ----------
    launches : int
        Programs started: a read is preceded by the write of its file.
    moved : int
        Bytes written and read.
    largest : int
        Bytes of the largest file; there is one at a time.
    files : int
        Most files at a time.
    node_hours : float
        The most there can be: every run up to its time limit.
    """

    runs: int
    launches: int
    moved: int
    largest: int
    files: int
    node_hours: float


def cost_of(campaign: Campaign, runs: Sequence[PlannedPoint]) -> CampaignCost:
    """Add up the cost of runs."""
    points = [run.point for run in runs]
    reads = sum(point.operation == "read" for point in points)
    return CampaignCost(
        runs=len(points),
        launches=len(points) + reads,
        moved=sum(bytes_of(point) for point in points),
        largest=max((point.workload.file_size or 0 for point in points), default=0),
        files=max((point.processes if point.workload.file_per_process else 1 for point in points), default=0),
        node_hours=sum((point.workload.nodes or 1) for point in points) * campaign.timeout / 3600,
    )


def bytes_of(point: Point) -> int:
    """Bytes that a point's run moves."""
    return (point.workload.file_size or 0) * (2 if point.operation == "read" else 1)


def check_limits(campaign: Campaign, cost: CampaignCost) -> None:
    """Refuse a campaign that is larger than its owner allows.

    Raises
    ------
    UserError
    """
    limits = campaign.limits
    if limits.runs is not None and cost.runs > limits.runs:
        raise UserError(
            f"{cost.runs:,} runs are left, more than the {limits.runs:,} of limits.runs", "raise it, or ask for fewer"
        )
    if limits.bytes is not None and cost.moved > limits.bytes:
        raise UserError(
            f"{format_size(cost.moved)} would be moved, more than the {format_size(limits.bytes)} of limits.bytes",
            "raise it, or use smaller files or a smaller design",
        )


def check_room(campaign: Campaign, cost: CampaignCost, scratch: Path) -> None:
    """Refuse to begin where blocks or inodes do not suffice.

    Parameters
    ----------
    scratch : Path
        Folder of the journal and the runs' own folders; the nearest parent that exists is looked at.

    Raises
    ------
    UserError
        With how much is needed and how much there is.
    """
    free = campaign.limits.free
    if campaign.files.folder:
        _room(Path(campaign.files.folder), cost.largest, cost.files, free, "the benchmark's file")
    _room(scratch, cost.runs * _JOURNAL_BYTES + _RUN_BYTES, _RUN_INODES, 0.0, "the journal")


def _room(folder: Path, needed: int, inodes: int, free: float, what: str) -> None:
    place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    state = os.statvfs(place)
    total, available = state.f_blocks * state.f_frsize, state.f_bavail * state.f_frsize
    if available - needed < free * total:
        share = f", of which {free:.0%} must stay free (limits.free)" if free else ""
        raise UserError(
            f"{place} has {format_size(available)} of {format_size(total)} left{share}: too little for {what} "
            f"of {format_size(needed)}",
            "make room, use smaller files, or another folder",
        )
    # File systems without a fixed number of inodes say 0, and CephFS that -1 are left of those in use.
    if state.f_files and state.f_favail >= 0 and state.f_favail - inodes < free * state.f_files:
        raise UserError(
            f"{place} has {state.f_favail:,} of {state.f_files:,} inodes left: too few for {what}",
            "remove files there, or use another folder",
        )
