"""Gaussian processes over configurations: the posterior for given hyperparameters, and the average of several.

The posterior follows Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, algorithm 2.1. In the names
and shapes below, ``n`` is the number of observations, ``m`` that of configurations asked about, ``y`` stands for
observed costs (with noise) and ``f`` for true costs (without).

Hyperparameters of a Gaussian process from observations: the most probable ones, by their posterior density.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from stripewise.search.belief.costs import Floats
from stripewise.search.belief.kernel import Decay, Geometry, Hyperparameters, exponential, with_inactive
from stripewise.threads import one_thread

JITTER = 1e-8
"""Added to the diagonal of covariances, so that they stay positive definite."""
_LEAST_VARIANCE = 1e-8
_BLOCK = 1 << 12  # rows at a time: with 100 observations they stay in a processor's cache
_MOST_COMBINATIONS = 1500
_NEGLIGIBLE_WEIGHT = 0.02


@dataclass(frozen=True)
class Observations:
    """What a process learns from.

    Attributes
    ----------
    knots : ndarray of int, shape (n, a)
        Configurations, as :meth:`stripewise.search.belief.kernel.Geometry.knots` gives them.
    cost : ndarray, shape (n,)
    variance : ndarray, shape (n,)
        Of each cost in units of the noise of one run: one over the number of runs.
    prior : ndarray, shape (n,)
        Cost expected before any observation.
    squares, freedom : float
        Sum of squares within repeated trials, and its degrees of freedom. They inform about the noise directly.
    level : ndarray, shape (n, n), or float
        Covariance of the errors that comes from the uncertain level of the machine; 0.0 where that does not move.
    """

    knots: NDArray[np.int64]
    cost: Floats
    variance: Floats
    prior: Floats
    squares: float = 0.0
    freedom: float = 0.0
    level: Floats | float = 0.0

    def take(self, index: NDArray[np.int64]) -> Observations:
        """Give some of the observations, with all that is known of the noise."""
        return replace(
            self,
            knots=self.knots[index],
            cost=self.cost[index],
            variance=self.variance[index],
            prior=self.prior[index],
            level=self.level if isinstance(self.level, float) else self.level[np.ix_(index, index)],
        )

    def joined(self, more: Observations) -> Observations:
        """Give these observations and others as one; what repeats say of the noise is left out."""
        return Observations(
            np.concatenate([self.knots, more.knots]),
            np.concatenate([self.cost, more.cost]),
            np.concatenate([self.variance, more.variance]),
            np.concatenate([self.prior, more.prior]),
            level=self.level if isinstance(self.level, float) else np.pad(self.level, (0, len(more.cost))),
        )


def mean_covariance(a: Floats, b: Floats, trust: float, spread: float) -> Floats:
    """Covariance that comes from the unknown mean, shape ``(n, m)``.

    The offset of the mean is unknown, and so is the weight of the prior, whose mean is 1.

    Parameters
    ----------
    a, b : ndarray, shapes (n,) and (m,)
        Prior costs.
    trust : float
        Standard deviation of the prior's weight.
    spread : float
        Variance of the observed costs.
    """
    return 1.0 + spread + trust**2 * np.outer(a, b)


class GaussianProcess:
    """A normal belief about the true cost of every configuration.

    Parameters
    ----------
    trust : float
        Standard deviation of the weight of the prior, whose mean is 1.
    decay : Decay
        How correlation falls along an axis.
    """

    def __init__(
        self,
        geometry: Geometry,
        data: Observations,
        hyperparameters: Hyperparameters,
        trust: float,
        decay: Decay = exponential,
    ) -> None:
        self.geometry, self.data, self.hyperparameters, self.trust, self.decay = (
            geometry,
            data,
            hyperparameters,
            trust,
            decay,
        )
        self.noise = hyperparameters.noise
        self._spread = float(np.var(data.cost))
        correlations = [
            1 - share + share * with_inactive(decay(axis.distance, length)[0])
            for share, axis, length in zip(
                hyperparameters.relevance, geometry.axes, hyperparameters.lengths(geometry), strict=True
            )
        ]
        self._tables = _product_tables([table[:, data.knots[:, i]] for i, table in enumerate(correlations)])
        cov_y_y = self._cov_f_y(data.knots, data.prior) + data.level
        cov_y_y[np.diag_indices(len(cov_y_y))] += (
            hyperparameters.residue_variance + self.noise**2 * data.variance + JITTER
        )
        cholesky, _ = scipy.linalg.lapack.dpotrf(cov_y_y, lower=1, clean=1)
        # alpha = cov_y_y^-1 (y - prior), as in algorithm 2.1.
        self._alpha = scipy.linalg.cho_solve((cholesky, True), data.cost - data.prior)
        self._inverse_cholesky = np.asfortranarray(
            scipy.linalg.solve_triangular(cholesky, np.eye(len(cholesky)), lower=True)
        )

    def _cov_f_y(self, knots: NDArray[np.int64], prior: Floats) -> Floats:
        """Covariance of the true cost of configurations with the observations, shape ``(m, n)``."""
        covariance = mean_covariance(prior, self.data.prior, self.trust, self._spread)
        product: Floats | float = self.hyperparameters.amplitude_variance
        for axes, radix, table in self._tables:
            product = product * table[knots[:, axes] @ radix]
        covariance += product
        return covariance

    def predict(self, knots: NDArray[np.int64], prior: Floats) -> tuple[Floats, Floats]:
        """Give mean and standard deviation of the true cost (without the noise of a run), shape ``(m,)`` each.

        Shapes: knots ``(m, a)``; prior ``(m,)``.
        """
        mean, sd = np.empty(len(knots)), np.empty(len(knots))
        own = self.hyperparameters.residue_variance + self.hyperparameters.amplitude_variance
        var_f = own + 1.0 + self._spread + self.trust**2 * prior**2
        for start in range(0, len(knots), _BLOCK):
            part = slice(start, start + _BLOCK)
            cov_f_y = self._cov_f_y(knots[part], prior[part])
            mean[part] = prior[part] + cov_f_y @ self._alpha
            # The factor is triangular, which halves the work that dominates large spaces.
            white = scipy.linalg.blas.dtrmm(1.0, self._inverse_cholesky, cov_f_y.T, lower=1, overwrite_b=1)
            explained = np.einsum("ij,ij->j", white, white)
            sd[part] = np.sqrt(np.maximum(var_f[part] - explained, _LEAST_VARIANCE))
        return mean, sd

    def mean(self, knots: NDArray[np.int64], prior: Floats) -> Floats:
        """Give the mean alone, at a fraction of the cost of :meth:`predict`, shape ``(m,)``."""
        parts = [slice(start, start + _BLOCK) for start in range(0, len(knots), _BLOCK)]
        found = [prior[part] + self._cov_f_y(knots[part], prior[part]) @ self._alpha for part in parts]
        return np.concatenate(found) if found else np.empty(0)

    def fitted(self) -> Floats:
        """Mean of the true cost of each observation, its own residue included, shape ``(n,)``."""
        noise: Floats = self.noise**2 * self.data.variance * self._alpha
        level = 0.0 if isinstance(self.data.level, float) else self.data.level @ self._alpha
        return np.asarray(self.data.cost - noise - level)

    def leave_one_out(self) -> tuple[Floats, Floats]:
        """Predict each observation, its noise included, from all others; mean and standard deviation, ``(n,)`` each.

        Rasmussen and Williams, equation 5.12.
        """
        precision = np.sum(self._inverse_cholesky**2, axis=0)
        return self.data.cost - self._alpha / precision, 1 / np.sqrt(precision)

    def conditioned(self, more: Observations) -> GaussianProcess:
        """Give the process after more observations, with the same hyperparameters."""
        return GaussianProcess(self.geometry, self.data.joined(more), self.hyperparameters, self.trust, self.decay)


def _product_tables(tables: list[Floats]) -> list[tuple[list[int], NDArray[np.int64], Floats]]:
    """Multiply the tables of several axes in advance, so that the product over all axes takes few look-ups.

    Parameters
    ----------
    tables : list of ndarray, shapes (k + 1, n)
        Correlation of each knot of an axis with each observation.

    Returns
    -------
    list of tuple
        For each group of axes: the axes, the radix that numbers combinations of their knots, and a table of shape
        ``(combinations, n)``.
    """
    groups: list[tuple[list[int], list[int], Floats]] = []
    for axis, table in enumerate(tables):
        if groups and len(groups[-1][2]) * len(table) <= _MOST_COMBINATIONS:
            axes, sizes, product = groups.pop()
            both = (product[:, None, :] * table[None]).reshape(-1, table.shape[1])
            groups.append(([*axes, axis], [*sizes, len(table)], both))
        else:
            groups.append(([axis], [len(table)], table))
    return [(axes, np.cumprod([1, *sizes[:0:-1]])[::-1].astype(np.int64), table) for axes, sizes, table in groups]


@dataclass(frozen=True)
class ModelAverage:
    """Processes that learned from the same data under different assumptions, averaged.

    Bayesian model averaging (Hoeting et al., Stat. Sci. 14, 1999), with the density at the most probable
    hyperparameters in place of the evidence. So few runs seldom settle which assumption holds.

    Attributes
    ----------
    weights : ndarray, shape (k,)
        They sum to 1.
    """

    processes: tuple[GaussianProcess, ...]
    weights: Floats

    @classmethod
    def of(cls, processes: Sequence[GaussianProcess], log_densities: Sequence[float]) -> ModelAverage:
        """Weigh processes by their posterior densities, and leave out those that hardly count."""
        odds = np.exp(np.asarray(log_densities) - np.max(log_densities))
        kept = odds / np.sum(odds) >= _NEGLIGIBLE_WEIGHT
        return cls(
            tuple(process for process, keep in zip(processes, kept, strict=True) if keep),
            odds[kept] / np.sum(odds[kept]),
        )

    @property
    def data(self) -> Observations:
        """What they learned from; outliers may weigh differently in each."""
        return self.processes[0].data

    def predict(self, knots: NDArray[np.int64], prior: Floats) -> tuple[Floats, Floats]:
        """Give mean and standard deviation as :meth:`GaussianProcess.predict`, with the variance between processes."""
        if len(self.processes) == 1:
            return self.processes[0].predict(knots, prior)
        found = [process.predict(knots, prior) for process in self.processes]
        mean = self._average([one for one, _ in found])
        return mean, np.sqrt(self._average([sd**2 + (one - mean) ** 2 for one, sd in found]))

    def mean(self, knots: NDArray[np.int64], prior: Floats) -> Floats:
        """Give the mean alone, as :meth:`GaussianProcess.mean`."""
        return self._average([process.mean(knots, prior) for process in self.processes])

    def fitted(self) -> Floats:
        """Mean of the true cost of each observation, as :meth:`GaussianProcess.fitted`."""
        return self._average([process.fitted() for process in self.processes])

    def conditioned(self, more: Observations) -> ModelAverage:
        """Give the processes after more observations, with the same hyperparameters and weights."""
        return replace(self, processes=tuple(process.conditioned(more) for process in self.processes))

    def _average(self, values: list[Floats]) -> Floats:
        return np.asarray(self.weights @ np.array(values), dtype=np.float64)


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


def load_optimizer() -> Callable[..., Any]:
    """Load what fits: a slow import, and most commands fit nothing."""
    from scipy.optimize import minimize  # noqa: PLC0415

    return minimize  # type: ignore[no-any-return]


class NegativeLogPosterior:
    """Negative log posterior density of the hyperparameters, and its gradient.

    Parameters
    ----------
    trust : float
        Standard deviation of the weight of the prior mean.
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
        cholesky, info = scipy.linalg.lapack.dpotrf(cov_y_y, lower=1, clean=1)
        if info:
            return _NOT_POSITIVE_DEFINITE, None
        residual = data.cost - data.prior
        alpha = scipy.linalg.cho_solve((cholesky, True), residual)
        inverse, _ = scipy.linalg.lapack.dpotri(cholesky, lower=1)
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
    return GaussianProcess(
        geometry, data, find_most_probable(geometry, data, trust=trust, hyperprior=hyperprior)[0], trust
    )


def find_most_probable(
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
    minimize = load_optimizer()
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
