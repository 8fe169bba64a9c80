"""Timings of single operations, read from CSV files."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stripewise.errors import UserError
from stripewise.sizes import parse_size

COLUMNS = ("operation", "size", "seconds", "offset")
_NEEDED = COLUMNS[:3]
_MOST = 5_000_000


@dataclass(frozen=True)
class Timing:
    """One operation.

    Attributes
    ----------
    operation : {"read", "write"}
    size : int
        Bytes.
    seconds : float
    offset : int or None
        Place in the file.
    """

    operation: str
    size: int
    seconds: float
    offset: int | None = None

    @property
    def bandwidth(self) -> float:
        """MiB/s."""
        return self.size / self.seconds / 2**20


def patterns(timings: Sequence[Timing]) -> list[str]:
    """Say how each operation lies to the last one: ``first``, ``forward``, ``same``, ``gap``, ``reverse`` or ``jump``.

    ``gap`` is a jump ahead by at most 16 times the size, ``reverse`` the piece just before; ``unknown`` without
    offsets.
    """
    found: list[str] = []
    before: Timing | None = None
    for timing in timings:
        found.append(_pattern(before, timing))
        before = timing
    return found


def _pattern(before: Timing | None, now: Timing) -> str:
    if now.offset is None:
        return "unknown"
    if before is None or before.offset is None:
        return "first"
    step = now.offset - before.offset
    if step == 0:
        return "same"
    if step == before.size:
        return "forward"
    if step == -now.size:
        return "reverse"
    if before.size < step <= 16 * before.size:
        return "gap"
    return "jump"


def is_timings(start: bytes) -> bool:
    """Whether a file that begins like this holds timings."""
    head = start.split(b"\n", 1)[0].decode("utf-8", "replace").lower()
    return all(name in [word.strip() for word in head.split(",")] for name in _NEEDED)


def read_timings(path: Path) -> list[Timing]:
    """Read timings from a CSV file with the columns operation, size, seconds and, where known, offset.

    Raises
    ------
    UserError
        Naming the line that is wrong.
    """
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            return _parse(csv.DictReader(file), str(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "check the path") from error
    except csv.Error as error:
        raise UserError(f"{path} is not a CSV file: {error}") from error


def _parse(reader: csv.DictReader[str], origin: str) -> list[Timing]:
    names = {(name or "").strip().lower(): name for name in reader.fieldnames or []}
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise UserError(
            f"{origin} has no column '{missing[0]}'", f"timings have {', '.join(COLUMNS)}; offset may be left out"
        )
    found: list[Timing] = []
    for row in reader:
        where = f"{origin} line {reader.line_num}"
        if len(found) >= _MOST:
            raise UserError(f"{origin} has more than {_MOST:,} operations", "give a part of it")
        operation = (row[names["operation"]] or "").strip().lower()
        if operation not in ("read", "write"):
            raise UserError(f"{where}: operation is '{operation}'", "write read or write")
        try:
            seconds = float(row[names["seconds"]] or "")
            size = parse_size(row[names["size"]] or "")
            offset = int(row[names["offset"]]) if "offset" in names and (row[names["offset"]] or "").strip() else None
        except ValueError as error:
            raise UserError(f"{where}: {error}", "write numbers") from error
        except UserError as error:
            raise UserError(f"{where}: {error.what}", error.fix) from error
        if not (seconds > 0 and math.isfinite(seconds)) or size <= 0:
            raise UserError(f"{where}: size and seconds must be above 0")
        found.append(Timing(operation, size, seconds, offset))
    if not found:
        raise UserError(f"{origin} holds no operations", "is it the right file?")
    return found
