"""The parts of performance models: features, trees, the smooth regression, weights, memory, classes, rules."""

from __future__ import annotations

import functools
import io
import json
import math
import operator
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor

from stripewise.errors import UserError
from stripewise.models import ann
from stripewise.models.auto import AutoModel, blend_weights, improves_blend
from stripewise.models.cells import Cells, Data, Memory, error_correlation, gain_errors
from stripewise.models.domain import Domain
from stripewise.models.features import Encoder, Feature, make_encoder
from stripewise.models.files import FORMAT, VERSION, read_model_file
from stripewise.models.linear import Equation
from stripewise.models.network import NeuralNetwork
from stripewise.models.prescribe.grid import LogPrediction
from stripewise.models.registry import load_model, make_model
from stripewise.models.smooth import Smooth
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table
from stripewise.models.training import learn_speed_rules
from stripewise.models.trees.boosting import BoostingOptions, boost, calibrate
from stripewise.models.trees.ensemble import Trees
from stripewise.models.trees.tree import write_conditions
from stripewise.models.validation import (
    classify_values,
    find_true_values,
    list_class_bounds,
    measure_class_error,
    score_oracle,
    score_predictions,
)
from stripewise.testing.models import sample_table


def table_of(columns: list[Column], rows: list[dict[str, object]], contexts: int = 0) -> Table:
    schema = Schema(
        name="t",
        objective=ObjectiveColumn(column="y", direction="maximize", unit="MiB/s"),
        context=columns[:contexts],
        parameter=columns[contexts:],
    )
    return make_table(schema, rows)


# -- categories that were never measured ------------------------------------------------------------------------------


def programs(*names: str) -> Table:
    """Programs with a level and an effect of ``count`` of their own, in ln: a 0 and 1, b 2 and 3, c 4 and 5."""
    columns = [
        Column(name="program", kind="categorical", values=["a", "b", "c"]),
        Column(name="count", kind="ordinal", role="stripe_count", values=[0, 1]),
    ]
    rows = [
        {"program": name, "count": count, "y": math.exp(2.0 * place + (1.0 + place) * count)}
        for place, name in enumerate("abc")
        for count in (0, 1)
        if name in names
        for _ in range(4)
    ]
    return table_of(columns, rows, contexts=1)


def test_a_new_category_is_predicted_from_those_that_were_measured_with_their_difference_as_doubt() -> None:
    model = make_model("tree").fit(programs("a", "b"))
    found = model.predict({"program": ["b", "new", "new"], "count": [1, 0, 1]})
    assert found.mean == pytest.approx([4.0, 1.0, 2.5], abs=0.01)
    # Of a 0 and 1, of b 2 and 4: one more program may lie as far from the mean as they lie from one another.
    assert found.deviation[1:] == pytest.approx([math.sqrt(2 * 1.5), math.sqrt(4.5 * 1.5)], rel=0.01)
    # The gain is 1 and 2 in ln: what the two configurations have in common of the difference cancels out.
    gain = LogPrediction(found.mean[2:], found.deviation[2:], found.shared[2:])
    apart = gain.gain_deviation(LogPrediction(found.mean[1:2], found.deviation[1:2], found.shared[1:2]))
    assert apart[0] == pytest.approx(math.sqrt(0.5 * 1.5), rel=0.01)
    assert model.domain.outside({"program": ["new"], "count": [0]}) == [
        "program is none of those that were measured: a, b"
    ]
    assert list(model.predict_table(programs("c")).mean[[0, 4]]) == pytest.approx([1.0, 2.5], abs=0.01)


def test_nothing_is_guessed_from_one_category_nor_for_settings_operations_and_truths() -> None:
    with pytest.raises(UserError, match=r"program = 'new' was never measured.*it knows a"):
        make_model("tree").fit(programs("a")).predict({"program": ["new"], "count": [0]})
    model = make_model("tree").fit(sample_table(repeats=1))
    for name, value in (("access", "append"), ("cb", "perhaps")):
        frame = {"access": ["read"], "nodes": [1], "chunk": [1], "stripes": [1], "cb": ["enable"], "cb_nodes": [1]}
        with pytest.raises(UserError, match=f"{name} = '{value}' was never measured"):
            model.predict({**frame, name: [value]})


# -- features ---------------------------------------------------------------------------------------------------------


