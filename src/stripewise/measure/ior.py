"""Output of the IOR benchmark, versions 2.10 to 4: its text, JSON and CSV forms, told apart by their content."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stripewise.errors import UserError

_KIB = 1024
# Field of a row, with the names that texts and CSV files, and JSON files, have for it.
_COLUMNS = {
    "access": ("access", "access"),
    "bandwidth": ("bw(MiB/s)", "bwMiB"),
    "block": ("block(KiB)", "blockKiB"),
    "transfer": ("xfer(KiB)", "xferKiB"),
    "open": ("open(s)", "openTime"),
    "moving": ("wr/rd(s)", "wrRdTime"),
    "close": ("close(s)", "closeTime"),
    "total": ("total(s)", "totalTime"),
}
_COMMAND = re.compile(r"Command line(?: used)?\s*:(.*)")
_OPTION = re.compile(r"[ \t]*([A-Za-z][\w \t/()-]*)[:=][ \t]+(\S.*)")
_BY_NAME = {name.lower(): field for field, names in _COLUMNS.items() for name in names}


@dataclass(frozen=True)
class IorRow:
    """One access of one repetition.

    Attributes
    ----------
    access : {"write", "read"}
    bandwidth : float
        MiB/s.
    block, transfer : int or None
        Bytes.
    open, moving, close, total : float or None
        Seconds; None where that version does not print them.
    """

    access: str
    bandwidth: float
    block: int | None = None
    transfer: int | None = None
    open: float | None = None
    moving: float | None = None
    close: float | None = None
    total: float | None = None


@dataclass(frozen=True)
class IorOutput:
    """An output of IOR.

    Attributes
    ----------
    form : {"text", "json", "csv"}
    version, command : str
        Empty where the form does not carry them.
    options : mapping
        As printed, of the last test.
    rows : tuple of IorRow
    """

    form: str
    version: str
    command: str
    options: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[IorRow, ...] = ()


def parse_ior(text: str, origin: str = "the output") -> IorOutput:
    """Read an output of IOR in any of its forms.

    Raises
    ------
    UserError
        If it has no result of IOR.
    """
    stripped = text.lstrip("\ufeff \t\r\n")
    if stripped.startswith("{"):
        output = _parse_json(stripped, origin)
    elif re.match(r"access\s*,", stripped):
        output = IorOutput("csv", "", "", {}, tuple(_rows(csv.reader(stripped.splitlines()))))
    else:
        output = _parse_text(text)
    if not output.rows:
        raise UserError(f"{origin} has no result of IOR", "give the output of a run that wrote or read something")
    return output


def _parse_text(text: str) -> IorOutput:
    version = re.search(r"^IOR-(\S+?):", text, re.MULTILINE)
    lines = text.splitlines()
    # Blanks around are stripped afterwards: patterns with them take time in proportion to the square of their number.
    found = [(match[1].strip(), match[2].strip()) for match in map(_OPTION.match, lines) if match]
    command = next((match[1].strip() for match in map(_COMMAND.match, lines) if match), "")
    return IorOutput(
        "text",
        version.group(1) if version else "",
        command,
        dict(found),
        tuple(_rows(line.split() for line in lines)),
    )


def _rows(lines: Iterable[list[str]]) -> Iterator[IorRow]:
    """Rows of a table whose header names the columns."""
    header: list[str] = []
    for cells in lines:
        if len(cells) > 2 and cells[0] == "access" and cells[1].startswith("bw"):
            header = [_BY_NAME.get(name.strip().lower(), "") for name in cells]
        elif header and len(cells) == len(header):
            yield from _row(dict(zip(header, cells, strict=True)))


def _row(cells: Mapping[str, Any]) -> Iterator[IorRow]:
    """The row of an access that has a bandwidth; none of other lines."""
    access, bandwidth = str(cells.get("access")).strip(), _number(cells.get("bandwidth"))
    if access not in ("write", "read") or bandwidth is None:
        return
    block, transfer = _number(cells.get("block")), _number(cells.get("transfer"))
    yield IorRow(
        access=access,
        bandwidth=bandwidth,
        block=None if block is None else round(block * _KIB),
        transfer=None if transfer is None else round(transfer * _KIB),
        **{name: _number(cells.get(name)) for name in ("open", "moving", "close", "total")},
    )


def _number(cell: Any) -> float | None:
    """A cell's number; None where IOR prints a dash, or infinity as a text."""
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _parse_json(text: str, origin: str) -> IorOutput:
    try:
        data, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{origin} is not valid JSON of IOR: {error}", "was IOR stopped before its end?") from error
    tests = data.get("tests") if isinstance(data, dict) else None
    if not isinstance(tests, list):
        raise UserError(
            f"{origin} is JSON without 'tests', so not of IOR", "give what IOR wrote with summaryFormat=JSON"
        )
    rows: list[IorRow] = []
    options: Mapping[str, Any] = {}
    for test in (entry for entry in tests if isinstance(entry, dict)):
        options = {**_mapping(test.get("Parameters")), **_mapping(test.get("Options"))}
        for result in _flat(test.get("Results")):
            rows += _row({_BY_NAME.get(str(name).lower(), ""): value for name, value in result.items()})
    shown = {str(name): str(value) for name, value in options.items()}
    return IorOutput("json", str(data.get("Version", "")), str(data.get("Command line", "")), shown, tuple(rows))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _flat(value: Any) -> Iterator[Mapping[str, Any]]:
    """Results are nested by repetition in some versions and not in others."""
    if isinstance(value, dict):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _flat(item)
