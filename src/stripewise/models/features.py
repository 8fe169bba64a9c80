"""What models see of a point: logarithms, indicators, and the ratios that physics suggests, found by role.

Features are data, not code, so that they can be stored with a model and carried out by the runtime to the very same
bits: each is one column as it is, an indicator of one category, or a sum of binary logarithms of columns in a fixed
order.
Which of them are kept is decided by the points of the training alone, never by their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from stripewise.catalogue.parameter import logarithms
from stripewise.models.artifact.program import log2
from stripewise.models.domain import Domain, Floats
from stripewise.models.tunables import bytes_of

Matrix = NDArray[np.float32]

_TINY = float(np.finfo(np.float64).tiny)
_WIDE = 8.0
"""A linear axis whose largest value is so many times its smallest is looked at on a logarithmic one."""


@dataclass(frozen=True)
class Feature:
    """One column of a model's input matrix.

    Attributes
    ----------
    name : str
        For people.
    kind : {"value", "is", "log2"}
        ``value``: the number of column ``plus[0]``. ``is``: 1 where column ``plus[0]`` is the category at place ``of``
        (of an ordered column whose first value is 0: where it is 0), else 0. ``log2``: ``constant``, plus log2 of each
        column of ``plus``, minus log2 of each of ``minus``, in this order.
    plus, minus : tuple of int
        Columns, by place among the domain's.
    of : int
        See ``is``.
    constant : float
        See ``log2``; it brings sizes to bytes.
    least : float
        See ``log2``: smaller numbers count as this one. Files of earlier versions lack it.
    """

    name: str
    kind: Literal["value", "is", "log2"]
    plus: tuple[int, ...]
    minus: tuple[int, ...] = ()
    of: int = 0
    constant: float = 0.0
    least: float = _TINY


@dataclass(frozen=True)
class Encoder:
    """Points to features, rounded to float32."""

    features: tuple[Feature, ...]

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [feature.name for feature in self.features]

    def encode(self, points: Floats) -> Matrix:
        """Compute the features of (folded) points, shape ``(n, f)``, float32.

        A column that is not positive has no logarithm; such points count as :attr:`Feature.least`.
        """
        logs: dict[tuple[int, float], Floats] = {}
        result = np.empty((len(points), len(self.features)), dtype=np.float32)
        for place, feature in enumerate(self.features):
            if feature.kind == "value":
                result[:, place] = points[:, feature.plus[0]]
            elif feature.kind == "is":
                result[:, place] = points[:, feature.plus[0]] == feature.of
            else:
                total = np.full(len(points), feature.constant)
                for column in (*feature.plus, *feature.minus):
                    if (column, feature.least) not in logs:
                        logs[column, feature.least] = log2(np.maximum(points[:, column], feature.least))
                for column in feature.plus:
                    total = total + logs[column, feature.least]
                for column in feature.minus:
                    total = total - logs[column, feature.least]
                result[:, place] = total
        return result

    def as_json(self) -> list[dict[str, Any]]:
        """Give everything as JSON's types; :meth:`from_json` reads it."""
        return [asdict(feature) for feature in self.features]

    @classmethod
    def from_json(cls, document: Sequence[Mapping[str, Any]], domain: Domain) -> Encoder:
        """Read what :meth:`as_json` gave of a model with this domain.

        Raises
        ------
        ValueError
            If it is no features, or not of this domain's columns; pydantic's ValidationError is such an error.
        """
        features = TypeAdapter(tuple[Feature, ...]).validate_python(document)
        columns = domain.columns
        for feature in features:
            used = (*feature.plus, *feature.minus)
            if not used or not set(used) <= set(range(len(columns))) or (feature.kind != "log2" and not feature.plus):
                raise ValueError(f"the feature {feature.name} has no such columns")
            if feature.kind == "is" and not 0 <= feature.of < len(columns[feature.plus[0]].values):
                raise ValueError(f"the feature {feature.name} has no such category")
            if not feature.least > 0:
                raise ValueError(f"the feature {feature.name} has no logarithm")
        return cls(features)


# Ratios by role, each with the question it answers. "processes" and "processes_per_node" are derived where only the
# other and "nodes" are there.
_RATIOS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("processes", ("nodes", "processes_per_node"), ()),
    ("processes per node", ("processes",), ("nodes",)),
    ("bytes per process", ("file_size",), ("processes",)),
    ("bytes per stripe", ("file_size",), ("stripe_count",)),
    ("ranks per stripe", ("processes",), ("stripe_count",)),
    ("nodes per stripe", ("nodes",), ("stripe_count",)),
    ("request to stripe size", ("transfer_size",), ("stripe_size",)),
    ("piece to stripe size", ("piece_size",), ("stripe_size",)),
    ("stripes in the file", ("file_size",), ("stripe_size",)),
    ("rounds of stripes", ("file_size",), ("stripe_size", "stripe_count")),
    ("requests per process", ("file_size",), ("processes", "transfer_size")),
    ("bytes in one call of all", ("processes", "transfer_size"), ()),
    ("pieces per request", ("transfer_size",), ("piece_size",)),
    ("ranks per aggregator", ("processes",), ("aggregators",)),
    ("aggregators per node", ("aggregators",), ("nodes",)),
    ("aggregators per stripe", ("aggregators",), ("stripe_count",)),
    ("bytes per aggregator", ("file_size",), ("aggregators",)),
    ("collective buffers needed", ("processes", "transfer_size"), ("aggregators", "collective_buffer_size")),
    ("collective buffers in the file", ("file_size",), ("aggregators", "collective_buffer_size")),
    ("collective buffer to stripe size", ("collective_buffer_size",), ("stripe_size",)),
    ("pieces per sieving buffer", ("sieving_buffer_size",), ("piece_size",)),
    ("request to sieving buffer", ("transfer_size",), ("sieving_buffer_size",)),
)