def sized() -> Table:
    columns = [
        Column(name="n", kind="ordinal", role="nodes", values=[2, 4]),
        Column(name="ppn", kind="ordinal", role="processes_per_node", values=[4, 8]),
        Column(name="gib", kind="ordinal", role="file_size", unit="GiB", values=[1, 16]),
        Column(name="kind", kind="categorical", role="layout", values=["a", "b", "c"]),
        Column(name="count", kind="ordinal", role="stripe_count", scale="log2", values=[1, 4]),
    ]
    rows = [
        {"n": n, "ppn": p, "gib": g, "kind": k, "count": c, "y": 1.0}
        for n in (2, 4)
        for p in (4, 8)
        for g in (1, 16)
        for k in "abc"
        for c in (1, 4)
    ]
    return table_of(columns, rows, contexts=4)


def test_ratios_are_found_by_role_and_are_in_bytes() -> None:
    table = sized()
    domain = Domain.of(table)
    points = domain.table_points(table)
    encoder = make_encoder(domain, points)
    x = dict(zip(encoder.names, encoder.encode(points).T, strict=True))
    n, ppn, gib, _, count = points.T
    assert np.allclose(x["log2 bytes per process"], np.log2(gib * 2**30 / (n * ppn)))
    assert np.allclose(x["log2 ranks per stripe"], np.log2(n * ppn / count))
    assert np.allclose(x["log2 bytes per stripe"], np.log2(gib * 2**30 / count))
    assert {"kind is a", "kind is b", "kind is c"} <= x.keys()
    assert x["log2 bytes per process"].dtype == np.float32


def test_what_never_varies_or_is_said_already_is_no_feature() -> None:
    table = sized()
    one_node = table.take(table.context_levels[:, 0] == 0)
    domain = Domain.of(one_node)
    names = make_encoder(domain, domain.table_points(one_node)).names
    assert "n" not in names
    # With one node count, processes are the processes per node but for a factor.
    assert "log2 processes" not in names
    assert "log2 ranks per stripe" in names


def unset_or(*sizes: int) -> Table:
    columns = [Column(name="count", kind="ordinal", role="stripe_count", scale="log2", values=[0, *sizes])]
    return table_of(columns, [{"count": count, "y": 1.0 + count} for count in (0, *sizes)])


def test_zero_on_a_logarithmic_axis_is_a_setting_of_its_own_below_the_sizes() -> None:
    table = unset_or(2, 4, 16)
    domain = Domain.of(table)
    points = domain.table_points(table)
    encoder = make_encoder(domain, points)
    again = Encoder.from_json(json.loads(json.dumps(encoder.as_json())), domain)
    assert again == encoder
    x = dict(zip(encoder.names, again.encode(points).T, strict=True))
    assert x["count is 0"].tolist() == [1, 0, 0, 0]
    assert x["log2 count"].tolist() == [0, 1, 2, 4]
    assert make_model("auto").fit(table).predict_table(table).value.shape == (4,)


def test_an_encoder_survives_json() -> None:
    table = sized()
    domain = Domain.of(table)
    points = domain.table_points(table)
    encoder = make_encoder(domain, points)
    again = Encoder.from_json(encoder.as_json(), domain)
    assert again == encoder
    assert Domain.from_json(domain.as_json()) == domain


def test_meaningless_settings_fold() -> None:
    table = sample_table(repeats=1)
    domain = Domain.of(table)
    data = Data.of(domain, table)
    # Of the nine combinations of switch and aggregators, those with the switch off are one.
    assert len(np.unique(data.cells)) == len(table) * 7 // 9
    assert len(np.unique(data.workloads)) == 24


def test_cross_is_every_workload_with_every_configuration() -> None:
    domain = Domain.of(sample_table(repeats=1))
    points = domain.cross(
        {"access": ["read", "write"], "nodes": [1, 3], "chunk": [1, 2]},
        {"stripes": [1, 2, 8], "cb": ["disable", "enable", "automatic"], "cb_nodes": [1, 1, 4]},
    )
    one_by_one = domain.points(
        {
            "access": ["read"] * 3 + ["write"] * 3,
            "nodes": [1] * 3 + [3] * 3,
            "chunk": [1] * 3 + [2] * 3,
            "stripes": [1, 2, 8] * 2,
            "cb": ["disable", "enable", "automatic"] * 2,
            "cb_nodes": [1, 1, 4] * 2,
        }
    )
    assert np.array_equal(points, one_by_one)


# -- trees ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, (400, 5)).astype(np.float32)
    y = np.where(x[:, 0] > 5, x[:, 1], -x[:, 2]) + rng.normal(0, 0.1, 400)
    return x, y, rng.integers(-2, 14, (300, 5)).astype(np.float32)


