"""Model files: a ZIP of one JSON document and plain arrays. Reading one never runs code from it."""

from __future__ import annotations

import io
import json
import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stripewise.errors import UserError
from stripewise.ownership import take_from_others, written_whole

FORMAT = "stripewise-model"
VERSION = 1
_HEAD = "model.json"
_ARRAYS = "arrays/"
_LARGEST = 256 << 20
_SMALL = 16 << 20
_DENSEST = 50
"""How many bytes a byte of a larger archive may unpack to: numbers compress far less than zeros."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class Stored:
    """The content of a model file.

    Attributes
    ----------
    head : mapping
        ``model`` (its name), ``options``, ``domain``, ``encoder``, ``noise``, ``state``.
    arrays : mapping
        Arrays of numbers by name.
    """

    head: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray[Any, Any]]


def write_model_file(path: str | Path, stored: Stored) -> None:
    """Write a model file, whole or not at all; the same model gives the same bytes.

    Raises
    ------
    UserError
        If it cannot be written.
    """

    def write(part: Path) -> None:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            head = json.dumps({"format": FORMAT, "version": VERSION, **stored.head}, indent=1, allow_nan=False)
            archive.writestr(_member(_HEAD), head)
            for name, array in stored.arrays.items():
                stream = io.BytesIO()
                np.save(stream, array, allow_pickle=False)
                archive.writestr(_member(f"{_ARRAYS}{name}.npy"), stream.getvalue())

    write_whole(path, write)


def write_whole(path: str | Path, write: Callable[[Path], Any], what: str = "model") -> None:
    """Write a file beside its place and move it there: it is written whole or not at all.

    Raises
    ------
    UserError
        If it cannot be written.
    """
    target = Path(path)
    try:
        with written_whole(target) as part:
            write(part)
            # A model that others can write is refused, and a umask of 002 would make it such.
            take_from_others(part)
    except (OSError, RuntimeError) as error:  # RuntimeError: PyTorch's word for a folder that is not there
        reason = getattr(error, "strerror", None) or "the folder does not exist, or is full"
        raise UserError(f"cannot write the {what} {target}: {reason}", "check the folder") from error


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    return member


def read_head(text: str) -> Any:
    """Read JSON whose numbers are finite: Python's reader takes ``NaN``, ``Infinity`` and 1e999.

    Raises
    ------
    ValueError
        If it is not such JSON.
    """

    def number(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise ValueError(f"it has the number {digits[:20]}")
        return value

    return json.loads(text, parse_constant=number, parse_float=number)


def mapping(document: Any) -> dict[str, Any]:
    """Give a part of a model's document that must be an object of JSON.

    Raises
    ------
    TypeError
        If it is not.
    """
    if not isinstance(document, dict):
        raise TypeError(f"it has {str(document)[:20]!r} where an object must be")
    return document


def check_unpacked(archive: zipfile.ZipFile, path: str | Path) -> None:
    """Refuse an archive that unpacks to more than models do.

    Raises
    ------
    UserError
        If it does.
    """
    unpacked = sum(entry.file_size for entry in archive.infolist())
    most = min(_LARGEST, max(_SMALL, _DENSEST * Path(path).stat().st_size))
    if unpacked > most:
        raise UserError(
            f"model {path} unpacks to {unpacked >> 20} MiB, more than the {most >> 20} MiB for its size",
            "train it again: Stripewise's own models are smaller",
        )


def read_model_file(path: str | Path) -> Stored:
    """Read a model file; only numbers and texts are taken from it.

    Raises
    ------
    UserError
        If this file does not exist, or it is not a model, damaged, too large, or of a later version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            check_unpacked(archive, path)
            head = read_head(archive.read(_HEAD).decode("utf-8"))
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise UserError(f"{path} is not a performance model", "make one with stripewise site train")
            if head.get("version") != VERSION:
                raise UserError(
                    f"model {path} has format version {head.get('version')}, this program reads {VERSION}",
                    "train it again, or use the version of stripewise that made it",
                )
            arrays = {
                name.removeprefix(_ARRAYS).removesuffix(".npy"): np.load(
                    io.BytesIO(archive.read(name)), allow_pickle=False
                )
                for name in archive.namelist()
                if name.startswith(_ARRAYS)
            }
    except OSError as error:
        raise UserError(
            f"cannot read the model {path}: {error.strerror}", "make one with stripewise site train"
        ) from error
    except MemoryError as error:
        raise UserError(f"model {path} needs more memory than there is", "train it again, on less data") from error
    except (
        *(zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError),
        RuntimeError,  # also of an archive that is encrypted, packed in an unknown way, or nested too deeply
        *(SyntaxError, tokenize.TokenError),  # NumPy reads an array's head as Python reads its own texts
    ) as error:
        raise UserError(f"{path} is not a performance model, or is damaged: {error}", "train it again") from error
    return Stored(head, arrays)
