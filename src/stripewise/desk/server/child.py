"""Children of the service and its workers that read what requests bring, in bounded time and memory.

A model or a table is data of whoever uploaded it: it may be small and unpack to much, or cost hours to use. So both are
read and used in a child process, which is stopped when it takes too much, with the request that asked for it, and is
then replaced.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import json
import os
import queue
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from stripewise.errors import NotFound, StripewiseError, TransientError, UserError
from stripewise.interpreter import inherit_environment, python, take_as_bounded

MEMORY = 1 << 30
"""Bytes that a child may take for what a request brings, besides its libraries."""
SECONDS = 20.0
"""How long it may take for that."""
_CHILDREN = 4
_WAITING = 12
"""Requests that may wait for a child: each takes one of the 40 threads that answer all requests."""
_OF_ONE = 3
"""Of one token: fewer than there are children, so that it cannot hold up all others."""
_PATIENCE_SECONDS = 60.0
_START_SECONDS = 180.0
_LONGEST_ANSWER = 64 << 20
_LIBRARIES = 1 << 30
"""Most bytes that libraries take which are loaded once a work needs them."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_WORK = "stripewise.desk.server.child_tasks"
_KINDS: dict[str, type[StripewiseError]] = {"UserError": UserError, "NotFound": NotFound}


ASKER: contextvars.ContextVar[str] = contextvars.ContextVar("asker", default="")
"""The token whose request this is; empty for the service itself, which has no limit."""


class TooMany(StripewiseError):  # noqa: N818  it is an answer, not a fault
    """A token asks for more at a time than it may."""


class Child:
    """A process that does one piece of work after another, and is replaced after one that takes too much.

    Parameters
    ----------
    memory : int
        Bytes that it may take besides its libraries.
    environment : mapping, optional
        Variables that it gets where this process has none of the name; one thread of linear algebra by default.
    """

    def __init__(self, memory: int = MEMORY, environment: Mapping[str, str] = _ONE_THREAD) -> None:
        self._memory = memory
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, work: str, seconds: float, step: Callable[[], object] = lambda: None, **given: Any) -> Any:
        """Do some work.

        Parameters
        ----------
        work : str
            A function of :mod:`stripewise.desk.server.child_tasks`.
        seconds : float
            How long it may take, and a step of it where it says when it makes one.
        step : callable
            Is called at least twice a second, and may raise to stop the work.
        **given
            Arguments, plain JSON values.

        Raises
        ------
        UserError
            If it takes too much time or memory.
        StripewiseError
            As the work does.
        """
        process = self.started()
        request = json.dumps({"work": work, "given": given, "seconds": seconds}).encode() + b"\n"
        try:
            _pipe(process.stdin).write(request)
            _pipe(process.stdin).flush()
            answer = self._answer(process, seconds, step)
        except BrokenPipeError:
            answer = None
        except BaseException:
            self.end()
            raise
        if answer is None:
            code = self.end()
            if code == -signal.SIGALRM:
                raise _make_timeout(seconds)
            raise UserError(
                f"it needs more than {self._memory >> 20} MiB of memory, or is damaged: its reader ended with {code}",
                "use a smaller one",
            )
        if "error" in answer:
            raise _KINDS.get(answer["error"], StripewiseError)(answer["what"], answer["fix"])
        return answer["answer"]

    def _answer(self, process: subprocess.Popen[bytes], seconds: float, step: Callable[[], object]) -> Any:
        stream, found = _pipe(process.stdout).fileno(), bytearray()
        deadline, begun = time.monotonic() + _START_SECONDS, False
        while True:
            step()
            if select.select([stream], [], [], 0.4)[0]:
                read = os.read(stream, 1 << 16)
                if not read:
                    return None
                found += read
                if found.startswith(b"\n"):
                    # An empty line: the work has begun, or a step of it was made.
                    deadline, begun = time.monotonic() + seconds, True
                    found = found.lstrip(b"\n")
                if found.endswith(b"\n"):
                    return json.loads(found)
            if len(found) > _LONGEST_ANSWER:
                raise UserError(f"the answer would be larger than {_LONGEST_ANSWER >> 20} MiB", "use a smaller file")
            # The child's own alarm comes first, unless it cannot be stopped.
            if time.monotonic() > deadline + 1:
                if begun:
                    raise _make_timeout(seconds)
                raise TransientError(
                    f"its reader did not start within {_START_SECONDS:g} s: the machine is busy", "try again"
                )

    def started(self) -> subprocess.Popen[bytes]:
        """Give the process, which is started where there is none."""
        if self._process is None or self._process.poll() is not None:
            self.end()
            environment = {
                name: value for name, value in inherit_environment(service=True).items() if name != "LD_PRELOAD"
            }
            self._process = subprocess.Popen(
                python("-m", __name__, str(self._memory)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**self._environment, **environment},
            )
        return self._process

    def resident(self) -> int:
        """Give the bytes of memory that the process takes; 0 if there is none."""
        if self._process is None or self._process.poll() is not None:
            return 0
        return _read_status("VmRSS", self._process.pid)

    def end(self) -> int | None:
        """End the process; gives its exit code, None if there is none yet."""
        process, self._process = self._process, None
        if process is None:
            return None
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                _pipe(stream).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(0.2)
        process.kill()
        # One that waits for a file system that does not answer ends when that does.
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(2.0)
        return None


