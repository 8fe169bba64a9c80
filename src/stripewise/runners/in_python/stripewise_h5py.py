"""Keeps datasets of ``h5py`` open while their file is: the cache of chunks is lost when the last name of one goes.

A program that writes ``file["data"][i]`` opens the dataset at each call, and decompresses its chunks again
(github.com/h5py/h5py/issues/1960). Only datasets with chunks are kept, of files that nobody may write through this
process. The file or group that was asked holds them, and no other file: none stays open longer than without this.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict

_MOST = 64
_FREE = 0.25
"""Part of the free memory that the caches may take."""


def patch(group, target, job, free_memory) -> None:
    """Patch the class ``Group``; ``free_memory`` gives bytes, or None where it is not known."""
    one = target.settings.get("kept_open")
    get = group.__getitem__

    @functools.wraps(get)
    def __getitem__(self, name):
        found = get(self, name)
        try:
            _keep(self, found, one, target, free_memory)
            job.write(soon=True)
        except Exception:  # a file that is closed meanwhile
            pass
        return found

    __getitem__._stripewise = target
    group._stripewise = target
    group.__getitem__ = __getitem__


def _keep(group, found, one, target, free_memory) -> None:
    """Keep a dataset's handle with the object that it was asked of, and count whether it was kept already."""
    if not isinstance(found, sys.modules["h5py"].Dataset):
        return
    target.calls += 1
    if one is None:
        return
    if one.value is not True:
        one.missed += 1
        return
    handle, kept = found.id, group.__dict__.setdefault("_stripewise", OrderedDict())
    if handle in kept:
        kept.move_to_end(handle)
        one.got(True, acted=True)
        one.echoed = "true"
        return
    one.missed += 1
    h5d, h5f, h5i = (sys.modules[f"h5py.{name}"] for name in ("h5d", "h5f", "h5i"))
    read_only = h5i.get_file_id(handle).get_intent() == h5f.ACC_RDONLY
    chunked = handle.get_create_plist().get_layout() == h5d.CHUNKED
    if not read_only or not chunked or h5f.get_name(handle) != h5f.get_name(group.id):
        return
    size, free = handle.get_access_plist().get_chunk_cache()[1], free_memory()
    while kept and (len(kept) >= _MOST or (free is not None and size + sum(kept.values()) > _FREE * free)):
        kept.popitem(last=False)
    if free is None or size <= _FREE * free:
        kept[handle] = size
