"""A Gaussian process over configurations, with learned relevance of each axis and learned noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.special import expit

from stripewise.search.costs import Floats
from stripewise.search.kernel import Decay, Geometry, exponential, with_inactive

_JITTER = 1e-8
_BOX = 4.0
_ITERATIONS = 40
_LEAST = 1e-8
_BLOCK = 1 << 12  # rows at a time: with 100 observations they stay in a processor's cache
_MOST_COMBINATIONS = 1500


@dataclass(frozen=True)
class Hyperprior:
    """Normal priors of the hyperparameters, in logarithms: mean and standard deviation.

    Costs are logarithms, so amplitudes are natural: 0.7 is a factor of two. Without repeats, noise and residue look the
    same; the priors take little scatter for noise and scatter beyond that of real machines for residue.
    """

    amplitude: tuple[float, float] = (float(np.log(0.7)), 0.5)
    noise: tuple[float, float] = (float(np.log(0.05)), 1.0)
    residue: tuple[float, float] = (float(np.log(0.02)), 1.5)
    relevance: tuple[float, float] = (-1.0, 1.0)
    length: tuple[float, float] = (float(np.log(0.4)), 0.4)


@dataclass(frozen=True)
class Data:
    """What a process learns from.

    Attributes
    ----------
    knots : ndarray of int, shape (n, a)
    cost : ndarray, shape (n,)
    variance : ndarray, shape (n,)
        Of each cost in units of the noise of one run: one over the number of runs.
    prior : ndarray, shape (n,)
        Expected cost.
    squares, freedom : float
        Within-trial sum of squares of repeats, and its degrees of freedom: they tell the noise directly.
    """

    knots: NDArray[np.int64]
    cost: Floats
    variance: Floats
    prior: Floats
    squares: float = 0.0
    freedom: float = 0.0


class Likelihood:
    """Negative log posterior of the hyperparameters, and its gradient.

    The hyperparameters are, in order: logarithms of amplitude, noise, and residue (what is a configuration's own:
    part of its true cost, but shared with no neighbour); for each axis the logit of its relevance (the share of the
    variance that goes with it: 0 for a parameter that does nothing); for each ordered axis the logarithm of its
    length. With small relevances and a large amplitude the product of axes comes close to a sum of main effects.
    """

    def __init__(
        self, geometry: Geometry, data: Data, hyper: Hyperprior, trust: float, decay: Decay = exponential
    ) -> None:
        self.geometry, self.data, self._decay = geometry, data, decay
        a, o = len(geometry.axes), len(geometry.ordered)
        parts = [[hyper.amplitude], [hyper.noise], [hyper.residue], [hyper.relevance] * a, [hyper.length] * o]
        flat = np.array([pair for part in parts for pair in part])
        self.mean, self.sd = flat[:, 0], flat[:, 1]
        self.fixed = mean_covariance(data.prior, data.prior, trust, float(np.var(data.cost)))
        self.pairs = [
            data.knots[:, i, None] * (len(axis.distance) + 1) + data.knots[None, :, i]
            for i, axis in enumerate(geometry.axes)
        ]

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Give value and gradient."""
        data = self.data
        n, a = len(data.cost), len(self.geometry.axes)
        amplitude, noise, residue = np.exp(2 * theta[:3])
        rho = expit(theta[3 : 3 + a])
        lengths = np.full(a, np.nan)
        lengths[self.geometry.ordered] = np.exp(theta[3 + a :])
        signal = np.full((n, n), amplitude)
        by_rho, by_length = [], {}
        for i, axis in enumerate(self.geometry.axes):
            value, slope = self._decay(axis.distance, lengths[i] if axis.ordered else 1.0)
            like = with_inactive(value)
            table = np.maximum(1 - rho[i] + rho[i] * like, 1e-12)
            signal *= table.ravel()[self.pairs[i]]
            by_rho.append((-(1 - like) * rho[i] * (1 - rho[i]) / table).ravel())
            if axis.ordered:
                by_length[i] = (rho[i] * with_inactive(slope) / table).ravel()
        total = signal + self.fixed
        total[np.diag_indices(n)] += residue + noise * data.variance + _JITTER
        factor, info = dpotrf(total, lower=1, clean=1)
        if info:
            return 1e10, np.zeros_like(theta)
        residual = data.cost - data.prior
        alpha = cho_solve((factor, True), residual)
        inverse, _ = dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        value = 0.5 * residual @ alpha + np.sum(np.log(np.diag(factor)))
        value += 0.5 * data.squares / noise + 0.5 * data.freedom * np.log(noise)
        weight = 0.5 * (inverse - np.outer(alpha, alpha))
        grad = np.empty_like(theta)
        grad[1] = 2 * noise * np.sum(np.diag(weight) * data.variance) - data.squares / noise + data.freedom
        grad[2] = 2 * residue * np.trace(weight)
        weight *= signal
        grad[0] = 2 * np.sum(weight)
        for i in range(a):
            grad[3 + i] = np.sum(weight * by_rho[i][self.pairs[i]])
        for j, i in enumerate(self.geometry.ordered):
            grad[3 + a + j] = np.sum(weight * by_length[int(i)][self.pairs[i]])
        z = (theta - self.mean) / self.sd
        return float(value + 0.5 * z @ z), grad + z / self.sd


