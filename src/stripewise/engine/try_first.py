"""Settings that a search tries before those of its sampler: the proposals of a diagnosis, or a user's own ideas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.configuration import Configuration, Value, place_of
from stripewise.catalogue.grid import Levels
from stripewise.catalogue.meaning import find_parameter, value_of
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.documents import read_document
from stripewise.errors import UserError
from stripewise.formats import PLAN_HEADER
from stripewise.requests.policy import load_policy

_MOST = 16


def proposals(path: Path) -> list[str]:
    """Read what a diagnosis proposes, as entries of an experiment's ``try_first``.

    All settings together come first, then those of each finding.

    Raises
    ------
    UserError
        If the file is not what ``stripewise diagnose --json`` prints for one job, or proposes nothing.
    """
    text = read_document(path, "diagnosis", "write one: stripewise diagnose LOG --json > FILE")
    wrong = UserError(f"{path} is not a diagnosis of one job", "write one: stripewise diagnose LOG --json > FILE")
    try:
        document: Any = json.loads(text)
        groups = [document["settings"], *(finding["settings"] for finding in document["findings"])]
        entries = ["; ".join(group) for group in groups if group]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise wrong from error
    if not entries:
        raise UserError(f"the diagnosis {path} proposes no settings", "tune without --from")
    return list(dict.fromkeys(entries))[:_MOST]


def settings_of(entry: str) -> tuple[Setting, ...]:
    """Read an entry of ``try_first``: lines of a plan, separated by semicolons.

    Raises
    ------
    UserError
        With the line that is wrong.
    """
    lines = [line.strip() for line in entry.split(";") if line.strip()]
    found = Plan.parse("\n".join([PLAN_HEADER, *lines]), f"try_first '{entry}'").settings
    if not found:
        raise UserError(f"try_first '{entry}' holds no settings", "write lines of a plan: hint romio_cb_write disable")
    return found


def wanted_first(space: Space, entries: Sequence[str]) -> list[str]:
    """Add to the entries of an experiment those by which its site starts such searches."""
    of_site = [one.settings for one in load_policy().start if one.holds(space.context)]
    return list(dict.fromkeys([*entries, *of_site]))


def configurations(space: Space, entries: Sequence[str]) -> tuple[list[Configuration], list[str]]:
    """Give the entries as configurations of a space, in their order.

    Returns
    -------
    list of Configuration
        Distinct, allowed, and different from the default; numbers are the nearest that the space has.
    list of str
        Entries that the space cannot express, that mean nothing for this workload, or that a rule forbids, with why.
    """
    found: list[Configuration] = []
    lost: list[str] = []
    known = {tuple(space.fold(space.levels([space.default]))[0])}
    for entry in entries:
        changed = _values(space, settings_of(entry))
        if changed is None:
            lost.append(entry)
            continue
        levels = space.fold(space.levels([{**space.default, **changed}]))
        if (why := _forbidden(space, levels)) or tuple(levels[0]) in known:
            lost.append(f"{entry} ({why})" if why else entry)
            continue
        known.add(tuple(levels[0]))
        found.append(space.configuration(levels[0]))
    return found, lost


def _forbidden(space: Space, levels: Levels) -> str:
    """Say which rule a configuration breaks; empty if none."""
    columns = space.columns(levels)
    broken = next((rule for rule in space.constraints if not bool(np.all(rule(columns)))), None)
    return "" if broken is None else broken.reason or f"{broken.text} must hold"


def _values(space: Space, settings: Sequence[Setting]) -> dict[str, Value] | None:
    """Values of the space's parameters, None where there are none; what follows from a parameter is left to it."""
    found: dict[str, Value] = {}
    for setting in settings:
        parameter_set = find_parameter(setting, space.parameters)
        if parameter_set is None:
            continue
        value = value_of(parameter_set, setting.value)
        if place_of(value, parameter_set.values) is None and parameter_set.ordered:
            value = min(parameter_set.values, key=lambda other: abs(float(other) - float(value)))
        if place_of(value, parameter_set.values) is None:
            return None
        found[parameter_set.name] = value
    return found or None
