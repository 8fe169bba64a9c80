"""Files in TOML: read, checked against a schema, and found by name among those that come with Stripewise."""

from __future__ import annotations

import json
import math
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stripewise.errors import UserError, choose, explain_fault
from stripewise.ownership import names_file

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

MOST_BYTES = 1 << 20
"""Nobody writes a larger file by hand."""

_PIECE = re.compile(r"[\n,={\[\]]")
"""Stands around the keys of TOML."""
_PARTS = 200
"""That no key has, between dots."""

_OF_KEYS = {"missing": "is missing", "extra_forbidden": "is not a known key"}
"""Faults of a key rather than of its value, by pydantic's name for them."""

T = TypeVar("T")
Schema = TypeVar("Schema", bound="BaseModel")


def explain_validation(error: ValidationError, origin: str) -> UserError:
    """Turn a schema error into one line that names the place."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "top level"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    fix = "see the reference of file formats"
    if first["type"] in _OF_KEYS:
        return UserError(f"{origin}: {place} {_OF_KEYS[first['type']]}{more}", fix)
    given = first.get("input")
    shown = f", not {given!r}" if isinstance(given, str | int | float) and len(str(given)) < 60 else ""
    return UserError(f"{origin}: {place}: {explain_fault(first)}{shown}{more}", fix)


def toml_value(value: Any) -> str:
    """Write a text, number, boolean or list as TOML."""
    # JSON's are TOML's as well, but for two escapes: of DEL, which JSON leaves bare, and of characters beyond 16 bits.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_document(text: str, origin: str, fix: str = "correct the line that it names") -> dict[str, Any]:
    """Read TOML; ``origin`` says in messages where the text came from.

    Raises
    ------
    UserError
        If it is not valid, or nested too deeply.
    """
    try:
        # The time that a key takes grows with the square of its parts: one of 1 MiB takes an hour.
        if any(piece.count(".") > _PARTS for piece in _PIECE.split(text)):
            raise RecursionError
        return tomllib.loads(text)
    except RecursionError as error:
        raise UserError(f"{origin} is not valid TOML: it is nested too deeply", fix) from error
    except ValueError as error:  # also of a number with more digits than Python reads
        raise UserError(f"{origin} is not valid TOML: {error}", fix) from error


def parse_document(schema: type[Schema], text: str, origin: str) -> Schema:
    """Read TOML into a pydantic model; ``origin`` says in messages where the text came from.

    Raises
    ------
    UserError
        With the origin and the place that is wrong.
    """
    from pydantic import ValidationError  # noqa: PLC0415  who only reads TOML needs no schemas, which are slow to load

    try:
        return schema.model_validate(toml_document(text, origin))
    except ValidationError as error:
        raise explain_validation(error, origin) from error
    except UserError as error:
        said = error.what if error.what.startswith(origin) else f"{origin}: {error.what}"
        raise UserError(said, error.fix) from error
    except ValueError as error:  # TOML's own error for a date that does not exist
        raise UserError(f"{origin}: {error}", "fix the value") from error


def read_document(
    path: Path,
    noun: str,
    cure: str = "check the path",
    most: int = MOST_BYTES,
    *,
    latin: bool = False,
    errors: str = "strict",
) -> str:
    """Read the text of a file; ``noun`` says what it is, for messages, and ``cure`` what to do where it is not there.

    With ``latin``, text that is not UTF-8 is taken for Latin-1, as programs read it that look at single bytes.
    ``errors`` is what Python's decoders take: names of files need not be UTF-8.

    Raises
    ------
    UserError
        If it cannot be read, is larger than ``most`` bytes, or is not UTF-8.
    """
    try:
        # A device or a pipe does not say its length. In pieces: one read would take the memory of the most first.
        read = bytearray()
        with path.open("rb") as stream:
            while len(read) <= most and (piece := stream.read(min(MOST_BYTES, most + 1 - len(read)))):
                read += piece
        if len(read) > most:
            raise UserError(f"{noun} file {path} is larger than {most >> 20} MiB", "is it the right file?")
        try:
            return read.decode("utf-8", errors)
        except UnicodeDecodeError:
            if not latin:
                raise
            return read.decode("latin-1")
    except OSError as error:
        raise UserError(f"cannot read the {noun} file {path}: {error.strerror}", cure) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{noun} file {path} is not UTF-8 text", "is it the right file?") from error


@dataclass(frozen=True)
class Bundled:
    """Files that come with Stripewise, by name, beside a user's own by path."""

    noun: str
    """What such a file is: ``stack``, ``site``, ``campaign``."""
    folder: str
    """Where they lie in the package."""

    def names(self) -> list[str]:
        """List those that come with Stripewise."""
        return sorted(_texts(self.folder))

    def find(self, name: str) -> tuple[str, str]:
        """Give the text of one, by its name or the path of a file, and what to call it in messages.

        Raises
        ------
        UserError
            If there is none, or it cannot be read.
        """
        if name in _texts(self.folder):
            return _texts(self.folder)[name], f"{self.noun} {name}"
        path = Path(name)
        if not names_file(name) or (path.suffix != ".toml" and not path.is_file()):
            raise UserError(
                f"unknown {self.noun} '{name}'",
                f"{choose(name, self.names())}, or give the path of a .toml file",
            )
        return read_document(path, self.noun), str(path)

    def document(self, name: str) -> dict[str, Any]:
        """Read one that comes with Stripewise."""
        return toml_document(*self.find(name))


@cache
def _texts(folder: str) -> dict[str, str]:
    """Read every file of a folder in the package, once a process."""
    from importlib import resources  # noqa: PLC0415  a launch reads none of them

    place = resources.files("stripewise").joinpath(folder)
    files = [item for item in place.iterdir() if item.name.endswith(".toml")]
    return {item.name.removesuffix(".toml"): item.read_text("utf-8") for item in files}


def make_finite(value: T) -> T:
    """Give a document with null where a number is infinite or not a number, neither of which JSON has."""
    found: Any = _make_value_finite(value)
    return found  # type: ignore[no-any-return]  # a document stays of its kind


def _make_value_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _make_value_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_make_value_finite(item) for item in value]
    return value
