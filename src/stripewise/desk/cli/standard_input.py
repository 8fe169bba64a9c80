"""The standard input that a user gives a program to be tuned: read once, so that every launch gets the same."""

from __future__ import annotations

import fcntl
import io
import os
import re
import select
import stat
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stripewise.desk.cli.output import remark
from stripewise.errors import UserError
from stripewise.requests.experiment import LARGEST_INPUT, Experiment
from stripewise.sizes import format_size

_IN_COMMAND = "let the command read the file: tune -- bash -c './app < FILE'"
_DESCRIPTOR = re.compile(r"/(dev|proc/self)/fd/([3-9]|\d\d+)")
_SAID_AFTER = 2.0
_SILENT = 10.0
"""Seconds after which a pipe that has sent nothing counts as none: of an ssh without -n, of a CI system."""
_STALLED = 60.0
_PART = 1 << 16


def with_input(experiment: Experiment) -> Experiment:
    """Put the text of the standard input into an experiment: what is piped in, or else the file that it names.

    Raises
    ------
    UserError
        If it cannot be kept: too large, without an end, or not a text.
    """
    given = read_piped()
    if given:
        return _add_stdin(experiment, {"text": _decode_text(given, "the standard input")})
    named = experiment.stdin
    if named is None or named.text is not None:
        return experiment
    try:
        with Path(named.file).open("rb") as file:
            data = file.read(LARGEST_INPUT + 1)
    except OSError as error:
        raise UserError(
            f"stdin: cannot read {named.file}: {error.strerror}", "name the program's input file"
        ) from error
    return _add_stdin(experiment, {"file": named.file, "text": _decode_text(data, named.file)})


def refuse_pipes(words: Sequence[str]) -> None:
    """Refuse pipes of the shell, as of ``<(...)``, among the words of a command: each can be read once."""
    for word in words:
        path = word.rpartition("=")[2]
        if _DESCRIPTOR.fullmatch(path) and Path(path).is_fifo():
            raise UserError(
                f"{word} is a pipe of your shell, which only one launch can read",
                "write a file in its place, or let the command make it: tune -- bash -c './app <(...)'",
            )


def refuse_input(what: str) -> None:
    """Refuse input for a program that gets none."""
    if read_piped():
        raise UserError(
            f"{what} gives its program no standard input",
            "write the input into the command: bash -c './app < FILE', or start it with < /dev/null",
        )


def remark_on_input(identifier: str) -> None:
    """Say that what is piped in is not read, where an experiment has its input already; nothing is taken of it."""
    try:
        waiting = fcntl.ioctl(sys.stdin.fileno(), termios.FIONREAD, bytes(4))
    except (AttributeError, OSError, ValueError):  # closed, or not a file
        return
    if not sys.stdin.isatty() and any(waiting):
        remark(
            f"note: your standard input is not read: the program gets that of experiment {identifier}. "
            "For another one, start a new experiment: tune -- COMMAND < FILE"
        )


def read_piped() -> bytes:
    """Read what is piped in, up to one byte more than can be kept; nothing from a terminal.

    A file is read without moving in it: a shell's loop that reads lines from it goes on behind its own line.

    Raises
    ------
    UserError
        If a pipe sends something but no end.
    """
    stream = sys.stdin
    if stream is None or stream.closed or stream.isatty():
        return b""
    try:
        try:
            descriptor = stream.fileno()
        except io.UnsupportedOperation:  # not a file, where another program calls this one
            return _read_whole(getattr(stream, "buffer", stream).read)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return os.pread(descriptor, LARGEST_INPUT + 1, os.lseek(descriptor, 0, os.SEEK_CUR))
        return _until_end(descriptor)
    except OSError:
        # Closed, a folder, or open for writing only: a program could not read it either.
        return b""


def _read_whole(read: Callable[[int], Any]) -> bytes:
    data = read(LARGEST_INPUT + 1)
    return data.encode() if isinstance(data, str) else data


def _until_end(descriptor: int) -> bytes:
    """Read a pipe to its end, and say so where that takes long."""
    data = bytearray()
    last, said = time.monotonic(), False
    while len(data) <= LARGEST_INPUT:
        waited = time.monotonic() - last
        if not select.select([descriptor], [], [], max(0.0, _SAID_AFTER - waited) if not said else 1.0)[0]:
            if not said:
                remark("reading the program's input from standard input, which is still open (< /dev/null gives none)")
                said = True
            elif not data and waited > _SILENT:
                remark(
                    f"standard input has sent nothing for {_SILENT:g} s: the program gets no input; if it needs some, "
                    "write: tune -- ./app < FILE"
                )
                break
            elif waited > _STALLED:
                raise UserError(
                    f"standard input sent {len(data):,} bytes, then nothing for {_STALLED:g} s, and was not closed",
                    "write the input to a file: tune -- ./app < FILE",
                )
            continue
        part = os.read(descriptor, _PART)
        if not part:
            break
        data += part
        last = time.monotonic()
    return bytes(data)


def _add_stdin(experiment: Experiment, stdin: dict[str, str]) -> Experiment:
    return Experiment.model_validate({**experiment.model_dump(), "stdin": stdin})


def _decode_text(data: bytes, what: str) -> str:
    if len(data) > LARGEST_INPUT:
        raise UserError(
            f"{what} has more than {format_size(LARGEST_INPUT)}, too much to keep with the experiment", _IN_COMMAND
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{what} is not a text: byte {error.start:,} is not UTF-8", _IN_COMMAND) from error
    if "\0" in text:
        raise UserError(f"{what} is not a text: byte {data.index(0):,} is zero", _IN_COMMAND)
    return text
