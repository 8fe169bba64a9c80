"""Trees as sentences: thresholds in the units of the table, one condition for what several splits say of a feature."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from stripewise.models.carriers import bytes_of
from stripewise.models.domain import Domain
from stripewise.models.features import Encoder, Feature
from stripewise.models.trees.ensemble import Trees
from stripewise.sizes import format_size

Step = tuple[int, float, bool]
"""Feature, threshold, and whether the walk went left (feature at most threshold)."""


def tree_rules(trees: Trees) -> list[tuple[int, list[Step]]]:
    """List the leaves of the first tree, from left to right, each with the steps that lead to it."""
    found: list[tuple[int, list[Step]]] = []
    waiting: list[tuple[int, list[Step]]] = [(int(trees.roots[0]), [])]
    while waiting:
        node, path = waiting.pop()
        feature = int(trees.feature[node])
        if feature < 0:
            found.append((node, path))
            continue
        threshold = float(trees.threshold[node])
        waiting.append((int(trees.right[node]), [*path, (feature, threshold, False)]))
        waiting.append((int(trees.left[node]), [*path, (feature, threshold, True)]))
    return found


def conditions(domain: Domain, encoder: Encoder, path: Sequence[Step]) -> str:
    """Write the steps of a walk as one condition; empty for a tree of one leaf."""
    bounds: dict[int, tuple[float, float]] = {}
    for feature, threshold, left in path:
        low, high = bounds.get(feature, (-np.inf, np.inf))
        bounds[feature] = (low, min(high, threshold)) if left else (max(low, threshold), high)
    return " and ".join(_condition(domain, encoder.features[f], *bound) for f, bound in bounds.items())


def _condition(domain: Domain, feature: Feature, low: float, high: float) -> str:
    if feature.kind == "is":
        column = domain.columns[feature.plus[0]]
        return f"{column.name} {'=' if np.isfinite(low) else '!='} {column.values[feature.of]}"
    name = feature.name.removeprefix("log2 ")
    if not np.isfinite(low):
        return f"{name} <= {_number(domain, feature, high)}"
    if not np.isfinite(high):
        return f"{name} > {_number(domain, feature, low)}"
    return f"{_number(domain, feature, low)} < {name} <= {_number(domain, feature, high)}"


def _number(domain: Domain, feature: Feature, threshold: float) -> str:
    number = 2.0**threshold if feature.kind == "log2" else threshold
    if _counts(domain, feature):
        return str(_whole(feature, threshold, number))
    sizes = sum(_is_size(domain, c) for c in feature.plus) - sum(_is_size(domain, c) for c in feature.minus)
    if sizes != 1:
        return f"{number:.4g}"
    if len(feature.plus) + len(feature.minus) > 1:
        return format_size(number)  # ratios are in bytes
    column = domain.columns[feature.plus[0]]
    return format_size(number * bytes_of(column)) if column.unit else f"{number:.4g}"


def _counts(domain: Domain, feature: Feature) -> bool:
    """Whether a feature is one column of whole numbers that are not sizes, as stripes or nodes."""
    if len(feature.plus) != 1 or feature.minus or feature.constant or _is_size(domain, feature.plus[0]):
        return False
    values = domain.columns[feature.plus[0]].values
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _whole(feature: Feature, threshold: float, number: float) -> int:
    """The largest whole number that does not exceed a threshold: it parts the same whole numbers, and can be read."""
    low = math.floor(number)
    # A whole number's logarithm and the power of two that leads back need not meet to the last bit.
    above = np.log2(low + 1.0) if feature.kind == "log2" else low + 1.0
    return low + 1 if np.float32(above) <= np.float32(threshold) else low


def _is_size(domain: Domain, index: int) -> bool:
    return domain.columns[index].role.endswith("_size")
