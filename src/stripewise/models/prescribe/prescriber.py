"""The prescriber: asks a performance model for every combination of settings and answers with the best.

What the user can set is varied; what only the program's author can change (the size of a call, collective or not) is
held, and comes back as advice. Today's settings stay unless the predicted gain exceeds its own uncertainty. An answer
has reasons: measured cells nearby, and rules that its own predictions follow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value, plain_number
from stripewise.catalogue.meaning import Situation, explain_unread
from stripewise.catalogue.parameter import When
from stripewise.formats import WORTH
from stripewise.models.artifact.inputs import Inputs
from stripewise.models.base import PerformanceModel, limit_gain
from stripewise.models.cells import Data
from stripewise.models.domain import Floats
from stripewise.models.prescribe.grid import BestCombination, CandidateGrid, LogPrediction
from stripewise.models.prescribe.prescription import (
    Advice,
    Neighbour,
    Prescription,
    SettingChange,
    advice_text,
    list_settings,
    make_plan,
    spell_value,
)
from stripewise.models.prescribe.request import Known, PrescriptionRequest, all_rows, known_values, rows_of
from stripewise.models.table import Table
from stripewise.models.tunables import SetBy, TunableColumn, find_stand_in, tunable_columns
from stripewise.sizes import count_of, format_factor, format_size

_NEAREST = 3
_DEPTH = 3
_ROWS = 20_000


def find_neighbours(
    model: PerformanceModel, table: Table | None, current: Floats, chosen: Floats
) -> tuple[Neighbour, ...]:
    """Find the measured cells nearest to a workload with its prescribed settings, and with the current ones.

    Parameters
    ----------
    table : Table or None
        What was measured; without it the cells that the model remembers, if it does.
    current, chosen : ndarray, shape (c,)
        Points.
    """
    cells = _find_cells(model, table)
    if cells is None:
        return ()
    points, values, runs = cells
    encoder = model.encoder
    known = encoder.encode(points).astype(np.float64)
    spread = known.std(axis=0)
    spread[spread == 0] = 1.0
    found: list[Neighbour] = []
    for point, is_chosen in ((chosen, True), (current, False)):
        if not is_chosen and np.array_equal(current, chosen):
            continue
        own = encoder.encode(model.domain.folded(point[None, :])).astype(np.float64)
        distance = np.sqrt(np.sum(((known - own) / spread) ** 2, axis=1))
        if model.domain.operation is not None:  # a read says nothing of a write
            distance[points[:, model.domain.operation] != point[model.domain.operation]] = np.inf
        nearest = np.argsort(distance, kind="stable")[:_NEAREST]
        for cell in nearest[np.isfinite(distance[nearest])]:
            row = {
                column.name: plain_number(model.domain.values(place, points[cell, [place]]).tolist()[0])
                for place, column in enumerate(model.domain.columns)
            }
            number = None if runs is None else int(runs[cell])
            found.append(Neighbour(row, float(values[cell]), number, float(distance[cell]), is_chosen))
    return tuple(found)


def _find_cells(model: PerformanceModel, table: Table | None) -> tuple[Floats, Floats, NDArray[np.int64] | None] | None:
    """Points of the measured cells, their typical values, and how many runs each had."""
    if table is not None:
        data = Data.of(model.domain, table)
        cells = data.gathered
        return data.points[cells.first], np.exp(cells.medians(data.target)), cells.count
    remembered = model.measured()
    return None if remembered is None else (*remembered, None)


def explain_choice(grid: CandidateGrid, fixed: Floats, words: Mapping[str, Any], chosen: Floats) -> tuple[str, ...]:
    """Put the predictions for this workload into rules: a small tree over all combinations, and the way to the choice.

    Returns
    -------
    tuple of str
        One sentence for each turn on the way, and the leaf's value beside what the other settings get.
    """
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415  slow import

    points = grid.points(fixed[:1])
    points = points[grid.lawful(points, words, fixed[:1])]
    if len(points) > _ROWS:
        points = points[np.random.default_rng(0).permutation(len(points))[:_ROWS]]
    domain = grid.model.domain
    places = [tunable.place for tunable in grid.free if np.ptp(points[:, tunable.place]) > 0]
    if len(points) < 2 or not places:
        return ()
    mean = grid.predict(points).mean
    columns, names = _columns(grid, points, places)
    own, _ = _columns(grid, chosen[None, :], places, names)
    tree = DecisionTreeRegressor(max_depth=_DEPTH, min_samples_leaf=max(1, len(points) // 50), random_state=0)
    tree.fit(columns, mean)
    path = tree.decision_path(own.astype(np.float32)).indices
    inner = tree.tree_
    found = []
    sign = 1.0 if domain.objective.maximize else -1.0
    for node in path:
        if inner.children_left[node] < 0:
            continue
        name, place, category = names[inner.feature[node]]
        left = own[0, inner.feature[node]] <= inner.threshold[node]
        mine, other = inner.children_left[node], inner.children_right[node]
        if not left:
            mine, other = other, mine
        ratio = float(np.exp(inner.value[mine, 0, 0] - inner.value[other, 0, 0]))
        turn = _turn(domain, name, place, category, bool(left), points, inner.threshold[node])
        factor = format_factor(max(ratio, 1 / ratio))
        way = "fast" if ratio > 1 else "slow"
        found.append(f"{turn}: {factor} times as {way}" if factor != "1.00" else f"{turn}: as fast")
    leaf = path[-1]
    typical = float(np.exp(sign * inner.value[leaf, 0, 0]))
    unit = domain.objective.unit
    found.append(
        f"so about {typical:.4g} {unit}".rstrip() + f" ({count_of(int(inner.n_node_samples[leaf]), 'combination')})"
    )
    return tuple(found)


_Name = tuple[str, int, int | None]


def _columns(
    grid: CandidateGrid, points: Floats, places: list[int], names: list[_Name] | None = None
) -> tuple[Floats, list[_Name]]:
    """Numbers as they are, categories as indicators."""
    domain = grid.model.domain
    if names is None:
        names = []
        for place in places:
            column = domain.columns[place]
            if column.kind == "categorical":
                names += [(column.name, place, int(position)) for position in np.unique(points[:, place])]
            else:
                names.append((column.name, place, None))
    columns = [points[:, place] if position is None else points[:, place] == position for _, place, position in names]
    return np.stack(columns, axis=1).astype(np.float64), names


def _turn(
    domain: Any, name: str, place: int, category: int | None, left: bool, points: Floats, threshold: float
) -> str:
    column = domain.columns[place]
    if category is not None:
        return f"{name} is {'not ' if left else ''}{column.values[category]}"
    values = np.unique(points[:, place])
    below, above = values[values <= threshold], values[values > threshold]
    number = float(below[-1] if left else above[0])
    unit = "" if column.unit == "count" else column.unit
    shown = format_size(number) if unit == "B" else f"{number:g} {unit}".rstrip()
    return f"{name} at {'most' if left else 'least'} {shown}"


_REASONS = 3


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
        # What an operation can set, the table says; the files are to lie where it was measured, not where they lay.
        self._situation = Situation(io=request.io, mpi=request.mpi)
        self._every = tunable_columns(self._domain.schema, file_system)
        self._words = self._workload.words()
        self._standin = self._stand_in()
        self._known = self._with_program(known_values(self._domain, request))
        self._open = rows_of(model.domain, self._known, self._every, request.processes)
        # In the order of an artifact: the runtime takes changes back in it.
        order = Inputs(self._domain, file_system).places
        self._free = sorted(
            (tunable for tunable in self._every if self._settable(tunable)), key=lambda tunable: order[tunable.place]
        )
        self._grid = CandidateGrid(model, self._free, self._every, self._standin)
        self._open = self._grid.put_defaults(self._open, self._words, self._known.values)
        # What is unknown has a value that was measured with what is known, if there is one.
        kept = self._grid.measured(self._open, self._words)
        self._fixed = self._open[kept] if kept.any() else self._open
        self._groups = len(self._fixed)

    # -- what may change -----------------------------------------------------------------------------------

    def _stand_in(self) -> TunableColumn | None:
        """The column "collective or not", where ``romio_cb_*`` can stand in for it: the calls are collective."""
        return None if self._workload.collective is False else find_stand_in(self._every)

    def _settable(self, tunable: TunableColumn) -> bool:
        if tunable is self._standin or tunable.set_by is SetBy.PLACE:
            return True
        kept = self._request.existing and tunable.at_creation
        meets = tunable.parameter is None or (
            tunable.parameter.meets(self._workload.api) and not explain_unread(tunable.parameter, self._situation)
        )
        return tunable.set_by is SetBy.SETTING and not kept and meets and tunable.can_change(self._workload.operation)

    def _with_program(self, known: Known) -> Known:
        """What the program does and nobody said counts as unknown, not as the table's default."""
        unknown = list(known.unknown)
        notes = list(known.notes)
        for tunable in self._every:
            if (
                tunable.set_by in (SetBy.PROGRAM, SetBy.LAUNCH)
                and tunable.name not in known.values
                and tunable is not self._standin
            ):
                seen = self._domain.seen[tunable.place]
                unknown.append(tunable.name)
                if len(seen) > 1:
                    notes.append(f"{tunable.name} of the program is unknown: the mean over its values counts")
        return replace(known, unknown=tuple(unknown), notes=tuple(notes))

    # -- the answer ----------------------------------------------------------------------------------------

    def give(self) -> Prescription:
        """Find it."""
        grid = self._grid
        now = self._fixed.copy()
        today = grid.predict(now, self._groups)
        best = grid.best(self._fixed, self._words, self._groups)
        found = best.combinations[0] > 0
        point = best.points[0] if found else now[0]
        acting = grid.acting(with_values(now, self._free, point), self._words)
        changed = [tunable for tunable in acting if point[tunable.place] != now[0, tunable.place]]
        left_out = self._left_out(best) if self._free else []
        changed, gain, then = self._simplified(now, point, changed)
        deviation = self._doubt(now, changed, point, then, today) if changed else 0.0
        objective = self._domain.objective
        reach = self._model.reach
        predicted, (gain, deviation) = gain, limit_gain(gain, deviation, reach)
        own_margin = self._widest(self._model.margins())
        _, margin = limit_gain(predicted, own_margin, reach)
        kept = ""
        if not self._free:
            kept = "nothing can be chosen for this workload: no column of the model is a setting that acts on it"
        elif not self._grid.measured(self._fixed, self._words).any():
            kept = "nothing like the program with its current settings was measured with this workload"
        elif not found:
            kept = "no combination of the settings was measured with this workload, or the stacks' rules forbid all"
        elif not changed:
            kept = "the current settings are the best of all combinations"
        elif gain <= margin and margin > own_margin:
            kept = (
                f"the model predicts the best combination to be {np.exp(predicted):.3g} times as fast: it is "
                "wrong here. No configurations of one measured workload differ by more than a factor of "
                f"{np.exp(reach):.2f}"
            )
        elif gain <= margin:
            kept = (
                f"the best combination is predicted to be {np.exp(gain):.2f} times as fast, which is within the "
                f"uncertainty (a factor of {np.exp(margin):.2f})"
            )
        if kept:
            changed = []
        chosen = with_values(now, changed, point)
        expected = grid.predict(chosen, self._groups)
        mean = float(expected.mean[0])
        changes = tuple(self._change(now, chosen, tunable, mean) for tunable in changed)
        sign = 1.0 if objective.maximize else -1.0
        outside = self._domain.outside_points(chosen)
        notes = (*self._known.notes, *(f"{text}: the prediction reaches beyond what was measured" for text in outside))
        told = [(tunable, self._value(tunable, chosen[0])) for tunable in changed]
        advice, unset = self._advice(chosen, expected)
        extra = list_settings(told, self._standin, self._workload.operation, self._words)
        every = [(tunable, self._value(tunable, chosen[0])) for tunable in self._free]
        return Prescription(
            origin=f"model {self._model.name} of table {self._domain.schema.name}",
            simulated="simulated" in self._domain.schema.description.lower(),
            objective=objective,
            workload=self._workload,
            changes=changes,
            kept=kept,
            plan=make_plan(extra, f"prescribed-{self._domain.schema.name}"[:128]),
            decided=tuple(list_settings(every, self._standin, self._workload.operation, self._words)),
            directory=self._directory(changed, chosen),
            current=float(np.exp(sign * today.mean[0])),
            predicted=float(np.exp(sign * mean)),
            spread=float(expected.deviation[0]),
            gain=float(gain),
            deviation=float(deviation),
            reach=reach if reach > 0 else math.inf,
            combinations=int(best.combinations[0]),
            advice=advice,
            reasons=explain_choice(grid, self._fixed, self._words, chosen[0]) if changes else (),
            neighbours=find_neighbours(self._model, self._table, now[0], chosen[0]),
            notes=(*notes, *self._unsaid(), *left_out, *self._remarks(changed, chosen[0]), *unset),
        )

    def _left_out(self, best: BestCombination) -> list[str]:
        """Say why what the model takes for the best is not prescribed, if it is not."""
        grid = self._grid
        first = grid.best(self._fixed, self._words, self._groups, founded=False)
        if not first.combinations[0] or first.expected.mean[0] <= best.expected.mean[0] + WORTH:
            return []
        found: dict[str, None] = {}
        for row in self._fixed:
            point = with_values(row[None, :], self._free, first.points[0])[0]
            found |= dict.fromkeys(grid.why_not(point, self._words, row))
        return [f"left out: {reason}" for reason in list(found)[:_REASONS]]

    def _unsaid(self) -> list[str]:
        """Say what the model does not know of its own training."""
        if self._domain.measured is not None:
            return []
        return [
            "the model does not say which settings were measured together: an earlier version made it, so train it "
            "again"
        ]

    def _widest(self, by_operation: Floats) -> float:
        """What holds for this operation; the largest where that is unknown."""
        number = self._domain.operation
        if number is None or len(by_operation) == 1:
            return float(np.max(by_operation))
        return float(np.max(by_operation[np.unique(self._open[:, number]).astype(int)]))

    def _doubt(
        self,
        now: Floats,
        changed: Sequence[TunableColumn],
        point: Floats,
        then: LogPrediction,
        today: LogPrediction,
    ) -> float:
        """Standard deviation of the gain: the model's own, and that between the values of what is unknown.

        Within what was measured, the errors of gains on held-out workloads say it better than the model's members.
        """
        own = float(then.gain_deviation(today)[0])
        chosen = with_values(now, changed, point)
        if not self._domain.outside_points(chosen):
            own = min(own, self._widest(self._model.gain_errors))
        if self._groups == 1:
            return own
        gains = self._grid.predict(chosen).mean - self._grid.predict(now).mean
        return math.hypot(own, float(np.std(gains, ddof=1)) * math.sqrt(1.0 + 1.0 / self._groups))

    def _simplified(
        self, now: Floats, point: Floats, changed: list[TunableColumn]
    ) -> tuple[list[TunableColumn], float, LogPrediction]:
        """Take back changes that bring next to nothing, one after the other; then the gain, and what is expected."""
        grid = self._grid
        expected = grid.predict(with_values(now, changed, point), self._groups)
        mean = float(expected.mean[0])
        for tunable in list(changed):
            fewer = [other for other in changed if other is not tunable]
            trial = with_values(now, fewer, point)
            if not grid.lawful(trial.copy(), self._words, now).all():
                continue
            without = grid.predict(trial, self._groups)
            if without.mean[0] >= mean - WORTH:
                changed, expected = fewer, without
                mean = max(float(without.mean[0]), mean - WORTH) if without.mean[0] < mean else float(without.mean[0])
        base = grid.predict(now, self._groups)
        return changed, mean - float(base.mean[0]), expected

    def _change(self, now: Floats, chosen: Floats, tunable: TunableColumn, mean: float) -> SettingChange:
        alone = self._grid.predict(with_values(chosen, [tunable], now[0]), self._groups).mean
        unknown = tunable is self._standin and self._workload.collective is None
        return SettingChange(
            tunable.name,
            None if unknown else self._value(tunable, now[0]),
            self._value(tunable, chosen[0]),
            tunable.column.unit,
            float(np.exp(limit_gain(mean - alone[0], 0.0, self._model.reach)[0])),
        )

    def _value(self, tunable: TunableColumn, point: Floats) -> Value:
        return plain_number(self._domain.values(tunable.place, point[[tunable.place]]).tolist()[0])

    def _directory(self, changed: Sequence[TunableColumn], chosen: Floats) -> str:
        for tunable in changed:
            if tunable.set_by is SetBy.PLACE:
                return str(self._value(tunable, chosen[0]))
        return ""

    def _remarks(self, changed: Sequence[TunableColumn], chosen: Floats) -> list[str]:
        found = []
        if self._standin is not None and self._standin in changed:
            found.append(
                f"romio_cb_* stands in for {self._standin.name}: it decides how collective calls reach the file, and "
                "does nothing to independent ones"
            )
        created = [k.parameter.carrier for k in changed if k.parameter is not None and k.parameter.when is When.CREATE]
        if any(carrier.of_file_system for carrier in created):
            found.append("a layout acts on files that are created with it: existing files keep theirs")
        elif created:
            found.append("some settings act on files and datasets that are created with them: existing ones stay")
        return [*found, *describe_switches([(tunable, self._value(tunable, chosen)) for tunable in changed])]

    # -- advice --------------------------------------------------------------------------------------------

    def _advice(self, chosen: Floats, expected: LogPrediction) -> tuple[tuple[Advice, ...], list[str]]:
        """What else would be better: if the program or its start were changed, or if it were known how to set it."""
        grid = self._grid
        found = []
        unset = []
        for tunable in self._every:
            can = tunable.set_by in (SetBy.PROGRAM, SetBy.LAUNCH, SetBy.OTHER) and tunable is not self._standin
            if not can or (tunable.set_by is SetBy.LAUNCH and tunable.column.role == "nodes"):
                continue
            numbers = grid.choices(tunable)
            trials = np.tile(chosen, (len(numbers), 1))
            trials[:, tunable.place] = np.repeat(numbers, self._groups)
            each = grid.predict(trials, self._groups)
            measured = grid.measured(trials, self._words).reshape(-1, self._groups).all(axis=1)
            mean = np.where(measured, each.mean, -np.inf)
            place = int(np.argmax(mean))
            gain, deviation = limit_gain(
                float(mean[place] - expected.mean[0]),
                float(each.gain_deviation(expected)[place]),
                self._model.reach,
            )
            if gain <= deviation:
                continue
            known = tunable.name in self._known.values
            value = self._value(tunable, trials[place * self._groups])
            current = self._value(tunable, chosen[0]) if known else None
            if tunable.set_by is SetBy.OTHER:
                unset.append(
                    f"{tunable.name} = {spell_value(tunable, value)} is predicted to be {np.exp(gain):.2f} times as "
                    "fast, but no known stack says how it is set: name yours with --stack FILE"
                )
                continue
            text = advice_text(tunable, current, value)
            found.append(Advice(tunable.name, current, value, float(np.exp(gain)), text))
        return tuple(sorted(found, key=lambda entry: -entry.speedup)), unset


