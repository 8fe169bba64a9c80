"""Daemons without a service manager: started, waited for, and surely ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

MARK = "STRIPEWISE_TESTBED"
"""Environment variable that every process of a test bed inherits; its value is the bed's folder."""


class BedError(Exception):
    """The test bed cannot do what was asked, with the reason in one line."""


def call(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout: float = 60,
    check: bool = True,
) -> str:
    """Run a short command and give what it printed.

    Every call has a time limit: clients of a dead Slurm or Ceph daemon would otherwise block for minutes.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env=env,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise BedError(f"{words[0]} is not installed: see tests.system.testbed.PACKAGES") from error
    except subprocess.TimeoutExpired as error:
        raise BedError(f"{' '.join(words)} did not answer within {timeout:g} s") from error
    if check and done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise BedError(f"{' '.join(words)} failed ({done.returncode}): {told[-1] if told else 'it printed nothing'}")
    return done.stdout


def wait_until(condition: Callable[[], bool], seconds: float, what: str, every: float = 0.05) -> None:
    """Wait for something to become true; a BedError names it if it does not."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise BedError(f"{what}: still not so after {seconds:g} s")
        time.sleep(every)


def running(pid: int) -> bool:
    """Whether a process exists and is no zombie: without an init, ended daemons stay as zombies for a while."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def pid_in(file: Path) -> int | None:
    """The process that a pid file names, if it runs."""
    try:
        pid = int(file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if running(pid) else None


def end(pids: Iterable[int], grace: float = 10) -> None:
    """End processes politely, then surely, and wait until they are gone."""
    left = {pid for pid in pids if running(pid)}
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        for pid in left:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        limit = time.monotonic() + seconds
        while left and time.monotonic() < limit:
            left = {pid for pid in left if running(pid)}
            time.sleep(0.05)
    if left:
        raise BedError(f"processes {sorted(left)} cannot be killed")


def of_bed(folder: Path) -> list[int]:
    """Every process that a test bed in this folder started, its clients and jobs included, but for the caller's own."""
    wanted = f"{MARK}={folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in words and running(int(entry.name)):
            found.append(int(entry.name))
    return found


def environment(folder: Path, **more: str) -> dict[str, str]:
    """The environment for a daemon of the bed in this folder."""
    return {**os.environ, MARK: str(folder), **more}