def test_forests_are_kept_as_they_are(learned: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    x, y, new = learned
    forest = ExtraTreesRegressor(9, random_state=0).fit(x, y)
    trees = Trees.from_sklearn(forest.estimators_, 1.0 / 9)
    assert np.allclose(trees.predict(new), forest.predict(new), rtol=1e-6, atol=1e-6)
    assert np.allclose(trees.predict_each(new).sum(axis=1), trees.predict(new))
    leaves = trees.walk(new)
    assert np.allclose(trees.value[leaves].sum(axis=1), trees.predict(new), atol=1e-6)


def test_boosted_trees_are_kept_as_they_are(learned: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    x, y, new = learned
    boosted = boost(x, y, None, 0, BoostingOptions(rounds=20))
    trees = boosted.trees
    assert np.allclose(trees.predict(new), boosted.predict(new), rtol=1e-6, atol=1e-6)
    assert np.allclose(trees.importance(5), boosted.importance(), rtol=1e-4)
    twice = Trees.joined([trees.scaled(0.5), trees.scaled(1.5)])
    assert np.allclose(twice.predict(new), 2 * trees.predict(new), rtol=1e-5, atol=1e-5)
    assert np.allclose(Trees.restored(trees.arrays("a."), 5, trees.bias, "a.").predict(new), trees.predict(new))


def test_too_few_rows_boost_to_their_mean() -> None:
    x = np.arange(3, dtype=np.float32)[:, None]
    boosted = boost(x, np.array([1.0, 2.0, 3.0]), None, 0, BoostingOptions(rounds=5))
    assert np.allclose(boosted.predict(x), 2.0)
    assert np.allclose(boosted.trees.predict(x), 2.0)


# -- other members ----------------------------------------------------------------------------------------------------


def test_the_smooth_regression_continues_a_trend() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 4, (80, 2)).astype(np.float32)
    y = 3.0 * x[:, 0] + rng.normal(0, 0.05, 80)
    smooth = Smooth.fit(x, y, np.ones(80), np.array([1.0, 0.0]), rng)
    assert np.allclose(smooth.predict(x), y, atol=0.3)
    beyond = smooth.predict(np.array([[6.0, 2.0]], dtype=np.float32))
    assert abs(beyond[0] - 18.0) < 2.0
    told = Smooth.fit(x, y, np.ones(80), np.array([1.0, 0.0]), rng, chosen=(3.0, 0.0, 1.0))
    assert (told.length, told.trend) == (3.0, 0.0) != (smooth.length, smooth.trend)
    document, arrays = smooth.state()
    again = Smooth.restored(document, {f"s.{k}": v for k, v in arrays.items()}, "s.", 2)
    assert np.array_equal(again.predict(x), smooth.predict(x))


@pytest.mark.slow
def test_many_cells_are_thinned_but_all_are_heard() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 6, (1500, 1)).astype(np.float32)
    y = np.sin(x[:, 0]) + rng.normal(0, 0.3, 1500)
    smooth = Smooth.fit(x, y, np.ones(1500), np.ones(1), rng)
    grid = np.linspace(0.2, 5.8, 50, dtype=np.float32)[:, None]
    assert np.sqrt(np.mean((smooth.predict(grid) - np.sin(grid[:, 0])) ** 2)) < 0.08


def test_the_equation_finds_costs() -> None:
    rng = np.random.default_rng(0)
    size = np.exp2(rng.uniform(0, 6, 200))
    write = rng.integers(0, 2, 200)
    time = np.where(write == 1, 2.0 + 0.5 * size, 1.0 + 0.1 * size)
    x = np.stack([np.log2(size), write], axis=1).astype(np.float32)
    equation = Equation.fit("qi", x, -np.log(time), np.ones(200), [1], True)
    assert np.allclose(equation.predict(x), -np.log(time), atol=0.01)
    far = np.array([[8.0, 1.0]], dtype=np.float32)
    assert np.isclose(np.exp(-equation.predict(far))[0], 2.0 + 0.5 * 256, rtol=0.02)


# -- blending ---------------------------------------------------------------------------------------------------------


def test_the_better_member_gets_the_weight() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(0, 1, 500)
    good, bad = truth + rng.normal(0, 0.1, 500), truth + rng.normal(0, 1, 500)
    found = blend_weights(np.stack([good, bad], axis=1), truth, np.ones(500))
    assert found[0] > 0.9
    assert math.isclose(found.sum(), 1.0)


