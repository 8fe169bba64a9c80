"""Keeping what a program prints: all of it up to a limit, then its beginning and its end."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from pathlib import Path

DEFAULT_LIMIT = 16 << 20
_CHUNK = 1 << 18
_TAIL_OF_TEXT = 1 << 14


class Keeper(threading.Thread):
    """Copies a pipe to a file of bounded size.

    The first half of the limit is written as it comes; of what follows, the last half is kept in memory and written
    at the end of the pipe, after a line that says how much was left out. The program never waits for the disk to
    have room: where writing fails, output is dropped and :attr:`trouble` says so.

    Parameters
    ----------
    pipe : int
        File descriptor to read; closed at its end.
    path : Path
    limit : int
        Bytes.
    """

    def __init__(self, pipe: int, path: Path, limit: int = DEFAULT_LIMIT) -> None:
        super().__init__(name=f"stripewise-{path.name}", daemon=True)
        self._pipe = pipe
        self._path = path
        self._head = limit // 2
        self._tail = limit - self._head
        self.total = 0
        self.dropped = 0
        self.trouble = ""

    def run(self) -> None:
        """Copy until the pipe ends."""
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self.trouble = f"cannot write {self._path}: {error.strerror}"
            file = -1
        recent: deque[bytes] = deque()
        held = written = 0
        try:
            while chunk := _read(self._pipe):
                self.total += len(chunk)
                if written < self._head:
                    part, chunk = chunk[: self._head - written], chunk[self._head - written :]
                    self._write(file, part)
                    written += len(part)
                if chunk:
                    recent.append(chunk)
                    held += len(chunk)
                    while held - len(recent[0]) >= self._tail:
                        held -= len(recent.popleft())
            rest = b"".join(recent)[-self._tail :] if recent else b""
            self.dropped = self.total - written - len(rest)
            if self.dropped:
                note = f"\n[stripewise: {self.dropped} bytes of {self.total} left out here]\n"
                self._write(file, note.encode())
            self._write(file, rest)
        finally:
            os.close(self._pipe)
            if file >= 0:
                os.close(file)

    def _write(self, file: int, data: bytes) -> None:
        if file < 0 or self.trouble:
            return
        try:
            while data:
                data = data[os.write(file, data) :]
        except OSError as error:
            self.trouble = f"cannot write {self._path}: {error.strerror}"


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, _CHUNK)
    except OSError:
        return b""


def tail(path: Path, size: int = _TAIL_OF_TEXT) -> str:
    """Read the end of a text file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - size))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def last_line(text: str, width: int = 160) -> str:
    """Give the last line with a letter or digit: rulers and blank lines are left out."""
    for line in reversed(text.splitlines()):
        plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x1f\x7f]", " ", line).strip()
        if re.search(r"\w", plain):
            return plain if len(plain) <= width else plain[: width - 3] + "..."
    return ""
