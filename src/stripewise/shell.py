"""Text that reaches a shell, a scheduler's directive or an environment: its alphabets, and how it is quoted.

A job script is read twice, by the scheduler (its directives) and by bash (the rest), and both read lines. So text is
checked where it enters (the types), and quoted where it is written (:func:`quote`, :func:`assign`, :func:`directive`).
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from stripewise.errors import UserError

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_RESOURCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,:@/+%-]{0,254}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
_JOB = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_IDENTIFIER = re.compile(r"[A-Za-z0-9ƒ][A-Za-z0-9ƒ_.@\[\]+-]{0,254}")
_PLAIN = re.compile(r"[\w@%+=:,./-]+")
_SHELL_WORDS = re.compile(r"[\w@%+=:,./ -]*")

_LONGEST_NAME = 500

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "csh", "tcsh", "fish"})
"""Programs whose argument is a script, by base name."""


def _resource(text: str) -> str:
    if not _RESOURCE.fullmatch(text):
        raise ValueError("is not a name that schedulers know: write letters, digits and _ . , : @ / + % - only")
    return text


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise ValueError("is not the name of a variable: write letters, digits and underscores only")
    return text


def _option(text: str) -> str:
    if not text.startswith("-") or not text.isprintable() or text.endswith("\\"):
        raise ValueError("is not an option on one line: begin it with -, without control characters or a final \\")
    return text


def make_showable(text: str) -> str:
    """Put a question mark in the place of each character that cannot be shown in a name."""
    return "".join("?" if _is_hidden(letter) else letter for letter in text)


def _is_hidden(letter: str) -> bool:
    return not is_unicode(letter) or unicodedata.category(letter) == "Cc"


def _shown_name(text: str) -> str:
    if any(_is_hidden(letter) for letter in text):
        raise ValueError("is not text that can be shown: write it in UTF-8, without control characters")
    if len(text) > _LONGEST_NAME:
        raise ValueError(f"is longer than {_LONGEST_NAME} characters")
    return text


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character, which no command or variable can carry")
    return text


@dataclass(frozen=True)
class _Checked:
    """As pydantic's ``AfterValidator``, but a launch that only quotes words does not load pydantic."""

    check: Callable[[str], str]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema  # noqa: PLC0415  slow to load

        return core_schema.no_info_after_validator_function(self.check, handler(source))


ResourceName = Annotated[str, _Checked(_resource)]
"""A queue, account or reservation, as a directive names it."""
VariableName = Annotated[str, _Checked(_variable)]
"""The name of an environment variable."""
ShownName = Annotated[str, _Checked(_shown_name)]
"""A name that people give to something, for lists and pages."""
VariableValue = Annotated[str, _Checked(_without_nul)]
"""The value of an environment variable, a word of a command, or a path."""
ShellLine = Annotated[str, _Checked(_without_nul)]
"""What its author wants a shell to read: setup lines and hooks."""
DirectiveOption = Annotated[str, _Checked(_option)]
"""An option of a scheduler, on one line: a line feed would make the rest of it shell."""


def quote(text: str) -> str:
    """Quote one word for a shell; it stands for exactly this text.

    Raises
    ------
    UserError
        If no shell can hold it: NUL, or text that is not valid Unicode.
    """
    if not is_unicode(text):
        raise UserError(f"{text!r} is not valid text for a script", "use a name in UTF-8")
    if "\0" in text:
        raise UserError(f"{text[:40]!r} holds a NUL character", "take it out: no command or variable can carry it")
    quoted = shlex.quote(text)
    # zsh takes =ls for the path of ls.
    return f"'{text}'" if quoted == text and text.startswith("=") else quoted


def quote_all(words: Iterable[str]) -> str:
    """Quote the words of a command."""
    return " ".join(quote(word) for word in words)


def assign(name: str, value: str) -> str:
    """Write the shell command that exports a variable.

    Raises
    ------
    UserError
        If the name is not that of a variable.
    """
    return f"export {variable_name(name)}={quote(value)}"


def assign_all(variables: Mapping[str, str]) -> str:
    """Write the shell commands that export variables, one a line."""
    return "".join(f"{assign(name, value)}\n" for name, value in variables.items())


def variable_name(text: str) -> str:
    """Give a name back if it is that of a variable.

    Raises
    ------
    UserError
        If it is not.
    """
    return _check_text(_variable, text)


def is_variable(text: str) -> bool:
    """Whether a text can name a variable."""
    return _VARIABLE.fullmatch(text) is not None


def directive(mark: str, option: str) -> str:
    """Write a line for the scheduler.

    Raises
    ------
    UserError
        If the option does not fit on one line.
    """
    return f"{mark} {_check_text(_option, option)}"


def directive_path(path: Path) -> str:
    """Write a path into a directive, in double quotes where it has white space.

    Raises
    ------
    UserError
        If the path has a character that schedulers read differently.
    """
    text = str(path)
    if _PLAIN.fullmatch(text):
        return text
    if not text.isprintable() or any(character in text for character in "\"'\\$`!"):
        raise UserError(
            f"the path {text!r} has characters that a job script's directives cannot hold",
            "use a folder without quotes, backslashes, $ and control characters in its path",
        )
    return f'"{text}"'


def job_name(text: str) -> str:
    """Name a job with what all schedulers take: other characters become dashes."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def check_job_name(text: str) -> str:
    """Give a job's name back if all schedulers take it.

    Raises
    ------
    UserError
        If they do not.
    """
    if not _JOB.fullmatch(text):
        raise UserError(f"{text!r} cannot name a job", "use letters, digits and _ . - only")
    return text


def job_identifier(text: str) -> str:
    """Give a job's identifier back if it is one, and not an option of the command that it goes to.

    Raises
    ------
    UserError
        If it is not.
    """
    if not _IDENTIFIER.fullmatch(text):
        raise UserError(f"{text[:80]!r} is not the identifier of a job", "see the run's folder: who wrote it?")
    return text


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: a file name in another encoding holds characters that cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def is_plain(text: str) -> bool:
    """Whether text means the same inside a shell line however that line quotes it."""
    return _SHELL_WORDS.fullmatch(text) is not None


def _check_text(check: object, text: str) -> str:
    assert callable(check)
    try:
        return str(check(text))
    except ValueError as error:
        raise UserError(f"{text[:80]!r} {error}", "correct it in the experiment, campaign or command") from error
