"""How good the settings are that a model picks for workloads it has never seen: performance achieved over the best.

Only measured configurations can be judged, so the model picks among those measured for the workload. The value of a
configuration is the median over all its runs, once folded. The best is picked on odd repeats and scored on even ones,
so that luck does not count, and no choice scores more than 100%. Shown beside it: what knowing all true values would
score under this noise, every static choice (one configuration for all workloads), the best of them in hindsight, the
declared default, and trees of growing depth that name a configuration by the workload alone.

What a prescriber could score that knew every true value: measured medians are luck in part, the best one most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value
from stripewise.errors import UserError
from stripewise.models.cells import Data
from stripewise.models.domain import Domain
from stripewise.models.features import Encoder, at_least_one, make_encoder
from stripewise.models.landscape import Landscape
from stripewise.models.table import Table
from stripewise.models.trees.ensemble import Trees
from stripewise.models.trees.tree import list_tree_rules, write_conditions

_LEAST_REPEATS = 8
_MEDIAN = np.pi / 2
"""Variance of the median of normal values, over that of their mean."""


def log_performance(landscape: Landscape) -> Floats:
    """Give ln(performance) of each point in each repeat, shape ``(points, repeats)``; NaN where it was not measured.

    What folds to one point in one repeat is averaged. Larger is better.
    """
    table = landscape.table
    repeats, repeat = np.unique(table.repeats, return_inverse=True)
    shape = (len(landscape.truth), len(repeats))
    place = landscape.groups * shape[1] + repeat.reshape(-1)
    count = np.bincount(place, minlength=shape[0] * shape[1])
    sign = 1.0 if table.objective.maximize else -1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        total = np.bincount(place, sign * np.log(table.values), minlength=shape[0] * shape[1])
        found: Floats = (total / count).reshape(shape)
    return found


def score_true_best(
    workloads: Sequence[Floats], seed: int = 0, draws: int = 50, least: int = _LEAST_REPEATS
) -> Floats | None:
    """Score choices that are the best in truth, on made-up runs that scatter as the measured ones did.

    Parameters
    ----------
    workloads : sequence of ndarray, shape (points, repeats)
        See :func:`log_performance`.
    least : int
        Repeats that every workload needs; with fewer than eight the scores are rough.

    Returns
    -------
    ndarray, shape (draws, workloads), or None
        Achieved over best; None if some workload has too few repeats, or values that are not positive.

    Notes
    -----
    True values are the medians, drawn together by as much as noise alone spreads them (empirical Bayes). Repeats are
    drawn whole: what disturbed one disturbed all configurations. The judge is that of prescriptions: the best is picked
    in half of the repeats and scored in the others.
    """
    if any(logs.shape[1] < least or not np.isfinite(np.nanmin(logs)) for logs in workloads):
        return None
    rng = np.random.default_rng(seed)
    ratios = np.ones((draws, len(workloads)))
    for number, logs in enumerate(workloads):
        medians = np.nanmedian(logs, axis=1)
        if len(medians) < 2:
            continue
        residuals = logs - medians[:, None]
        middle = float(np.mean(medians))
        spread = float(np.var(medians, ddof=1))
        luck = _MEDIAN * float(np.nanmean(residuals**2)) / logs.shape[1]
        truth = middle + np.sqrt(max(0.0, 1.0 - luck / spread) if spread > 0 else 0.0) * (medians - middle)
        choice = int(np.argmax(truth))
        for draw in range(draws):
            made = truth[:, None] + residuals[:, rng.integers(0, logs.shape[1], logs.shape[1])]
            ratios[draw, number] = _judge_choice(made, choice)
    return ratios


def _judge_choice(logs: Floats, choice: int) -> float:
    picked, scored = _medians(logs[:, 1::2]), _medians(logs[:, ::2])
    both = np.isfinite(picked) & np.isfinite(scored)
    own = _medians(logs[choice : choice + 1])[0]
    if not both.any() or not np.isfinite(own):
        return 1.0
    best = int(np.argmax(np.where(both, picked, -np.inf)))
    return float(min(1.0, np.exp(own - scored[best])))


def _medians(logs: Floats) -> Floats:
    """Median of each row, NaN for rows without any value."""
    whole = np.isfinite(logs).all(axis=1)
    found = np.full(len(logs), np.nan)
    found[whole] = np.median(logs[whole], axis=1)
    for row in np.flatnonzero(~whole):
        values = logs[row][np.isfinite(logs[row])]
        if len(values):
            found[row] = float(np.median(values))
    return found


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quality:
    """Performance achieved over the best, in percent, over workloads.

    Attributes
    ----------
    arithmetic, harmonic, worst : float
        Means and minimum.
    """

    arithmetic: float
    harmonic: float
    worst: float
    workloads: int

    @classmethod
    def of(cls, ratios: Floats) -> Quality:
        """Sum up ratios, each above 0 and at most 1."""
        return cls(
            100.0 * float(np.mean(ratios)),
            100.0 * float(1.0 / np.mean(1.0 / ratios)),
            100.0 * float(np.min(ratios)),
            len(ratios),
        )

    def as_json(self) -> dict[str, float]:
        """The three numbers."""
        return {"arithmetic": self.arithmetic, "harmonic": self.harmonic, "worst": self.worst}


@dataclass(frozen=True)
class Static:
    """One configuration for all workloads.

    Attributes
    ----------
    best, worst_of_all : int
        Workloads for which no configuration is better, or worse.
    mean : float
        Mean value, in the objective's unit.
    loss : float
        Mean difference to the best, in the objective's unit.
    default : bool
        Whether it is the declared default.
    """

    configuration: Mapping[str, Value]
    quality: Quality
    best: int
    worst_of_all: int
    mean: float
    loss: float
    default: bool = False

    def as_json(self) -> dict[str, Any]:
        """By name."""
        own = {name: value for name, value in vars(self).items() if name != "quality"}
        return {**own, "configuration": dict(self.configuration), **self.quality.as_json()}


@dataclass(frozen=True)
class Leaf:
    """A leaf of a tree that names a configuration by the workload.

    Attributes
    ----------
    when : str
        Its condition; empty for a tree of one leaf.
    workloads, best : int
        Measured workloads that reach it, and those for which no configuration is better.
    achieved : float
        Mean of achieved over best for them, in percent.
    """

    when: str
    configuration: Mapping[str, Value]
    workloads: int
    best: int
    achieved: float

    def as_json(self) -> dict[str, Any]:
        """By name."""
        return {**vars(self), "configuration": dict(self.configuration)}


@dataclass(frozen=True)
class Prescribing:
    """Quality of prescriptions for held-out workloads.

    Attributes
    ----------
    quality : Quality
        Of the model's choices.
    static : list of Static
        Choices that were measured for every workload, the best arithmetic mean first; empty if there is none.
    by_depth : dict of int to Quality
        Of trees by their largest depth.
    chosen : list of dict
        Each workload with the choice and its ratio.
    oracle : Quality or None
        Of choices that are the best in truth, see :func:`~stripewise.models.prescription_quality.score_true_best`.
    leaves : list of Leaf
        The tree to read: of all workloads, as deep as pays (see :func:`_find_depth`).
    """

    quality: Quality
    static: list[Static] = field(default_factory=list)
    by_depth: dict[int, Quality] = field(default_factory=dict)
    chosen: list[dict[str, Any]] = field(default_factory=list)
    oracle: Quality | None = None
    leaves: list[Leaf] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Give the part ``prescription`` of ``validate --json``."""
        default = next((s for s in self.static if s.default), None)
        return {
            **self.quality.as_json(),
            "workloads": self.quality.workloads,
            "oracle": None if self.oracle is None else self.oracle.as_json(),
            "best_static": self.static[0].as_json() if self.static else None,
            "default": None if default is None else default.as_json(),
            "static": [static.as_json() for static in self.static],
            "by_depth": {str(depth): quality.as_json() for depth, quality in self.by_depth.items()},
            "tree": [leaf.as_json() for leaf in self.leaves],
            "chosen": self.chosen,
        }


