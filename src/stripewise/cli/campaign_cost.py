"""Nobody's node-hours are spent on a campaign unasked."""

from __future__ import annotations

import sys

import typer

from stripewise.profiling.checks import Cost
from stripewise.spec.campaign import Campaign
from stripewise.spec.policy import load_policy
from stripewise.tuning.consent import check_cost

_CHARGED = ("batch", "steps")


def check_agreed(campaign: Campaign, cost: Cost, yes: bool, json_output: bool) -> None:
    """Ask before jobs or steps are started whose worst case is above the site's limits.

    Raises
    ------
    UserError
        If it was not agreed to, or is more than the site allows.
    """
    if campaign.runner in _CHARGED:
        worst = {"node_hours": cost.node_hours, "bytes": float(cost.moved)}
        check_cost(worst, load_policy(), None, lambda question: yes or ask(question, json_output))


def ask(question: str, json_output: bool) -> bool:
    """Ask on the terminal; where nobody is there to answer, nothing is agreed to."""
    return not json_output and sys.stdin.isatty() and typer.confirm(f"{question}: go on?", err=True)
