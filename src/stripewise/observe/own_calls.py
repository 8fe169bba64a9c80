"""What a program with MPI did itself, beside MPI-IO: added to the reports that the runtime left of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stripewise.observe.plain_report import over_all
from stripewise.observe.process_part import Process, decode_field

_DIRECTIONS = (("read", "bytes_read"), ("write", "bytes_written"))
_SLACK = 0.05
"""Seconds by which the clocks of two nodes may differ."""


def shared_out(processes: Sequence[Process], reports: Sequence[Mapping[str, Any]], named: bool) -> list[list[Process]]:
    """Give each report the processes of its program.

    A process belongs to the program that it runs, or else to that of its parent.

    Parameters
    ----------
    processes : sequence of Process
    reports : sequence of mapping
        As JSON.
    named : bool
        Whether the user named one of the programs. Otherwise what belongs to none of them counts with the first.
    """
    owners: dict[tuple[str, int], int | None] = {}
    found: list[list[Process]] = [[] for _ in reports]
    for process in sorted(processes, key=lambda process: process.start):
        host = decode_field(process.data["host"])
        owner = _owner(process, reports)
        if owner is None:
            owner = owners.get((host, int(process.data["parent"])))
        owners[host, int(process.data["pid"])] = owner
        if reports and (owner is not None or not named):
            found[owner or 0].append(process)
    return found


def _owner(process: Process, reports: Sequence[Mapping[str, Any]]) -> int | None:
    """Find the report of the program that a process runs: the next one that began while it was there."""
    jobs = [(at, report.get("job", {})) for at, report in enumerate(reports)]
    own = [
        (float(job.get("start") or 0), float(job.get("elapsed") or 0), at)
        for at, job in jobs
        if job.get("executable") == process.executable
    ]
    if not own:
        return None
    began = [at for start, _, at in sorted(own) if process.start - _SLACK <= start <= process.end + _SLACK]
    within = [at for start, elapsed, at in own if start <= process.start <= start + elapsed]
    return (began or within or [own[0][2]])[0]


def add_own_calls(report: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Give a report of the runtime with what the processes of its program did themselves.

    Parameters
    ----------
    report : mapping
        Of the runtime, as JSON: what went through MPI-IO.
    own : mapping
        As a report of a program without MPI. Its bandwidths leave out files that do not matter beside MPI-IO's.
    """
    before, added = report["totals"], own["totals"]
    totals = dict(before)
    for way, moved in _DIRECTIONS:
        through, rate = before.get(moved, 0), f"{way}_bandwidth"
        totals[moved] = through + added[moved]
        totals[rate] = over_all([(through, before.get(rate)), (added[moved], added[rate])])
        spent = before.get(f"{way}_time")
        totals[f"{way}_time"] = None if spent is None else spent + added[f"{way}_time"]
    # The slowest rank in MPI-IO may be another one than that in own calls: the sum is the most that one rank spent.
    job = {**report["job"], "io_time": report["job"].get("io_time", 0.0) + own["job"]["io_time"]}
    return {**report, "job": job, "totals": totals, "posix_files": own["files"], "processes": own["processes"]}
