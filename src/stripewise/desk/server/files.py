"""Where the service keeps files, under names that no request can choose freely."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from stripewise.catalogue.stack import stack_names
from stripewise.errors import NotFound, UserError, choose
from stripewise.ownership import names_file
from stripewise.requests.campaign import Campaign, changed_campaign, parse_campaign

STACK_FILE = "stack.toml"
"""Name of the file of an uploaded stack in its folder."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")


def folder_of(data: Path, kind: str, identifier: str) -> Path:
    """Give the folder of an item, which has a name that no request can choose freely.

    Raises
    ------
    UserError
        If the identifier cannot name a folder.
    """
    plain = identifier.isascii() and identifier.replace("-", "").replace("_", "").isalnum()
    if not plain or len(identifier) > 64:
        raise UserError(f"'{identifier[:64]}' is not a valid name of a {kind}", "use letters, digits, - and _")
    return data / kind / identifier


def table_path(data: Path, name: str) -> Path:
    """Give the path of a table: ``campaign:ID`` for a campaign's, otherwise an uploaded one's name.

    Raises
    ------
    UserError
        If there is none.
    """
    kind, colon, identifier = name.partition(":")
    path = folder_of(data, "campaign", identifier) if colon and kind == "campaign" else folder_of(data, "table", name)
    if not (path / "table.toml").is_file():
        raise NotFound(f"table '{name[:64]}' does not exist", "upload one, or run a campaign to its end")
    return path / "table"


def find_stacks(data: Path, stacks: Sequence[str]) -> list[str]:
    """Give stacks as the engine finds them: the path of each that was uploaded, in place of its name.

    Raises
    ------
    UserError
        If there is no stack of a name.
    """
    known = stack_names()
    return [name if name in known or names_file(name) else str(_stack_path(data, name)) for name in stacks]


def _stack_path(data: Path, name: str) -> Path:
    path = folder_of(data, "stack", name) / STACK_FILE
    if not path.is_file():
        raise UserError(f"there is no stack '{name[:64]}'", f"{choose(name, stack_names())}, or upload a stack file")
    return path


def name_stack(data: Path, stack: str) -> str:
    """Give the name of a stack that was uploaded, in place of its path; others as they are."""
    path = Path(stack)
    return path.parent.name if path.name == STACK_FILE and path.parent.parent == data / "stack" else stack


def campaign_in(place: Path) -> Campaign:
    """Read the campaign of a folder, with what its request has changed of its file."""
    campaign = parse_campaign((place / "campaign.toml").read_text("utf-8"), "campaign.toml")
    changes = place / "changes.json"
    changed = json.loads(changes.read_text("utf-8")) if changes.exists() else {}
    return changed_campaign(campaign, changed.items(), "campaign.toml")


def checked_name(name: str, what: str) -> str:
    """Give a name that may become one of a folder.

    Raises
    ------
    UserError
        If it may not.
    """
    if not _NAME.match(name):
        raise UserError(f"the name of the {what} is not made of letters, digits, - and _", "as in site-2026")
    return name


def new_identifier() -> str:
    """Choose an identifier."""
    return secrets.token_hex(6)
