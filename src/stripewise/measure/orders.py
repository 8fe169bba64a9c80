"""Orders: which settings the next phases of a running program are to try.

A file of orders is append-only. The runtime reads it before each open, and answers in its journal
(:mod:`stripewise.measure.journal`), whose lines have the same form.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stripewise.carriers import Setting
from stripewise.errors import StripewiseError
from stripewise.spec.formats import MAX_ORDERS, ORDERS_HEADER

CARRIERS = ("hint", "layout", "hdf5")
"""Verbs of the plan whose settings a phase can have: they act when a file is opened or created."""
_SPECIAL = re.compile(r"[\x00-\x1f\x7f%]")
_DIGITS = re.compile(r"[0-9]+")


@dataclass(frozen=True)
class Order:
    """What one phase is to try.

    Attributes
    ----------
    number : int
        Each number is carried out once; from 1 to 65535.
    site : str
        The file's absolute path with every run of digits as ``#``.
    operation : str
        ``write`` or ``read``.
    settings : sequence of Setting
        Of :data:`CARRIERS`; none for the default.
    """

    number: int
    site: str
    operation: str
    settings: Sequence[Setting] = ()

    def line(self) -> str:
        """Write it, with its checksum and its newline.

        Raises
        ------
        ValueError
            If no phase can carry it out.
        """
        if not 0 < self.number < MAX_ORDERS or any(setting.carrier.verb not in CARRIERS for setting in self.settings):
            raise ValueError(f"{self} cannot be an order")
        settings = ";".join(setting.line() for setting in self.settings)
        fields = {"site": self.site, "operation": self.operation, "settings": settings, "order": str(self.number)}
        body = "".join(f"\t{key}={_SPECIAL.sub(_escaped, value)}" for key, value in fields.items())
        return f"{zlib.crc32(body.encode('utf-8', 'surrogateescape')):08x}{body}\n"


def site_of(path: str | Path) -> str:
    """Give the site of a file: its path with every run of digits as ``#``."""
    return _DIGITS.sub("#", str(path))


def append_orders(path: Path, orders: Iterable[Order]) -> None:
    """Append orders to a file, which is made if need be, by one write.

    Raises
    ------
    StripewiseError
        If it cannot be written.
    """
    text = "".join(order.line() for order in orders).encode("utf-8", "surrogateescape")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            if size == 0:
                text = f"{ORDERS_HEADER}\n".encode() + text
            elif os.pread(descriptor, 1, size - 1) != b"\n":
                text = b"\n" + text  # after a line that was cut off
            if os.write(descriptor, text) != len(text):
                raise OSError(0, "the disk is full")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StripewiseError(f"cannot write orders to {path}: {error.strerror}", "make room") from error


def _escaped(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02x}"
