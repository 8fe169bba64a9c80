"""Where the runs of an experiment keep their output."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stripewise.errors import StripewiseError, UserError
from stripewise.ownership import check_above, make_folder, make_own_folder
from stripewise.requests.site import site_folder
from stripewise.runners.local.processes import Identity

if TYPE_CHECKING:
    from stripewise.facts import Facts
    from stripewise.requests.experiment import Experiment

_ROOM = 1 << 16
"""Bytes of a plan, a journal and a small report."""
_ELSEWHERE = "name another folder with --scratch, or set STRIPEWISE_HOME"


def state_folder() -> Path:
    """Folder of what Stripewise keeps: ``STRIPEWISE_HOME``, the site file's, or by the XDG convention."""
    home = os.environ.get("STRIPEWISE_HOME")
    if home:
        return Path(home)
    sites = site_folder("state", os.environ)
    if sites is not None:
        return sites
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "stripewise"


def make_applied_folder() -> tuple[Path, str]:
    """Make the folder of what commands without an experiment leave, and say why where it is not the usual one.

    A state folder that is full, cannot be written or is another user's keeps no program from starting: the folder for
    temporary files takes its place.

    Raises
    ------
    StripewiseError
        If that one cannot be written either.
    """
    wanted = state_folder() / "applied"
    try:
        make_own_folder(wanted, "the folder")
        with tempfile.TemporaryFile(dir=wanted) as file:
            # What is small may still find room.
            os.posix_fallocate(file.fileno(), 0, _ROOM)
        return wanted, ""
    except UserError as error:
        why = error.what
    except OSError as error:
        why = f"cannot write {wanted} ({error.strerror or error})"
    try:
        folder = Path(tempfile.mkdtemp(prefix="stripewise-"))
    except OSError as error:
        raise StripewiseError(f"{why}, nor a temporary file", "make room, or set STRIPEWISE_HOME") from error
    return folder, f"{why}: this run's files are in {folder}"


def command_digest(command: Sequence[str], folder: Path) -> str:
    """Tell a command, started in a folder, from all others."""
    return hashlib.sha256(json.dumps([str(folder), *command]).encode()).hexdigest()[:12]


@contextmanager
def folder_alone(wanted: Path) -> Iterator[Path]:
    """Make a folder for a run, or one beside it while another run uses it: both would write the same report.

    A file names the process that uses it: this one, and the program that replaces it, which has its number. So the
    program inherits no descriptor, and whatever ends the process frees the folder.

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
            if _claim(folder / "lock"):
                break
        except OSError as error:
            raise StripewiseError(
                f"cannot write {folder}: {error.strerror or error}",
                "make room, or set STRIPEWISE_HOME to another folder",
            ) from error
    try:
        yield folder
    finally:
        # Emptied, not deleted: another process may have opened it to claim it.
        with contextlib.suppress(OSError):
            os.truncate(folder / "lock", 0)


def _claim(place: Path) -> bool:
    """Write this process into a file, unless it names another one that lives, or one of another host."""
    own = Identity.of(os.getpid())
    with os.fdopen(os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600), "r+") as file:
        os.fchmod(file.fileno(), 0o600)  # whatever the umask
        # Of two that claim it at the same time one goes first; where the file system has no locks, both may.
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            other = Identity.read(json.load(file))
        except ValueError:
            other = own
        if other != own and (not other.here or other.alive):
            return False
        file.seek(0)
        file.truncate()
        json.dump(own.as_json(), file)
    return True


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
        check_above(folder, "the folder of runs", _ELSEWHERE, group=True)
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
