"""The prescriber: asks a performance model for every combination of settings and answers with the best.

What the user can set is varied; what only the program's author can change (the size of a call, collective or not) is
held, and comes back as advice. Today's settings stay unless the predicted gain exceeds its own uncertainty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stripewise.model.base import PerformanceModel
from stripewise.model.carriers import tunable_columns
from stripewise.model.table import Table
from stripewise.prescribe.answer import Answer
from stripewise.prescribe.grid import CandidateGrid
from stripewise.prescribe.points import all_rows, natural
from stripewise.prescribe.prescription import Prescription
from stripewise.prescribe.request import PrescriptionRequest, known_values
from stripewise.spec.configuration import Value


class Prescriber:
    """Prescribes from a model.

    Parameters
    ----------
    model : PerformanceModel
    table : Table, optional
        The measurements it was trained on, for reasons; a model that remembers its cells needs none.
    file_system : str, optional
        Whose layout stripes are (``lustre``, ``ceph``); by default as the workload says, else Lustre.
    """

    def __init__(self, model: PerformanceModel, table: Table | None = None, file_system: str | None = None) -> None:
        self.model = model
        self._table = table
        self._file_system = file_system

    def prescribe(self, request: PrescriptionRequest) -> Prescription:
        """Answer a request.

        Raises
        ------
        UserError
            If the request names what the model does not know, or leaves too much open.
        """
        return Answer(self.model, self._table, self._file_system or request.workload.file_system, request).give()

    def everything(self, workloads: Sequence[PrescriptionRequest], *, eager: bool = False) -> list[dict[str, Value]]:
        """Find the best value of every parameter, those of the program's author too, for many workloads at once.

        This is the selection of the neural-network study (its Listing 3): for benchmarks, which can do anything. What
        an operation cannot change (the layout of a file that is read) keeps its value.

        Parameters
        ----------
        workloads : sequence of PrescriptionRequest
            Each with a value of every context and, under ``current``, of every parameter.
        eager : bool
            Take the best even where its gain is within its uncertainty, as the study does.

        Returns
        -------
        list of dict
            Of each workload, values by column.
        """
        domain = self.model.domain
        every = tunable_columns(domain.schema, self._file_system)
        answers: list[dict[str, Value]] = [{} for _ in workloads]
        known = [known_values(domain, request) for request in workloads]
        by_operation: dict[str | None, list[int]] = {}
        for number, request in enumerate(workloads):
            by_operation.setdefault(request.workload.operation, []).append(number)
        for operation, members in by_operation.items():
            fixed = all_rows(self.model, [known[number] for number in members], every)
            words = _stacked([workloads[number].workload.words() for number in members])
            grid = CandidateGrid(self.model, [tunable for tunable in every if tunable.can_change(operation)], every)
            best = grid.best(fixed, words)
            now = grid.predict(fixed)
            keep = best.expected.mean - now.mean <= (0.0 if eager else best.expected.gain_deviation(now))
            points = np.where(keep[:, None], fixed, best.points)
            for place, name in enumerate(domain.names):
                values = domain.values(place, points[:, place])
                for number, value in zip(members, values.tolist(), strict=True):
                    answers[number][name] = natural(value)
        return answers


def _stacked(words: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: np.asarray([entry[name] for entry in words]) for name in words[0]}
