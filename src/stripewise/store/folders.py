"""Folders whose names survive the loss of power."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from stripewise import ownership

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