def test_a_blend_is_no_worse_than_any_member_on_what_it_was_chosen_by() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(0, 1, 400)
    # The first is exact but for a few cells that nothing explains, the second a little wrong everywhere.
    exact = truth + np.where(rng.random(400) < 0.04, rng.normal(0, 2.0, 400), rng.normal(0, 0.01, 400))
    even = truth + rng.normal(0, 0.3, 400)
    both = np.stack([exact, even, truth + rng.normal(0, 1, 400)], axis=1)
    weights = blend_weights(both, truth, np.ones(400))
    errors = both - truth[:, None]
    square, absolute = np.mean(errors**2, axis=0).min(), np.mean(np.abs(errors), axis=0).min()

    def loss(far: np.ndarray) -> float:
        return float(np.mean(far**2) / square + np.mean(np.abs(far)) / absolute)

    assert loss(errors @ weights) <= 1.001 * min(loss(member) for member in errors.T)
    assert weights[0] > 0.5


def test_members_that_are_all_exact_share_the_weight() -> None:
    truth = np.arange(10.0)
    weights = blend_weights(np.stack([truth, truth], axis=1), truth, np.ones(10))
    assert np.allclose(weights, 0.5)


def test_one_more_member_joins_only_where_it_helps_on_cells_that_chose_no_weights() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(0, 1, 400)
    one, other = (truth + rng.normal(0, 0.3, 400) for _ in range(2))
    trust = np.ones(400)
    assert improves_blend(np.stack([one, truth + rng.normal(0, 0.1, 400), other], axis=1), truth, trust, 1)
    for useless in (one, one + rng.normal(0, 0.5, 400)):
        assert not improves_blend(np.stack([one, other, useless], axis=1), truth, trust, 2)
    assert not improves_blend(np.stack([one, truth], axis=1)[:10], truth[:10], trust[:10], 1)
    assert not improves_blend(np.stack([truth, truth], axis=1), truth, trust, 1)


@pytest.mark.slow
def test_auto_keeps_up_with_a_stock_forest_where_values_go_in_steps(tmp_path: Path) -> None:
    # Steps of values, and errors of the same size everywhere: of the logarithm of small values they are large.
    rng = np.random.default_rng(1)
    rows = rng.permutation(np.stack(np.meshgrid(*[np.arange(6)] * 4, indexing="ij"), axis=-1).reshape(-1, 4))[:240]
    a, b, c, d = rows.T
    y = 1000.0 * (a > 2) * (b > 2) + 100.0 * (c > 2) + 20.0 * (d > 3) + rng.integers(1, 8, len(rows))
    columns = [Column(name=name, kind="ordinal", values=list(range(6))) for name in "abcd"]
    known = [dict(zip("abcdy", [*map(int, row), float(v)], strict=True)) for row, v in zip(rows, y, strict=True)]
    table = table_of(columns, known)
    train, test = table.take(np.arange(180)), table.take(np.arange(180, 240))
    model = make_model("auto", {"folds": 2}).fit(train)
    assert isinstance(model, AutoModel)
    weights = dict(zip(model.blended, model.known.weights, strict=True))
    assert weights["values"] > 0.5
    predicted = model.predict_table(test).value
    domain = model.domain
    forest = RandomForestRegressor(random_state=0).fit(domain.table_points(train), train.values)
    stock = forest.predict(domain.table_points(test))
    behind = (np.abs(predicted - test.values) - np.abs(stock - test.values)) / test.values
    assert behind.mean() <= behind.std(ddof=1) / np.sqrt(len(behind))

    model.save(tmp_path / "model")
    assert np.allclose(load_model(tmp_path / "model").predict_table(test).value, predicted, rtol=1e-6)


def test_relative_errors_count_where_workloads_are_named() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(25), 20)
    truth = rng.normal(0, 1, 500)
    level = rng.normal(0, 0.7, 25)[groups]
    # The first is right about differences and wrong about levels, the second the other way round.
    relative, absolute = truth + level, truth + rng.normal(0, 0.7, 500)
    both = np.stack([relative, absolute], axis=1)
    assert blend_weights(both, truth, np.ones(500), groups)[0] > blend_weights(both, truth, np.ones(500))[0] + 0.2


def test_a_workload_with_many_cells_says_no_more_of_other_workloads() -> None:
    rng = np.random.default_rng(0)
    # One workload with 400 configurations, whose errors the first member makes small; twenty with five, as the second.
    groups = np.concatenate([np.zeros(400, dtype=np.int64), np.repeat(np.arange(1, 21), 5)])
    truth = rng.normal(0, 1, 500)
    one = truth + rng.normal(0, np.where(groups == 0, 0.1, 0.5))
    other = truth + rng.normal(0, np.where(groups == 0, 0.5, 0.1))
    both = np.stack([one, other], axis=1)
    assert blend_weights(both, truth, np.ones(500))[0] > 0.5 > blend_weights(both, truth, np.ones(500), groups)[0]


