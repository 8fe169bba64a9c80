"""What is prescribed: settings, what they should bring, how sure that is, why, and what only people can change.

A prescription may also choose a place: the same workload, predicted for several folders or pools by a model of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stripewise.catalogue.carriers import ARGUMENT, ENVIRONMENT, HINT, LAYOUT, Setting
from stripewise.catalogue.configuration import Configuration, Value
from stripewise.catalogue.plan import Plan, settings_of, spell
from stripewise.catalogue.space import Space
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.models.tunables import TunableColumn, bytes_of, list_derived_settings
from stripewise.requests.objective import Objective
from stripewise.sizes import format_size

_WIDE = 1.96


@dataclass(frozen=True)
class SettingChange:
    """A parameter that is to be changed.

    Attributes
    ----------
    name : str
        The model's column.
    current : Value or None
        None where it is unknown.
    share : float or None
        Predicted speed-up that would be lost without this change alone.
    """

    name: str
    current: Value | None
    value: Value
    unit: str = ""
    share: float | None = None


@dataclass(frozen=True)
class Advice:
    """A change that no setting can make.

    Attributes
    ----------
    name, current, value
        As in :class:`SettingChange`.
    speedup : float
        Predicted on top of what is prescribed.
    text : str
        What to do, and who.
    """

    name: str
    current: Value | None
    value: Value
    speedup: float
    text: str


@dataclass(frozen=True)
class Neighbour:
    """A measured cell near the prescription.

    Attributes
    ----------
    values : dict
        Its columns.
    value : float
        Typical value of its runs; smoothed where the model remembers it.
    runs : int or None
        None where the model remembers the cell, and its table was not given.
    distance : float
        In the model's features, each divided by its spread.
    chosen : bool
        Whether it has the prescribed settings, else the current ones.
    """

    values: dict[str, Value]
    value: float
    runs: int | None
    distance: float
    chosen: bool


@dataclass(frozen=True)
class Prescription:
    """The answer to a request.

    Attributes
    ----------
    origin : str
        ``model NAME of table T``, or ``policy NAME``.
    policy : bool
        Whether no model was asked.
    changes : tuple of SettingChange
        Empty where the current settings stay.
    kept : str
        Why the current settings stay; empty where they do not.
    plan : Plan
        The changes that a plan can carry.
    decided : tuple of Setting
        All that was chosen among, changed or not, with the values chosen.
    directory : str
        Where to put the data, if that was chosen.
    current, predicted : float or None
        Predicted objective with the current settings and with the changes.
    spread : float
        Standard deviation of the natural logarithm of ``predicted``.
    gain, deviation : float or None
        Natural logarithm of the predicted speed-up and its standard deviation, of the best combination found, kept or
        not.
    reach : float
        Largest speed-up (logarithm) that the measurements support.
    """

    origin: str
    workload: Workload
    changes: tuple[SettingChange, ...] = ()
    kept: str = ""
    plan: Plan = field(default_factory=Plan)
    decided: tuple[Setting, ...] = ()
    policy: bool = False
    simulated: bool = False
    objective: Objective | None = None
    directory: str = ""
    current: float | None = None
    predicted: float | None = None
    spread: float = 0.0
    gain: float | None = None
    deviation: float | None = None
    reach: float = math.inf
    combinations: int = 0
    advice: tuple[Advice, ...] = ()
    reasons: tuple[str, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def speedup(self) -> float | None:
        """Predicted speed-up of the best combination found over the current settings."""
        return None if self.gain is None else math.exp(self.gain)

    @property
    def interval(self) -> tuple[float, float] | None:
        """95% interval of the speed-up."""
        if self.gain is None or self.deviation is None:
            return None
        high = min(self.gain + _WIDE * self.deviation, max(self.gain, self.reach))
        return math.exp(self.gain - _WIDE * self.deviation), math.exp(high)

    def as_json(self) -> dict[str, Any]:
        """Give everything as JSON's types."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "objective": None if self.objective is None else self.objective.as_json(),
            "workload": self.workload.model_dump(exclude_none=True),
            "settings": {change.name: change.value for change in self.changes},
            "plan": self.plan.text(),
            "speedup": self.speedup,
            "speedup_ci95": None if self.interval is None else list(self.interval),
            **{name: [dict(vars(entry)) for entry in getattr(self, name)] for name in _LISTED},
            **{name: list(getattr(self, name)) for name in _SENTENCES},
        }


_PLAIN = ("origin", "kept", "policy", "simulated", "directory", "current", "predicted", "spread", "combinations")
_LISTED: dict[str, type[Any]] = {"changes": SettingChange, "advice": Advice, "neighbours": Neighbour}
_SENTENCES = ("reasons", "notes")


