"""Hyperparameters of a Gaussian process from observations: the most probable ones, by their posterior density."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf, dpotri

from stripewise.search.belief.costs import Floats
from stripewise.search.belief.gp import JITTER, GaussianProcess, Observations, mean_covariance
from stripewise.search.belief.kernel import Decay, Geometry, Hyperparameters, exponential, with_inactive
from stripewise.threads import one_thread

_BOX = 4.0
_ITERATIONS = 40
_NOT_POSITIVE_DEFINITE = 1e10


@dataclass(frozen=True)
class Hyperprior:
    """Normal priors of the hyperparameters on their unbounded scales: mean and standard deviation.

    Costs are logarithms, so amplitudes are natural: 0.7 is a factor of two. Without repeats, noise and residue look the
    same: the priors take little scatter for noise, and scatter beyond that of real machines for residue.
    """

    amplitude: tuple[float, float] = (float(np.log(0.7)), 0.5)
    noise: tuple[float, float] = (float(np.log(0.05)), 1.0)
    residue: tuple[float, float] = (float(np.log(0.02)), 1.5)
    relevance: tuple[float, float] = (-1.0, 1.0)
    length: tuple[float, float] = (float(np.log(0.4)), 0.4)

    def moments(self, geometry: Geometry) -> tuple[Floats, Floats]:
        """Give mean and standard deviation of :meth:`Hyperparameters.pack`, shape ``(3 + a + o,)`` each."""
        relevances = [self.relevance] * len(geometry.axes)
        lengths = [self.length] * len(geometry.ordered)
        pairs = np.array([self.amplitude, self.noise, self.residue, *relevances, *lengths])
        return pairs[:, 0], pairs[:, 1]


def optimizer() -> Callable[..., Any]:
    """Load what fits: a slow import, and most commands fit nothing."""
    from scipy.optimize import minimize  # noqa: PLC0415

    return minimize  # type: ignore[no-any-return]


class NegativeLogPosterior:
    """Negative log posterior density of the hyperparameters, and its gradient.

    Parameters
    ----------
    geometry : Geometry
    data : Observations
    hyperprior : Hyperprior
    trust : float
        Standard deviation of the weight of the prior mean.
    decay : Decay
    """

    def __init__(
        self,
        geometry: Geometry,
        data: Observations,
        hyperprior: Hyperprior,
        trust: float,
        decay: Decay = exponential,
    ) -> None:
        self.geometry, self.data, self._decay = geometry, data, decay
        self.mean, self.sd = hyperprior.moments(geometry)
        self._fixed = mean_covariance(data.prior, data.prior, trust, float(np.var(data.cost))) + data.level
        self._tables = _Tables(geometry, data.knots)

    def __call__(self, vector: Floats) -> tuple[float, Floats]:
        """Give value and gradient at hyperparameters packed in a vector, shape ``(3 + a + o,)``."""
        at = Hyperparameters.unpack(vector, len(self.geometry.axes))
        value, gradient = self._negative_log_marginal_likelihood(at)
        if gradient is None:
            return value, np.zeros_like(vector)
        z = (vector - self.mean) / self.sd
        return float(value + 0.5 * z @ z), gradient.pack() + z / self.sd

    def _negative_log_marginal_likelihood(self, at: Hyperparameters) -> tuple[float, Hyperparameters | None]:
        """Value, and the derivative by each hyperparameter; None where the covariance is not positive definite.

        Rasmussen and Williams, equations 2.30 and 5.9, with the likelihood of the variance within repeated trials.
        """
        data = self.data
        n = len(data.cost)
        amplitude, noise, residue = np.exp(2 * np.array([at.log_amplitude, at.log_noise, at.log_residue]))
        tables = self._tables
        relevance = at.relevance[tables.axis]
        correlation, slope = tables.correlations(self._decay, at.lengths(self.geometry))
        table = np.maximum(1 - relevance + relevance * correlation, 1e-12)
        signal = np.full((n, n), amplitude)
        for pairs in tables.pairs:
            signal *= table[pairs]
        cov_y_y = signal + self._fixed
        cov_y_y[np.diag_indices(n)] += residue + noise * data.variance + JITTER
        cholesky, info = dpotrf(cov_y_y, lower=1, clean=1)
        if info:
            return _NOT_POSITIVE_DEFINITE, None
        residual = data.cost - data.prior
        alpha = cho_solve((cholesky, True), residual)
        inverse, _ = dpotri(cholesky, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        value = 0.5 * residual @ alpha + np.sum(np.log(np.diag(cholesky)))
        value += 0.5 * data.squares / noise + 0.5 * data.freedom * np.log(noise)
        # Derivative of the value by each element of the covariance, then (times the signal) of its logarithm.
        by_covariance = 0.5 * (inverse - np.outer(alpha, alpha))
        by_signal = by_covariance * signal
        by_relevance = -(1 - correlation) * relevance * (1 - relevance) / table
        by_length = relevance * slope / table
        gradient = Hyperparameters(
            log_amplitude=2 * np.sum(by_signal),
            log_noise=2 * noise * np.sum(np.diag(by_covariance) * data.variance) - data.squares / noise + data.freedom,
            log_residue=2 * residue * np.trace(by_covariance),
            logit_relevance=np.array([np.sum(by_signal * by_relevance[pairs]) for pairs in tables.pairs]),
            log_length=np.array([np.sum(by_signal * by_length[tables.pairs[i]]) for i in self.geometry.ordered]),
        )
        return value, gradient


class _Tables:
    """The correlation tables of all axes, one after the other in one array, as far as observations need them.

    Of an axis on which no observation is inactive, only the knots that were observed are kept.

    Attributes
    ----------
    axis : ndarray of int, shape (t,)
        The axis of each entry.
    pairs : list of ndarray, shape (n, n)
        For each axis, where each pair of observations stands in the array.
    """

    def __init__(self, geometry: Geometry, knots: NDArray[np.int64]) -> None:
        self.pairs: list[NDArray[np.int64]] = []
        self._inactive: list[slice] = []
        distances, axes, end = [np.empty(0)], [np.empty(0, dtype=np.int64)], 0
        for i, axis in enumerate(geometry.axes):
            distance, place = axis.distance, knots[:, i]
            if np.any(place == len(distance)):
                distance = np.pad(distance, (0, 1))
                self._inactive.append(slice(end, end + distance.size))
            else:
                used, place = np.unique(place, return_inverse=True)
                distance = distance[np.ix_(used, used)]
            self.pairs.append(end + place[:, None] * len(distance) + place)
            distances.append(distance.ravel())
            axes.append(np.full(distance.size, i))
            end += distance.size
        self._distance, self.axis = np.concatenate(distances), np.concatenate(axes)

    def correlations(self, decay: Decay, lengths: Floats) -> tuple[Floats, Floats]:
        """Correlation of each entry, and its derivative by the logarithm of the length scale, shape ``(t,)`` each."""
        found = decay(self._distance, lengths[self.axis])
        for part in self._inactive:
            side = math.isqrt(part.stop - part.start)
            for table in found:
                table[part] = with_inactive(table[part].reshape(side, side)[:-1, :-1]).ravel()
        return found


def fit(
    geometry: Geometry, data: Observations, *, trust: float = 0.5, hyperprior: Hyperprior | None = None
) -> GaussianProcess:
    """Give the process with the most probable hyperparameters."""
    return GaussianProcess(geometry, data, most_probable(geometry, data, trust=trust, hyperprior=hyperprior)[0], trust)


def most_probable(
    geometry: Geometry,
    data: Observations,
    *,
    trust: float = 0.5,
    hyperprior: Hyperprior | None = None,
    decay: Decay = exponential,
) -> tuple[Hyperparameters, float]:
    """Find the most probable hyperparameters (maximum a posteriori) by L-BFGS-B.

    They are searched in units of the standard deviations of their priors.

    Returns
    -------
    tuple of Hyperparameters and float
        The hyperparameters, and the logarithm of their posterior density up to a constant. Of two explanations of the
        same data, the one with the larger density is the more credible.
    """
    minimize = optimizer()
    posterior = NegativeLogPosterior(geometry, data, hyperprior or Hyperprior(), trust, decay)

    def objective(z: Floats) -> tuple[float, Floats]:
        value, gradient = posterior(posterior.mean + posterior.sd * z)
        return value, gradient * posterior.sd

    start = np.zeros(len(posterior.mean))
    if len(data.cost) < 2:
        return Hyperparameters.unpack(posterior.mean, len(geometry.axes)), -objective(start)[0]
    box = [(-_BOX, _BOX)] * len(start)
    with one_thread():
        found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": _ITERATIONS})
    best = posterior.mean + posterior.sd * found.x
    return Hyperparameters.unpack(best, len(geometry.axes)), -float(found.fun)