@pytest.mark.slow
def test_auto_predicts_between_mean_and_median_of_skewed_noise() -> None:
    rng = np.random.default_rng(0)
    clean = sample_table(repeats=6, noise=0.0)
    table = clean.take(clean.context_levels[:, 0] == 1)
    # Slowdowns, some of them large; the mean of the logarithm lies below the median.
    slow = np.exp(-rng.gamma(3.0, 0.15, len(table)))
    skewed = Table(table.schema, table.levels, table.context_levels, table.repeats, table.values * slow)
    median = table.values * np.exp(-0.15 * 2.674)
    value = make_model("auto", {"folds": 2}).fit(skewed).predict_table(skewed).value
    # The mean is 0.05 lower.
    assert -0.045 < np.median(np.log(value / median)) < -0.005


def test_a_blend_that_lies_too_high_on_held_out_runs_is_moved_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def high(learners: dict[str, Any], cells: Cells, *_: Any) -> np.ndarray:
        return np.repeat(cells.mean[:, None] + 0.3, len(learners), axis=1)

    monkeypatch.setattr(AutoModel, "_held_out", staticmethod(high))
    table = sample_table(repeats=1).take(np.arange(40))
    model = make_model("auto").fit(table)
    assert isinstance(model, AutoModel)
    points = model.domain.folded(model.domain.table_points(table))
    # All of it, but where a cell's own runs count; half of it is the way to the median.
    assert np.all(np.abs(model.offset.predict(model.encoder.encode(points)) + 0.25) < 0.051)


def test_uncertainty_is_calibrated() -> None:
    rng = np.random.default_rng(0)
    disagreement = rng.uniform(0.01, 0.2, 20000)
    errors = rng.normal(0, 1, 20000) * np.hypot(3.0 * disagreement, 0.05)
    factor, floor = calibrate(disagreement, errors**2)
    predicted = np.hypot(factor * disagreement, floor)
    assert 0.9 < np.mean(errors**2) / np.mean(predicted**2) < 1.1
    assert calibrate(np.empty(0), np.empty(0)) == (1.0, 0.0)


def test_memory_finds_exactly_what_it_holds() -> None:
    table = sample_table(repeats=1)
    domain = Domain.of(table)
    data = Data.of(domain, table)
    cells = Cells.of(data, make_encoder(domain, data.points))
    memory = Memory.of(cells, cells.mean, np.zeros(len(cells)), domain.contexts)
    assert np.array_equal(memory.find(cells.points), np.arange(len(cells)))
    moved = cells.points.copy()
    moved[:, 1] += 0.5
    assert np.all(memory.find(moved) == -1)
    assert not memory.knows_workload(moved).any()
    moved = cells.points.copy()
    moved[:, -1] = 77
    assert np.all(memory.find(moved) == -1)
    assert memory.knows_workload(moved).all()


# -- classes and metrics ----------------------------------------------------------------------------------------------


def test_performance_classes() -> None:
    bounds = list_class_bounds(110.0)
    assert np.allclose(bounds[:10], 0.55 * np.arange(1, 11))
    widths = np.diff(bounds)
    assert np.allclose(widths[9:] / np.concatenate([[0.55], widths[9:-1]]), 1.1)
    assert bounds[-1] < 110.0
    assert list(classify_values(np.array([0.1, 0.55, 0.56, 5.5, 5.6, 110.0]), bounds)) == [0, 0, 1, 9, 10, len(bounds)]
    assert measure_class_error(np.array([1.0, 2.0]), np.array([1.0, 2.0]), maximize=True) == 0.0
    # Times: twice as slow is half the performance.
    rate = measure_class_error(np.array([100.0, 50.0]), np.array([50.0, 50.0]), maximize=True)
    assert rate == measure_class_error(np.array([0.01, 0.02]), np.array([0.02, 0.02]), maximize=False)


def test_scores_by_hand() -> None:
    found = score_predictions(np.array([100.0, 200.0]), np.array([110.0, 180.0]), maximize=True)
    assert math.isclose(found.prediction_accuracy, 90.0)
    assert math.isclose(found.mape, 10.0)
    assert math.isclose(found.mae, 15.0)
    y, r = np.log([100, 200]), np.log([110, 180])
    assert found.r2_log is not None
    assert math.isclose(found.r2_log, 1 - np.sum((y - r) ** 2) / np.sum((y - y.mean()) ** 2))
    assert score_predictions(np.array([5.0]), np.array([5.0]), maximize=True).r2_log is None
    same = np.full(1000, 0.1)
    assert score_predictions(same, 1.01 * same, maximize=True).r2_log is None, "nothing varies"