def at_least_one(x: Matrix) -> Matrix:
    """Give a matrix a column of zeros if it has none: learners want one, and a table may lack any variation."""
    return x if x.shape[1] else np.zeros((len(x), 1), dtype=np.float32)


def make_encoder(domain: Domain, points: Floats) -> Encoder:
    """Choose the features for a domain.

    Parameters
    ----------
    points : ndarray, shape (n, c)
        Folded points of the training. What never varies among them, or says what another feature says, is left out.
    """
    features: list[Feature] = []
    for index, column in enumerate(domain.columns):
        numbers = np.unique(points[:, index])
        if len(numbers) < 2:
            continue
        if column.kind == "categorical":
            places = numbers.astype(np.int64)
            for place in places[1:] if len(places) == 2 else places:
                features.append(Feature(f"{column.name} is {column.values[place]}", "is", (index,), of=int(place)))
        elif numbers[0] == 0 and column.scale == "log2" and len(numbers) > 2:
            # 0 stands for "unset": a setting of its own, which lies below the others where sizes are compared.
            features.append(Feature(f"{column.name} is 0", "is", (index,), of=0))
            below = float(2.0 ** logarithms(numbers)[0])
            features.append(Feature(f"log2 {column.name}", "log2", (index,), least=below))
        elif numbers[0] > 0 and (column.scale == "log2" or numbers[-1] >= _WIDE * numbers[0]):
            features.append(Feature(f"log2 {column.name}", "log2", (index,)))
        else:
            features.append(Feature(column.name, "value", (index,)))
    return Encoder((*features, *_ratios(domain, points, features)))


def _ratios(domain: Domain, points: Floats, known: Sequence[Feature]) -> list[Feature]:
    columns = _roles(domain, points)
    kept: list[Feature] = []
    have = Encoder(tuple(known)).encode(points).astype(np.float64)
    for name, above, below in _RATIOS:
        plus, minus = _resolve(above, columns), _resolve(below, columns)
        if plus is None or minus is None:
            continue
        up, down = [*plus[0], *minus[1]], [*plus[1], *minus[0]]
        for column in list(up):
            if column in down:
                up.remove(column)
                down.remove(column)
        if len(up) + len(down) < 2:
            continue
        constant = sum(_to_bytes(domain, c) for c in up) - sum(_to_bytes(domain, c) for c in down)
        feature = Feature(f"log2 {name}", "log2", tuple(up), tuple(down), constant=constant)
        column_values = Encoder((feature,)).encode(points).astype(np.float64)[:, 0]
        if np.ptp(column_values) < 1e-6 or _repeats_another(column_values, have):
            continue
        kept.append(feature)
        have = np.column_stack([have, column_values])
    return kept


def _roles(domain: Domain, points: Floats) -> dict[str, tuple[list[int], list[int]]]:
    """Columns above and below the line that make up each role's quantity; only positive numbers have one."""
    found: dict[str, tuple[list[int], list[int]]] = {}
    for index, column in enumerate(domain.columns):
        if column.kind == "ordinal" and column.role != "other" and np.all(points[:, index] > 0):
            found.setdefault(column.role, ([index], []))
    if "nodes" in found:
        nodes = found["nodes"][0]
        if "processes" not in found and "processes_per_node" in found:
            found["processes"] = ([*nodes, *found["processes_per_node"][0]], [])
        elif "processes" in found and "processes_per_node" not in found:
            found["processes_per_node"] = (found["processes"][0], nodes)
    return found


def _resolve(
    roles: Sequence[str], columns: Mapping[str, tuple[list[int], list[int]]]
) -> tuple[list[int], list[int]] | None:
    above: list[int] = []
    below: list[int] = []
    for role in roles:
        if role not in columns:
            return None
        above += columns[role][0]
        below += columns[role][1]
    return above, below


def _to_bytes(domain: Domain, index: int) -> float:
    """log2 of the bytes in a column's unit; 0 for anything but a size."""
    return float(log2(bytes_of(domain.columns[index])))


def _repeats_another(column: Floats, have: Floats) -> bool:
    """Whether a feature is, but for shift and factor, one that is there already."""
    centred = column - column.mean()
    others = have - have.mean(axis=0)
    scale = np.linalg.norm(others, axis=0) * np.linalg.norm(centred)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = np.abs(others.T @ centred) / scale
    return bool(np.any(correlation > 1 - 1e-9))
