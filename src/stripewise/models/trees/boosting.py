"""``boosting``: gradient-boosted trees (LightGBM) on the logarithm of performance, with the features by role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stripewise.models.base import ModelOptions, PerformanceModel
from stripewise.models.cells import Data, error_correlation
from stripewise.models.domain import Floats
from stripewise.models.features import Matrix, at_least_one
from stripewise.models.trees.ensemble import Trees
from stripewise.threads import threads

_COPIES = 5


class BoostingOptions(ModelOptions):
    """Options of ``boosting``."""

    rounds: int = Field(default=300, ge=1, le=5000, description="trees")
    leaves: int = Field(default=31, ge=2, le=1024, description="most leaves of a tree")
    learning_rate: float = Field(default=0.05, gt=0, le=1, description="share of each tree that is added")
    min_rows: int = Field(default=3, ge=1, le=1000, description="least rows of a leaf")


class BoostingModel(PerformanceModel):
    """Gradient-boosted trees (Friedman, 2001; LightGBM: Ke and others, 2017).

    Five are fitted, each without a fifth of the configurations; the prediction is their mean. By how much they
    disagree, in proportion to their errors where they did not learn, is the uncertainty.
    """

    name: ClassVar[str] = "boosting"
    Options: ClassVar[type[ModelOptions]] = BoostingOptions
    options: BoostingOptions
    trees: Trees
    parts: list[int]
    """Number of trees of each of the five."""
    factor: float
    floor: float

    def _fit(self, data: Data, rng: np.random.Generator) -> None:
        x = at_least_one(self.encoder.encode(data.points))
        cells = np.unique(data.cells)
        copies = min(_COPIES, len(cells))
        fold = np.zeros(int(data.cells.max()) + 1, dtype=np.int64)
        fold[cells] = rng.permutation(len(cells)) % max(copies, 1)
        fold = fold[data.cells]
        seed = int(rng.integers(2**31))
        members = []
        disagreement, errors = np.empty(0), np.empty(0)
        for k in range(copies):
            keep = fold != k if copies > 1 else np.ones(len(data), dtype=bool)
            members.append(boost(x[keep], data.target[keep], None, seed + k, self.options).trees)
        each = np.stack([member.predict(x) for member in members])
        if copies > 1:
            held_out = each[fold, np.arange(len(data))]
            disagreement = each.std(axis=0, ddof=1)
            # What is left once the noise of the run itself is taken off.
            errors = np.maximum((data.target - held_out) ** 2 - data.noise**2, 0.0)
            self.error_correlation = error_correlation(data.target - held_out, data.workloads, data.noise**2)
        self.factor, self.floor = calibrate(disagreement, errors)
        self.parts = [len(member) for member in members]
        self.trees = Trees.joined([member.scaled(1.0 / copies) for member in members])

    def _predict(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        each = self.trees.predict_each(x)
        ends = np.cumsum(self.parts)[:-1]
        copies = len(self.parts)
        sums = np.stack([part.sum(axis=1) for part in np.split(each, ends, axis=1)], axis=1) * copies
        spread = sums.std(axis=1, ddof=1) if copies > 1 else np.zeros(len(x))
        return sums.mean(axis=1) + self.trees.bias, np.hypot(self.factor * spread, self.floor)

    def screening(self) -> Trees:
        """See :meth:`PerformanceModel.screening`: one of the five."""
        return self._first

    @cached_property
    def _first(self) -> Trees:
        own = self.trees.first(self.parts[0])
        return replace(own, value=own.value * np.float32(len(self.parts)))

    def runtime_form(self) -> Trees:
        """See :meth:`PerformanceModel.runtime_form`."""
        return self.trees

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        document = {"bias": self.trees.bias, "parts": self.parts, "factor": self.factor, "floor": self.floor}
        return document, self.trees.arrays()

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.trees = Trees.restored(arrays, len(self.encoder.features), float(document["bias"]))
        self.parts = [int(n) for n in document["parts"]]
        if sum(self.parts) != len(self.trees) or min(self.parts, default=0) < 0:
            raise ValueError("the parts do not add up to the trees")
        self.factor, self.floor = float(document["factor"]), float(document["floor"])


@dataclass(frozen=True, eq=False)
class Boosted:
    """Boosted trees as LightGBM grew them (None for a constant), to which ``bias`` is added."""

    booster: Any
    bias: float
    features: int

    def predict(self, x: Matrix) -> Floats:
        """Predicted targets, shape ``(n,)``."""
        if self.booster is None or len(x) == 0:
            return np.full(len(x), self.bias)
        values: Floats = self.booster.predict(x, num_threads=threads(len(x)))
        return values + self.bias

    def importance(self) -> Floats:
        """Total gain of each feature, shape ``(f,)``."""
        if self.booster is None:
            return np.zeros(self.features)
        return np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)

    @property
    def trees(self) -> Trees:
        """The same as plain arrays."""
        if self.booster is None:
            return Trees.constant(self.bias)
        return replace(Trees.from_lightgbm(self.booster), bias=self.bias)


def boost(
    x: Matrix,
    target: Floats,
    weight: Floats | None,
    seed: int,
    options: BoostingOptions = BoostingOptions(),  # noqa: B008  immutable
    **more: Any,
) -> Boosted:
    """Fit boosted trees.

    Parameters
    ----------
    x : ndarray, shape (n, f)
        At least one column.
    target : ndarray, shape (n,)
    weight : ndarray, shape (n,), optional
    **more
        Further parameters of LightGBM.
    """
    import lightgbm  # noqa: PLC0415  slow import

    bias = float(np.average(target, weights=weight))
    parameters = {
        "objective": "regression",
        "num_leaves": options.leaves,
        "learning_rate": options.learning_rate,
        "min_data_in_leaf": options.min_rows,
        "min_data_in_bin": 1,
        "use_missing": False,
        "boost_from_average": False,
        "seed": seed % 2**31,
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": threads(len(x)),
        "verbosity": -1,
        **more,
    }
    if len(x) < 2 * options.min_rows or np.ptp(target) == 0:
        return Boosted(None, bias, x.shape[1])
    # Otherwise the trees would be written as text and read again.
    data = lightgbm.Dataset(x, target - bias, weight=weight, params=parameters)
    return Boosted(lightgbm.train(parameters, data, options.rounds, keep_training_booster=True), bias, x.shape[1])


def calibrate(disagreement: NDArray[np.float64], squares: NDArray[np.float64]) -> tuple[float, float]:
    """Fit ``variance = (factor * disagreement)^2 + floor^2`` to squared errors of held-out rows.

    Returns
    -------
    (float, float)
        Factor (at least 1, at most 10) and floor; (1, 0) without data.
    """
    if len(squares) == 0:
        return 1.0, 0.0
    mean_square = float(np.mean(disagreement**2))
    whole = float(np.mean(squares))
    if mean_square <= 0:
        return 1.0, float(np.sqrt(whole))
    # The slope through the rows with above average disagreement; what the rest errs beyond it is the floor.
    wide = disagreement**2 >= np.median(disagreement**2)
    factor = float(np.clip(np.sqrt(np.mean(squares[wide]) / np.mean(disagreement[wide] ** 2)), 1.0, 10.0))
    floor = (
        float(np.sqrt(max(0.0, float(np.mean(squares[~wide] - (factor * disagreement[~wide]) ** 2)))))
        if np.any(~wide)
        else 0.0
    )
    return factor, floor
