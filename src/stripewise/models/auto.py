"""``auto``: several light models, blended by their cross-validated errors.

How much each member of ``auto`` counts, and whether one more helps, by the errors on held-out cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stripewise.models.base import ModelOptions, PerformanceModel
from stripewise.models.cells import Cells, Data, Memory, error_correlation, gain_errors
from stripewise.models.domain import Floats
from stripewise.models.features import Matrix, at_least_one
from stripewise.models.files import mapping
from stripewise.models.linear import feature_kinds, operation_switch
from stripewise.models.members import (
    BlendMember,
    Learn,
    LearnerInput,
    can_compare,
    learn_boosted,
    learn_extra,
    learn_forest,
    learn_linear,
    learn_relative,
    learn_smooth,
    learn_steps,
    learn_values,
)
from stripewise.models.trees.boosting import BoostingOptions, boost, calibrate
from stripewise.models.trees.ensemble import Trees

_ROUNDS = 15
_NEAR = 0.1
"""Errors below this share of the least mean error are not told apart."""
_FOLDS = 5
_WEIGHTS_LEAST_CELLS = 20


def blend_weights(
    predictions: Floats, target: Floats, trust: Floats, groups: NDArray[np.int64] | None = None
) -> Floats:
    """Weights of members, not negative and adding up to 1, with the least error on held-out cells.

    For workloads that were measured, squared and absolute errors count alike, either in proportion to the best single
    member's: no single member has a smaller sum of both here. (Squares alone leave the choice to the few cells
    that no member can predict.)

    Shapes: returns ``(m,)``.

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
        square, absolute = _least_errors(errors, trust)
        share = trust / np.sum(trust)
        for _ in range(_ROUNDS if square > 0 else 0):
            # Absolute errors as squares, by the weights of the round before (iteratively reweighted least squares).
            far = np.maximum(np.abs(errors @ weights), _NEAR * absolute)
            importance = share * (1.0 / square + 0.5 / (absolute * far))
            weights = _least_squares(errors * np.sqrt(importance)[:, None])
    return weights


def improves_blend(predictions: Floats, target: Floats, trust: Floats, candidate: int) -> bool:
    """Whether a blend with one more member predicts cells better that its weights were not chosen by.

    The weights are chosen on four fifths of the cells, with the candidate and without it, and judged on the others by
    the errors that :func:`blend_weights` minimises. The mean gain has to exceed its standard error: a member that
    helps on some tables only would otherwise cost the others, by the chance in the choice.

    Parameters
    ----------
    predictions, target, trust
        See :func:`blend_weights`.
    candidate : int
        Place of the member.
    """
    if len(target) < _WEIGHTS_LEAST_CELLS:
        return False
    others = np.delete(predictions, candidate, axis=1)
    fold = np.random.default_rng(0).permutation(len(target)) % _FOLDS
    errors = np.empty((len(target), 2))
    for k in range(_FOLDS):
        test, train = fold == k, fold != k
        for place, some in enumerate((others, predictions)):
            errors[test, place] = some[test] @ blend_weights(some[train], target[train], trust[train]) - target[test]
    square, absolute = _least_errors(predictions - target[:, None], trust)
    if square <= 0 or absolute <= 0:
        return False
    loss = errors**2 / square + np.abs(errors) / absolute
    gain = loss[:, 0] - loss[:, 1]
    return bool(np.average(gain, weights=trust) > np.std(gain, ddof=1) / np.sqrt(len(gain)))


def _least_errors(errors: Floats, trust: Floats) -> tuple[float, float]:
    """Mean squared and mean absolute error of the member that has the least, each."""
    share = trust / np.sum(trust)
    return float(np.min(share @ errors**2)), float(np.min(share @ np.abs(errors)))


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


