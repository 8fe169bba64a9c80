"""What values a parameter has here: the limits of machine, folders and site, and what the program sets."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from stripewise.catalogue.carriers import HINT
from stripewise.catalogue.parameter import Breakage, Parameter
from stripewise.catalogue.plan import spell
from stripewise.requests.policy import Policy


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


def unbroken(parameter: Parameter, calls: Set[str]) -> tuple[Parameter, str]:
    """Leave out values that break calls which the program makes; with a reason where nothing is left to choose."""
    broken = [one for one in parameter.breaks if one.value != parameter.default and not calls.isdisjoint(one.calls)]
    if not broken:
        return parameter, ""
    kept = tuple(value for value in parameter.values if value not in [one.value for one in broken])
    return (replace(parameter, values=kept), "") if len(kept) > 1 else (parameter, why_broken(broken[0], calls))


def why_broken(breakage: Breakage, calls: Set[str]) -> str:
    """Say why a value is not for a program that makes some calls."""
    return f"the program calls {breakage.functions(calls)}, and with {spell(breakage.value)} {breakage.how}"
