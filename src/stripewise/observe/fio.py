"""JSON of the benchmark fio, versions 2 and 3, of one machine or of several, whatever it printed before."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stripewise.errors import UserError
from stripewise.observe.activity import Activity
from stripewise.observe.benchmark import BenchmarkRow, BenchmarkRun, activities_of, rows_of
from stripewise.observe.source import Measured, Source, read_text
from stripewise.sizes import parse_size

_DOCUMENT = re.compile(r'\{\s*"fio version"\s*:\s*"fio-')
_POSIX = ("sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap", "splice")
"""Engines that make calls of the system on files."""
_MIB = 2**20
_ALL = "All clients"


def is_fio(beginning: str) -> bool:
    """Whether a text begins as JSON of fio, whatever fio printed before it."""
    return _DOCUMENT.search(beginning) is not None


def parse_fio(text: str, origin: str = "the output") -> tuple[list[BenchmarkRun], list[str]]:
    """Read JSON of fio; several documents may follow one another.

    Returns
    -------
    tuple of (list of BenchmarkRun, list of str)
        One run for each job, and what was left out, one sentence each.

    Raises
    ------
    UserError
        If it was cut off, or no job moved data.
    """
    runs: list[BenchmarkRun] = []
    notes: list[str] = []
    for match in _DOCUMENT.finditer(text):
        try:
            document, _ = json.JSONDecoder().raw_decode(text, match.start())
        except (ValueError, RecursionError) as error:
            raise UserError(f"{origin}: fio's JSON, which is cut off or damaged: {error}", "run fio again") from error
        runs += _runs(document, notes)
    if not runs:
        raise UserError(
            f"{origin}: fio's JSON without a job that read or wrote", notes[0] if notes else "did the jobs fail?"
        )
    return runs, notes


def _runs(document: Mapping[str, Any], notes: list[str]) -> Iterator[BenchmarkRun]:
    version = str(document.get("fio version", "")).removeprefix("fio-")
    common = _options(document.get("global options"))
    jobs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for job in [*_objects(document.get("jobs")), *_objects(document.get("client_stats"))]:
        if job.get("jobname") != _ALL:
            jobs.setdefault((str(job.get("groupid")), str(job.get("jobname"))), []).append(job)
    for (_, name), clones in jobs.items():
        options = {**common, **_options(clones[0].get("job options"))}
        rows = [row for way in ("write", "read") if (row := _row(clones, way)) is not None]
        if any(job.get("error") for job in clones):
            notes.append(f"job {name} ended with error {next(job['error'] for job in clones if job.get('error'))}")
        if any(_count(job.get("mixed", {}).get("io_bytes")) for job in clones if isinstance(job.get("mixed"), dict)):
            notes.append(f"job {name} adds reads and writes up (unified_rw_reporting), so its rates are of neither")
        if rows:
            yield _run(version, name, clones, options, rows)


def _run(
    version: str,
    name: str,
    clones: Sequence[Mapping[str, Any]],
    options: Mapping[str, str],
    rows: Sequence[BenchmarkRow],
) -> BenchmarkRun:
    hosts = {str(job["hostname"]) for job in clones if "hostname" in job}
    number = int(options["numjobs"]) if options.get("numjobs", "").isdigit() else 1
    # With group_reporting one entry stands for all processes of a job; of several clients, for those of one.
    together = "group_reporting" in options and options["group_reporting"] != "0"
    tasks = number * len(clones) if together or (hosts and len(clones) == len(hosts)) else len(clones)
    engine = options.get("ioengine", "").partition(":")[0]
    moved, calls = sum(row.moved or 0 for row in rows), sum(row.calls or 0 for row in rows)
    order = options.get("rw", options.get("readwrite", "read"))
    depth = options.get("iodepth", "1")
    return BenchmarkRun(
        version=version,
        command=f"fio {name}",
        api="posix" if engine in ("", *_POSIX) else engine,
        path=options.get("filename"),
        nodes=len(hosts) or 1,
        tasks=tasks,
        transfer=_transfer(options, moved, calls),
        layout="random" if "rand" in order else "segmented",
        collective=False,
        file_per_process="filename" not in options or tasks == 1,
        rows=tuple(rows),
        apart=True,
        more={
            "io_engine": engine or None,
            "io_depth": int(depth) if depth.isdigit() else None,
            "direct": options.get("direct", "0") not in ("0", ""),
        },
    )


def _row(clones: Sequence[Mapping[str, Any]], way: str) -> BenchmarkRow | None:
    """Add up what the processes of a job did at the same time; None where they moved nothing."""
    parts = [job[way] for job in clones if isinstance(job.get(way), dict)]
    # Before version 3, io_bytes counted KiB.
    moved = sum(_count(part.get("io_bytes")) * (1 if "io_kbytes" in part else 1024) for part in parts)
    seconds = max((_count(part.get("runtime")) for part in parts), default=0) / 1000
    if not moved or not seconds:
        return None
    calls = sum(_count(part.get("total_ios")) for part in parts)
    return BenchmarkRow(way, moved / _MIB / seconds, moved, total=seconds, calls=calls or None)


def _transfer(options: Mapping[str, str], moved: int, calls: int) -> int | None:
    """The size of a call as asked for, where the job's figures agree; else the mean."""
    mean = round(moved / calls) if calls else None
    asked = options.get("bs", options.get("blocksize", "")).partition(",")[0]
    try:
        size = parse_size(asked)
    except UserError:
        return mean
    return size if mean is None or abs(mean - size) <= 0.02 * size else mean


def _options(given: Any) -> dict[str, str]:
    if isinstance(given, list):
        given = given[0] if given else {}
    return {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}


def _objects(given: Any) -> list[dict[str, Any]]:
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**63 else 0


def _read(path: Path) -> list[Activity]:
    runs, _ = parse_fio(read_text(path), str(path))
    return activities_of(runs, str(path), "fio", "fio")


def _measure(path: Path) -> Measured:
    runs, notes = parse_fio(read_text(path), str(path))
    return Measured(rows_of(runs), "fio", notes)


_TEXT = re.compile(r"^(?:fio-[0-9][^\n]{0,40}\nStarting [0-9]|.{1,200}: \(g=[0-9]{1,6}\): rw=)", re.MULTILINE)
_CURE = "run fio with --output-format=json, and give what it writes then"

SOURCE = Source("fio", "fio's JSON", "JSON of fio", is_fio, _read, _measure)
TEXT = Source(
    "fio-text",
    "fio's output for people",
    "",
    lambda beginning: ("fio-" in beginning or "rw=" in beginning) and bool(_TEXT.search(beginning)),
    instead=_CURE,
)
"""Recognised to say what it is: its figures are rounded, and it does not name all options."""
