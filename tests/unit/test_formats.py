"""One schema defines what C and Python exchange: generated files are up to date, each key is written and read."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from stripewise.catalogue import carriers
from stripewise.formats import CARRIERS, FILE_SYSTEMS
from stripewise.observe import report
from stripewise.observe import report as report_file
from tests.formats import ROOT, faults, generator, objects

MODELS: dict[str, type[BaseModel]] = {
    "report": report.Report,
    "learned": report.Learned,
    "candidate": report.Candidate,
    "program": report.ReportedProgram,
    "process": report.ReportedProcess,
    "metadata": report.PathCalls,
    "runtime": report.Runtime,
    "mpi": report.ReportedMpi,
    "job": report.ReportedJob,
    "totals": report.ReportedTotals,
    "object": report_file.ReportedObject,
    "loader": report_file.ReportedLoader,
    "file": report_file.FileReport,
    "place": report_file.Place,
    "operation": report_file.Operation,
    "mode": report_file.Mode,
    "view": report_file.View,
    "patterns": report_file.Patterns,
    "pattern": report_file.Pattern,
    "posix_calls": report_file.PosixCalls,
    "posix": report_file.Posix,
    "share": report_file.Share,
    "setting": report_file.SettingOutcome,
    "hdf5": report_file.Hdf5Report,
    "hdf5_operation": report_file.Hdf5Calls,
    "dataset": report_file.Dataset,
    "transfers": report_file.Transfers,
}
WITHOUT_MODEL = {"layout", "decision"}
"""Read as mappings: layouts differ by file system, and only people read decisions."""


@pytest.mark.parametrize("path", generator().outputs(), ids=lambda path: path.name)
def test_generated_files_are_up_to_date(path: Path) -> None:
    assert path.read_text("utf-8") == generator().outputs()[path], "run make formats"


def test_reader_and_schema_name_the_same_keys() -> None:
    assert set(MODELS) | WITHOUT_MODEL == set(objects())
    for name, model in MODELS.items():
        keys = objects()[name]
        assert set(model.model_fields) <= set(keys), name
        unread = set(keys) - set(model.model_fields)
        assert {key for key in unread if not keys[key].get("people")} == set(), name


def test_plans_know_each_carrier_by_its_word() -> None:
    assert {*carriers.verbs(), "advice"} == set(CARRIERS)


def unread(keys: set[str]) -> set[str]:
    """Those that no code of Stripewise looks at as an attribute or key, the reader's own declarations aside."""
    left = set(keys)
    for path in sorted((ROOT / "src" / "stripewise").rglob("*.py")):
        text = path.read_text("utf-8")
        # Parsing takes a hundred times as long.
        if not left.intersection(re.findall(r"\w+", text)):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                left.discard(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                left.discard(node.value)
    return left


@pytest.mark.slow
def test_each_key_of_a_report_is_read_or_meant_for_people() -> None:
    keys = {key for entries in objects().values() for key, entry in entries.items() if not entry.get("people")}
    assert unread(keys) == set()


def native(pattern: str) -> set[str]:
    return {found for path in (ROOT / "native" / "core").glob("*.c") for found in re.findall(pattern, path.read_text())}


def test_the_runtime_writes_each_key_and_no_other() -> None:
    written = native(r"sw_key\.(\w+)") | native(r"\b(?:COUNT|TIME|TEXT)\(\w+, (\w+)\)[,;]")
    by_file_system = {key for keys in FILE_SYSTEMS.values() for key in keys}
    # Python merges what processes without MPI leave, and sums up.
    by_python = {"simulated", "files_left_out", "programs", "processes", "interface", "acted", "missed"}
    by_python |= {"posix_files", "script", "whole_readers", "whole_read", "places", "direction", "lines"}
    by_python |= {"objects", "loaders"}
    of_python = ("process", "metadata", "object", "loader")
    keys = {key for name, entries in objects().items() if name not in of_python for key in entries}
    keys -= by_python
    assert keys - by_file_system <= written
    assert written <= keys


def test_journals_have_the_keys_of_the_schema() -> None:
    source = (ROOT / "src" / "stripewise" / "observe" / "journal.py").read_text()
    assert set(re.findall(r'fields(?:\[|\.get\()"(\w+)"', source)) == set(generator().read_schema()["journal"])


def test_layouts_of_the_runtime_have_the_keys_of_the_schema() -> None:
    for name, keys in FILE_SYSTEMS.items():
        source = (ROOT / "native" / "core" / f"layout_{name}.c").read_text()
        table = source[source.index(f"struct sw_file_system sw_{name} = ") :]
        assert tuple(key.lower() for key in re.findall(r"SW_KEY_(\w+)", table)) == keys


def test_faults_are_found() -> None:
    totals: dict[str, Any] = {"bytes_read": 1, "bytes_written": 2.5, "read_bandwidth": None, "more": 1}
    assert faults(totals, "totals", "t") == [
        "t.more is not in the schema",
        "t.write_bandwidth is missing",
        "t.bytes_written is 2.5, not of type integer",
    ]