@dataclass(frozen=True, eq=False)
class _Workload:
    context: Mapping[str, Value]
    rows: NDArray[np.int64]
    """Of the table."""
    point: NDArray[np.int64]
    """Configuration of each of these rows, among all configurations of the table."""
    ratio: Floats
    """Achieved over best by configuration of the table; NaN where not measured."""
    truth: Floats
    fold: int
    logs: Floats
    """See :func:`~stripewise.models.prescription_quality.log_performance`."""


def judge_choices(
    table: Table, fold: NDArray[np.int64], predicted: Floats, depths: Sequence[int] = (), seed: int = 0
) -> Prescribing:
    """Judge choices for held-out workloads.

    Parameters
    ----------
    fold : ndarray of int, shape (n,)
        Rows of a workload are in one fold.
    predicted : ndarray, shape (n,)
        Value predicted for each row by a model that did not see its fold; NaN where impossible.
    depths : sequence of int
        Largest depths of trees to judge.
    seed : int
        Of these trees.

    Raises
    ------
    UserError
        If no workload can be judged.
    """
    configurations, names = _configurations(table)
    works = [_workload(table, context, configurations, fold) for context in table.contexts()]
    maximize = table.objective.maximize
    ratios, chosen, judged = [], [], []
    for work in works:
        values = predicted[work.rows]
        known = np.isfinite(values)
        if not known.any():
            continue
        best = int(np.argmax(np.where(known, values if maximize else -values, -np.inf)))
        point = int(work.point[best])
        ratios.append(work.ratio[point])
        judged.append(work.logs)
        chosen.append(
            {
                "workload": dict(work.context),
                "configuration": names[point],
                "achieved": 100.0 * float(work.ratio[point]),
            }
        )
    if not ratios:
        raise UserError("no workload could be judged", "leave out fewer columns at once")
    by_depth = {depth: Quality.of(_by_depth(table, works, depth, seed)) for depth in depths}
    return Prescribing(
        Quality.of(np.asarray(ratios)),
        _list_static(table, works, names),
        by_depth,
        chosen,
        _oracle(judged, seed),
        _list_leaves(table, works, names, _find_depth(by_depth), seed) if by_depth else [],
    )


