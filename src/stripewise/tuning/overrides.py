"""What values a parameter has here: what the experiment overrides, and the limits of machine, folders and site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from pydantic import ValidationError

from stripewise.carriers import HINT, Setting
from stripewise.errors import UserError
from stripewise.spec.documents import explain_validation
from stripewise.spec.experiment import ParameterOverride
from stripewise.spec.parameter import Parameter
from stripewise.spec.plan import spell
from stripewise.spec.policy import Policy
from stripewise.spec.stack import EXPRESSIONS, ParameterEntry
from stripewise.spec.vocabulary import check_value

_OF_STACK = ("layer", "io_component")


def _entry(parameter: Parameter) -> dict[str, Any]:
    """A parameter as a stack file writes it."""
    plain = {field.name: getattr(parameter, field.name) for field in fields(parameter) if field.name not in _OF_STACK}
    texts = {name: None if plain[name] is None else plain[name].text for name in EXPRESSIONS}
    lists = {name: list(plain[name]) for name in ("values", "operations", "driver", "switch")}
    return {**plain, **texts, **lists}


def overridden(parameter: Parameter, override: ParameterOverride) -> Parameter:
    """Give a stack's parameter with what the experiment changes about it.

    Raises
    ------
    UserError
        If a value is none of the carrier's, or the definition contradicts itself.
    """
    for value in override.values or []:
        known = Setting(parameter.carrier, parameter.setting, spell(value), parameter.layer)
        check_value(known, f"[parameters.{parameter.name}]")
    changes = {k: v for k, v in override.model_dump(exclude={"exclude"}).items() if v is not None}
    if not changes:
        return parameter
    entry = {**_entry(parameter), **changes}
    if "low" in changes or "high" in changes:
        entry.pop("values")
    where = f"[parameters.{parameter.name}]"
    try:
        entry_model = ParameterEntry.model_validate(entry)
        if "values" in changes and "default" not in changes:
            # The baseline is always in the space, whatever values the user wants tried; sizes may be written as texts.
            values = list(
                entry_model.model_copy(update={"default": None}).build(parameter.layer, parameter.io_component).values
            )
            wanted = values if parameter.default in values else [*values, parameter.default]
            ordered = sorted(wanted, key=float) if parameter.ordered else wanted
            entry_model = entry_model.model_copy(update={"values": ordered})
        return entry_model.build(parameter.layer, parameter.io_component)
    except ValidationError as error:
        raise explain_validation(error, where) from error
    except UserError as error:
        raise UserError(f"{where}: {error.what}", error.fix) from error


def own_parameter(name: str, override: ParameterOverride) -> Parameter:
    """Make a parameter that no stack has, as the experiment defines it.

    Raises
    ------
    UserError
        If it is not defined in full.
    """
    where = f"[parameters.{name}]"
    given = {k: v for k, v in override.model_dump(exclude={"exclude"}).items() if v is not None}
    if "kind" not in given:
        raise UserError(
            f"{where}: no stack has a parameter of this name", "correct it, or define it here with kind and values"
        )
    try:
        return ParameterEntry.model_validate({"name": name, **given}).build("user")
    except ValidationError as error:
        raise explain_validation(error, where) from error
    except UserError as error:
        raise UserError(f"{where}: {error.what}", error.fix) from error


def as_found(parameter: Parameter, present: Mapping[str, int]) -> Parameter:
    """Let a layout's default be what files have for which nothing is set: else that value, set, would pass for new."""
    found = present.get(parameter.role)
    if found is None or not parameter.carrier.of_file_system or found == parameter.default:
        return parameter
    values = parameter.values if found in parameter.values else tuple(sorted({*parameter.values, found}, key=float))
    return replace(parameter, values=values, default=found, default_from=None)


def as_set(parameter: Parameter, hints: Mapping[str, str]) -> Parameter:
    """Let a hint's default be the value that the program sets itself, if that is a value of the hint."""
    text = hints.get(parameter.setting) if parameter.carrier is HINT else None
    if text is None:
        return parameter
    known = next((value for value in parameter.values if spell(value) == text.strip().lower()), None)
    values = parameter.values
    if known is None and parameter.ordered and text.strip().isdigit():
        known = int(text)
        values = tuple(sorted({*values, known}, key=float))
    return parameter if known is None else replace(parameter, values=values, default=known, default_from=None)


def end(role: str, largest: Mapping[str, int], policy: Policy) -> int | None:
    """The largest value of a role that there is and that the site allows; None where neither says."""
    ends = [largest[role]] if role in largest else []
    if role == "stripe_count" and policy.striping.stripe_count is not None:
        ends.append(policy.striping.stripe_count)
    return min(ends, default=None)


def within(parameter: Parameter, largest: int | None) -> tuple[Parameter, str]:
    """End a parameter's values with the largest there is; with a reason where nothing is left to choose."""
    if largest is None or not parameter.ordered or float(parameter.values[-1]) <= largest:
        return parameter, ""
    kept = {value for value in parameter.values if float(value) < largest} | {largest, parameter.default}
    if len(kept) == 1:
        return parameter, f"{largest} is all there is"
    return replace(parameter, values=tuple(sorted(kept, key=float))), ""


def allowed(parameter: Parameter, policy: Policy) -> tuple[Parameter, str]:
    """Leave out values that the site does not allow; with a reason where nothing is left to choose."""
    if not parameter.carrier.of_file_system and parameter.role != "stripe_count":
        return parameter, ""
    name = parameter.role if parameter.role == "stripe_count" else parameter.setting
    values = policy.allowed_values(name, parameter.values)
    if len(values) == len(parameter.values):
        return parameter, ""
    kept = tuple(v for v in parameter.values if v in values or v == parameter.default)
    return (replace(parameter, values=kept), "") if len(kept) > 1 else (parameter, "the site allows no other value")
