"""What the runtime would have reported of a simulated run: who calls what, by the rules of the simulated MPI library.

The report has the form of ``native/include/formats.toml`` and calls itself simulated. So effects are judged as
for real runs: a setting that the library ignores leaves the system calls as they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stripewise import __version__
from stripewise.catalogue.carriers import HINT, Setting
from stripewise.catalogue.filesystems import find_file_system
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.workload import Workload
from stripewise.formats import REPORT_FORMAT, REPORT_VERSION
from stripewise.lab.batch import RunBatch
from stripewise.lab.engine import SimulatedOutcome
from stripewise.lab.layout import pieces, striping
from stripewise.lab.romio import choose_way
from stripewise.lab.site import Site
from stripewise.observe.report import Report

_MIB = float(1 << 20)
_MOST_FILES = 20
_NO_LAYOUT = "the simulated site has no {}"


def simulated_report(
    site: Site,
    workload: Workload,
    plan: Plan,
    batches: Mapping[str, RunBatch],
    phases: Mapping[str, SimulatedOutcome],
    started: float,
) -> Report | None:
    """Write the report of a run; None for POSIX I/O, which the runtime does not see.

    Parameters
    ----------
    site : Site
    workload : Workload
    plan : Plan
    batches : mapping
        Direction to what was simulated, one row.
    phases : mapping
        Direction to what its row came to, noise included.
    started : float
        Simulated seconds.
    """
    if workload.api == "posix":
        return None
    seconds = {direction: float(phase.seconds[0]) for direction, phase in phases.items()}
    data = {direction: float(phase.data_seconds[0]) for direction, phase in phases.items()}
    moved = {direction: int(phase.bytes[0]) for direction, phase in phases.items()}
    whole, ranks, nodes = sum(seconds.values()), workload.processes or 1, workload.nodes or 1
    bandwidth = {direction: moved[direction] / _MIB / seconds[direction] for direction in phases}
    files = _files(site, workload, plan, batches, phases, data, seconds)
    return Report.model_validate(
        {
            "format": REPORT_FORMAT,
            "version": REPORT_VERSION,
            "simulated": True,
            "runtime": {
                "version": __version__,
                "mode": "apply" if plan.settings else "observe",
                "plan_id": plan.identifier or None,
            },
            "mpi": {
                "library": f"simulated {site.mpi.io.upper()} on {site.name}",
                "abi": "openmpi" if site.mpi.io == "ompio" else "mpich",
                "io": site.mpi.io,
            },
            "job": {
                "executable": "(simulated)",
                "ranks": ranks,
                "nodes": nodes,
                "start": started,
                "elapsed": whole,
                "io_time": whole,
                "complete": True,
                "ranks_reported": ranks,
            },
            "totals": {
                "bytes_read": moved.get("read", 0),
                "bytes_written": moved.get("write", 0),
                "read_bandwidth": bandwidth.get("read"),
                "write_bandwidth": bandwidth.get("write"),
            },
            "files": files,
            "files_left_out": ranks - len(files) if workload.file_per_process and ranks > 1 else 0,
        }
    )


def _files(
    site: Site,
    workload: Workload,
    plan: Plan,
    batches: Mapping[str, RunBatch],
    phases: Mapping[str, SimulatedOutcome],
    data: Mapping[str, float],
    seconds: Mapping[str, float],
) -> list[dict[str, Any]]:
    """One entry a file; of a file each for many processes the first stand for all, as in a store."""
    ranks = workload.processes or 1
    each = workload.file_per_process and ranks > 1
    made = {direction: system_calls(site, batch) for direction, batch in batches.items()}
    count = ranks if each else 1
    operations: dict[str, Any] = {}
    mode = "collective" if workload.collective else "independent"
    for direction, batch in batches.items():
        parts = pieces(batch)
        size = int(min(float(batch.transfer_size[0]), float(parts.moved[0]) / ranks))
        calls = max(1, round(float(parts.moved[0]) / ranks / size)) * ranks // count
        operations[f"{direction}_at{'_all' if workload.collective else ''}"] = {
            "count": calls,
            "bytes": calls * size,
            "time_max": data[direction],
            "time_sum": data[direction] * ranks / count,
            "min_size": size,
            "max_size": size,
        }
    total = sum(entry["bytes"] for entry in operations.values())
    calls = sum(entry["count"] for entry in operations.values())
    spans = {direction: seconds[direction] for direction in phases}
    outcome = next(iter(phases.values()))
    driver = site.mpi.file_driver if site.mpi.io == "ompio" else f"{site.mpi.file_driver} simulated"
    entry: dict[str, Any] = {
        "opens": len(phases),
        "ranks": 1 if each else ranks,
        "nodes": 1 if each else workload.nodes or 1,
        "driver": driver,
        "file_system": workload.file_system,
        "size": workload.file_size,
        "span": sum(spans.values()),
        "write_span": spans.get("write"),
        "read_span": spans.get("read"),
        "operations": operations,
        mode: {"calls": calls, "bytes": total},
        "view": _view(next(iter(batches.values()))),
        "posix": _posix(made, mode, count),
        "layout": _layout(site, outcome),
        "info": {"romio_filesystem_type": driver},
        "settings": [_setting(site, workload, setting) for setting in plan.settings if setting.carrier.reported],
    }
    names = [f"/simulated/{site.name}/data.{number}" for number in range(min(count, _MOST_FILES))]
    return [{"path": name if each else f"/simulated/{site.name}/data", **entry} for name in names]


def _view(batch: RunBatch) -> dict[str, Any] | None:
    parts = pieces(batch)
    return {"filetype_size": int(parts.size[0]), "contiguous": False} if float(parts.a_call[0]) > 1 else None


def _posix(made: Mapping[str, SystemCalls], mode: str, files: int) -> dict[str, Any]:
    """System calls of each direction, all of them during calls of one mode."""
    found: dict[str, Any] = {}
    for direction, calls in made.items():
        ranks = 1 if files > 1 else calls.ranks
        count = max(1, calls.count // files)
        share = {"count": count, "bytes": calls.bytes // files, "ranks": ranks, "max_size": calls.size}
        found.setdefault(direction, {}).update(share, min_size=calls.size, sizes=[[calls.size, count]])
        found[direction][f"during_{mode}"] = share
        if direction == "write" and (first := calls.read_first // files):
            read = {"count": first, "bytes": first * calls.size, "ranks": ranks, "max_size": calls.size}
            found.setdefault("read", {})["during_write"] = read
    return found


def _layout(site: Site, outcome: SimulatedOutcome) -> dict[str, Any] | None:
    system = site.mpi.file_system
    if not system.keys:
        return None
    return {
        "file_system": system.name,
        "stripe_count": int(outcome.stripe_count[0]),
        "stripe_size": int(outcome.stripe_size[0]),
    }


def _setting(site: Site, workload: Workload, setting: Setting) -> dict[str, Any]:
    """What became of one setting: passed on, or not applicable. Hints are echoed, as MPI libraries do."""
    carrier, note, outcome = setting.carrier, "", "applied"
    if carrier.of_file_system:
        if (
            find_file_system(setting.layer) is not site.mpi.file_system
            or find_file_system(setting.layer).key(setting.key) is None
        ):
            outcome, note = "not_applicable", _NO_LAYOUT.format(setting.layer)
        elif workload.operation == "read":
            outcome, note = "not_applicable", "the file is there already"
    elif carrier.apis and (workload.api or "mpiio") not in carrier.apis:
        outcome, note = "not_applicable", f"the simulated program does no I/O through {carrier.apis[0]}"
    told = setting.value if carrier.verb == HINT.verb and outcome == "applied" else None
    return {
        "layer": carrier.verb,
        "key": setting.name,
        "requested": setting.value,
        "given": told,
        "echoed": told,
        "outcome": outcome,
        "note": note,
    }


@dataclass(frozen=True)
class SystemCalls:
    """System calls of one direction, over all processes and files.

    Attributes
    ----------
    count, bytes, size : int
        Calls, bytes that they moved, and bytes of the largest.
    ranks : int
        Processes that made them.
    read_first : int
        Reads inside write calls (read-modify-write).
    """

    count: int
    bytes: int
    size: int
    ranks: int
    read_first: int


def system_calls(site: Site, batch: RunBatch) -> SystemCalls:
    """Count the system calls of a batch of one row, by the way that the site's MPI library takes."""
    stripes, parts = striping(site, batch), pieces(batch)
    taken = choose_way(site, batch, stripes, parts)

    def of(values: np.ndarray[Any, Any]) -> float:
        return float(values[0])

    write, processes, moved = bool(batch.write[0]), int(of(batch.processes)), of(parts.moved)
    if bool(taken.aggregated[0]):
        # Holes are filled by reading the buffer first, unless ds_in_coll is off: then pieces are written one by one.
        holes = of(parts.span) > 1
        filled = not write or not holes or bool(batch.ds_in_coll[0])
        amount = of(batch.bytes) * (of(parts.span) if filled else 1.0)
        size = of(taken.buffer) if filled else min(of(parts.size), of(taken.buffer))
        count = max(1, round(np.ceil(amount / size)))
        return SystemCalls(
            count, int(amount), int(size), int(of(taken.aggregators)), count if write and holes and filled else 0
        )
    if bool(taken.sieved[0]):
        stride = of(parts.size) + of(parts.hole)
        span = of(parts.a_call) * stride - of(parts.hole)
        size = min(of(taken.sieve_buffer), span)
        each = np.ceil(span / size) * np.ceil(of(parts.calls))
        amount = span * np.ceil(of(parts.calls)) * processes
        return SystemCalls(int(each * processes), int(amount), int(size), processes, int(each * processes) * write)
    several = of(parts.a_call) > 1
    size = of(parts.size) if several else min(of(batch.transfer_size), moved / processes)
    return SystemCalls(max(processes, round(moved / size)), int(moved), int(size), processes, 0)
