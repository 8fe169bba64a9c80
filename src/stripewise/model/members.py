"""What ``auto`` blends: members that learn cells, predict from features and can be stored, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.model.cells import Cells
from stripewise.model.domain import Floats
from stripewise.model.features import Matrix
from stripewise.model.linear import Equation
from stripewise.model.network import NeuralNetwork, TrainingOptions, train
from stripewise.model.smooth import Smooth
from stripewise.model.threads import threads
from stripewise.model.trees.boosting import Boosted, boost
from stripewise.model.trees.ensemble import Trees

_MANY = 5000
_SEVERAL = 1500
_SHARED = 0.8
_ROUNDS = 15
_NEAR = 0.1
"""Errors below this share of the least mean error are not told apart."""


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
class LogNetwork:
    """A network, which predicts values, as a part that predicts their logarithms."""

    network: NeuralNetwork

    def predict(self, x: Matrix) -> Floats:
        """Predicted ln(value), shape ``(n,)``."""
        return np.log(self.network.predict(x))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Numbers and arrays, for a model file."""
        return self.network.state()


Part = Trees | Smooth | Equation | Boosted | Grown | LogNetwork


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
        return BlendMember(tuple((p.trees if isinstance(p, Boosted | Grown) else p, f) for p, f in self.parts))

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
            else:
                numbers, several = part.state()
                kind = {Smooth: "smooth", Equation: "equation", LogNetwork: "network"}[type(part)]
                documents.append({"kind": kind, "features": seen, **numbers})
                arrays |= {own + key: array for key, array in several.items()}
        return documents, arrays

    @classmethod
    def restored(cls, documents: list[Any], arrays: Mapping[str, NDArray[Any]], prefix: str) -> BlendMember:
        """Take back what :meth:`state` gave."""
        parts: list[tuple[Part, NDArray[np.int64] | None]] = []
        for place, document in enumerate(documents):
            own = f"{prefix}{place}."
            part: Part
            if document["kind"] == "trees":
                part = Trees.restored(arrays, float(document["bias"]), own)
            elif document["kind"] == "equation":
                part = Equation.restored(document, arrays, own)
            elif document["kind"] == "network":
                part = LogNetwork(NeuralNetwork.restored(document, arrays, own))
            else:
                part = Smooth.restored(document, arrays, own)
            features = document["features"]
            parts.append((part, None if features is None else np.asarray(features, dtype=np.int64)))
        return cls(tuple(parts))


