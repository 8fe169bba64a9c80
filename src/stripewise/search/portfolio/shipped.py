"""The file of general knowledge that ships with the package: written by one command from its sources, checked here.

A JSON document: ``format``, ``version``, ``made`` (the command), ``sources`` (each with its licence), ``members``. A
member has its ``group``, whether it is ``simulated``, and its trees as arrays
(:class:`~stripewise.model.trees.arrays.TreeArrays`), one member a line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.errors import UserError
from stripewise.model.trees.ensemble import Trees
from stripewise.search.portfolio.features import ROLES, encode
from stripewise.search.portfolio.members import Members

FORMAT = "stripewise-general-knowledge"
VERSION = 1
PLACE = Path(__file__).with_name("several_nodes.json")
_REPAIR = "install Stripewise again, or search without it: --no-general-knowledge"
_STORED = ("roots", "feature", "threshold", "left", "right", "value")
_FEATURES = encode({}, "write", {role: np.zeros(1) for role in ROLES}, 1).shape[1]


@dataclass(frozen=True, eq=False)
class Shipped:
    """What a file of general knowledge holds.

    Attributes
    ----------
    members : Members
    sources : tuple of str
        What it was learned from.
    digest : str
        Of the file, in short.
    """

    members: Members
    sources: tuple[str, ...]
    digest: str


def text_of(members: Members, sources: Sequence[str], made: str) -> str:
    """Write members as the text of a file; the same members give the same text.

    Parameters
    ----------
    members : Members
    sources : sequence of str
        What they were learned from, each with its licence.
    made : str
        The command that makes the file.
    """
    lines = [
        json.dumps({"group": group, "simulated": simulated, "trees": _written(trees)}, separators=(",", ":"))
        for group, simulated, trees in zip(members.groups, members.simulated, members.trees, strict=True)
    ]
    head = json.dumps({"format": FORMAT, "version": VERSION, "made": made, "sources": list(sources)}, indent=1)
    return head.removesuffix("\n}") + ',\n "members": [\n' + ",\n".join(lines) + "\n]}\n"


def _written(trees: Trees) -> dict[str, list[float]]:
    # A float32 has at most nine digits; as a double it would have seventeen.
    return {name: [json.loads(str(value)) for value in getattr(trees, name)] for name in _STORED}


def parse(text: str, origin: str) -> Shipped:
    """Read the text of a file.

    Raises
    ------
    UserError
        If it is of another version, or damaged.
    """
    try:
        document = json.loads(text)
        found, version = document["format"], document["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{origin} is not a file of general knowledge: {error}", _REPAIR) from error
    if found != FORMAT:
        raise UserError(f"{origin} is not a file of general knowledge", _REPAIR)
    if version != VERSION:
        raise UserError(f"{origin} has format version {version}, this program reads {VERSION}", _REPAIR)
    try:
        entries = document["members"]
        members = Members(
            tuple(str(entry["group"]) for entry in entries),
            tuple(bool(entry["simulated"]) for entry in entries),
            tuple(_read(entry["trees"]) for entry in entries),
        )
        sources = tuple(map(str, document["sources"]))
    except (KeyError, TypeError, ValueError, OverflowError, UserError) as error:
        raise UserError(f"{origin} is damaged: {error}", _REPAIR) from error
    return Shipped(members, sources, hashlib.sha256(text.encode()).hexdigest()[:16])


def _read(stored: Mapping[str, Sequence[float]]) -> Trees:
    """Take the arrays back; what only the training knew is left at zero."""
    arrays: dict[str, Any] = {name: np.asarray(stored[name], dtype=np.float64) for name in _STORED}
    nothing = np.zeros(len(arrays["feature"]))
    trees = Trees.restored(arrays | {"gain": nothing, "count": nothing})
    if not len(trees) or trees.feature.max() >= _FEATURES or not np.isfinite([*trees.threshold, *trees.value]).all():
        raise ValueError("its trees are not of these features")
    return trees


@cache
def shipped() -> Shipped:
    """Read what ships with the package, once.

    Raises
    ------
    UserError
        If the file is missing or damaged.
    """
    try:
        text = PLACE.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the general knowledge {PLACE}: {error}", _REPAIR) from error
    return parse(text, str(PLACE))
