"""Models by name: built in, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stripewise.documents import explain_validation
from stripewise.errors import UserError
from stripewise.models.ann import is_pt, read_pt
from stripewise.models.base import PerformanceModel
from stripewise.models.files import read_model_file
from stripewise.models.table import table_files
from stripewise.options import parse_options
from stripewise.ownership import checked_model
from stripewise.plugins import Plugins

ENTRY_POINTS = "stripewise.models"

_MODELS = Plugins(
    "model",
    ENTRY_POINTS,
    PerformanceModel,
    {
        "auto": "stripewise.models.auto:AutoModel",
        "linear": "stripewise.models.linear:LinearModel",
        "tree": "stripewise.models.trees.tree:TreeModel",
        "boosting": "stripewise.models.trees.boosting:BoostingModel",
        "forest": "stripewise.models.trees.tree:ForestModel",
        "ann": "stripewise.models.ann:AnnModel",
    },
)


def model_names() -> list[str]:
    """List all names that :func:`make_model` knows."""
    return _MODELS.names()


def model_class(name: str) -> type[PerformanceModel]:
    """Find the class behind a name; its ``Options`` describe what can be set.

    Raises
    ------
    UserError
        Unknown name, or a plug-in that cannot be loaded.
    """
    cls: type[PerformanceModel] = _MODELS.load(name)
    return cls


def make_model(name: str, options: Mapping[str, Any] | None = None) -> PerformanceModel:
    """Make a model from its name and options.

    Parameters
    ----------
    name : str
        One of :func:`model_names`.
    options : mapping, optional
        By option name; texts are converted, so that ``NAME=VALUE`` of a command line can be handed on.

    Raises
    ------
    UserError
        Unknown name or option, or a value out of bounds.
    """
    cls = model_class(name)
    return cls(parse_options(cls.Options, options or {}, f"model {name}"))


def load_model(path: str | Path) -> PerformanceModel:
    """Read a model that :meth:`PerformanceModel.save` wrote.

    Reading runs no code from the file; a model of another package's kind is made by that package, which must be
    installed.

    Raises
    ------
    UserError
        If this file does not exist, or it is not a model, a table, damaged, or of an unknown kind, or others could have
        changed it.
    """
    table = table_files(path)
    if (Path(path) in table or not Path(path).exists()) and all(file.is_file() for file in table):
        raise UserError(f"{path} is a table, not a model", f"make one of it: stripewise site train {path} --out FILE")
    try:
        with checked_model(Path(path)) as place:
            stored = read_pt(place) if is_pt(place) else read_model_file(place)
    except OSError as error:
        raise UserError(
            f"cannot read the model {path}: {error.strerror}", "make one with stripewise site train"
        ) from error
    try:
        return model_class(str(stored.head["model"])).restored(stored)
    except ValidationError as error:
        raise explain_validation(error, f"the model {path} is damaged") from error
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as error:
        raise UserError(f"the model {path} is damaged: {error}", "train it again") from error
