"""How much each member of ``auto`` counts, and whether one more helps, by the errors on held-out cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stripewise.models.domain import Floats

_ROUNDS = 15
_NEAR = 0.1
"""Errors below this share of the least mean error are not told apart."""
_FOLDS = 5
_LEAST_CELLS = 20


def blend_weights(
    predictions: Floats, target: Floats, trust: Floats, groups: NDArray[np.int64] | None = None
) -> Floats:
    """Weights of members, not negative and adding up to 1, with the least error on held-out cells.

    For workloads that were measured, squared and absolute errors count alike, either in proportion to the best single
    member's: no single member has a smaller sum of both here. (Squares alone leave the choice to the few cells
    that no member can predict.)

    Parameters
    ----------
    predictions : ndarray, shape (n, m)
        Of members that did not see the cell.
    target : ndarray, shape (n,)
    trust : ndarray, shape (n,)
        Weight of each cell.
    groups : ndarray of int, shape (n,), optional
        Workloads. If given, each counts alike, however many cells it has: the weights are meant for
        other workloads. And errors count twice: as they are, and relative to the mean error of their workload (which
        configuration is best does not depend on the level); either in proportion to the best single member's.

    Returns
    -------
    ndarray, shape (m,)
    """
    members = predictions.shape[1]
    if members == 1 or len(target) < 2:
        return np.full(members, 1.0 / members)
    errors = predictions - target[:, None]
    if groups is not None:
        trust = trust / np.bincount(groups)[groups]
    root = np.sqrt(trust)[:, None]
    blocks = [errors * root]
    if groups is not None:
        count = np.bincount(groups, trust)
        middle = np.stack([np.bincount(groups, trust * e) / np.where(count > 0, count, 1.0) for e in errors.T], axis=1)
        blocks.append((errors - middle[groups]) * root)
    scaled = []
    for block in blocks:
        least = float(np.sqrt(np.min(np.sum(block**2, axis=0))))
        scaled.append(block / (least or 1.0))
    weights = _least_squares(np.concatenate(scaled))
    if groups is None:
        square, absolute = _least_errors(errors, trust)
        share = trust / np.sum(trust)
        for _ in range(_ROUNDS if square > 0 else 0):
            # Absolute errors as squares, by the weights of the round before (iteratively reweighted least squares).
            far = np.maximum(np.abs(errors @ weights), _NEAR * absolute)
            importance = share * (1.0 / square + 0.5 / (absolute * far))
            weights = _least_squares(errors * np.sqrt(importance)[:, None])
    return weights


def helps(predictions: Floats, target: Floats, trust: Floats, candidate: int) -> bool:
    """Whether a blend with one more member predicts cells better that its weights were not chosen by.

    The weights are chosen on four fifths of the cells, with the candidate and without it, and judged on the others by
    the errors that :func:`blend_weights` minimises. The mean gain has to exceed its standard error: a member that
    helps on some tables only would otherwise cost the others, by the chance in the choice.

    Parameters
    ----------
    predictions, target, trust
        See :func:`blend_weights`.
    candidate : int
        Place of the member.
    """
    if len(target) < _LEAST_CELLS:
        return False
    others = np.delete(predictions, candidate, axis=1)
    fold = np.random.default_rng(0).permutation(len(target)) % _FOLDS
    errors = np.empty((len(target), 2))
    for k in range(_FOLDS):
        test, train = fold == k, fold != k
        for place, some in enumerate((others, predictions)):
            errors[test, place] = some[test] @ blend_weights(some[train], target[train], trust[train]) - target[test]
    square, absolute = _least_errors(predictions - target[:, None], trust)
    if square <= 0 or absolute <= 0:
        return False
    loss = errors**2 / square + np.abs(errors) / absolute
    gain = loss[:, 0] - loss[:, 1]
    return bool(np.average(gain, weights=trust) > np.std(gain, ddof=1) / np.sqrt(len(gain)))


def _least_errors(errors: Floats, trust: Floats) -> tuple[float, float]:
    """Mean squared and mean absolute error of the member that has the least, each."""
    share = trust / np.sum(trust)
    return float(np.min(share @ errors**2)), float(np.min(share @ np.abs(errors)))


def _least_squares(matrix: Floats) -> Floats:
    """Weights ``w``, not negative and adding up to 1, with the least ``|E w|^2``, shape ``(m,)``."""
    from scipy.optimize import nnls  # noqa: PLC0415  slow import

    members = matrix.shape[1]
    # min |E w|^2 subject to w >= 0 and sum w = 1: the sum is held by a row that outweighs all others. A little of the
    # identity keeps the weights of members that agree from being a matter of chance.
    heavy = 1e3 * np.sqrt(np.sum(matrix**2) / members)
    ridge = 0.1 * np.eye(members)
    stacked = np.concatenate([matrix, ridge, np.full((1, members), heavy)])
    right = np.concatenate([np.zeros(len(matrix)), np.zeros(members), [heavy]])
    found: Floats = nnls(stacked, right, maxiter=100 * members)[0]
    whole = float(found.sum())
    return found / whole if whole > 0 else np.full(members, 1.0 / members)