@dataclass(frozen=True, eq=False)
class LearnerInput:
    """What a learner is given.

    Attributes
    ----------
    cells : Cells
    rng : numpy.random.Generator
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
        return _boosted(self.cells.x, self.cells.mean, self.cells.count, self.rng)

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


def _boosted(x: Matrix, target: Floats, count: Floats, rng: np.random.Generator) -> Boosted:
    many = len(x) > _MANY
    seed = int(rng.integers(2**31))
    # A cell of many runs is known better, but cells differ from any tree by more than their noise.
    weight = count / (1.0 + count)
    return boost(
        x, target, weight, seed, rounds=300, leaves=63 if many else 31, rate=0.05,
        min_rows=3, feature_fraction=0.8, bagging_fraction=0.8, bagging_freq=1, lambda_l2=0.1,
    )  # fmt: skip


def learn_extra(given: LearnerInput) -> BlendMember:
    """Extremely randomised trees (Geurts and others, 2006)."""
    from sklearn.ensemble import ExtraTreesRegressor  # noqa: PLC0415  slow import

    cells, rng = given.cells, given.rng
    trees = 100 if len(cells) <= _SEVERAL else 50
    forest = ExtraTreesRegressor(
        trees,
        min_samples_leaf=1 if len(cells) <= _MANY else 3,
        max_features=0.7,
        n_jobs=threads(len(cells)),
        random_state=int(rng.integers(2**31)),
    )
    forest.fit(cells.x, cells.mean, sample_weight=cells.count / (1.0 + cells.count))
    return BlendMember(((Grown(forest), None),))


def learn_forest(given: LearnerInput) -> BlendMember:
    """A random forest (Breiman, 2001): where most settings change nothing, its leaves are the most exact."""
    from sklearn.ensemble import RandomForestRegressor  # noqa: PLC0415  slow import

    cells, rng = given.cells, given.rng
    forest = RandomForestRegressor(
        50,
        min_samples_leaf=1 if len(cells) <= _MANY else 3,
        max_features=0.5,
        n_jobs=threads(len(cells)),
        random_state=int(rng.integers(2**31)),
    )
    forest.fit(cells.x, cells.mean, sample_weight=cells.count / (1.0 + cells.count))
    return BlendMember(((Grown(forest), None),))


def learn_steps(given: LearnerInput) -> BlendMember:
    """Boosted trees that see every row and feature in each round: for strong steps without noise."""
    cells = given.cells
    weight, seed = cells.count / (1.0 + cells.count), int(given.rng.integers(2**31))
    return BlendMember(((boost(cells.x, cells.mean, weight, seed, rounds=300), None),))


def learn_smooth(given: LearnerInput) -> BlendMember:
    """The smooth regression, its features weighted by boosted trees."""
    cells = given.cells
    importance = given.boosted.importance()
    return BlendMember(((given.smooth("smooth", cells.x, cells.mean, cells.count, importance), None),))


def learn_linear(kinds: str, switch: list[int], inverse: bool) -> Learn:
    """Give a learner of the linear time model, as it is."""

    def learn(given: LearnerInput) -> BlendMember:
        cells = given.cells
        equation = Equation.fit(kinds, cells.x, cells.mean, cells.count / (1.0 + cells.count), switch, inverse)
        return BlendMember(((equation, None),))

    return learn


def learn_ann(given: LearnerInput) -> BlendMember:
    """A network of the size and training of ``ann``, over the features by role."""
    cells, rng = given.cells, given.rng
    network = train(TrainingOptions(), cells.x, np.exp(cells.mean), 0.0, 0.0, int(rng.integers(2**31)))
    return BlendMember(((LogNetwork(network), None),))


def learn_relative(context_features: NDArray[np.int64]) -> Learn:
    """Give a learner of the level of each workload (smooth, from the context alone) plus what is relative to it.

    Which configuration is best is a question within a workload. Learned apart from the level, the answer carries over
    to workloads whose level is hard to guess.
    """

    def learn(given: LearnerInput) -> BlendMember:
        cells, rng = given.cells, given.rng
        weight = cells.count / (1.0 + cells.count)
        total = np.bincount(cells.workload, weight)
        level = np.bincount(cells.workload, weight * cells.mean) / np.where(total > 0, total, 1.0)
        present, first = np.unique(cells.workload, return_index=True)
        x = cells.x[np.ix_(first, context_features)]
        importance = np.ones(x.shape[1])
        if len(present) >= 12:
            importance = _boosted(x, level[present], np.ones(len(present)), rng).importance()
        base = given.smooth("relative", x, level[present], np.ones(len(present)), importance)
        relative = _boosted(cells.x, cells.mean - level[cells.workload], cells.count, rng)
        return BlendMember(((base, context_features), (relative, None)))

    return learn


def comparable(cells: Cells, contexts: int) -> bool:
    """Whether most workloads were measured with the same configurations, so that their means can be compared."""
    workloads = int(cells.workload.max()) + 1
    configuration = np.unique(cells.points[:, contexts:], axis=0, return_inverse=True)[1].reshape(-1)
    kinds = int(configuration.max()) + 1
    return len(cells) >= _SHARED * workloads * kinds


def blend_weights(
    predictions: Floats, target: Floats, trust: Floats, groups: NDArray[np.int64] | None = None
) -> Floats:
    """Weights of members, not negative and adding up to 1, with the least error on held-out cells.

    For workloads that were measured, squared and absolute errors count alike, either in proportion to the best single
    member's: no single member has a smaller sum of both here. (Squares alone leave the choice to the few cells
    that no member can predict.)

    Parameters
    ----------
    predictions : ndarray, shape (n, m)
        Of members that did not see the cell.
    target : ndarray, shape (n,)
    trust : ndarray, shape (n,)
        Weight of each cell.
    groups : ndarray of int, shape (n,), optional
        Workloads. If given, each counts alike, however many cells it has: the weights are meant for
        other workloads. And errors count twice: as they are, and relative to the mean error of their workload (which
        configuration is best does not depend on the level); either in proportion to the best single member's.

    Returns
    -------
    ndarray, shape (m,)
    """
    members = predictions.shape[1]
    if members == 1 or len(target) < 2:
        return np.full(members, 1.0 / members)
    errors = predictions - target[:, None]
    if groups is not None:
        trust = trust / np.bincount(groups)[groups]
    root = np.sqrt(trust)[:, None]
    blocks = [errors * root]
    if groups is not None:
        count = np.bincount(groups, trust)
        middle = np.stack([np.bincount(groups, trust * e) / np.where(count > 0, count, 1.0) for e in errors.T], axis=1)
        blocks.append((errors - middle[groups]) * root)
    scaled = []
    for block in blocks:
        least = float(np.sqrt(np.min(np.sum(block**2, axis=0))))
        scaled.append(block / (least or 1.0))
    weights = _least_squares(np.concatenate(scaled))
    if groups is None:
        share = trust / np.sum(trust)
        square, absolute = float(np.min(share @ errors**2)), float(np.min(share @ np.abs(errors)))
        for _ in range(_ROUNDS if square > 0 else 0):
            # Absolute errors as squares, by the weights of the round before (iteratively reweighted least squares).
            far = np.maximum(np.abs(errors @ weights), _NEAR * absolute)
            importance = share * (1.0 / square + 0.5 / (absolute * far))
            weights = _least_squares(errors * np.sqrt(importance)[:, None])
    return weights


def _least_squares(matrix: Floats) -> Floats:
    """Weights ``w``, not negative and adding up to 1, with the least ``|E w|^2``, shape ``(m,)``."""
    from scipy.optimize import nnls  # noqa: PLC0415  slow import

    members = matrix.shape[1]
    # min |E w|^2 subject to w >= 0 and sum w = 1: the sum is held by a row that outweighs all others. A little of the
    # identity keeps the weights of members that agree from being a matter of chance.
    heavy = 1e3 * np.sqrt(np.sum(matrix**2) / members)
    ridge = 0.1 * np.eye(members)
    stacked = np.concatenate([matrix, ridge, np.full((1, members), heavy)])
    right = np.concatenate([np.zeros(len(matrix)), np.zeros(members), [heavy]])
    found: Floats = nnls(stacked, right, maxiter=100 * members)[0]
    whole = float(found.sum())
    return found / whole if whole > 0 else np.full(members, 1.0 / members)
