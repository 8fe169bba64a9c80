"""A model learned from a table and written to its file, with what is told of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stripewise.model.base import PerformanceModel
from stripewise.model.registry import make_model
from stripewise.model.speed import SpeedClassifier
from stripewise.model.table import Table


@dataclass(frozen=True)
class Learned:
    """A model with how it was made.

    Attributes
    ----------
    model : PerformanceModel
    rows : int
        Of the table.
    seconds : float
        That it took.
    speed_rules : list of str
        What is slow, average and fast, if that was asked for.
    """

    model: PerformanceModel
    rows: int
    seconds: float
    speed_rules: list[str]


def learn(
    table: Table, kind: str, options: Mapping[str, str], seed: int, out: Path, *, explain: bool = False
) -> Learned:
    """Learn a model and write it.

    Parameters
    ----------
    table : Table
    kind : str
        Of model; see :func:`~stripewise.model.registry.make_model`.
    options : mapping
    seed : int
    out : Path
    explain : bool
        Also learn the rules for slow, average and fast.

    Raises
    ------
    UserError
        If there is no such kind or option, or nothing can be learned from the table.
    """
    begun = time.perf_counter()
    fitted = make_model(kind, options).fit(table, seed)
    seconds = time.perf_counter() - begun
    fitted.save(out)
    rules = SpeedClassifier.fit(table, seed=seed).rules() if explain else []
    return Learned(fitted, len(table), seconds, list(rules))
