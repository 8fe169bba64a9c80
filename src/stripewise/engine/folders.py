"""Where the runs of an experiment keep their output."""

from __future__ import annotations

import fcntl
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stripewise.errors import StripewiseError, UserError
from stripewise.facts import Facts
from stripewise.ownership import check_above, make_folder
from stripewise.requests.experiment import Experiment
from stripewise.requests.policy import load_policy

_LOCK_NUMBER = 100
"""Least number of the descriptor that programs inherit."""
_ELSEWHERE = "name another folder with --scratch, or set STRIPEWISE_HOME"


def state_folder() -> Path:
    """Folder of what Stripewise keeps: ``STRIPEWISE_HOME``, the site file's, or by the XDG convention."""
    home = os.environ.get("STRIPEWISE_HOME")
    if home:
        return Path(home)
    sites = load_policy().folder("state", os.environ)
    if sites is not None:
        return sites
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "stripewise"


@contextmanager
def folder_alone(wanted: Path) -> Iterator[Path]:
    """Make a folder for a run, or one beside it while another run uses it: both would write the same report.

    The lock is of this process, of the program that replaces it, and of its children: it ends with the last of them,
    whatever ends them.

    Parameters
    ----------
    wanted : Path
        The folder; those beside it are called ``wanted-2``, ``wanted-3``, ...

    Raises
    ------
    StripewiseError
        If it cannot be made.
    """
    for number in itertools.count(1):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            make_folder(folder)
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StripewiseError(
                f"cannot write {folder}: {error.strerror or error}",
                "make room, or set STRIPEWISE_HOME to another folder",
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            os.close(lock)
        except OSError:
            # The file system has no locks: a name that nobody else takes.
            folder = wanted.with_name(f"{wanted.name}-{time.time_ns():x}")
            break
    # A program that expects its first file to have the number 3 finds it free.
    inherited = fcntl.fcntl(lock, fcntl.F_DUPFD, _LOCK_NUMBER)
    os.close(lock)
    try:
        yield folder
    finally:
        os.close(inherited)


def working_folder(facts: Facts) -> Path:
    """Folder in which an experiment was begun, and in which its program and its files are found on resuming.

    Raises
    ------
    UserError
        If it is gone.
    """
    folder = Path.cwd() if facts.folder is None else Path(facts.folder)
    if not folder.is_dir():
        raise UserError(
            f"the folder {folder}, in which the experiment was begun, is gone", "restore it, or start a new experiment"
        )
    return folder


def make_runs_folder(experiment: Experiment) -> None:
    """Make the folder of :func:`runs_folder`, before anything is begun that could not keep its output.

    Raises
    ------
    UserError
        If it cannot be made or written, or everyone could exchange it.
    """
    folder = runs_folder(experiment)
    try:
        make_folder(folder)
        # Plans, job scripts and what tells a run's processes lie there.
        check_above(folder.resolve(), "the folder of runs", group=True)
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise UserError(f"cannot make {folder} for the runs' output: {error.strerror}", _ELSEWHERE) from error
    if not writable:
        raise UserError(f"cannot write to {folder}, where the runs' output goes", _ELSEWHERE)


def runs_folder(experiment: Experiment) -> Path:
    """Folder in which an experiment's own folder is made."""
    if experiment.scratch:
        return Path(experiment.scratch).absolute()
    return state_folder() / "runs"
