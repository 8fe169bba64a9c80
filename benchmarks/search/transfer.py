"""A prior for one context of a table from all its others: what a site that measured other workloads would know."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.space import Levels, Space
from stripewise.errors import UserError
from stripewise.models.landscape import Landscape, list_landscapes
from stripewise.models.table import Table
from stripewise.search.base import PriorMean
from stripewise.search.belief.kernel import features

_TREES = 64


def prior_of_others(table: Table) -> Callable[[Landscape], PriorMean]:
    """Make priors that never see the context they are for.

    Trees learn the logarithm of performance, relative to its context's median (a prior needs no level), from the
    parameters and the context's columns.

    Parameters
    ----------
    table : Table
        With at least two contexts.

    Returns
    -------
    callable
        From a landscape of the table to its :class:`~stripewise.search.base.PriorMean`.

    Raises
    ------
    UserError
        If other contexts to learn from are missing, or values that have no logarithm.
    """
    every = list_landscapes(table)
    if len(every) < 2:
        raise UserError(f"table {table.name} has one context only", "a prior is learned from other contexts")
    if np.any(table.values <= 0):
        raise UserError(f"table {table.name} has values that are not positive", "a prior is learned from logarithms")
    sign = 1.0 if table.objective.maximize else -1.0

    def prior(landscape: Landscape) -> PriorMean:
        others = [other for other in every if dict(other.context) != dict(landscape.context)]
        x = np.concatenate([_columns(table, other, other.space, other.space.points) for other in others])
        y = np.concatenate([sign * np.log(other.truth / other.median) for other in others])
        trees = ExtraTreesRegressor(_TREES, min_samples_leaf=2, random_state=0).fit(x, y)

        def mean(space: Space, levels: Levels) -> NDArray[np.float64]:
            return np.asarray(trees.predict(_columns(table, landscape, space, levels)), dtype=np.float64)

        return mean

    return prior


def _columns(table: Table, landscape: Landscape, space: Space, levels: Levels) -> NDArray[np.float64]:
    """Features of configurations, with those of the context in front, shape ``(n, f)``."""
    context = [place for c in table.schema.context for place in _place(c.values, c.kind, landscape.context[c.name])]
    return np.concatenate([np.tile(context, (len(levels), 1)), features(space, levels)], axis=1)


def _place(values: list[Value], kind: str, value: Value) -> list[float]:
    """The rank of an ordered value, or one number a category."""
    if kind == "ordinal":
        return [float(values.index(value))]
    return [float(value == known) for known in values]
