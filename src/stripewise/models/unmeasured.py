"""Categories that were never measured (another program, another API), predicted from those that were."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from stripewise.models.domain import NEW, Domain, Floats

_MOST_COMBINATIONS = 64
_TINY = 1e-12


def over_measured(
    domain: Domain,
    points: Floats,
    ask: Callable[[Floats], Floats],
    merge: Callable[[Floats, NDArray[np.int64]], Floats],
) -> Floats:
    """Ask about points; about one with a category that was never measured, with each measured one in its place.

    Parameters
    ----------
    domain : Domain
    points : ndarray, shape (n, c)
    ask : callable
        Points whose categories were all measured, shape ``(m, c)``, to answers, shape ``(k, m)``.
    merge : callable
        Answers with each measured category, shape ``(categories, k, m)``, and the number of each point's workload,
        shape ``(m,)``, to answers, shape ``(k, m)``.

    Returns
    -------
    ndarray, shape (k, n)
    """
    new = domain.is_new(points)
    if not new.any():
        return ask(points)
    measured = ask(points[~new])
    result = np.empty((len(measured), len(points)))
    result[:, ~new] = measured
    for rows, variants in _replaced(domain, points, np.flatnonzero(new)):
        workload = np.unique(points[rows, : domain.contexts], axis=0, return_inverse=True)[1].reshape(-1)
        result[:, rows] = merge(np.stack([ask(variant) for variant in variants]), workload)
    return result


def _replaced(
    domain: Domain, points: Floats, rows: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], list[Floats]]]:
    """Give rows that lack the same columns, with each combination of measured categories in these columns.

    Of many combinations 64 are drawn, always the same.
    """
    lacks, member = np.unique(points[rows, : domain.contexts] == NEW, axis=0, return_inverse=True)
    for number, columns in enumerate(lacks):
        alike = rows[member.reshape(-1) == number]
        places = np.flatnonzero(columns)
        combinations = list(itertools.product(*(domain.seen[place] for place in places)))
        if len(combinations) > _MOST_COMBINATIONS:
            drawn = np.random.default_rng(0).permutation(len(combinations))[:_MOST_COMBINATIONS]
            combinations = [combinations[place] for place in drawn]
        variants = []
        for combination in combinations:
            variant = points[alike].copy()
            variant[:, places] = combination
            variants.append(variant)
        yield alike, variants


def of_one_more(each: Floats, workload: NDArray[np.int64]) -> Floats:
    """Predict one more category from predictions with each measured one in its place.

    Parameters
    ----------
    each : ndarray, shape (categories, 3, n)
        Mean, deviation and shared deviation of ln(value); at least two categories.
    workload : ndarray of int, shape (n,)
        Number of each row's workload.

    Returns
    -------
    ndarray, shape (3, n)
    """
    mean, square = each[:, 0], each[:, 1:] ** 2
    rows = np.bincount(workload)
    level = np.stack([np.bincount(workload, weights=one) / rows for one in mean])[:, workload]
    more = (1.0 + 1.0 / len(each)) / (len(each) - 1)
    apart, common = mean - mean.mean(axis=0), level - level.mean(axis=0)
    # What follows the mean level of a workload's configurations cancels out of a gain.
    follows = np.maximum((apart * common).sum(axis=0), 0.0) ** 2 / np.maximum((common**2).sum(axis=0), _TINY)
    variance, shared = square.mean(axis=0)
    return np.stack(
        [
            mean.mean(axis=0),
            np.sqrt(variance + more * (apart**2).sum(axis=0)),
            np.sqrt(shared + more * follows),
        ]
    )
