"""Which values a carrier's key understands: MPI libraries silently ignore those that they do not."""

from __future__ import annotations

import difflib
from functools import cache

from stripewise.catalogue.carriers import Carrier, Setting
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import Plan, spell
from stripewise.catalogue.stack import every_stack
from stripewise.errors import UserError, choose

_CLOSE = 0.85
_SWITCHES = (("false", "true", "no", "yes"), ("disable", "enable", "automatic"))


def words_of(parameter: Parameter) -> tuple[str, ...] | None:
    """Give the words that a parameter's key understands; None where it takes numbers, or they are not known."""
    if parameter.other_values or parameter.kind not in (Kind.CATEGORICAL, Kind.BOOLEAN):
        return None
    words = tuple(spell(value) for value in parameter.values)
    if len(words) > 1:
        return words
    # A single value is what is searched, not all that the library knows: users may name its others.
    return next((switch for switch in _SWITCHES if words[0] in switch), None)


@cache
def _known() -> dict[tuple[Carrier, str], tuple[str, ...] | None]:
    """Keys of all stacks, with their values where these are words."""
    known: dict[tuple[Carrier, str], tuple[str, ...] | None] = {}
    for stack in every_stack():
        for parameter in stack.parameters:
            known[parameter.carrier, parameter.setting] = words_of(parameter)
        known |= {(derived.carrier, derived.name): None for derived in stack.derived}
    return known


def check_value(setting: Setting, where: str) -> None:
    """Refuse a value that would be ignored silently.

    Raises
    ------
    UserError
        If the key takes words and the value is not one of them.
    """
    values = _known().get((setting.carrier, setting.key))
    if values is not None and setting.value not in values:
        raise UserError(
            f"{where}: {setting.key} does not know '{setting.value}' and would ignore it silently",
            choose(setting.value, values),
        )


def check_plan(plan: Plan, where: str) -> list[str]:
    """Refuse values that would be ignored, and name keys that look misspelt.

    Returns
    -------
    list of str
        A sentence for each key that no stack knows but that is close to one that a stack knows.

    Raises
    ------
    UserError
        See :func:`check_value`.
    """
    doubts = []
    for setting in plan.settings:
        check_value(setting, where)
        names = [key for carrier, key in _known() if carrier is setting.carrier]
        close = difflib.get_close_matches(setting.key, names, 1, _CLOSE)
        if close and setting.key not in names:
            doubts.append(f"{setting.key} is not a known hint: was {close[0]} meant?")
    return doubts
