"""Forms from declarations: each field of an options class becomes an input, and what is filled in becomes its value.

A field that is left empty keeps its default. A given value is used, even 0.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from stripewise.errors import UserError

Kind = Literal["number", "text", "choice", "truth", "json"]


@dataclass(frozen=True)
class Input:
    """A field of a form.

    Attributes
    ----------
    name : str
        Dotted place in the definition.
    default : str
        As it would be written; shown where the field is empty.
    low, high : float or None
        Bounds of numbers.
    whole : bool
        Whether a number has to be whole.
    """

    name: str
    label: str
    help: str
    kind: Kind
    default: str
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    whole: bool = False


def make_inputs(
    model: type[BaseModel],
    prefix: str,
    presets: Mapping[str, Any] | None = None,
    choices: Mapping[str, Sequence[str]] | None = None,
) -> list[Input]:
    """Make the fields of an options class.

    Parameters
    ----------
    prefix : str
        Dotted place of the options in the definition.
    presets : mapping, optional
        Defaults other than the class's.
    choices : mapping, optional
        The values of fields whose type is open: names of registered plug-ins.
    """
    found = [
        _input(f"{prefix}.{name}", name, field, (presets or {}).get(name, PydanticUndefined))
        for name, field in model.model_fields.items()
    ]
    known = {f"{prefix}.{name}": tuple(values) for name, values in (choices or {}).items()}
    return [replace(one, kind="choice", choices=known[one.name]) if one.name in known else one for one in found]


def _input(name: str, own: str, field: FieldInfo, preset: Any) -> Input:
    kind, choices, whole = _kind(field.annotation)
    low, high = _bounds(field)
    default = field.get_default(call_default_factory=True) if preset is PydanticUndefined else preset
    help_ = (field.description or "").replace("`", "").rstrip(".")  # Descriptions are Markdown.
    label = "API" if own == "api" else own.replace("_", " ")
    return Input(name, label, help_, kind, _write_value(default), choices, low, high, whole)


def _kind(annotation: Any) -> tuple[Kind, tuple[str, ...], bool]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        own, *rules = typing.get_args(annotation)
        # A size may be written with its unit: a validator reads it.
        return ("text", (), False) if any(isinstance(rule, BeforeValidator) for rule in rules) else _kind(own)
    if origin in (typing.Union, types.UnionType):
        members = [one for one in typing.get_args(annotation) if one is not type(None)]
        return _kind(members[0]) if len(members) == 1 else ("text", (), False)
    if origin is Literal:
        return "choice", tuple(str(one) for one in typing.get_args(annotation)), False
    if annotation is bool:
        return "truth", (), False
    if annotation in (int, float):
        return "number", (), annotation is int
    if origin in (dict, list, tuple):
        return "json", (), False
    return "text", (), False


def _bounds(field: FieldInfo) -> tuple[float | None, float | None]:
    low: float | None = None
    high: float | None = None
    for rule in _rules(field):
        if isinstance(rule, Ge):
            low = float(typing.cast(Any, rule.ge))
        elif isinstance(rule, Gt):
            low = float(typing.cast(Any, rule.gt))
        elif isinstance(rule, Le):
            high = float(typing.cast(Any, rule.le))
        elif isinstance(rule, Lt):
            high = float(typing.cast(Any, rule.lt))
    return low, high


def _rules(field: FieldInfo) -> list[Any]:
    found = list(field.metadata)
    for member in typing.get_args(field.annotation):
        if typing.get_origin(member) is typing.Annotated:
            for rule in typing.get_args(member)[1:]:
                found += rule.metadata if isinstance(rule, FieldInfo) else [rule]
    return found


def _write_value(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list | tuple):
        return json.dumps(value) if value else ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def nest_fields(given: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Collect what a form says under a prefix as a nested mapping; empty fields are left out.

    Raises
    ------
    UserError
        If one name is a field and a group of fields at once.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if not name.startswith(f"{prefix}.") or not value.strip():
            continue
        *path, last = name.removeprefix(f"{prefix}.").split(".")
        place = found
        for step in path:
            place = place.setdefault(step, {})
            if not isinstance(place, dict):
                raise UserError(f"the form has both '{step}' and '{name}'", "load the page again and fill it in anew")
        place[last] = {"yes": True, "no": False}.get(value, value) if value in ("yes", "no") else value.strip()
    return found


def flatten_fields(values: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Write a nested mapping as the fields of a form: the other way round."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flatten_fields(value, f"{prefix}.{name}")
        elif value is not None:
            found[f"{prefix}.{name}"] = _write_value(value)
    return found
