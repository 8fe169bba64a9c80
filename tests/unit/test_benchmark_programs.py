"""The real programs without MPI that are compared with exhaustive sweeps."""

import os
import time
import tomllib
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from benchmarks.any_program.programs import HERE, Case, every, free_port, show
from benchmarks.http_store import http_store
from benchmarks.slow_store import COLD, slow_store

CASES = [
    (cases, name)
    for cases in ("programs.toml", "loaders.toml")
    for name in tomllib.loads((HERE / cases).read_text("utf-8"))
]


@pytest.mark.parametrize(("cases", "name"), CASES)
def test_a_sweep_has_each_combination_once_and_begins_with_the_default(cases: str, name: str, tmp_path: Path) -> None:
    case = Case.read(name, tmp_path, cases=cases, checkouts=tmp_path, python="/env/bin/python")
    space = case.space()
    arms = every(space)
    assert arms["default"] == space.default and len(arms) > 1
    assert len({tuple(one.items()) for one in arms.values()}) == len(arms)
    told = " ".join([*case.experiment.command, *case.prepare, *case.experiment.hooks.before])
    assert not any(place in told for place in ("{root}", "{source}", "{checkouts}", "{python}", "{url}"))


def test_a_sweep_has_what_reaches_the_program_and_folds_what_is_off(tmp_path: Path) -> None:
    def size(name: str) -> int:
        return len(every(Case.read(name, tmp_path).space()))

    assert (size("table"), size("pipeline"), size("chunks")) == (1 + 3 * 2 * 3, 4 * 3, 5)


def test_the_table_tells_what_was_missed_and_what_was_claimed_wrongly(capsys: pytest.CaptureFixture[str]) -> None:
    def row(best: float, chosen: float, *, confirmed: bool, outputs: int = 1) -> dict[str, Any]:
        return {
            "configurations": [{}, {"a": 1}], "gain_best": best, "gain_chosen": chosen, "best": "1",
            "chosen": "1" if confirmed else "default", "confirmed": confirmed, "speedup": chosen,
            "interval": [1.0, 9.0], "outputs": outputs, "runs_compared": 20,
        }  # fmt: skip

    show({"found": row(2.0, 1.99, confirmed=True), "missed": row(1.5, 1.0, confirmed=False),
          "wrong": row(1.0, 0.97, confirmed=True, outputs=2)})  # fmt: skip
    table, told = capsys.readouterr().out.split("\n\n")
    assert "| missed | 2 | 1.50: `a=1` | 1.00: default | no gain | 67% | yes, 20 runs |" in table
    assert "NO, 20 runs" in table
    assert "at least 10% in 2 of 3 programs; proven in 1 of these" in told
    assert "within 95% of the sweep's best in 2 of 3" in told and "without one in 1." in told


@pytest.mark.skipif(os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and FUSE")
def test_a_slow_store_gives_the_same_bytes_later(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "below").mkdir(parents=True)
    wanted = {folder / "below" / str(number): os.urandom(200_000 + number) for number in range(3)}
    for path, content in wanted.items():
        path.write_bytes(content)

    def read() -> float:
        start = time.monotonic()
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == wanted
        return time.monotonic() - start

    with slow_store(folder, 0.05, 1e9):
        assert read() > 3 * 2 * 0.05  # an open and two reads of 128 KiB, of which one is ahead of the program
        assert read() > 3 * 0.05
        assert not (folder / COLD).exists() and read() > 3 * 2 * 0.05
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    read()


def test_a_store_by_http_gives_ranges_later(tmp_path: Path) -> None:
    content = os.urandom(1000)
    (tmp_path / "data").write_bytes(content)
    port = free_port()
    with http_store(tmp_path, port, 0.05, 1e9):
        asked = HTTPConnection("127.0.0.1", port)
        wanted = [("0-9", 206, content[:10]), ("990-2000", 206, content[990:]), ("7", 200, content)]
        for header, status, part in wanted:
            start = time.monotonic()
            asked.request("GET", "/data", headers={"Range": f"bytes={header}"})
            answer = asked.getresponse()
            assert (answer.status, answer.read()) == (status, part) and time.monotonic() - start > 0.05
        asked.request("GET", "/none")
        assert asked.getresponse().status == 404
