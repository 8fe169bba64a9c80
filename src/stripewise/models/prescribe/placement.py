"""Where a file should go: the same workload, predicted for several folders or pools by a model of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stripewise.catalogue.carriers import ARGUMENT, ENVIRONMENT, LAYOUT, Setting
from stripewise.errors import UserError
from stripewise.models.prescribe.prescription import Prescription

_WIDE = 1.96
POOL = "pool:"
"""Before the name of a pool, which stands for no folder."""


@dataclass(frozen=True)
class Place:
    """A folder or pool, and what is prescribed there.

    Attributes
    ----------
    name : str
    found : Prescription
    interval : tuple of (float, float)
        95% interval of the predicted objective.
    speedup : float
        Predicted, against the first place.
    speedup_interval : tuple of (float, float)
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


def compare(found: Mapping[str, Prescription]) -> list[Place]:
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
        See :func:`compare`.
    """
    places = compare(found)
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
