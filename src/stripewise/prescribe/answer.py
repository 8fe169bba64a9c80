"""One request on its way to a prescription: what may change, the best of it, whether it is worth it, and what else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stripewise.model.artifact.export import margin_of
from stripewise.model.artifact.inputs import Inputs
from stripewise.model.base import PerformanceModel
from stripewise.model.carriers import Knob, Way, knobs
from stripewise.model.domain import Floats
from stripewise.model.table import Table
from stripewise.prescribe.advice import advice_text
from stripewise.prescribe.carrying import lines
from stripewise.prescribe.grid import CandidateGrid, Expected
from stripewise.prescribe.points import natural, rows_of
from stripewise.prescribe.prescription import Advice, Prescription, SettingChange, plan_of
from stripewise.prescribe.reasons import neighbours, rules
from stripewise.prescribe.request import Known, PrescriptionRequest, known_values
from stripewise.spec.configuration import Value
from stripewise.spec.formats import WORTH
from stripewise.spec.parameter import When


class Answer:
    """One request on its way to a prescription."""

    def __init__(
        self, model: PerformanceModel, table: Table | None, file_system: str | None, request: PrescriptionRequest
    ) -> None:
        self._model = model
        self._table = table
        self._request = request
        self._domain = model.domain
        self._workload = request.workload
        self._every = knobs(self._domain.schema, file_system)
        self._words = self._workload.words()
        self._standin = self._stand_in()
        self._known = self._with_program(known_values(self._domain, request))
        self._fixed = rows_of(model, self._known, self._every, request.processes)
        self._groups = len(self._fixed)
        # In the order of an artifact: the runtime takes changes back in it.
        order = Inputs(self._domain, file_system).places
        self._free = sorted((knob for knob in self._every if self._settable(knob)), key=lambda knob: order[knob.place])

    # -- what may change -----------------------------------------------------------------------------------

    def _stand_in(self) -> Knob | None:
        """The column "collective or not", where ``romio_cb_*`` can stand in for it: the calls are collective."""
        names = {knob.parameter.name for knob in self._every if knob.parameter is not None}
        if names & {"romio_cb_write", "romio_cb_read"} or self._workload.collective is False:
            return None
        return next((k for k in self._every if k.column.role == "collective"), None)

    def _settable(self, knob: Knob) -> bool:
        if knob is self._standin or knob.way is Way.PLACE:
            return True
        kept = self._request.existing and knob.at_creation
        return knob.way is Way.SETTING and not kept and knob.can_change(self._workload.operation)

    def _with_program(self, known: Known) -> Known:
        """What the program does and nobody said counts as unknown, not as the table's default."""
        unknown = list(known.unknown)
        notes = list(known.notes)
        for knob in self._every:
            if knob.way in (Way.PROGRAM, Way.LAUNCH) and knob.name not in known.values and knob is not self._standin:
                seen = self._domain.seen[knob.place]
                unknown.append(knob.name)
                if len(seen) > 1:
                    notes.append(f"{knob.name} of the program is unknown: the mean over its values counts")
        return replace(known, unknown=tuple(unknown), notes=tuple(notes))

    # -- the answer ----------------------------------------------------------------------------------------

    def give(self) -> Prescription:
        """Find it."""
        grid = CandidateGrid(self._model, self._free, self._every)
        now = self._fixed.copy()
        grid_words = self._words
        today = grid.predict(now, self._groups)
        best = grid.best(self._fixed, grid_words, self._groups)
        point = best.points[0]
        gain = float(best.expected.mean[0] - today.mean[0])
        changed = [knob for knob in self._free if point[knob.place] != now[0, knob.place]]
        changed, gain_left, then = self._simplified(grid, now, point, changed)
        deviation = float(then.gain_deviation(today)[0]) if changed else 0.0
        objective = self._domain.objective
        kept = ""
        if not changed:
            kept = "today's settings are the best of all combinations"
        elif gain_left <= (margin := margin_of(self._model)):
            kept = (
                f"the best combination is predicted to be {np.exp(gain_left):.2f} times as fast, which is within the "
                f"uncertainty (a factor of {np.exp(margin):.2f})"
            )
        if kept:
            changed = []
        chosen = now.copy()
        for knob in changed:
            chosen[:, knob.place] = point[knob.place]
        mean_then = grid.predict(chosen, self._groups).mean
        changes = tuple(self._change(grid, now, chosen, knob, float(mean_then[0])) for knob in changed)
        sign = 1.0 if objective.maximize else -1.0
        outside = self._domain.outside_points(chosen)
        notes = (*self._known.notes, *(f"{text}: the prediction reaches beyond what was measured" for text in outside))
        told = [(knob, self._value(knob, chosen[0])) for knob in changed]
        extra = lines(told, self._standin, self._workload.operation, self._words)
        return Prescription(
            origin=f"model {self._model.name} of table {self._domain.schema.name}",
            simulated="simulated" in self._domain.schema.description.lower(),
            objective=objective,
            workload=self._workload,
            changes=changes,
            kept=kept,
            plan=plan_of(extra, f"prescribed-{self._domain.schema.name}"[:128]),
            directory=self._directory(changed, chosen),
            current=float(np.exp(sign * today.mean[0])),
            predicted=float(np.exp(sign * mean_then[0])),
            gain=gain if not changed and not kept else gain_left,
            deviation=deviation,
            combinations=int(best.combinations[0]),
            advice=self._advice(chosen, float(mean_then[0])),
            reasons=rules(grid, self._fixed, grid_words, self._groups, chosen[0]) if changes else (),
            neighbours=neighbours(self._model, self._table, now[0], chosen[0]),
            notes=(*notes, *self._remarks(changed)),
        )

    def _simplified(
        self, grid: CandidateGrid, now: Floats, point: Floats, changed: list[Knob]
    ) -> tuple[list[Knob], float, Expected]:
        """Take back changes that bring next to nothing, one after the other; then the gain, and what is expected."""

        def with_these(some: Sequence[Knob]) -> Floats:
            trial = now.copy()
            for knob in some:
                trial[:, knob.place] = point[knob.place]
            return trial

        expected = grid.predict(with_these(changed), self._groups)
        mean = float(expected.mean[0])
        for knob in list(changed):
            fewer = [other for other in changed if other is not knob]
            trial = with_these(fewer)
            if not grid.lawful(trial.copy(), self._words).all():
                continue
            without = grid.predict(trial, self._groups)
            if without.mean[0] >= mean - WORTH:
                changed, expected = fewer, without
                mean = max(float(without.mean[0]), mean - WORTH) if without.mean[0] < mean else float(without.mean[0])
        base = grid.predict(now, self._groups)
        return changed, mean - float(base.mean[0]), expected

    def _change(self, grid: CandidateGrid, now: Floats, chosen: Floats, knob: Knob, mean: float) -> SettingChange:
        without = chosen.copy()
        without[:, knob.place] = now[:, knob.place]
        alone = grid.predict(without, self._groups).mean
        unknown = knob is self._standin and self._workload.collective is None
        return SettingChange(
            knob.name,
            None if unknown else self._value(knob, now[0]),
            self._value(knob, chosen[0]),
            knob.column.unit,
            float(np.exp(mean - alone[0])),
        )

    def _value(self, knob: Knob, point: Floats) -> Value:
        return natural(self._domain.values(knob.place, point[[knob.place]]).tolist()[0])

    def _directory(self, changed: Sequence[Knob], chosen: Floats) -> str:
        for knob in changed:
            if knob.way is Way.PLACE:
                return str(self._value(knob, chosen[0]))
        return ""

    def _remarks(self, changed: Sequence[Knob]) -> list[str]:
        found = []
        if self._standin is not None and self._standin in changed:
            found.append(
                f"romio_cb_* stands in for {self._standin.name}: it decides how collective calls reach the file, and "
                "does nothing to independent ones"
            )
        if any(k.parameter is not None and k.parameter.when is When.CREATE for k in changed):
            found.append("a layout acts on files that are created with it: existing files keep theirs")
        return found

    # -- advice --------------------------------------------------------------------------------------------

    def _advice(self, chosen: Floats, mean: float) -> tuple[Advice, ...]:
        """What else would be better, if the program or its start were changed: one thing at a time."""
        found = []
        for knob in self._every:
            can = knob.way in (Way.PROGRAM, Way.LAUNCH, Way.OTHER) and knob is not self._standin
            if not can or (knob.way is Way.LAUNCH and knob.column.role == "nodes"):
                continue
            trials = []
            for level in self._domain.seen[knob.place]:
                number = float(level) if knob.column.kind == "categorical" else float(knob.column.values[level])
                trial = chosen.copy()
                trial[:, knob.place] = number
                trials.append((number, trial))
            grid = CandidateGrid(self._model, [], self._every)
            each = grid.predict(np.concatenate([trial for _, trial in trials]), self._groups)
            place = int(np.argmax(each.mean))
            if each.mean[place] - mean <= each.gain_deviation(grid.predict(chosen, self._groups))[place]:
                continue
            known = knob.name in self._known.values
            value = self._value(knob, trials[place][1][0])
            current = self._value(knob, chosen[0]) if known else None
            speedup = float(np.exp(each.mean[place] - mean))
            found.append(Advice(knob.name, current, value, speedup, advice_text(knob, current, value)))
        return tuple(sorted(found, key=lambda entry: -entry.speedup))
