"""Files of a shared folder that several hosts write without locks: whole or not at all, or appended to by one writer.

Only operations that are atomic on network file systems are used: exclusive creation, link and rename. A claim of an
experiment is a small file that only one host can be the first to create. Names of folders survive the loss of power.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise import ownership
from stripewise.errors import StoreError, pip_install
from stripewise.ownership import PART, part_of, written_whole
from stripewise.store import codec
from stripewise.store.holder import Holder
from stripewise.store.transactions import explain_errors

_LARGEST = 1 << 30
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


def make_folder(path: Path) -> None:
    """Make a folder for its owner alone, with those it lies in.

    Raises
    ------
    OSError
        If it cannot be made.
    """
    for folder in ownership.make_folder(path):
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk, where the file system has a way to ask for it.

    Raises
    ------
    OSError
        If the disk refuses.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)


_REMEMBERED_SECONDS = 90.0
"""Longer than clients remember that a file does not exist: 60 seconds with NFS."""
_PAUSE_SECONDS = 0.1
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)
_CHECKSUM = '{"checksum":"%s",'
_HEAD = len(_CHECKSUM % ("0" * 16))


def _write_new(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _write_all(handle, text.encode("ascii"))
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def replace_file(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON file in place of another, atomically."""
    with written_whole(path) as part:
        _write_new(part, codec.dump(data) + "\n")
    sync_folder(path.parent)


def create_file(path: Path, data: Mapping[str, Any]) -> bool:
    """Write a JSON file that did not exist; of several that try at once, on any hosts, one succeeds.

    Returns
    -------
    bool
        False if the file exists.
    """
    text = codec.dump(data) + "\n"
    part = part_of(path)
    try:
        _write_new(part, text)
        try:
            os.link(part, path)
        except FileExistsError:
            # A server whose answer was lost says so about our own link when it is asked again.
            if part.stat().st_nlink != 2:
                return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if not _create_exclusively(path, text):
                return False
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def _create_exclusively(path: Path, text: str) -> bool:
    """As :func:`create_file`, without links: a crash may leave the file empty."""
    try:
        _write_new(path, text)
    except FileExistsError:
        return False
    return True


def _read_bytes(path: Path) -> bytes:
    """Read a file; another user of the folder can put a pipe, a device or a link to one in its place.

    Raises
    ------
    OSError
        If it cannot be read.
    StoreError
        If it is none of ours.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise codec.damaged(str(path)) from error
        raise
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _LARGEST:
            raise codec.damaged(str(path))
        return file.read()


def read_file(path: Path) -> dict[str, Any] | None:
    """Read a JSON file; None where it does not hold a table.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    try:
        data = json.loads(_read_bytes(path))
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def refresh(folder: Path) -> None:
    """Make a network file system's client forget what it remembers of a folder: a change of our own does."""
    probe = part_of(folder / "probe")
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    probe.unlink(missing_ok=True)


def _read_anew(path: Path) -> bytes:
    """Read a file under a name that no client has seen: with it comes what the server knows of the file.

    Opening it by its own name asks the server as well, but not on mounts with ``nocto``, nor where a client remembers
    that there was no such file.
    """
    deadline = time.monotonic() + _REMEMBERED_SECONDS
    while True:
        probe = part_of(path)
        try:
            os.link(path, probe)
            return _read_bytes(probe)
        except FileExistsError:
            # The link was made, and the server's answer lost, which is what another name is to bring.
            continue
        except FileNotFoundError:
            with contextlib.suppress(OSError):
                # A user who may only read cannot; it is then seen a little later.
                refresh(path.parent)
            listed = any(entry.name == path.name for entry in os.scandir(path.parent))
            if not listed or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
        except OSError:
            # There are no links, or this user may only read.
            return _read_bytes(path)
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)


# Lines: {"checksum":"0123456789abcdef","sequence":7, ...}\n; the checksum is of the bytes that follow it.


def _checksum(rest: bytes) -> str:
    return hashlib.blake2b(rest, digest_size=8).hexdigest()


