"""Tells the kernel how a file that ``numpy`` maps will be read: ``madvise``, which ``numpy`` has no argument for.

Linux reads 128 KiB around each page that is missing, which is slow where small rows are read in any order
(github.com/numpy/numpy/issues/13172). What a program reads stays the same.
"""

from __future__ import annotations

import functools
import mmap


def patch(memmap, target, job) -> None:
    """Patch the class ``memmap``, which ``numpy.load(mmap_mode=...)`` makes, too."""
    one = target.settings.get("advice")
    make = memmap.__new__

    @functools.wraps(make)
    def __new__(cls, *args, **kwargs):
        made = make(cls, *args, **kwargs)
        try:
            target.calls += 1
            if one is not None:
                _advise(made, one)
            job.write(soon=True)
        except Exception:  # the kernel need not follow
            pass
        return made

    __new__._stripewise = target
    memmap._stripewise = target
    memmap.__new__ = staticmethod(__new__)


def _advise(made, one) -> None:
    if one.value == "normal":
        one.missed += 1
        return
    advice = getattr(mmap, f"MADV_{str(one.value).upper()}", None)
    if advice is None:
        one.refuse("this system has no such advice")
        return
    made._mmap.madvise(advice)
    one.got(one.value, acted=True)
