"""How the command line speaks: tables on a terminal, plain lines in a pipe, JSON for machines, errors in one line."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import stat
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape as escape_tags
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from stripewise.desk.cli.plain import fold, show_controls
from stripewise.errors import UserError
from stripewise.ownership import is_special, open_to_write, take_from_others, written_whole
from stripewise.sizes import format_duration

_PIPE_WIDTH = 200


class _Plain(Console):
    """A console that shows control characters in texts instead of sending them: a log's names must not steer it.

    Lines end with their last character, where a table would fill them with blanks.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Give what is printed, with control characters written out."""
        line: list[Segment] = []
        for segment in super().render(renderable, options):
            text = segment.text
            if text == "\n":
                yield from _strip_end(line)
                yield segment
                line = []
            elif segment.control is None and not (text.isascii() and text.isprintable()):
                line.append(Segment(show_controls(text), segment.style))
            else:
                line.append(segment)
        yield from line


def _strip_end(line: list[Segment]) -> list[Segment]:
    """Leave out the blanks at the end of a line."""
    kept = list(line)
    while kept and kept[-1].control is None and not kept[-1].text.rstrip(" "):
        kept.pop()
    if kept and kept[-1].control is None:
        kept[-1] = Segment(kept[-1].text.rstrip(" "), kept[-1].style)
    return kept


def _console(*, stderr: bool) -> Console:
    # In a pipe nothing must be cut off: a program or a pager reads it, not a window of eighty columns.
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return _Plain(stderr=stderr, highlight=False, soft_wrap=True, emoji=False, width=None if terminal else _PIPE_WIDTH)


console = _console(stderr=False)
"""For results."""

notes = _console(stderr=True)
"""For progress and errors, so that results can be piped."""


# Typer brings a copy of Click under a private name, or uses an installed one: the class is found from a public one.
UsageProblem: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
"""What Typer raises for a wrong option or argument."""


def print_error(error: object) -> None:
    """Print an error, or what else ends a command, in one line."""
    text = Text(fold_text(f"stripewise: {complete_commands(str(error))}", notes))
    text.stylize("bold red", 0, len("stripewise:"))
    notes.print(text)


_PLAINER = {
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
    "Input should be": "must be",
    r", unable to parse string as an? \w+": "",
    r"\S+ is not a valid (integer|float)( range)?": r"must be a valid \1",
    r"\S+ is not in the range x>=": "must be at least ",
    r"\S+ is not in the range x<=": "must be at most ",
}
"""What checks of option values say in any version of Typer, to the words that errors of files have."""


def print_usage(error: Exception, path: str, fix: str = "") -> None:
    """Print what Typer says of a wrong option or argument, with what to do where more is known than it knows.

    Parameters
    ----------
    path : str
        The command that was called, whose help is named.
    """
    said = getattr(error, "format_message", lambda: str(error))()
    if type(error).__name__ == "NoArgsIsHelpError":
        # A group was called without a command: its help is all that it says.
        remark(said)
    elif message := " ".join(said.split()).rstrip("."):
        for theirs, ours in _PLAINER.items():
            message = re.sub(theirs, ours, message)
        print_error(f"{message}; {fix or f'see {path} --help'}")


_NO_TAG = re.compile(r"\\(?=\[(?![a-z#/@][^\[]*\]))")


def escape(text: str) -> str:
    """Write a text as markup that prints it: Rich's own loses the backslash before a bracket that begins no tag."""
    return escape_tags(_NO_TAG.sub(r"\\\\", text))


def say(text: str, style: str | None = None, end: str = "\n") -> None:
    """Print a text of a result as it is: nothing in it is markup."""
    console.print(text, style=style, end=end, markup=False)


def prose(text: str, style: str | None = None, on: Console = console) -> None:
    """Print sentences as they are: a terminal breaks them between words and indents what follows the first line."""
    on.print(fold_text(text, on), style=style, markup=False)


def fold_text(text: str, on: Console) -> str:
    """Break a text between words where it is for a terminal; what is longer than a line, as a path, stays whole."""
    return fold(text, on.width) if on.is_terminal else text


def remark(text: str, end: str = "\n") -> None:
    """Print a text to standard error: nothing in it is markup, and a terminal breaks its lines between words."""
    notes.print("\n".join(fold_text(line, notes) for line in text.split("\n")), end=end, markup=False)


def grid(*headings: str, padding: tuple[int, int, int, int] = (0, 1, 0, 1)) -> Table:
    """Make a table without lines.

    A heading that begins with ">" is of a column aligned to the right; no cell of it, or of one with "=", is broken.
    """
    made = Table(box=None, pad_edge=False, padding=padding, show_header=any(word.strip(">=") for word in headings))
    for heading in headings:
        made.add_column(
            heading.lstrip(">="),
            justify="right" if heading.startswith(">") else "left",
            overflow="fold",
            no_wrap=heading.startswith((">", "=")),
        )
    return made


