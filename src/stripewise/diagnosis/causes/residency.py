"""Which pages of a file are in memory: the truth against which guesses from time are held."""

from __future__ import annotations

import ctypes
import mmap
import os

from stripewise.errors import StripewiseError

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_FAILED = ctypes.c_void_p(-1).value


def resident(descriptor: int, offset: int, length: int) -> float:
    """Part of a range's pages that are in memory, 0 to 1.

    Parameters
    ----------
    descriptor : int
        An open file that the caller may write to, for the kernel tells of others' files nothing.
    offset, length : int
        Bytes.

    Raises
    ------
    StripewiseError
        If the system does not tell.
    """
    start = offset // PAGE * PAGE
    span = -(-(offset + length - start) // PAGE) * PAGE
    address = _libc.mmap(None, span, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, start)
    if address == _FAILED:
        raise StripewiseError(f"mmap: {os.strerror(ctypes.get_errno())}")
    try:
        pages = ctypes.create_string_buffer(span // PAGE)
        if _libc.mincore(address, span, pages):
            raise StripewiseError(f"mincore: {os.strerror(ctypes.get_errno())}")
        return sum(byte & 1 for byte in pages.raw) / len(pages.raw)
    finally:
        _libc.munmap(address, span)


def drop(descriptor: int, offset: int = 0, length: int = 0) -> None:
    """Ask the kernel to forget a file's pages; they must have been written to disk before (fsync)."""
    os.posix_fadvise(descriptor, offset, length, os.POSIX_FADV_DONTNEED)
