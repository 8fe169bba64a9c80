"""Trees to read and trees to vote: ``tree``, ``forest``, and either as sentences.

``tree`` is one regression tree (CART), small enough to be read as rules; ``forest`` is a random forest. Both learn the
logarithm of performance from the features by role. A rule has thresholds in the units of the table, and one condition
for what several splits ask of a feature.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from stripewise.models.base import ModelOptions, PerformanceModel
from stripewise.models.cells import Data, error_correlation
from stripewise.models.domain import Domain, Floats
from stripewise.models.features import Encoder, Feature, Matrix, at_least_one
from stripewise.models.trees.ensemble import Trees
from stripewise.models.tunables import bytes_of
from stripewise.sizes import format_size
from stripewise.threads import threads

Step = tuple[int, float, bool]
"""Feature, threshold, and whether the walk went left (feature at most threshold)."""


def list_tree_rules(trees: Trees) -> list[tuple[int, list[Step]]]:
    """List the leaves of the first tree, from left to right, each with the steps that lead to it."""
    found: list[tuple[int, list[Step]]] = []
    waiting: list[tuple[int, list[Step]]] = [(int(trees.roots[0]), [])]
    while waiting:
        node, path = waiting.pop()
        feature = int(trees.feature[node])
        if feature < 0:
            found.append((node, path))
            continue
        threshold = float(trees.threshold[node])
        waiting.append((int(trees.right[node]), [*path, (feature, threshold, False)]))
        waiting.append((int(trees.left[node]), [*path, (feature, threshold, True)]))
    return found


def write_conditions(domain: Domain, encoder: Encoder, path: Sequence[Step]) -> str:
    """Write the steps of a walk as one condition; empty for a tree of one leaf."""
    bounds: dict[int, tuple[float, float]] = {}
    for feature, threshold, left in path:
        low, high = bounds.get(feature, (-np.inf, np.inf))
        bounds[feature] = (low, min(high, threshold)) if left else (max(low, threshold), high)
    return " and ".join(_condition(domain, encoder.features[f], *bound) for f, bound in bounds.items())


def _condition(domain: Domain, feature: Feature, low: float, high: float) -> str:
    if feature.kind == "is":
        column = domain.columns[feature.plus[0]]
        return f"{column.name} {'=' if np.isfinite(low) else '!='} {column.values[feature.of]}"
    name = feature.name.removeprefix("log2 ")
    if not np.isfinite(low):
        return f"{name} <= {_number(domain, feature, high)}"
    if not np.isfinite(high):
        return f"{name} > {_number(domain, feature, low)}"
    return f"{_number(domain, feature, low)} < {name} <= {_number(domain, feature, high)}"


def _number(domain: Domain, feature: Feature, threshold: float) -> str:
    number = 2.0**threshold if feature.kind == "log2" else threshold
    if _counts(domain, feature):
        return str(_round_threshold(feature, threshold, number))
    sizes = sum(_is_size(domain, c) for c in feature.plus) - sum(_is_size(domain, c) for c in feature.minus)
    if sizes != 1:
        return f"{number:.4g}"
    if len(feature.plus) + len(feature.minus) > 1:
        return format_size(number)  # ratios are in bytes
    column = domain.columns[feature.plus[0]]
    return format_size(number * bytes_of(column)) if column.unit else f"{number:.4g}"


def _counts(domain: Domain, feature: Feature) -> bool:
    """Whether a feature is a whole number that is no size: stripes, nodes, or nodes times processes of each."""
    if not feature.plus or feature.minus or feature.constant or any(_is_size(domain, c) for c in feature.plus):
        return False
    values = [value for column in feature.plus for value in domain.columns[column].values]
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _round_threshold(feature: Feature, threshold: float, number: float) -> int:
    """The largest whole number that does not exceed a threshold: it parts the same whole numbers, and can be read."""
    low = math.floor(number)
    # A whole number's logarithm and the power of two that leads back need not meet to the last bit.
    above = np.log2(low + 1.0) if feature.kind == "log2" else low + 1.0
    return low + 1 if np.float32(above) <= np.float32(threshold) else low


def _is_size(domain: Domain, index: int) -> bool:
    return domain.columns[index].role.endswith("_size")


_MOST_RULES = 64
_LARGEST_POWER = 1000.0
_FOLDS = 3
_LEAST_WORKLOADS = 5


class TreeOptions(ModelOptions):
    """Options of ``tree``."""

    max_depth: int = Field(default=8, ge=0, le=60, description="largest depth; 0 for no limit")
    min_rows: int = Field(default=3, ge=1, le=1000, description="least rows of a leaf")


class TreeModel(PerformanceModel):
    """Regression tree (Breiman and others, 1984) on ln(value); its uncertainty is the spread within a leaf.

    It is at least the error on workloads that the tree did not see, where there are some to leave out.
    """

    name: ClassVar[str] = "tree"
    Options: ClassVar[type[ModelOptions]] = TreeOptions
    options: TreeOptions
    trees: Trees
    spread: Floats
    """Standard deviation of the mean of each node's rows, shape ``(m,)``."""
    left_out: float
    """Standard deviation of ln(value) about predictions for workloads that were left out; 0 if there are too few."""

    def _fit(self, data: Data, rng: np.random.Generator) -> None:
        tree = self._grown(data, int(rng.integers(2**31)))
        self.trees = Trees.from_sklearn([tree])
        rows = np.asarray(tree.tree_.n_node_samples, dtype=np.float64)
        # A leaf of one row knows nothing of its spread; the spread over all rows is what is left to say.
        whole = float(np.var(data.target))
        variance = np.where(rows > 1, tree.tree_.impurity * rows / np.maximum(rows - 1, 1), whole)
        self.spread = np.sqrt(np.maximum(variance, 0.0) / rows)
        self.left_out = 0.0
        present, number = np.unique(data.workloads, return_inverse=True)
        if len(present) >= _LEAST_WORKLOADS:
            fold = (rng.permutation(len(present)) % _FOLDS)[number]
            errors = np.empty(len(data))
            for k in range(_FOLDS):
                other = self._grown(data.take(fold != k), int(rng.integers(2**31)))
                x = at_least_one(self.encoder.encode(data.points[fold == k]))
                errors[fold == k] = data.target[fold == k] - other.predict(x)
            self.left_out = float(np.sqrt(max(0.0, float(np.mean(errors**2)) - data.noise**2)))
            self.error_correlation = error_correlation(errors, data.workloads, data.noise**2)

    def _grown(self, data: Data, seed: int) -> Any:
        from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415  slow import

        return DecisionTreeRegressor(
            max_depth=self.options.max_depth or None,
            min_samples_leaf=min(self.options.min_rows, max(1, len(data) // 2)),
            random_state=seed,
        ).fit(at_least_one(self.encoder.encode(data.points)), data.target)

    def _predict(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        leaves = self.trees.walk(x)[:, 0]
        return self.trees.value[leaves].astype(np.float64), np.maximum(self.spread[leaves], self.left_out)

    def runtime_form(self) -> Trees:
        """See :meth:`PerformanceModel.runtime_form`."""
        return self.trees

    def _rules(self) -> list[str]:
        unit = self.domain.objective.unit
        rules = []
        for leaf, path in list_tree_rules(self.trees)[:_MOST_RULES]:
            value = float(np.exp(np.float64(self.trees.value[leaf])))
            what = f"{self.domain.objective.name} is about {value:.4g} {unit}".rstrip()
            when = write_conditions(self.domain, self.encoder, path)
            rules.append(f"{'if ' + when if when else 'always'}: {what} ({self.trees.count[leaf]} rows)")
        left_out = int(np.sum(self.trees.feature < 0)) - _MOST_RULES
        if left_out > 0:
            rules.append(f"... and {left_out} more rules: limit max_depth to read them all")
        return rules

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return {"left_out": self.left_out}, {**self.trees.arrays(), "spread": self.spread}

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.trees = Trees.restored(arrays, len(self.encoder.features))
        self.spread = np.asarray(arrays["spread"], dtype=np.float64)
        self.left_out = float(document.get("left_out", 0.0))
        if len(self.trees) != 1 or self.spread.shape != (self.trees.nodes,):
            raise ValueError("one tree, and one spread per node, are needed")
        powers = np.array([False, *(feature.kind == "log2" for feature in self.encoder.features)])
        if np.any(np.abs(self.trees.threshold[powers[self.trees.feature + 1]]) > _LARGEST_POWER):
            raise ValueError("a threshold is the logarithm of no number")


class ForestOptions(ModelOptions):
    """Options of ``forest``."""

    trees: int = Field(default=200, ge=2, le=5000, description="trees")
    max_depth: int = Field(default=0, ge=0, le=60, description="largest depth; 0 for no limit")
    min_rows: int = Field(default=2, ge=1, le=1000, description="least rows of a leaf")
    max_features: float = Field(default=0.5, gt=0, le=1, description="share of the features that a split looks at")


class ForestModel(PerformanceModel):
    """Random forest (Breiman, 2001); its uncertainty is the disagreement of the trees."""

    name: ClassVar[str] = "forest"
    Options: ClassVar[type[ModelOptions]] = ForestOptions
    options: ForestOptions
    trees: Trees

    def _fit(self, data: Data, rng: np.random.Generator) -> None:
        from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415  slow import

        x = at_least_one(self.encoder.encode(data.points))
        options = self.options
        forest = RandomForestRegressor(
            options.trees,
            max_depth=options.max_depth or None,
            min_samples_leaf=options.min_rows,
            max_features=options.max_features,
            n_jobs=threads(len(x)),
            random_state=int(rng.integers(2**31)),
        ).fit(x, data.target)
        self.trees = Trees.from_sklearn(forest.estimators_, 1.0 / options.trees)

    def _predict(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        each = self.trees.predict_each(x) * len(self.trees)
        return each.mean(axis=1) + self.trees.bias, each.std(axis=1, ddof=1)

    def runtime_form(self) -> Trees:
        """See :meth:`PerformanceModel.runtime_form`."""
        return self.trees

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        return {}, self.trees.arrays()

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.trees = Trees.restored(arrays, len(self.encoder.features))
        if len(self.trees) != self.options.trees:
            raise ValueError("it has not as many trees as its options say")