def mean_covariance(a: Floats, b: Floats, trust: float, spread: float) -> Floats:
    """Covariance from what is unsure about the mean: its level, and how much of the prior is right, ``(n, m)``."""
    return 1.0 + spread + trust**2 * np.outer(a, b)


class Process:
    """A fitted process: a normal belief about the cost of every configuration.

    Parameters
    ----------
    geometry : Geometry
    data : Data
    theta : ndarray
        Hyperparameters, as :class:`Likelihood` orders them.
    trust : float
        Standard deviation of the weight of the prior, whose mean is 1.
    decay : Decay
        How correlation falls along an axis.
    """

    def __init__(self, geometry: Geometry, data: Data, theta: Floats, trust: float, decay: Decay = exponential) -> None:
        self.geometry, self.data, self.theta, self.trust, self.decay = geometry, data, theta, trust, decay
        axes = len(geometry.axes)
        relevance = expit(theta[3 : 3 + axes])
        lengths = np.ones(axes)
        lengths[geometry.ordered] = np.exp(theta[3 + axes :])
        self.noise = float(np.exp(theta[1]))
        self._amplitude = float(np.exp(2 * theta[0]))
        self._residue = float(np.exp(2 * theta[2]))
        self._spread = float(np.var(data.cost))
        tables = [
            1 - share + share * with_inactive(decay(axis.distance, length)[0])
            for share, axis, length in zip(relevance, geometry.axes, lengths, strict=True)
        ]
        self._groups = _merge([table[:, data.knots[:, i]] for i, table in enumerate(tables)])
        covariance = self._cross(data.knots, data.prior)
        covariance[np.diag_indices(len(covariance))] += self._residue + self.noise**2 * data.variance + _JITTER
        factor, _ = dpotrf(covariance, lower=1, clean=1)
        self._alpha = cho_solve((factor, True), data.cost - data.prior)
        self._whiten = np.asfortranarray(solve_triangular(factor, np.eye(len(factor)), lower=True))

    def _cross(self, knots: NDArray[np.int64], prior: Floats) -> Floats:
        """Covariance with the data, shape ``(m, n)``."""
        result = mean_covariance(prior, self.data.prior, self.trust, self._spread)
        product: Floats | float = self._amplitude
        for axes, radix, table in self._groups:
            product = product * table[knots[:, axes] @ radix]
        result += product
        return result

    def predict(self, knots: NDArray[np.int64], prior: Floats) -> tuple[Floats, Floats]:
        """Give mean and standard deviation of the true cost (without the noise of a run), shape ``(m,)`` each.

        Parameters
        ----------
        knots : ndarray, shape (m, a)
        prior : ndarray, shape (m,)
        """
        mean, sd = np.empty(len(knots)), np.empty(len(knots))
        own = self._residue + self._amplitude + 1.0 + self._spread + self.trust**2 * prior**2
        for start in range(0, len(knots), _BLOCK):
            part = slice(start, start + _BLOCK)
            cross = self._cross(knots[part], prior[part])
            mean[part] = prior[part] + cross @ self._alpha
            # The factor is triangular, which halves the work that dominates large spaces.
            white = dtrmm(1.0, self._whiten, cross.T, lower=1, overwrite_b=1)
            explained = np.einsum("ij,ij->j", white, white)
            sd[part] = np.sqrt(np.maximum(own[part] - explained, _LEAST))
        return mean, sd

    def mean(self, knots: NDArray[np.int64], prior: Floats) -> Floats:
        """Give the mean alone, at a fraction of the cost of :meth:`predict`, shape ``(m,)``."""
        parts = [slice(start, start + _BLOCK) for start in range(0, len(knots), _BLOCK)]
        found = [prior[part] + self._cross(knots[part], prior[part]) @ self._alpha for part in parts]
        return np.concatenate(found) if found else np.empty(0)

    def seen(self) -> Floats:
        """Mean of the true cost of each observation, its own residue included, shape ``(n,)``."""
        noise: Floats = self.noise**2 * self.data.variance * self._alpha
        return self.data.cost - noise

    def left_out(self) -> tuple[Floats, Floats]:
        """Predict each observation, its noise included, from all others; mean and standard deviation, ``(n,)`` each."""
        precision = np.sum(self._whiten**2, axis=0)
        return self.data.cost - self._alpha / precision, 1 / np.sqrt(precision)

    def conditioned(self, more: Data) -> Process:
        """Give the process after more data, with the same hyperparameters."""
        old = self.data
        both = Data(
            np.concatenate([old.knots, more.knots]),
            np.concatenate([old.cost, more.cost]),
            np.concatenate([old.variance, more.variance]),
            np.concatenate([old.prior, more.prior]),
        )
        return Process(self.geometry, both, self.theta, self.trust, self.decay)


