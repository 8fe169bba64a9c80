"""An experiment with its trials as its page shows them, read once for all who look at it until it changes."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stripewise.catalogue.plan import Plan
from stripewise.desk.server.service import Service, version
from stripewise.engine.reconfirmation import confirm_again
from stripewise.errors import UserError
from stripewise.output.experiment_view import ExperimentView, view_experiment
from stripewise.output.export import TARGETS, export
from stripewise.output.figures import figure_names
from stripewise.output.sections import sections
from stripewise.store.base import Record
from stripewise.trial import Role, Trial

SECTIONS = ("headline", "proof", "effects", "apply", "machine", "validity", "cost", "provenance")
"""Of the report's sections those that a page shows as they are."""


@dataclass(frozen=True)
class PageHistory:
    """An experiment as far as its page shows the same until something happens to it.

    Attributes
    ----------
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
    found: ExperimentView
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


def history(service: Service, identifier: str) -> PageHistory:
    """Read an experiment with its trials, once for all who look at it until it changes."""
    record = service.store.record(identifier)

    def make() -> PageHistory:
        trials = service.store.trials(record.id, facts=False)
        found = view_experiment(record, trials, _completed(service))
        # The facts of simulated runs say what held them back; they are read with the figure.
        names = figure_names(found) | ({"bounds"} if found.result.simulated else set())
        if record.result is None:
            return PageHistory(record, trials, found, names, {}, [], False)
        return PageHistory(
            record, trials, found, names, sections(found, names, SECTIONS), _targets(found), _can_confirm(record)
        )

    kept: PageHistory = service.readings.get(version(record), make)
    return kept


def read(service: Service, identifier: str, *, facts: bool = False) -> tuple[Record, tuple[Trial, ...], ExperimentView]:
    """Read an experiment with its trials."""
    if not facts:
        known = history(service, identifier)
        return known.record, known.trials, known.found
    record = service.store.record(identifier)
    trials = service.store.trials(record.id)
    return record, trials, view_experiment(record, trials, _completed(service))


def _completed(service: Service) -> Callable[[str], str]:
    """Commands name the store where the service was given one; a password in its address is not shown."""
    if service.settings.store is None:
        return str
    return lambda text: f"{text} --store {shlex.quote(service.store.url)}"


def _targets(found: ExperimentView) -> list[str]:
    if not found.result.applicable:
        return []
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
