"""Carry a campaign or an evaluation on here, and show on a face how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stripewise.desk.desk import Face, Interrupted, Measuring
from stripewise.engine.campaign.book import collect
from stripewise.engine.campaign.checks import CampaignCost, check_room, cost_of
from stripewise.engine.campaign.measured import Evaluation
from stripewise.engine.campaign.outcome import summary
from stripewise.engine.campaign.plan import CampaignPlan, PlannedPoint, first_batch, of_shard
from stripewise.engine.campaign.running import WHOLE, CampaignEnd, carry_on, preview, values, write
from stripewise.engine.campaign.session import Paused
from stripewise.engine.consent import check_cost
from stripewise.engine.folders import state_folder
from stripewise.engine.process import owner_name, terminated_as_interrupted
from stripewise.requests.campaign import Campaign
from stripewise.requests.policy import load_policy
from stripewise.trial import Run

_CHARGED = ("batch", "steps")


def usual_journal(campaign: Campaign) -> Path:
    """Give the folder in which results of a campaign are kept unless another is named."""
    return state_folder() / "campaigns" / f"{campaign.name}-{campaign.digest}"


def has_ended(results: Mapping[int, Run], run: PlannedPoint) -> bool:
    """Whether a planned run has a result."""
    found = results.get(run.number)
    return found is not None and found.state.ended


def foresee(asked: Measuring) -> tuple[dict[str, Any], list[PlannedPoint]]:
    """Say what a campaign would do, and refuse where its files have no room."""
    campaign = asked.points.campaign
    document, runs = preview(asked.points, asked.shard or WHOLE)
    if campaign.launches and campaign.files.folder:
        check_room(campaign, cost_of(campaign, runs), asked.journal or usual_journal(campaign))
    return document, runs


def measure(asked: Measuring, face: Face) -> dict[str, Any]:
    """Measure a campaign or a shard of it, write its table where it is whole, and give its summary."""
    points, part = asked.points, asked.shard or WHOLE
    campaign = points.campaign
    where = asked.journal or usual_journal(campaign)
    _check_agreed(campaign, cost_of(campaign, of_shard(preview(points)[1], part)), face)
    # Simulated and replayed runs cost nothing to repeat: they are kept in memory, unless their shards are to be merged.
    kept = where if campaign.launches or asked.shard is not None or asked.journal is not None else None
    done = _carry_campaign(asked, where, kept, face)
    results, seen = done.runs, {part[0]}
    if kept is not None and part[1] > 1:
        found = collect([kept])
        results, seen = dict(found.runs), set(found.seen)
    whole = len(seen) == part[1] and CampaignPlan(points).known(results)
    table = None
    if asked.out is not None and whole and whole.complete and all(has_ended(results, run) for run in whole.runs):
        table = write(points, whole, results, done.bench.objective(points.all[0]), done.bench.kind, asked.out)
    return summary(
        points,
        of_shard(done.progress.runs, part),
        results,
        kind=done.bench.kind,
        complete=done.progress.complete,
        table=table,
        shard=part,
    )


def evaluate(asked: Measuring, model: str, eager: bool, face: Face) -> dict[str, Any]:
    """Compare default test cases with their prescribed settings, measured."""
    cases = asked.points
    question = Evaluation.prepare(cases.campaign, Path(model), first_batch(cases), eager=eager)
    face.tell(question.says)
    where = asked.journal or usual_journal(question.points.campaign)
    return measure_cases(question, where, face, keep=asked.journal is not None, retry=asked.retry)


def measure_cases(question: Evaluation, where: Path, face: Face, *, keep: bool, retry: bool) -> dict[str, Any]:
    """Make the runs of an evaluation that are left; ``keep``: simulated ones, too, in the folder ``where``."""
    points = question.points
    campaign = points.campaign
    _check_agreed(campaign, cost_of(campaign, CampaignPlan(points).known({}).runs), face)
    kept = where if campaign.launches or keep else None
    done = _carry_campaign(Measuring(campaign.name, (), points, journal=where, retry=retry), where, kept, face)
    return question.document(*values(points, done.runs), done.bench)


def _carry_campaign(asked: Measuring, where: Path, kept: Path | None, face: Face) -> CampaignEnd:
    """Carry a campaign on; an interruption or a limit ends it early."""
    try:
        with face.measuring() as listener, terminated_as_interrupted():
            part, retry = asked.shard or WHOLE, asked.retry
            return carry_on(asked.points, where, kept, owner_name(), listener, part=part, retry=retry)
    except KeyboardInterrupt:
        lost = "nothing is lost: the same command goes on" if kept is not None else "simulated runs are made again"
        raise Interrupted(f"stopped; {lost}") from None
    except Paused as paused:
        raise Interrupted(str(paused), code=0) from None


def _check_agreed(campaign: Campaign, cost: CampaignCost, face: Face) -> None:
    """Ask before jobs or steps are started whose worst case is above the site's limits."""
    if campaign.runner in _CHARGED:
        worst = {"node_hours": cost.node_hours, "bytes": float(cost.moved)}
        check_cost(worst, load_policy(), None, face.consent())
