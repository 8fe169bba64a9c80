"""A user's own command in the foreground: it starts as the shell would have started it, and ends this process its way.

The program either replaces this process, or runs as a child that is attended because something is to be done when it
has ended. An attended program is as the shell's own in all but its number: each signal reaches it, it stops and
continues together with this process, and is killed with it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from stripewise.errors import CannotExecute
from stripewise.interpreter import inherit_environment, python
from stripewise.runners.local import processes

_PYTHONS = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores them from its start on, and does not keep what was before."""
_SHELLS = ("ash", "bash", "busybox", "dash", "ksh", "mksh", "sh", "tcsh", "zsh")
_NOT_PASSED = {
    # Cannot be caught, or is how the system tells this process about its child.
    signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD,
    # Faults of this process itself.
    signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL,
}  # fmt: skip
_PASSED = sorted(set(signal.valid_signals()) - _NOT_PASSED)
_OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH)
"""A terminal sends these to all processes of its foreground, the program included."""
_OF_GROUP = (signal.SIGTTIN, signal.SIGTTOU)
"""The system sends these to the whole group of a process that uses its terminal from the background."""


def take_place(words: Sequence[str]) -> NoReturn:
    """Put a command in the place of this process.

    Raises
    ------
    CannotExecute
    """
    _as_before_python(_ignored_at_start())
    with _executable(words[0]):
        os.execvpe(words[0], list(words), inherit_environment())
    raise AssertionError  # it has returned only with an error


def attend(words: Sequence[str], meanwhile: Callable[[], None] = lambda: None) -> int:
    """Run a command as if it had replaced this process, and give its exit code, negative for a signal.

    Parameters
    ----------
    words : sequence of str
    meanwhile : callable
        Called once, when the command has begun and before any signal is let through; a thread that it starts gets none.

    Raises
    ------
    CannotExecute
    """
    child: subprocess.Popen[bytes] | None = None
    ignored, early = _ignored_at_start(), list[int]()

    def pass_on(number: int, _frame: object) -> None:
        if number in _OF_GROUP or (number in _OF_TERMINAL and _in_foreground()):
            return
        if child is None:  # another thread has taken it
            early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, number)

    def begin() -> None:
        # After the fork, in the child: calls of the system alone, so that no lock of another thread is waited for.
        _as_before_python(ignored)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    # No signal comes between this process and its child: those that are sent now wait until both are ready.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    before = {number: signal.signal(number, pass_on) for number in _PASSED}
    # A process that ignores it is not told how its children end.
    before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    follower = None
    try:
        # As with exec, what the shell gave this process is inherited.
        with _executable(words[0]):
            child = subprocess.Popen(
                words,
                env=inherit_environment(),
                close_fds=False,
                restore_signals=False,
                preexec_fn=begin,  # noqa: PLW1509  it calls the system alone
            )
        for number in early:
            os.kill(child.pid, number)
        follower = _followed(child.pid)
        meanwhile()
        signal.pthread_sigmask(signal.SIG_SETMASK, set(mask) - set(_PASSED))
        return _wait_for_end(child, pass_on)
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if follower is not None:
            follower.kill()
            follower.wait()


@contextlib.contextmanager
def _executable(word: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        what = f"cannot execute {word}: {error.strerror}"
        raise CannotExecute(what, "check the program and its permissions", code) from error


def end_by_signal(number: int) -> None:
    """End this process as a signal has ended the program, for whoever started this command to see."""
    # The program has left its core already.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError):  # SIGKILL needs no default
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    signal.raise_signal(number)


def _wait_for_end(child: subprocess.Popen[bytes], pass_on: Callable[[int, object], None]) -> int:
    """Wait for the end of a child, and stop whenever it stops."""
    while True:
        found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if found is None or found.si_code != os.CLD_STOPPED:
            return child.wait()
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOHANG)
        number = found.si_status
        if number == signal.SIGSTOP:
            os.kill(os.getpid(), number)
            continue
        # The shell is told by the same signal; the default is to stop.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, pass_on)


def _followed(child: int) -> subprocess.Popen[bytes] | None:
    """Start what stops the program, continues and kills it together with this process, which then cannot do so."""
    with contextlib.suppress(OSError):  # without it the program still runs
        return subprocess.Popen(
            python(processes.__file__, str(os.getpid()), str(child), alone=True),
            env=inherit_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return None


def _in_foreground() -> bool:
    """Whether this process is in the foreground of its terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _ignored_at_start() -> set[int]:
    """Give the signals that were ignored when this process began."""
    now = {number for number in _PASSED if signal.getsignal(number) == signal.SIG_IGN}
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        now.add(signal.SIGCHLD)
    return (now - set(_PYTHONS)) | {number for number in _PYTHONS if _shell_ignores(number)}


def _shell_ignores(number: int) -> bool:
    """Whether this process was started by a shell that ignores a signal, which its commands then do, too.

    Other programs ignore signals for themselves alone.
    """
    place = Path("/proc") / str(os.getppid())
    try:
        name = (place / "exe").readlink().name
        status = (place / "status").read_text(errors="replace")
    except OSError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")), "0")
    return name in _SHELLS and bool(int(mask, 16) >> (number - 1) & 1)


def _as_before_python(ignored: set[int]) -> None:
    """Give each signal the disposition that a program inherits from a shell."""
    for number in (*_PASSED, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
