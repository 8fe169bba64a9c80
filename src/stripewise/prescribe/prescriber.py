"""The prescriber: asks a performance model for every combination of settings and answers with the best.

What the user can set is varied; what only the program's author can change (the size of a call, collective or not) is
held, and comes back as advice. Today's settings stay unless the predicted gain exceeds its own uncertainty.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stripewise.errors import UserError
from stripewise.model.base import PerformanceModel
from stripewise.model.carriers import Knob, Way, derived_settings, knobs
from stripewise.model.domain import Floats
from stripewise.model.export import bytes_of
from stripewise.model.table import Table
from stripewise.prescribe.advice import advice_text
from stripewise.prescribe.grid import Grid
from stripewise.prescribe.prescription import Advice, Change, Prescription, plan_of
from stripewise.prescribe.reasons import neighbours, rules
from stripewise.prescribe.request import Known, Request, known_values
from stripewise.spec.configuration import Configuration, Value
from stripewise.spec.parameter import Apply, When
from stripewise.spec.plan import Setting, settings_of, spell
from stripewise.spec.space import Space
from stripewise.spec.workload import Workload

_MOST_GROUPS = 64
_WORTH = 0.005
"""A change whose absence costs less than this (in ln) is not made."""


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

    def prescribe(self, request: Request) -> Prescription:
        """Answer a request.

        Raises
        ------
        UserError
            If the request names what the model does not know, or leaves too much open.
        """
        return _Answer(self.model, self._table, self._file_system or request.workload.file_system, request).give()

    def everything(self, workloads: Sequence[Request], *, eager: bool = False) -> list[dict[str, Value]]:
        """Find the best value of every parameter, those of the program's author too, for many workloads at once.

        This is the selection of the neural-network study (its Listing 3): for benchmarks, which can do anything. What
        an operation cannot change (the layout of a file that is read) keeps its value.

        Parameters
        ----------
        workloads : sequence of Request
            Each with a value of every context and, under ``current``, of every parameter.
        eager : bool
            Take the best even where its gain is within its uncertainty, as the study does.

        Returns
        -------
        list of dict
            Of each workload, values by column.
        """
        domain = self.model.domain
        every = knobs(domain.schema, self._file_system)
        answers: list[dict[str, Value]] = [{} for _ in workloads]
        known = [known_values(domain, request) for request in workloads]
        by_operation: dict[str | None, list[int]] = {}
        for number, request in enumerate(workloads):
            by_operation.setdefault(request.workload.operation, []).append(number)
        for operation, members in by_operation.items():
            fixed = _all_rows(self.model, [known[number] for number in members], every)
            words = _stacked([workloads[number].workload.words() for number in members])
            grid = Grid(self.model, [knob for knob in every if knob.can_change(operation)], every)
            best = grid.best(fixed, words)
            now, doubt = grid.predict(fixed)
            keep = best.mean - now <= (0.0 if eager else np.hypot(best.deviation, doubt))
            points = np.where(keep[:, None], fixed, best.points)
            for place, name in enumerate(domain.names):
                values = domain.values(place, points[:, place])
                for number, value in zip(members, values.tolist(), strict=True):
                    answers[number][name] = _natural(value)
        return answers


def _natural(value: Any) -> Value:
    plain: Value = int(value) if isinstance(value, float) and value == int(value) else value
    return plain


def _stacked(words: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: np.asarray([entry[name] for entry in words]) for name in words[0]}


def _with_ranks(model: PerformanceModel, rows: list[Any], processes: int | None) -> list[Any]:
    """Keep the rows whose nodes and processes a node make the ranks that were seen, if any do."""
    roles = [column.role for column in model.domain.columns]
    if processes is None or "nodes" not in roles or "processes_per_node" not in roles:
        return rows
    nodes, each = roles.index("nodes"), roles.index("processes_per_node")
    return [row for row in rows if row[nodes] * row[each] == processes] or rows


def _all_rows(model: PerformanceModel, known: Sequence[Known], every: Sequence[Knob]) -> Floats:
    """Points of requests that leave nothing open, one row each."""
    defaults = {knob.name: default_of(model, knob) for knob in every}
    if any(one.unknown for one in known):
        what = next(one.unknown[0] for one in known if one.unknown)
        raise UserError(f"a workload leaves {what} open", "give every context a value")
    names = model.domain.names
    filled = [{**defaults, **one.values} for one in known]
    return model.domain.points({name: [one[name] for one in filled] for name in names})


def rows_of(model: PerformanceModel, known: Known, every: Sequence[Knob], processes: int | None = None) -> Floats:
    """Points of a request: one row for each combination of what is unknown, parameters at their current value.

    Raises
    ------
    UserError
        If that are too many.
    """
    domain = model.domain
    spread: list[list[Value]] = []
    for place, column in enumerate(domain.columns):
        if column.name in known.values:
            spread.append([known.values[column.name]])
        elif column.name in known.unknown:
            spread.append([column.values[level] for level in domain.seen[place]])
        else:
            spread.append([default_of(model, next(k for k in every if k.place == place))])
    if np.prod([len(values) for values in spread], dtype=np.float64) > _MOST_GROUPS:
        raise UserError(
            f"too much is unknown of the workload: {', '.join(known.unknown)}", "say more under [workload] or [context]"
        )
    rows = _with_ranks(model, list(itertools.product(*spread)), processes)
    return domain.points({name: [row[i] for row in rows] for i, name in enumerate(domain.names)})


def default_of(model: PerformanceModel, knob: Knob) -> Value:
    """The value that acts if nothing is set: declared in the table, else the stack's, else the first measured."""
    column = knob.column
    seen = [column.values[level] for level in model.domain.seen[knob.place]]
    if column.default is not None and column.default in seen:
        return column.default
    if knob.parameter is not None and knob.parameter.default in seen:
        return knob.parameter.default
    first: Value = seen[0]
    return first