def write_line(sequence: int, event: Mapping[str, Any]) -> bytes:
    """Write an event as a line."""
    rest = codec.dump({"sequence": sequence, **event})[1:].encode("ascii") + b"\n"
    return (_CHECKSUM % _checksum(rest)).encode("ascii") + rest


def _read_line(line: bytes, sequence: int) -> dict[str, Any] | None:
    rest = line[_HEAD:]
    if not line.endswith(b"\n") or line[:_HEAD] != (_CHECKSUM % _checksum(rest)).encode("ascii"):
        return None
    try:
        event = json.loads(b"{" + rest)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and event.get("sequence") == sequence else None


@dataclass(frozen=True)
class Lines:
    """What was read of a journal.

    Attributes
    ----------
    torn : bool
        Whether a crash left something unreadable at the end.
    damaged : int or None
        The first line (from 1) that is unreadable though good ones follow it, or that does not belong there.
    """

    path: Path
    events: list[dict[str, Any]]
    torn: bool = False
    damaged: int | None = None


def read_lines(path: Path, *, certain: bool = False) -> Lines:
    """Read a journal; one that does not exist is empty.

    Parameters
    ----------
    certain : bool
        Do not believe what a network file system's client remembers of it.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    try:
        data = _read_anew(path) if certain else _read_bytes(path)
    except FileNotFoundError:
        return Lines(path, [])
    lines = data.splitlines(keepends=True)
    events: list[dict[str, Any]] = []
    for line in lines:
        event = _read_line(line, len(events))
        if event is None:
            break
        events.append(event)
    bad = len(events)
    # A good line that stands in the wrong place is damage, too.
    good_after = any(_is_good(line) for line in lines[bad:])
    return Lines(path, events, bad < len(lines) and not good_after, bad + 1 if good_after else None)


def _is_good(line: bytes) -> bool:
    return line.endswith(b"\n") and line[:_HEAD] == (_CHECKSUM % _checksum(line[_HEAD:])).encode("ascii")


class Writer:
    """Appends to a journal that nobody else writes; what :meth:`append` has accepted is on the disk.

    Parameters
    ----------
    path : Path
        Of a file that does not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._sequence = 0
        self._size = 0
        self._handle = -1
        self._broken = False

    def open(self) -> None:
        """Create the file.

        Raises
        ------
        OSError
            If it cannot be made, or exists.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._handle = os.open(self.path, flags, 0o600)
        sync_folder(self.path.parent)

    def append(self, event: Mapping[str, Any]) -> None:
        """Add an event.

        Raises
        ------
        StoreError
            If an earlier failure could not be undone.
        OSError
            If it cannot be written; it is then as if it had not been tried.
        """
        if self._broken or self._handle < 0:
            raise StoreError(f"the journal {self.path} can no longer be written", "continue with: stripewise resume ID")
        line = write_line(self._sequence, event)
        try:
            _write_all(self._handle, line)
            os.fsync(self._handle)
        except OSError:
            self._undo()
            raise
        self._sequence += 1
        self._size += len(line)

    def _undo(self) -> None:
        try:
            os.ftruncate(self._handle, self._size)
            os.fsync(self._handle)
        except OSError:
            # What is on the disk is unknown; a later line would make half a line look like damage.
            self._broken = True

    def close(self) -> None:
        """Close the file."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            with contextlib.suppress(OSError):
                os.close(handle)


MARKER = "stripewise-journal.json"
_FORMAT = "stripewise-journal"
_VERSION = 1


def prepare_folder(folder: Path) -> None:
    """Make the folder of a journal, or check that it is one.

    Raises
    ------
    StoreError
        If it cannot be made or read, is something else, or was made by a newer version.
    """
    where = f"journal:{folder}"
    marker = folder / MARKER
    with explain_errors(where):
        make_folder(folder)
        if not marker.exists():
            # Somebody else may be making it just now.
            others = sorted(p.name for p in folder.iterdir() if not p.name.startswith(PART) and p.name != MARKER)
            if others and not marker.exists():
                raise StoreError(
                    f"store {where}: the folder holds other things ('{others[0]}') and no journal",
                    "name a new or an empty folder",
                )
            create_file(marker, {"format": _FORMAT, "version": _VERSION})
        _check_marker(marker, where)
        if not (folder / "experiments").is_dir():
            (folder / "experiments").mkdir(mode=0o700, exist_ok=True)


