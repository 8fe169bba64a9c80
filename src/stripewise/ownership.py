"""Files and folders of this user: how they are made, and the check that nobody else can have changed them."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stripewise.errors import UserError

PART = ".stripewise-"
"""Begins the names of files and folders that are not finished."""

_NOBODY = 65534
"""Owner that the kernel shows in a container for root of its host, and for all other users of it."""
_PROC = Path("/proc")
_MOST_LINKS = 40
"""The kernel follows no more."""
_HOME = "set STRIPEWISE_HOME to a folder that only you can write"


def part_of(path: Path) -> Path:
    """Give a name beside a path for what takes its place when it is finished."""
    return path.with_name(f"{PART}{os.urandom(8).hex()}")


def is_special(path: Path) -> bool:
    """Whether a path is a device, a pipe or a socket, also behind a link."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def written_whole(path: Path, sync: bool = False) -> Iterator[Path]:
    """Give the name of a file to write, which then takes a file's place; after an error the old one is still there.

    Parameters
    ----------
    path : Path
        Replaced if it exists.
    sync : bool
        Whether the content must be on the disk before.

    Raises
    ------
    FileExistsError
        If a device, pipe or socket has the name: root could replace even /dev/null.
    """
    if is_special(path):
        raise FileExistsError(errno.EEXIST, "it is not a regular file", str(path))
    part = part_of(path)
    try:
        yield part
        if sync:
            with part.open("rb") as file:
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class ForeignLink(Exception):  # noqa: N818  each caller says in its own words what that means
    """A link of another user leads a path elsewhere.

    Attributes
    ----------
    link : Path
    """

    def __init__(self, link: Path) -> None:
        super().__init__(str(link))
        self.link = link


@dataclass(frozen=True)
class End:
    """Where a path ends: a name in an opened folder, so that others can exchange names of the path meanwhile.

    Attributes
    ----------
    folder : int
        The folder's descriptor.
    name : str
        Under which there is no link, but for the kernel's own in ``/proc``; there may be nothing.
    link : int or None
        Who owns the link that the path itself is; None if it is none.
    moved : bool
        Whether such a link leads to another folder.
    """

    folder: int
    name: str
    link: int | None
    moved: bool

    def open(self) -> int:
        """Open the file to be written, empty; it is made if there is none."""
        follow = 0 if os.fstat(self.folder).st_dev == _PROC.stat().st_dev else os.O_NOFOLLOW
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | follow
        return os.open(self.name, flags, 0o666, dir_fd=self.folder)


@contextmanager
def followed(file: Path, *, last: bool = False) -> Iterator[End]:
    """Follow a path to its end, and trust each link before it is followed: later, others may have exchanged it.

    A link must belong to this user, to root, or to the owner of the folder in which it lies.

    Parameters
    ----------
    file : Path
    last : bool
        Look only at what the path itself is, where the folder's owner is not trusted either.

    Raises
    ------
    ForeignLink
        At a link of another user.
    OSError
        If a folder of the path cannot be opened.
    """
    kind, proc = os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, _PROC.stat().st_dev
    at, left = Path("/"), list(file.absolute().parts[1:]) or ["."]
    own, link, links = None, None, 0
    here = os.open("/", kind | os.O_DIRECTORY)
    try:
        while True:
            name, about = left.pop(0), os.fstat(here)
            if not left and own is None:
                own = about
            found = None if name == ".." or (not left and about.st_dev == proc) else _read_link(name, here)
            if found is not None:
                owner, target = found
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(file))
                if own is not None and link is None:
                    link = owner
                trusted = {os.geteuid(), 0} if last else _trusted_in(about)
                if owner not in trusted and about.st_dev != proc and (own is not None or not last):
                    raise ForeignLink(at / name)
                left = [*target.parts[target.is_absolute() :], *left] or ["."]
                name, at = ("/", Path("/")) if target.is_absolute() else (".", at)
            elif not left:
                yield End(here, name, link, own is not None and not os.path.samestat(own, about))
                return
            else:
                at = at.parent if name == ".." else at / name
            below = os.open(name, kind | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)


