"""Rules for slow, average and fast operations: a small decision tree, as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stripewise.diagnose.causes.timings import Timing, patterns

SPEEDS = ("slow", "average", "fast")
_DEPTH = 3
_FEW = 40


@dataclass(frozen=True)
class SpeedRules:
    """A tree over what is known of an operation before it is made.

    Attributes
    ----------
    edges : (float, float)
        MiB/s between slow and average, and between average and fast.
    text : str
        The rules; a leaf has the class that dominates and the part of each class.
    accuracy : float
        Balanced, under five-fold cross-validation; a third is chance.
    """

    edges: tuple[float, float]
    text: str
    accuracy: float


def speed_rules(timings: Sequence[Timing], edges: tuple[float, float] | None = None) -> SpeedRules | None:
    """Learn the rules (CART).

    Parameters
    ----------
    timings : sequence of Timing
        In order of time.
    edges : (float, float), optional
        MiB/s; by default the quartiles of what was observed.

    Returns
    -------
    SpeedRules or None
        None for fewer than 40 operations, or where all belong to one class.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_score  # noqa: PLC0415  slow to load
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415

    if len(timings) < _FEW:
        return None
    bandwidth = np.array([timing.bandwidth for timing in timings])
    low, high = edges or (float(np.quantile(bandwidth, 0.25)), float(np.quantile(bandwidth, 0.75)))
    speed = np.digitize(bandwidth, [low, high], right=True)
    ways = patterns(timings)
    names = ["size", "write", *(f"pattern={way}" for way in sorted(set(ways)))]
    table = np.array(
        [
            [t.size, t.operation == "write", *(way == name.partition("=")[2] for name in names[2:])]
            for t, way in zip(timings, ways, strict=True)
        ],
        float,
    )
    counts = np.bincount(speed, minlength=3)
    if (counts > 0).sum() < 2:
        return None
    leaf = max(5, len(timings) // 50)
    tree = DecisionTreeClassifier(max_depth=_DEPTH, min_samples_leaf=leaf, class_weight="balanced", random_state=0)
    folds = min(5, int(counts[counts > 0].min()))
    accuracy = float("nan")
    if folds >= 2:
        shuffled = StratifiedKFold(folds, shuffle=True, random_state=0)
        accuracy = float(np.mean(cross_val_score(tree, table, speed, cv=shuffled, scoring="balanced_accuracy")))
    tree.fit(table, speed)
    return SpeedRules((low, high), "\n".join(_lines(tree, names, counts)), accuracy)


def _lines(tree: object, names: Sequence[str], counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    inner = tree.tree_  # type: ignore[attr-defined]
    classes = tree.classes_  # type: ignore[attr-defined]

    def shares(node: int) -> NDArray[np.float64]:
        # The tree weighs classes alike: the parts shown are of operations, as they were.
        parts = inner.value[node][0] * np.array([counts[c] for c in classes], float)
        return np.asarray(parts / parts.sum(), float)

    def verdicts(node: int) -> set[int]:
        if inner.children_left[node] < 0:
            return {int(np.argmax(shares(node)))}
        return verdicts(inner.children_left[node]) | verdicts(inner.children_right[node])

    def walk(node: int, depth: int) -> list[str]:
        indent = "  " * depth
        # A split whose sides say the same tells the reader nothing.
        if len(verdicts(node)) == 1:
            parts = shares(node)
            said = ", ".join(f"{SPEEDS[c]} {part:.0%}" for c, part in zip(classes, parts, strict=True) if part >= 0.005)
            return [f"{indent}{SPEEDS[int(classes[int(np.argmax(parts))])]} ({said})"]
        name, edge = names[inner.feature[node]], inner.threshold[node]
        yes, no = (f"{name} <= {edge:,.0f}", f"{name} > {edge:,.0f}") if name == "size" else (f"not {name}", name)
        return [
            f"{indent}{yes}:", *walk(inner.children_left[node], depth + 1),
            f"{indent}{no}:", *walk(inner.children_right[node], depth + 1),
        ]  # fmt: skip

    return walk(0, 0)
