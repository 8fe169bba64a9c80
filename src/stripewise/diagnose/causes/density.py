"""Clusters of the times of repeated operations: each is at least one performance factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_MOST = 5
_SAMPLE = 20_000
_FEW = 20
_GRID = 512
_NARROW = 0.02


@dataclass(frozen=True)
class Cluster:
    """Operations of one size that took about as long.

    Attributes
    ----------
    seconds : float
        The typical time.
    spread : float
        Standard deviation of log(time).
    share : float
        Of the operations of that size.
    peak : bool
        Whether the density has a maximum there too; without one, the mixture only follows a tail.
    """

    seconds: float
    spread: float
    share: float
    peak: bool


def clusters(seconds: Sequence[float]) -> list[Cluster]:
    """Find clusters by a Gaussian mixture of log(time), whose number the Bayesian information criterion chooses.

    A kernel density estimate is made beside it: a cluster that is not a maximum of the density is marked.

    Parameters
    ----------
    seconds : sequence of float
        Of repeated operations of one size; fewer than 20 give one cluster.
    """
    from sklearn.mixture import GaussianMixture  # noqa: PLC0415  slow to load

    logs = np.log(np.asarray(seconds, float))
    if len(logs) > _SAMPLE:
        logs = np.random.default_rng(0).choice(logs, _SAMPLE, replace=False)
    if len(logs) < _FEW or float(np.ptp(logs)) < _NARROW:
        return [Cluster(float(np.exp(np.median(logs))), float(np.std(logs)), 1.0, True)]
    column = logs.reshape(-1, 1)
    fits = [
        GaussianMixture(number, random_state=0, n_init=2, reg_covar=1e-4).fit(column)
        for number in range(1, _MOST + 1)
        if len(logs) >= _FEW * number // 2
    ]
    best = min(fits, key=lambda mixture: mixture.bic(column))
    peaks = density_peaks(logs)
    found = []
    for mean, variance, weight in zip(best.means_[:, 0], best.covariances_[:, 0, 0], best.weights_, strict=True):
        spread = float(np.sqrt(variance))
        near = bool(len(peaks)) and float(np.min(np.abs(peaks - mean))) <= max(2 * spread, 0.1)
        found.append(Cluster(float(np.exp(mean)), spread, float(weight), near))
    return sorted(found, key=lambda cluster: cluster.seconds)


def density_peaks(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places of the maxima of the density of log(time), those below a hundredth of the greatest left out."""
    if len(logs) < 3 or float(np.ptp(logs)) < _NARROW:
        return np.array([float(np.median(logs))])
    grid = np.linspace(logs.min() - 0.5, logs.max() + 0.5, _GRID)
    # Silverman's width smears modes that are orders of magnitude apart: half of it keeps them.
    from scipy.signal import find_peaks  # noqa: PLC0415  slow to load
    from scipy.stats import gaussian_kde  # noqa: PLC0415  slow to load

    density = gaussian_kde(logs, bw_method=lambda kde: 0.5 * kde.silverman_factor())(grid)
    places, _ = find_peaks(density, height=0.01 * float(density.max()))
    found: NDArray[np.float64] = grid[places]
    return found
