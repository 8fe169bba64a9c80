"""Patterns over texts of others take time in proportion to the text's length: each of these took minutes before."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from stripewise.catalogue.carriers.file import ADIOS2, FILE
from stripewise.errors import UserError
from stripewise.lab.site import parse_rate
from stripewise.observe.ior import is_ior, parse_ior
from stripewise.observe.objectives.number import parse_printed_number
from stripewise.observe.objectives.own_figure import find_own_figure
from stripewise.observe.sources import SOURCES
from stripewise.requests.objective import Bound
from stripewise.runners.program.command import family

_MANY = 20_000


@pytest.fixture(autouse=True)
def _soon():
    begun = time.process_time()
    yield
    assert time.process_time() - begun < 2


@pytest.mark.parametrize("line", ["Command line : x{} x", "api: x{} x", "api{}\0", "clients = x{}\0"])
def test_output_of_ior_with_many_blanks(line: str) -> None:
    with pytest.raises(UserError, match="no result of IOR"):
        parse_ior("IOR-4.0.0: MPI\n" + line.format(" " * _MANY))


@pytest.mark.parametrize("part", ['"', '\\"', "{", "IOR-", "1", "a,", "Using actual aggregate bytes moved "])
def test_output_of_ior_with_many_marks(part: str) -> None:
    for text in ("{" + part * _MANY, "access,bw\n" + part * _MANY, part * _MANY):
        is_ior(text)
        with pytest.raises(UserError, match="no result of IOR"):
            parse_ior(text)


@pytest.mark.parametrize("part", ["=", "x", "1 ", "a: ", "\n", "\t", '{"a":1,'])
def test_what_a_file_is(part: str) -> None:
    text = part * _MANY
    assert not any(source.holds(text) for source in SOURCES)


def test_limits_printed_numbers_and_rates() -> None:
    with pytest.raises(UserError, match="is not understood"):
        Bound.parse("a" + " " * _MANY + "b")
    with pytest.raises(ValueError, match="could not convert"):
        parse_printed_number("1" * _MANY + "x")
    with pytest.raises(ValueError, match="is not a rate"):
        parse_rate("1" + "\n" * _MANY + "\0")


@pytest.mark.parametrize("line", ["- IO:{} #x\0\n", "- IO: a{} b\n", "- IO: a\n  a:{}\0\n"])
def test_a_file_of_adios2_with_many_blanks(tmp_path: Path, line: str) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(line.format(" " * _MANY))
    with contextlib.suppress(ValueError):
        ADIOS2.changed(file, {"Threads": "2"})


def test_names_and_figures_with_many_digits() -> None:
    assert family("9" * _MANY + "x")
    assert family("gdb-13.2") == "gdb" and family("python3.11") == "python"
    assert find_own_figure("write " + "1" * _MANY + "x\n", "write_bandwidth") is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("deep.yaml", "a: " + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("flow.yaml", "{a: " * 5000 + "}" * 5000, "nested too deeply"),
        ("base60.yaml", "%YAML 1.1\n---\na: " + "59:" * _MANY + "59\n", "too many parts between colons"),
        ("tables.toml", "[[a]]\n" * 100_000, "more than 2000 tables"),
        ("wide.toml", "".join(f"[a{i}]\nx=1\n" for i in range(_MANY)), "more than 2000 tables"),
        ("wide.nml", "&a\n" + "".join(f"b{i}=1\n" for i in range(_MANY)) + "/\n", "more than 2000 entries"),
    ],
)
def test_files_of_programs_that_would_take_long_are_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=said):
        FILE.changed(tmp_path / name, {"a": "1"})


def test_a_file_of_adios2_with_entities_is_refused(tmp_path: Path) -> None:
    """Whatever the version of the reader: an older one expands them without a limit, and ADIOS2's expands none."""
    entities = "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12))
    text = f"<!DOCTYPE b [<!ENTITY a0 'x'>{entities}]><adios-config><io name='&a11;'><engine type='BP5'/></io>"
    (tmp_path / "a.xml").write_text(f"{text}</adios-config>")
    with pytest.raises(ValueError, match="declares a type of document"):
        ADIOS2.changed(tmp_path / "a.xml", {"Threads": "2"})


def test_an_adios2_file_without_an_io_has_no_place(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("Engine:\n")
    assert ADIOS2.changed(tmp_path / "a.yaml", {"Threads": "2"}) == ("Engine:\n", set())
