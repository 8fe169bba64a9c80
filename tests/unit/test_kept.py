"""What libraries and Pythons answered is kept until a file changes on which the answer depends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stripewise.runners.native import build
from stripewise.runners.program import mpi
from stripewise.runners.program.kept import keep


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path / "home"))


def test_an_answer_is_found_once_for_each_state_of_its_files(tmp_path: Path) -> None:
    library, settings, asked = tmp_path / "lib.so", tmp_path / "settings", list[int]()

    def find() -> list[str]:
        asked.append(1)
        return [f"answer {len(asked)}"]

    def ask(*question: str) -> str:
        return keep(question, find, [library, settings])[0]

    library.write_text("old")
    assert [ask("a"), ask("a")] == ["answer 1", "answer 1"]
    assert ask("b") == "answer 2"
    library.write_text("newer")
    assert [ask("a"), ask("a")] == ["answer 3", "answer 3"]
    settings.write_text("it came later")
    assert [ask("a"), ask("a")] == ["answer 4", "answer 4"]


def test_what_an_answer_names_counts_too_and_no_answer_is_not_kept(tmp_path: Path) -> None:
    answers = iter([[], [str(tmp_path / "site")], ["again"]])
    folder = tmp_path / "site"
    folder.mkdir()

    def names(answer: Sequence[str]) -> list[Path]:
        return [Path(name) for name in answer]

    def ask() -> list[str]:
        return keep(["q"], lambda: next(answers), (), names)

    assert [ask(), ask(), ask()] == [[], [str(folder)], [str(folder)]]
    (folder / "mpi4py").mkdir()
    assert ask() == ["again"]


def test_an_answer_that_others_could_have_written_is_not_taken(tmp_path: Path) -> None:
    answers = iter([["mine"], ["asked again"]])
    assert keep(["q"], lambda: next(answers)) == ["mine"]
    (kept,) = (tmp_path / "home").rglob("*.json")
    kept.chmod(0o666)
    assert keep(["q"], lambda: next(answers)) == ["asked again"]


def test_a_python_is_asked_once_for_its_modules_until_one_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real, modules = list[str](), mpi._run_probe, tmp_path / "modules"
    modules.mkdir()

    def probe(command: Sequence[str], *more: Any) -> Any:
        asked.append(command[0])
        return real(command, *more)

    monkeypatch.setattr(mpi, "_run_probe", probe)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(modules)}
    first = mpi._ask_python(sys.executable, environment, tmp_path)
    assert mpi._ask_python(sys.executable, environment, tmp_path) == first
    assert str(modules) in first[1:] and len(asked) == 1
    (modules / "mpi4py").mkdir()
    (modules / "mpi4py" / "__init__.py").write_text("")
    (modules / "mpi4py" / "MPI.py").write_text("")
    assert mpi._ask_python(sys.executable, environment, tmp_path)[0] == str(modules / "mpi4py" / "MPI.py")


def test_a_launch_asks_no_compiler_while_the_library_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    monkeypatch.setattr(build, "find_compiler", lambda *of: asked.append(of))
    monkeypatch.setattr(build, "build", lambda *_: build.Built(tmp_path / "built", None, reused=False))  # type: ignore[arg-type]
    found = {"exactly": "4"}
    monkeypatch.setattr(
        build, "find_built", lambda *_, exactly="": tmp_path / "kept" if exactly == found["exactly"] else None
    )
    library = mpi.Mpi(tmp_path, "mpich", standard="4")
    assert build.runtime_for(library, None, {}) == tmp_path / "kept" and not asked
    found["exactly"] = "3"
    assert build.runtime_for(library, None, {}) == tmp_path / "built" and len(asked) == 1
