"""Orders: which settings the next phases of a running program are to try.

A file of orders is append-only. The runtime reads it before each open, and answers in its journal
(:mod:`stripewise.observe.journal`), whose lines have the same form.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stripewise.catalogue.carriers import Setting
from stripewise.errors import StripewiseError
from stripewise.formats import MAX_ORDERS, ORDERS_HEADER
from stripewise.observe.journal import fields_of, unescaped

_MOST_SETTINGS, _MOST_BYTES = 24, 63
"""What the runtime holds of an order: settings, and bytes of a key or value."""
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
        Of carriers that act while the program runs; none for the default.
    run : int or None
        The run that it is, for the tuner that wrote it; the runtime passes it over.
    """

    number: int
    site: str
    operation: str
    settings: Sequence[Setting] = ()
    run: int | None = None

    @property
    def text(self) -> str:
        """Its settings as the runtime reads them and answers; empty for the default."""
        return ";".join(setting.line() for setting in self.settings)

    def line(self) -> str:
        """Write it, with its checksum and its newline.

        Raises
        ------
        ValueError
            If no phase can carry it out.
        """
        words = [word for setting in self.settings for word in (setting.key, setting.value)]
        if (
            not 0 < self.number < MAX_ORDERS
            or len(self.settings) > _MOST_SETTINGS
            or any(setting.carrier.why_early(setting.key) for setting in self.settings)
            or any(";" in word or len(word.encode("utf-8", "surrogateescape")) > _MOST_BYTES for word in words)
        ):
            raise ValueError(f"order {self.number} ({self.text}) cannot be carried out by a phase")
        fields = {"site": self.site, "operation": self.operation, "settings": self.text, "order": str(self.number)}
        if self.run is not None:
            fields["run"] = str(self.run)
        body = "".join(f"\t{key}={_SPECIAL.sub(_escape_character, value)}" for key, value in fields.items())
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


@dataclass(frozen=True)
class Given:
    """An order that a file holds: for which files it is, and the run that it is, if it is one's last."""

    number: int
    site: str
    operation: str
    run: int | None = None


def read_orders(text: str) -> list[Given]:
    """Read which orders a file holds.

    Lines with numbers that no order has are passed over, as the runtime does.
    """
    found = []
    for line in text.split("\n"):
        fields = fields_of(line) or {}
        number, run = (_number(fields.get(name, "")) for name in ("order", "run"))
        if 0 < number < MAX_ORDERS:
            site, operation = unescaped(fields.get("site", "")), fields.get("operation", "")
            found.append(Given(number, site, operation, run if run >= 0 else None))
    return found


def _number(text: str) -> int:
    return int(text) if len(text) < 10 and text.isascii() and text.isdecimal() else -1


def _escape_character(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02x}"
