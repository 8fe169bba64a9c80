"""What every performance model is: it learns from a table and says what a workload and configuration will achieve.

Categories that were never measured (another program, another API), predicted from those that were.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.models.cells import Data, group_rows
from stripewise.models.domain import NEW, Domain, Floats, Frame
from stripewise.models.features import Encoder, Matrix, make_encoder
from stripewise.models.files import Stored, mapping, write_model_file
from stripewise.models.measured import find_measured
from stripewise.models.network import NeuralNetwork
from stripewise.models.table import Table
from stripewise.models.trees.ensemble import Trees
from stripewise.models.tunables import extend_schema
from stripewise.options import Options
from stripewise.threads import for_rows

_MOST_COMBINATIONS = 64
_TINY = 1e-12


def ask_measured_categories(
    domain: Domain,
    points: Floats,
    ask: Callable[[Floats], Floats],
    merge: Callable[[Floats, NDArray[np.int64]], Floats],
) -> Floats:
    """Ask about points; about one with a category that was never measured, with each measured one in its place.

    Shapes: returns ``(k, n)``.

    Parameters
    ----------
    points : ndarray, shape (n, c)
    ask : callable
        Points whose categories were all measured, shape ``(m, c)``, to answers, shape ``(k, m)``.
    merge : callable
        Answers with each measured category, shape ``(categories, k, m)``, and the number of each point's workload,
        shape ``(m,)``, to answers, shape ``(k, m)``.
    """
    new = domain.is_new(points)
    if not new.any():
        return ask(points)
    measured = ask(points[~new])
    result = np.empty((len(measured), len(points)))
    result[:, ~new] = measured
    for rows, variants in _replace_unknown(domain, points, np.flatnonzero(new)):
        workload = group_rows(points[rows, : domain.contexts])
        result[:, rows] = merge(np.stack([ask(variant) for variant in variants]), workload)
    return result


def _replace_unknown(
    domain: Domain, points: Floats, rows: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], list[Floats]]]:
    """Give rows that lack the same columns, with each combination of measured categories in these columns.

    Of many combinations 64 are drawn, always the same.
    """
    lacks, member = np.unique(points[rows, : domain.contexts] == NEW, axis=0, return_inverse=True)
    for number, columns in enumerate(lacks):
        alike = rows[member.reshape(-1) == number]
        places = np.flatnonzero(columns)
        combinations = list(itertools.product(*(domain.seen[place] for place in places)))
        if len(combinations) > _MOST_COMBINATIONS:
            drawn = np.random.default_rng(0).permutation(len(combinations))[:_MOST_COMBINATIONS]
            combinations = [combinations[place] for place in drawn]
        variants = []
        for combination in combinations:
            variant = points[alike].copy()
            variant[:, places] = combination
            variants.append(variant)
        yield alike, variants


def predict_one_more(each: Floats, workload: NDArray[np.int64]) -> Floats:
    """Predict one more category from predictions with each measured one in its place.

    Shapes: returns ``(3, n)``.

    Parameters
    ----------
    each : ndarray, shape (categories, 3, n)
        Mean, deviation and shared deviation of ln(value); at least two categories.
    workload : ndarray of int, shape (n,)
        Number of each row's workload.
    """
    mean, square = each[:, 0], each[:, 1:] ** 2
    rows = np.bincount(workload)
    usual = np.stack([np.bincount(workload, weights=one) / rows for one in mean])[:, workload]
    more = (1.0 + 1.0 / len(each)) / (len(each) - 1)
    apart, common = mean - mean.mean(axis=0), usual - usual.mean(axis=0)
    # What follows the mean of a workload's configurations cancels out of a gain.
    follows = np.maximum((apart * common).sum(axis=0), 0.0) ** 2 / np.maximum((common**2).sum(axis=0), _TINY)
    variance, shared = square.mean(axis=0)
    return np.stack(
        [
            mean.mean(axis=0),
            np.sqrt(variance + more * (apart**2).sum(axis=0)),
            np.sqrt(shared + more * follows),
        ]
    )


_LEAST_ROWS = 2
_ROWS = "rows"
_CHUNK = 200_000
_SAMPLE = 512
_LARGEST = 700.0
"""No number has a larger logarithm."""
_MANY = 20_000


class ModelOptions(Options):
    """Options of a model; see :class:`stripewise.options.Options`."""


@dataclass(frozen=True)
class Prediction:
    """What a model expects of points.

    Attributes
    ----------
    value : ndarray, shape (n,)
        Typical value of the objective (about the median of many runs), in its unit; always positive.
    deviation : ndarray, shape (n,)
        How far the typical value may be from ``value``: one standard deviation of its natural logarithm. The noise of a
        single run is not in it; that is :attr:`PerformanceModel.noise`.
    maximize : bool
        Whether larger values are better.
    shared : ndarray, shape (n,)
        The part of ``deviation`` by which all configurations of a workload are wrong alike: it cancels out of a gain.
    """

    value: Floats
    deviation: Floats
    maximize: bool
    shared: Floats

    @property
    def mean(self) -> Floats:
        """Natural logarithm of performance: ``ln value``, with the sign turned where smaller is better."""
        logarithm: Floats = np.log(self.value)
        return logarithm if self.maximize else -logarithm

    def __len__(self) -> int:
        return len(self.value)


def combine_deviations(deviation: Floats, shared: Floats, other: Floats, other_shared: Floats) -> Floats:
    """Standard deviation of the difference of two predictions of ln(value) for the same workload, elementwise."""
    square = deviation**2 + other**2 - 2.0 * shared * other_shared
    result: Floats = np.sqrt(np.maximum(square, 0.0))
    return result


def limit_gain(gain: Any, deviation: Any, reach: float) -> tuple[Any, Any]:
    """Give a gain in ln(value) and its standard deviation as far as the measurements support them.

    A prediction beyond all that was measured is wrong by the excess at least, however sure the model is of it.

    Parameters
    ----------
    reach : float
        See :class:`PerformanceModel`.
    """
    if reach <= 0:
        return gain, deviation
    return np.minimum(gain, reach), np.maximum(deviation, gain - reach)


@dataclass(frozen=True)
class Explanation:
    """What a model says about itself.

    Attributes
    ----------
    importance : dict
        Column of the table to its share in what the model predicts, largest first; they add up to 1 (or are all 0).
    rules : tuple of str
        The model as rules or equations, where it is small enough to be read.
    """

    importance: dict[str, float] = field(default_factory=dict)
    rules: tuple[str, ...] = ()


class PerformanceModel(ABC):
    """A model of performance.

    A subclass has a :attr:`name`, its :attr:`Options`, and four methods: :meth:`_fit`, :meth:`_predict`,
    :meth:`_state`, :meth:`_restore`. Everything it learns is a function of the data it is given and of the seed.

    Attributes
    ----------
    domain : Domain
        Columns, roles, units, ranges; after :meth:`fit`.
    encoder : Encoder
        Points to features; after :meth:`fit`.
    noise : float
        Standard deviation of ln(value) of single runs about their typical value; 0 where nothing was repeated.
    error_correlation : float
        Share of the variance of a prediction's error that all configurations of one workload have in common, 0 to 1;
        0 where a model has no evidence of it. See :func:`stripewise.models.cells.error_correlation`.
    reach : float
        Largest difference in ln(value) between configurations of one workload that was measured; 0 where unknown.
    rows : ndarray of int, shape (n,)
        What it learned, see :meth:`~stripewise.models.table.Table.digest_rows`; empty for files of earlier versions.
    gain_errors : ndarray, shape (operations,) or (1,)
        How far predicted gains of held-out workloads were wrong, by operation; infinite where a model has no evidence.
        See :func:`stripewise.models.cells.gain_errors`.
    """

    name: ClassVar[str]
    Options: ClassVar[type[ModelOptions]] = ModelOptions
    retired_options: ClassVar[frozenset[str]] = frozenset()
    """Options that only files of earlier versions have; they are ignored there."""

    def __init__(self, options: ModelOptions | None = None) -> None:
        self.options = self.Options() if options is None else options
        self.noise = 0.0
        self.error_correlation = 0.0
        self.reach = 0.0
        self._domain: Domain | None = None
        self._encoder: Encoder | None = None
        self.gain_errors: Floats = np.array([np.inf])
        self.rows: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._margins: Floats | None = None

    @property
    def domain(self) -> Domain:
        """The domain.

        Raises
        ------
        UserError
            Before the model has learned anything.
        """
        if self._domain is None:
            raise UserError(f"the model {self.name} has not learned anything yet", "fit it, or load one")
        return self._domain

    @property
    def encoder(self) -> Encoder:
        """The encoder; see :attr:`domain`."""
        if self._encoder is None:
            raise UserError(f"the model {self.name} has not learned anything yet", "fit it, or load one")
        return self._encoder

    def add_stacks(self, stacks: Iterable[str]) -> None:
        """Add stacks of the user's own, which say how columns are set; what was learned stays as it is.

        Parameters and errors as for :func:`~stripewise.models.tunables.extend_schema`.
        """
        self._domain = dataclasses.replace(self.domain, schema=extend_schema(self.domain.schema, stacks))

    # -- learning ------------------------------------------------------------------------------------------

    def fit(self, table: Table, seed: int = 0) -> Self:
        """Learn from all rows of a table.

        Parameters
        ----------
        table : Table
            At least two rows, all values positive.
        seed : int
            The same table and seed always give the same model.

        Raises
        ------
        UserError
            Too few rows, or values that are not positive.
        """
        if len(table) < _LEAST_ROWS:
            raise UserError(
                f"table {table.name} has {len(table)} rows to learn from", f"at least {_LEAST_ROWS} are needed"
            )
        table.check_learnable()
        self._domain = Domain.of(table)
        data = Data.of(self._domain, table)
        self._domain = dataclasses.replace(self._domain, measured=find_measured(self._domain, data.points, data.target))
        self._encoder = self._make_encoder(self._domain, data.points)
        self.noise = data.noise
        self.reach = data.reach
        self.rows = table.digest_rows()
        self._margins = None
        with for_rows(len(table)):
            self._fit(data, np.random.default_rng(seed))
        return self

    def _make_encoder(self, domain: Domain, points: Floats) -> Encoder:
        return make_encoder(domain, points)

    @abstractmethod
    def _fit(self, data: Data, rng: np.random.Generator) -> None:
        """Learn ``data.target`` (natural logarithms) from ``self.encoder.encode(data.points)``."""

    # -- predicting ----------------------------------------------------------------------------------------

    def predict(self, frame: Frame) -> Prediction:
        """Predict rows given as columns by name.

        Parameters
        ----------
        frame : mapping of str to sequence
            One value per row of every context and parameter; others are passed over. Values of ordered columns may lie
            between and beyond those of the training, and categories of the workload may be others
            (:meth:`Domain.outside` says which are).

        Raises
        ------
        UserError
            As :meth:`Domain.points`.
        """
        return self.predict_points(self.domain.points(frame))

    def predict_table(self, table: Table) -> Prediction:
        """Predict the rows of a table (its values are not looked at)."""
        return self.predict_points(self.domain.table_points(table))

    def predict_points(self, points: Floats) -> Prediction:
        """Predict points, see :class:`Domain`; shape ``(n, c)``.

        A point with a category that was never measured is predicted with each measured one in its place. The mean
        counts, and the deviation holds how far they differ (the law of total variance, for one more category).
        """
        found = ask_measured_categories(self.domain, points, self._predict_measured, predict_one_more)
        mean, deviation, shared = found
        if not np.all(np.abs(found) < _LARGEST):
            raise UserError(f"the model {self.name} predicts values that no measurement has", "train it again")
        return Prediction(np.exp(mean), deviation, self.domain.objective.maximize, shared)

    def _predict_measured(self, points: Floats) -> Floats:
        """Mean, deviation and the shared part of it of ln(value), shape ``(3, n)``; every category was measured."""
        result = np.empty((3, len(points)))
        for start in range(0, len(points), _CHUNK):
            part = slice(start, start + _CHUNK)
            folded = self.domain.folded(points[part])
            mean, deviation = self._predict(folded, self.encoder.encode(folded))
            result[:, part] = mean, deviation, self._shared(folded, deviation)
        return result

    def _shared(self, points: Floats, deviation: Floats) -> Floats:
        """The shared part of the deviations of folded points, see :class:`Prediction`."""
        shared: Floats = deviation * np.sqrt(self.error_correlation)
        return shared

    @abstractmethod
    def _predict(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        """Mean and standard deviation of ln(value).

        Parameters
        ----------
        points : ndarray, shape (n, c)
            Folded.
        x : ndarray of float32, shape (n, f)
            Their features.
        """

    def expected(self, points: Floats) -> Floats:
        """Natural logarithm of performance, larger is better, of points; of many only nearly, where that is quicker."""
        rough = self.rough(points) if len(points) > _MANY else None
        return self.predict_points(points).mean if rough is None else rough

    def rough(self, points: Floats) -> Floats | None:
        """Natural logarithm of performance, or nearly, where the model can tell it much faster; else None.

        ``auto`` has an ensemble for this purpose, ``boosting`` takes one of its five; the mean of other ensembles is a
        single sum of trees.
        """
        trees = self.screening()
        if trees is None or len(trees) == 0:
            return None

        def ask(points: Floats) -> Floats:
            return trees.predict(self.encoder.encode(self.domain.folded(points)))[None, :]

        found: Floats = ask_measured_categories(self.domain, points, ask, lambda each, workload: each.mean(axis=0))[0]
        return found if self.domain.objective.maximize else -found

    def margins(self) -> Floats:
        """Logarithm of the gain below which the current settings are kept, of each value of the operation's column.

        It is the standard deviation of the difference of two predictions: the median over points of the model's own
        grid, but no more than what predicted gains of held-out workloads were wrong by. (The grid has points that no
        measurement is like, where the members of a model disagree.) Without such a column it is a single number.
        """
        if self._margins is None:
            domain, rng, frame = self.domain, np.random.default_rng(0), {}
            for column, seen in zip(domain.columns, domain.seen, strict=True):
                values = [column.values[place] for place in seen]
                frame[column.name] = [values[int(i)] for i in rng.integers(len(values), size=_SAMPLE)]
            points = domain.points(frame)
            told = self.predict_points(points)
            each = combine_deviations(told.deviation, told.shared, told.deviation, told.shared)
            place = domain.operation
            number = 1 if place is None else len(domain.columns[place].values)
            own = np.zeros(_SAMPLE) if place is None else points[:, place]
            found = [each[own == value] for value in range(number)]
            own_median = np.array([np.median(some if len(some) else each) for some in found])
            self._margins = np.minimum(own_median, self.gain_errors)
        return self._margins

    # -- standing in ---------------------------------------------------------------------------------------

    def runtime_form(self) -> Trees | Mapping[int, NeuralNetwork] | None:
        """What the runtime evaluates in place of the model; None where it has no form for the model.

        Called when a model is exported (:mod:`stripewise.models.artifact.export`).

        Returns
        -------
        Trees
            Their sum is ln(value).
        mapping of int to NeuralNetwork
            By place of the operation among its column's values, -1 where one network is for everything; they give the
            value itself.
        """
        return None

    def screening(self) -> Trees | None:
        """Trees whose sum is about ln(value), up to a constant, to choose quickly which of many points to predict.

        By default what the runtime evaluates, if that is trees.
        """
        form = self.runtime_form()
        return form if isinstance(form, Trees) else None

    def measured(self) -> tuple[Floats, Floats] | None:
        """Folded points of the training that the model remembers, and their typical values; None if it forgets them."""
        return None

    def places(self) -> Floats | None:
        """Folded points of all that was measured, each at least once, shape ``(n, c)``; None if it forgets them."""
        return None

    # -- explaining ----------------------------------------------------------------------------------------

    def explain(self) -> Explanation:
        """Say what the model has learned."""
        return Explanation(self._by_column(self._importance()), tuple(self._rules()))

    def _importance(self) -> Floats | None:
        """Importance of each feature, by default that of :meth:`runtime_form`; None where the model knows none."""
        form = self.runtime_form()
        return form.importance(len(self.encoder.features)) if isinstance(form, Trees) else None

    def _rules(self) -> list[str]:
        return []

    def _by_column(self, importance: Floats | None) -> dict[str, float]:
        """Hand the importance of features to their columns; that of a ratio in equal parts to each of them."""
        if importance is None:
            return {}
        shares = dict.fromkeys(self.domain.names, 0.0)
        for feature, weight in zip(self.encoder.features, importance, strict=True):
            columns = [*feature.plus, *feature.minus]
            for column in columns:
                shares[self.domain.names[column]] += float(weight) / len(columns)
        whole = sum(shares.values()) or 1.0
        return {name: share / whole for name, share in sorted(shares.items(), key=lambda item: -item[1])}

    # -- keeping -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model to a file that :func:`stripewise.models.registry.load_model` reads.

        The file is written whole or not at all. It holds numbers and texts, no code.

        Raises
        ------
        UserError
            If it cannot be written.
        """
        write_model_file(path, self._stored())

    def _stored(self) -> Stored:
        document, arrays = self._state()
        head = {
            "model": self.name,
            "options": self.options.model_dump(mode="json"),
            "domain": self.domain.as_json(),
            "encoder": self.encoder.as_json(),
            "noise": self.noise,
            "kinship": self.error_correlation,
            "reach": self.reach,
            "state": document,
        }
        return Stored(head, {**arrays, _ROWS: self.rows})

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What was learned, as JSON's types and arrays of numbers."""

    @abstractmethod
    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take back what :meth:`_state` gave; :attr:`domain` and :attr:`encoder` are there already."""

    @classmethod
    def restored(cls, stored: Stored) -> Self:
        """Make a model from what :meth:`save` wrote.

        All that the file holds is checked here, so that whoever uses the model need not: each part by the method that
        reads it, against the domain and the features.

        Raises
        ------
        KeyError, TypeError, ValueError, OverflowError, UserError
            If it is not what :meth:`save` wrote.
        """
        for name, array in stored.arrays.items():
            if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
                raise ValueError(f"the array {name} has what is not a number")
        options = {
            key: value for key, value in mapping(stored.head["options"]).items() if key not in cls.retired_options
        }
        model = cls(cls.Options.model_validate(options))
        model._domain = Domain.from_json(mapping(stored.head["domain"]))
        model._encoder = Encoder.from_json(stored.head["encoder"], model._domain)
        model.noise = float(stored.head["noise"])
        model.error_correlation = float(stored.head.get("kinship", 0.0))
        model.reach = float(stored.head.get("reach", 0.0))
        if not (math.isfinite(model.noise) and model.noise >= 0 and 0 <= model.error_correlation <= 1):
            raise ValueError("its noise, or the correlation of its errors, is no such number")
        arrays = dict(stored.arrays)
        model.rows = np.asarray(arrays.pop(_ROWS, model.rows), dtype=np.int64).reshape(-1)
        model._restore(mapping(stored.head["state"]), arrays)
        # An earlier version wrote no more than what a model remembers.
        if model._domain.measured is None and (places := model.places()) is not None:
            known = model.measured()
            target = None if known is None else np.log(known[1])
            model._domain = dataclasses.replace(model._domain, measured=find_measured(model._domain, places, target))
        return model