def _oracle(workloads: Sequence[Floats], seed: int) -> Quality | None:
    draws = score_true_best(workloads, seed)
    if draws is None:
        return None
    each = [Quality.of(ratios) for ratios in draws]
    arithmetic, harmonic, worst = np.mean([(one.arithmetic, one.harmonic, one.worst) for one in each], axis=0).tolist()
    return Quality(arithmetic, harmonic, worst, len(workloads))


def _configurations(table: Table) -> tuple[NDArray[np.int64], list[dict[str, Value]]]:
    """Number of each row's folded configuration, and all configurations as values."""
    domain = Domain.of(table)
    points = domain.folded(domain.table_points(table))[:, domain.contexts :]
    unique, number = np.unique(points, axis=0, return_inverse=True)
    names = []
    for row in unique:
        entry: dict[str, Value] = {}
        for index, column in enumerate(table.schema.parameter):
            entry[column.name] = _value(column.values, column.kind, float(row[index]))
        names.append(entry)
    return np.asarray(number, dtype=np.int64).reshape(-1), names


def _value(values: Sequence[Value], kind: str, number: float) -> Value:
    if kind == "categorical":
        return values[int(number)]
    return next((v for v in values if float(v) == number), number)


def _workload(
    table: Table, context: Mapping[str, Value], configuration: NDArray[np.int64], fold: NDArray[np.int64]
) -> _Workload:
    rows = np.flatnonzero(table.of(context))
    landscape = Landscape.of(table, context)
    best = landscape.optimum
    kinds = int(configuration.max()) + 1
    truth = np.full(kinds, np.nan)
    own = configuration[rows]
    for number in np.unique(own):
        truth[number] = float(np.median(table.values[rows[own == number]]))
    ratio = truth / best if table.objective.maximize else best / truth
    return _Workload(context, rows, own, np.minimum(ratio, 1.0), truth, int(fold[rows[0]]), log_performance(landscape))


def _list_static(table: Table, works: Sequence[_Workload], names: Sequence[Mapping[str, Value]]) -> list[Static]:
    ratio = np.stack([work.ratio for work in works])
    truth = np.stack([work.truth for work in works])
    everywhere = np.flatnonzero(np.all(np.isfinite(ratio), axis=0))
    declared = {c.name: c.default for c in table.schema.parameter if c.default is not None}
    sign = 1.0 if table.objective.maximize else -1.0
    top, bottom = np.nanmax(sign * truth, axis=1), np.nanmin(sign * truth, axis=1)
    found = []
    for point in map(int, everywhere):
        value = sign * truth[:, point]
        found.append(
            Static(
                names[point],
                Quality.of(ratio[:, point]),
                int(np.sum(value == top)),
                int(np.sum(value == bottom)),
                float(np.mean(truth[:, point])),
                float(np.mean(top - value)),
                bool(declared) and all(names[point][name] == value for name, value in declared.items()),
            )
        )
    return sorted(found, key=lambda static: -static.quality.arithmetic)


