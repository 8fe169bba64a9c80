"""A table of several programs, described by what their profiles show in place of their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stripewise.catalogue.configuration import Value, plain_number
from stripewise.catalogue.factor import SIZES
from stripewise.errors import UserError
from stripewise.models.table import Column, Table
from stripewise.observe.darshan_logs import is_log
from stripewise.observe.profile_features import TRAITS
from stripewise.observe.sources import open_all
from stripewise.observe.traces import SUFFIXES
from stripewise.observe.workload import Observed, describe_workload

_WORDS = ("nodes", "processes", "file_size", "transfer_size", "piece_size")
_DIGITS = 6


def with_profiles(table: Table, name: str, folder: Path) -> tuple[Table, list[str]]:
    """Put columns of numbers in place of a context that names programs.

    Parameters
    ----------
    name : str
        The context.
    folder : Path
        With ``VALUE.darshan``, a Darshan log, or ``VALUE.json``, a report of the runtime, for each value of the column.

    Returns
    -------
    Table
    list of str
        What some of the profiles show, and others do not.

    Raises
    ------
    UserError
        If the column or a profile is missing or cannot be read, or the profiles are all alike.
    """
    names = [column.name for column in table.schema.context]
    if name not in names:
        raise UserError(
            f"table {table.name} has no context {name}", f"choose from {', '.join(names) or 'other tables'}"
        )
    place = names.index(name)
    column = table.schema.context[place]
    used = sorted(set(table.context_levels[:, place].tolist()))
    shown = [_numbers(seen) for seen in _observe_paths([_profile(folder, column.values[level]) for level in used])]
    every = list(dict.fromkeys(word for one in shown for word in one))
    taken = {*names, *(other.name for other in table.schema.parameter)} - {name}
    missing = [word for word in every if any(word not in one for one in shown)]
    kept = [
        word for word in every if word not in taken and word not in missing and len({one[word] for one in shown}) > 1
    ]
    if not kept:
        raise UserError(f"the profiles in {folder} show no difference between the programs", "are they the right ones?")
    columns, levels = [], []
    for word in kept:
        values = sorted({one[word] for one in shown})
        columns.append(_column(word, values))
        of_level = {level: values.index(one[word]) for level, one in zip(used, shown, strict=True)}
        levels.append([of_level[level] for level in table.context_levels[:, place].tolist()])
    others = [i for i in range(len(names)) if i != place]
    schema = table.schema.model_copy(
        update={
            "context": [*(table.schema.context[i] for i in others), *columns],
            # What names a program by its name cannot be said in numbers.
            "constraints": [rule.text for rule in table.schema.rules if name not in rule.names],
        }
    )
    contexts = np.column_stack([table.context_levels[:, others], np.array(levels, np.int64).T])
    return Table(schema, table.levels, contexts, table.repeats, table.values), missing


def _profile(folder: Path, value: Value) -> Path:
    for suffix in (".darshan", ".json", *SUFFIXES, ""):
        if (path := folder / f"{value}{suffix}").is_file() or (path.is_dir() and is_log(path)):
            return path
    raise UserError(
        f"{folder} has no profile of {value}", f"run it once under Darshan, and keep the log as {value}.darshan"
    )


def _observe_paths(paths: list[Path]) -> list[Observed]:
    """Read profiles, the logs among them by processes that read many."""
    seen = {}
    for result in open_all(paths):
        if result.activity is None:
            raise result.error or UserError(f"{result.path} cannot be read")
        if result.path in seen:
            raise UserError(f"{result.path} holds several runs", "put the output of each run into its own file")
        seen[result.path] = describe_workload(result.activity)
    return [seen[path] for path in paths]


def _numbers(seen: Observed) -> dict[str, float]:
    words = {word: getattr(seen.workload, word) for word in _WORDS} | {"processes": seen.processes}
    found = {**{word: number for word, number in words.items() if number is not None}, **seen.traits}
    return {
        word: float(number) if float(number).is_integer() else float(f"{number:.{_DIGITS}g}")
        for word, number in found.items()
    }


def _column(word: str, values: list[float]) -> Column:
    return Column(
        name=word,
        kind="ordinal",
        role=word,
        unit="B" if word in SIZES else TRAITS.get(word, "count"),
        scale="log2" if values[0] > 0 else "linear",
        values=[plain_number(value) for value in values],
    )
