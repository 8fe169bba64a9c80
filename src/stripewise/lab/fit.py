"""Calibration of a site to measurements: the bandwidths that explain a campaign best, and how well they predict.

Least squares in log space: a factor of two counts alike at 10 MiB/s and at 100 GiB/s. Rows of one configuration
are first reduced to their median, because noise is skewed. The error that is reported is that of configurations which
the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from stripewise.documents import explain_validation, toml_value
from stripewise.errors import UserError
from stripewise.lab.batch import RunBatch
from stripewise.lab.engine import simulate
from stripewise.lab.site import Site

Floats = NDArray[np.float64]

BANDWIDTHS = (
    "network.node_write_bandwidth",
    "network.node_read_bandwidth",
    "ost.write_bandwidth",
    "ost.read_bandwidth",
)
"""What is fitted unless the user says otherwise: what describes the speed of the hardware, and nothing else."""

KEYS: Mapping[str, tuple[str, ...]] = {
    "client": ("client.process_bandwidth", "client.call_seconds"),
    "rpc": ("network.latency",),
    "oss": ("oss.bandwidth",),
    "ost": ("ost.request_seconds",),
    "locks": ("locks.seconds",),
    "rounds": ("mpi.aggregator_bandwidth", "network.sync_seconds"),
    "cache": ("client.memory_bandwidth",),
    "metadata": ("mds.open_seconds", "mds.rate"),
}
"""What else moves a bound: keys to free where the bandwidths say nothing."""

_RIDGE = 0.02
_STEPS = np.log(4.0)
_LIMIT = np.log(300.0)
_SEEN = 1e-3
_MOST_STEPS = 40


@dataclass(frozen=True, eq=False)
class Measured:
    """Measurements that can be simulated.

    Attributes
    ----------
    name : str
        For messages.
    batches : tuple of (ndarray of int, RunBatch)
        Configurations of one direction each: their places, and what they ran.
    values : ndarray of float, shape (n,)
        ln(bandwidth in bytes a second) of each configuration.
    """

    name: str
    batches: tuple[tuple[NDArray[np.int64], RunBatch], ...]
    values: Floats


@dataclass(frozen=True)
class Errors:
    """How far predictions are from measurements.

    Attributes
    ----------
    configurations : int
    typical_factor : float
        The median of the factor between the two, at least 1.
    within : float
        Share of configurations predicted within a factor of 1.5.
    r2_log : float or None
        Share of the variance of the log that is explained; None where all measurements are equal.
    """

    configurations: int
    typical_factor: float
    within: float
    r2_log: float | None

    @classmethod
    def of(cls, predicted: Floats, actual: Floats) -> Errors:
        """Compare logarithms of predictions and measurements."""
        off = np.abs(predicted - actual)
        spread = float(np.sum((actual - actual.mean()) ** 2))
        explained = None if spread == 0 else 1 - float(np.sum(off**2)) / spread
        return cls(len(off), float(np.exp(np.median(off))), float(np.mean(off <= np.log(1.5))), explained)


@dataclass(frozen=True)
class Fit:
    """A calibrated site.

    Attributes
    ----------
    site : Site
        With the fitted values.
    values : dict of str to float
        Fitted values by key, in bytes a second or seconds.
    unseen : tuple of str
        Keys of which the measurements say nothing, for another bound was slower everywhere: left as they were.
    before, after, held_out : Errors
        Of the site as it was, of the fit on the rows it was made from, and of fits on the rows they had not seen.
    folds : int
    bounds : dict of str to float
        Share of the configurations in which each bound acts on the calibrated site, the most frequent first.
    """

    site: Site
    values: dict[str, float]
    unseen: tuple[str, ...]
    before: Errors
    after: Errors
    held_out: Errors
    folds: int
    bounds: dict[str, float]


def fit(
    data: Measured,
    site: Site,
    *,
    free: Sequence[str] = BANDWIDTHS,
    folds: int = 5,
    seed: int = 0,
) -> Fit:
    """Calibrate a site to measurements.

    Parameters
    ----------
    data : Measured
    site : Site
        Where the fit starts; all that is not fitted stays.
    free : sequence of str
        Keys of the site to fit, as ``ost.write_bandwidth``.
    folds : int
        Parts of the configurations, each of which is predicted from the others.
    seed : int
        Of the division into parts.

    Raises
    ------
    UserError
        If a key is not a positive number of the site, or there are too few configurations to hold parts of them out.
    """
    start = np.log([_get(site, key) for key in free])
    count = len(data.values)
    if count < max(folds, 2) or folds < 2:
        raise UserError(
            f"table {data.name} has {count} configurations, too few to hold one of {folds} parts out",
            "measure more configurations, or choose fewer --folds (at least 2)",
        )
    every = np.arange(count)
    found, seen, shift = _solve(data, every, site, free, start, (0.0, -_STEPS, _STEPS))
    parts = np.random.default_rng(seed).permutation(count) % folds
    held = np.empty(count)
    for part in range(folds):
        inside = np.flatnonzero(parts != part)
        partial, told, _ = _solve(data, inside, site, free, start, (shift,))
        held[parts == part] = _predict(data, _changed(site, free, partial, told))[parts == part]
    best = _changed(site, free, found, seen)
    return Fit(
        best,
        {key: float(np.exp(value)) for key, value, known in zip(free, found, seen, strict=True) if known},
        tuple(key for key, known in zip(free, seen, strict=True) if not known),
        Errors.of(_predict(data, site), data.values),
        Errors.of(_predict(data, best), data.values),
        Errors.of(held, data.values),
        folds,
        _bounds(data, best),
    )


def _solve(
    data: Measured,
    rows: NDArray[np.int64],
    site: Site,
    free: Sequence[str],
    start: Floats,
    shifts: Sequence[float],
) -> tuple[Floats, NDArray[np.bool_], float]:
    """Fit on some rows; also say which keys these rows tell anything of, and which shift of the start was best.

    Bounds hide one another: where another one is slower, a bandwidth has no gradient. So the fit starts from several
    points, with all bandwidths too high and too low as well, and a weak pull towards the site's own values settles
    what the rows leave open.
    """

    def residuals(logs: Floats) -> Floats:
        off = _predict(data, _with(site, free, logs))[rows] - data.values[rows]
        return np.concatenate([off / np.sqrt(len(rows)), _RIDGE * (logs - start)])

    best: Any = None
    best_shift = 0.0
    for shift in shifts:
        from scipy.optimize import least_squares  # noqa: PLC0415  slow to load

        found = least_squares(
            residuals,
            start + shift,
            bounds=(start - _LIMIT, start + _LIMIT),
            loss="soft_l1",
            f_scale=0.5,
            diff_step=1e-3,
            xtol=1e-4,
            ftol=1e-5,
            max_nfev=_MOST_STEPS,
        )
        if best is None or found.cost < best.cost:
            best, best_shift = found, shift
    at = _predict(data, _with(site, free, best.x))[rows]
    seen = np.zeros(len(free), dtype=bool)
    for index in range(len(free)):
        for step in (-0.05, 0.05):
            moved = best.x.copy()
            moved[index] += step
            seen[index] |= bool(np.abs(_predict(data, _with(site, free, moved))[rows] - at).max() > _SEEN)
    return best.x, seen, best_shift


def _predict(data: Measured, site: Site) -> Floats:
    """Logarithms of the bandwidth in bytes a second, shape (n,)."""
    predicted = np.empty(len(data.values))
    for rows, batch in data.batches:
        outcome = simulate(site, batch)
        predicted[rows] = np.log(outcome.bytes / outcome.seconds)
    return predicted


def _bounds(data: Measured, site: Site) -> dict[str, float]:
    acting = np.concatenate([simulate(site, batch).binding for _, batch in data.batches])
    names, counts = np.unique(acting, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {str(names[index]): float(counts[index] / len(acting)) for index in order}


def _get(site: Site, key: str) -> float:
    value: Any = site
    for part in key.split("."):
        value = getattr(value, part, None)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise UserError(
            f"'{key}' is not a positive number of a site, so it cannot be fitted",
            f"choose from keys of the site's file, as {', '.join(BANDWIDTHS)}, mds.open_seconds, locks.seconds",
        )
    return float(value)


def _changed(site: Site, free: Sequence[str], logs: Floats, seen: NDArray[np.bool_]) -> Site:
    """The site with the values that the rows tell something of; the others stay exactly as they were."""
    return _with(site, [key for key, known in zip(free, seen, strict=True) if known], logs[seen])


def _with(site: Site, free: Sequence[str], logs: Floats) -> Site:
    """The site with other values; nothing is checked again, for this is called thousands of times."""
    tables: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    for key, value in zip(free, np.exp(logs), strict=True):
        table, _, name = key.rpartition(".")
        (tables.setdefault(table, {}) if table else top)[name] = float(value)
    changed = {name: getattr(site, name).model_copy(update=update) for name, update in tables.items()}
    return site.model_copy(update={**top, **changed})


def site_toml(site: Site, comments: Sequence[str] = ()) -> str:
    """Write a site as its file: what is not the shared default.

    Raises
    ------
    UserError
        If a site cannot have one of the values.
    """
    fields = site.model_dump(exclude_defaults=True)
    try:
        Site.model_validate(fields)
    except ValidationError as error:
        raise explain_validation(error, f"site {site.name}") from error
    lines = [f"# {comment}" for comment in comments]
    _append(lines, fields, "")
    return "\n".join(lines) + "\n"


def _append(lines: list[str], fields: dict[str, Any], table: str) -> None:
    plain = {key: value for key, value in fields.items() if not isinstance(value, dict) and value is not None}
    if table and plain:
        lines += ["", f"[{table}]"]
    lines += [f"{key} = {toml_value(value)}" for key, value in plain.items()]
    for key, value in fields.items():
        if isinstance(value, dict):
            _append(lines, value, f"{table}.{key}" if table else key)