def _merge(rows: list[Floats]) -> list[tuple[list[int], NDArray[np.int64], Floats]]:
    """Multiply axes into groups of few combinations, so that a configuration needs few look-ups.

    Each group is its axes, the radix that numbers their combinations, and a table ``(combinations, n)``.
    """
    groups: list[tuple[list[int], list[int], Floats]] = []
    for axis, table in enumerate(rows):
        if groups and len(groups[-1][2]) * len(table) <= _MOST_COMBINATIONS:
            axes, sizes, merged = groups.pop()
            both = (merged[:, None, :] * table[None]).reshape(-1, table.shape[1])
            groups.append(([*axes, axis], [*sizes, len(table)], both))
        else:
            groups.append(([axis], [len(table)], table))
    return [(axes, np.cumprod([1, *sizes[:0:-1]])[::-1].astype(np.int64), table) for axes, sizes, table in groups]


def fit(geometry: Geometry, data: Data, *, trust: float = 0.5, hyper: Hyperprior | None = None) -> Process:
    """Give the process with the most probable hyperparameters."""
    return Process(geometry, data, most_probable(geometry, data, trust=trust, hyper=hyper)[0], trust)


def most_probable(
    geometry: Geometry,
    data: Data,
    *,
    trust: float = 0.5,
    hyper: Hyperprior | None = None,
    decay: Decay = exponential,
) -> tuple[Floats, float]:
    """Find the most probable hyperparameters (MAP), searched in units of their priors' deviations.

    Returns
    -------
    tuple of ndarray and float
        The hyperparameters, and the logarithm of their posterior density up to a constant. Of two ways to explain the
        same data, the one with the larger is the more credible, by so many e-folds.
    """
    from scipy.optimize import minimize  # noqa: PLC0415  slow import, and most commands fit nothing

    likelihood = Likelihood(geometry, data, hyper or Hyperprior(), trust, decay)

    def objective(z: Floats) -> tuple[float, Floats]:
        value, gradient = likelihood(likelihood.mean + likelihood.sd * z)
        return value, gradient * likelihood.sd

    start = np.zeros(len(likelihood.mean))
    if len(data.cost) < 2:
        return likelihood.mean, -objective(start)[0]
    box = [(-_BOX, _BOX)] * len(start)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=box, options={"maxiter": _ITERATIONS})
    return likelihood.mean + likelihood.sd * found.x, -float(found.fun)
