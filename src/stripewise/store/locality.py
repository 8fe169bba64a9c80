"""Is a folder on this machine's own storage? SQLite's locks and shared memory work nowhere else."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

from stripewise.catalogue.filesystems import network_label
from stripewise.catalogue.filesystems.mounts import mount_type
from stripewise.errors import StoreError

Statfs = Callable[[Path], int]
"""Gives the type of the file system that a folder lies on, as statfs(2) says it."""

_FUSE = 0x65735546
# What FUSE carries is only told by the mount: these stay on the machine, or on the host of a virtual one.
_LOCAL_FUSE = ("fuseblk", "virtiofs", "fuse.fuse-overlayfs", "fuse.ntfs", "fuse.ext", "fuse.gocryptfs", "fuse.encfs")


class _Statfs(ctypes.Structure):
    # Only the first field is read; the rest is room for every architecture's layout.
    _fields_ = (("f_type", ctypes.c_long), ("rest", ctypes.c_char * 512))


def statfs_type(folder: Path) -> int:
    """Ask the kernel for the type of a file system.

    Raises
    ------
    OSError
        If the folder does not exist or cannot be reached.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = _Statfs()
    if libc.statfs(os.fsencode(folder), ctypes.byref(buffer)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))
    return int(buffer.f_type) & 0xFFFFFFFF


def network_name(folder: Path, statfs: Statfs = statfs_type) -> str:
    """Give the name of the network file system that a folder is on, or an empty text if its storage is local.

    A folder that does not exist yet is judged by its nearest parent that does.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    kind = statfs(folder)
    if kind == _FUSE:
        mount = mount_type(folder) or "fuse"
        return "" if mount.startswith(_LOCAL_FUSE) else f"FUSE ({mount.removeprefix('fuse.')})"
    return network_label(kind)


def check_local(path: Path, statfs: Statfs = statfs_type) -> None:
    """Refuse to keep a SQLite database on a network file system.

    Raises
    ------
    StoreError
        With the file system's name and what to use instead.
    """
    try:
        # The file itself may be a link to elsewhere.
        name = network_name(path.resolve().parent, statfs)
    except OSError as error:
        raise StoreError(f"store {path} cannot be reached: {error.strerror}", "check the path") from error
    if name:
        raise StoreError(
            f"store {path} lies on {name}, where SQLite's locks do not hold and two hosts could destroy it",
            f"use --store journal:{path.parent / 'journal'} (or set STRIPEWISE_STORE to that), a local folder "
            "(XDG_DATA_HOME), or a PostgreSQL server",
        )