def _make_timeout(seconds: float) -> UserError:
    return UserError(f"it takes more than {seconds:g} s", "use a smaller one")


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


class _Children:
    """The few children of this process, which live as long as it does."""

    def __init__(self) -> None:
        self._idle: queue.LifoQueue[Child] = queue.LifoQueue()
        self._places = threading.Semaphore(_CHILDREN + _WAITING)
        self._lock = threading.Lock()
        self._of: Counter[str] = Counter()
        for _ in range(_CHILDREN):
            self._idle.put(Child())

    def warm_up(self) -> None:
        child = self._idle.get()
        child.started()
        self._idle.put(child)

    @contextlib.contextmanager
    def _one_of_few(self, asker: str) -> Iterator[None]:
        """Count what a token asks for at a time."""
        with self._lock:
            if asker and self._of[asker] >= _OF_ONE:
                raise TooMany(
                    f"this token already has {_OF_ONE} requests at work that read models, tables, logs or scripts",
                    "wait for an answer, then send the request again",
                )
            self._of[asker] += 1
        try:
            yield
        finally:
            with self._lock:
                self._of[asker] -= 1
                if not self._of[asker]:
                    del self._of[asker]

    def ask(self, work: str, seconds: float, **given: Any) -> Any:
        with self._one_of_few(ASKER.get()):
            return self._ask(work, seconds, **given)

    def _ask(self, work: str, seconds: float, **given: Any) -> Any:
        busy = TransientError("all readers of models, tables, logs and scripts are busy", "try again in a minute")
        if not self._places.acquire(blocking=False):
            raise busy
        try:
            child = self._idle.get(timeout=_PATIENCE_SECONDS)
            try:
                return child.ask(work, seconds, **given)
            finally:
                self._idle.put(child)
        except queue.Empty:
            raise busy from None
        finally:
            self._places.release()


_children = _Children()


def _forget() -> None:
    """Leave the children to the process that started them."""
    global _children  # noqa: PLW0603  a fork is another process with the same names
    _children = _Children()


os.register_at_fork(after_in_child=_forget)


def warm_up(seconds: float = 5.0) -> None:
    """Start a child soon, so that the first who needs one does not wait until it has loaded its libraries.

    Not at once: that would slow down what the service does when it starts.
    """
    timer = threading.Timer(seconds, _children.warm_up)
    timer.daemon = True
    timer.start()


def ask(work: str, seconds: float = SECONDS, **given: Any) -> Any:
    """Do some work for a request; see :meth:`Child.ask`.

    Raises
    ------
    TooMany
        If the token of the request has as much under way as it may.
    """
    return _children.ask(work, seconds, **given)


# -- in the child --------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer requests until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    memory = int(sys.argv[1])
    channel = os.dup(1)
    os.dup2(2, 1)
    work = importlib.import_module(_WORK)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    most = _count_data() + memory
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (most, most + _LIBRARIES))
    take_as_bounded()
    with os.fdopen(channel, "wb") as answers, contextlib.suppress(BrokenPipeError):
        for line in sys.stdin.buffer:
            request = json.loads(line)
            answers.write(_answer_request(work, request, answers, memory) + b"\n")
            answers.flush()


def _count_data() -> int:
    """Bytes of this process that count for its limit."""
    return _read_status("VmData", "self")


def _read_status(name: str, process: int | str) -> int:
    """Bytes that the kernel counts for a process; 0 for one that has ended."""
    status = Path(f"/proc/{process}/status").read_text("utf-8").splitlines()
    return next((int(line.split()[1]) << 10 for line in status if line.startswith(name)), 0)


def _load_libraries(work: Any, name: str) -> None:
    """Load what a work needs beside its time, and raise the limit by the memory that it takes."""
    most, ever = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (ever, ever))
    before = _count_data()
    work.load_libraries(name)
    resource.setrlimit(resource.RLIMIT_DATA, (min(most + max(0, _count_data() - before), ever), ever))


def _end_with(parent: int) -> None:
    """End with the parent, also in the middle of work: nobody waits for it any longer."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _answer_request(work: Any, request: Mapping[str, Any], answers: IO[bytes], memory: int) -> bytes:
    # An alarm that nobody handles ends the process, also in the middle of a library.
    seconds = float(request["seconds"])

    def step() -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        answers.write(b"\n")
        answers.flush()

    _load_libraries(work, request["work"])
    step()
    try:
        answer = work.WORK[request["work"]](step=step, **request["given"])
        return json.dumps({"answer": answer}).encode()
    except StripewiseError as error:
        return json.dumps({"error": type(error).__name__, "what": error.what, "fix": error.fix}).encode()
    except MemoryError:
        what = f"it needs more than {memory >> 20} MiB of memory"
        return json.dumps({"error": "UserError", "what": what, "fix": "use a smaller one"}).encode()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main()
