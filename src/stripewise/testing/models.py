"""The contract of performance models.

Subclass :class:`ModelContract` in a test file, give it your model, and run the tests with pytest or any other runner
that collects methods by the name ``test_*``; they use plain assertions and need no fixture.
"""

from __future__ import annotations

import itertools
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.catalogue.configuration import Value
from stripewise.errors import UserError
from stripewise.models.base import PerformanceModel, Prediction
from stripewise.models.domain import table_frame
from stripewise.models.registry import load_model
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table

_NOISE = 0.05
_TRUNCATED = 100
_FITTED: dict[type, PerformanceModel] = {}


def sample_table(*, repeats: int = 2, maximize: bool = True, noise: float = _NOISE, seed: int = 0) -> Table:
    """Make a table of a made-up site: both operations, four node counts, three transfer sizes, and three tunables.

    Values follow a simple law (whichever of nodes and stripes is fewer limits) times log-normal noise.

    Parameters
    ----------
    repeats : int
        Runs of each configuration.
    maximize : bool
        Bandwidth if true, else time.
    noise : float
        Standard deviation of the logarithm.
    seed : int
    """
    schema = Schema(
        name="sample",
        objective=ObjectiveColumn(
            column="value", direction="maximize" if maximize else "minimize", unit="MiB/s" if maximize else "s"
        ),
        context=[
            Column(name="access", kind="categorical", role="operation", values=["read", "write"]),
            Column(name="nodes", kind="ordinal", role="nodes", scale="log2", values=[1, 2, 4, 8]),
            Column(name="chunk", kind="ordinal", role="transfer_size", unit="MiB", scale="log2", values=[1, 4, 16]),
        ],
        parameter=[
            Column(name="stripes", kind="ordinal", role="stripe_count", scale="log2", values=[1, 2, 4, 8], default=1),
            Column(
                name="cb",
                kind="categorical",
                role="collective_buffering",
                values=["automatic", "disable", "enable"],
                default="automatic",
            ),
            Column(name="cb_nodes", kind="ordinal", role="aggregators", values=[1, 2, 4], default=1),
        ],
    )
    rng = np.random.default_rng(seed)
    rows = []
    names = [column.name for column in schema.columns]
    for values in itertools.product(*(column.values for column in schema.columns)):
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        rate = 100.0 * min(3 * row["nodes"], 2 * row["stripes"]) * row["chunk"] ** 0.2
        rate *= 1.6 if row["access"] == "read" else 1.0
        rate *= 0.7 if row["cb"] == "disable" else 1.0 + 0.1 * np.log2(row["cb_nodes"])
        for repeat in range(repeats):
            value = rate * np.exp(rng.normal(0.0, noise))
            rows.append({**row, "repeat": repeat, "value": value if maximize else 1e5 / value})
    return make_table(schema, rows, "sample")