def _trusted_in(folder: os.stat_result) -> set[int]:
    """Give those whose files and links in a folder are trusted: this user, root and the folder's owner.

    In a container that may be anyone, so where everyone can write, the owner tells nothing.
    """
    anyone = folder.st_uid == _NOBODY and folder.st_mode & stat.S_IWOTH
    return {os.geteuid(), 0} if anyone else {os.geteuid(), 0, folder.st_uid}


def _read_link(name: str, folder: int) -> tuple[int, Path] | None:
    """Give who owns a link and where it leads, both of the same one; None where a name is not a link's."""
    try:
        opened = os.open(name, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        about = os.fstat(opened)
        return (about.st_uid, Path(os.readlink("", dir_fd=opened))) if stat.S_ISLNK(about.st_mode) else None
    finally:
        os.close(opened)


def open_to_write(path: Path, fix: str) -> int:
    """Open a file to be written, empty, and not through a link of another user, who would choose which file that is.

    Raises
    ------
    UserError
        If the path is such a link.
    OSError
        If it cannot be opened.
    """
    try:
        with followed(path, last=True) as end:
            return end.open()
    except ForeignLink as error:
        raise UserError(f"{error.link} is a link of another user", fix) from None


def current_folder() -> Path:
    """Give the working folder, also one that is gone: programs start in it, and only what is relative to it fails."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/proc/self/cwd").readlink()


def make_folder(path: Path) -> list[Path]:
    """Make a folder for its owner alone, with those it lies in; give the folders that were made, the outermost first.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    made: list[Path] = []
    for last in (False,) * 99 + (True,):
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            if not path.is_dir():
                raise
            break
        except FileNotFoundError:
            # Another process may remove the parent before this folder is made in it, so it is made again. Some
            # file systems (/proc) answer so for ever.
            if last:
                raise
            made += make_folder(path.parent)
        else:
            if path.stat().st_mode & stat.S_IRWXU != stat.S_IRWXU:
                path.chmod(stat.S_IRWXU)  # the umask may take rights from its owner, too
            made.append(path)
            break
    return made


def names_file(word: str) -> bool:
    """Whether a word is a file's where an identifier or a name may stand, too: it has a slash or an ending.

    A bare word is never a file's, whatever the working folder holds: on a shared machine others can put files there.
    """
    return "/" in word or "." in word


def check_own(path: Path, noun: str) -> None:
    """Refuse what another user than this one and root owns, or what others can write.

    Parameters
    ----------
    path : Path
        A file, a folder or a socket that exists.
    noun : str
        What it is, for the message.

    Raises
    ------
    UserError
        If others could have changed it.
    OSError
        If it cannot be looked at.
    """
    about = path.stat()
    if about.st_uid not in (os.getuid(), 0):
        raise UserError(f"{noun} {path} belongs to another user ({about.st_uid})", "use one of your own")
    if _others_can_write(path, about):
        raise UserError(f"others can write {noun} {path}", f"check who changed it, then: chmod go-w {path}")


def check_above(path: Path, noun: str, elsewhere: str = _HOME, *, group: bool = False) -> None:
    """Refuse a folder that others could exchange as a whole, since they can rename in it or in one above it.

    Parameters
    ----------
    path : Path
        A folder.
    noun : str
        What it is, for the message.
    elsewhere : str
        How to name another folder.
    group : bool
        Whether the members of a group and the owners of the folders above are trusted.

    Raises
    ------
    UserError
        If others could.
    OSError
        If a folder cannot be looked at.
    """
    try:
        with followed(path):
            pass
    except ForeignLink as error:
        what = f"{error.link}, on the way to {noun} {path}, is a link of another user"
        raise UserError(what, elsewhere) from None
    path, below = path.resolve(), 0
    for folder in (path, *path.parents):
        about = folder.stat()
        foreign = about.st_uid not in (os.getuid(), 0, _NOBODY)
        if not group and foreign:
            raise UserError(f"user {about.st_uid} owns {folder}, and could exchange {noun} {path}", elsewhere)
        # Only from its owner does the sticky bit keep nothing.
        if _others_can_write(folder, about, group) and (foreign or not about.st_mode & stat.S_ISVTX):
            raise UserError(
                f"others can write {folder}, and so exchange {noun} {path}", f"chmod go-w {folder}, or {elsewhere}"
            )
        # Where everyone may make a folder, its name tells nothing of its owner, who may let this user write.
        if below and about.st_mode & stat.S_IWOTH:
            raise UserError(
                f"user {below} made the folder in {folder} that holds {noun} {path}, and could exchange it", elsewhere
            )
        below = about.st_uid if about.st_uid not in (os.getuid(), 0) else 0


def make_own_folder(path: Path, noun: str, elsewhere: str = _HOME) -> None:
    """Make a folder for what is run, and refuse one that another user made before, or could exchange.

    Parameters as for :func:`check_above`.

    Raises
    ------
    UserError
        If another user could change what lies in it.
    OSError
        If it cannot be made.
    """
    make_folder(path)
    check_own(path, noun)
    check_above(path, noun, elsewhere, group=True)


def everyone_can_write(folder: Path) -> bool:
    """Whether any user can make a file or link in a folder, under a name that is known, also with the sticky bit."""
    return bool(folder.stat().st_mode & stat.S_IWOTH)


def _others_can_write(path: Path, about: os.stat_result, group: bool = False) -> bool:
    """Whether a file or folder can be written by others than its owner, and its group unless that is trusted."""
    if about.st_mode & stat.S_IWOTH:
        return True
    return bool(about.st_mode & stat.S_IWGRP) and not (group or _own_group(path, about.st_gid))


def _own_group(path: Path, number: int) -> bool:
    """Whether the rights of a group are this user's alone: it is the private one, without another member.

    With an access control list, they are the most that the users have whom the list names.
    """
    try:
        group, own = grp.getgrgid(number), pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return False
    if group.gr_name != own or not {own}.issuperset(group.gr_mem):
        return False
    try:
        os.getxattr(path, "system.posix_acl_access")
    except OSError:
        return True
    return False


@contextmanager
def checked_model(path: Path, noun: str = "model") -> Iterator[Path]:
    """Refuse a model that others than its owner and root can have changed, or put where it lies; else give its place.

    Staff share models that users only read, so a model may belong to another user if its folder does, too: who names
    a model there trusts that user. In a folder of another owner, such as /tmp, it must be this user's or root's. Who
    shares a folder with a group can add files to it, but not in the name of another user.

    Parameters
    ----------
    path : Path
        A file that exists.
    noun : str
        What it is, for the message: other files are shared in the same way.

    Yields
    ------
    Path
        On which to read it: the very file that was checked, also where others exchange names in its folder meanwhile.

    Raises
    ------
    UserError
        If others could have changed it.
    OSError
        If it cannot be looked at.
    """
    named, folder = path.lstat(), path.absolute().parent.stat()
    follow = 0 if stat.S_ISLNK(named.st_mode) else os.O_NOFOLLOW
    # Another user's pipe is not waited for.
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | follow)
    place = Path(f"/proc/self/fd/{opened}")
    try:
        about = os.fstat(opened)
        for found in (about, named):
            if found.st_uid not in _trusted_in(folder):
                raise UserError(
                    f"the {noun} {path} belongs to user {found.st_uid}, and its folder to another",
                    "copy it to a folder of your own, if you trust that user",
                )
        if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UserError(f"others can write the {noun} {path}", f"check who changed it, then: chmod go-w {path}")
        if folder.st_mode & stat.S_IWOTH and not folder.st_mode & stat.S_ISVTX:
            raise UserError(f"others can write the folder of the {noun} {path}", f"chmod o-w {path.absolute().parent}")
        yield place
    except UserError as error:
        error.what, error.fix = (text.replace(str(place), str(path)) for text in (error.what, error.fix))
        raise
    finally:
        os.close(opened)


def take_from_others(path: Path) -> None:
    """Take away the right of others to write a file or folder.

    Raises
    ------
    OSError
        If it belongs to somebody else.
    """
    path.chmod(stat.S_IMODE(path.stat().st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
