"""``[parameters.NAME]`` of an experiment: a stack's parameters changed, and parameters of the user's own."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from stripewise.carriers import Setting
from stripewise.errors import UserError
from stripewise.spec.documents import explain_validation
from stripewise.spec.experiment import ParameterOverride
from stripewise.spec.parameter import Parameter
from stripewise.spec.plan import spell
from stripewise.spec.stack import ParameterEntry
from stripewise.spec.vocabulary import check_value


def _entry(parameter: Parameter) -> dict[str, Any]:
    text = {
        name: expression.text
        for name in ("active_if", "same_as_default", "maximum_from", "default_from")
        if (expression := getattr(parameter, name)) is not None
    }
    plain = {
        name: getattr(parameter, name)
        for name in (
            *("name", "kind", "default", "unit", "scale", "role", "carrier", "key", "when", "scope", "since", "until"),
            *("safety", "evidence", "cost", "description", "trap"),
        )
    }
    return {
        **plain,
        **text,
        "values": list(parameter.values),
        "operations": list(parameter.operations),
        "driver": list(parameter.driver),
    }


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
            values = list(entry_model.model_copy(update={"default": None}).build(parameter.layer).values)
            wanted = values if parameter.default in values else [*values, parameter.default]
            ordered = sorted(wanted, key=float) if parameter.ordered else wanted
            entry_model = entry_model.model_copy(update={"values": ordered})
        return entry_model.build(parameter.layer)
    except ValidationError as error:
        raise explain_validation(error, where) from error
    except UserError as error:
        raise UserError(f"{where}: {error.what}", error.mend) from error


def own_parameter(name: str, override: ParameterOverride) -> Parameter:
    """Make a parameter that no stack has, as the experiment defines it.

    Raises
    ------
    UserError
        If it is not defined in full.
    """
    where = f"[parameters.{name}]"
    fields = {k: v for k, v in override.model_dump(exclude={"exclude"}).items() if v is not None}
    if "kind" not in fields:
        raise UserError(
            f"{where}: no stack has a parameter of this name", "correct it, or define it here with kind and values"
        )
    try:
        return ParameterEntry.model_validate({"name": name, **fields}).build("user")
    except ValidationError as error:
        raise explain_validation(error, where) from error
    except UserError as error:
        raise UserError(f"{where}: {error.what}", error.mend) from error
