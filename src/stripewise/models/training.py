"""A model trained on a table and written to its file, and rules that say what is slow, average and fast."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stripewise.models.base import PerformanceModel
from stripewise.models.cells import Data
from stripewise.models.domain import Domain
from stripewise.models.features import at_least_one, make_encoder
from stripewise.models.registry import make_model
from stripewise.models.table import Table
from stripewise.models.trees.ensemble import Trees
from stripewise.models.trees.tree import list_tree_rules, write_conditions

LABELS = ("slow", "average", "fast")


@dataclass(frozen=True)
class Learned:
    """A model with how it was made.

    Attributes
    ----------
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
    kind : str
        Of model; see :func:`~stripewise.models.registry.make_model`.
    explain : bool
        Also learn the rules for slow, average and fast.

    Raises
    ------
    UserError
        If the kind or option does not exist, or nothing can be learned from the table.
    """
    begun = time.perf_counter()
    fitted = make_model(kind, options).fit(table, seed)
    seconds = time.perf_counter() - begun
    fitted.save(out)
    return Learned(fitted, len(table), seconds, learn_speed_rules(table, seed=seed) if explain else [])


def learn_speed_rules(table: Table, *, depth: int = 3, seed: int = 0) -> list[str]:
    """Say in rules which runs are slow, average and fast: a quarter of them is slow and a quarter fast.

    Parameters
    ----------
    table : Table
        All values positive.
    depth : int
        Largest depth of the classification tree.

    Returns
    -------
    list of str
        One sentence per leaf, with the probability of each class.
    """
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415  slow import

    low, high = np.quantile(table.values, (0.25, 0.75))
    place = np.where(table.values < low, 0, np.where(table.values > high, 2, 1))
    domain = Domain.of(table)
    points = Data.of(domain, table).points
    encoder = make_encoder(domain, points)
    tree = DecisionTreeClassifier(max_depth=depth, random_state=seed)
    tree.fit(at_least_one(encoder.encode(points)), place if domain.objective.maximize else 2 - place)
    trees = Trees.from_sklearn([tree])
    sentences = []
    for leaf, path in list_tree_rules(trees):
        shares = np.zeros(len(LABELS))
        shares[tree.classes_] = tree.tree_.value[leaf, 0] / tree.tree_.value[leaf, 0].sum()
        when = write_conditions(domain, encoder, path)
        each = ", ".join(f"{name} {share:.0%}" for name, share in zip(LABELS, shares, strict=True))
        likeliest = LABELS[int(np.argmax(shares))]
        sentences.append(f"{'if ' + when if when else 'always'}: {likeliest} ({each}; {trees.count[leaf]} rows)")
    return sentences
