"""What happens around a run, outside its time: files deleted, caches emptied, the user's own lines."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stripewise.catalogue.filesystems.base import mount_type
from stripewise.errors import RunFailed, UserError
from stripewise.interpreter import inherit_environment
from stripewise.ownership import ForeignLink, followed

_DROP = Path("/proc/sys/vm/drop_caches")
_GLOB = "*?["
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")
_LADVISE_SECONDS = 60.0


@dataclass(frozen=True)
class Caches:
    """What became of cached data before a run.

    Attributes
    ----------
    state : str
        ``dropped`` (the whole machine's), ``advised`` (the pages of known files are out of this node's memory),
        ``unknown``: then nothing may be claimed about reads.
    note : str
    """

    state: str
    note: str = ""


def check_deletions(patterns: Sequence[str], cwd: Path) -> None:
    """Refuse, before the first run, what must not be deleted.

    Raises
    ------
    UserError
        For folders, and for patterns outside the last part of a path.
    """
    for pattern in patterns:
        path = cwd / pattern
        if any(c in str(path.parent) for c in _GLOB):
            raise UserError(
                f"hooks.delete: '{pattern}' has a pattern in a folder's name", "use patterns in file names only"
            )
        if path.name == "*":
            raise UserError(
                f"hooks.delete: '{pattern}' would delete every file of {path.parent}",
                f"name the files that the program writes, as in '{pattern}.dat'",
            )
        if path.name in ("", "..") or path.is_dir():
            raise UserError(f"hooks.delete: '{pattern}' is a folder", "name the files that the program writes")


def delete(patterns: Iterable[str], cwd: Path, within: Sequence[Path] | None = None) -> int:
    """Delete the files that the program is going to write anew.

    A link that is named stays and its target goes, so that the program writes where the link points, as before. A link
    that a pattern finds must be the user's own and lead to the same folder: nobody named it, and others may have put
    it there. A link on the way must belong to the user, to root, or to the owner of the folder in
    which it lies: others can put links into a folder such as /tmp.

    Parameters
    ----------
    patterns : iterable of str
        With their placeholders replaced.
    cwd : Path
        Where relative ones begin.
    within : sequence of Path, optional
        The only folders, without links, in whose depth a file may be deleted.

    Returns
    -------
    int
        How many.

    Raises
    ------
    RunFailed
        If one cannot or must not be deleted: the program would find it and measure something else.
    """
    count = 0
    for pattern in patterns:
        path = cwd / pattern
        wild = any(c in path.name for c in _GLOB)
        for file in sorted(path.parent.glob(path.name)) if wild else [path]:
            try:
                count += _delete(file, within, named=not wild)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise RunFailed(f"cannot delete {file} before the run: {error.strerror}") from error
    return count


def _delete(file: Path, within: Sequence[Path] | None, *, named: bool) -> int:
    """Delete a file, or what a link names; give how many files that were."""
    try:
        with followed(file) as end:
            about = os.stat(end.name, dir_fd=end.folder, follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                return 0
            if not named and end.link is not None and (end.moved or end.link != os.getuid()):
                raise RunFailed(describe_link(file))
            real = Path(f"/proc/self/fd/{end.folder}").readlink()
            if within is not None and not any(real.is_relative_to(one) for one in within):
                raise RunFailed(describe_outside(file))
            os.unlink(end.name, dir_fd=end.folder)
    except ForeignLink as error:
        raise RunFailed(describe_foreign_link(error.link, file)) from None
    return 1


def describe_link(file: Path | str) -> str:
    """Say why a link that a pattern found is not followed."""
    return f"{file} is a link to another folder or of another user; a pattern in hooks.delete does not follow it"


def describe_foreign_link(link: Path | str, file: Path | str) -> str:
    """Say why a link of another user is not followed."""
    return f"{link}, on the way to {file}, is a link of another user; hooks.delete does not follow it"


def describe_outside(file: Path | str) -> str:
    """Say why a file is not deleted whose folder the service does not allow."""
    return f"{file} leads outside the folders of the service, where hooks.delete deletes nothing"


def can_drop_caches() -> bool:
    """Whether this process may empty the machine's caches."""
    return os.access(_DROP, os.W_OK)


def check_caches(how: str) -> None:
    """Refuse, before the first run, what this user cannot do.

    Raises
    ------
    UserError
        If this user has no right to drop the system's caches.
    """
    if how == "system" and not can_drop_caches():
        raise UserError(
            "hooks.drop_caches = 'system' needs root",
            "use 'advise', which takes the files' pages out of this node's memory",
        )


def empty_caches(how: str, files: Iterable[Path]) -> Caches:
    """Take data out of memory before a run.

    Parameters
    ----------
    how : str
        ``none``, ``advise`` or ``system``.
    files : iterable of Path
        Files that the program used; those that exist are written back and dropped from memory.
    """
    if how == "none":
        return Caches("unknown")
    if how == "system":
        os.sync()
        try:
            _DROP.write_text("3\n")
        except OSError as error:
            return Caches("unknown", f"caches were not dropped: {error.strerror}")
        return Caches("dropped")
    known = [path for path in files if path.is_file()]
    if not known:
        return Caches("unknown", "no file of the program is known yet, so nothing was advised away")
    failed = [f"{path}: {reason}" for path in known if (reason := _advise(path))]
    return Caches("unknown", f"not advised away: {failed[0]}") if failed else Caches("advised")


def _advise(path: Path) -> str:
    """Ask for a file's pages to leave the memory; give what prevented it, or an empty text."""
    if mount_type(path) in _IN_MEMORY:
        return "it lies in memory"
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return error.strerror or "cannot be opened"
    try:
        # Pages still to be written stay whatever the advice.
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        return error.strerror or "cannot be advised"
    finally:
        os.close(file)
    tool = shutil.which("lfs")
    if tool is not None:
        # Only Lustre servers have a cache of their own to advise; elsewhere the command refuses, which changes nothing.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [tool, "ladvise", "-a", "dontneed", str(path)],
                env=inherit_environment(),
                capture_output=True,
                timeout=_LADVISE_SECONDS,
                check=False,
            )
    return ""