def test_the_oracle_knows_medians_of_what_folds_together() -> None:
    table = sample_table(repeats=3, noise=0.2)
    truth = find_true_values(table)
    assert truth is not None
    off = (table.levels[:, 1] == 1) & np.all(table.context_levels == 0, axis=1) & (table.levels[:, 0] == 0)
    assert off.sum() == 9
    assert np.allclose(truth[off], np.median(table.values[off]))
    found = score_oracle(table)
    assert found is not None
    assert math.isclose(found.mape, 100 * np.mean(np.abs(table.values - truth) / table.values))


def test_there_is_no_oracle_without_repeats() -> None:
    table = sized()
    assert score_oracle(table) is None


# -- reading ----------------------------------------------------------------------------------------------------------


def test_rules_are_in_the_units_of_the_table() -> None:
    table = sample_table()
    rules = make_model("tree", {"max_depth": 3}).fit(table).explain().rules
    assert len(rules) == 8
    assert all(rule.startswith("if ") and "value is about" in rule for rule in rules)
    assert any("MiB/s" in rule for rule in rules)
    sizes = [rule for rule in make_model("tree", {"max_depth": 8}).fit(table).explain().rules if "chunk" in rule]
    assert any("chunk <= 2 MiB" in rule or "chunk > 2 MiB" in rule for rule in sizes)


def test_whole_numbers_are_parted_by_whole_numbers() -> None:
    table = sample_table()
    rules = " ".join(make_model("tree", {"max_depth": 8}).fit(table).explain().rules)
    assert "stripes <= 1 " in rules and "nodes > " in rules
    assert not re.search(r"\b(stripes|nodes|cb_nodes) (<=|>) \d+\.", rules)
    # A whole number says the same as the threshold between its neighbours, on which the tree decided.
    columns = [
        Column(name="n", kind="ordinal", role="nodes", scale="log2", values=[1, 2, 3, 8, 9]),
        Column(name="share", kind="ordinal", values=[0.5, 1.5]),
    ]
    domain = Domain.of(table_of(columns, [{"n": n, "share": s, "y": 1.0} for n in (1, 2, 3, 8, 9) for s in (0.5, 1.5)]))
    encoder = Encoder((Feature("log2 n", "log2", (0,)), Feature("share", "value", (1,))))
    for threshold in (0.5, 1.0, 1.3, float(np.float32(math.log2(3))), 2.3, 3.08):
        parted = encoder.encode(np.array([[n, 1.0] for n in range(1, 10)]))[:, 0] <= np.float32(threshold)
        assert write_conditions(domain, encoder, [(0, threshold, True)]) == f"n <= {int(parted.sum())}"
        assert write_conditions(domain, encoder, [(0, threshold, False)]) == f"n > {int(parted.sum())}"
    assert write_conditions(domain, encoder, [(1, 1.0, True)]) == "share <= 1"
    assert write_conditions(domain, encoder, [(1, 0.75, True)]) == "share <= 0.75"
    both = Encoder((Feature("log2 processes", "log2", (0, 0)), Feature("log2 n x share", "log2", (0, 1))))
    assert write_conditions(domain, both, [(0, 1.5, True), (1, 1.5, False)]) == "processes <= 2 and n x share > 2.828"


def test_slow_average_fast() -> None:
    for table in (sample_table(noise=0.01), sample_table(maximize=False)):
        rules = learn_speed_rules(table, depth=8)
        assert sum(int(re.search(r"; (\d+) rows", rule)[1]) for rule in rules) == len(table)
        assert any(": slow (slow 100%" in rule for rule in rules)
        assert any("stripes <= 1 and access = write: slow" in rule for rule in learn_speed_rules(table, depth=2))
    columns = [Column(name="n", kind="ordinal", values=[1, 2, 3, 4])]
    made = table_of(columns, [{"n": n, "y": float(n)} for n in (1, 2, 3, 4) for _ in range(4)])
    assert learn_speed_rules(made)[0] == "if n <= 1: slow (slow 100%, average 0%, fast 0%; 4 rows)"


