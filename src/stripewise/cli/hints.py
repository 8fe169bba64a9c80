"""Commands named in messages, completed so that they can be copied: a store given on the command line is repeated.

Messages of the lower layers say ``stripewise resume ID``. They know no options; the command line does.
"""

from __future__ import annotations

import re
import shlex

import typer

_COMMAND = re.compile(
    r"stripewise (?:list|resume|(?:resume|show|stop|delete|run|export) (?:[0-9a-f]{8}|ID))\b(?! [0-9a-f]{8})"
)
_PASSWORD = re.compile(r"(?<=://)([^/:@\s]*):[^/\s]*@")
_given: list[str] = []


def remember_store(context: typer.Context, value: str | None) -> str | None:
    """Take note of ``--store``; a variable of the environment stays set and need not be repeated."""
    source = context.get_parameter_source("store")
    if value is not None and source is not None and source.name == "COMMANDLINE":
        _given[:] = [value]
    return value


def forget() -> None:
    """Begin a command: nothing was given yet."""
    _given.clear()


def completed(text: str) -> str:
    """Give a message with the store in every command that it names.

    A password is never printed: three stars stand for it, as everywhere.
    """
    if not _given:
        return text
    store = shlex.quote(_PASSWORD.sub(r"\1:***@", _given[0]))
    return _COMMAND.sub(lambda found: f"{found[0]} --store {store}", text)