@dataclass(frozen=True, eq=False)
class _Choices:
    """What trees from the workload to a configuration learn from."""

    domain: Domain
    points: Floats
    """Of the workloads, with nothing in the columns that are chosen, shape ``(workloads, columns)``."""
    ratio: Floats
    """Achieved over best, shape ``(workloads, configurations)``; NaN where not measured."""

    @classmethod
    def of(cls, table: Table, works: Sequence[_Workload]) -> _Choices:
        domain = Domain.of(table)
        points = Data.of(domain, table).points[[work.rows[0] for work in works]]
        points[:, domain.contexts :] = 0.0
        return cls(domain, points, np.stack([work.ratio for work in works]))

    def grow(self, train: NDArray[np.bool_], depth: int, seed: int) -> tuple[Encoder, Any]:
        """Grow a tree on some workloads; gives what encodes workloads for it, too.

        A leaf holds the mean ratio of every configuration over its workloads, and prescribes the best of them. What
        was not measured for a workload counts as the mean of the workloads for which it was.
        """
        from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415  slow import

        encoder = make_encoder(self.domain, self.points[train])
        seen = self.ratio[train]
        some = np.isfinite(seen)
        middle = np.where(some.any(axis=0), np.nansum(seen, axis=0) / np.maximum(some.sum(axis=0), 1), 0.0)
        tree = DecisionTreeRegressor(max_depth=depth, random_state=seed)
        return encoder, tree.fit(at_least_one(encoder.encode(self.points[train])), np.where(some, seen, middle))


def _by_depth(table: Table, works: Sequence[_Workload], depth: int, seed: int) -> Floats:
    """Ratios achieved by trees from the workload to a configuration, each grown without the workload's fold."""
    choices = _Choices.of(table, works)
    fold = np.array([work.fold for work in works])
    achieved = []
    for place, work in enumerate(works):
        encoder, tree = choices.grow(fold != work.fold, depth, seed)
        x = at_least_one(encoder.encode(choices.points[place : place + 1]))
        value = np.asarray(tree.predict(x)).reshape(-1)
        value = np.where(np.isfinite(work.ratio), value, -np.inf)
        achieved.append(work.ratio[int(np.argmax(value))])
    return np.asarray(achieved)


_DEPTH_MATTERS = 1.0
"""Percentage points by which a deeper tree must be better for a person to read it."""


def _find_depth(by_depth: Mapping[int, Quality]) -> int:
    """Find the smallest depth whose mean for held-out workloads is within a point of the best depth's."""
    best = max(quality.arithmetic for quality in by_depth.values())
    return min(depth for depth, quality in by_depth.items() if quality.arithmetic >= best - _DEPTH_MATTERS)


def _list_leaves(
    table: Table, works: Sequence[_Workload], names: Sequence[Mapping[str, Value]], depth: int, seed: int
) -> list[Leaf]:
    """List the leaves of the tree of all workloads, from left to right."""
    choices = _Choices.of(table, works)
    encoder, tree = choices.grow(np.ones(len(works), dtype=bool), depth, seed)
    reached = tree.apply(at_least_one(encoder.encode(choices.points)))
    found = []
    for leaf, path in list_tree_rules(Trees.from_sklearn([tree])):
        own = choices.ratio[reached == leaf]
        # A configuration that was not measured for all of the leaf's workloads is named only where none was.
        everywhere = np.isfinite(own).all(axis=0)
        allowed = everywhere if everywhere.any() else np.isfinite(own).any(axis=0)
        mean = np.where(allowed, np.nansum(own, axis=0) / np.maximum(np.isfinite(own).sum(axis=0), 1), -np.inf)
        choice = int(np.argmax(mean))
        best = int(np.sum(own[:, choice] >= np.nanmax(own, axis=1)))
        when = write_conditions(choices.domain, encoder, path)
        found.append(Leaf(when, names[choice], len(own), best, 100.0 * float(mean[choice])))
    return found
