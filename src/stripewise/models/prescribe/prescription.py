"""What is prescribed: settings, what they should bring, how sure that is, why, and what only people can change."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.workload import Workload
from stripewise.requests.objective import Objective

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
    value : Value
    unit : str
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
    simulated : bool
    objective : Objective or None
    workload : Workload
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
    combinations : int
    advice : tuple of Advice
    reasons : tuple of str
    neighbours : tuple of Neighbour
    notes : tuple of str
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
            "origin": self.origin,
            "policy": self.policy,
            "simulated": self.simulated,
            "objective": None if self.objective is None else self.objective.as_json(),
            "workload": self.workload.model_dump(exclude_none=True),
            "settings": {change.name: change.value for change in self.changes},
            "changes": [_plain(change) for change in self.changes],
            "kept": self.kept,
            "plan": self.plan.text(),
            "directory": self.directory,
            "current": self.current,
            "predicted": self.predicted,
            "spread": self.spread,
            "speedup": self.speedup,
            "speedup_ci95": None if self.interval is None else list(self.interval),
            "combinations": self.combinations,
            "advice": [_plain(entry) for entry in self.advice],
            "reasons": list(self.reasons),
            "neighbours": [_plain(entry) for entry in self.neighbours],
            "notes": list(self.notes),
        }


def _plain(entry: SettingChange | Advice | Neighbour) -> dict[str, Any]:
    return dict(vars(entry))


def plan_of(settings: Sequence[Setting], identifier: str) -> Plan:
    """Make a plan of settings; the last of a key counts."""
    by_key: Mapping[Any, Setting] = {(s.carrier, s.layer, s.key): s for s in settings}
    return Plan(tuple(by_key.values()), identifier)


def prescription_of(document: Mapping[str, Any]) -> Prescription:
    """Take a prescription from the JSON that :meth:`Prescription.as_json` has written, a service's for instance."""
    interval, speedup = document["speedup_ci95"], document["speedup"]
    gain = None if speedup is None else math.log(speedup)
    # The upper end may be cut off where the measurements end.
    deviation = None if interval is None or gain is None else (gain - math.log(interval[0])) / _WIDE
    given = ("origin", "kept", "policy", "simulated", "directory", "current", "predicted", "spread", "combinations")
    return Prescription(
        workload=Workload.model_validate(document["workload"]),
        changes=tuple(SettingChange(**entry) for entry in document["changes"]),
        plan=Plan.parse(document["plan"], "the prescription's plan"),
        objective=None if document["objective"] is None else Objective(**document["objective"]),
        gain=gain,
        deviation=deviation,
        reach=math.inf if interval is None else math.log(interval[1]),
        advice=tuple(Advice(**entry) for entry in document["advice"]),
        reasons=tuple(document["reasons"]),
        neighbours=tuple(Neighbour(**entry) for entry in document["neighbours"]),
        notes=tuple(document["notes"]),
        **{name: document[name] for name in given},
    )
