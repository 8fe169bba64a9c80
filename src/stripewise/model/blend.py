"""How the members of a blend are weighed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stripewise.model.domain import Floats


def weights(predictions: Floats, target: Floats, trust: Floats, groups: NDArray[np.int64] | None = None) -> Floats:
    """Weights of members, not negative and adding up to 1, with the least squared error on held-out cells.

    Parameters
    ----------
    predictions : ndarray, shape (n, m)
        Of members that did not see the cell.
    target : ndarray, shape (n,)
    trust : ndarray, shape (n,)
        Weight of each cell.
    groups : ndarray of int, shape (n,), optional
        Workloads. If given, each counts alike, however many cells it has: what is learned of blending is for other
        workloads. And errors count twice: as they are, and relative to the mean error of their workload (which
        configuration is best does not depend on the level); either in proportion to the best single member's.

    Returns
    -------
    ndarray, shape (m,)
    """
    from scipy.optimize import nnls  # noqa: PLC0415  slow import

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
    matrix = np.concatenate(scaled)
    # min |E w|^2 subject to w >= 0 and sum w = 1: the sum is held by a row that outweighs all others. A little of the
    # identity keeps the weights of members that agree from being a matter of chance.
    heavy = 1e3 * np.sqrt(np.sum(matrix**2) / members)
    ridge = 0.1 * np.eye(members)
    stacked = np.concatenate([matrix, ridge, np.full((1, members), heavy)])
    right = np.concatenate([np.zeros(len(matrix)), np.zeros(members), [heavy]])
    found: Floats = nnls(stacked, right, maxiter=100 * members)[0]
    whole = float(found.sum())
    return found / whole if whole > 0 else np.full(members, 1.0 / members)
