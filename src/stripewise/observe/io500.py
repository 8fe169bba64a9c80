"""Files of IO500: the list of its phases with their rates, in both forms, and its configuration.

Outputs of the phases themselves are IOR's and mdtest's, and say more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from stripewise.errors import UserError
from stripewise.observe import benchmark, ior, mdtest
from stripewise.observe.benchmark import BenchmarkRow
from stripewise.observe.source import Measured, Row, Source, read_text

_LINE = re.compile(
    r"\[RESULT\]\s+(?:(?:BW|IOPS)\s+phase\s+\d{1,3}\s+)?([A-Za-z][\w-]{2,40})\s+([0-9.]{1,30})\s+"
    r"(GiB/s|GB/s|kIOPS|kiops)\s*:\s*time\s+([0-9.]{1,30})\s+seconds"
)
_SECTION = re.compile(r"^\[([A-Za-z][\w-]{1,40})\][ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"^([\w-]{1,40})[ \t]*=[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_PHASES = re.compile(r"ior-(?:easy|hard)-write|mdtest-(?:easy|hard)-write")
_CONFIGURED = re.compile(r"^[ \t]*datadir[ \t]*=", re.MULTILINE)
_INVALID = re.compile(r"^\[SCORE ?X\]|^\[SCORE.*\[INVALID\]|^SCOREX?-?invalid|^; INVALID", re.MULTILINE | re.IGNORECASE)
_OPERATIONS = {"write": "file creation", "stat": "file stat", "read": "file read", "delete": "file removal"}
_GIB = 1024
"""MiB/s of one GiB/s. The first versions wrote GB/s for it."""
_CURE = "give the outputs of its phases, as ior-easy-write.txt; site table import makes a table of the list"


def holds_summary(beginning: str) -> bool:
    """Whether a text begins as the list of results that IO500 prints, in ``result_summary.txt`` or a job's output."""
    return "[RESULT]" in beginning and _LINE.search(beginning) is not None


def holds_result(beginning: str) -> bool:
    """Whether a text begins as ``result.txt``, which has the command of each phase."""
    begun = re.search(r"^config-hash[ \t]*=", beginning, re.MULTILINE)
    return begun is not None and any(_PHASES.fullmatch(name) for name in _SECTION.findall(beginning))


def holds_configuration(beginning: str) -> bool:
    """Whether a text begins as a configuration of IO500."""
    if "[global]" not in beginning:
        return False
    sections = set(_SECTION.findall(beginning))
    return "global" in sections and "ior-easy" in sections and _CONFIGURED.search(beginning) is not None


def rows_of_summary(text: str) -> list[Row]:
    """Give a row for each phase that has a rate."""
    rows = []
    for name, figure, unit, _ in _LINE.findall(text):
        phase = name.lower().replace("_", "-")
        value = float(figure) if figure.count(".") < 2 else math.nan
        if not value > 0:
            continue
        if unit.lower() == "kiops":
            rows.append({"phase": phase, "metadata_operation": _operation(phase), "rate": value * 1000})
        else:
            rows.append({"phase": phase, "operation": phase.rpartition("-")[2], "bandwidth": value * _GIB})
    return rows


def rows_of_result(text: str) -> list[Row]:
    """Give a row for each phase that has a score, with what its command asked for."""
    rows: list[Row] = []
    processes: int | None = None
    for phase, entries in _sections(text):
        if phase == "run":
            processes = int(entries["procs"]) if entries.get("procs", "").isdigit() else None
        score, command = _number(entries.get("score", "")), entries.get("exe", "")
        if not score:
            continue
        way = phase.rpartition("-")[2]
        if phase.startswith("ior-") and way in ("write", "read"):
            run = ior.run_of_command(command, processes)
            # What a phase moved was limited by its time, which the command does not tell.
            found = replace(run, rows=(BenchmarkRow(way, score * _GIB),))
            rows += [{"phase": phase, **row} for row in benchmark.rows_of([found])]
        elif phase.startswith("mdtest-"):
            asked = mdtest.run_of_command(command, processes or 0, {_operation(phase): score * 1000})
            rows += [{"phase": phase, **row, "nodes": None, "processes": processes} for row in mdtest.rows_of([asked])]
        elif not phase.startswith(("timestamp", "SCORE")):
            rows.append(
                {
                    "phase": phase,
                    "metadata_operation": _operation(phase),
                    "processes": _count(entries.get("nproc", "")) or processes,
                    "rate": score * 1000,
                }
            )
    return rows


def _operation(phase: str) -> str:
    return _OPERATIONS.get(phase.rpartition("-")[2], phase) if phase.startswith("mdtest-") else phase


def _sections(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    parts = _SECTION.split(text)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        yield name, dict(_ENTRY.findall(body))


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _count(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def _measure(path: Path, rows_of: Callable[[str], list[Row]]) -> Measured:
    text = read_text(path)
    rows = rows_of(text)
    if not rows:
        raise UserError(f"{path}: IO500's list of results without a rate", "did its phases fail?")
    notes = ["IO500 calls this run invalid"] if _INVALID.search(text) else []
    return Measured(rows, "IO500", notes)


def _has_phases(path: Path) -> bool:
    """Whether outputs of the phases lie beside a list, which say the same and more."""
    return any((path.parent / f"ior{mark}easy{mark}write.txt").is_file() for mark in "-_")


SOURCES = (
    Source(
        "io500",
        "IO500's list of results",
        "results of IO500",
        holds_result,
        measured=lambda path: _measure(path, rows_of_result),
        instead=_CURE,
        lists=True,
        repeats=_has_phases,
    ),
    Source(
        "io500-summary",
        "IO500's list of results",
        "",
        holds_summary,
        measured=lambda path: _measure(path, rows_of_summary),
        instead=_CURE,
        lists=True,
        repeats=lambda path: _has_phases(path) or (path.parent / "result.txt").is_file(),
    ),
    Source(
        "io500-configuration",
        "IO500's configuration",
        "",
        holds_configuration,
        instead="it says what to run and has no result: give result.txt, or the outputs of the phases",
    ),
)