def _check_marker(marker: Path, where: str) -> None:
    data = read_file(marker)
    if data is None or data.get("format") != _FORMAT or not isinstance(data.get("version"), int):
        raise StoreError(f"store {where}: {marker} is not of a journal of Stripewise", "name another folder")
    if data["version"] > _VERSION:
        raise StoreError(
            f"store {where} was written by a newer Stripewise (version {data['version']}, this one knows {_VERSION})",
            f"update it {pip_install()}",
        )


# A claim whose owner crashed before it could say who it was, where the file system has no links.
_UNSIGNED_SECONDS = 60.0


@dataclass(frozen=True)
class Holding:
    """The newest claim, as others see it.

    Attributes
    ----------
    token : int
        0 where there never was one.
    holder : Holder or None
        The process behind it, if known.
    expires : float
        Epoch seconds; 0 once it is given back.
    """

    token: int
    owner: str = ""
    holder: Holder | None = None
    expires: float = 0.0

    def alive(self, now: float) -> bool:
        """Whether it still holds."""
        return self.expires > now and not (self.holder is not None and self.holder.proven_dead())


def _name(token: int, ending: str = "json") -> str:
    return f"{token:08d}.{ending}"


def journal_path(folder: Path, token: int) -> Path:
    """Give the journal of a claim."""
    return folder / "events" / _name(token, "jsonl")


def claim_tokens(folder: Path) -> list[int]:
    """List the claims ever made, oldest first.

    Raises
    ------
    OSError
        FileNotFoundError where the experiment does not exist.
    """
    return sorted(int(path.stem) for path in (folder / "claims").iterdir() if path.stem.isdigit())


def newest_token(folder: Path, *, certain: bool = False) -> int:
    """Give the fencing number of the newest claim.

    Parameters
    ----------
    folder : Path
        The experiment's.
    certain : bool
        Do not believe what a network file system's client remembers.
    """
    if certain:
        refresh(folder / "claims")
    return max(claim_tokens(folder), default=0)


def newest_claim(folder: Path, *, certain: bool = False) -> Holding:
    """Read the newest claim; ``certain`` as in :func:`newest`."""
    if certain:
        refresh(folder / "leases")
    token = newest_token(folder, certain=certain)
    if token == 0:
        return Holding(0)
    claim = folder / "claims" / _name(token)
    data = read_file(claim)
    if data is None:
        return Holding(token, "an unknown owner", None, claim.stat().st_mtime + _UNSIGNED_SECONDS)
    try:
        lease = read_file(folder / "leases" / _name(token)) or data
    except FileNotFoundError:
        lease = data
    expires = lease.get("expires")
    return Holding(
        token,
        str(data.get("owner", "")),
        Holder.read(data.get("holder")),
        float(expires) if isinstance(expires, int | float) else 0.0,
    )


def take_claim(folder: Path, token: int, owner: str, holder: Holder, expires: float) -> bool:
    """Try to be the one who makes a claim."""
    data = {"owner": owner, "holder": holder.as_json(), "expires": expires}
    return create_file(folder / "claims" / _name(token), data)


def prolong_lease(folder: Path, token: int, expires: float) -> None:
    """Set until when a claim of our own holds; 0 gives it back."""
    replace_file(folder / "leases" / _name(token), {"expires": expires})


def ask_to_stop(folder: Path, token: int) -> None:
    """Leave a note for the owner of a claim."""
    create_file(folder / "stops" / _name(token), {})


def asked_to_stop(folder: Path, token: int) -> bool:
    """Whether there is a note for the owner of a claim."""
    return (folder / "stops" / _name(token)).exists()
