"""A model trained on a table and written to its file, and rules that say what is slow, average and fast."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.model.base import PerformanceModel
from stripewise.model.data import Data
from stripewise.model.domain import Domain, Floats, Frame
from stripewise.model.features import Encoder, at_least_one, make_encoder
from stripewise.model.registry import make_model
from stripewise.model.table import Table
from stripewise.model.trees.ensemble import Trees
from stripewise.model.trees.rules import conditions, tree_rules

LABELS = ("slow", "average", "fast")


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
        If the kind or option does not exist, or nothing can be learned from the table.
    """
    begun = time.perf_counter()
    fitted = make_model(kind, options).fit(table, seed)
    seconds = time.perf_counter() - begun
    fitted.save(out)
    rules = SpeedClassifier.fit(table, seed=seed).rules() if explain else []
    return Learned(fitted, len(table), seconds, list(rules))


@dataclass(frozen=True, eq=False)
class SpeedClassifier:
    """A classification tree over three classes of performance.

    Attributes
    ----------
    domain : Domain
    encoder : Encoder
    bounds : (float, float)
        Values of the objective between slow and average, and between average and fast.
    trees : Trees
        One tree; its leaves' values do not matter.
    probability : ndarray, shape (nodes, 3)
        Of slow, average and fast in each node.
    """

    domain: Domain
    encoder: Encoder
    bounds: tuple[float, float]
    trees: Trees
    probability: Floats

    @classmethod
    def fit(
        cls, table: Table, *, bounds: Sequence[float] | None = None, depth: int = 3, seed: int = 0
    ) -> SpeedClassifier:
        """Learn from a table.

        Parameters
        ----------
        table : Table
            All values positive.
        bounds : (float, float), optional
            In the objective's unit, ascending; by default the quartiles, so that a quarter of the runs is slow and a
            quarter fast. A value on a bound is average.
        depth : int
            Largest depth of the tree.
        seed : int

        Raises
        ------
        UserError
            Too few rows, or bounds that do not ascend.
        """
        from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415  slow import

        if len(table) < 2 or np.any(table.values <= 0):
            raise UserError(f"table {table.name} has too few rows or values that are not positive", "measure more")
        low, high = (float(b) for b in (np.quantile(table.values, (0.25, 0.75)) if bounds is None else bounds))
        if low > high:
            raise UserError(f"the bounds {low:g} and {high:g} of slow, average and fast do not ascend", "swap them")
        domain = Domain.of(table)
        data = Data.of(domain, table)
        encoder = make_encoder(domain, data.points)
        label = _label(table.values, low, high, maximize=domain.objective.maximize)
        tree = DecisionTreeClassifier(max_depth=depth, random_state=seed)
        tree.fit(at_least_one(encoder.encode(data.points)), label)
        shares = np.zeros((tree.tree_.node_count, len(LABELS)))
        shares[:, tree.classes_] = tree.tree_.value[:, 0, :] / tree.tree_.value[:, 0, :].sum(axis=1, keepdims=True)
        return cls(domain, encoder, (low, high), Trees.from_sklearn([tree]), shares)

    def probabilities(self, frame: Frame) -> Floats:
        """Probability of slow, average and fast, shape ``(n, 3)``."""
        points = self.domain.folded(self.domain.points(frame))
        leaves = self.trees.walk(at_least_one(self.encoder.encode(points)))[:, 0]
        result: Floats = self.probability[leaves]
        return result

    def classify(self, frame: Frame) -> list[str]:
        """The likeliest class of each row."""
        return [LABELS[int(place)] for place in np.argmax(self.probabilities(frame), axis=1)]

    def rules(self) -> list[str]:
        """One sentence a leaf, with the probability of each class."""
        sentences = []
        for leaf, path in tree_rules(self.trees):
            shares = self.probability[leaf]
            when = conditions(self.domain, self.encoder, path)
            each = ", ".join(f"{name} {share:.0%}" for name, share in zip(LABELS, shares, strict=True))
            likeliest = LABELS[int(np.argmax(shares))]
            sentences.append(
                f"{'if ' + when if when else 'always'}: {likeliest} ({each}; {self.trees.count[leaf]} rows)"
            )
        return sentences


def _label(values: Floats, low: float, high: float, *, maximize: bool) -> NDArray[np.int64]:
    place = np.where(values < low, 0, np.where(values > high, 2, 1))
    return place if maximize else 2 - place
