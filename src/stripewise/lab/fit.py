"""Calibration of a site to measurements: the bandwidths that explain a campaign best, and how well they predict.

A measured table becomes batches: what each row ran, and the bandwidth it reached. The fit is least squares in log
space: a factor of two counts alike at 10 MiB/s and at 100 GiB/s. Rows of one configuration are first reduced to their
median, because noise is skewed. The error that is reported is that of configurations which the fit has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from stripewise.catalogue.workload import Workload
from stripewise.documents import explain_validation, toml_value
from stripewise.errors import UserError, choose
from stripewise.lab.batch import APIS, LAYOUTS, RunBatch
from stripewise.lab.engine import simulate
from stripewise.lab.site import Site
from stripewise.models.table import Column, Table

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
    start = np.log([_get_value(site, key) for key in free])
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
        held[parts == part] = _predict(data, _change_site(site, free, partial, told))[parts == part]
    best = _change_site(site, free, found, seen)
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
        off = _predict(data, _set_values(site, free, logs))[rows] - data.values[rows]
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
    at = _predict(data, _set_values(site, free, best.x))[rows]
    seen = np.zeros(len(free), dtype=bool)
    for index in range(len(free)):
        for step in (-0.05, 0.05):
            moved = best.x.copy()
            moved[index] += step
            seen[index] |= bool(np.abs(_predict(data, _set_values(site, free, moved))[rows] - at).max() > _SEEN)
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


def _get_value(site: Site, key: str) -> float:
    value: Any = site
    for part in key.split("."):
        value = getattr(value, part, None)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise UserError(
            f"'{key}' is not a positive number of a site, so it cannot be fitted",
            f"choose from keys of the site's file, as {', '.join(BANDWIDTHS)}, mds.open_seconds, locks.seconds",
        )
    return float(value)


def _change_site(site: Site, free: Sequence[str], logs: Floats, seen: NDArray[np.bool_]) -> Site:
    """The site with the values that the rows tell something of; the others stay exactly as they were."""
    return _set_values(site, [key for key, known in zip(free, seen, strict=True) if known], logs[seen])


def _set_values(site: Site, free: Sequence[str], logs: Floats) -> Site:
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


_UNITS = {
    **{f"{prefix}B/s": 1000.0**power for power, prefix in enumerate(("", "k", "M", "G", "T"))},
    **{f"{prefix}iB/s": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0}
_COLUMNS = ("nodes", "processes_per_node", "file_size", "transfer_size", "piece_size", "file_per_process")
"""Roles, or names, of columns that the batch has too."""
_SETTINGS = {
    "stripe_count": "stripe_count",
    "stripe_size": "stripe_size",
    "aggregators": "cb_nodes",
    "collective_buffer_size": "cb_buffer_size",
}
"""Role to the setting of that meaning."""
_PER_DIRECTION = {
    "collective_buffering": {"read": "romio_cb_read", "write": "romio_cb_write"},
    "data_sieving": {"read": "romio_ds_read", "write": "romio_ds_write"},
    "sieving_buffer_size": {"read": "ind_rd_buffer_size", "write": "ind_wr_buffer_size"},
}
_NEEDED = ("nodes", "processes_per_node", "file_size")


def read_measured(table: Table, workload: Workload) -> Measured:
    """Read a table.

    Columns are understood by their role, else by their name; others are ignored, as the simulated cluster has nothing
    that they could act on.

    Parameters
    ----------
    workload : Workload
        What the table does not say.

    Raises
    ------
    UserError
        If the objective is neither a bandwidth nor a time, or what ran is not known.
    """
    levels = np.concatenate([table.context_levels, table.levels], axis=1)
    distinct, inverse = np.unique(levels, axis=0, return_inverse=True)
    order = inverse.ravel()
    middle = np.array([np.median(table.values[order == row]) for row in range(len(distinct))])
    columns = {_meaning(column): _values(column, distinct[:, i]) for i, column in enumerate(table.schema.columns)}
    missing = [name for name in _NEEDED if name not in columns and getattr(workload, name) is None]
    if missing:
        raise UserError(
            f"table {table.name} does not say {', '.join(missing)} of its runs",
            "give a workload file with --workload, or add contexts with these roles to the table's TOML file",
        )
    batches = _batches(columns, workload, len(distinct), table.name)
    moved = np.empty(len(distinct))
    for rows, batch in batches:
        moved[rows] = np.broadcast_to(batch.bytes, (len(rows),))
    return Measured(table.name, batches, np.log(_bandwidth(table, middle, moved)))


def _meaning(column: Column) -> str:
    return column.name if column.role == "other" else column.role


def _values(column: Column, levels: NDArray[np.int64]) -> NDArray[Any]:
    return np.array(column.values, dtype=object)[levels]


def _batches(
    columns: dict[str, NDArray[Any]], workload: Workload, count: int, name: str
) -> tuple[tuple[NDArray[np.int64], RunBatch], ...]:
    ways = columns.get("operation", np.full(count, workload.operation or "", dtype=object))
    unknown = sorted({str(way) for way in ways} - {"read", "write"})
    if unknown:
        raise UserError(
            f"table {name}: operation {unknown[0] or 'unknown'} is neither read nor write",
            'say it in a column with role "operation", or in --workload',
        )
    found = []
    for way in ("write", "read"):
        rows = np.flatnonzero(ways == way)
        if len(rows):
            found.append((rows, _batch({key: values[rows] for key, values in columns.items()}, workload, way)))
    return tuple(found)


def _batch(columns: dict[str, NDArray[Any]], workload: Workload, way: str) -> RunBatch:
    fields: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for meaning, values in columns.items():
        if meaning in _COLUMNS:
            fields[meaning] = values.astype(float)
        elif meaning == "layout":
            fields["layout"] = _codes(values, LAYOUTS, meaning)
        elif meaning == "api":
            fields["api"] = _codes(values, APIS, meaning)
        elif meaning == "collective":
            fields["collective"] = values.astype(bool)
        else:
            setting = _SETTINGS.get(meaning) or _PER_DIRECTION.get(meaning, {}).get(way) or meaning
            settings[setting] = values
    if "transfer_size" in fields and "piece_size" not in fields and workload.piece_size is None:
        fields["piece_size"] = fields["transfer_size"]
    return RunBatch.make(workload, way, settings, columns=fields)


def _codes(values: NDArray[Any], words: tuple[str, ...], meaning: str) -> NDArray[np.int8]:
    unknown = sorted({str(value) for value in values} - set(words))
    if unknown:
        raise UserError(f"{meaning} does not know '{unknown[0]}'", choose(unknown[0], words))
    return np.array([words.index(str(value)) for value in values], dtype=np.int8)


def _bandwidth(table: Table, values: Floats, moved: Floats) -> Floats:
    objective = table.objective
    if objective.maximize and objective.unit in _UNITS:
        found = values * _UNITS[objective.unit]
    elif not objective.maximize and objective.unit in _TIMES:
        found = moved / (values * _TIMES[objective.unit])
    else:
        raise UserError(
            f"table {table.name}: {objective.name} in '{objective.unit}' is neither a bandwidth nor a time",
            "a site can be fitted to MiB/s, MB/s, GiB/s ... (maximize), or s, ms ... (minimize)",
        )
    if not (found > 0).all():
        raise UserError(f"table {table.name}: a bandwidth is not above zero", "leave failed runs out")
    return found
