"""Running one command to its end, its time limit or its cancellation, with nothing of it left behind.

What a program prints is kept: all of it up to a limit, then its beginning and its end.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from stripewise.interpreter import inherit_environment, python
from stripewise.runners.local import processes

DEFAULT_LIMIT = 16 << 20
_CHUNK = 1 << 18
_TAIL_OF_TEXT = 1 << 14
_BEAT = 0.5
_LEAST_LATE = 0.1
_SHARE_LATE = 0.01
_FETCH = 0.1
"""Seconds that a busy disk may take for one page of this process."""


class Pauses(threading.Thread):
    """Adds up the seconds for which this process was stopped: by Ctrl-Z, or as its job or its container was suspended.

    A thread that wakes up late says so, unless this process computed, waited for a processor or fetched its own pages
    from the disk meanwhile: on a busy machine all programs wait alike. Nothing is noticed where the kernel does not say
    who waited.
    """

    def __init__(self) -> None:
        super().__init__(name="stripewise-pauses", daemon=True)
        self._end = threading.Event()
        self._seen = Look.take()
        self.seconds = 0.0

    def run(self) -> None:
        """Look twice a second."""
        ended = False
        while not ended:
            due = self._seen.at + _BEAT
            ended = self._end.wait(due - time.monotonic())
            late = time.monotonic() - due
            if late > _LEAST_LATE:
                self.seconds += max(0.0, self._seen.unexplained(late))
            if not ended:
                self._seen = Look.take()

    def end(self) -> float:
        """Give the seconds so far, and look no longer."""
        self._end.set()
        self.join()
        return self.seconds


def count_waits() -> dict[str, int]:
    """Nanoseconds that each thread of this process has waited for a processor; empty where the kernel does not say."""
    waits = dict[str, int]()
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError, ValueError):
            ran, waited, _ = map(int, (thread / "schedstat").read_text("ascii").split())
            waits |= {thread.name: waited} if ran else {}
    return waits


@dataclass(frozen=True)
class Look:
    """What explains that this process wakes up late, as it was at a time; seconds."""

    at: float
    worked: float
    waits: Mapping[str, int]
    fetched: int

    @classmethod
    def take(cls) -> Look:
        """Look now."""
        fetched = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
        return cls(time.monotonic(), time.process_time(), count_waits(), fetched)

    def unexplained(self, late: float) -> float:
        """Give the part of a delay since then that nothing explains: this process was stopped."""
        now = Look.take()
        if not self.waits:
            return 0.0
        waited = sum(max(0, waits - self.waits.get(thread, 0)) for thread, waits in now.waits.items())
        fetching = _FETCH * (now.fetched - self.fetched)
        return late - (now.worked - self.worked) - waited / 1e9 - fetching


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


_DRAIN_SECONDS = 5.0
_LATE_SECONDS = 10.0
"""By which this process reads at the latest that a program has begun."""
_SETTLE_SECONDS = 0.25  # a launcher may be gone some milliseconds before the last of its ranks


class Cause(StrEnum):
    """Why a command is over."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    BOUND = "bound"
    CANCELLED = "cancelled"
    SETUP = "setup"
    NOT_STARTED = "not_started"


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes
    ----------
    cause : Cause
    exit_code : int or None
        Negative for a signal; None if it never started.
    elapsed : float
        Seconds from the program's start to its end, the setup lines' time excluded.
    started : float
        Epoch seconds.
    notes : tuple of str
        What else there is to say: processes left behind, output left out.
    error : OSError or None
        Why it never started.
    lost : str
        Why output that was to be kept is not; empty if all is.
    late : float
        Seconds that its time may have too many, if this process was stopped meanwhile and perhaps the command, too.
    behind : int
        Processes that were still running when the command had ended by itself, and were ended.
    """

    cause: Cause
    exit_code: int | None
    elapsed: float
    started: float
    notes: tuple[str, ...] = ()
    error: OSError | None = None
    lost: str = ""
    late: float = 0.0
    behind: int = 0


@dataclass(frozen=True)
class CommandLimits:
    """When a command is ended by force; seconds, None for never.

    Attributes
    ----------
    timeout, bound : float or None
        From the program's start.
    setup : float
        From the command's start to the program's.
    grace : float
        Between the polite signal and the one that cannot be refused.
    output : int
        Bytes kept of each of standard output and standard error.
    """

    timeout: float | None = None
    bound: float | None = None
    setup: float = 600.0
    grace: float = 3.0
    output: int = DEFAULT_LIMIT


class Command:
    """One command under supervision.

    Parameters
    ----------
    words : sequence of str
        The program and its arguments.
    environment : mapping
        Complete; the run's marker is added.
    run_id : str
        Value of the marker, by which its processes are found wherever they went.
    outputs : tuple of Path
        Where its standard output and its standard error go.
    cwd : Path
    limits : CommandLimits
    stdin : Path or None
        The file that it reads; None for no input.
    """

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        run_id: str,
        outputs: tuple[Path, Path],
        cwd: Path,
        limits: CommandLimits,
        stdin: Path | None = None,
    ) -> None:
        self._stdin = stdin or Path(os.devnull)
        self._words = list(words)
        self._environment = {**environment, processes.MARKER: run_id}
        self._run_id = run_id
        self._outputs = outputs
        self._cwd = cwd
        self._limits = limits
        self._ready: tuple[int, int] | None = None
        self._began: float | None = None
        self._ended_at = 0.0
        self._exited = threading.Event()
        self._changed = threading.Event()
        self._cancelled = False

    def cancel(self) -> None:
        """End the command; :meth:`run` returns soon. May be called from another thread, at any time."""
        self._cancelled = True
        self._changed.set()

    def time_from(self, pipe: tuple[int, int]) -> None:
        """Let the command's time begin when something is written to a pipe, instead of at once.

        That may be the time of day: a program of a millisecond may be over before this process reads it.

        Parameters
        ----------
        pipe : tuple of int
            Read end and write end, both owned by the command from now on; it inherits the latter. The script around a
            program writes when its setup lines have finished.
        """
        self._ready = pipe

    def run(self, on_start: Callable[[int], None] = lambda pid: None) -> Ended:
        """Run the command to its end.

        Parameters
        ----------
        on_start : callable
            Called with the process number as soon as there is one. If it raises, the command is ended and the error
            goes on.
        """
        pauses = Pauses()
        pauses.start()
        try:
            ended = self._run(on_start)
        finally:
            late = pauses.end()
        return replace(ended, late=late if late > max(_LEAST_LATE, _SHARE_LATE * ended.elapsed) else 0.0)

    # -- parts -----------------------------------------------------------------------------------------------

    def _run(self, on_start: Callable[[int], None]) -> Ended:
        started, begin = time.time(), time.monotonic()
        if self._cancelled:
            self._close_ready(0, 1)
            return Ended(Cause.CANCELLED, None, 0.0, started)
        try:
            with self._stdin.open("rb") as stdin:
                process = subprocess.Popen(
                    self._words,
                    env=self._environment,
                    cwd=self._cwd,
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                    pass_fds=(self._ready[1],) if self._ready else (),
                )
        except OSError as error:
            self._close_ready(0, 1)
            return Ended(Cause.NOT_STARTED, None, 0.0, started, error=error)
        threading.Thread(target=self._await_exit, args=(process.pid,), daemon=True).start()
        if self._ready:
            self._close_ready(1)
            reading = threading.Thread(target=self._await_ready, args=(self._ready[0],), daemon=True)
            reading.start()
        else:
            self._began = begin
        try:
            # Before any output is kept: it may fill the disk that the record of the process is written to.
            on_start(process.pid)
            keepers = [self._keep(process.stdout, 0), self._keep(process.stderr, 1)]
            cause = self._watch(begin)
        except BaseException:
            self._finish(process, self._limits.grace)
            raise
        behind, strays = self._finish(process, self._limits.grace if cause is not Cause.EXIT else 0.0)
        for keeper in keepers:
            keeper.join(_DRAIN_SECONDS)
        if cause is Cause.EXIT and self._ready:
            reading.join(_DRAIN_SECONDS)
            cause = Cause.SETUP if self._began is None else cause
        began = self._began if self._began is not None else begin
        return Ended(
            cause,
            process.returncode,
            max(0.0, self._ended_at - began),
            started + (began - begin),
            (*strays, *self._output_notes(keepers)),
            lost=next((keeper.trouble for keeper in keepers if keeper.trouble), ""),
            behind=behind,
        )

    def _keep(self, pipe: object, index: int) -> Keeper:
        descriptor = os.dup(pipe.fileno())  # type: ignore[attr-defined]
        pipe.close()  # type: ignore[attr-defined]
        keeper = Keeper(descriptor, self._outputs[index], self._limits.output)
        keeper.start()
        return keeper

    def _close_ready(self, *ends: int) -> None:
        for index in ends if self._ready else ():
            with contextlib.suppress(OSError):
                os.close(self._ready[index])  # type: ignore[index]

    def _await_exit(self, pid: int) -> None:
        # A blocking wait in a thread of its own: waiting with a timeout would look only every 50 ms, and the elapsed
        # time is what experiments measure. WNOWAIT keeps the number taken until all its processes are ended.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self._ended_at = time.monotonic()
        self._exited.set()
        self._changed.set()

    def _await_ready(self, pipe: int) -> None:
        try:
            if said := os.read(pipe, 64):
                self._began = time.monotonic() - _passed_since(said)
                self._changed.set()
        except OSError:
            pass
        finally:
            os.close(pipe)

    def _watch(self, begin: float) -> Cause:
        while True:
            self._changed.clear()
            if self._exited.is_set():
                return Cause.EXIT
            if self._cancelled:
                return Cause.CANCELLED
            now = time.monotonic()
            if self._began is None:
                deadlines = [(begin + self._limits.setup, Cause.SETUP)]
            else:
                deadlines = [
                    (self._began + seconds, cause)
                    for seconds, cause in ((self._limits.bound, Cause.BOUND), (self._limits.timeout, Cause.TIMEOUT))
                    if seconds is not None
                ]
            due = [cause for deadline, cause in sorted(deadlines) if deadline <= now]
            if due:
                return due[0]
            wait = min((_BEAT, *(deadline - now for deadline, _ in deadlines)))
            self._changed.wait(wait)

    def _finish(self, process: subprocess.Popen[bytes], grace: float) -> tuple[int, list[str]]:
        """End what is left, reap the leader, and say how many it had left behind, and what there is to say of them."""
        forced = not self._exited.is_set()
        session = process.pid
        behind = 0 if forced else len(processes.wait_until_settled(self._run_id, session, _SETTLE_SECONDS))
        left = processes.end(self._run_id, session, grace) if forced or behind else []
        if self._exited.wait(0.0 if left else _DRAIN_SECONDS):
            process.wait()
        notes = []
        if behind:
            notes.append(f"{behind} process(es) were still running when the command had ended, and were ended")
        if left:
            numbers = ", ".join(str(line.pid) for line in left)
            notes.append(f"process(es) {numbers} could not be ended")
        return behind, notes

    def _output_notes(self, keepers: Sequence[Keeper]) -> list[str]:
        notes = []
        for keeper, path in zip(keepers, self._outputs, strict=True):
            if keeper.dropped:
                notes.append(f"{path.name}: {keeper.dropped} bytes of {keeper.total} were not kept")
            if keeper.trouble:
                notes.append(keeper.trouble)
        return notes


def _passed_since(said: bytes) -> float:
    """Give the seconds since a time of day, as bash writes it; 0 where it is none, or a clock was set since."""
    try:
        passed = time.time() - float(said.replace(b",", b"."))
    except ValueError:
        return 0.0
    return passed if 0 <= passed < _LATE_SECONDS else 0.0


class OrphanGuard:
    """Tells a process of its own which runs are under way; it acts when it hears no more.

    Without it (no process can be started) runs are reaped by the next resume, so nothing fails for want of a guard.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the guard before a run, which is then under guard as soon as it has begun."""
        with self._lock:
            if self._process is None:
                with contextlib.suppress(OSError):
                    self._process = subprocess.Popen(
                        python(processes.__file__, alone=True),
                        env=inherit_environment(),
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        text=True,
                        start_new_session=True,
                    )

    def began(self, run_id: str, pid: int) -> None:
        """Take a run under guard."""
        with self._lock:
            self._tell(f"began {run_id} {pid}")

    def over(self, run_id: str) -> None:
        """Release a run whose processes are gone."""
        with self._lock:
            self._tell(f"over {run_id}")

    def close(self) -> None:
        """End the guard; runs still under its guard end with it."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            process.wait()

    def _tell(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
