"""The schema of the exchanged formats, for tests: what is wrong with a report by it."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_PLAIN = {"integer": int, "number": (int, float), "text": str, "boolean": bool}


def generator() -> ModuleType:
    """Load ``native/formats.py``, which belongs to no package."""
    if "native_formats" not in sys.modules:
        spec = importlib.util.spec_from_file_location("native_formats", ROOT / "native" / "formats.py")
        assert spec is not None and spec.loader is not None
        sys.modules["native_formats"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["native_formats"]


@cache
def objects() -> dict[str, dict[str, Any]]:
    """The objects of a report with their keys."""
    found: dict[str, dict[str, Any]] = generator()._objects(generator().read_schema())
    return found


def faults(value: Any, kind: str = "report", where: str = "report") -> list[str]:
    """Say where a report departs from the schema: keys that it does not know, lacks, or that have another type."""
    if kind.endswith("?"):
        return [] if value is None else faults(value, kind[:-1], where)
    if kind[0] == "[":
        entries = enumerate(value) if isinstance(value, list) else [(0, value)]
        return [fault for place, entry in entries for fault in faults(entry, kind[1:-1], f"{where}[{place}]")]
    if kind[0] == "{":
        return [fault for name, entry in value.items() for fault in faults(entry, kind[1:-1], f"{where}.{name}")]
    if kind in _PLAIN:
        wrong = not isinstance(value, _PLAIN[kind]) or (kind != "boolean" and isinstance(value, bool))
        return [f"{where} is {value!r}, not of type {kind}"] if wrong else []
    keys = objects()[kind]
    found = [f"{where}.{key} is not in the schema" for key in value if key not in keys]
    found += [f"{where}.{key} is missing" for key, e in keys.items() if key not in value and not e.get("optional")]
    for key, entry in keys.items():
        found += faults(value[key], entry["type"], f"{where}.{key}") if key in value else []
    return found