def make_plan(settings: Sequence[Setting], identifier: str) -> Plan:
    """Make a plan of settings; the last of a key counts."""
    by_key: Mapping[Any, Setting] = {(s.carrier, s.layer, s.key): s for s in settings}
    return Plan(tuple(by_key.values()), identifier)


def read_prescription(document: Mapping[str, Any]) -> Prescription:
    """Take a prescription from the JSON that :meth:`Prescription.as_json` has written, a service's for instance."""
    interval, speedup = document["speedup_ci95"], document["speedup"]
    gain = None if speedup is None else math.log(speedup)
    # The upper end may be cut off where the measurements end.
    deviation = None if interval is None or gain is None else (gain - math.log(interval[0])) / _WIDE
    given: dict[str, Any] = {name: document[name] for name in _PLAIN}
    given |= {name: tuple(kind(**entry) for entry in document[name]) for name, kind in _LISTED.items()}
    given |= {name: tuple(document[name]) for name in _SENTENCES}
    return Prescription(
        workload=Workload.model_validate(document["workload"]),
        plan=Plan.parse(document["plan"], "the prescription's plan"),
        objective=None if document["objective"] is None else Objective(**document["objective"]),
        gain=gain,
        deviation=deviation,
        reach=math.inf if interval is None else math.log(interval[1]),
        **given,
    )


def list_settings(
    chosen: Sequence[tuple[TunableColumn, Value]],
    standin: TunableColumn | None,
    operation: str | None,
    words: Mapping[str, Any],
) -> list[Setting]:
    """Hints and layouts, what follows from them, and what stands in for the access pattern.

    Parameters
    ----------
    chosen : sequence of (TunableColumn, value)
        What is changed, and its new value in the column's unit.
    standin : TunableColumn or None
        The column "collective or not", where ``romio_cb_*`` stands in for it.
    words : mapping
        Of the workload.
    """
    settings: list[Setting] = []
    for tunable, value in chosen:
        if tunable is standin:
            word = "enable" if value is True or str(value).lower() == "true" else "disable"
            keys = {"read": ("read",), "write": ("write",)}.get(operation or "", ("write", "read"))
            settings += [Setting(HINT, f"romio_cb_{key}", word) for key in keys]
        elif tunable.is_switch and tunable.stack is not None:
            exports = tunable.stack.exports(value is True)
            settings += [Setting(ENVIRONMENT, key, text) for key, text in exports.items()]
        elif tunable.parameter is not None:
            factor = bytes_of(tunable.column)
            carried = int(float(value) * factor) if factor != 1.0 and not isinstance(value, str) else value
            parameter = tunable.parameter
            settings.append(Setting(parameter.carrier, parameter.setting, spell(carried), parameter.layer))
    return [*settings, *_list_derived(chosen, words)]


def _list_derived(chosen: Sequence[tuple[TunableColumn, Value]], words: Mapping[str, Any]) -> list[Setting]:
    values = {tunable.parameter.name: value for tunable, value in chosen if tunable.parameter is not None}
    parameters = [tunable.parameter for tunable, _ in chosen if tunable.parameter is not None]
    entries = [
        e
        for e in list_derived_settings([tunable for tunable, _ in chosen])
        if e.value.names <= values.keys() | set(words)
    ]
    if not entries:
        return []
    bound = tuple(
        replace(
            p,
            values=(*p.values, values[p.name]) if values[p.name] not in p.values else p.values,
            active_if=None,
            same_as_default=None,
            default_from=None,
            maximum_from=None,
            default=_find_other(p.values, values[p.name]),
        )
        for p in parameters
    )
    space = Space(bound, (), tuple(entries), words)
    names = {entry.name for entry in entries}
    return [s for s in settings_of(space, Configuration(values)) if s.key in names]


def _find_other(values: Sequence[Value], value: Value) -> Value:
    """Any value but this one: then the setting counts as changed."""
    return next((v for v in values if v != value), value)


def spell_value(tunable: TunableColumn, value: Value | None) -> str:
    """A value as people read it."""
    if value is None:
        return "unknown"
    if tunable.column.role.endswith("_size") and isinstance(value, int | float) and tunable.column.unit:
        return format_size(float(value) * bytes_of(tunable.column))
    return str(value).lower() if isinstance(value, bool) else str(value)


def advice_text(tunable: TunableColumn, current: Value | None, value: Value) -> str:
    """Say what to change in the program or in its start."""
    instead = "" if current is None else f" instead of {spell_value(tunable, current)}"
    role = tunable.column.role
    if role == "transfer_size":
        return f"let each call of the program move {spell_value(tunable, value)}{instead}: no hint can change that"
    if role == "collective":
        calls = (
            "collective calls (MPI_File_write_all, ...)" if value is True else "independent calls (MPI_File_write_at)"
        )
        return f"use {calls} in the program: no hint turns one kind into the other"
    if role == "processes_per_node":
        return f"start {spell_value(tunable, value)} processes per node{instead}"
    if role == "processes":
        return f"start {spell_value(tunable, value)} processes{instead}"
    if role == "api":
        return f"write through {spell_value(tunable, value)}{instead}"
    if role == "file_per_process":
        return "write one file per process" if value is True else "write one shared file"
    return f"choose {tunable.name} = {spell_value(tunable, value)}{instead} in the program"


