"""``linear``: the linear time models of Kunkel's studies of I/O, see :mod:`stripewise.model.equation`.

The time is the objective itself where smaller is better, and the time per unit (the inverse) of a bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from stripewise.model.base import PerformanceModel
from stripewise.model.data import Data
from stripewise.model.domain import Domain, Floats
from stripewise.model.equation import Equation, feature_kinds
from stripewise.model.features import Encoder, Matrix
from stripewise.model.kinship import kinship


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
        self.kinship = kinship(residual, data.workloads, data.noise**2)

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
        if len(self.equation.kinds) != len(self.encoder.features):
            raise ValueError("the equation does not fit the features")


def operation_switch(domain: Domain, encoder: Encoder) -> list[int]:
    """Features that say which operation a row is: read and write have costs of their own."""
    columns = [i for i, c in enumerate(domain.columns) if c.role == "operation" and c.kind == "categorical"]
    return [p for p, f in enumerate(encoder.features) if f.kind == "is" and f.plus[0] in columns[:1]]
