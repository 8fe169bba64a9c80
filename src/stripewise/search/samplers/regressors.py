"""Regressors of ``surrogate`` by name, each with the uncertainty of its predictions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from stripewise.errors import UserError
from stripewise.plugins import Plugins
from stripewise.search.belief.costs import Floats
from stripewise.threads import one_thread

ENTRY_POINTS = "stripewise.regressors"

_BUILT_IN = {
    "gaussian_process": "sklearn.gaussian_process:GaussianProcessRegressor",
    "random_forest": "sklearn.ensemble:RandomForestRegressor",
    "extra_trees": "sklearn.ensemble:ExtraTreesRegressor",
    "gradient_boosting": "sklearn.ensemble:GradientBoostingRegressor",
    "decision_tree": "sklearn.tree:DecisionTreeRegressor",
    "bayesian_ridge": "sklearn.linear_model:BayesianRidge",
    "support_vector": "sklearn.svm:SVR",
}


def _regressors() -> Plugins:
    from sklearn.base import RegressorMixin  # noqa: PLC0415  slow import

    return Plugins("regressor", ENTRY_POINTS, RegressorMixin, _BUILT_IN)


def regressor_names() -> list[str]:
    """List all names that :func:`make_regressor` knows."""
    return _regressors().names()


class Predictor(Protocol):
    """A fitted regressor with its uncertainty."""

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the cost at points ``(n, f)``, each ``(n,)``."""


def make_regressor(name: str, options: Mapping[str, Any], columns: int, rng: np.random.Generator) -> Any:
    """Make an unfitted scikit-learn regressor.

    Parameters
    ----------
    name : str
        One of :func:`regressor_names`. It comes from experiment files and requests, so it never names a module.
    options : mapping
        Arguments of the class.
    columns : int
        Features of a point, for the length scales of a Gaussian process.
    rng : numpy.random.Generator
        Seeds a regressor that has a ``random_state``.

    Raises
    ------
    UserError
        Unknown name or argument.
    """
    cls = _regressors().load(name)
    arguments: dict[str, Any] = dict(options)
    if name == "gaussian_process" and "kernel" not in arguments:
        arguments = {"kernel": _kernel(columns), "normalize_y": True, **arguments}
    try:
        regressor: Any = cls(**arguments)
    except (TypeError, ValueError) as error:
        raise UserError(f"regressor '{name}': {error}", "correct regressor_options") from error
    if "random_state" in regressor.get_params() and "random_state" not in arguments:
        regressor.set_params(random_state=int(rng.integers(2**31)))
    return regressor


def _kernel(columns: int) -> Any:
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel  # noqa: PLC0415  slow import

    shape = Matern(np.full(columns, 0.5), length_scale_bounds=(0.05, 20.0), nu=2.5)
    return ConstantKernel(1.0, (0.05, 20.0)) * shape + WhiteKernel(0.01, (1e-4, 1.0))


def fit_predictor(regressor: Any, x: Floats, y: Floats, copies: int, rng: np.random.Generator) -> Predictor:
    """Fit a regressor, and find how uncertain its predictions are.

    The standard deviation is the regressor's own if it predicts one, that over the trees of a forest, or else that over
    ``copies`` fits to bootstrap samples.

    Raises
    ------
    UserError
        If the regressor cannot be fitted to these data.
    """
    try:
        with one_thread():
            return _fit_predictor(regressor, x, y, copies, rng)
    except (ValueError, TypeError) as error:
        what = f"regressor {type(regressor).__name__} cannot learn: {error}"
        raise UserError(what, "use another regressor or other regressor_options") from error


def _fit_predictor(regressor: Any, x: Floats, y: Floats, copies: int, rng: np.random.Generator) -> Predictor:
    from sklearn.base import clone  # noqa: PLC0415  slow import
    from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor  # noqa: PLC0415

    if "return_std" in inspect.signature(regressor.predict).parameters:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # kernels at their bounds say so at every fit
            fitted = regressor.fit(x, y)
        return lambda points: _pair(fitted.predict(points, return_std=True))
    if isinstance(regressor, RandomForestRegressor | ExtraTreesRegressor):
        members = regressor.fit(x, y).estimators_
    else:
        samples = [rng.integers(len(x), size=len(x)) for _ in range(copies)]
        members = [clone(regressor).fit(x[rows], y[rows]) for rows in samples]
    return lambda points: _disagreement([np.asarray(member.predict(points), dtype=np.float64) for member in members])


def _pair(prediction: Any) -> tuple[Floats, Floats]:
    mean, sd = prediction
    return np.asarray(mean, dtype=np.float64), np.asarray(sd, dtype=np.float64)


def _disagreement(predictions: list[Floats]) -> tuple[Floats, Floats]:
    return np.mean(predictions, axis=0), np.std(predictions, axis=0)
