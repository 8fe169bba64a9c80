"""Commands named in messages, completed so that they can be copied: a store given on the command line is repeated.

Messages of the lower layers say ``stripewise resume ID``. They know no options; the command line does.
"""

from __future__ import annotations

import re
import shlex

import typer

_COMMAND = re.compile(
    r"stripewise (?:list|resume|tune --confirm [0-9a-f]{8}"
    r"|(?:resume|show|experiment stop|experiment delete|run|export) (?:[0-9a-f]{8}|ID))\b(?! [0-9a-f]{8})"
)
_PASSWORD = re.compile(r"(?<=://)([^/:@\s]*):[^/\s]*@")
_HIDDEN = r"\1:***@"
_given: dict[str, str] = {}


def remember(context: typer.Context, option: typer.CallbackParam, value: str | None) -> str | None:
    """Take note of an option; a variable of the environment stays set and need not be repeated."""
    name = str(option.name)
    source = context.get_parameter_source(name)
    if value is not None and source is not None and source.name == "COMMANDLINE":
        _given[name] = value
    return value


def given(name: str) -> bool:
    """Whether an option stood on the command line itself, not in the environment."""
    return name in _given


def forget() -> None:
    """Begin a command: nothing was given yet."""
    _given.clear()


def completed(text: str) -> str:
    """Give a message with the store in every command that it names.

    A password is never printed: three stars stand for it, as everywhere.
    """
    if not _given:
        return text
    words = [f"--{name} {shlex.quote(_PASSWORD.sub(_HIDDEN, value))}" for name, value in _given.items()]
    return _COMMAND.sub(lambda found: " ".join((found[0], *words)), text)
