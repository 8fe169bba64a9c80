"""Lines on standard error without what lays out tables: what a launch says before and after the user's program."""

from __future__ import annotations

import logging
import os
import re
import sys
from contextlib import suppress

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""All but line feeds and tabs; also what turns the direction of a line around."""


class Notes(logging.Handler):
    """Prints what the package logs, one line each, where progress goes."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        write(record.getMessage())


def show_controls(text: str) -> str:
    """Write control characters out: a log's names must not steer the terminal."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def make_printable(text: str) -> str:
    """Write a text of the user's in one line that does nothing to the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def fold(text: str, width: int, indent: int | None = None) -> str:
    """Break a text between words and indent what follows the first line; what is longer than a line stays whole."""
    import textwrap  # noqa: PLC0415  only a terminal needs it

    inner = " " * (len(text) - len(text.lstrip()) + 2 if indent is None else indent)
    lines = textwrap.wrap(text, width, subsequent_indent=inner, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def tell(*lines: str) -> None:
    """Print sentences after the name of the program; empty ones are left out."""
    write(*(f"stripewise: {line}" for line in filter(None, lines)))


def write(*lines: str) -> None:
    """Print sentences to standard error; a terminal breaks them between words."""
    width = None
    with suppress(OSError, ValueError, AttributeError):
        if sys.stderr.isatty():
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    for line in lines:
        sys.stderr.write(show_controls(line if width is None else fold(line, width)) + "\n")
    sys.stderr.flush()