class _Answer:
    """One request on its way to a prescription."""

    def __init__(self, model: PerformanceModel, table: Table | None, file_system: str | None, request: Request) -> None:
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
        self._free = [knob for knob in self._every if self._settable(knob)]

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
        return knob.way is Way.SETTING and knob.can_change(self._workload.operation)

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
        grid = Grid(self._model, self._free, self._every)
        now = self._fixed.copy()
        grid_words = self._words
        mean_now, doubt_now = grid.predict(now, self._groups)
        best = grid.best(self._fixed, grid_words, self._groups)
        point = best.points[0]
        gain = float(best.mean[0] - mean_now[0])
        changed = [knob for knob in self._free if point[knob.place] != now[0, knob.place]]
        changed, gain_left, doubt = self._simplified(grid, now, point, changed)
        deviation = float(np.hypot(doubt, doubt_now[0]))
        objective = self._domain.objective
        kept = ""
        if not changed:
            kept = "today's settings are the best of all combinations"
        elif gain_left <= deviation:
            kept = (
                f"the best combination is predicted to be {np.exp(gain_left):.2f} times as fast, which is within the "
                f"uncertainty (a factor of {np.exp(deviation):.2f})"
            )
        if kept:
            changed = []
        chosen = now.copy()
        for knob in changed:
            chosen[:, knob.place] = point[knob.place]
        mean_then, _ = grid.predict(chosen, self._groups)
        changes = tuple(self._change(grid, now, chosen, knob, float(mean_then[0])) for knob in changed)
        sign = 1.0 if objective.maximize else -1.0
        outside = self._domain.outside_points(chosen)
        notes = (*self._known.notes, *(f"{text}: the prediction reaches beyond what was measured" for text in outside))
        extra = self._settings(changed, chosen)
        return Prescription(
            origin=f"model {self._model.name} of table {self._domain.schema.name}",
            simulated="simulated" in self._domain.schema.description.lower(),
            objective=objective,
            workload=self._workload,
            changes=changes,
            kept=kept,
            plan=plan_of(extra, f"prescribed-{self._domain.schema.name}"[:128]),
            directory=self._directory(changed, chosen),
            current=float(np.exp(sign * mean_now[0])),
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
        self, grid: Grid, now: Floats, point: Floats, changed: list[Knob]
    ) -> tuple[list[Knob], float, float]:
        """Take back changes that bring next to nothing, one after the other; then gain and deviation."""

        def value(some: Sequence[Knob]) -> tuple[float, float]:
            trial = now.copy()
            for knob in some:
                trial[:, knob.place] = point[knob.place]
            if not grid.lawful(trial.copy(), self._words).all():
                return -np.inf, np.inf
            mean, deviation = grid.predict(trial, self._groups)
            return float(mean[0]), float(deviation[0])

        mean, deviation = value(changed)
        for knob in list(changed):
            fewer = [other for other in changed if other is not knob]
            without, its = value(fewer)
            if without >= mean - _WORTH:
                changed, mean, deviation = fewer, max(without, mean - _WORTH) if without < mean else without, its
        base, _ = grid.predict(now, self._groups)
        return changed, mean - float(base[0]), deviation

    def _change(self, grid: Grid, now: Floats, chosen: Floats, knob: Knob, mean: float) -> Change:
        without = chosen.copy()
        without[:, knob.place] = now[:, knob.place]
        alone, _ = grid.predict(without, self._groups)
        unknown = knob is self._standin and self._workload.collective is None
        return Change(
            knob.name,
            None if unknown else self._value(knob, now[0]),
            self._value(knob, chosen[0]),
            knob.column.unit,
            float(np.exp(mean - alone[0])),
        )

    def _value(self, knob: Knob, point: Floats) -> Value:
        return _natural(self._domain.values(knob.place, point[[knob.place]]).tolist()[0])

    # -- settings ------------------------------------------------------------------------------------------

    def _settings(self, changed: Sequence[Knob], chosen: Floats) -> list[Setting]:
        """Lines of the plan: hints and layouts, what follows from them, and what stands in for the access pattern."""
        settings: list[Setting] = []
        for knob in changed:
            value = self._value(knob, chosen[0])
            if knob is self._standin:
                word = "enable" if value is True or str(value).lower() == "true" else "disable"
                keys = {"read": ("read",), "write": ("write",)}.get(self._workload.operation or "", ("write", "read"))
                settings += [Setting(Apply.HINT, f"romio_cb_{key}", word) for key in keys]
            elif knob.parameter is not None:
                factor = bytes_of(knob.column)
                carried = int(float(value) * factor) if factor != 1.0 and not isinstance(value, str) else value
                layer = knob.parameter.layer if knob.parameter.apply is Apply.STRIPING else ""
                settings.append(Setting(knob.parameter.apply, knob.parameter.setting, spell(carried), layer))
        return [*settings, *self._derived(changed, chosen)]

    def _derived(self, changed: Sequence[Knob], chosen: Floats) -> list[Setting]:
        parameters = [k.parameter for k in changed if k.parameter is not None]
        entries = [
            e for e in derived_settings(changed) if e.value.names <= {p.name for p in parameters} | set(self._words)
        ]
        if not entries:
            return []
        values = {k.parameter.name: self._value(k, chosen[0]) for k in changed if k.parameter is not None}
        bound = tuple(
            replace(
                p,
                values=(*p.values, values[p.name]) if values[p.name] not in p.values else p.values,
                active_if=None,
                same_as_default=None,
                default_from=None,
                maximum_from=None,
                default=_other(p.values, values[p.name]),
            )
            for p in parameters
        )
        space = Space(bound, (), tuple(entries), self._words)
        names = {entry.name for entry in entries}
        return [s for s in settings_of(space, Configuration(values)) if s.key in names]

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
            grid = Grid(self._model, [], self._every)
            means, doubts = grid.predict(np.concatenate([trial for _, trial in trials]), self._groups)
            place = int(np.argmax(means))
            _, own_doubt = grid.predict(chosen, self._groups)
            if means[place] - mean <= float(np.hypot(doubts[place], own_doubt[0])):
                continue
            known = knob.name in self._known.values
            value = self._value(knob, trials[place][1][0])
            current = self._value(knob, chosen[0]) if known else None
            speedup = float(np.exp(means[place] - mean))
            found.append(Advice(knob.name, current, value, speedup, advice_text(knob, current, value)))
        return tuple(sorted(found, key=lambda entry: -entry.speedup))


def _other(values: Sequence[Value], value: Value) -> Value:
    """Any value but this one: then the setting counts as changed."""
    return next((v for v in values if v != value), value)


def request_of(workload: Workload, **current: Value) -> Request:
    """A request from a workload and today's settings."""
    return Request(workload, current)
