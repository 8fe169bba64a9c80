"""Before anything is started that costs much, or that another user has written, somebody must have agreed to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stripewise.errors import UserError
from stripewise.requests.policy import Policy
from stripewise.sizes import format_size
from stripewise.store.base import Record

Consent = Callable[[str], bool]
"""Asked with a sentence that says what is to be agreed to; gives whether somebody agrees."""


def agree_always(question: str) -> bool:
    """Agree to everything, for callers that have made sure of it."""
    return True


def agree_never(question: str) -> bool:
    """Agree to nothing."""
    return False


def check_author(
    record: Record, user: str, consent: Consent, what: str = "its command, setup lines and hooks would run as"
) -> None:
    """Ask before anything is run that another user of the store has written.

    Parameters
    ----------
    user : str
        Who would run it.
    consent : callable
    what : str
        What that user has written, and that it would run as.

    Raises
    ------
    UserError
        If nobody agreed.
    """
    author = record.facts.user or record.owner.partition("@")[0]
    if author in ("", user):
        return
    question = f"experiment {record.id} is by {author}; {what} {user}"
    if not consent(question):
        raise UserError(
            f"{question}, and nobody agreed to it",
            f"read it with stripewise show {record.id} --json, then agree with --yes",
        )


def check_run(run_bytes: int | None, policy: Policy) -> None:
    """Refuse a run that moves more than the site allows.

    Raises
    ------
    UserError
        If it does.
    """
    most = policy.limits.run_bytes
    if most is not None and run_bytes is not None and run_bytes > most:
        raise UserError(
            f"a run moves {format_size(run_bytes)}, and the site allows {format_size(most)}", "make the case smaller"
        )


def check_cost(
    worst: Mapping[str, float | None],
    policy: Policy,
    agreed: Mapping[str, Any] | None,
    consent: Consent,
    also: str = "",
) -> dict[str, Any] | None:
    """Ask for consent to a worst case above the limits, once for each time that it grows.

    Parameters
    ----------
    worst : mapping
        As :func:`~stripewise.engine.budget.worst_case` gives it.
    agreed : mapping or None
        What was agreed to before.
    consent : callable
    also : str
        What is in the worst case beside launches of the program.

    Returns
    -------
    dict or None
        What is agreed to now, to be kept with the experiment; None where nothing had to be asked.

    Raises
    ------
    UserError
        If it was not agreed to, or is more than the site allows anybody.
    """
    limits = policy.limits
    hours, moved = worst.get("node_hours") or 0.0, worst.get("bytes") or 0
    if limits.node_hours is not None and hours > limits.node_hours:
        raise UserError(
            f"the worst case of {hours:.3g} node-hours is above the site's limit of {limits.node_hours:g}",
            "lower --budget, --timeout or --node-hours",
        )
    before = agreed or {}
    over = []
    if hours > max(limits.ask_node_hours, float(before.get("node_hours", 0.0))):
        over.append(f"{hours:.3g} node-hours")
    if moved > max(limits.ask_bytes, float(before.get("bytes", 0))):
        over.append(f"{format_size(int(moved))} of I/O")
    if not over:
        return None
    cost = " and ".join(over) + also
    if not consent(f"at worst this takes {cost}"):
        raise UserError(
            f"at worst this takes {cost}, and nobody agreed to it",
            "agree with --yes, or lower --budget, --timeout or --node-hours",
        )
    return {
        "node_hours": max(hours, float(before.get("node_hours", 0.0))),
        "bytes": max(moved, float(before.get("bytes", 0))),
    }
