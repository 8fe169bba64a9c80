"""A report as JSON, as it is made of what processes left: without its schema, which is slow to load after a run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from stripewise.errors import UserError
from stripewise.formats import REPORT_FORMAT, REPORT_VERSION

MATTERS = 0.01
"""Share of the bytes below which files do not count for a bandwidth."""


def report_of_processes(
    job: Mapping[str, Any], totals: Mapping[str, Any], files: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Give a report of processes that were observed without the runtime, of whose MPI nothing is known."""
    return {
        "format": REPORT_FORMAT,
        "version": REPORT_VERSION,
        "runtime": {"version": "", "mode": "observe", "plan": None, "plan_id": None, "plan_error": None},
        "mpi": {"library": "", "abi": "", "io": "unknown"},
        "job": {**job, "interface": "posix"},
        "totals": totals,
        "files": files,
    }


def is_program(program: str, executable: str, script: str = "") -> bool:
    """Whether a process ran the program that the user named: by the executable's path or name, or by its script."""
    return program in (executable, PurePath(executable).name, *([script] if script else []))


def no_program(program: str, started: Sequence[str]) -> UserError:
    """Give the error for a program that a command did not start."""
    names = ", ".join(dict.fromkeys(PurePath(executable).name for executable in started))
    return UserError(f"no program of the command is called {program}: it started {names}")


def over_all(rates: Sequence[tuple[int, float | None]]) -> float | None:
    """The rate at which amounts pass one after another, each at its own."""
    known = [(amount, rate) for amount, rate in rates if amount and rate]
    return sum(amount for amount, _ in known) / sum(amount / rate for amount, rate in known) if known else None


def read_plain(path: Path) -> dict[str, Any] | None:
    """Read a report that is there already; empty if it is damaged, of which its readers tell; None if there is none.

    What :mod:`stripewise.observe.processes` adds to is checked, the rest is not.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError:  # whoever writes it will be told
        return None
    except (ValueError, RecursionError):
        return {}
    return found if _can_be_added_to(found) else {}


def _can_be_added_to(found: Any) -> bool:
    if not isinstance(found, dict) or (found.get("format"), found.get("version")) != (REPORT_FORMAT, REPORT_VERSION):
        return False
    job, totals, processes = found.get("job"), found.get("totals"), found.get("processes", [])
    if not isinstance(job, dict) or not isinstance(totals, dict) or not isinstance(processes, list):
        return False
    numbers = [*totals.values(), *(job.get(name) for name in ("start", "elapsed", "io_time"))]
    return all(one is None or isinstance(one, int | float) for one in numbers) and all(
        isinstance(one, dict) and {"host", "pid", "start"} <= one.keys() for one in processes
    )
