"""A performance model as the expectation from which a search starts: a ``PriorMean`` for samplers."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.space import Levels, Space
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.models.domain import Domain, Floats
from stripewise.models.prescribe.request import PrescriptionRequest, known_values, rows_of
from stripewise.models.tunables import TunableColumn, bytes_of, tunable_columns


class Expecting(Protocol):
    """What a prior asks of a performance model, which may be in another process."""

    @property
    def name(self) -> str:
        """Of its kind."""

    @property
    def domain(self) -> Domain:
        """What it was trained on."""

    def expected(self, points: Floats) -> Floats:
        """See :meth:`stripewise.models.base.PerformanceModel.expected`."""


class ModelPrior:
    """What a model expects of the configurations of a space, for one workload.

    Parameters
    ----------
    model : Expecting
        A performance model.
    workload : Workload
        Of the program that is tuned; what it leaves open counts as the mean over what was measured.

    Raises
    ------
    UserError
        If the workload leaves too much open, or was never measured.
    """

    def __init__(self, model: Expecting, workload: Workload) -> None:
        self._model = model
        self._tunables = tunable_columns(model.domain.schema, workload.file_system)
        self._fixed = rows_of(model.domain, known_values(model.domain, PrescriptionRequest(workload)), self._tunables)
        self._tables: dict[int, tuple[Space, list[tuple[int, TunableColumn, NDArray[np.float64]]]]] = {}

    def shared(self, space: Space) -> list[str]:
        """Names of the space's parameters that the model knows."""
        return [space.names[index] for index, _, _ in self._match(space)]

    def __call__(self, space: Space, levels: Levels) -> NDArray[np.float64]:
        """Expected natural logarithm of performance, larger is better: ``(n, d)`` to ``(n,)``.

        Raises
        ------
        UserError
            If the model knows none of the space's parameters.
        """
        match = self._match(space)
        if not match:
            raise UserError(
                f"the model knows none of the parameters {', '.join(space.names)}",
                f"it knows {', '.join(tunable.name for tunable in self._tunables)}: tune those, or leave out --model",
            )
        folded = space.fold(levels)
        # Configurations that differ in nothing the model knows are one to it.
        known = np.stack([numbers[folded[:, index]] for index, _, numbers in match], axis=1)
        distinct, inverse = np.unique(known, axis=0, return_inverse=True)
        mean = np.zeros(len(distinct))
        for row in self._fixed:
            points = np.tile(row, (len(distinct), 1))
            for place, (_, tunable, _) in enumerate(match):
                points[:, tunable.place] = distinct[:, place]
            mean += self._model.expected(points)
        result: NDArray[np.float64] = mean[inverse.reshape(-1)] / len(self._fixed)
        return result

    def _match(self, space: Space) -> list[tuple[int, TunableColumn, NDArray[np.float64]]]:
        """Parameters with the model's column and the number of each of their values there."""
        held = self._tables.get(id(space))
        if held is None or held[0] is not space:
            found = []
            for index, parameter in enumerate(space.parameters):
                tunable = next((tunable for tunable in self._tunables if _is_same(tunable, parameter)), None)
                if tunable is not None:
                    numbers = np.array([self._number(tunable, value) for value in parameter.values])
                    found.append((index, tunable, numbers))
            held = self._tables[id(space)] = (space, found)
        return held[1]

    def _number(self, tunable: TunableColumn, value: Value) -> float:
        """The column's number for a value; a category that was never measured counts as the current setting."""
        column = tunable.column
        if column.kind == "ordinal":
            return float(value) / bytes_of(column)
        for place in self._model.domain.seen[tunable.place]:
            if str(column.values[place]).lower() == str(value).lower():
                return float(place)
        return float(self._fixed[0, tunable.place])


def _is_same(tunable: TunableColumn, parameter: Parameter) -> bool:
    if tunable.name == parameter.name:
        return True
    return tunable.parameter is not None and tunable.parameter.name == parameter.name
