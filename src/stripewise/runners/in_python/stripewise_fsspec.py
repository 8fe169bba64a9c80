"""How files of ``fsspec`` (HTTP, S3 and others) read ahead: block and cache, where the program chose none.

What a program reads stays the same. The object says what it was given: its block size, and the name of its cache.
"""

from __future__ import annotations

import functools
import weakref

_FREE = 0.25
"""Part of the free memory that the blocks of all open files may take."""
_BLOCKS = {"blockcache": 32, "background": 33}
"""Blocks that such a cache holds (fsspec/caching.py); others hold two at most while they read on."""
_OTHERS = 2
_LEFT = ("default", 0)


def patch(system, target, job, free_memory) -> None:
    """Patch the class ``AbstractFileSystem``; ``free_memory`` gives bytes, or None where it is not known."""
    opening = system.open
    held: dict = {}

    @functools.wraps(opening)
    def open(self, path, mode="rb", *args, **kwargs):
        # Text opens itself once more as bytes; what decompresses hides the object that could say what it got. A system
        # before another may keep the block size on disk, and open the file with no other one later.
        if mode != "rb" or args or kwargs.get("compression") is not None or hasattr(self, "fs"):
            return opening(self, path, mode, *args, **kwargs)
        wanted: dict = {}
        try:
            wanted = _wanted(self, kwargs, target, job, sum(size for size, _ in held.values()), free_memory())
        except Exception:
            pass
        try:
            made = opening(self, path, mode, **{**kwargs, **wanted})
        except (TypeError, ValueError) as error:
            if not wanted:
                raise
            made = opening(self, path, mode, **kwargs)  # if it is the program's own fault, this says so
            for name in wanted:
                target.settings[name].refuse(f"{type(self).__name__} does not take it: {error}")
            wanted = {}
        try:
            _count(made, wanted, target, held)
            job.write(soon=True)
        except Exception:  # an object that tells nothing
            pass
        return made

    open._stripewise = target
    system._stripewise = target
    system.open = open


def _wanted(system, own: dict, target, job, taken: int, free) -> dict:
    """Give the arguments that the program, and the one who made the file system, left at their default."""
    target.calls += 1
    made_with = getattr(system, "storage_options", {})
    wanted = {}
    for name, one in target.settings.items():
        value = own.get(name)
        for option in (name, f"default_{name}"):
            value = made_with.get(option) if value is None else value
        if value is not None and not job.override:
            one.got(value, acted=False)
        elif one.value in _LEFT or value == one.value:
            one.missed += 1
        else:
            wanted[name] = one.value
    if wanted and free is not None:
        usual = (own.get("block_size"), getattr(system, "block_size", 0), getattr(system, "default_block_size", 0))
        block = wanted.get("block_size") or next((size for size in usual if isinstance(size, int) and size), 5 << 20)
        needed = taken + block * _BLOCKS.get(wanted.get("cache_type"), _OTHERS)
        if needed > _FREE * free:
            for name in wanted:
                target.settings[name].refuse(f"{needed} bytes of blocks exceed a quarter of the {free} that are free")
            return {}
    return wanted


def _count(made, wanted: dict, target, held) -> None:
    """Ask the object what it has got, and remember the memory that it may take; a local file has no cache."""
    cache = getattr(made, "cache", None)
    got = {"block_size": getattr(made, "blocksize", None), "cache_type": getattr(cache, "name", None)}
    for name, value in wanted.items():
        acted = cache is not None and got[name] == value
        if acted:
            target.settings[name].got(value, acted=True)
            target.settings[name].echoed = str(got[name])
        else:
            target.settings[name].missed += 1
    if wanted and cache is not None:
        gone = functools.partial(held.pop, id(made), None)
        held[id(made)] = made.blocksize * _BLOCKS.get(cache.name, _OTHERS), weakref.ref(made, lambda _: gone())
