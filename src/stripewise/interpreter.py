"""How children are started: what they inherit, Python processes, bounded ones, and commands that answer a question."""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import resource
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

from stripewise.errors import StripewiseError, UserError

T = TypeVar("T")
_MEMORY = 1 << 30
_SECONDS_A_FILE = 60
_SECONDS_A_MEGABYTE = 20

_SECRETS = ("STRIPEWISE_TOKEN", "STRIPEWISE_TOKEN_FILE")
_STORE = "STRIPEWISE_STORE"
_OF_SERVICE = (
    *("STRIPEWISE_STORE", "STRIPEWISE_SERVER", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "LISTEN_FDNAMES"),
    *("PGAPPNAME", "PGCHANNELBINDING", "PGDATABASE", "PGGSS", "PGHOST", "PGKRB", "PGOPTIONS", "PGPASS", "PGPORT"),
    *("PGREQUIRE", "PGSERVICE", "PGSSL", "PGSYSCONFDIR", "PGTARGETSESSIONATTRS", "PGUSER"),
)
"""How the names begin of what a service is given for itself. Compilers of PGI have names with PGI, which stay."""

_jobs_of_others = 0


@contextmanager
def for_others() -> Iterator[None]:
    """Say that this process, a service's worker, starts programs for those who ask the service."""
    global _jobs_of_others  # noqa: PLW0603  the role of the whole process: runners start programs in threads
    _jobs_of_others += 1
    try:
        yield
    finally:
        _jobs_of_others -= 1


def inherit_environment(environment: Mapping[str, str] | None = None, *, service: bool = False) -> dict[str, str]:
    """Give the environment of what Stripewise starts: without what is secret, and needed by Stripewise alone.

    Parameters
    ----------
    environment : mapping, optional
        What it starts from; by default, that of this process.
    service : bool
        Whether this process belongs to a service; so does a worker within :func:`for_others`.
    """
    given = os.environ if environment is None else environment
    withheld = _SECRETS + (_OF_SERVICE if service or _jobs_of_others else ())
    if _has_password(given.get(_STORE, "")):
        withheld += (_STORE,)
    return {name: value for name, value in given.items() if not name.startswith(withheld)}


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.password is not None or "password" in parse_qs(parts.query)
    except ValueError:
        return True


def python(*words: str, alone: bool = False) -> list[str]:
    """Give the command of a child that runs this interpreter.

    The working folder is not on the child's path for modules: it may be a job's folder or a download, and a file
    ``numpy.py`` there would be run instead of NumPy. ``PYTHONPATH`` counts as it does for Stripewise itself, since a
    site may have installed Stripewise through it.

    Parameters
    ----------
    *words : str
        Options and arguments, such as ``-m stripewise``.
    alone : bool
        For children that need only the standard library: ``PYTHONPATH`` and installed packages do not count either.
    """
    return [sys.executable, *(("-I", "-S") if alone else ("-P",)), *words]


def reading_seconds(size: int) -> int:
    """Give how long reading a file of so many bytes may take."""
    return _SECONDS_A_FILE + _SECONDS_A_MEGABYTE * (size >> 20)


_bounded = False


def take_as_bounded() -> None:
    """Say that this process is a child with bounded time and memory, as those of a service are."""
    global _bounded  # noqa: PLW0603  it is so to the end of the process
    _bounded = True


def run_bounded(work: Callable[[], T], path: Path) -> T:
    """Read a file in a fork of this process: a damaged or hostile one may take any time and memory.

    A child that is bounded already works itself, see :func:`take_as_bounded`.

    Parameters
    ----------
    work : callable
        What it gives and raises is brought back.
    path : Path
        The file, for messages and for its size.

    Raises
    ------
    UserError
        If the work takes more time or memory.
    """
    if _bounded:
        return work()
    seconds = reading_seconds(path.stat().st_size)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _work_bounded(work, writing, seconds)
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as channel:
            found = channel.read()
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGPROF:
        raise UserError(f"{path}: reading it took more than {seconds} s of processor time", "is it the right file?")
    if code:
        why = f"needs more than {_MEMORY >> 20} MiB of memory" if code == _NO_MEMORY else f"ended with code {code}"
        raise UserError(f"{path}: reading it {why}", "is it the right file?")
    raised, value = pickle.loads(found)  # this process's own fork wrote it
    if raised:
        raise value
    given: T = value
    return given


