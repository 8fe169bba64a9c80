"""A Gaussian process over configurations, with learned relevance of each axis and learned noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize
from scipy.special import expit

from stripewise.search.costs import Floats
from stripewise.search.kernel import Geometry, matern, with_inactive

_JITTER = 1e-8


@dataclass(frozen=True)
class Hyperprior:
    """Normal priors of the hyperparameters, in logarithms: mean and standard deviation.

    Costs are logarithms, so amplitudes are natural: 0.7 is a factor of two.
    """

    amplitude: tuple[float, float] = (float(np.log(0.7)), 0.8)
    noise: tuple[float, float] = (float(np.log(0.06)), 1.0)
    relevance: tuple[float, float] = (-1.0, 1.5)
    length: tuple[float, float] = (float(np.log(0.5)), 0.5)


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
    """Negative log posterior of the hyperparameters and its gradient."""

    def __init__(self, geometry: Geometry, data: Data, hyper: Hyperprior, trust: float) -> None:
        self.geometry, self.data = geometry, data
        a, o = len(geometry.axes), len(geometry.ordered)
        self.sizes = (a, o)
        parts = [[hyper.amplitude], [hyper.noise], [hyper.relevance] * a, [hyper.length] * o]
        flat = np.array([pair for part in parts for pair in part])
        self.mean, self.sd = flat[:, 0], flat[:, 1]
        self.fixed = mean_kernel(data.prior, data.prior, trust, data.cost)
        self.pairs = [
            data.knots[:, i, None] * (len(axis.distance) + 1) + data.knots[None, :, i]
            for i, axis in enumerate(geometry.axes)
        ]

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        data = self.data
        n, (a, o) = len(data.cost), self.sizes
        amplitude, noise = np.exp(2 * theta[0]), np.exp(2 * theta[1])
        rho = expit(theta[2 : 2 + a])
        lengths = np.full(a, np.nan)
        lengths[self.geometry.ordered] = np.exp(theta[2 + a :])
        signal = np.full((n, n), amplitude)
        by_rho, by_length = [], {}
        for i, axis in enumerate(self.geometry.axes):
            value, slope = matern(axis.distance, lengths[i] if axis.ordered else 1.0)
            like = with_inactive(value)
            table = np.maximum(1 - rho[i] + rho[i] * like, 1e-12)
            signal *= table.ravel()[self.pairs[i]]
            by_rho.append((-(1 - like) * rho[i] * (1 - rho[i]) / table).ravel())
            if axis.ordered:
                by_length[i] = (rho[i] * with_inactive(slope) / table).ravel()
        total = signal + self.fixed
        total[np.diag_indices(n)] += noise * data.variance + _JITTER
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
        weight *= signal
        grad[0] = 2 * np.sum(weight)
        for i in range(a):
            grad[2 + i] = np.sum(weight * by_rho[i][self.pairs[i]])
        for j, i in enumerate(self.geometry.ordered):
            grad[2 + a + j] = np.sum(weight * by_length[int(i)][self.pairs[i]])
        z = (theta - self.mean) / self.sd
        return float(value + 0.5 * z @ z), grad + z / self.sd


def mean_kernel(a: Floats, b: Floats, trust: float, cost: Floats) -> Floats:
    """Covariance from what is unsure about the mean: its level, and how much of the prior is right."""
    level = 1.0 + float(np.var(cost))
    return level + (trust**2) * np.outer(a, b)


@dataclass
class Process:
    """A fitted process."""

    geometry: Geometry
    data: Data
    theta: Floats
    trust: float

    def __post_init__(self) -> None:
        a = len(self.geometry.axes)
        self.rho = expit(self.theta[2 : 2 + a])
        self.amplitude = float(np.exp(2 * self.theta[0]))
        self.noise = float(np.exp(self.theta[1]))
        lengths = np.ones(a)
        lengths[self.geometry.ordered] = np.exp(self.theta[2 + a :])
        self.tables = []
        for i, axis in enumerate(self.geometry.axes):
            like = with_inactive(matern(axis.distance, lengths[i])[0])
            self.tables.append(1 - self.rho[i] + self.rho[i] * like)
        self.rows = [table[:, self.data.knots[:, i]] for i, table in enumerate(self.tables)]
        k = self.cross(self.data.knots, self.data.prior)
        k[np.diag_indices(len(k))] += self.noise**2 * self.data.variance + _JITTER
        self.factor, info = dpotrf(k, lower=1, clean=1)
        self.alpha = cho_solve((self.factor, True), self.data.cost - self.data.prior)

    def cross(self, knots: NDArray[np.int64], prior: Floats) -> Floats:
        k = np.full((len(knots), len(self.data.cost)), self.amplitude)
        for i, rows in enumerate(self.rows):
            k *= rows[knots[:, i]]
        k += mean_kernel(prior, self.data.prior, self.trust, self.data.cost)
        return k

    def predict(self, knots: NDArray[np.int64], prior: Floats) -> tuple[Floats, Floats]:
        k = self.cross(knots, prior)
        mean = prior + k @ self.alpha
        v = solve_triangular(self.factor, k.T, lower=True)
        own = self.amplitude + (1.0 + float(np.var(self.data.cost))) + self.trust**2 * prior**2
        return mean, np.sqrt(np.maximum(own - np.sum(v**2, axis=0), 1e-12))


def fit(
    geometry: Geometry, data: Data, hyper: Hyperprior = Hyperprior(), trust: float = 0.5, maxiter: int = 40
) -> Process:
    objective = Likelihood(geometry, data, hyper, trust)
    if len(data.cost) < 2:
        return Process(geometry, data, objective.mean, trust)
    found = minimize(objective, objective.mean, jac=True, method="L-BFGS-B", options={"maxiter": maxiter})
    return Process(geometry, data, found.x, trust)
