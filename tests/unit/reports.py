"""Recorded reports, and small changes to them."""

from __future__ import annotations

import copy
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from stripewise.observe.activity import Activity
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import Report, parse_report

FOLDER = Path(__file__).parent.parent / "fixtures" / "reports"


def _find_package(name: str) -> Path:
    """Where a package lies, without its import: PyDarshan loads pandas."""
    spec = importlib.util.find_spec(name)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


PYDARSHAN = _find_package("darshan")
EXAMPLE_LOGS = PYDARSHAN / "examples" / "example_logs"


def recorded(name: str) -> dict[str, dict[str, Any]]:
    """All reports of a file, by the settings of their plans."""
    return json.loads((FOLDER / f"{name}.json").read_text("utf-8"))


def report(name: str, key: str = "default") -> Report:
    """One recorded report, parsed."""
    return parse_report(recorded(name)[key])


def activity(data: dict[str, Any]) -> Activity:
    """What a program did, by a report as JSON."""
    return activity_of(parse_report(data), "report.json")


def changed(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the field at a dotted path replaced."""
    result = copy.deepcopy(data)
    *parents, last = path.split(".")
    place: Any = result
    for part in parents:
        place = place[int(part)] if isinstance(place, list) else place[part]
    place[last] = value
    return result


def example_log(name: str = "ior_hdf5_example.darshan") -> Path:
    """A log that PyDarshan brings."""
    path = EXAMPLE_LOGS / name
    if not path.exists():
        pytest.skip("this PyDarshan comes without example logs")
    return path
