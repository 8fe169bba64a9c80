"""Values as they are kept: JSON that comes back as it went in, to the bit and to the type."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import NoneType
from typing import Any

from pydantic import ValidationError

from stripewise.catalogue.configuration import Configuration
from stripewise.errors import StoreError
from stripewise.facts import RunFacts
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.trial import MOST, Phase, Role, Run, State, Trial

_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("number", "trial"), int),
    **dict.fromkeys(("value", "elapsed", "started"), (float, int, NoneType)),
    "pair": (int, NoneType),
    **dict.fromkeys(("tag", "reason", "arm"), str),
}
"""Of the fields of runs and trials."""

_LATEST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_USABLE: Mapping[str, Callable[[float], bool]] = {
    "value": lambda value: abs(value) < MOST,
    "elapsed": lambda value: 0 <= value < MOST,
    "started": lambda value: 0 <= value < _LATEST,
}
"""Numbers of runs with which figures and dates can be made: earlier versions kept others, too."""


def dump(value: Any) -> str:
    """Write JSON in ASCII: what programs print is not always Unicode, and half characters survive only as escapes.

    Raises
    ------
    StoreError
        If there is something in it that JSON cannot say.
    """
    try:
        return json.dumps(value, separators=(",", ":"), default=_number)
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"a value cannot be kept as JSON: {error}", "use numbers, text, lists and tables") from error


def _number(value: Any) -> Any:
    """Array libraries have numbers of their own."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def load(text: str, what: str) -> Any:
    """Read JSON that the store wrote.

    Raises
    ------
    StoreError
        Naming ``what``, if it is damaged.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(what) from error


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Say that something kept is damaged where it has another form: whoever can write to a store can write anything."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise damaged(what) from error


def damaged(what: str) -> StoreError:
    """Say that something kept cannot be read."""
    return StoreError(
        f"{what} is damaged and cannot be read", "restore the store from a copy, or delete the experiment"
    )


def experiment_json(experiment: Experiment) -> dict[str, Any]:
    """Give an experiment as JSON, with its defaults: a resumed experiment keeps those it began with."""
    return experiment.model_dump(mode="json")


def read_experiment(data: Any, identifier: str) -> Experiment:
    """Take an experiment from JSON.

    Raises
    ------
    StoreError
        If this version cannot read it.
    """
    try:
        return Experiment.model_validate(data)
    except ValidationError as error:
        raise _unreadable("definition", identifier, error) from error


def read_result(data: Mapping[str, Any], identifier: str) -> Result:
    """Take a result from JSON.

    Raises
    ------
    StoreError
        If this version cannot read it.
    """
    try:
        return Result.from_json(data)
    except ValidationError as error:
        raise _unreadable("result", identifier, error) from error


def _unreadable(part: str, identifier: str, error: ValidationError) -> StoreError:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "top level"
    return StoreError(
        f"the {part} of experiment {identifier} cannot be read: {place}: {first['msg']}",
        "open it with the version that wrote it, or delete it",
    )


def trial_json(trial: Trial) -> dict[str, Any]:
    """Give a trial, without its runs, as JSON."""
    return {
        "number": trial.number,
        "role": trial.role.value,
        "tag": trial.tag,
        "configuration": dict(trial.configuration),
    }


def run_json(run: Run) -> dict[str, Any]:
    """Give a run as JSON."""
    numbers = {name: _decode_float(getattr(run, name)) for name in ("value", "elapsed", "started")}
    return {**run.as_json(), **numbers, "facts": dict(run.facts)}


def _check_kinds(data: Mapping[str, Any]) -> None:
    """Refuse values of another kind: SQLite keeps bytes and words in columns of numbers, too."""
    for name, kinds in _KINDS.items():
        if name in data and not isinstance(data[name], kinds):
            raise TypeError(f"{name} is {data[name]!r}")


def read_trial(data: Mapping[str, Any], runs: tuple[Run, ...], what: str) -> Trial:
    """Take a trial from JSON.

    Raises
    ------
    StoreError
        Naming ``what``, if it is damaged.
    """
    with reading(what):
        _check_kinds(data)
        return Trial(
            number=data["number"],
            configuration=Configuration(data["configuration"]),
            role=Role(data["role"]),
            runs=runs,
            tag=data["tag"],
        )


def read_run(data: Mapping[str, Any], what: str) -> Run:
    """Take a run from JSON; what cannot be a number of it is as if it were not measured.

    Raises
    ------
    StoreError
        Naming ``what``, if it is damaged.
    """
    with reading(what):
        _check_kinds(data)
        kinds = {"phase": Phase(data["phase"]), "state": State(data["state"]), "facts": RunFacts(data.get("facts"))}
        odd = [name for name, usable in _USABLE.items() if data.get(name) is not None and not usable(data[name])]
        return Run(**{**data, **kinds, **dict.fromkeys(odd)})


def _decode_float(value: float | None) -> float | None:
    return None if value is None else float(value)
