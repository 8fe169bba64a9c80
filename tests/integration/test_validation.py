"""Validation: what is held out is not learned from, true values judge prescriptions, and the commands say so."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stripewise.desk.cli.main import main
from stripewise.errors import UserError
from stripewise.models import registry
from stripewise.models.prescription_quality import judge_choices
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table, write_table
from stripewise.models.trees.tree import TreeModel
from stripewise.models.validation import HoldOut, validate
from stripewise.output.markup import write_leaf
from stripewise.testing.models import sample_table


def small(values: dict[tuple[str, str], list[float]], direction: str = "maximize") -> Table:
    """A table of workloads (``w``) and configurations (``c``), with the values of each in turn as repeats."""
    workloads, configurations = sorted({w for w, _ in values}), sorted({c for _, c in values})
    schema = Schema(
        name="small",
        objective=ObjectiveColumn(column="y", direction=direction),
        context=[Column(name="w", kind="categorical", values=list(workloads))],
        parameter=[Column(name="c", kind="categorical", values=list(configurations), default=configurations[0])],
    )
    rows = [{"w": w, "c": c, "y": y, "repeat": i} for (w, c), several in values.items() for i, y in enumerate(several)]
    return make_table(schema, rows)


def test_every_row_is_predicted_by_a_model_that_has_not_seen_it(monkeypatch: pytest.MonkeyPatch) -> None:
    table = sample_table(repeats=1)
    learned: list[set[float]] = []
    fit, predict = TreeModel.fit, TreeModel.predict_table

    def spy_fit(self: TreeModel, rows: Table, seed: int = 0) -> TreeModel:
        learned.append(set(rows.values))
        return fit(self, rows, seed)

    def spy_predict(self: TreeModel, rows: Table) -> Any:
        assert not learned[-1] & set(rows.values), "a test row was learned from"
        return predict(self, rows)

    monkeypatch.setattr(TreeModel, "fit", spy_fit)
    monkeypatch.setattr(TreeModel, "predict_table", spy_predict)
    found = validate(table, "tree", hold_out=HoldOut(folds=4))
    assert len(learned) == 4
    assert sum(len(table) - len(rows) for rows in learned) == len(table)
    assert found.tested == found.rows == len(table)
    assert validate(table, "tree", hold_out=HoldOut(columns=["contexts"])).folds == 24
    validate(table, "tree", hold_out=HoldOut(inverse=4))


def test_k_fold_scores_and_oracle() -> None:
    table = sample_table(repeats=4, noise=0.1)
    found = validate(table, "forest", {"trees": 30}, HoldOut(folds=5))
    assert found.oracle is not None
    assert 85 < found.metrics.prediction_accuracy < found.oracle.prediction_accuracy
    document = found.as_json()
    assert document["prescription"] is None
    assert document["folds"] == 5
    assert math.isclose(document["metrics"]["prediction_accuracy"], 100 - document["metrics"]["mape"])


def test_more_to_learn_from_is_better() -> None:
    curve = validate(sample_table(repeats=1), "tree", hold_out=HoldOut(inverse=16)).curve
    assert [point["parts"] for point in curve] == [16, 8, 4, 2]
    assert curve[0]["training_rows"] < curve[-1]["training_rows"]
    assert curve[0]["prediction_accuracy"] < curve[-1]["prediction_accuracy"]


def test_prescription_by_hand() -> None:
    table = small(
        {
            ("a", "x"): [10, 10], ("a", "y"): [20, 20], ("a", "z"): [40, 40],
            ("b", "x"): [10, 10], ("b", "y"): [20, 20], ("b", "z"): [5, 5],
        }
    )  # fmt: skip
    fold = table.context_levels[:, 0]
    # The model likes z everywhere: right for a, a quarter of the best for b.
    likes_z = np.where(table.levels[:, 0] == 2, 9.0, 1.0)
    judged = judge_choices(table, fold, likes_z)
    assert math.isclose(judged.quality.arithmetic, (100 + 25) / 2)
    assert math.isclose(judged.quality.harmonic, 2 / (1 / 100 + 1 / 25))
    assert math.isclose(judged.quality.worst, 25)
    best = judged.static[0]
    assert best.configuration == {"c": "y"}
    assert math.isclose(best.quality.arithmetic, 75)
    assert (best.best, best.worst_of_all) == (1, 0)
    assert math.isclose(best.loss, 10)
    default = next(static for static in judged.static if static.default)
    assert default.configuration == {"c": "x"}
    assert [entry["configuration"]["c"] for entry in judged.chosen] == ["z", "z"]
    document = judged.as_json()
    assert document["best_static"]["configuration"] == {"c": "y"}
    assert document["default"]["configuration"] == {"c": "x"}


def test_times_are_better_if_smaller() -> None:
    table = small({("a", "x"): [1, 1], ("a", "y"): [4, 4], ("b", "x"): [2, 2], ("b", "y"): [1, 1]}, "minimize")
    likes_x = np.where(table.levels[:, 0] == 0, 1.0, 9.0)
    judged = judge_choices(table, table.context_levels[:, 0], likes_x)
    assert math.isclose(judged.quality.worst, 50)
    assert judged.static[0].configuration == {"c": "x"}


def test_luck_is_not_crowned() -> None:
    # The best is picked on odd repeats (x: 30) and scored on even ones (x: 10): y's 20 counts as all of it.
    table = small({("a", "x"): [10, 30], ("a", "y"): [20, 20], ("b", "x"): [10, 10], ("b", "y"): [20, 20]})
    likes_y = np.where(table.levels[:, 0] == 1, 9.0, 1.0)
    assert math.isclose(judge_choices(table, table.context_levels[:, 0], likes_y).quality.worst, 100)


def test_trees_by_depth_prescribe_from_the_workload() -> None:
    found = validate(sample_table(noise=0.02), "tree", hold_out=HoldOut(columns=["contexts"], depths=[1, 3]))
    assert found.prescription is not None
    assert set(found.prescription.by_depth) == {1, 3}
    for quality in found.prescription.by_depth.values():
        assert 50 < quality.worst <= quality.harmonic <= quality.arithmetic <= 100
    assert found.prescription.quality.workloads == 24


def test_the_tree_to_read_names_the_best_of_each_leaf_and_counts() -> None:
    # x is the best of a, y that of b; nothing else tells them apart.
    table = small({("a", "x"): [4, 4], ("a", "y"): [1, 1], ("b", "x"): [2, 2], ("b", "y"): [8, 8]})
    judged = judge_choices(table, table.context_levels[:, 0], table.values, depths=[1, 2])
    assert sorted((leaf.configuration["c"], leaf.workloads, leaf.best, leaf.achieved) for leaf in judged.leaves) == [
        ("x", 1, 1, 100.0),
        ("y", 1, 1, 100.0),
    ]
    assert {leaf.when.split(" ", 1)[0] for leaf in judged.leaves} == {"w"}
    assert write_leaf(judged.leaves[0].as_json()).startswith("if w ")
    assert not judge_choices(table, table.context_levels[:, 0], table.values).leaves


def test_new_rows_replace_a_model_only_if_they_make_it_no_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = sample_table(noise=0.05)
    few = np.flatnonzero(np.arange(len(table)) % 8 == 0)
    train = ["site", "train", "t", "--out", "t.model", "--json"]

    def write(rows: Table) -> None:
        for file in ("t.csv", "t.toml"):
            Path(file).unlink(missing_ok=True)
        write_table(rows, "t")

    def update(*more: str) -> Any:
        assert main([*train, "--update", *more]) == 0
        return json.loads(capsys.readouterr().out)["update"]

    write(table.take(few))
    assert main([*train, "--update", "--model", "forest", "--model-option", "trees=20"]) == 0
    assert json.loads(capsys.readouterr().out)["update"] is None
    learned = Path("t.model").read_bytes()
    assert update() == {"new": 0, "replaced": False, "before": None, "after": None}
    assert main([*train, "--update", "--model", "tree"]) == 2
    assert "keeps the kind" in capsys.readouterr().err
    # Values at random teach nothing of those that were there.
    values = np.exp(np.random.default_rng(1).normal(0, 9, len(table)))
    values[few] = table.values[few]
    write(replace(table, values=values))
    judged = update()
    assert judged["new"] == len(table) - len(few)
    assert not judged["replaced"]
    assert Path("t.model").read_bytes() == learned
    write(table)
    judged = update()
    assert judged["replaced"] and judged["after"] < 1.1 * judged["before"]
    model = registry.load_model("t.model")
    assert model.name == "forest" and set(model.rows) == set(table.digest_rows())
    learned = Path("t.model").read_bytes()
    write(table.take(~np.isin(np.arange(len(table)), few)))
    assert main([*train, "--update"]) == 2, "it would no longer know what only the old rows say"
    assert f"lacks {len(few)} of the {len(table):,} rows" in " ".join(capsys.readouterr().err.split())
    assert Path("t.model").read_bytes() == learned


def test_other_columns_can_be_left_out() -> None:
    table = sample_table(repeats=1)
    found = validate(table, "linear", hold_out=HoldOut(columns=["nodes"]))
    assert found.folds == 4
    assert found.prescription is not None
    assert validate(table, "linear", hold_out=HoldOut(columns=["stripes"])).prescription is None
    grouped = validate(table, "linear", hold_out=HoldOut(columns=["contexts"], folds=3))
    assert (grouped.folds, grouped.tested) == (3, len(table))
    assert grouped.prescription is not None
    assert grouped.prescription.quality.workloads == 24


def test_unseen_categories_are_reported_not_guessed() -> None:
    found = validate(sample_table(repeats=1), "tree", hold_out=HoldOut(columns=["cb", "nodes"]))
    assert found.skipped == []
    with pytest.raises(UserError, match=r"never show.*leave out fewer"):
        validate(sample_table(repeats=1), "tree", hold_out=HoldOut(columns=["access"]))
    # A category that occurs in one row only.
    table = sample_table(repeats=1)
    levels = table.levels.copy()
    levels[:, 1] = 0
    levels[0, 1] = 2
    odd = Table(table.schema, levels, table.context_levels, table.repeats, table.values)
    found = validate(odd, "tree", hold_out=HoldOut(folds=5))
    assert found.tested == len(odd) - 1
    assert len(found.skipped) == 1
    assert "1 rows have a category" in found.skipped[0]


def test_one_row_folds() -> None:
    table = sample_table(repeats=1).take(np.arange(0, 800, 40))
    found = validate(table, "linear", hold_out=HoldOut(folds=len(table)))
    assert found.folds == found.tested == len(table) == 20


@pytest.mark.parametrize(
    "call, word",
    [
        (lambda t: validate(t, "tree", hold_out=HoldOut(folds=1)), "folds"),
        (lambda t: validate(t, "tree", hold_out=HoldOut(folds=len(t) + 1)), "folds"),
        (lambda t: validate(t, "tree", hold_out=HoldOut(inverse=len(t))), "too few rows"),
        (lambda t: validate(t, "tree", hold_out=HoldOut(columns=["nodez"])), "no column nodez"),
        (
            lambda t: validate(t.take(t.context_levels[:, 1] == 0), "tree", hold_out=HoldOut(columns=["nodes"])),
            "never varies",
        ),
        (lambda t: validate(t, "tree", hold_out=HoldOut(columns=["stripes"], depths=[2])), "whole workloads"),
        (lambda t: validate(t, "treee", hold_out=HoldOut(folds=2)), "unknown model"),
    ],
)
def test_wrong_requests_are_refused(call: Any, word: str) -> None:
    with pytest.raises(UserError, match=word):
        call(sample_table(repeats=1))


# -- commands ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write_table(sample_table(repeats=1), tmp_path / "sample")
    return tmp_path


def test_train_writes_a_model_and_explains_it(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["site", "train", str(files / "sample"), "--model", "tree", "--model-option", "max_depth=2", "--out"]
    assert main([*command, str(files / "a.model"), "--explain"]) == 0
    shown = capsys.readouterr().out
    assert "what matters" in shown
    assert "if " in shown
    assert "slow" in shown
    assert registry.load_model(files / "a.model").options.max_depth == 2  # type: ignore[attr-defined]
    assert main([*command, str(files / "b.model"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"] == 864
    assert (files / "a.model").read_bytes() == (files / "b.model").read_bytes()


def test_validate_prints_the_documented_json(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(files / "sample")
    page = files / "page.html"
    words = ["site", "validate", table, "--model", "linear", "--leave-out", "contexts", "--depths", "1-2", "--json"]
    assert main([*words, "--report", str(page)]) == 0
    document = json.loads(capsys.readouterr().out)
    body, figures = re.match(r'(.*)id="figures">(.*?)</script>', page.read_text("utf-8"), re.S).groups()  # type: ignore[union-attr]
    assert "tree of depth 2" in body and f"{document['metrics']['prediction_accuracy']:.2f}%" in body
    drawn = json.loads(figures)["figures"]["accuracy"]["data"][0]
    assert len(drawn["x"]) == len(drawn["y"]) == document["rows"]
    assert {"model", "rows", "folds", "metrics", "prescription"} <= document.keys()
    assert document["metrics"].keys() >= {
        "prediction_accuracy", "mape", "r2_log", "mae", "class_error", "oracle_accuracy",
    }  # fmt: skip
    assert document["prescription"].keys() >= {"arithmetic", "harmonic", "worst", "best_static", "by_depth"}
    assert set(document["prescription"]["by_depth"]) == {"1", "2"}
    assert main(["site", "validate", table, "--model", "linear", "--inverse", "4"]) == 0
    assert "rows to learn from" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, message",
    [
        (["--folds", "3", "--inverse", "3"], "--inverse excludes"),
        (["--depths", "1-3"], "add --leave-out contexts"),
        (["--leave-out", "contexts", "--depths", "5-1"], "write one as in 1-10"),
        (["--model-option", "trees"], "is not NAME=VALUE"),
        (["--folds", "0"], "0 folds"),
    ],
)
def test_wrong_use_says_so(files: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["site", "validate", str(files / "sample"), "--model", "linear", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_answer_of_an_older_service_without_a_description_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = {"name": "site", "objective": {"name": "time", "unit": "s"}, "pairs": [], "table": "t1", "folds": 2}
    job = {"id": "v1", "state": "done", "result": answer}
    client = SimpleNamespace(validate=lambda table, model, **asked: job, wait=lambda job, hear: dict(job["result"]))
    monkeypatch.setattr("stripewise.desk.client.client.Client", lambda url: client)
    monkeypatch.setenv("STRIPEWISE_SERVER", "unix:service")
    assert main(["site", "validate", "site", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folds": 2}
