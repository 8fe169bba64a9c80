"""Darshan logs and traces as activities: read in child processes, several at a time, in bounded memory.

A log may be damaged or hostile, and the C library that reads it may crash or loop. So each is read by a child
process with limited memory and time; a child that dies takes one log with it and is replaced.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from stripewise.errors import StripewiseError, UserError
from stripewise.interpreter import inherit_environment, python, reading_seconds
from stripewise.observe.activity import Activity
from stripewise.observe.traces import TraceForm, form_of
from stripewise.observe.traces.dxt import Request

SUFFIXES = (".darshan", ".darshan.gz", ".darshan_partial")
"""How the names of Darshan's logs end: whole ones, those compressed again, and those of jobs that did not end."""
_LONGEST_ANSWER = 256 << 20
_MOST_REQUESTS = 1_000_000


class UnreadableLogError(UserError):
    """A log that cannot be read; the message names the file."""


@dataclass(frozen=True)
class LogResult:
    """What became of one log.

    Attributes
    ----------
    path : Path
    activity : Activity or None
        None where the log cannot be read.
    error : UnreadableLogError or None
        Why not.
    """

    path: Path
    activity: Activity | None
    error: UnreadableLogError | None = None


def is_log(path: Path) -> bool:
    """Whether a path is named as a Darshan log, or is a trace: :func:`read_log` reads it whatever else it may be."""
    return path.name.endswith(SUFFIXES) or form_of(path) is not None


def read_log(path: Path) -> Activity:
    """Read one log.

    Raises
    ------
    UnreadableLogError
        Naming the file and the reason.
    """
    with _Reader() as reader:
        return reader.read(path)


def read_requests(path: Path) -> list[Request]:
    """Read the single requests of a log with a trace, or of a trace: the first million.

    Raises
    ------
    UnreadableLogError
        Naming the file and the reason.
    """
    with _Reader() as reader:
        return reader.requests(path)


def read_logs(paths: Iterable[Path], workers: int | None = None) -> Iterator[LogResult]:
    """Read many logs, in the order in which they are done.

    Parameters
    ----------
    paths : iterable of Path
        Taken one by one, so that a folder of any size needs no list.
    workers : int, optional
        Child processes; by default one a usable core, at most eight.

    Yields
    ------
    LogResult
        One per path.
    """
    count = workers or min(8, len(os.sched_getaffinity(0)))
    source = iter(paths)
    lock = threading.Lock()
    results: queue.Queue[LogResult | BaseException | None] = queue.Queue(2 * count)
    stopped = threading.Event()

    def give(item: LogResult | BaseException | None) -> None:
        while not stopped.is_set():
            with contextlib.suppress(queue.Full):
                results.put(item, timeout=0.2)
                return

    def work() -> None:
        try:
            with _Reader() as reader:
                while not stopped.is_set():
                    with lock:
                        path = next(source, None)
                    if path is None:
                        break
                    try:
                        give(LogResult(path, reader.read(path)))
                    except UnreadableLogError as error:
                        give(LogResult(path, None, error))
        except BaseException as error:
            give(error)
        finally:
            give(None)

    threads = [threading.Thread(target=work, daemon=True, name=f"darshan-{i}") for i in range(count)]
    for thread in threads:
        thread.start()
    try:
        running = count
        while running:
            item = results.get()
            if item is None:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