# -- errors that go together ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.5, 0.8])
def test_error_correlation_is_the_share_of_the_error_that_a_workload_has_in_common(share: float) -> None:
    rng = np.random.default_rng(0)
    workloads = np.repeat(np.arange(2000), 6)
    errors = np.sqrt(share) * rng.normal(size=2000)[workloads] + np.sqrt(1 - share) * rng.normal(size=12_000)
    assert error_correlation(errors, workloads) == pytest.approx(share, abs=0.03)
    # Noise of the measurements is nobody's error.
    noisy = errors + 0.7 * rng.normal(size=12_000)
    assert error_correlation(noisy, workloads, 0.49) == pytest.approx(share, abs=0.05)


def test_errors_of_gains_are_those_within_workloads_of_each_operation() -> None:
    rng = np.random.default_rng(0)
    workloads = np.repeat(np.arange(300), 8)
    operations = workloads % 2
    own = np.where(operations == 0, 0.5, 0.05)
    errors = rng.normal(size=300)[workloads] + own * rng.normal(size=2400)
    found = gain_errors(errors, workloads, operations, 3)
    assert found[:2] == pytest.approx([0.5 * 2**0.5, 0.05 * 2**0.5], rel=0.05)
    assert np.isinf(found[2])
    # Two workloads, and configurations that were measured alone, tell nothing.
    assert np.isinf(gain_errors(errors[:16], workloads[:16], np.zeros(16, dtype=np.int64), 1)).all()
    assert np.isinf(gain_errors(errors[:9], np.arange(9), np.zeros(9, dtype=np.int64), 1)).all()


def test_error_correlation_needs_workloads_of_several_configurations() -> None:
    assert error_correlation(np.ones(5), np.arange(5)) == 0.0
    assert error_correlation(np.ones(6), np.zeros(6, dtype=np.int64)) == 0.95


def test_the_shared_error_cancels_out_of_a_gain() -> None:
    one = LogPrediction(np.array([1.0]), np.array([0.5]), np.array([0.3]))
    other = LogPrediction(np.array([0.0]), np.array([0.4]), np.array([0.2]))
    assert one.gain_deviation(other)[0] == pytest.approx(np.sqrt(0.25 + 0.16 - 2 * 0.06))
    assert one.gain_deviation(LogPrediction(other.mean, other.deviation, np.zeros(1)))[0] == pytest.approx(
        np.hypot(0.5, 0.4)
    )


def test_boosting_knows_how_alike_it_errs() -> None:
    table = sample_table(repeats=1)
    model = make_model("boosting", {"rounds": 40}).fit(table)
    found = model.predict_table(table)
    assert np.allclose(found.shared, found.deviation * np.sqrt(model.error_correlation))
    assert 0.0 <= model.error_correlation <= 0.95


@pytest.mark.parametrize("attack", ["zeros", "shape", "deep", "damaged"])
def test_a_small_upload_takes_little_memory(tmp_path: Path, attack: str) -> None:
    head = "[" * 100_000 if attack == "deep" else json.dumps({"format": FORMAT, "version": VERSION})
    array = io.BytesIO()
    np.save(array, np.zeros((40 << 20) // 8) if attack == "zeros" else np.zeros(4))
    content = array.getvalue()
    if attack == "shape":
        content = content.replace(b"(4,), }", b"(%d,), }" % 2**50).replace(b" " * 15, b"", 1)
    path = tmp_path / "m.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", head)
        archive.writestr("arrays/x.npy", content)
    if attack == "damaged":
        raw = bytearray(path.read_bytes())
        raw[45:60] = b"\xff" * 15
        path.write_bytes(raw)
    # Versions of NumPy before 2 ask for the memory before they see that the file is too short for it.
    refused = r"unpacks to 40 MiB|is not a performance model, or is damaged|needs more memory than there is"
    with pytest.raises(UserError, match=refused):
        read_model_file(path)


def put(place: int, value: float) -> Callable[[np.ndarray], np.ndarray]:
    """Change one number of an array."""

    def changed(array: np.ndarray) -> np.ndarray:
        array[place] = value
        return array

    return changed


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("options", [1]),
        ("domain", "x"),
        ("state", "x"),
        ("noise", 1e400),
        ("domain.low", []),
        ("domain.seen.0", [7, 99]),
        ("domain.seen.0", []),
        ("domain.schema.parameter.0.name", "repeat"),
        ("domain.schema.parameter.0.values.0", float("nan")),
        ("domain.schema.constraints", ["nothing > 1"]),
        ("domain.measured", {"apart": [[1, 0.0, 99, [0.0, 1.0]]], "overruled": []}),
        ("encoder.0.plus", []),
        ("encoder.0.plus", [-1]),
        ("encoder.0.minus", [99]),
        ("encoder.0.least", 0.0),
        ("feature", put(0, 99)),
        ("threshold", put(0, 3e38)),
        ("threshold", lambda array: array.reshape(-1, 1)),
        ("value", put(-1, np.nan)),
        ("value", lambda array: array.astype("U5")),
        ("spread", lambda array: array.reshape(-1, 1)),
    ],
)
def test_what_a_model_file_holds_is_checked_when_it_is_read(tmp_path: Path, where: str, value: Any) -> None:
    """Each of these once became an error of Python's own, where the model was read or only where it was used."""
    path = tmp_path / "model"
    model = make_model("tree").fit(sample_table(repeats=1))
    model.save(path)
    stored = read_model_file(path)
    assert load_model(path).explain() == model.explain()
    head, arrays = json.loads(json.dumps(stored.head)), dict(stored.arrays)
    *above, last = (int(word) if word.isdigit() else word for word in where.split("."))
    if last in arrays:
        arrays[last] = value(arrays[last])
    else:
        functools.reduce(operator.getitem, above, head)[last] = value
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", json.dumps(head))
        for name, array in arrays.items():
            stream = io.BytesIO()
            np.save(stream, array, allow_pickle=False)
            archive.writestr(f"arrays/{name}.npy", stream.getvalue())
    with pytest.raises(UserError) as refused:
        load_model(path)
    assert "\n" not in str(refused.value)