def print_rows(label: str, headings: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Print rows of short cells behind a label each; where that is too wide, each label is a line above its cells."""
    cells = [headings, *(cells for _, cells in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    labels = max(len(label), *(len(text) for text, _ in rows))
    aligned = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in cells]
    if labels + 2 + len(aligned[0]) <= console.width:
        texts = [label, *(text for text, _ in rows)]
        for place, (text, line) in enumerate(zip(texts, aligned, strict=True)):
            say(f"{text:<{labels}}  {line}", "bold" if not place else None)
        return
    say(label, "bold")
    say(f"  {aligned[0]}", "bold")
    last = None
    for (text, _), line in zip(rows, aligned[1:], strict=True):
        if text != last:
            prose(text, on=console)
        last = text
        say(f"  {line}")


def overwritten(text: str) -> None:
    """Print a line of progress to a terminal, where the next one replaces it."""
    # Folding would take the blanks away that cover a longer line before this one.
    notes.print(text[: notes.width - 1], end="", markup=False)
    # Not through the console, which lets no text move the cursor.
    notes.file.write("\r")
    notes.file.flush()


def write_text(path: Path, text: str, fix: str = "choose another file with --output") -> None:
    """Write a file that an option names; others cannot write it, since commands refuse a plan that others can write.

    Nor does a link of another user choose which file is written: one to /etc/passwd would. Where the text finds no
    room, what the file held before stays.
    """
    content = text.encode("utf-8", "surrogateescape")  # names of files may be in another encoding
    try:
        if path.is_symlink() or is_special(path):
            with os.fdopen(open_to_write(path, fix), "wb") as file:
                file.write(content)
        else:
            with written_whole(path) as part:
                part.write_bytes(content)
                if path.exists():
                    part.chmod(stat.S_IMODE(path.stat().st_mode))
        if path.is_file() and path.stat().st_uid == os.geteuid():
            take_from_others(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", fix) from error


def ask(question: str, json_output: bool) -> bool:
    """Ask on the terminal; where nobody is there to answer, nothing is agreed to."""
    return not json_output and sys.stdin.isatty() and typer.confirm(f"{question}: go on?", err=True)


def print_json(document: Any) -> None:
    """Write a document for machines; numbers that JSON has no word for become null."""
    from stripewise.documents import make_finite  # noqa: PLC0415  schemas are slow to load

    json.dump(make_finite(document), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def number(value: float | None, unit: str = "", digits: int = 4) -> str:
    """Write a measured number with a sensible number of digits and its unit."""
    if value is None:
        return "-"
    if 1000 <= abs(value) < 1e7:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.{digits}g}" if 1e-4 <= abs(value) < 1000 or value == 0 else f"{value:.3e}"
    return f"{text} {unit}".rstrip()


def duration(seconds: float | None) -> str:
    """Write a time as a person would say it."""
    return "unknown" if seconds is None else format_duration(seconds)


SECONDS_BETWEEN_LINES = 10.0
"""Least time between two lines of progress that are kept, as in a pipe."""


class Ticker:
    """Says on standard error how far long work is: a rewritten line on a terminal, now and then a line elsewhere."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._last = -math.inf
        self._width = 0

    def tell(self, line: Callable[[], str], *, last: bool = False) -> None:
        """Say a line, unless one was said a moment ago and more is to come."""
        now = time.monotonic()
        if not last and now - self._last < (0.2 if notes.is_terminal else SECONDS_BETWEEN_LINES):
            return
        self._last = now
        text = line()
        if notes.is_terminal:
            overwritten(f"{text:<{self._width}}")
        else:
            remark(text)
        self._width = len(text)

    def count(self, done: int, of: int, what: str) -> None:
        """Say how many of all parts are done, and how long the others may take."""
        left = (time.monotonic() - self._begun) / max(1, done) * (of - done)
        rest = f", about {duration(left)} left" if 0 < done < of else ""
        self.tell(lambda: f"{done:,} of {of:,} {what}{rest}", last=done == of)

    def close(self) -> None:
        """End the line that was being rewritten."""
        if notes.is_terminal and self._width:
            notes.print()


_COMMAND = re.compile(
    r"stripewise (?:list|resume|tune --confirm [0-9a-f]{8}"
    r"|(?:resume|show|experiment stop|experiment delete|run|export) (?:[0-9a-f]{8}|ID))\b(?! [0-9a-f]{8})"
)
_PASSWORD = re.compile(r"(?<=://)([^/:@\s]*):[^/\s]*@")
_HIDDEN = r"\1:***@"
_given: dict[str, str] = {}


def remember_option(context: typer.Context, option: typer.CallbackParam, value: str | None) -> str | None:
    """Take note of an option, for commands that messages name; one of the environment need not be repeated."""
    name = str(option.name)
    source = context.get_parameter_source(name)
    if value is not None and source is not None and source.name == "COMMANDLINE":
        _given[name] = value
    return value


def was_given(name: str) -> bool:
    """Whether an option stood on the command line itself, not in the environment."""
    return name in _given


def forget_options() -> None:
    """Begin a command: nothing was given yet."""
    _given.clear()


def complete_commands(text: str) -> str:
    """Give a message with the store in every command that it names.

    A password is never printed: three stars stand for it, as everywhere.
    """
    if not _given:
        return text
    words = [f"--{name} {shlex.quote(_PASSWORD.sub(_HIDDEN, value))}" for name, value in _given.items()]
    return _COMMAND.sub(lambda found: " ".join((found[0], *words)), text)
