"""How much of a model's error all configurations of a workload share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stripewise.model.domain import Floats

_MOST = 0.95


def kinship(errors: Floats, workloads: NDArray[np.int64], noise: Floats | float = 0.0) -> float:
    """Estimate the share from errors on what was held out: the intraclass correlation about zero.

    Which configuration is best depends on differences within a workload, in which the shared part cancels out.

    Parameters
    ----------
    errors : ndarray, shape (n,)
        Of ln(value).
    workloads : ndarray of int, shape (n,)
    noise : ndarray, shape (n,), or float
        Variance of the measurements themselves, which nothing shares and no model is to blame for.

    Returns
    -------
    float
        0 to 0.95; 0 where no workload has two configurations.
    """
    _, group, count = np.unique(workloads, return_inverse=True, return_counts=True)
    freedom = int(np.sum(count - 1))
    if freedom < 1:
        return 0.0
    mean = np.bincount(group, errors) / count
    own = float(np.mean(noise))
    within = float(np.sum((errors - mean[group]) ** 2)) / freedom - own
    whole = float(np.mean(errors**2)) - own
    if whole <= 0:
        return 0.0
    return float(np.clip(1.0 - within / whole, 0.0, _MOST))