_LEAST_CELLS = 8
_LEAST_WORKLOADS = 4
_SEVERAL = 500
_MANY = 4000
_TAUGHT = 4000
"""Points that teach the small ensemble, at least."""
_FEW_FOLDS = 3
"""Enough to find the weights from more than several cells."""
_IDLE = 0.03
_TINY = 1e-12
_CANDIDATE = "values"
"""The member that has to prove itself before it joins."""
_FOR_MEASURED = ("steps", "forest", _CANDIDATE)
"""Members that know the cells between measured ones well, and carry over to new workloads no better than others."""
_HALFWAY = 0.5
"""The median costs least relative error, the mean least squared error of the logarithm."""
_SKEWED = 0.9
"""The mean of the logarithm is kept if it costs held-out runs so much less than the median."""


class AutoModelOptions(ModelOptions):
    """Options of ``auto``."""

    folds: int = Field(default=5, ge=2, le=50, description="folds of either cross-validation inside the training data")


@dataclass(frozen=True, eq=False)
class Blend:
    """How the members are blended for one kind of workload, and how uncertain the result is.

    Attributes
    ----------
    weights : ndarray, shape (members,)
        Not negative; they sum to 1.
    factor, floor : float
        The standard deviation is that of the members times the factor, plus the floor in squares
        (:func:`stripewise.models.trees.boosting.calibrate`).
    error_correlation : float
        See :func:`stripewise.models.cells.error_correlation`.
    """

    weights: Floats
    factor: float = 1.0
    floor: float = 0.0
    error_correlation: float = 0.0

    @classmethod
    def fitted(cls, weights: Floats, held_out: Floats, cells: Cells, noise: Floats) -> Blend:
        """Calibrate the uncertainty on predictions of held-out cells, shape ``(cells, members)``."""
        errors = cells.mean - held_out @ weights
        variance = noise / cells.count
        factor, floor = calibrate(_measure_spread(held_out, weights), np.maximum(errors**2 - variance, 0.0))
        return cls(weights, factor, floor, error_correlation(errors, cells.workload, variance))

    def predict(self, each: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation from what the members predict, shape ``(n, members)``."""
        return each @ self.weights, np.hypot(self.factor * _measure_spread(each, self.weights), self.floor)


class AutoModel(PerformanceModel):
    """A blend of light models (stacked regressions: Breiman, Mach. Learn. 24, 1996).

    1. Gather the rows by cell: a workload with a configuration, and the mean of ln(value) of its runs.
    2. Take the members: boosted trees, extremely randomised trees, a smooth regression, the linear time model, and
       (where workloads are comparable) a level for each workload plus relative effects; for workloads that were
       measured also a random forest, boosted trees without sampling, and a random forest on values, not logarithms.
    3. Predict held-out cells, and held-out workloads, by cross-validation inside the training data.
    4. From these predictions learn one set of non-negative weights for workloads that were measured, one for new
       ones, and for each the uncertainty. The forest on values joins only if the blend with it is better, by more than
       the standard error, on held-out cells that its weights were not chosen by.
    5. Drop members that hardly count, and train the others on all cells.
    6. Predict a cell that was measured by its own runs and the blend, each by its variance (empirical Bayes).
    7. Move all predictions to the mean of held-out logarithms, and from it towards medians, as far as noise is skewed.
    8. Train one small ensemble on the blend: it screens configurations, and stands for the model in the runtime.
    """

    name: ClassVar[str] = "auto"
    Options: ClassVar[type[ModelOptions]] = AutoModelOptions
    retired_options: ClassVar[frozenset[str]] = frozenset({"ann"})
    options: AutoModelOptions
    blended: dict[str, BlendMember]
    known: Blend
    """For workloads of the training."""
    new: Blend
    """For all others."""
    memory: Memory
    variance: Trees
    """Variance of ln of a single run."""
    offset: Trees
    """From the mean of ln(value) half the way to its median; zero where noise is too skewed for that."""
    student: Trees

    def _learners(self, cells: Cells, contexts: int) -> dict[str, Learn]:
        kinds, switch = feature_kinds(self.encoder), operation_switch(self.domain, self.encoder)
        learners: dict[str, Learn] = {
            "boosted": learn_boosted,
            "steps": learn_steps,
            "extra": learn_extra,
            "forest": learn_forest,
            "smooth": learn_smooth,
            "linear": learn_linear(kinds, switch, self.domain.objective.maximize),
        }
        own = np.array(
            [p for p, f in enumerate(self.encoder.features) if max((*f.plus, *f.minus)) < contexts], dtype=np.int64
        )
        if int(cells.workload.max()) + 1 >= _LEAST_WORKLOADS and len(own) and can_compare(cells, contexts):
            learners["relative"] = learn_relative(own)
        learners[_CANDIDATE] = learn_values
        return learners

    def _fit(self, data: Data, rng: np.random.Generator) -> None:
        cells = Cells.of(data, self.encoder)
        learners = self._learners(cells, self.domain.contexts)
        k = min(self.options.folds, len(cells), _FEW_FOLDS if len(cells) > _SEVERAL else len(cells))
        workloads = int(cells.workload.max()) + 1
        held_out = self._held_out(learners, cells, cells.folds(rng, k), rng) if len(cells) >= _LEAST_CELLS else None
        trust = cells.weight
        candidate = list(learners).index(_CANDIDATE)
        if held_out is None or not improves_blend(held_out, cells.mean, trust, candidate):
            del learners[_CANDIDATE]
            held_out = None if held_out is None else np.delete(held_out, candidate, axis=1)
        noise = self._noise(data, cells, held_out)
        if held_out is None:
            self.known = Blend(np.full(len(learners), 1.0 / len(learners)))
            blend = cells.mean
        else:
            self.known = Blend.fitted(blend_weights(held_out, cells.mean, trust), held_out, cells, noise)
            blend = held_out @ self.known.weights
        self.new = self.known
        place = self.domain.operation
        operations = np.zeros(len(cells)) if place is None else cells.points[:, place]
        self.gain_errors = np.full(1 if place is None else len(self.domain.columns[place].values), np.inf)
        if held_out is not None and workloads >= _LEAST_WORKLOADS:
            folds = cells.workload_folds(rng, min(k, workloads))
            carrying = {name: learn for name, learn in learners.items() if name not in _FOR_MEASURED}
            new = self._held_out(carrying, cells, folds, rng)
            blend_of_new = Blend.fitted(blend_weights(new, cells.mean, trust, cells.workload), new, cells, noise)
            weights = np.zeros(len(learners))
            weights[[name in carrying for name in learners]] = blend_of_new.weights
            self.new = replace(blend_of_new, weights=weights)
            errors = cells.mean - new @ blend_of_new.weights
            self.gain_errors = gain_errors(errors, cells.workload, operations.astype(np.int64), len(self.gain_errors))
        self._drop_idle(learners)
        given = LearnerInput(cells, rng)
        self.blended = {name: learn(given).settled() for name, learn in learners.items()}
        self._remember(data, cells, held_out, blend, noise)
        self.student = self._teach(cells, rng)

    def _drop_idle(self, learners: dict[str, Learn]) -> None:
        """Leave out members that hardly count, and share their weight among the others."""
        keep = np.maximum(self.known.weights, self.new.weights) >= _IDLE
        for name in [name for name, kept in zip(learners, keep, strict=True) if not kept]:
            del learners[name]
        self.known, self.new = (
            replace(blend, weights=blend.weights[keep] / blend.weights[keep].sum()) for blend in (self.known, self.new)
        )

    @staticmethod
    def _held_out(
        learners: Mapping[str, Learn], cells: Cells, folds: NDArray[np.int64], rng: np.random.Generator
    ) -> Floats:
        """What each member says of cells that it did not see, shape ``(cells, members)``."""
        result = np.empty((len(cells), len(learners)))
        chosen: dict[str, tuple[float, float, float]] = {}
        for fold in range(int(folds.max()) + 1):
            test = folds == fold
            if not test.any():
                continue
            train = np.flatnonzero(~test)
            if len(train) > _MANY:
                # Enough to find the weights; the members are trained on everything afterwards.
                train = np.sort(rng.choice(train, _MANY, replace=False))
            given = LearnerInput(cells.take(train), rng, chosen)
            for place, learn in enumerate(learners.values()):
                result[test, place] = learn(given).predict(cells.x[test])
        return result

    def _noise(self, data: Data, cells: Cells, held_out: Floats | None) -> Floats:
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
        elif held_out is not None:
            square, x = (cells.mean - held_out.mean(axis=1)) ** 2, cells.x
        else:
            square, x = np.full(len(cells), float(np.var(cells.mean))), cells.x
        least = max(20, len(x) // 20)
        tree = DecisionTreeRegressor(max_depth=3, min_samples_leaf=min(least, max(1, len(x) // 2)), random_state=0)
        self.variance = Trees.from_sklearn([tree.fit(x, square)])
        return np.maximum(self.variance.predict(cells.x), 0.0)

    def _remember(self, data: Data, cells: Cells, held_out: Floats | None, blend: Floats, noise: Floats) -> None:
        """Keep what the cells' own runs say, and learn how far to go from means towards medians."""
        contexts = self.domain.contexts
        count = cells.count[cells.cell]
        if held_out is None:
            self.memory = Memory.of(cells, cells.mean, np.sqrt(noise / cells.count), contexts)
            row = cells.mean[cells.cell]
        elif not np.any(cells.count > 1):
            # Noise and error cannot be told apart: single runs are known only as well as their common mean.
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
        # Members that learn values, and weights chosen by absolute errors, lie above the mean where noise is skewed.
        level = float(np.mean(residual))
        residual = residual - level
        medians = self.variance.with_values(_leaf_medians(self.variance, x, residual))
        skewed = _cost(residual) < _SKEWED * _cost(residual - medians.predict(x))
        offset = medians.scaled(0.0 if skewed else _HALFWAY)
        self.offset = offset.with_values(offset.value.astype(np.float64) + level)

    def _teach(self, cells: Cells, rng: np.random.Generator) -> Trees:
        """Fit a small ensemble to the blend: for screening many configurations, and for the runtime.

        Few cells show too little of the blend, so it answers for points like them, too (model compression: Bucila,
        Caruana and Niculescu-Mizil, KDD 2006).
        """
        like = self.domain.folded(self._like(cells.points, _TAUGHT - len(cells), rng))
        x = np.concatenate([cells.x, at_least_one(self.encoder.encode(like))])
        mean, _ = self._raw(np.concatenate([cells.points, like]), x)
        options = BoostingOptions(rounds=150, learning_rate=0.12, min_rows=1)
        return boost(x, mean, None, int(rng.integers(2**31)), options).trees

    def _like(self, points: Floats, count: int, rng: np.random.Generator) -> Floats:
        """Mix points: the workload of one, its numbers moved towards those of another, and the settings of a third."""
        one, other, third = (points[rng.integers(len(points), size=max(count, 0))] for _ in range(3))
        part, made = rng.random(len(one)), third
        for place, column in enumerate(self.domain.columns[: self.domain.contexts]):
            made[:, place] = one[:, place]
            if column.kind != "categorical":
                far = np.minimum(one[:, place], other[:, place]) > 0
                ratio = np.where(far, other[:, place], 1.0) / np.where(far, one[:, place], 1.0)
                made[:, place] *= ratio**part
        return made

    # -- predicting ----------------------------------------------------------------------------------------

    def _predict(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        return self._raw(points, at_least_one(x))

    def _raw(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        each = np.stack([member.predict(x) for member in self.blended.values()], axis=1)
        known = self.memory.knows_workload(points)
        mean, deviation = np.empty(len(x)), np.empty(len(x))
        for rows, blend in ((known, self.known), (~known, self.new)):
            if rows.any():
                mean[rows], deviation[rows] = blend.predict(each[rows])
        if len(self.memory.estimate):
            cell = self.memory.find(points)
            seen = cell >= 0
            mean[seen], deviation[seen] = self.memory.estimate[cell[seen]], self.memory.deviation[cell[seen]]
        return mean + self.offset.predict(x), deviation

    def _shared(self, points: Floats, deviation: Floats) -> Floats:
        known = self.memory.knows_workload(points)
        share = np.where(known, self.known.error_correlation, self.new.error_correlation)
        if len(self.memory.estimate):
            share[self.memory.find(points) >= 0] = 0.0
        return deviation * np.sqrt(share)

    def runtime_form(self) -> Trees:
        """See :meth:`PerformanceModel.runtime_form`: the ensemble that learned the blend."""
        return self.student

    def measured(self) -> tuple[Floats, Floats] | None:
        """See :meth:`PerformanceModel.measured`; None for single runs, of which only the places are remembered."""
        return (self.memory.points, np.exp(self.memory.estimate)) if len(self.memory.estimate) else None

    def places(self) -> Floats:
        """See :meth:`PerformanceModel.places`."""
        return self.memory.points

    def _rules(self) -> list[str]:
        def line(weight: Floats) -> str:
            return ", ".join(f"{name} {w:.0%}" for name, w in zip(self.blended, weight, strict=True))

        return [f"measured workloads: {line(self.known.weights)}", f"new workloads: {line(self.new.weights)}"]

    # -- keeping -------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        members: dict[str, Any] = {}
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        for name, member in self.blended.items():
            members[name], own = member.state(f"{name}.")
            arrays |= own
        arrays |= (
            self.variance.arrays("variance.")
            | self.offset.arrays("offset.")
            | self.student.arrays("student.")
            | self.memory.arrays("memory.")
        )
        blends = (("known", self.known), ("new", self.new))
        document = {
            "members": members,
            # The keys are those of the first version of the format.
            "known_weights": self.known.weights.tolist(),
            "new_weights": self.new.weights.tolist(),
            "doubt": {name: [blend.factor, blend.floor] for name, blend in blends},
            "kin": {name: blend.error_correlation for name, blend in blends},
            "gain_errors": [float(error) if np.isfinite(error) else None for error in self.gain_errors],
            "variance_bias": self.variance.bias,
            "student_bias": self.student.bias,
        }
        return document, arrays

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        width = max(1, len(self.encoder.features))  # see at_least_one
        self.blended = {
            name: BlendMember.restored(parts, arrays, f"{name}.", width)
            for name, parts in mapping(document["members"]).items()
        }
        self.known, self.new = (_restored_blend(document, name) for name in ("known", "new"))
        if not self.known.weights.shape == self.new.weights.shape == (len(self.blended),):
            raise ValueError("each member needs a weight")
        self.variance = Trees.restored(arrays, width, float(document["variance_bias"]), "variance.")
        self.offset = Trees.restored(arrays, width, 0.0, "offset.")
        self.student = Trees.restored(arrays, width, float(document["student_bias"]), "student.")
        self.memory = Memory.restored(arrays, "memory.", self.domain)
        # Models of before say nothing of them.
        errors = document.get("gain_errors", [None])
        self.gain_errors = np.array([np.inf if error is None else float(error) for error in errors])
        place = self.domain.operation
        if len(errors) not in (1, 1 if place is None else len(self.domain.columns[place].values)):
            raise ValueError("each operation needs an error of its gains")


def _restored_blend(document: Mapping[str, Any], name: str) -> Blend:
    factor, floor = document["doubt"][name]
    weights = np.asarray(document[f"{name}_weights"], dtype=np.float64)
    return Blend(weights, float(factor), float(floor), float(document["kin"][name]))


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


def _measure_spread(each: Floats, weight: Floats) -> Floats:
    """Weighted standard deviation of what the members predict, shape ``(n,)``."""
    spread: Floats = np.sqrt(np.maximum(((each - (each @ weight)[:, None]) ** 2) @ weight, 0.0))
    return spread
