"""A model trained on a table and written to its file, and rules that say what is slow, average and fast."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.models.base import PerformanceModel
from stripewise.models.cells import Data, group_rows
from stripewise.models.domain import Domain
from stripewise.models.features import at_least_one, make_encoder
from stripewise.models.registry import load_model, make_model
from stripewise.models.table import Table
from stripewise.models.trees.ensemble import Trees
from stripewise.models.trees.tree import list_tree_rules, write_conditions
from stripewise.models.validation import find_predictable
from stripewise.sizes import count_of

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
    update : Update or None
        What became of a model that was there, if it was to be updated.
    """

    model: PerformanceModel
    rows: int
    seconds: float
    speed_rules: list[str]
    update: Update | None = None


@dataclass(frozen=True)
class Update:
    """What new rows are worth to a model.

    Attributes
    ----------
    new : int
        Rows that the model had not learned.
    replaced : bool
        Whether the file has a new model.
    before, after : float
        Mean error of ln(value) for held-out measurements, learned without and with the new rows; NaN without new ones.
    """

    new: int
    replaced: bool
    before: float = math.nan
    after: float = math.nan

    def __str__(self) -> str:
        rows = count_of(self.new, "new row")
        if not self.new:
            return "the table has no new rows: the model stays"
        errors = (
            f"a mean error of {_percent(self.after)} for held-out measurements, without them {_percent(self.before)}"
        )
        return f"{rows}: {errors}; {'the model was replaced' if self.replaced else 'the model stays'}"


def _percent(error: float) -> str:
    return f"{100 * math.expm1(error):.1f}%"


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


_FOLDS = 5


def update(table: Table, seed: int, out: Path, *, explain: bool = False) -> Learned:
    """Learn a model anew if its table has new rows and these make it no worse.

    1. Rows that the model in the file learned are known by their digests; all others are new.
    2. Points are held out, a fifth at a time, with all their runs. Two models of the same kind and options learn from
       the others: one from all rows, one without the new ones. Each predicts what was held out.
    3. The new model takes the place of the old one unless its mean error of ln(value), for what the old one knew or for
       what is new, is larger by more than the standard error of the difference.

    Parameters
    ----------
    explain : bool
        As for :func:`learn`.

    Raises
    ------
    UserError
        If the file has no model, or one of a version that did not keep what it learned, or the table lacks rows that it
        learned: the new model would not know them.
    """
    begun = time.perf_counter()
    old = load_model(out)
    if not len(old.rows):
        raise UserError(f"the model {out} does not say which rows it learned", "train it once without --update")
    digests = table.digest_rows()
    if missing := int((~np.isin(old.rows, digests)).sum()):
        raise UserError(
            f"table {table.name} lacks {missing} of the {count_of(len(old.rows), 'row')} that the model {out} learned",
            "add the new rows to the old ones, or train without --update",
        )
    new = ~np.isin(digests, old.rows)
    kind, options = old.name, old.options.model_dump(mode="json")
    result, fitted = Update(0, False), old
    if new.any():
        errors = _compare(table, new, kind, options, seed)
        judged = np.isfinite(errors).all(axis=1)
        if not judged.any():
            raise UserError(
                f"table {table.name} has nothing that can be held out to judge the new rows by",
                "measure more, or train without --update",
            )
        before, after = errors[judged].mean(axis=0).tolist()
        worse = any(_is_worse(errors[judged & part]) for part in (new, ~new))
        result = Update(int(new.sum()), not worse, before, after)
    if result.replaced:
        fitted = make_model(kind, options).fit(table, seed)
        fitted.save(out)
    seconds = time.perf_counter() - begun
    return Learned(fitted, len(table), seconds, learn_speed_rules(table, seed=seed) if explain else [], result)


def _compare(
    table: Table, new: NDArray[np.bool_], kind: str, options: Mapping[str, Any], seed: int
) -> NDArray[np.float64]:
    """Give the errors of ln(value) of models without and with new rows, shape ``(n, 2)``; NaN where one cannot say."""
    point = group_rows(table.every_level)
    fold = (np.random.default_rng(seed).permutation(int(point.max()) + 1) % _FOLDS)[point]
    found = np.full((len(table), 2), np.nan)
    for chosen in range(_FOLDS):
        test = fold == chosen
        for place, learning in enumerate((~test & ~new, ~test)):
            if learning.sum() > 1 and test.any():
                fitted = make_model(kind, options).fit(table.take(learning), seed)
                testing = table.take(test)
                known = find_predictable(fitted.domain, testing)
                if known.any():
                    value = fitted.predict_table(testing.take(known)).value
                    found[np.flatnonzero(test)[known], place] = np.abs(np.log(value / testing.values[known]))
    return found


def _is_worse(errors: NDArray[np.float64]) -> bool:
    """Say whether the second error is larger in the mean, by more than the standard error of the difference."""
    difference = errors[:, 1] - errors[:, 0]
    return bool(len(difference)) and float(difference.mean()) > float(difference.std()) / math.sqrt(len(difference))


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
