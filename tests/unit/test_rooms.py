"""Each question has one home (docs/explanation/how-it-works.md): no tell-tale of a second one is found."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "stripewise"

TELL_TALES = [
    ("catalogue", r"\bparse_stack\("),
    ("catalogue", r"^class \w+\((?:Carrier|FileSystem)\)"),
    ("catalogue", r"\.since\b|\bparameter\.until\b"),
    ("catalogue", r"\bio_component\b"),
    ("catalogue", r"driver\b[^\n]*\.startswith\("),
    ("catalogue", r"\.(?:active_if|same_as_default)\("),
    ("catalogue", r"findall\(r\"\\d\+\","),
    ("catalogue", r"\bhint_fns\b|\batoi\b|\bstrtou?ll?\b|in \(\"true\", \"1\""),
    ("observe", r"^(?:import|from) darshan\b"),
    ("observe", r"\bActivity\("),
    ("observe", r"\bFileReport\b"),
    ("observe", r"^class \w+\((?:ObjectiveKind|Reported)\)"),
    ("search", r"^class \w+\(Sampler\)"),
    ("runners", r"^class \w+\((?:Runner|Scheduler)\)"),
    ("engine", r"sampler\.ask\("),
    ("models", r"^\s*(?:import|from) (?:lightgbm|torch)\b"),
    ("models", r"\bPrescription\("),
    ("diagnose", r"(?<!\w)Finding\(|^@rule\("),
    ("store", r"\bcreate_engine\(|\bsqlite3\.connect\("),
    ("output", r"^\s*(?:import|from) plotly\b|\bgo\.Figure\("),
    ("desk", r"^\s*(?:import|from) (?:fastapi|starlette|typer|uvicorn|mcp)\b"),
]
"""The home of a question, and what code that answers it contains."""

ELSEWHERE = {
    # A parameter is built again with the facts of its stack.
    r"\bio_component\b": {"requests/experiment.py"},
    # The version of PyTorch, which no stack has.
    r"findall\(r\"\\d\+\",": {"models/ann.py"},
    # To be drawn by `output`, once they ask it.
    r"^\s*(?:import|from) plotly\b|\bgo\.Figure\(": {"api.py"},
    # Asks on behalf of a Python program that runs what is tried by itself.
    r"sampler\.ask\(": {"api.py"},
}
"""Second homes that are known; none may be added."""


@functools.cache
def read_sources() -> dict[str, str]:
    return {str(path.relative_to(SOURCE)): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}


@pytest.mark.parametrize(("home", "tell_tale"), TELL_TALES)
def test_a_question_has_one_home(home: str, tell_tale: str) -> None:
    found = {name for name, text in read_sources().items() if re.search(tell_tale, text, re.MULTILINE)}
    assert found, "the tell-tale tells nothing any more"
    second = {name for name in found if not name.startswith((f"{home}/", "testing/"))}
    assert second <= ELSEWHERE.get(tell_tale, set())


def test_there_is_one_loop() -> None:
    """Who notes that a run begins is a loop that plans, launches, waits and keeps: experiments, campaigns, races."""
    assert {name for name, text in read_sources().items() if re.search(r"(?:ledger|book)\.begin\(", text)} == {
        "engine/loop.py"
    }


def test_every_package_answers_a_question() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    page = (ROOT / "docs" / "explanation" / "how-it-works.md").read_text("utf-8")
    table = page.split("## One home for each question")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| [^|]+\? \| `(\w+)` \|", table, re.MULTILINE)) == packages
    folders = re.findall(r"^\| `src/stripewise/(\w+)` \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(folders) == sorted(packages)


def test_the_folders_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    for package, contains in re.findall(r"^\| `(src/stripewise/\w+)` \| (.*) \|$", text, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", contains):
            assert (ROOT / package / name).is_dir(), f"{package} has no folder {name}"
    for path in re.findall(r"`((?:src|native|tests|tools)/[\w/]+)`", text):
        assert (ROOT / path).exists(), path


def test_make_quick_finds_its_files() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    names = " ".join(re.findall(r"^CORE [:+]= (.+)$", makefile, re.MULTILINE)).split()
    assert len(names) > 20
    assert [name for name in names if not list((ROOT / "tests" / "unit").glob(f"test_{name}.py"))] == []
