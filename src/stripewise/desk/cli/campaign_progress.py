"""A campaign under way, as ``profile`` and ``evaluate`` show it: what it costs, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stripewise.desk.cli.output import Ticker, duration, notes, number, remark
from stripewise.engine.campaign.checks import CampaignCost, cost_of
from stripewise.engine.campaign.plan import PlannedPoint
from stripewise.engine.campaign.running import preview
from stripewise.engine.campaign.session import Remaining
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Points
from stripewise.sizes import count_of, format_size
from stripewise.trial import Run, State


def list_changes(
    folder: str | None, runner: str | None, repeats: int | None, seed: int | None
) -> list[tuple[str, Any]]:
    """Give the keys of a campaign that options replace."""
    given = {
        "files.folder": folder and str(Path(folder).absolute()),
        "runner": runner,
        "repeats": repeats,
        "seed": seed,
    }
    return [(key, value) for key, value in given.items() if value is not None]


def cost_lines(campaign: Campaign, cost: CampaignCost, left_out: int, *, more: bool = False) -> list[str]:
    """Say what a campaign will do, a line each."""
    found = [
        f"design    {campaign.design.kind}, {count_of(cost.runs, 'run')}{' at first' if more else ''}, "
        f"{count_of(campaign.repeats, 'repeat')}"
    ]
    if campaign.launches:
        found.append(
            f"cost      {count_of(cost.launches, 'launch', 'launches')}, {format_size(cost.moved)} of I/O, files "
            "of up to "
            f"{format_size(cost.largest)}; at most {number(cost.node_hours, 'node-hours', 3)}, if every run hung"
        )
    if left_out:
        found.append(
            f"left out  {count_of(left_out, 'combination')} that the program cannot carry out (sizes do not divide)"
        )
    assumed = campaign.assumptions()
    if assumed:
        found.append(f"assumed   values that the study does not print, chosen here: of {', '.join(assumed)}")
    return found


class Display(Ticker):
    """Says how far a campaign is."""

    def __init__(self) -> None:
        super().__init__()
        self._done = 0

    def __call__(self, kind: str, data: Mapping[str, Any]) -> None:
        """Hear of an event of a session."""
        handler = getattr(self, f"_on_{kind}", None)
        if handler is not None:
            handler(**data)

    def plan(self, points: Points) -> int:
        """Say what a service will measure; give the runs that are planned, as far as is known."""
        _, runs = preview(points)
        if points.campaign.runner.startswith("sim:"):
            notes.print("simulated: nothing is launched, figures are computed")
        self._on_cost(cost_of(points.campaign, runs), points.campaign, points.left_out)
        return len(runs)

    def show(self, done: int, left: int, rest: Callable[[], str] = str) -> None:
        """Say how many runs were made and are left, and the rest, unless that was said a moment ago."""
        self._done = done
        self.tell(lambda: f"{count_of(done, 'run')} made, {left:,} left{rest()}", last=not left)

    def _on_prepared(self, preflight: Any, kind: str) -> None:
        for line in (*preflight.summary, *(f"note: {warning}" for warning in preflight.warnings)):
            remark(line)
        if kind == "simulated":
            notes.print("simulated: nothing is launched, figures are computed")

    def _on_cost(self, cost: CampaignCost, campaign: Campaign, left_out: int) -> None:
        for line in cost_lines(campaign, cost, left_out):
            remark(line)

    def _on_warmup(self, operation: str) -> None:
        notes.print(f"warm-up   {operation}")

    def _on_note(self, text: str) -> None:
        remark(f"note: {text}")

    def _on_ended(self, run: Run, planned: PlannedPoint, left: int, remaining: Any) -> None:
        if run.state is not State.FINISHED:
            remark(f"run {run.number} failed: {run.reason}")
        self.show(self._done + 1, left, lambda: _time(remaining()))


def _time(remaining: Remaining) -> str:
    if not remaining.seconds:
        return ""
    return f", {duration(remaining.seconds)} ({duration(remaining.low)} to {duration(remaining.high)})"
