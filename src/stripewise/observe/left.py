"""Which files a run leaves in its folder: the runtime's reports, and the parts of the observer."""

from __future__ import annotations

from pathlib import Path

PREFIX = "process-"
"""How the names of parts begin, in the folder of a run."""
_PLACES, _REQUESTS, _CALLS = ".where", ".requests", ".calls"


PYTHON_PREFIX = "python-"
"""The same of the parts that processes of Python leave."""


def reports_of(report: Path) -> list[Path]:
    """The reports of all MPI programs of a command, in the order in which they ended; the first is ``report``."""
    numbered = {1: report} if report.exists() else {}
    for path in report.parent.glob(f"{report.name}.*"):
        if (number := path.name.rpartition(".")[2]).isdigit():
            numbered[int(number)] = path
    return [path for _, path in sorted(numbered.items())]


def parts_in(folder: Path) -> list[Path]:
    """The parts that processes left in the folder of a run."""
    return sorted(path for path in folder.glob(f"{PREFIX}*-*") if path.suffix not in (_PLACES, _REQUESTS, _CALLS))


def places_in(folder: Path) -> list[Path]:
    """What processes left there of the places in their code."""
    return sorted(folder.glob(f"{PREFIX}*-*{_PLACES}"))


def requests_in(folder: Path) -> list[Path]:
    """What processes left there of their single reads and writes."""
    return sorted(folder.glob(f"{PREFIX}*-*{_REQUESTS}"))


def calls_in(folder: Path) -> list[Path]:
    """What threads left there of their calls, for a record."""
    return sorted(folder.glob(f"{PREFIX}*-*{_CALLS}"))


def python_parts_in(folder: Path) -> list[Path]:
    """The parts that processes of Python left there."""
    return sorted(folder.glob(f"{PYTHON_PREFIX}*-*"))
