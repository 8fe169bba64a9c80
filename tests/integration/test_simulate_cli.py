"""``stripewise lab simulate run``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.lab.engine import BOUNDS
from stripewise.lab.request import load_request

ROOT = Path(__file__).resolve().parents[2]
WORKLOAD = """
[workload]
operation = "write"
nodes = 16
processes_per_node = 16
file_size = "64 GiB"
transfer_size = "4 MiB"
layout = "segmented"
collective = true

[settings]
stripe_count = [1, 16]
cb_buffer_size = "4 MiB"
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload.toml"
    path.write_text(WORKLOAD)
    return path


def test_a_sweep_says_simulated_and_puts_the_fastest_first(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "simulate", "run", "edison", str(workload)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("simulated on edison")
    assert shown.index("stripe_count=16") < shown.index("stripe_count=1 ")
    assert "rounds" in shown and "times the next" in shown


def test_explain_names_bounds_and_settings_without_effect(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "simulate", "run", "edison", str(workload), "--explain"]) == 0
    shown = capsys.readouterr().out
    assert "no effect on this write: cb_buffer_size" in shown
    lines = [line.split() for line in shown.splitlines()]
    shares = {words[0]: words[3] for words in lines if len(words) > 3 and words[0] in (*BOUNDS, "metadata")}
    assert shares["rounds"] == "100%"
    assert {"client", "rpc", "oss", "ost", "metadata"} <= shares.keys()


def test_json(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "simulate", "run", "kay", str(workload), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["simulated"] is True and document["site"] == "kay"
    one, all_of_them = document["runs"]
    assert one["settings"] == {"stripe_count": 1, "cb_buffer_size": 4 << 20}
    assert all_of_them["bandwidth"] > 10 * one["bandwidth"]
    assert set(one["bounds"]) == {*BOUNDS, "metadata"}
    assert one["seconds"]["data"] == max(one["bounds"][name] for name in BOUNDS) == one["bounds"][one["bound"]]
    assert all_of_them["aggregators"] == all_of_them["stripe_count"] == 16
    documented = (ROOT / "docs" / "reference" / "simulate.md").read_text("utf-8")
    for key in one:
        assert f"`runs[].{key}`" in documented


def test_both_directions_of_a_workload_are_simulated(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload.write_text(WORKLOAD.replace('operation = "write"', 'operation = "both"'))
    assert main(["lab", "simulate", "run", "edison", str(workload), "--json"]) == 0
    assert [run["direction"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["write"] * 2 + ["read"] * 2


@pytest.mark.parametrize(
    "change, says",
    [
        (("stripe_count = [1, 16]", "strip_count = 1"), "is stripe_count meant?"),
        (("stripe_count = [1, 16]", 'romio_cb_write = "yes"'), "choose from automatic, enable, disable"),
        (("stripe_count = [1, 16]", "stripe_count = 1.5"), "not a value of a setting"),
        (("stripe_count = [1, 16]", "stripe_count = []"), "has no value"),
        (("stripe_count = [1, 16]", 'stripe_count = "many"'), "not a whole number"),
        (("nodes = 16", "nodes = 17"), "more than the 16 of site kay"),
        (("processes_per_node = 16", "processes_per_node = 41"), "more than the 40 cores"),
        (("[settings]", "[access]\ncolour = 1\n[settings]"), "access.colour"),
        (("[workload]", "[work]"), "workload"),
        (("nodes = 16", "nodes = "), "is not valid TOML"),
        (("stripe_count = [1, 16]", f"stripe_count = {list(range(1, 1001))}\ncb_nodes = {list(range(1, 1002))}"),
         "1,001,000 combinations"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(
    workload: Path, change: tuple[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    workload.write_text(WORKLOAD.replace(*change))
    assert main(["lab", "simulate", "run", "kay", str(workload)]) == 2
    caught = " ".join(capsys.readouterr().err.split())
    assert says in caught and "Traceback" not in caught


def test_missing_files(tmp_path: Path, workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "simulate", "run", "kay", str(tmp_path / "none.toml")]) == 2
    assert main(["lab", "simulate", "run", "nowhere", str(workload)]) == 2
    caught = capsys.readouterr().err
    assert "cannot read the workload file" in caught and "unknown site 'nowhere'" in caught


def test_the_example_of_the_reference_is_one(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "simulate.md").read_text("utf-8")
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert example
    path = tmp_path / "example.toml"
    path.write_text(example[1])
    assert len(load_request(path).configurations()) == 6