def test_an_array_whose_head_is_no_python_is_refused(tmp_path: Path) -> None:
    path, head = tmp_path / "model", b"{'descr': '<f8', 'shape': (1,), } [[[\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", json.dumps({"format": FORMAT, "version": VERSION}))
        archive.writestr("arrays/a.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    with pytest.raises(UserError, match=r"is damaged: .*EOF in multi-line"):
        read_model_file(path)


def test_a_network_is_as_uncertain_as_its_error_on_workloads_it_did_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[float] = []

    def train(options: object, x: np.ndarray, value: np.ndarray, *_: object) -> NeuralNetwork:
        """A network that says the same of everything, and is sure of it."""
        trained.append(float(np.median(value)))
        weight = np.zeros((1, x.shape[1]), dtype=np.float32)
        return NeuralNetwork((weight,), (np.ones(1, np.float32),), np.ones(x.shape[1]), trained[-1], 0.0, 0.01)

    monkeypatch.setattr(ann, "train", train)
    table = sample_table()
    model = make_model("ann").fit(table)
    assert isinstance(model, ann.AnnModel)
    assert len(trained) == 2 * len(model.networks)
    data = Data.of(model.domain, table)
    spread = {network.spread for network in model.networks.values()}
    assert min(spread) > 0.5 * float(np.std(data.target - np.log(trained[0]))) > 0.01
    assert 0 < model.error_correlation <= 0.95
    assert model.reach == pytest.approx(data.reach)


def test_the_reach_is_the_largest_difference_within_a_workload() -> None:
    def data(target: list[float], workloads: list[int]) -> Data:
        return Data(np.zeros((len(target), 1)), np.array(target), np.arange(len(target)), np.array(workloads))

    assert data([0, 1, 5, 5.5, 9], [0, 0, 1, 1, 2]).reach == 1.0
    assert data([0, 1, 5, 9], [0, 0, 1, 2]).reach == 9.0  # one workload alone says little
    assert data([3], [0]).reach == 0.0


def test_a_tree_is_as_uncertain_as_its_error_on_workloads_it_did_not_see() -> None:
    """Workloads whose level is a matter of chance: a leaf of equal runs knows nothing of the next workload."""
    schema = Schema(
        name="t",
        objective=ObjectiveColumn(direction="maximize"),
        context=[Column(name="job", kind="ordinal", values=list(range(12)))],
        parameter=[Column(name="p", kind="ordinal", values=[1, 2])],
    )
    level = np.exp(np.random.default_rng(0).normal(size=12))
    rows = [
        {"job": j, "p": p, "repeat": r, "objective": level[j] * p} for j in range(12) for p in (1, 2) for r in (0, 1)
    ]
    model = make_model("tree", {"max_depth": 0, "min_rows": 2}).fit(make_table(schema, rows))
    found = model.predict({"job": [3], "p": [1]})
    assert found.value[0] == pytest.approx(level[3]) and found.deviation[0] > 0.5
    # The level is wrong for both values alike, so their ratio is known much better.
    assert (
        LogPrediction(found.mean, found.deviation, found.shared).gain_deviation(
            LogPrediction(found.mean, found.deviation, found.shared)
        )[0]
        < 0.5 * found.deviation[0]
    )
