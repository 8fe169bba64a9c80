"""A smooth regression: a linear trend and a Gaussian process over features weighted by what boosted trees found useful.

Trees predict steps and cannot continue a trend; this can do both. The kernel is a linear one plus Matern 3/2. Length
scale, weight of the trend and nugget are chosen by the closed-form leave-one-out error (Rasmussen and Williams, 2006,
section 5.4.2). Many cells are thinned to a fixed number of supports, through which all cells are still heard
(subset of regressors, section 8.3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrf, dpotri

from stripewise.models.domain import Floats
from stripewise.models.features import Matrix

_SUPPORTS = 500
_TRIAL = 250
_LENGTHS = (0.7, 1.5, 3.0, 6.0)
_TRENDS = (0.0, 1.0)
_NUGGETS = (1e-3, 1e-2, 1e-1, 1.0)
_JITTER = 1e-8
_CHUNK = 512
_LEAST_WEIGHT = 0.05


@dataclass(frozen=True, eq=False)
class Smooth:
    """A fitted regression.

    Attributes
    ----------
    centre, weight : ndarray, shape (f,)
        Features are shifted and multiplied so.
    supports : ndarray, shape (s, f)
        In these coordinates.
    alpha : ndarray, shape (s,)
        Coefficients of the kernel functions.
    length, trend : float
        Hyperparameters.
    hyperparameters : tuple of float, optional
        Length, trend and nugget of the fit; None where there was nothing to fit, and in a model read from a file.
    """

    centre: Floats
    weight: Floats
    supports: Floats
    alpha: Floats
    length: float
    trend: float
    bias: float
    hyperparameters: tuple[float, float, float] | None = None

    @classmethod
    def fit(
        cls,
        x: Matrix,
        target: Floats,
        count: Floats,
        importance: Floats,
        rng: np.random.Generator,
        *,
        chosen: tuple[float, float, float] | None = None,
    ) -> Smooth:
        """Fit.

        Parameters
        ----------
        x : ndarray, shape (n, f)
        target : ndarray, shape (n,)
        count : ndarray, shape (n,)
            Runs behind each target; its noise falls with them.
        importance : ndarray, shape (f,)
            Not negative; a feature moves points apart by the square root of its share.
        chosen : tuple of float, optional
            :attr:`hyperparameters` of a fit to similar data, which are then not chosen anew.
        """
        centre = x.mean(axis=0, dtype=np.float64)
        deviation = x.std(axis=0, dtype=np.float64)
        share = importance / (importance.max(initial=0.0) or 1.0)
        weight = np.where(deviation > 0, np.sqrt(share + _LEAST_WEIGHT**2) / np.where(deviation > 0, deviation, 1), 0.0)
        z = (x - centre) * weight
        bias = float(np.average(target, weights=count))
        residual = target - bias
        if len(x) < 3 or np.ptp(residual) == 0:
            return cls(centre, weight, z[:1], np.zeros(1), 1.0, 0.0, bias)
        trial = _choose_some(len(x), _TRIAL, rng)
        length, trend, nugget = chosen or _choose(z[trial], residual[trial], count[trial])
        some = _choose_some(len(x), _SUPPORTS, rng)
        supports = z[some]
        inner = _kernel(supports, supports, length, trend)
        noise = nugget / count
        if len(some) == len(x):
            matrix, right = inner + np.diag(noise), residual
        else:
            matrix, right = inner, np.zeros(len(some))
            for start in range(0, len(x), _CHUNK):
                part = slice(start, start + _CHUNK)
                between = _kernel(supports, z[part], length, trend)
                weighted = between / noise[part]
                matrix += weighted @ between.T
                right += weighted @ residual[part]
        matrix[np.diag_indices_from(matrix)] += _JITTER * np.trace(matrix) / len(matrix)
        alpha = np.asarray(np.linalg.solve(matrix, right), dtype=np.float64)
        return cls(centre, weight, supports, alpha, length, trend, bias, (length, trend, nugget))

    def predict(self, x: Matrix) -> Floats:
        """Predicted targets, shape ``(n,)``."""
        result = np.empty(len(x))
        for start in range(0, len(x), _CHUNK):
            part = slice(start, start + _CHUNK)
            z = (x[part] - self.centre) * self.weight
            result[part] = _kernel(z, self.supports, self.length, self.trend) @ self.alpha
        return result + self.bias

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Numbers and arrays, for a model file."""
        return (
            {"length": self.length, "trend": self.trend, "bias": self.bias},
            {"centre": self.centre, "weight": self.weight, "supports": self.supports, "alpha": self.alpha},
        )

    @classmethod
    def restored(
        cls, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str, width: int
    ) -> Smooth:
        """Take back what :meth:`state` gave of a regression over ``width`` features."""
        centre, weight, supports, alpha = (
            np.asarray(arrays[prefix + key], dtype=np.float64) for key in ("centre", "weight", "supports", "alpha")
        )
        if not centre.shape == weight.shape == (width,) or not supports.shape == (*alpha.shape, width):
            raise ValueError("the supports of a smooth part do not fit")
        return cls(
            centre, weight, supports, alpha,
            float(document["length"]), float(document["trend"]), float(document["bias"]),
        )  # fmt: skip


def _kernel(a: Floats, b: Floats, length: float, trend: float) -> Floats:
    # In place throughout: fresh memory for each step would cost as much as the arithmetic.
    product = a @ b.T
    distance = product * -2.0
    distance += np.sum(a**2, axis=1)[:, None]
    distance += np.sum(b**2, axis=1)
    np.maximum(distance, 0.0, out=distance)
    np.sqrt(distance, out=distance)
    distance *= np.sqrt(3.0) / length
    kernel: Floats = np.exp(-distance)
    distance += 1.0
    kernel *= distance
    if trend:
        product += 1.0
        product *= trend
        kernel += product
    return kernel


def _choose(z: Floats, residual: Floats, count: Floats) -> tuple[float, float, float]:
    """Hyperparameters with the least leave-one-out error, weighted by the runs behind each cell."""
    best = (np.inf, (_LENGTHS[0], 0.0, _NUGGETS[-1]))
    for length in _LENGTHS:
        for trend in _TRENDS:
            kernel = _kernel(z, z, length, trend)
            for nugget in _NUGGETS:
                matrix = kernel.copy()
                matrix[np.diag_indices_from(matrix)] += nugget / count + _JITTER
                cholesky, indefinite = dpotrf(matrix.T, lower=1, overwrite_a=1)
                if indefinite:
                    continue
                inverse, _ = dpotri(cholesky, lower=1, overwrite_c=1)
                error = dsymv(1.0, inverse, residual, lower=1) / np.diag(inverse)
                score = float(np.average(error**2, weights=count / (1.0 + count)))
                if score < best[0]:
                    best = (score, (length, trend, nugget))
    return best[1]


def _choose_some(n: int, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, most, replace=False))