def with_values(points: Floats, tunables: Sequence[TunableColumn], of: Floats) -> Floats:
    """Give points with the values of some parameters taken from another, shape ``(n, c)``."""
    result = points.copy()
    for tunable in tunables:
        result[:, tunable.place] = of[tunable.place]
    return result


def describe_switches(changed: Sequence[tuple[TunableColumn, Value]]) -> list[str]:
    """Say how the components of changed settings are switched on or off, where a plan does not do it."""
    stacks = {tunable.stack.name: tunable.stack for tunable, _ in changed if tunable.stack is not None}
    switched = {tunable.stack.name: value for tunable, value in changed if tunable.stack and tunable.is_switch}
    found = []
    for name, stack in stacks.items():
        if name in switched and switched[name] is not True and stack.off is not None:
            found.append(f"the best is to run without {name}: {stack.off.how or stack.off.description}")
        elif name not in switched and stack.env:
            text = " ".join(f"{variable}={value}" for variable, value in stack.env.items())
            found.append(f"the plan does not switch {name} on: set {text} as well")
    return found


class Prescriber:
    """Prescribes from a model.

    Parameters
    ----------
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
        alike: dict[tuple[str | None, str | None], list[int]] = {}
        for number, request in enumerate(workloads):
            alike.setdefault((request.workload.operation, request.workload.api), []).append(number)
        for (operation, api), members in alike.items():
            fixed = all_rows(self.model.domain, [known[number] for number in members], every)
            words = _stack_words([workloads[number].workload.words() for number in members])
            free = [t for t in every if t.can_change(operation) and (t.parameter is None or t.parameter.meets(api))]
            grid = CandidateGrid(self.model, free, every)
            best = grid.best(fixed, words)
            now = grid.predict(fixed)
            gain = best.expected.mean - now.mean
            gain, deviation = limit_gain(gain, best.expected.gain_deviation(now), self.model.reach)
            keep = gain <= (0.0 if eager else deviation)
            points = np.where(keep[:, None], fixed, best.points)
            for place, name in enumerate(domain.names):
                values = domain.values(place, points[:, place])
                for number, value in zip(members, values.tolist(), strict=True):
                    answers[number][name] = known[number].values[name] if value is None else plain_number(value)
        return answers


def _stack_words(words: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: np.asarray([entry[name] for entry in words]) for name in words[0]}