class _Reader:
    """A child process that reads logs, replaced when it dies."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, path: Path) -> Activity:
        form, limit = _checked(path)
        old = "" if form is not None else _find_old_format(path)
        return self._read_old(path, old, limit) if old else _understand(path, self._ask(path, limit))

    def requests(self, path: Path) -> list[Request]:
        _, limit = _checked(path)
        answer = json.loads(self._ask(path, limit, _MOST_REQUESTS))
        if "error" in answer:
            raise UnreadableLogError(f"{path}: {answer['error']}")
        return [tuple(request) for request in answer["requests"]]

    def _read_old(self, path: Path, version: str, limit: int) -> Activity:
        """Read a log of Darshan 1 or 2 as darshan-convert writes it anew."""
        with tempfile.TemporaryDirectory(prefix="stripewise-") as folder:
            newer = Path(folder) / "converted.darshan"
            _convert_log(path, version, newer, limit)
            activity = _understand(path, self._ask(newer, limit))
        told = f"converted by {_CONVERTER} from format {version}, which has fewer counters"
        return activity.model_copy(update={"unseen": [*activity.unseen, told]})

    def _ask(self, path: Path, limit: int, requests: int = 0) -> str:
        child = self._started()
        request = json.dumps({"path": os.fspath(path.absolute()), "seconds": limit, "requests": requests})
        began = time.monotonic()
        try:
            _pipe(child.stdin).write(request + "\n")
            _pipe(child.stdin).flush()
            line = _pipe(child.stdout).readline(_LONGEST_ANSWER)
        except (BrokenPipeError, ConnectionResetError):
            line = ""
        if line.endswith("\n"):
            return line
        code = self._end()
        if code == -signal.SIGALRM or time.monotonic() - began >= limit:
            raise _unreadable(path, f"reading took more than {limit} s")
        if code is not None and code < 0:
            raise _unreadable(path, f"it is damaged: reading ended with signal {signal.Signals(-code).name}")
        raise _unreadable(path, f"its reader ended with code {code}")

    def _started(self) -> subprocess.Popen[str]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._end()
        command = python("-m", "stripewise.observe._darshan_reader")
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                errors="surrogateescape",
                env=_environment(inherit_environment()),
            )
        except OSError as error:
            raise StripewiseError(f"cannot start {sys.executable} to read logs: {error.strerror}") from error
        return self._child

    def _end(self) -> int | None:
        child, self._child = self._child, None
        if child is None:
            return None
        with contextlib.suppress(OSError):
            _pipe(child.stdin).close()
        try:
            code = child.wait(2)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
        _pipe(child.stdout).close()
        return code


def _checked(path: Path) -> tuple[TraceForm | None, int]:
    """Give the form of a trace, None for a log, and the seconds that reading may take."""
    try:
        form = None if path.name.endswith(SUFFIXES) else form_of(path)
        size = sum(part.stat().st_size for part in (form.parts(path) if form else [path]))
    except OSError as error:
        raise UnreadableLogError(f"cannot read {path}: {error.strerror}", "check the path") from error
    if form is None and not path.is_file():
        raise UnreadableLogError(f"{path} is not a regular file", "name a Darshan log or a trace")
    if "\0" in str(path):
        raise UnreadableLogError("a path with a null character names no file")
    return form, reading_seconds(size)


_CONVERTER = "darshan-convert"
_OLD = re.compile(rb"([12]\.\d\d)\0")
_CONVERTER_KIB, _CONVERTED_BLOCKS = 1 << 20, 1 << 20


def _find_old_format(path: Path) -> str:
    """Give the format of a log of Darshan 1 or 2, which are packed as a whole; empty for any other file."""
    try:
        with path.open("rb") as file:
            start = file.read(3)
        unpack = gzip.open if start[:2] == b"\x1f\x8b" else bz2.open if start == b"BZh" else None
        if unpack is None:
            return ""
        with unpack(path, "rb") as file:
            found = _OLD.match(file.read(8))
    except (OSError, EOFError, zlib.error):
        return ""
    return found[1].decode() if found else ""


def _convert_log(path: Path, version: str, newer: Path, limit: int) -> None:
    """Write a log in today's format with Darshan's own tool, in bounded memory, disk space and time.

    Raises
    ------
    UnreadableLogError
        Where the tool is not at hand, or cannot do it.
    """
    what = f"{path} is a log of Darshan {version[0]} (format {version}), which the library of Darshan 3 does not read"
    tool = shutil.which(_CONVERTER)
    fix = f"put a {_CONVERTER} that reads it on PATH, or look at it with darshan-parser of Darshan {version[0]}"
    if tool is None:
        raise UnreadableLogError(what, fix)
    bounds = f'ulimit -v {_CONVERTER_KIB}; ulimit -f {_CONVERTED_BLOCKS}; ulimit -c 0; exec "$@"'
    command = ["sh", "-c", bounds, "sh", tool, os.fspath(path.absolute()), os.fspath(newer)]
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
            env=_environment(inherit_environment()),
        )
    except subprocess.TimeoutExpired:
        raise UnreadableLogError(f"{what}, and {tool} took more than {limit} s", fix) from None
    if done.returncode != 0 or not newer.is_file():
        said = " ".join(done.stderr.decode("utf-8", "backslashreplace").split())[:120]
        raise UnreadableLogError(f"{what}, nor does {tool}: {said or f'exit code {done.returncode}'}", fix)


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """The child's variables: no preloaded library watches it, and one thread each leaves the cores to the others."""
    kept = {name: value for name, value in given.items() if name != "LD_PRELOAD" and not name.startswith("STRIPEWISE_")}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def _understand(path: Path, line: str) -> Activity:
    try:
        answer = json.loads(line)
        if "error" in answer:
            raise _unreadable(path, str(answer["error"]))
        # The path as the user gave it, not as the child was told.
        return Activity.model_validate({**answer, "source": str(path)})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _unreadable(path, f"it is damaged: {place}: {first['msg']}") from error
    except (ValueError, TypeError) as error:
        raise _unreadable(path, "its reader gave an answer that cannot be read") from error


def _unreadable(path: Path, why: str) -> UnreadableLogError:
    form = form_of(path)
    return UnreadableLogError(
        f"{path} cannot be read as a {form.TITLE if form else 'Darshan log'}: {why}",
        form.CUT if form else "was the program stopped before MPI_Finalize, or the copy cut off?",
    )
