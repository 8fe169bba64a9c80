"""``linear``: time as a sum of costs, each in proportion to a quantity or to its inverse: ``t = c + f(size)``.

These are the linear time models of Kunkel's studies of I/O. The time is the objective itself where smaller is better,
and the time per unit (the inverse) of a bandwidth. Costs are found by non-negative least squares on relative errors, so
that no prediction is negative and a fast run counts as much as a slow one. Each value of the switch (the operation), if
one is named, has costs of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stripewise.models.base import PerformanceModel
from stripewise.models.cells import Data, error_correlation
from stripewise.models.domain import Domain, Floats
from stripewise.models.features import Encoder, Matrix

_FLOOR = 1e-3
"""A time below this share of the shortest in training is not predicted."""


class LinearModel(PerformanceModel):
    """Costs by non-negative least squares; the uncertainty is what the equation leaves unexplained."""

    name: ClassVar[str] = "linear"
    equation: Equation
    spread: float

    def _fit(self, data: Data, rng: np.random.Generator) -> None:
        x = self.encoder.encode(data.points)
        kinds, switch = feature_kinds(self.encoder), operation_switch(self.domain, self.encoder)
        inverse = self.domain.objective.maximize
        self.equation = Equation.fit(kinds, x, data.target, np.ones(len(x)), switch, inverse)
        residual = data.target - self.equation.predict(x)
        self.spread = float(np.sqrt(max(0.0, float(np.mean(residual**2)) - data.noise**2)))
        self.error_correlation = error_correlation(residual, data.workloads, data.noise**2)

    def _predict(self, points: Floats, x: Matrix) -> tuple[Floats, Floats]:
        return self.equation.predict(x), np.full(len(points), self.spread)

    def _importance(self) -> Floats:
        return self.equation.importance()

    def _rules(self) -> list[str]:
        name = self.domain.objective.name
        return self.equation.sentences(self.encoder, f"1 / {name}" if self.domain.objective.maximize else name)

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        document, arrays = self.equation.state()
        return {"spread": self.spread, "equation": document}, arrays

    def _restore(self, document: Mapping[str, Any], arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.spread = float(document["spread"])
        self.equation = Equation.restored(document["equation"], arrays)
        if self.equation.kinds != feature_kinds(self.encoder):
            raise ValueError("the equation does not fit the features")


def operation_switch(domain: Domain, encoder: Encoder) -> list[int]:
    """Features that say which operation a row is: read and write have costs of their own."""
    return [p for p, f in enumerate(encoder.features) if f.kind == "is" and f.plus[0] == domain.operation]


@dataclass(frozen=True, eq=False)
class Equation:
    """Fitted costs.

    Attributes
    ----------
    kinds : str
        One letter per feature: ``q`` a binary logarithm, ``i`` an indicator, ``v`` a plain number.
    scale : ndarray, shape (f,)
        Middle of each feature: the mean of logarithms, the mean absolute value of plain numbers.
    switch : tuple of int
        Indicators that choose the costs; empty for one set.
    cost : ndarray, shape (sets, terms)
    shortest : float
        Shortest time in training.
    inverse : bool
        Whether the value is the inverse of a time (a bandwidth).
    """

    kinds: str
    scale: Floats
    switch: tuple[int, ...]
    cost: Floats
    shortest: float
    inverse: bool

    @classmethod
    def fit(
        cls, kinds: str, x: Matrix, target: Floats, count: Floats, switch: Sequence[int], inverse: bool
    ) -> Equation:
        """Fit costs.

        Parameters
        ----------
        kinds, switch, inverse
            See the attributes.
        x : ndarray, shape (n, f)
        target : ndarray, shape (n,)
            ln(value).
        count : ndarray, shape (n,)
            Weight of each row.
        """
        from scipy.optimize import nnls  # noqa: PLC0415  slow import

        wide = x.astype(np.float64)
        scale = np.array(
            [
                float(np.mean(column)) if kind == "q" else float(np.mean(np.abs(column))) or 1.0
                for kind, column in zip(kinds, wide.T, strict=False)
            ]
        ).reshape(-1)
        time = np.exp(-target if inverse else target)
        terms = _terms(kinds, scale, wide)
        sets = _sets(x, switch)

        def solve(rows: NDArray[np.bool_]) -> Floats:
            root = np.sqrt(count[rows])
            matrix = terms[rows] / time[rows, None] * root[:, None]
            cost: Floats = nnls(matrix, root, maxiter=50 * terms.shape[1])[0]
            return cost

        everyone = np.ones(len(x), dtype=bool)
        costs = [solve(sets == s if np.any(sets == s) else everyone) for s in range(len(switch) + 1)]
        return cls(kinds, scale, tuple(switch), np.stack(costs), float(time.min()), inverse)

    def predict(self, x: Matrix) -> Floats:
        """Predicted ln(value), shape ``(n,)``."""
        terms = _terms(self.kinds, self.scale, x.astype(np.float64))
        time = np.einsum("nt,nt->n", terms, self.cost[_sets(x, self.switch)])
        logarithm = np.log(np.maximum(time, _FLOOR * self.shortest))
        result: Floats = -logarithm if self.inverse else logarithm
        return result

    def importance(self) -> Floats:
        """Each feature's costs at its middle value, over all sets, shape ``(f,)``."""
        share, place = np.zeros(len(self.kinds)), 1
        for feature, kind in enumerate(self.kinds):
            width = 1 if kind == "v" else 2
            share[feature] = float(self.cost[:, place : place + width].sum())
            place += width
        return share

    def sentences(self, encoder: Encoder, left: str) -> list[str]:
        """Write the equations, one for each set."""
        names = [""]
        for kind, feature, scale in zip(self.kinds, encoder.features, self.scale, strict=True):
            if kind == "q":
                name, middle = feature.name.removeprefix("log2 "), f"{2.0**scale:.4g}"
                names += [f" * ({name} / {middle})", f" * ({middle} / {name})"]
            elif kind == "i":
                names += [f" if {feature.name}", f" if not {feature.name}"]
            else:
                names += [f" * ({feature.name} / {scale:.4g})"]
        heads = [encoder.features[place].name for place in self.switch]
        heads = ["", *(f"{head}: " for head in heads)]
        if len(self.switch) == 1:
            heads[0] = f"not {encoder.features[self.switch[0]].name}: "
        found = []
        for head, cost in zip(heads, self.cost, strict=True):
            parts = [f"{value:.4g}{name}" for value, name in zip(cost, names, strict=True) if value > 0]
            found.append(f"{head}{left} = {' + '.join(parts) or '0'}")
        return found[1:] if len(self.switch) > 1 else found

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Numbers and arrays, for a model file."""
        document = {
            "kinds": self.kinds,
            "switch": list(self.switch),
            "shortest": self.shortest,
            "inverse": self.inverse,
        }
        return document, {"scale": self.scale, "cost": self.cost}

    @classmethod
    def restored(cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> Equation:
        """Take back what :meth:`state` gave."""
        equation = cls(
            str(document["kinds"]),
            np.asarray(arrays[prefix + "scale"], dtype=np.float64),
            tuple(int(place) for place in document["switch"]),
            np.asarray(arrays[prefix + "cost"], dtype=np.float64),
            float(document["shortest"]),
            bool(document["inverse"]),
        )
        terms = 1 + sum(1 if kind == "v" else 2 for kind in equation.kinds)
        places = range(len(equation.kinds))
        if equation.cost.shape != (len(equation.switch) + 1, terms) or equation.scale.shape != (len(places),):
            raise ValueError("the costs do not fit the features")
        if not set(equation.switch) <= set(places) or not equation.shortest > 0:
            raise ValueError("the costs have no such switch, or no shortest time")
        return equation


def feature_kinds(encoder: Encoder) -> str:
    """Give the letters of :attr:`Equation.kinds`."""
    return "".join({"log2": "q", "is": "i", "value": "v"}[feature.kind] for feature in encoder.features)


def _terms(kinds: str, scale: Floats, x: Floats) -> Floats:
    """Constant, then of each feature the quantity and its inverse, or the indicator and its opposite."""
    columns = [np.ones(len(x))]
    for place, kind in enumerate(kinds):
        if kind == "q":
            quantity = np.exp2(x[:, place] - scale[place])
            columns += [quantity, 1.0 / quantity]
        elif kind == "i":
            columns += [x[:, place], 1.0 - x[:, place]]
        else:
            # Linear axes may pass through zero: they have no inverse, and only positive values can be costs.
            columns += [np.maximum(x[:, place] / scale[place], 0.0)]
    return np.stack(columns, axis=1)


def _sets(x: Matrix, switch: Sequence[int]) -> NDArray[np.int64]:
    """The set of each row: 0 where no indicator of the switch is on, else the place of the one that is, plus 1."""
    result = np.zeros(len(x), dtype=np.int64)
    for number, place in enumerate(switch, 1):
        result[x[:, place] > 0.5] = number
    return result
