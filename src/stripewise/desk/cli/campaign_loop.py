"""A campaign under way, as ``profile`` and ``evaluate`` show it: what it costs, how far it is, how it ends early."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import typer

from stripewise.desk.cli.output import Ticker, ask, duration, notes, number, remark
from stripewise.engine.campaign.checks import CampaignCost
from stripewise.engine.campaign.plan import PlannedPoint, Shard
from stripewise.engine.campaign.running import WHOLE, CampaignEnd, carry_on
from stripewise.engine.campaign.session import Paused, Remaining
from stripewise.engine.consent import check_cost
from stripewise.engine.process import owner_name, terminated_as_interrupted
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.policy import load_policy
from stripewise.sizes import format_size
from stripewise.trial import Run, State


def carried(points: Points, where: Path, kept: Path | None, *, part: Shard = WHOLE, retry: bool = False) -> CampaignEnd:
    """Carry a campaign on here, showing how far it is; an interruption or a limit ends the command."""
    display = Display()
    try:
        with terminated_as_interrupted():
            return carry_on(points, where, kept, owner_name(), display, part=part, retry=retry)
    except KeyboardInterrupt:
        lost = "nothing is lost: the same command goes on" if kept is not None else "simulated runs are made again"
        notes.print(f"stopped; {lost}")
        raise typer.Exit(130) from None
    except Paused as paused:
        remark(str(paused))
        raise typer.Exit(0) from None
    finally:
        display.close()


def changes(folder: str | None, runner: str | None, repeats: int | None, seed: int | None) -> list[tuple[str, Any]]:
    """Give the keys of a campaign that options replace."""
    given = {
        "files.folder": folder and str(Path(folder).absolute()),
        "runner": runner,
        "repeats": repeats,
        "seed": seed,
    }
    return [(key, value) for key, value in given.items() if value is not None]


def for_service(changed: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Give what :func:`changes` has found under the names of a service's requests."""
    return {name.rpartition(".")[2]: value for name, value in changed}


def cost_lines(campaign: Campaign, cost: CampaignCost, left_out: int, *, more: bool = False) -> list[str]:
    """Say what a campaign will do, a line each."""
    found = [
        f"design    {campaign.design.kind}, {cost.runs:,} runs{' at first' if more else ''}, {campaign.repeats} repeats"
    ]
    if campaign.launches:
        found.append(
            f"cost      {cost.launches:,} launches, {format_size(cost.moved)} of I/O, files of up to "
            f"{format_size(cost.largest)}; at most {number(cost.node_hours, 'node-hours', 3)}, if every run hung"
        )
    if left_out:
        found.append(f"left out  {left_out:,} combinations that the program cannot carry out (sizes do not divide)")
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

    def show(self, done: int, left: int, rest: Callable[[], str] = str) -> None:
        """Say how many runs were made and are left, and the rest, unless that was said a moment ago."""
        self._done = done
        self.tell(lambda: f"{done:,} runs made, {left:,} left{rest()}", last=not left)

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


_CHARGED = ("batch", "steps")


def check_agreed(campaign: Campaign, cost: CampaignCost, yes: bool, json_output: bool) -> None:
    """Ask before jobs or steps are started whose worst case is above the site's limits.

    Raises
    ------
    UserError
        If it was not agreed to, or is more than the site allows.
    """
    if campaign.runner in _CHARGED:
        worst = {"node_hours": cost.node_hours, "bytes": float(cost.moved)}
        check_cost(worst, load_policy(), None, lambda question: yes or ask(question, json_output))
