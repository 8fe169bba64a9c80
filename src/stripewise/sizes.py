"""Byte sizes and counts as people write them: ``64 KiB``, ``4m``, ``1GiB``, ``2 files``."""

from __future__ import annotations

import math
import re

from stripewise.errors import UserError

_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_DECIMAL = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15}
_LONGEST = 100
"""Characters that a number may have."""
_MOST = 2**63 - 1
"""Bytes that a size may have: what the stores and MPI can hold."""
_FORM = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*\Z")


def parse_size(text: str | int) -> int:
    """Read a number of bytes, of an integer or a number with a unit.

    Units are ``k``/``KiB`` (1024) up to ``P``/``PiB``; ``kB``, ``MB`` ... are decimal as in SI.

    Raises
    ------
    UserError
        If the text is not a size, not a whole number of bytes, or 8 EiB or more.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        if text < 0:
            raise UserError(f"a size cannot be negative: {text}")
        return _keep_possible(text)
    shown = str(text)
    if len(shown) > _LONGEST:
        raise UserError(f"a size of {len(shown)} characters cannot be right: '{shown[:20]}...'", "write fewer digits")
    match = _FORM.match(shown)
    if match:
        number, unit = match.groups()
        lowered = unit.lower()
        factor = _DECIMAL.get(lowered)
        if factor is None:
            factor = _UNITS.get(lowered.removesuffix("ib") if lowered.endswith("ib") else lowered)
        if factor is not None:
            value = float(number) * factor if "." in number else int(number) * factor
            if value == int(value):
                return _keep_possible(int(value))
    raise UserError(f"'{text}' is not a size", "write bytes or a unit, as in 65536, 64 KiB or 4m")


def _keep_possible(size: int) -> int:
    if size > _MOST:
        raise UserError(f"a size of 2^{size.bit_length() - 1} bytes or more cannot be right", "write less than 8 EiB")
    return size


def parse_number(text: str) -> float | None:
    """Give the number that a person means by a text, with a unit or without; None if it is not a number."""
    if len(text) > _LONGEST or "_" in text or not text.isascii():
        return None
    for read in (int, float, parse_size):
        try:
            number = read(text)
        except (UserError, ValueError):
            continue
        return number if math.isfinite(number) else None
    return None


def format_size(value: float) -> str:
    """Write a number of bytes with the largest binary unit that keeps it short (``1.5 MiB``)."""
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024 or unit == "TiB":
            digits = f"{amount:.1f}".rstrip("0").rstrip(".")
            return f"{digits} {unit}"
        amount /= 1024
    raise AssertionError("unreachable")


def short_size(value: int) -> str:
    """Write a whole number of bytes exactly and as one word, as :func:`parse_size` reads it (``256K``)."""
    for unit in "PTGMK":
        if value and value % _UNITS[unit.lower()] == 0:
            return f"{value // _UNITS[unit.lower()]}{unit}"
    return str(value)


def format_value(value: object, unit: str = "") -> str:
    """Write a parameter's value: bytes as ``256K``, also where they are a text, booleans as true and false."""
    if unit == "B" and isinstance(value, str) and value.isdecimal():
        value = int(value)
    if isinstance(value, bool):
        return str(value).lower()
    if unit == "B" and isinstance(value, int | float):
        return short_size(int(value)) if float(value).is_integer() else format_size(value)
    return str(value)


def format_duration(seconds: float) -> str:
    """Write a time as a person would say it (``0.03 s``, ``85.5 s``, ``24 min``, ``3.1 h``)."""
    if 0 < seconds < 0.1:
        return f"{max(seconds, 1e-4):.1g} s"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def format_seconds(seconds: float) -> str:
    """Write seconds with three digits, and whole ones from 1,000 on (``4.41 s``, ``17 s``, ``14,400 s``)."""
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"


def count_of(amount: int, noun: str, plural: str = "") -> str:
    """Write a number of things (``1 file``, ``2,000 processes``)."""
    ending = "es" if noun.endswith("s") else "s"
    return f"{amount:,} {noun if amount == 1 else plural or noun + ending}"


def format_factor(factor: float) -> str:
    """Write how many times one thing is another, such as ``1.27``: rounded to four digits from 1,000 on."""
    return f"{factor:.2f}" if abs(factor) < 1000 else f"{factor:.4g}"
