"""``auto``: the light models blended by what each can predict that it has not seen.

Boosted trees, extremely randomised trees, a smooth regression, the linear time model and (where workloads are
comparable) a level with relative effects learn the mean of ln(value) of each cell. Two rounds of cross-validation
inside the training data hold out cells, and whole workloads: their errors give one set of weights for workloads that
were measured and one for new ones. A cell that was measured is predicted by its own runs and by the blend that did not
see it, each as far as it is worth (empirical Bayes). At last means of logarithms are moved towards medians.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stripewise.model.base import ModelOptions, PerformanceModel
from stripewise.model.blend import weights
from stripewise.model.cells import Cells
from stripewise.model.data import Data
from stripewise.model.domain import Floats
from stripewise.model.equation import feature_kinds
from stripewise.model.features import Matrix, at_least_one
from stripewise.model.kinship import kinship
from stripewise.model.linear import operation_switch
from stripewise.model.members import (
    Learn,
    Lesson,
    Member,
    comparable,
    learn_ann,
    learn_boosted,
    learn_extra,
    learn_linear,
    learn_relative,
    learn_smooth,
)
from stripewise.model.memory import Memory
from stripewise.model.trees.boosting import boost, calibrate
from stripewise.model.trees.ensemble import Trees

_LEAST_CELLS = 8
_LEAST_WORKLOADS = 4
_MANY = 4000
_FEW_FOLDS = 3
_IDLE = 0.03
_TINY = 1e-12
_HALFWAY = 0.5
"""The median costs least relative error, the mean least squared error of the logarithm."""
_SKEWED = 0.9
"""The mean of the logarithm is kept if it costs held-out runs so much less than the median."""


class AutoOptions(ModelOptions):
    """Options of ``auto``."""

    folds: int = Field(default=5, ge=2, le=50, description="folds of either cross-validation inside the training data")
    ann: bool = Field(default=False, description="let the network join (needs PyTorch)")


class AutoModel(PerformanceModel):
    """Blend by inner cross-validation."""

    name: ClassVar[str] = "auto"
    Options: ClassVar[type[ModelOptions]] = AutoOptions
    options: AutoOptions
    members: dict[str, Member]
    known_weights: Floats
    """Of each member, for workloads of the training; see also ``new_weights``."""
    new_weights: Floats
    memory: Memory
    variance: Trees
    """Variance of ln of a single run."""
    offset: Trees
    """From the mean of ln(value) half the way to its median; zero where noise is too skewed for that."""
    doubt: dict[str, tuple[float, float]]
    """Factor and floor of the uncertainty, see :func:`calibrate`, for ``known`` and ``new`` workloads."""
    kin: dict[str, float]
    """See :func:`kinship`, for both; what was measured itself shares nothing."""
    student: Trees

    def _learners(self, cells: Cells, contexts: int) -> dict[str, Learn]:
        kinds, switch = feature_kinds(self.encoder), operation_switch(self.domain, self.encoder)
        learners: dict[str, Learn] = {
            "boosted": learn_boosted,
            "extra": learn_extra,
            "smooth": learn_smooth,
            "linear": learn_linear(kinds, switch, self.domain.objective.maximize),
        }
        if self.options.ann:
            learners["ann"] = learn_ann
        own = np.array(
            [p for p, f in enumerate(self.encoder.features) if max((*f.plus, *f.minus)) < contexts], dtype=np.int64
        )
        if int(cells.workload.max()) + 1 >= _LEAST_WORKLOADS and len(own) and comparable(cells, contexts):
            learners["relative"] = learn_relative(own)
        return learners

    def _fit(self, data: Data, rng: np.random.Generator) -> None:
        cells = Cells.of(data, self.encoder)
        learners = self._learners(cells, self.domain.contexts)
        k = min(self.options.folds, len(cells), _FEW_FOLDS if len(cells) > _MANY else len(cells))
        workloads = int(cells.workload.max()) + 1
        blind = self._held_out(learners, cells, cells.folds(rng, k), rng) if len(cells) >= _LEAST_CELLS else None
        trust = cells.count / (1.0 + cells.count)
        names = list(learners)
        self.doubt = {"known": (1.0, 0.0), "new": (1.0, 0.0)}
        self.kin = {"known": 0.0, "new": 0.0}
        noise = self._noise(data, cells, blind)
        equal = np.full(len(names), 1.0 / len(names))
        self.known_weights = equal if blind is None else weights(blind, cells.mean, trust)
        if blind is not None:
            self.doubt["known"] = self._doubt(blind, self.known_weights, cells, noise)
            self.kin["known"] = _kin(blind, self.known_weights, cells, noise)
        blend = cells.mean if blind is None else blind @ self.known_weights
        self.new_weights, self.doubt["new"] = self.known_weights, self.doubt["known"]
        self.kin["new"] = self.kin["known"]
        if blind is not None and workloads >= _LEAST_WORKLOADS:
            folds = cells.workload_folds(rng, min(k, workloads))
            apart = self._held_out(learners, cells, folds, rng)
            self.new_weights = weights(apart, cells.mean, trust, cells.workload)
            self.doubt["new"] = self._doubt(apart, self.new_weights, cells, noise)
            self.kin["new"] = _kin(apart, self.new_weights, cells, noise)
        self._drop_idle(learners)
        lesson = Lesson(cells, rng)
        self.members = {name: learn(lesson).settled() for name, learn in learners.items()}
        self._remember(data, cells, blind, blend, noise)
        self.student = self._teach(cells, rng)

    def _drop_idle(self, learners: dict[str, Learn]) -> None:
        """Leave out members that hardly count, and share their weight among the others."""
        keep = np.maximum(self.known_weights, self.new_weights) >= _IDLE
        for name in [name for name, kept in zip(learners, keep, strict=True) if not kept]:
            del learners[name]
        self.known_weights = self.known_weights[keep] / self.known_weights[keep].sum()
        self.new_weights = self.new_weights[keep] / self.new_weights[keep].sum()

    @staticmethod
    def _held_out(
        learners: Mapping[str, Learn], cells: Cells, folds: NDArray[np.int64], rng: np.random.Generator
    ) -> Floats:
        """What each member says of cells that it did not see, shape ``(cells, members)``."""
        result = np.empty((len(cells), len(learners)))
        for fold in range(int(folds.max()) + 1):
            test = folds == fold
            if not test.any():
                continue
            train = np.flatnonzero(~test)
            if len(train) > _MANY:
                # Enough to weigh the members, who all learn everything in the end.
                train = np.sort(rng.choice(train, _MANY, replace=False))
            lesson = Lesson(cells.take(train), rng)
            for place, learn in enumerate(learners.values()):
                result[test, place] = learn(lesson).predict(cells.x[test])
        return result

    def _noise(self, data: Data, cells: Cells, blind: Floats | None) -> Floats:
        """Learn the variance of single runs; give it for each cell, shape ``(cells,)``.

        From repeats where there are any; otherwise from what no member can predict, of which it is at most a part.
        """
        from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415  slow import

        several = cells.count > 1
        if several.any():
            rows = several[cells.cell]
            count = cells.count[cells.cell[rows]]
            square = (data.target[rows] - cells.mean[cells.cell[rows]]) ** 2 * count / (count - 1.0)
            x = cells.x[cells.cell[rows]]
        elif blind is not None:
            square, x = (cells.mean - blind.mean(axis=1)) ** 2, cells.x
        else:
            square, x = np.full(len(cells), float(np.var(cells.mean))), cells.x
        least = max(20, len(x) // 20)
        tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=min(least, max(1, len(x) // 2)), random_state=0)
        self.variance = Trees.from_sklearn([tree.fit(x, square)])
        return np.maximum(self.variance.predict(cells.x), 0.0)

    @staticmethod
    def _doubt(blind: Floats, weight: Floats, cells: Cells, noise: Floats) -> tuple[float, float]:
        mean = blind @ weight
        errors = np.maximum((cells.mean - mean) ** 2 - noise / cells.count, 0.0)
        return calibrate(_spread(blind, weight, mean), errors)

    def _remember(self, data: Data, cells: Cells, blind: Floats | None, blend: Floats, noise: Floats) -> None:
        """Keep what the cells' own runs say, and learn how far to go from means towards medians."""
        contexts = self.domain.contexts
        count = cells.count[cells.cell]
        if blind is None:
            self.memory = Memory.of(cells, cells.mean, np.sqrt(noise / cells.count), contexts)
            row = cells.mean[cells.cell]
        elif not np.any(cells.count > 1):
            # Noise and error cannot be told apart: single runs are no better known than what all of them teach.
            self.memory = Memory.of(cells, np.empty(0), np.empty(0), contexts)
            row = blend[cells.cell]
        else:
            # How far true values lie from the blend decides how much a cell's own runs count.
            apart = float(np.mean(np.maximum((cells.mean - blend) ** 2 - noise / cells.count, 0.0)))
            own = apart / (apart + noise / cells.count + _TINY)
            estimate = blend + own * (cells.mean - blend)
            deviation = np.sqrt(own * noise / cells.count + (1.0 - own) ** 2 * apart)
            self.memory = Memory.of(cells, estimate, deviation, contexts)
            # Each run as the others of its cell and the blend predict it.
            rest = np.maximum(count - 1, 1)
            others = (cells.mean[cells.cell] * count - data.target) / rest
            share = np.where(count > 1, apart / (apart + noise[cells.cell] / rest + _TINY), 0.0)
            row = blend[cells.cell] + share * (np.where(count > 1, others, 0.0) - blend[cells.cell])
        residual, x = data.target - row, cells.x[cells.cell]
        medians = self.variance.with_values(_leaf_medians(self.variance, x, residual))
        skewed = _cost(residual) < _SKEWED * _cost(residual - medians.predict(x))
        self.offset = medians.scaled(0.0 if skewed else _HALFWAY)

    def _teach(self, cells: Cells, rng: np.random.Generator) -> Trees:
        """Fit a small ensemble to the blend: for screening many configurations, and for the runtime."""
        mean, _ = self._raw(cells.points, cells.x)
        return boost(cells.x, mean, None, int(rng.integers(2**31)), rounds=150, leaves=31, rate=0.12, min_rows=1).trees

    # -- predicting ----------------------------------------------------------------------------------------

    def _predict(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        return self._raw(points, at_least_one(x))

    def _raw(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        each = np.stack([member.predict(x) for member in self.members.values()], axis=1)
        known = self.memory.knows_workload(points)
        mean, deviation = np.empty(len(x)), np.empty(len(x))
        for rows, weight, doubt in ((known, self.known_weights, "known"), (~known, self.new_weights, "new")):
            if not rows.any():
                continue
            mean[rows] = each[rows] @ weight
            factor, floor = self.doubt[doubt]
            deviation[rows] = np.hypot(factor * _spread(each[rows], weight, mean[rows]), floor)
        if len(self.memory.estimate):
            cell = self.memory.find(points)
            seen = cell >= 0
            mean[seen], deviation[seen] = self.memory.estimate[cell[seen]], self.memory.deviation[cell[seen]]
        return mean + self.offset.predict(x), deviation

    def _shared(self, points: Floats, deviation: Floats) -> Floats:
        known = self.memory.knows_workload(points)
        share = np.where(known, self.kin["known"], self.kin["new"])
        if len(self.memory.estimate):
            share[self.memory.find(points) >= 0] = 0.0
        return deviation * np.sqrt(share)

    def screen_points(self, points: Floats) -> Floats:
        """Approximate ln(value) quickly, shape ``(n,)``, to choose which of many points deserve a full prediction."""
        folded = self.domain.folded(points)
        return self.student.predict(at_least_one(self.encoder.encode(folded)))

    def _importance(self) -> Floats:
        return self.student.importance(len(self.encoder.features))

    def _rules(self) -> list[str]:
        def line(weight: Floats) -> str:
            return ", ".join(f"{name} {w:.0%}" for name, w in zip(self.members, weight, strict=True))

        return [f"measured workloads: {line(self.known_weights)}", f"new workloads: {line(self.new_weights)}"]

    # -- keeping -------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        members: dict[str, Any] = {}
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for name, member in self.members.items():
            members[name], own = member.state(f"{name}.")
            arrays |= own
        arrays |= (
            self.variance.arrays("variance.")
            | self.offset.arrays("offset.")
            | self.student.arrays("student.")
            | self.memory.arrays("memory.")
        )
        document = {
            "members": members,
            "known_weights": self.known_weights.tolist(),
            "new_weights": self.new_weights.tolist(),
            "doubt": {name: list(pair) for name, pair in self.doubt.items()},
            "kin": self.kin,
            "variance_bias": self.variance.bias,
            "student_bias": self.student.bias,
        }
        return document, arrays

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.members = {name: Member.restored(parts, arrays, f"{name}.") for name, parts in document["members"].items()}
        self.known_weights = np.asarray(document["known_weights"], dtype=np.float64)
        self.new_weights = np.asarray(document["new_weights"], dtype=np.float64)
        if not len(self.members) == len(self.known_weights) == len(self.new_weights):
            raise ValueError("each member needs a weight")
        self.doubt = {name: (float(a), float(b)) for name, (a, b) in document["doubt"].items()}
        self.kin = {name: float(share) for name, share in document["kin"].items()}
        self.variance = Trees.restored(arrays, float(document["variance_bias"]), "variance.")
        self.offset = Trees.restored(arrays, 0.0, "offset.")
        self.student = Trees.restored(arrays, float(document["student_bias"]), "student.")
        self.memory = Memory.restored(arrays, "memory.", self.domain.contexts)


def _leaf_medians(tree: Trees, x: Matrix, residual: Floats) -> Floats:
    """Median residual of the rows in each leaf, shape ``(nodes,)``; 0 where there are none."""
    leaf = tree.walk(x)[:, 0]
    medians = np.zeros(tree.nodes)
    for node in np.unique(leaf):
        medians[node] = np.median(residual[leaf == node])
    return medians


def _cost(residual: Floats) -> float:
    """Relative error times squared error of the logarithm."""
    return float(np.mean(np.abs(1.0 - np.exp(np.clip(-residual, -50, 50)))) * np.mean(residual**2))


def _kin(blind: Floats, weight: Floats, cells: Cells, noise: Floats) -> float:
    return kinship(cells.mean - blind @ weight, cells.workload, noise / cells.count)


def _spread(each: Floats, weight: Floats, mean: Floats) -> Floats:
    """Weighted standard deviation of what the members say."""
    spread: Floats = np.sqrt(np.maximum(((each - mean[:, None]) ** 2) @ weight, 0.0))
    return spread
