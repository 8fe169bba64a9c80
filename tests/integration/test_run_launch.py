"""``run --model``: what only a launch can carry is chosen before it, from the last report of the same command."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.carriers import HINT, Setting
from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.main import main
from stripewise.errors import UserError
from stripewise.models.artifact.file import read_artifact
from stripewise.models.registry import make_model
from stripewise.models.table import Schema, make_table
from stripewise.runners.injection import Foreground, Injection
from tests.unit.reports import recorded

GRAIN = {
    "name": "grain", "kind": "ordinal", "scale": "log2", "values": [1, 4, 16], "default": 1, "carrier": "argument",
    "key": "grain",
}  # fmt: skip
CACHE = {
    "name": "cache", "kind": "ordinal", "scale": "log2", "values": [1, 2, 4], "default": 1, "carrier": "env",
    "key": "MY_CACHE",
}  # fmt: skip
NODES = {"name": "cb_nodes", "kind": "ordinal", "role": "aggregators", "values": [1, 2, 4], "default": 1}
REPORT = json.dumps(recorded("romio_strided_write")["default"])
COMMAND = ("./my_app", "--grain={grain}")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Models of a law in which cache 4, grain 1 and cb_nodes 2 are best."""
    folder = tmp_path_factory.mktemp("models")

    @functools.cache
    def saved(*names: str) -> str:
        columns = [column for column in (CACHE, GRAIN, NODES) if column["name"] in names]
        size = {"name": "file_size", "kind": "ordinal", "role": "file_size", "unit": "B", "values": [1 << 20, 1 << 30]}
        schema = Schema.model_validate(
            {
                "name": "law",
                "objective": {"direction": "maximize", "column": "bandwidth", "unit": "MiB/s"},
                "context": [size],
                "parameter": columns,
            }
        )
        rows = []
        for values in itertools.product(size["values"], *(column["values"] for column in columns)):
            row = dict(zip(("file_size", *(column["name"] for column in columns)), values, strict=True))
            speed = 100.0 * row["cache"] / row.get("grain", 1) ** 0.2 * {1: 1.0, 2: 3.0, 4: 2.0}[row.get("cb_nodes", 1)]
            rows += [{**row, "bandwidth": speed * (1 + 0.01 * repeat), "repeat": repeat} for repeat in range(2)]
        path = folder / "-".join(names)
        make_model("tree").fit(make_table(schema, rows)).save(path)
        return str(path)

    return saved


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command up to its start: the plan, what the runtime is to do, and what was said."""
    given: dict[str, Any] = {}

    def prepared(plan: Plan, _command: list[str], folder: Path, **other: Any) -> Foreground:
        given.update(plan=plan, folder=folder, **other)
        return Foreground(("true",), Injection({}, {}, ()), ())

    def started(*_: object) -> None:
        raise UserError("enough", "for a test")

    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    monkeypatch.setattr("stripewise.desk.cli.plan_run.prepare", prepared)
    monkeypatch.setattr("stripewise.desk.cli.plan_run.take_place", started)

    def launch(model: str, *command: str, words: tuple[str, ...] = (), report: str = "") -> dict[str, Any]:
        assert main(["run", "--model", model, *words, "--", *command]) == 2
        given["said"] = capsys.readouterr().err
        if report:
            given["folder"].mkdir(parents=True, exist_ok=True)
            (given["folder"] / "report.json").write_text(report)
        return dict(given)

    return launch


def settings(given: dict[str, Any]) -> dict[str, str]:
    return {setting.key: setting.value for setting in given["plan"].settings}


def test_the_report_of_one_run_decides_the_launch_of_the_next(launched: Any, models: Callable[..., str]) -> None:
    model = models("cache", "grain", "cb_nodes")
    first = launched(model, *COMMAND, report=REPORT)
    # Arguments that stand in the command have a value in every run.
    assert settings(first) == {"grain": "1"} and first["guidance"].mode == "predict"
    assert "no earlier run of this command has left a report" in first["said"]
    second = launched(model, *COMMAND)
    assert settings(second) == {"MY_CACHE": "4", "grain": "1"}
    assert "MY_CACHE=4: predicted" in second["said"].replace("\n", " ")
    # The runtime chooses cb_nodes, with the cache that the launch has.
    cache, nodes = (
        next(entry for entry in read_artifact(second["guidance"].model).inputs if entry.name == name)
        for name in ("cache", "cb_nodes")
    )
    assert [cache.values[cache.default].spelling, nodes.values[nodes.default].spelling] == ["4", "1"]
    told = json.loads(launched(model, *COMMAND, words=("--json",))["said"].splitlines()[0])["launch"]
    assert told["settings"] == settings(second) and told["report"] == str(first["folder"] / "report.json")
    # The same report gives the same answer, and another command has none.
    assert settings(launched(model, *COMMAND)) == settings(second)
    assert settings(launched(model, "./other")) == {}


def test_a_damaged_report_is_passed_over(launched: Any, models: Callable[..., str]) -> None:
    model = models("cache", "grain", "cb_nodes")
    launched(model, "./my_app", report=REPORT)
    launched(model, "./my_app", report='{"format": "strip')
    assert settings(launched(model, "./my_app")) == {"MY_CACHE": "4"}


def test_a_model_of_launch_settings_alone_needs_no_runtime(launched: Any, models: Callable[..., str]) -> None:
    model = models("cache")
    launched(model, "./my_app", report=REPORT)
    second = launched(model, "./my_app")
    assert settings(second) == {"MY_CACHE": "4"} and second["guidance"].mode == "" and second["guidance"].model is None


def test_a_plan_s_own_settings_stay(launched: Any, models: Callable[..., str], tmp_path: Path) -> None:
    model = models("cache", "grain", "cb_nodes")
    (tmp_path / "my.plan").write_text("stripewise-plan 1\nfile *\nenv MY_CACHE 2\nhint cb_nodes 4\n")
    plan = (str(tmp_path / "my.plan"),)
    launched(model, "./my_app", words=plan, report=REPORT)
    given = launched(model, "./my_app", words=plan)
    assert settings(given) == {"MY_CACHE": "2", "cb_nodes": "4"}
    assert Setting(HINT, "cb_nodes", "4") in given["plan"].settings
