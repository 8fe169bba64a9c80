"""Options of everything replaceable: declared once, read from command line, file, Python or form alike."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from stripewise.errors import UserError, explain_fault


class Options(BaseModel):
    """A set of options: each field has a default, bounds and a description. A given value is used, even 0."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _from_json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


Keywords = Annotated[dict[str, Any], BeforeValidator(_from_json)]
"""Arguments handed on to another library; on a command line they are written as JSON."""

AnyOptions = TypeVar("AnyOptions", bound=Options)


def parse_options(cls: type[AnyOptions], given: Mapping[str, Any], owner: str) -> AnyOptions:
    """Check what was given and fill in the defaults; texts are converted, as those of a command line.

    ``owner`` says in messages whose options they are.

    Raises
    ------
    UserError
        Unknown name, or a value out of bounds.
    """
    try:
        return cls.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        option = ".".join(str(part) for part in first["loc"])
        fix = f"its options: {', '.join(cls.model_fields) or 'none'}"
        if first["type"] == "extra_forbidden":
            raise UserError(f"{owner} has no option '{option}'", fix) from error
        place = f"option {option} = {first['input']!r}: " if option else ""
        raise UserError(f"{owner}: {place}{explain_fault(first)}", fix) from error
