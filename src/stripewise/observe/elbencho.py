"""CSV results of the benchmark elbencho: reads and writes with their bandwidth, other phases with their rate."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

from stripewise.errors import UserError
from stripewise.observe.activity import Activity
from stripewise.observe.benchmark import BenchmarkRow, BenchmarkRun, activities_of, rows_of
from stripewise.observe.source import Measured, Row, Source, read_text

_NEEDED = ("path type", "hosts", "threads", "block size", "operation", "MiB/s [last]")
_WAYS = {"WRITE": "write", "READ": "read"}
_RATES = {
    "MKDIRS": "directory creation",
    "RMDIRS": "directory removal",
    "STAT": "file stat",
    "STATFILES": "file stat",
    "RMFILES": "file removal",
    "MKBUCKETS": "bucket creation",
    "RMBUCKETS": "bucket removal",
    "STATOBJ": "object stat",
    "RMOBJECTS": "object removal",
}
_MIB = 2**20
_SURE_MILLISECONDS = 1000
"""From this time on, bytes over time are more exact than the rate, which is a whole number."""


def is_elbencho(beginning: str) -> bool:
    """Whether a text begins with the header of elbencho's CSV results."""
    return "MiB/s [last]" in beginning and _header(beginning) is not None


def _header(text: str) -> int | None:
    """The number of the header's line."""
    for number, line in enumerate(text.splitlines()):
        if all(name in line for name in _NEEDED):
            return number
    return None


def parse_elbencho(text: str, origin: str = "the output") -> tuple[list[BenchmarkRun], list[Row]]:
    """Read CSV results of elbencho.

    Returns
    -------
    tuple of (list of BenchmarkRun, list of Row)
        The reads and writes of each start of elbencho, and the rates of other phases.

    Raises
    ------
    UserError
        If no phase has a rate.
    """
    first = _header(text)
    lines = text.splitlines()[first:] if first is not None else []
    runs: dict[tuple[str, ...], list[tuple[Mapping[str, str], BenchmarkRow]]] = {}
    rates: list[Row] = []
    try:
        for cells in csv.DictReader(lines, skipinitialspace=True):
            known = {(key or "").strip(): value if isinstance(value, str) else "" for key, value in cells.items()}
            operation = known.get("operation", "").strip().upper()
            if operation in _WAYS:
                key = tuple(known.get(name, "") for name in _ASKED)
                runs.setdefault(key, []).extend((known, row) for row in _accesses(known, _WAYS[operation]))
            elif operation in _RATES and (rate := _number(known.get("entries/s [last]", ""))):
                rates.append(_rate(known, _RATES[operation], rate))
    except csv.Error as error:
        raise UserError(f"{origin}: elbencho's CSV, which is damaged: {error}", "is the file whole?") from error
    found = [_run(rows[0][0], tuple(row for _, row in rows)) for rows in runs.values() if rows]
    if not found and not rates:
        raise UserError(
            f"{origin}: elbencho's CSV without a phase that has a rate", "did all phases fail or end at once?"
        )
    return found, rates


_ASKED = (
    "label",
    "path type",
    "paths",
    "hosts",
    "threads",
    "dirs",
    "files",
    "file size",
    "block size",
    "direct IO",
    "random",
    "IO depth",
    "version",
    "command",
)
"""Columns that say what was asked for: rows that agree in them are of one run."""


def _accesses(cells: Mapping[str, str], way: str) -> list[BenchmarkRow]:
    """The accesses of a row: of a phase that mixes both (``--rwmixpct``), a write and a read."""
    both = [(way, "")]
    if _number(cells.get("rwmix read MiB/s [last]", "")):
        both = [("write", ""), ("read", "rwmix read ")]
    milliseconds = _number(cells.get("time ms [last]", ""))
    rows = []
    for access, prefix in both:
        rate, moved = _number(cells.get(f"{prefix}MiB/s [last]", "")), _number(cells.get(f"{prefix}MiB [last]", ""))
        if rate is None:
            continue
        exact = moved * 1000 / milliseconds if moved and milliseconds and milliseconds >= _SURE_MILLISECONDS else None
        if exact is not None and abs(exact - rate) <= 1 + 0.01 * rate:
            rate = exact
        if rate > 0:
            seconds = milliseconds / 1000 if milliseconds else None
            rows.append(BenchmarkRow(access, rate, round(moved * _MIB) if moved else None, total=seconds))
    return rows


def _run(cells: Mapping[str, str], rows: tuple[BenchmarkRow, ...]) -> BenchmarkRun:
    hosts, threads = _count(cells, "hosts"), _count(cells, "threads")
    kind, direct = cells.get("path type", "").strip(), cells.get("direct IO", "").strip() == "1"
    return BenchmarkRun(
        version=cells.get("version", "").strip(),
        command=cells.get("command", "").strip() or "elbencho",
        api="posix" if kind in ("dir", "file", "blockdev") else kind or None,
        nodes=hosts or 1,
        tasks=(hosts or 1) * threads if threads else None,
        transfer=_count(cells, "block size"),
        layout="random" if cells.get("random", "").strip() == "1" else "segmented",
        collective=False,
        file_per_process=kind == "dir",
        rows=rows,
        apart=direct or "rwmix" in cells.get("command", ""),
        more={"io_depth": _count(cells, "IO depth"), "direct": direct},
    )


def _rate(cells: Mapping[str, str], operation: str, rate: float) -> Row:
    hosts, threads = _count(cells, "hosts") or 1, _count(cells, "threads")
    items = _count(cells, "dirs" if operation.startswith("directory") else "files")
    return {
        "metadata_operation": operation,
        "nodes": hosts,
        "processes": hosts * threads if threads else None,
        "items": items,
        "file_bytes": _count(cells, "file size"),
        "rate": rate,
    }


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _count(cells: Mapping[str, str], name: str) -> int | None:
    value = _number(cells.get(name, ""))
    return int(value) if value is not None else None


def _read(path: Path) -> list[Activity]:
    runs, _ = parse_elbencho(read_text(path), str(path))
    if not runs:
        raise UserError(f"{path}: elbencho's CSV without reads or writes", "site table import makes a table of rates")
    return activities_of(runs, str(path), "elbencho", "elbencho")


def _measure(path: Path) -> Measured:
    runs, rates = parse_elbencho(read_text(path), str(path))
    return Measured([*rows_of(runs), *rates], "elbencho")


SOURCE = Source("elbencho", "elbencho's CSV", "CSV of elbencho", is_elbencho, _read, _measure)
TEXT = Source(
    "elbencho-text",
    "elbencho's output for people",
    "",
    lambda beginning: "OPERATION" in beginning and "RESULT TYPE" in beginning and "LAST DONE" in beginning,
    instead="run elbencho with --csvfile FILE, and give that file",
)
LIVE = Source(
    "elbencho-live",
    "elbencho's live statistics",
    "",
    lambda beginning: "Phase,RuntimeMS,Rank,MixType" in beginning[:400],
    instead="give the file of --csvfile, which has the results",
)