_NO_MEMORY = 3


def _work_bounded(work: Callable[[], Any], channel: int, seconds: int) -> None:
    """Do the work in the fork, and end it: nothing that belongs to the parent is flushed or cleaned up."""
    code = 1
    try:
        take_as_bounded()
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # Of the processor's time: on a busy machine a good file takes longer by the clock.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        status = Path("/proc/self/status").read_text("utf-8").splitlines()
        own = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        most = own + _MEMORY if hard == resource.RLIM_INFINITY else min(own + _MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
        try:
            answer = False, work()
        except (StripewiseError, OSError, ValueError, RecursionError) as error:
            answer = True, error
        with os.fdopen(channel, "wb") as file:
            pickle.dump(answer, file, pickle.HIGHEST_PROTOCOL)
        code = 0
    except MemoryError:
        code = _NO_MEMORY
    finally:
        with contextlib.suppress(MemoryError):
            if code == 1:
                sys.excepthook(*sys.exc_info())
        os._exit(code)


class Probing:
    """Whether programs may be started to find something out, and what stays unknown where they may not.

    Parameters
    ----------
    allowed : bool
        False in a dry run and in a check, to which nobody has agreed: they read files alone.
    """

    def __init__(self, *, allowed: bool = True) -> None:
        self.allowed = allowed
        self._unknown: dict[str, None] = {}

    @property
    def unknown(self) -> tuple[str, ...]:
        """What was not found out because it needs a program, in words."""
        return tuple(self._unknown)

    def allows(self, what: str) -> bool:
        """Say whether a program may be started for something; remember it as unknown if not."""
        if not self.allowed:
            self._unknown[what] = None
        return self.allowed


PROBING = Probing()
"""For whoever was asked to start the program."""


_MOST_ANSWER = 32 << 20


def ask(
    command: Sequence[str],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    group: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a command that reads nothing and answers in text; bytes that are not UTF-8 are replaced.

    It gets the environment of :func:`inherit_environment`, from ``environment`` or from that of this process. With
    ``group``, it gets a process group of its own, and what it started ends with it where it fails to end itself.

    Raises
    ------
    OSError
        If it cannot be started, or prints more than 32 MiB.
    subprocess.TimeoutExpired
        If it does not end in time, or leaves a process that keeps its output open.
    """
    deadline = time.monotonic() + seconds
    with subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=inherit_environment(environment),
        cwd=cwd,
        start_new_session=group,
    ) as child:
        try:
            printed, said = _read_both(child, deadline, seconds)
            code = child.wait(max(0.0, deadline - time.monotonic()))
        except BaseException:
            if group:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
            child.kill()
            raise
    return subprocess.CompletedProcess(list(command), code, _as_text(printed), _as_text(said))


def _read_both(child: subprocess.Popen[bytes], deadline: float, seconds: float) -> tuple[bytearray, bytearray]:
    """Read what a child prints on both of its outputs, until they are closed."""
    assert child.stdout is not None
    assert child.stderr is not None
    read = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        for stream, kept in zip((child.stdout, child.stderr), read, strict=True):
            selector.register(stream, selectors.EVENT_READ, kept)
        while selector.get_map():
            left = deadline - time.monotonic()
            ready = selector.select(left) if left > 0 else []
            if not ready:
                raise subprocess.TimeoutExpired(child.args, seconds)
            for key, _ in ready:
                more = os.read(key.fd, 1 << 16)
                if not more:
                    selector.unregister(key.fileobj)
                key.data.extend(more)
                if len(key.data) > _MOST_ANSWER:
                    raise OSError(errno.EFBIG, f"it printed more than {_MOST_ANSWER >> 20} MiB")
    return read


def _as_text(printed: bytearray) -> str:
    """Give text with line feeds alone, as of files that are opened for text."""
    return printed.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
