"""Lines of a plan that carry out what was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stripewise.carriers import HINT, Setting
from stripewise.model.carriers import Knob, bytes_of, derived_settings
from stripewise.spec.configuration import Configuration, Value
from stripewise.spec.plan import settings_of, spell
from stripewise.spec.space import Space


def lines(
    chosen: Sequence[tuple[Knob, Value]], standin: Knob | None, operation: str | None, words: Mapping[str, Any]
) -> list[Setting]:
    """Hints and layouts, what follows from them, and what stands in for the access pattern.

    Parameters
    ----------
    chosen : sequence of (Knob, value)
        What is changed, and its new value in the column's unit.
    standin : Knob or None
        The column "collective or not", where ``romio_cb_*`` stands in for it.
    operation : str or None
    words : mapping
        Of the workload.
    """
    settings: list[Setting] = []
    for knob, value in chosen:
        if knob is standin:
            word = "enable" if value is True or str(value).lower() == "true" else "disable"
            keys = {"read": ("read",), "write": ("write",)}.get(operation or "", ("write", "read"))
            settings += [Setting(HINT, f"romio_cb_{key}", word) for key in keys]
        elif knob.parameter is not None:
            factor = bytes_of(knob.column)
            carried = int(float(value) * factor) if factor != 1.0 and not isinstance(value, str) else value
            parameter = knob.parameter
            settings.append(Setting(parameter.carrier, parameter.setting, spell(carried), parameter.layer))
    return [*settings, *_derived(chosen, words)]


def _derived(chosen: Sequence[tuple[Knob, Value]], words: Mapping[str, Any]) -> list[Setting]:
    values = {knob.parameter.name: value for knob, value in chosen if knob.parameter is not None}
    parameters = [knob.parameter for knob, _ in chosen if knob.parameter is not None]
    entries = [e for e in derived_settings([knob for knob, _ in chosen]) if e.value.names <= values.keys() | set(words)]
    if not entries:
        return []
    bound = tuple(
        replace(
            p,
            values=(*p.values, values[p.name]) if values[p.name] not in p.values else p.values,
            active_if=None,
            same_as_default=None,
            default_from=None,
            maximum_from=None,
            default=_other(p.values, values[p.name]),
        )
        for p in parameters
    )
    space = Space(bound, (), tuple(entries), words)
    names = {entry.name for entry in entries}
    return [s for s in settings_of(space, Configuration(values)) if s.key in names]


def _other(values: Sequence[Value], value: Value) -> Value:
    """Any value but this one: then the setting counts as changed."""
    return next((v for v in values if v != value), value)
