"""What a simulated run starts from: the site with its changes, and a plan's settings."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Any

from pydantic import ValidationError

from stripewise.catalogue.carriers import Carrier, Setting
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import Plan, spell
from stripewise.documents import explain_validation
from stripewise.errors import UserError
from stripewise.lab.access import Access
from stripewise.lab.settings import parameters
from stripewise.lab.site import Site, load_site


def open_site(name: str) -> tuple[Site, Access]:
    """Read the site, and the access beyond the workload, that a runner's name asks for.

    Parameters
    ----------
    name : str
        ``NAME`` or ``FILE.toml``, followed by ``@KEY=VALUE,KEY=VALUE``: a key is one of the site's file
        (``noise.enabled``, ``failures.node_lost``) or ``access.`` with one of the access (``access.fsync``).

    Raises
    ------
    UserError
        If the site or key does not exist, or the key cannot have the value.
    """
    path, _, rest = name.partition("@")
    site = load_site(path)
    fields: dict[str, Any] = {**site.model_dump(), "access": {}}
    for word in rest.split(",") if rest else []:
        key, equals, text = word.partition("=")
        *tables, last = key.strip().split(".")
        place: Any = fields
        for table in tables:
            place = place.get(table) if isinstance(place, dict) else None
        known = isinstance(place, dict) and (last in place or tables == ["access"])
        if not equals or not known or isinstance(place.get(last), dict):
            raise UserError(
                f"sim:{name}: '{word}' changes nothing that a site has",
                "write KEY=VALUE with a key of the site's file, as in failures.node_lost=0.05 or noise.enabled=false",
            )
        place[last] = _value(text.strip())
    try:
        access = Access.model_validate(fields.pop("access"))
        return Site.model_validate(fields), access
    except ValidationError as error:
        raise explain_validation(error, f"sim:{name}") from error


def _value(text: str) -> Any:
    """A value as TOML reads it; anything else is text, for sizes and times are written without quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text


def settings_of_plan(plan: Plan) -> dict[str, Any]:
    """Give the plan's settings by the names of the stacks' parameters, as batches take them.

    Like an MPI library, this ignores values that it does not understand.
    """
    known = _parameters()
    found: dict[str, Any] = {}
    for setting in plan.settings:
        parameter = known.get((setting.carrier, setting.name))
        if parameter is None and not setting.carrier.of_file_system:
            found[setting.key] = setting.value
        elif parameter is not None and _understood(parameter, setting.value):
            found[parameter.name] = setting.value
    return found


@cache
def _parameters() -> dict[tuple[Carrier, str], Parameter]:
    """Parameters of the stacks that the simulated cluster models, by carrier and name."""
    return {
        (parameter.carrier, Setting(parameter.carrier, parameter.setting, "", parameter.layer).name): parameter
        for parameter in parameters().values()
    }


def _understood(parameter: Parameter, value: str) -> bool:
    if parameter.kind in (Kind.CATEGORICAL, Kind.BOOLEAN):
        return value in {spell(known) for known in parameter.values}
    try:
        float(value)
    except ValueError:
        return False
    return True
