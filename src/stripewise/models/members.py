"""What ``auto`` blends: members that learn cells, predict from features and can be stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.models.cells import Cells, group_rows
from stripewise.models.domain import Floats
from stripewise.models.features import Matrix
from stripewise.models.linear import Equation
from stripewise.models.smooth import Smooth
from stripewise.models.trees.boosting import Boosted, BoostingOptions, boost
from stripewise.models.trees.ensemble import Trees
from stripewise.threads import threads

_MANY = 5000
_SEVERAL = 1500
_SHARED = 0.8
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True, eq=False)
class Grown:
    """A fitted forest of scikit-learn."""

    forest: Any

    def predict(self, x: Matrix) -> Floats:
        """Predicted targets, shape ``(n,)``."""
        return np.asarray(self.forest.predict(x), dtype=np.float64)

    @property
    def trees(self) -> Trees:
        """The same as plain arrays."""
        return Trees.from_sklearn(self.forest.estimators_, 1.0 / len(self.forest.estimators_))


@dataclass(frozen=True, eq=False)
class LogTrees:
    """Trees whose sum is a positive value, as a part that predicts its logarithm.

    Attributes
    ----------
    trees : Grown or Trees
        Of values over exp(``peak``).
    """

    trees: Grown | Trees
    peak: float

    def predict(self, x: Matrix) -> Floats:
        """Predicted ln(value), shape ``(n,)``."""
        return self.peak + np.log(np.maximum(self.trees.predict(x), _TINY))


Part = Trees | Smooth | Equation | Boosted | Grown | LogTrees


@dataclass(frozen=True, eq=False)
class BlendMember:
    """A sum of parts, each over some of the features.

    Attributes
    ----------
    parts : tuple of (Part, ndarray of int or None)
        With the features that the part sees; None for all.
    """

    parts: tuple[tuple[Part, NDArray[np.int64] | None], ...]

    def predict(self, x: Matrix) -> Floats:
        """Predicted ln(value), shape ``(n,)``."""
        total = np.zeros(len(x))
        for part, features in self.parts:
            total += part.predict(x if features is None else np.ascontiguousarray(x[:, features]))
        return total

    def settled(self) -> BlendMember:
        """Give the same with all trees as plain arrays, which can be stored."""

        def plain(part: Part) -> Part:
            if isinstance(part, LogTrees) and isinstance(part.trees, Grown):
                return LogTrees(part.trees.trees, part.peak)
            return part.trees if isinstance(part, Boosted | Grown) else part

        return BlendMember(tuple((plain(part), features) for part, features in self.parts))

    def state(self, prefix: str) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        """What a model file keeps."""
        documents: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for place, (part, features) in enumerate(self.parts):
            own = f"{prefix}{place}."
            seen = None if features is None else features.tolist()
            if isinstance(part, Boosted | Grown):
                raise TypeError("only settled members can be stored")
            if isinstance(part, Trees):
                documents.append({"kind": "trees", "bias": part.bias, "features": seen})
                arrays |= part.arrays(own)
            elif isinstance(part, LogTrees):
                if isinstance(part.trees, Grown):
                    raise TypeError("only settled members can be stored")
                documents.append({"kind": "log of trees", "level": part.peak, "features": seen})
                arrays |= part.trees.arrays(own)
            else:
                numbers, several = part.state()
                kind = {Smooth: "smooth", Equation: "equation"}[type(part)]
                documents.append({"kind": kind, "features": seen, **numbers})
                arrays |= {own + key: array for key, array in several.items()}
        return documents, arrays

    @classmethod
    def restored(cls, documents: list[Any], arrays: Mapping[str, NDArray[Any]], prefix: str, width: int) -> BlendMember:
        """Take back what :meth:`state` gave of a member that sees ``width`` features."""
        parts: list[tuple[Part, NDArray[np.int64] | None]] = []
        for place, document in enumerate(documents):
            own = f"{prefix}{place}."
            seen = document["features"]
            features = None if seen is None else np.asarray(seen, dtype=np.int64)
            if features is not None and (features.ndim != 1 or not set(features.tolist()) <= set(range(width))):
                raise ValueError("a member has no such features")
            own_width = width if features is None else len(features)
            part: Part
            if document["kind"] == "trees":
                part = Trees.restored(arrays, own_width, float(document["bias"]), own)
            elif document["kind"] == "log of trees":
                part = LogTrees(Trees.restored(arrays, own_width, 0.0, own), float(document["level"]))
            elif document["kind"] == "equation":
                part = Equation.restored(document, arrays, own)
                if len(part.kinds) > own_width:
                    raise ValueError("the costs of a member do not fit its features")
            elif document["kind"] == "smooth":
                part = Smooth.restored(document, arrays, own, own_width)
            else:
                raise ValueError(f"a member of the kind {document['kind']!r}")
            parts.append((part, features))
        return cls(tuple(parts))


@dataclass(frozen=True, eq=False)
class LearnerInput:
    """What a learner is given.

    Attributes
    ----------
    chosen : dict
        Hyperparameters of the smooth parts, by member, as they were chosen for the first of several inputs that share
        most of their cells. The choice takes longer than everything else, and hardly depends on a few cells.
    """

    cells: Cells
    rng: np.random.Generator
    chosen: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    @cached_property
    def boosted(self) -> Boosted:
        """Boosted trees on all features, grown once for all learners that need them."""
        return _fit_boosted(self.cells.x, self.cells.mean, self.cells.count, self.rng)

    def smooth(self, member: str, x: Matrix, target: Floats, count: Floats, importance: Floats) -> Smooth:
        """Fit a smooth part of a member, see :meth:`Smooth.fit`."""
        found = Smooth.fit(x, target, count, importance, self.rng, chosen=self.chosen.get(member))
        if found.hyperparameters is not None:
            self.chosen[member] = found.hyperparameters
        return found


Learn = Callable[[LearnerInput], BlendMember]


def learn_boosted(given: LearnerInput) -> BlendMember:
    """Boosted trees; larger ones where there are many cells."""
    return BlendMember(((given.boosted, None),))


def _fit_boosted(x: Matrix, target: Floats, count: Floats, rng: np.random.Generator) -> Boosted:
    many = len(x) > _MANY
    seed = int(rng.integers(2**31))
    # A cell of many runs is known better, but cells differ from any tree by more than their noise.
    weight = count / (1.0 + count)
    return boost(
        x, target, weight, seed, BoostingOptions(leaves=63 if many else 31),
        feature_fraction=0.8, bagging_fraction=0.8, bagging_freq=1, lambda_l2=0.1,
    )  # fmt: skip


def _grow(forest: str, cells: Cells, target: Floats, seed: int, **more: Any) -> Grown:
    """Fit a forest of scikit-learn; with many cells its leaves are larger."""
    from sklearn import ensemble  # noqa: PLC0415  slow import

    grown = getattr(ensemble, forest)(
        min_samples_leaf=1 if len(cells) <= _MANY else 3, n_jobs=threads(len(cells)), random_state=seed, **more
    )
    return Grown(grown.fit(cells.x, target, sample_weight=cells.weight))


def learn_extra(given: LearnerInput) -> BlendMember:
    """Extremely randomised trees (Geurts and others, 2006)."""
    cells, seed = given.cells, int(given.rng.integers(2**31))
    trees = 100 if len(cells) <= _SEVERAL else 50
    grown = _grow("ExtraTreesRegressor", cells, cells.mean, seed, n_estimators=trees, max_features=0.7)
    return BlendMember(((grown, None),))


def learn_forest(given: LearnerInput) -> BlendMember:
    """A random forest (Breiman, 2001): where most settings change nothing, its leaves are the most exact."""
    cells, seed = given.cells, int(given.rng.integers(2**31))
    grown = _grow("RandomForestRegressor", cells, cells.mean, seed, n_estimators=50, max_features=0.5)
    return BlendMember(((grown, None),))


def learn_values(given: LearnerInput) -> BlendMember:
    """A random forest on the values themselves, as the stock one: all others learn their logarithms.

    Its seed is fixed, so that the members beside it are the same with and without it.
    """
    cells, peak = given.cells, float(np.max(given.cells.mean))
    grown = _grow("RandomForestRegressor", cells, np.exp(cells.mean - peak), 0, n_estimators=50)
    return BlendMember(((LogTrees(grown, peak), None),))


def learn_steps(given: LearnerInput) -> BlendMember:
    """Boosted trees that see every row and feature in each round: for strong steps without noise."""
    cells, seed = given.cells, int(given.rng.integers(2**31))
    return BlendMember(((boost(cells.x, cells.mean, cells.weight, seed), None),))


def learn_smooth(given: LearnerInput) -> BlendMember:
    """The smooth regression, its features weighted by boosted trees."""
    cells = given.cells
    importance = given.boosted.importance()
    return BlendMember(((given.smooth("smooth", cells.x, cells.mean, cells.count, importance), None),))


def learn_linear(kinds: str, switch: list[int], inverse: bool) -> Learn:
    """Give a learner of the linear time model, as it is."""

    def learn(given: LearnerInput) -> BlendMember:
        cells = given.cells
        equation = Equation.fit(kinds, cells.x, cells.mean, cells.weight, switch, inverse)
        return BlendMember(((equation, None),))

    return learn


def learn_relative(context_features: NDArray[np.int64]) -> Learn:
    """Give a learner of the mean of each workload (smooth, from the context alone) plus what is relative to it.

    Which configuration is best is a question within a workload. Learned apart from the mean, the answer carries over
    to workloads whose mean is hard to guess.
    """

    def learn(given: LearnerInput) -> BlendMember:
        cells, rng = given.cells, given.rng
        total = np.bincount(cells.workload, cells.weight)
        usual = np.bincount(cells.workload, cells.weight * cells.mean) / np.where(total > 0, total, 1.0)
        present, first = np.unique(cells.workload, return_index=True)
        x = cells.x[np.ix_(first, context_features)]
        importance = np.ones(x.shape[1])
        if len(present) >= 12:
            importance = _fit_boosted(x, usual[present], np.ones(len(present)), rng).importance()
        base = given.smooth("relative", x, usual[present], np.ones(len(present)), importance)
        relative = _fit_boosted(cells.x, cells.mean - usual[cells.workload], cells.count, rng)
        return BlendMember(((base, context_features), (relative, None)))

    return learn


def can_compare(cells: Cells, contexts: int) -> bool:
    """Whether most workloads were measured with the same configurations, so that their means can be compared."""
    workloads = int(cells.workload.max()) + 1
    kinds = int(group_rows(cells.points[:, contexts:]).max()) + 1
    return len(cells) >= _SHARED * workloads * kinds
