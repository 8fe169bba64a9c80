"""Carries the points of a campaign to their results: for the command line and for the workers of a service."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.engine.campaign.book import open_book
from stripewise.engine.campaign.checks import check_limits, cost_of
from stripewise.engine.campaign.outcome import save, table_of
from stripewise.engine.campaign.plan import CampaignPlan, PlannedPoint, Progressed, Shard, of_shard, value_of
from stripewise.engine.campaign.session import CampaignSession, Listener, ignore_message
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.objective import Objective
from stripewise.runners.native.benchmark import Bench
from stripewise.trial import Run, State

WHOLE: Shard = (1, 1)


@dataclass(frozen=True)
class CampaignEnd:
    """What was carried on to its end.

    Attributes
    ----------
    bench : Bench
        What the runs were made with.
    runs : dict of int to Run
        All results that are known, those of earlier sessions included.
    """

    bench: Bench
    runs: dict[int, Run]
    progress: Progressed


def carry_on(
    points: Points,
    where: Path,
    kept: Path | None,
    owner: str,
    listener: Listener = ignore_message,
    *,
    part: Shard = WHOLE,
    retry: bool = False,
) -> CampaignEnd:
    """Make the runs that are left of a shard.

    Parameters
    ----------
    where : Path
        Folder for what the runs need while they are under way.
    kept : Path or None
        Folder of the journal; None keeps results in memory.
    listener : callable
        As for :class:`~stripewise.engine.campaign.session.CampaignSession`.
    retry : bool
        Make failed runs of earlier sessions once more.

    Raises
    ------
    UserError, NothingWorks, Paused
        As :meth:`~stripewise.engine.campaign.session.CampaignSession.run`.
    """
    bench = Bench(_of_shard(points.campaign, part), points, where / "runs", dict(os.environ))
    with contextlib.ExitStack() as stack:
        book = open_book(points.campaign, part, kept, owner)
        stack.callback(book.release)
        progress = CampaignSession(points, bench, book, part, where / "runs", listener, retry=retry).run()
        return CampaignEnd(bench, dict(book.runs), progress)


def _of_shard(campaign: Campaign, part: Shard) -> Campaign:
    """Give each shard a file of its own: several may be at work in the same folder."""
    if part[1] == 1:
        return campaign
    name = f"{campaign.files.name}.{part[0]}"
    return campaign.model_copy(update={"files": campaign.files.model_copy(update={"name": name})})


def write(
    points: Points, progress: Progressed, results: Mapping[int, Run], objective: Objective, kind: str, out: Path
) -> Path:
    """Write the table of a campaign, and give the path of its data.

    Raises
    ------
    UserError
        If it cannot be written.
    """
    campaign = points.campaign
    about = {
        "simulated": f"Simulated on {campaign.runner}: computed, not measured.",
        "replayed": f"Replayed from {campaign.runner.partition(':')[2]}.",
    }.get(kind, f"Measured with {campaign.program}.")
    whole = campaign.design.kind == "grid"
    return save(table_of(points, progress.runs, results, objective, about, whole), out)


def values(points: Points, results: Mapping[int, Run]) -> tuple[dict[tuple[str, Configuration], list[float]], int]:
    """Give the values of each point in the order of its repeats, and how many runs failed."""
    found: dict[tuple[str, Configuration], list[float]] = {}
    failed = 0
    for run in sorted(CampaignPlan(points).known(results).runs, key=lambda entry: (entry.trial, entry.repeat)):
        result = value_of(results, run.number)
        if result is None or result.state is not State.FINISHED or result.value is None:
            failed += 1
            continue
        found.setdefault((run.point.operation, run.point.values), []).append(float(result.value))
    return found, failed


def preview(points: Points, part: Shard = WHOLE) -> tuple[dict[str, Any], list[PlannedPoint]]:
    """Say what a campaign would do, as plain values, and give the runs of a shard.

    Raises
    ------
    UserError
        If it would cost more than it may.
    """
    campaign = points.campaign
    progress = CampaignPlan(points).known({})
    runs = of_shard(progress.runs, part)
    cost = cost_of(campaign, runs)
    check_limits(campaign, cost)
    return {
        "campaign": campaign.name,
        "digest": campaign.digest,
        "design": campaign.design.kind,
        "possible": {operation: len(points.of(operation)) for operation in campaign.operations},
        "left_out": points.left_out,
        "runs": cost.runs,
        "complete": progress.complete,
        "launches": cost.launches if campaign.launches else 0,
        "bytes": cost.moved,
        "largest_file": cost.largest,
        "worst_node_hours": cost.node_hours,
        "assumed": campaign.assumptions(),
        "first": [{"operation": run.point.operation, "configuration": dict(run.point.values)} for run in runs[:3]],
    }, runs
