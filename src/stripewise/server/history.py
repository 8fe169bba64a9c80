"""An experiment with its trials as its page shows them, read once for all who look at it until it changes."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stripewise.errors import UserError
from stripewise.report import details, findings
from stripewise.report.export import TARGETS, export
from stripewise.report.reading import Reading
from stripewise.report.unfinished import reading_of
from stripewise.server.remembered import version
from stripewise.server.service import Service
from stripewise.spec.plan import Plan
from stripewise.spec.trial import Role, Trial
from stripewise.store.base import Record
from stripewise.tuning.again import confirm_again


@dataclass(frozen=True)
class History:
    """An experiment as far as its page shows the same until something happens to it.

    Attributes
    ----------
    record : Record
    trials : tuple of Trial
    found : Reading
    figures : set of str
        Names of the figures that there will be.
    sections : dict
        Of the result, if there is one.
    targets : list of str
        Of export.
    can_confirm : bool
        Whether its result can be confirmed once more.
    """

    record: Record
    trials: tuple[Trial, ...]
    found: Reading
    figures: set[str]
    sections: dict[str, Any]
    targets: list[str]
    can_confirm: bool

    def about(self, number: int) -> dict[str, Any]:
        """Say of a run's trial what it changes, where it is a candidate, and its role."""
        trial = next((trial for trial in self.trials if trial.number == number), None)
        if trial is None or trial.role is Role.CANDIDATE:
            return {"settings": [] if trial is None else self.found.changed(trial), "role": "candidate"}
        return {"settings": [], "role": trial.role.value}


def history(service: Service, identifier: str) -> History:
    """Read an experiment with its trials, once for all who look at it until it changes."""
    record = service.store.record(identifier)

    def make() -> History:
        trials = service.store.trials(record.id, facts=False)
        found = reading_of(record, trials, _completed(service))
        names = _figure_names(found, trials)
        if record.result is None:
            return History(record, trials, found, names, {}, [], False)
        return History(record, trials, found, names, _sections(found, names), _targets(found), _can_confirm(record))

    kept: History = service.readings.get(version(record), make)
    return kept


def read(service: Service, identifier: str, *, facts: bool = False) -> tuple[Record, tuple[Trial, ...], Reading]:
    """Read an experiment with its trials."""
    if not facts:
        known = history(service, identifier)
        return known.record, known.trials, known.found
    record = service.store.record(identifier)
    trials = service.store.trials(record.id)
    return record, trials, reading_of(record, trials, _completed(service))


def _completed(service: Service) -> Callable[[str], str]:
    """Commands name the store where the service was given one; a password in its address is not shown."""
    if service.settings.store is None:
        return str
    return lambda text: f"{text} --store {shlex.quote(service.store.url)}"


def _figure_names(found: Reading, trials: Sequence[Trial]) -> set[str]:
    """The figures that there will be, without drawing them."""
    result = found.result
    names = {"trajectory"}
    axes, lines = found.lines()
    if axes and len(lines) > 1:
        names.add("parallel")
    if result.importance:
        names.add("importance")
    if found.pairs():
        names.add("confirmation")
    if result.simulated:
        names.add("bounds")
    if len(found.machine[0]) > 1:
        names.add("machine")
    if found.spending()[0]:
        names.add("cost")
    return names


def _sections(found: Reading, names: set[str]) -> dict[str, Any]:
    made = {
        "settings": findings.settings(found),
        "proof": findings.confirmation(found, names),
        "effects": findings.effects(found),
        "apply": details.apply(found),
        "machine": details.machine(found, names),
        "validity": details.validity(found),
        "cost": details.cost(found, names),
        "provenance": details.provenance(found),
    }
    return dict(made)


def _targets(found: Reading) -> list[str]:
    plan = Plan.parse(found.result.plan, "the result's plan")
    return [
        target for target in TARGETS if not export(plan, target, changed=found.result.changed(found.result.best)).empty
    ]


def _can_confirm(record: Record) -> bool:
    try:
        confirm_again(record)
    except UserError:
        return False
    return True