class ModelContract:
    """What prescriptions, searches and validations rely on.

    A subclass defines :meth:`make`::

        class TestMyModel(ModelContract):
            def make(self):
                return MyModel()

    Attributes
    ----------
    accuracy : float
        Least prediction accuracy, in percent, for a third of :func:`sample_table` that was not learned from.
    suffix : str
        Of model files.
    """

    accuracy = 80.0
    suffix = ".model"

    def make(self) -> PerformanceModel:
        """Make an unfitted model; called often, so that nothing can be carried over in an instance."""
        raise NotImplementedError("define make() in your subclass")

    def fitted(self) -> PerformanceModel:
        """Give a model fitted to one run of each row; tests that only ask it share one, for a fit may be slow."""
        if type(self) not in _FITTED:
            _FITTED[type(self)] = self.make().fit(sample_table(repeats=1))
        return _FITTED[type(self)]

    # -- predictions ---------------------------------------------------------------------------------------

    def test_learns_what_it_has_not_seen(self) -> None:
        """Rows that were held out are predicted, for either direction of the objective."""
        for maximize in (True, False):
            table = sample_table(repeats=1, maximize=maximize)
            third = np.random.default_rng(1).permutation(len(table)) % 3 == 0
            predicted = self.make().fit(table.take(~third)).predict_table(table.take(third))
            actual = table.values[third]
            accuracy = 100.0 - 100.0 * float(np.mean(np.abs(actual - predicted.value) / actual))
            assert accuracy >= self.accuracy, f"prediction accuracy {accuracy:.1f}%"
            turned = np.log(predicted.value) * (1 if maximize else -1)
            assert np.array_equal(predicted.mean, turned), "mean is not ln(performance), larger is better"

    def test_predictions_are_positive_and_finite(self) -> None:
        """Also between and far beyond the values of the training."""
        table = sample_table()
        model = self.fitted()
        frame: dict[str, Sequence[Value]] = {
            "access": ["read", "write"] * 4,
            "nodes": [1, 3, 6, 8, 1000, 1, 2, 8],
            "chunk": [1, 2, 9, 16, 0.001, 1e6, 4, 4],
            "stripes": [1, 3, 5, 8, 2000, 1, 8, 8],
            "cb": ["automatic", "disable", "enable", "automatic"] * 2,
            "cb_nodes": [1, 2, 3, 4, 64, 1, 2, 4],
        }
        _check(model.predict(frame), 8)
        assert any("nodes = 1000" in sentence for sentence in model.domain.outside(frame))
        assert model.domain.outside(table_frame(table)) == []
        _check(model.predict({name: [] for name in frame}), 0)

    def test_a_row_is_predicted_alike_in_any_company(self) -> None:
        """Neither order nor number nor further columns of the rows change a prediction; nor does the way in."""
        table = sample_table(repeats=1)
        model = self.fitted()
        frame = table_frame(table)
        together = model.predict({**frame, "unknown": [0] * len(table)})
        by_table = model.predict_table(table)
        assert np.allclose(together.value, by_table.value, rtol=1e-9)
        order = np.random.default_rng(2).permutation(len(table))[:37]
        some = model.predict({name: [column[i] for i in order] for name, column in frame.items()})
        assert np.allclose(some.value, together.value[order], rtol=1e-9)
        assert np.allclose(some.deviation, together.deviation[order], rtol=1e-6, atol=1e-9)

    def test_inactive_parameters_change_nothing(self) -> None:
        """Without collective buffering the number of aggregators means nothing."""
        model = self.fitted()
        frame: dict[str, Sequence[Value]] = {
            "access": ["write"] * 3,
            "nodes": [4] * 3,
            "chunk": [4] * 3,
            "stripes": [4] * 3,
            "cb": ["disable"] * 3,
        }
        value = model.predict({**frame, "cb_nodes": [1, 2, 4]}).value
        assert np.ptp(value) == 0, f"values {value}"

    # -- odd tables ----------------------------------------------------------------------------------------

    def test_odd_tables(self) -> None:
        """Constant columns, constant values, two rows, one configuration: a model, not a crash."""
        table = sample_table()
        # Both runs of each fifth configuration.
        table = table.take(np.flatnonzero(np.arange(len(table)) // 2 % 5 == 0))
        write = table.take(table.context_levels[:, 0] == 1)
        _check(self.make().fit(write).predict_table(write), len(write))
        flat = Table(table.schema, table.levels, table.context_levels, table.repeats, np.full(len(table), 5.0))
        predicted = self.make().fit(flat).predict_table(flat)
        assert np.allclose(predicted.value, 5.0, rtol=0.2), "a constant is predicted otherwise"
        two = table.take(np.array([0, len(table) - 1]))
        _check(self.make().fit(two).predict_table(two), 2)
        one = table.take(np.array([0, 1]))
        _check(self.make().fit(one).predict_table(one), 2)

    def test_refuses_what_has_no_logarithm(self) -> None:
        """A value of zero, or one row only, is refused with a sentence."""
        table = sample_table(repeats=1)
        values = table.values.copy()
        values[3] = 0.0
        broken = Table(table.schema, table.levels, table.context_levels, table.repeats, values)
        _expect_refusal(lambda: self.make().fit(broken), "not positive")
        _expect_refusal(lambda: self.make().fit(table.take(np.array([0]))), "1 rows")

    def test_refuses_what_it_cannot_know(self) -> None:
        """Missing columns, unknown categories, values that are not numbers."""
        table = sample_table(repeats=1)
        reads = table.take(np.flatnonzero(table.context_levels[:, 0] == 0)[::4])
        model = self.make().fit(reads)
        frame = {name: column[:2] for name, column in table_frame(reads).items()}
        _expect_refusal(lambda: model.predict({n: c for n, c in frame.items() if n != "stripes"}), "stripes")
        _expect_refusal(lambda: model.predict({**frame, "cb": ["enable", "always"]}), "always")
        _expect_refusal(lambda: model.predict({**frame, "access": ["write", "read"]}), "write")
        _expect_refusal(lambda: model.predict({**frame, "nodes": [1, float("nan")]}), "nodes")
        _expect_refusal(lambda: model.predict({**frame, "nodes": [1, float("inf")]}), "nodes")
        _expect_refusal(lambda: model.predict({**frame, "nodes": [1, "many"]}), "nodes")
        _expect_refusal(lambda: model.predict({**frame, "nodes": [1, 2, 4]}), "length")
        _expect_refusal(lambda: self.make().predict(frame), "learned")

    # -- repeatability and files ---------------------------------------------------------------------------

    def test_same_seed_same_model(self) -> None:
        """Neither the global generator nor an earlier fit leaks in, and the table is not changed."""
        table = sample_table(repeats=1).take(np.arange(0, 864, 9))
        before = table.values.copy()
        first = self.make().fit(table, seed=3).predict_table(table)
        np.random.seed(99)
        again = self.make()
        again.fit(table.take(np.arange(len(table)) % 4 == 0), seed=5)
        second = again.fit(table, seed=3).predict_table(table)
        assert np.array_equal(first.value, second.value)
        assert np.array_equal(before, table.values)

    def test_a_file_gives_the_same_model(self) -> None:
        """What is loaded predicts to the bit what was saved, and knows as much of itself."""
        table = sample_table(repeats=1)
        model = self.fitted()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"a{self.suffix}"
            model.save(path)
            loaded = load_model(path)
            assert [p.name for p in Path(folder).iterdir()] == [path.name], "something else was left behind"
        assert loaded.name == model.name
        assert loaded.noise == model.noise
        assert loaded.domain == model.domain
        assert loaded.options == model.options
        assert loaded.explain() == model.explain()
        one, two = model.predict_table(table), loaded.predict_table(table)
        assert np.array_equal(one.value, two.value)
        assert np.array_equal(one.deviation, two.deviation)

    def test_damaged_files_are_refused(self) -> None:
        """Half a file, another format, or no file: one sentence each."""
        model = self.fitted()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"a{self.suffix}"
            model.save(path)
            whole = path.read_bytes()
            for size in (0, _TRUNCATED, len(whole) // 2, len(whole) - _TRUNCATED):
                path.write_bytes(whole[:size])
                _expect_refusal(lambda: load_model(path), path.name)
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("model.json", "[1, 2]")
            _expect_refusal(lambda: load_model(path), path.name)
            _expect_refusal(lambda: load_model(Path(folder) / "none"), "none")
            _expect_refusal(lambda: model.save(Path(folder) / "no" / "such" / "folder"), "folder")

    # -- explanation ---------------------------------------------------------------------------------------

    def test_explains_itself(self) -> None:
        """Shares of the columns, if any are given, are those of the schema and add up to one."""
        table = sample_table()
        shares = self.fitted().explain().importance
        if shares:
            assert set(shares) == {column.name for column in table.schema.columns}
            assert abs(sum(shares.values()) - 1.0) < 1e-6
            assert all(share >= 0 for share in shares.values())
            assert list(shares.values()) == sorted(shares.values(), reverse=True)


def _check(predicted: Prediction, rows: int) -> None:
    assert predicted.value.shape == predicted.deviation.shape == (rows,)
    assert np.all(np.isfinite(predicted.value)), "a value is not finite"
    assert np.all(predicted.value > 0), "a value is not positive"
    assert np.all(np.isfinite(predicted.deviation)), "a deviation is not finite"
    assert np.all(predicted.deviation >= 0), "a deviation is negative"
    assert predicted.shared.shape == (rows,)
    assert np.all((predicted.shared >= 0) & (predicted.shared <= predicted.deviation)), "more is shared than there is"


def _expect_refusal(action: Callable[[], object], word: str) -> None:
    try:
        action()
    except UserError as error:
        assert word in str(error), f"the message does not name {word!r}: {error}"
    else:
        raise AssertionError(f"nothing was refused where {word!r} should have been")