POOL = "pool:"
"""Before the name of a pool, which stands for no folder."""


@dataclass(frozen=True)
class Place:
    """A folder or pool, and what is prescribed there.

    Attributes
    ----------
    interval : tuple of (float, float)
        95% interval of the predicted objective.
    speedup : float
        Predicted, against the first place.
    """

    name: str
    found: Prescription
    interval: tuple[float, float]
    speedup: float
    speedup_interval: tuple[float, float]

    def as_json(self) -> dict[str, Any]:
        """Give everything but the prescription's reasons as JSON's types."""
        return {
            "place": self.name,
            "origin": self.found.origin,
            "settings": {change.name: change.value for change in self.found.changes},
            "predicted": self.found.predicted,
            "predicted_ci95": list(self.interval),
            "speedup": self.speedup,
            "speedup_ci95": list(self.speedup_interval),
        }


def carried_by(text: str) -> tuple[Any, str]:
    """Read how a program is told its folder: ``env:NAME`` or ``argument:NAME``.

    Raises
    ------
    UserError
    """
    verb, _, key = text.partition(":")
    carrier = next((known for known in (ENVIRONMENT, ARGUMENT) if known.verb == verb), None)
    wrong = "names no variable or argument" if carrier is None or not key else carrier.wrong_key(key)
    if carrier is None or wrong:
        raise UserError(f"--place-by {text}: {key or text} {wrong}", "write env:OUT_DIR or argument:out for instance")
    return carrier, key


def compare_places(found: Mapping[str, Prescription]) -> list[Place]:
    """Compare prescriptions of one workload by models of different places, the best predicted place first.

    Parameters
    ----------
    found : mapping
        Name of a place to what is prescribed there; the first is where the program writes now.

    Raises
    ------
    UserError
        If the models predict different objectives.
    """
    first = next(iter(found.values()))
    objective = first.objective
    places = []
    for name, one in found.items():
        if objective is None or one.objective is None or one.objective.as_json() != objective.as_json():
            raise UserError(
                f"the models of {next(iter(found))} and {name} predict different objectives",
                "train them on tables with the same [objective]",
            )
        assert one.predicted is not None and first.predicted is not None
        gain = math.log(one.predicted / first.predicted) * (1 if objective.maximize else -1)
        wide = 0.0 if one is first else _WIDE * math.hypot(one.spread, first.spread)
        low, high = (one.predicted * math.exp(side * _WIDE * one.spread) for side in (-1, 1))
        places.append(Place(name, one, (low, high), math.exp(gain), (math.exp(gain - wide), math.exp(gain + wide))))
    return sorted(places, key=lambda place: -place.speedup)


def choose_place(found: Mapping[str, Prescription], by: str | None) -> tuple[Prescription, list[Place]]:
    """Prescribe a place: the best predicted one, if the interval of its gain over the first lies above 1.

    Returns
    -------
    prescription : Prescription
        That of the chosen place, whose plan sends the file there as well.
    places : list of Place
        See :func:`compare_places`.
    """
    places = compare_places(found)
    best, now = places[0], next(iter(found))
    moves = best.name != now and best.speedup_interval[0] > 1
    chosen = found[best.name if moves else now]
    name = best.name if moves else now
    low, high = best.speedup_interval
    interval = f"95% interval {low:.2f} to {high:.2f}"
    said = f"{best.name} is predicted to be {best.speedup:.2f} times as fast as {now} ({interval})"
    reason = f"{now} is the best of {len(places)} places" if best.name == now else said
    notes = [reason] if moves or best.name == now else [f"{reason}: not enough to move"]
    added: tuple[Setting, ...] = ()
    if name.startswith(POOL):
        layer = chosen.workload.file_system or "lustre"
        added = (Setting(LAYOUT, "pool", name.removeprefix(POOL), layer),)
    elif by is not None:
        carrier, key = carried_by(by)
        added = (Setting(carrier, key, name),)
    elif moves:
        notes.append(f"the plan cannot move the file: add --place-by, or have the program write to {name}")
    return (
        replace(
            chosen,
            plan=replace(chosen.plan, settings=(*chosen.plan.settings, *added)),
            directory="" if name.startswith(POOL) else name,
            reasons=(*notes, *chosen.reasons),
        ),
        places,
    )
