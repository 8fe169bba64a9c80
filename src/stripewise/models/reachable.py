"""What a prescriber could score that knew every true value: measured medians are luck in part, the best one most."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stripewise.models.landscape import Landscape

Floats = NDArray[np.float64]

_LEAST_REPEATS = 8
_MEDIAN = np.pi / 2
"""Variance of the median of normal values, over that of their mean."""


def logarithms(landscape: Landscape) -> Floats:
    """Give ln(performance) of each point in each repeat, shape ``(points, repeats)``; NaN where it was not measured.

    What folds to one point in one repeat is averaged. Larger is better.
    """
    table = landscape.table
    repeats, repeat = np.unique(table.repeats, return_inverse=True)
    shape = (len(landscape.truth), len(repeats))
    place = landscape.groups * shape[1] + repeat.reshape(-1)
    count = np.bincount(place, minlength=shape[0] * shape[1])
    sign = 1.0 if table.objective.maximize else -1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.bincount(place, sign * np.log(table.values), minlength=shape[0] * shape[1])
        found: Floats = (total / count).reshape(shape)
    return found


def reachable(
    workloads: Sequence[Floats], seed: int = 0, draws: int = 50, least: int = _LEAST_REPEATS
) -> Floats | None:
    """Score choices that are the best in truth, on made-up runs that scatter as the measured ones did.

    Parameters
    ----------
    workloads : sequence of ndarray, shape (points, repeats)
        See :func:`logarithms`.
    seed : int
    draws : int
    least : int
        Repeats that every workload needs; with fewer than eight the scores are rough.

    Returns
    -------
    ndarray, shape (draws, workloads), or None
        Achieved over best; None if some workload has too few repeats, or values that are not positive.

    Notes
    -----
    True values are the medians, drawn together by as much as noise alone spreads them (empirical Bayes). Repeats are
    drawn whole: what disturbed one disturbed all configurations. The judge is that of prescriptions: the best is picked
    in half of the repeats and scored in the others.
    """
    if any(logs.shape[1] < least or not np.isfinite(np.nanmin(logs)) for logs in workloads):
        return None
    rng = np.random.default_rng(seed)
    ratios = np.ones((draws, len(workloads)))
    for number, logs in enumerate(workloads):
        medians = np.nanmedian(logs, axis=1)
        if len(medians) < 2:
            continue
        residuals = logs - medians[:, None]
        middle = float(np.mean(medians))
        spread = float(np.var(medians, ddof=1))
        luck = _MEDIAN * float(np.nanmean(residuals**2)) / logs.shape[1]
        truth = middle + np.sqrt(max(0.0, 1.0 - luck / spread) if spread > 0 else 0.0) * (medians - middle)
        choice = int(np.argmax(truth))
        for draw in range(draws):
            made = truth[:, None] + residuals[:, rng.integers(0, logs.shape[1], logs.shape[1])]
            ratios[draw, number] = _judged(made, choice)
    return ratios


def _judged(logs: Floats, choice: int) -> float:
    picked, scored = _medians(logs[:, 1::2]), _medians(logs[:, ::2])
    both = np.isfinite(picked) & np.isfinite(scored)
    own = _medians(logs[choice : choice + 1])[0]
    if not both.any() or not np.isfinite(own):
        return 1.0
    best = int(np.argmax(np.where(both, picked, -np.inf)))
    return float(min(1.0, np.exp(own - scored[best])))


def _medians(logs: Floats) -> Floats:
    """Median of each row, NaN for rows without any value."""
    whole = np.isfinite(logs).all(axis=1)
    found = np.full(len(logs), np.nan)
    found[whole] = np.median(logs[whole], axis=1)
    for row in np.flatnonzero(~whole):
        values = logs[row][np.isfinite(logs[row])]
        if len(values):
            found[row] = float(np.median(values))
    return found
