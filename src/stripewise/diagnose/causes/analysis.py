"""What the times of single operations tell: classes, clusters, departures from the models, and rules for speed."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.diagnose.causes.models import UNDECIDED, Calibration
from stripewise.errors import UserError
from stripewise.observe.darshan_logs import is_log, read_requests
from stripewise.sizes import parse_size
from stripewise.trial import MOST

COLUMNS = ("operation", "size", "seconds", "offset")
_NEEDED = COLUMNS[:3]
_MOST_OPERATIONS = 5_000_000
_COARSE, _ROUNDED = 1e-4, 1e-6
"""Seconds: darshan-dxt-parser prints four digits, and the page cache answers faster; what rounding errors leave."""


@dataclass(frozen=True)
class Timing:
    """One operation.

    Attributes
    ----------
    operation : {"read", "write"}
    size : int
        Bytes.
    offset : int or None
        Place in the file.
    series : object
        Whose it is, such as a rank and a file. Neighbours that differ in it have nothing to do with each other.
    """

    operation: str
    size: int
    seconds: float
    offset: int | None = None
    series: object = None

    @property
    def bandwidth(self) -> float:
        """MiB/s."""
        return self.size / self.seconds / 2**20


def patterns(timings: Sequence[Timing]) -> list[str]:
    """Say how each operation lies to the last one: ``first``, ``forward``, ``same``, ``gap``, ``reverse`` or ``jump``.

    ``gap`` is a jump ahead by at most 16 times the size, ``reverse`` the piece just before; ``unknown`` without
    offsets.
    """
    found: list[str] = []
    before: Timing | None = None
    for timing in timings:
        found.append(_pattern(before, timing))
        before = timing
    return found


def _pattern(before: Timing | None, now: Timing) -> str:
    if now.offset is None:
        return "unknown"
    if before is None or before.offset is None or before.series != now.series:
        return "first"
    step = now.offset - before.offset
    if step == 0:
        return "same"
    if step == before.size:
        return "forward"
    if step == -now.size:
        return "reverse"
    if before.size < step <= 16 * before.size:
        return "gap"
    return "jump"


def read_timings(path: Path) -> list[Timing]:
    """Read timings from a CSV file with the columns operation, size, seconds and, where known, offset.

    A Darshan log with a trace (``DXT_ENABLE_IO_TRACE=1``), or a DXT trace, has them too: the first million.

    Raises
    ------
    UserError
        Naming the line that is wrong, or why a trace tells no times.
    """
    if is_log(path):
        return _of_trace(path)
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            return _parse(csv.DictReader(file), str(path))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "check the path") from error
    except csv.Error as error:
        raise UserError(f"{path} is not a CSV file: {error}") from error


def _of_trace(path: Path) -> list[Timing]:
    requests = sorted(read_requests(path), key=lambda request: (request[0], request[1], request[5]))
    found = [
        Timing(way, size, end - start, offset, (rank, file))
        for rank, file, way, size, offset, start, end in requests
        if size > 0 and end > start
    ]
    if not found:
        raise UserError(f"{path} holds no requests that took time", "is it the right file?")
    ticks = np.array([timing.seconds for timing in found]) / _COARSE
    if np.abs(ticks - np.round(ticks)).max() < _ROUNDED:
        raise UserError(
            f"the times of {path} are rounded to {_COARSE * 1e3:g} ms, which is too coarse", "give the log itself"
        )
    return found


def _parse(reader: csv.DictReader[str], origin: str) -> list[Timing]:
    names = {(name or "").strip().lower(): name for name in reader.fieldnames or []}
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise UserError(
            f"{origin} has no column '{missing[0]}'", f"timings have {', '.join(COLUMNS)}; offset may be left out"
        )
    found: list[Timing] = []
    for row in reader:
        where = f"{origin} line {reader.line_num}"
        if len(found) >= _MOST_OPERATIONS:
            raise UserError(f"{origin} has more than {_MOST_OPERATIONS:,} operations", "give a part of it")
        operation = (row[names["operation"]] or "").strip().lower()
        if operation not in ("read", "write"):
            raise UserError(f"{where}: operation is '{operation}'", "write read or write")
        try:
            seconds = float(row[names["seconds"]] or "")
            size = parse_size(row[names["size"]] or "")
            offset = int(row[names["offset"]]) if "offset" in names and (row[names["offset"]] or "").strip() else None
        except ValueError as error:
            raise UserError(f"{where}: {error}", "write numbers") from error
        except UserError as error:
            raise UserError(f"{where}: {error.what}", error.fix) from error
        if seconds <= 0 or size <= 0:
            raise UserError(f"{where}: size and seconds must be above 0")
        if not 1 / MOST < seconds < MOST:
            raise UserError(f"{where}: no call takes {seconds:g} s", "write its time")
        found.append(Timing(operation, size, seconds, offset))
    if not found:
        raise UserError(f"{origin} holds no operations", "is it the right file?")
    return found


SPEEDS = ("slow", "average", "fast")
_DEPTH = 3
_RULES_FEW = 40


@dataclass(frozen=True)
class SpeedRules:
    """A tree over what is known of an operation before it is made.

    Attributes
    ----------
    edges : (float, float)
        MiB/s between slow and average, and between average and fast.
    text : str
        The rules; a leaf has the class that dominates and the part of each class.
    accuracy : float
        Balanced, under five-fold cross-validation; a third is chance.
    """

    edges: tuple[float, float]
    text: str
    accuracy: float


def speed_rules(timings: Sequence[Timing], edges: tuple[float, float] | None = None) -> SpeedRules | None:
    """Learn the rules (CART).

    Parameters
    ----------
    timings : sequence of Timing
        In order of time.
    edges : (float, float), optional
        MiB/s; by default the quartiles of what was observed.

    Returns
    -------
    SpeedRules or None
        None for fewer than 40 operations, or where all belong to one class.
    """
    from sklearn.model_selection import StratifiedKFold, cross_val_score  # noqa: PLC0415  slow to load
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415

    if len(timings) < _RULES_FEW:
        return None
    bandwidth = np.array([timing.bandwidth for timing in timings])
    low, high = edges or (float(np.quantile(bandwidth, 0.25)), float(np.quantile(bandwidth, 0.75)))
    speed = np.digitize(bandwidth, [low, high], right=True)
    ways = patterns(timings)
    names = ["size", "write", *(f"pattern={way}" for way in sorted(set(ways)))]
    table = np.array(
        [
            [t.size, t.operation == "write", *(way == name.partition("=")[2] for name in names[2:])]
            for t, way in zip(timings, ways, strict=True)
        ],
        float,
    )
    counts = np.bincount(speed, minlength=3)
    if (counts > 0).sum() < 2:
        return None
    leaf = max(5, len(timings) // 50)
    tree = DecisionTreeClassifier(max_depth=_DEPTH, min_samples_leaf=leaf, class_weight="balanced", random_state=0)
    folds = min(5, int(counts[counts > 0].min()))
    accuracy = float("nan")
    if folds >= 2:
        shuffled = StratifiedKFold(folds, shuffle=True, random_state=0)
        accuracy = float(np.mean(cross_val_score(tree, table, speed, cv=shuffled, scoring="balanced_accuracy")))
    tree.fit(table, speed)
    return SpeedRules((low, high), "\n".join(_lines(tree, names, counts)), accuracy)


def _lines(tree: object, names: Sequence[str], counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[str]:
    inner = tree.tree_  # type: ignore[attr-defined]
    classes = tree.classes_  # type: ignore[attr-defined]

    def shares(node: int) -> NDArray[np.float64]:
        # The tree weighs classes alike: the parts shown are of operations, as they were.
        parts = inner.value[node][0] * np.array([counts[c] for c in classes], float)
        return np.asarray(parts / parts.sum(), float)

    def verdicts(node: int) -> set[int]:
        if inner.children_left[node] < 0:
            return {int(np.argmax(shares(node)))}
        return verdicts(inner.children_left[node]) | verdicts(inner.children_right[node])

    def walk(node: int, depth: int) -> list[str]:
        indent = "  " * depth
        # A split whose sides say the same tells the reader nothing.
        if len(verdicts(node)) == 1:
            parts = shares(node)
            said = ", ".join(f"{SPEEDS[c]} {part:.0%}" for c, part in zip(classes, parts, strict=True) if part >= 0.005)
            return [f"{indent}{SPEEDS[int(classes[int(np.argmax(parts))])]} ({said})"]
        name, edge = names[inner.feature[node]], inner.threshold[node]
        yes, no = (f"{name} <= {edge:,.0f}", f"{name} > {edge:,.0f}") if name == "size" else (f"not {name}", name)
        return [
            f"{indent}{yes}:", *walk(inner.children_left[node], depth + 1),
            f"{indent}{no}:", *walk(inner.children_right[node], depth + 1),
        ]  # fmt: skip

    return walk(0, 0)


_MOST = 5
_SAMPLE = 20_000

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


_FAR = 4.0
_SLOWER = 2.0
_RUN = 16


@dataclass(frozen=True)
class Anomaly:
    """Operations that took much longer than their condition explains.

    Attributes
    ----------
    cause : str
        ``read-ahead``, ``write-behind`` or ``slow``.
    ratio : float
        Median of the time over the expected one.
    seconds : float
        Lost in all.
    examples : tuple of int
        Places in the series.
    """

    cause: str
    says: str
    count: int
    ratio: float
    seconds: float
    examples: tuple[int, ...]


_SAYS = {
    "read-ahead": "reverse reads wait longer than single reads do: read-ahead fetches what lies behind "
    "and is not asked for",
    "write-behind": "writes that followed a run of fast ones waited: the limit of write-behind was "
    "reached and storage set the pace",
    "slow": "operations took far longer than the slowest calibrated condition: another job, the network or the device",
}


def anomalies(timings: Sequence[Timing], classes: Sequence[str], calibration: Calibration) -> list[Anomaly]:
    """Find departures from the models.

    A read is compared with the uncached model: there is nothing slower in the calibration. A write is compared with
    the cached one where the writes before it went to the cache.

    Parameters
    ----------
    timings : sequence of Timing
        In order of time.
    classes : sequence of str
        The class of each, as :meth:`Calibration.classify` gives it.
    """
    ways = patterns(timings)
    found: dict[str, list[tuple[int, float, float]]] = {}
    for i, timing in enumerate(timings):
        models = calibration.models.get(timing.operation, {})
        cause, name = None, "uncached"
        if timing.operation == "write" and _cached_before(timings, classes, i):
            cause, name = "write-behind", "cached"
        elif timing.operation == "read" and ways[i] == "reverse":
            cause = "read-ahead"
        model = models.get(name)
        if model is None:
            continue
        expected = float(model.time(timing.size))
        far = np.log(timing.seconds / expected) / model.spread
        reverse = cause == "read-ahead" and timing.seconds > _SLOWER * expected
        if (far > _FAR and timing.seconds > _SLOWER * expected) or reverse:
            found.setdefault(cause or "slow", []).append((i, timing.seconds / expected, timing.seconds - expected))
    return [
        Anomaly(
            cause,
            _SAYS[cause],
            len(own),
            float(np.median([ratio for _, ratio, _ in own])),
            float(sum(lost for _, _, lost in own)),
            tuple(i for i, _, _ in own[:5]),
        )
        for cause, own in sorted(found.items())
    ]


def _cached_before(timings: Sequence[Timing], classes: Sequence[str], place: int) -> bool:
    before = range(max(0, place - _RUN), place)
    fast = [
        classes[i] in ("cached", "discarded", "memory", UNDECIDED) for i in before if timings[i].operation == "write"
    ]
    return len(fast) >= _RUN // 2 and sum(fast) >= 0.75 * len(fast)


_FEW = 20
_SIZES = 12


@dataclass(frozen=True)
class CauseFactor:
    """A cluster of repeated operations, with the condition whose model is nearest, where the site is calibrated."""

    operation: str
    size: int
    cluster: Cluster
    condition: str | None


@dataclass(frozen=True)
class Causes:
    """What the times of operations tell.

    Attributes
    ----------
    counts : dict
        Direction to class to number of operations; empty without a calibration.
    seconds : dict
        The same in seconds.
    places : dict
        Direction to place in the file (:func:`patterns`) to class to number of operations.
    best : dict
        Direction to the seconds that its operations would take if the page cache had answered all: the best case
        that optimisation on the client can give.
    classes : tuple of str
        Class of each operation; empty without a calibration.
    """

    counts: dict[str, dict[str, int]]
    places: dict[str, dict[str, dict[str, int]]]
    seconds: dict[str, dict[str, float]]
    best: dict[str, float]
    factors: tuple[CauseFactor, ...]
    anomalies: tuple[Anomaly, ...]
    rules: SpeedRules | None
    classes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        return {
            "counts": self.counts,
            "places": self.places,
            "seconds": self.seconds,
            "best_case_seconds": self.best,
            "factors": [asdict(factor) for factor in self.factors],
            "anomalies": [asdict(anomaly) for anomaly in self.anomalies],
            "rules": None if self.rules is None else asdict(self.rules),
        }


def classify(timings: Sequence[Timing], calibration: Calibration) -> list[str]:
    """Give each operation its class.

    Raises
    ------
    UserError
        If the calibration lacks a direction.
    """
    classes = [UNDECIDED] * len(timings)
    for way in {timing.operation for timing in timings}:
        own = [i for i, timing in enumerate(timings) if timing.operation == way]
        given = calibration.classify(way, [timings[i].size for i in own], [timings[i].seconds for i in own])
        for i, name in zip(own, given, strict=True):
            classes[i] = name
    return classes


def analyse(timings: Sequence[Timing], calibration: Calibration | None = None) -> Causes:
    """Say what the times tell; without a calibration clusters and rules alone.

    Parameters
    ----------
    timings : sequence of Timing
        In order of time.
    calibration : Calibration, optional
        Of the site they come from.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    places: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    best: dict[str, float] = defaultdict(float)
    odd: list[Anomaly] = []
    classes: list[str] = []
    if calibration is not None:
        classes = classify(timings, calibration)
        for timing, name, place in zip(timings, classes, patterns(timings), strict=True):
            counts[timing.operation][name] += 1
            places[timing.operation][place][name] += 1
            seconds[timing.operation][name] += timing.seconds
            model = calibration.models[timing.operation].get("cached")
            best[timing.operation] += min(timing.seconds, float(model.time(timing.size))) if model else timing.seconds
        odd = anomalies(timings, classes, calibration)
    return Causes(
        {way: dict(of) for way, of in counts.items()},
        {way: {place: dict(own) for place, own in of.items()} for way, of in places.items()},
        {way: dict(of) for way, of in seconds.items()},
        dict(best),
        tuple(_factors(timings, calibration)),
        tuple(odd),
        speed_rules(timings),
        tuple(classes),
    )


def _factors(timings: Sequence[Timing], calibration: Calibration | None) -> list[CauseFactor]:
    repeated: dict[tuple[str, int], list[float]] = defaultdict(list)
    for timing in timings:
        repeated[timing.operation, timing.size].append(timing.seconds)
    often = sorted((key for key, own in repeated.items() if len(own) >= _FEW), key=lambda key: -len(repeated[key]))
    found = []
    for way, size in sorted(often[:_SIZES]):
        for cluster in clusters(repeated[way, size]):
            condition = None
            if calibration is not None and calibration.models.get(way):
                condition = calibration.classify(way, [size], [cluster.seconds])[0]
            found.append(CauseFactor(way, size, cluster, condition))
    return found
