"""What every kind of store refuses, in the same words, so that none lets through what another does not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stripewise.errors import NotFound, StoreError, UserError, choose
from stripewise.store.base import STATES, Claim, Sort
from stripewise.trial import Run, Trial

MOST_TAGS = 20
LONGEST_TAG = 40
LONGEST_REMARK = 4000


def check_state(state: str | None) -> None:
    """Refuse a state that experiments do not have."""
    if state is not None and state not in STATES:
        raise UserError(f"'{state}' is not a state of an experiment", choose(state, STATES))


def check_page(limit: int, offset: int, sort: Sort | str) -> Sort:
    """Refuse a page that cannot be."""
    if limit < 0 or offset < 0:
        raise UserError(f"a page of {limit} experiments from {offset} cannot be given", "use numbers from 0")
    try:
        return Sort(sort)
    except ValueError:
        raise UserError(f"experiments cannot be sorted by '{sort}'", choose(sort, Sort)) from None


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Give tags without blanks around them, each once; refuse what cannot be a tag."""
    found = tuple(dict.fromkeys(word for tag in tags if (word := tag.strip())))
    if len(found) > MOST_TAGS:
        raise UserError(f"{len(found)} tags are too many", f"an experiment has at most {MOST_TAGS}")
    for tag in found:
        if "," in tag or len(tag) > LONGEST_TAG or not tag.isprintable():
            raise UserError(
                f"'{tag[:60]!a}' cannot be a tag",
                f"use at most {LONGEST_TAG} characters, without commas and line feeds",
            )
    return found


def check_remark(text: str) -> str:
    """Give a remark without blanks around it; refuse one that is too long."""
    if len(text) > LONGEST_REMARK:
        raise UserError(f"the remark has {len(text)} characters", f"use at most {LONGEST_REMARK}")
    if not all(character.isprintable() or character in "\n\t\r" for character in text):
        raise UserError("the remark has characters that cannot be shown", "remove them")
    return text.strip()


def check_planned(trial: Trial | None, run: Run) -> None:
    """Refuse to plan what is not a planned run."""
    if run.state.ended:
        raise StoreError(f"run {run.number} has ended and cannot be planned")
    if trial is not None and trial.number != run.trial:
        raise StoreError(f"run {run.number} belongs to trial {run.trial}, not to trial {trial.number}")


def check_result(run: Run) -> None:
    """Refuse to accept anything but a result."""
    if not run.state.ended:
        raise StoreError(f"run {run.number} is {run.state} and has no result to accept")
    for name, value in (("value", run.value), ("elapsed", run.elapsed), ("started", run.started)):
        if value is not None and math.isnan(value):
            raise StoreError(f"the {name} of run {run.number} is not a number", "mark the run as failed instead")


def check_claim(identifier: str, claim: Claim) -> None:
    """Refuse a claim on another experiment."""
    if claim.experiment != identifier:
        raise StoreError(f"a claim on experiment {claim.experiment} gives no right to write to {identifier}")


def check_identifier(identifier: str, where: str) -> None:
    """Refuse what cannot be an identifier, or the beginning of one, before a database or a path is made of it."""
    if not (identifier.isascii() and identifier.isalnum() and len(identifier) <= 32):
        raise no_experiment(identifier, where)


def no_experiment(identifier: str, where: str) -> UserError:
    """Say that the experiment does not exist."""
    shown = identifier[:40].encode("ascii", "backslashreplace").decode()
    return NotFound(f"experiment '{shown}' does not exist in {where}", "see: stripewise list")


def ambiguous(identifier: str, found: list[str]) -> UserError:
    """Say that an identifier was cut too short."""
    return UserError(f"'{identifier}' begins several experiments: {', '.join(found)}", "give more of the identifier")


def held(identifier: str, owner: str, seconds: float) -> StoreError:
    """Say who has the right to write."""
    return StoreError(
        f"experiment {identifier} is being run by {owner}",
        f"stop it with: stripewise stop {identifier}; if it died on another host, it can be taken over in "
        f"{math.ceil(max(seconds, 1))} s",
    )


def lost(claim: Claim, owner: str) -> StoreError:
    """Say that a claim has ended."""
    by = f"was taken over by {owner}" if owner and owner != claim.owner else "has ended"
    return StoreError(
        f"the claim of {claim.owner} on experiment {claim.experiment} {by}",
        "nothing more is written under it; stripewise list shows who runs the experiment now",
    )


def not_planned(identifier: str, number: int) -> StoreError:
    """Say that a run does not exist."""
    return StoreError(f"experiment {identifier} has no run {number}: it was never planned")


def has_result(identifier: str, number: int) -> StoreError:
    """Say that a run has ended already."""
    return StoreError(f"run {number} of experiment {identifier} already has a result", "a run has only one")


def other_run(identifier: str, run: Run, trial: int) -> StoreError:
    """Say that a result names another trial than the planned run."""
    return StoreError(f"run {run.number} of experiment {identifier} belongs to trial {trial}, not to trial {run.trial}")


def already_there(identifier: str, what: str, number: int) -> StoreError:
    """Say that a number is in use."""
    return StoreError(f"experiment {identifier} already has a {what} {number}", "two sessions may be planning at once")


def no_trial(identifier: str, number: int) -> StoreError:
    """Say that a run's trial does not exist."""
    return StoreError(f"experiment {identifier} has no trial {number} for the run to belong to")
