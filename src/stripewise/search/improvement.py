"""What another run promises, given a normal belief about its cost: the classic acquisition functions.

All give large numbers to promising configurations. Costs are logarithmic, so an expected improvement of 0.05 means
about 5% off the best.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import log_ndtr, ndtr

from stripewise.search.costs import Floats

Acquisition = Literal["ei", "pi", "lcb"]


def expected_improvement(mean: Floats, sd: Floats, best: float) -> Floats:
    """Mean of ``max(0, best - cost)`` (Jones, Schonlau, Welch, J. Global Optim. 13, 1998), shape ``(n,)``."""
    sd = np.maximum(sd, 1e-12)
    z = (best - mean) / sd
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.asarray(sd * (z * ndtr(z) + density), dtype=np.float64)


def acquire(rule: Acquisition, mean: Floats, sd: Floats, best: float, *, margin: float, width: float) -> Floats:
    """Score configurations, larger is more promising.

    Parameters
    ----------
    rule : {"ei", "pi", "lcb"}
        Expected improvement, (the logarithm of the) probability of improvement, or lower confidence bound.
    mean, sd : ndarray, shape (n,)
        Of the cost.
    best : float
        Cost of the incumbent.
    margin : float
        ``ei``, ``pi``: improvements below it do not count.
    width : float
        ``lcb``: standard deviations below the mean.
    """
    if rule == "ei":
        return expected_improvement(mean, sd, best - margin)
    if rule == "pi":
        return np.asarray(log_ndtr((best - margin - mean) / np.maximum(sd, 1e-12)), dtype=np.float64)
    return width * sd - mean
