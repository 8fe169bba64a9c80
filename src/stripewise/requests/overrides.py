"""Parameters of an experiment: those of its stacks as ``[parameters.NAME]`` changes them, and those it adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from pydantic import ValidationError

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.configuration import place_of, sizes
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.stack import EXPRESSIONS, ParameterEntry, load_stack
from stripewise.catalogue.vocabulary import check_value
from stripewise.documents import explain_validation
from stripewise.errors import UserError
from stripewise.requests.experiment import Experiment, ParameterOverride

OWN_LAYER = "user"
"""The layer of parameters that no stack has."""
_OF_STACK = ("layer", "io_component")


def _entry(parameter: Parameter) -> dict[str, Any]:
    """A parameter as a stack file writes it."""
    plain = {field.name: getattr(parameter, field.name) for field in fields(parameter) if field.name not in _OF_STACK}
    texts = {name: None if plain[name] is None else plain[name].text for name in EXPRESSIONS}
    lists = {name: list(plain[name]) for name in ("values", "operations", "driver", "switch", "breaks")}
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
            wanted = values if place_of(parameter.default, values) is not None else [*values, parameter.default]
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
    if not is_own(override):
        raise UserError(
            f"{where}: no stack has a parameter of this name",
            "correct it, or say how its values reach the program: argument, env or file",
        )
    if "kind" not in given:
        given["kind"] = _kind_of(given)
    try:
        return ParameterEntry.model_validate({"name": name, **given}).build(OWN_LAYER)
    except ValidationError as error:
        raise explain_validation(error, where) from error
    except UserError as error:
        raise UserError(f"{where}: {error.what}", error.fix) from error


def is_own(override: ParameterOverride) -> bool:
    """Say whether an entry defines a parameter by itself: it has a kind, or names a carrier."""
    return not ({"kind", "carrier"}.isdisjoint(override.model_extra or {}) or override.exclude)


def _kind_of(given: Mapping[str, Any]) -> Kind:
    """Derive the kind of a parameter from its values."""
    values: Sequence[Any] = given.get("values") or ()
    if values and all(isinstance(value, bool) for value in values):
        return Kind.BOOLEAN
    if not values and "low" in given:
        return Kind.INTEGER
    ordered = given.get("unit") == "B" or sizes(values)
    return Kind.ORDINAL if ordered else Kind.CATEGORICAL


def parameters_of(experiment: Experiment) -> dict[str, Parameter]:
    """Give the parameters of the stacks that an experiment names, as it changes them, and its own, by name.

    Raises
    ------
    UserError
        If a stack cannot be loaded or a parameter is wrong.
    """
    found = {p.name: p for stack in experiment.stacks for p in load_stack(stack).parameters}
    for name, override in experiment.parameters.items():
        if override.exclude:
            found.pop(name, None)
        elif name in found:
            found[name] = overridden(found[name], override)
        elif is_own(override):
            found[name] = own_parameter(name, override)
    return found
