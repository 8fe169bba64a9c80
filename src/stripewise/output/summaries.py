"""Five-number summaries of repeated measurements, clusters of them, and the settings that are good whatever the load.

Benchmarks on a shared file system scatter; a configuration is described by minimum, quartiles and maximum of its
repeats, configurations of like behaviour are found by hierarchical clustering of these, and what is recommended is what
stays good at its lower quartile, not what was best once. Reads and writes are kept apart throughout. A default is one
setting for a site, or for a class of its workloads.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.meaning import Situation, acts, parameters
from stripewise.errors import UserError
from stripewise.models.landscape import Landscape, describe_workload
from stripewise.models.table import Column, Table
from stripewise.output.markup import list_changes
from stripewise.result import USUAL_LEVEL, Interval
from stripewise.sizes import format_size

NUMBERS = ("minimum", "q1", "median", "q3", "maximum")


@dataclass(frozen=True)
class FiveNumbers:
    """One configuration in one context.

    Attributes
    ----------
    context : mapping
        The workload, without the operation.
    configuration : mapping
        Of the parameters that mean something here; the others are None.
    numbers : tuple of float
        Minimum, lower quartile, median, upper quartile, maximum, in the objective's unit.
    cluster : int
        From 1, the best first.
    picked, scored : float
        Medians of odd and of even repeats: what is picked by the one is scored by the other, so that luck is not
        crowned. Both are the median where there are not both.
    deviation : float
        Standard deviation of the runs' logarithms; 0 for a single run.
    """

    context: Mapping[str, Value]
    configuration: Mapping[str, Value | None]
    numbers: tuple[float, float, float, float, float]
    runs: int
    cluster: int = 0
    picked: float = 0.0
    scored: float = 0.0
    deviation: float = 0.0

    @property
    def median(self) -> float:
        """The median."""
        return self.numbers[2]

    @property
    def spread(self) -> float:
        """Interquartile range over median."""
        return (self.numbers[3] - self.numbers[1]) / abs(self.numbers[2])

    def as_json(self) -> dict[str, Any]:
        """Give it as plain values."""
        return {
            "context": dict(self.context),
            "configuration": dict(self.configuration),
            **dict(zip(NUMBERS, self.numbers, strict=True)),
            "runs": self.runs,
            "cluster": self.cluster,
        }


def five_numbers(table: Table, apart: str | None = None) -> list[FiveNumbers]:
    """Summarise each configuration of each context; rows that act alike (inactive parameters) count as one.

    A parameter that cannot act on a context's workload by what the catalogue knows is inactive there.

    Parameters
    ----------
    apart : str, optional
        A context column to leave out of the summaries' contexts.
    """
    found: list[FiveNumbers] = []
    for context in table.contexts():
        land = Landscape.of(table, context)
        space = land.space
        active = space.active(space.points)
        dead = _list_dead(table, context)
        shown = {name: value for name, value in context.items() if name != apart}
        alike: dict[str, tuple[dict[str, Value | None], list[int]]] = {}
        for point in np.unique(land.groups):
            chosen = space.configuration(space.points[point])
            acting = {
                name: chosen[name] if on and name not in dead else None
                for name, on in zip(space.names, active[point], strict=True)
            }
            alike.setdefault(make_signature(acting), (acting, []))[1].append(int(point))
        for configuration, points in alike.values():
            rows = np.isin(land.groups, points)
            values, odd = land.table.values[rows], land.table.repeats[rows] % 2 == 1
            both = bool(odd.any() and (~odd).any())
            found.append(
                FiveNumbers(
                    shown,
                    configuration,
                    tuple(float(v) for v in np.quantile(values, [0, 0.25, 0.5, 0.75, 1])),  # type: ignore[arg-type]
                    len(values),
                    picked=float(np.median(values[odd] if both else values)),
                    scored=float(np.median(values[~odd] if both else values)),
                    deviation=float(np.log(values).std(ddof=1)) if len(values) > 1 and np.all(values > 0) else 0.0,
                )
            )
    return found


def _list_dead(table: Table, context: Mapping[str, Value]) -> frozenset[str]:
    """List the parameters that cannot act on a context's workload, whatever values they and the others have."""
    names = frozenset(column.name for column in table.schema.parameter)
    situation = Situation(describe_workload(table, context), unsure=names)
    known = parameters()
    own = (c.name for c in table.schema.parameter if c.carrier is None and c.name in known)
    return frozenset(name for name in own if acts(known[name], None, situation).acts is False)


def best_values(summaries: Sequence[FiveNumbers], maximize: bool, *, scored: bool = False) -> dict[str, float]:
    """The best median of each context; with ``scored``, the best by odd repeats at its value in even ones."""
    groups: dict[str, list[FiveNumbers]] = {}
    for entry in summaries:
        groups.setdefault(make_signature(entry.context), []).append(entry)
    pick = max if maximize else min
    found = {}
    for key, members in groups.items():
        if scored:
            found[key] = pick(members, key=lambda m: m.picked).scored
        else:
            found[key] = pick(m.median for m in members)
    return found


def by_configuration(summaries: Sequence[FiveNumbers]) -> list[list[FiveNumbers]]:
    """Gather what each configuration gave over its workloads, first those in which all that it sets can act.

    A parameter that cannot act in a workload (a property of HDF5 in a program without HDF5) is None there. What was
    measured then holds for each of its values: it joins every configuration that sets the same and more, and is no
    configuration of its own where there is one.
    """
    found: dict[tuple[str, ...], dict[tuple[str, ...], list[FiveNumbers]]] = {}
    for entry in summaries:
        active = tuple(sorted(name for name, value in entry.configuration.items() if value is not None))
        values = tuple(repr(entry.configuration[name]) for name in active)
        found.setdefault(active, {}).setdefault(values, []).append(entry)
    groups: dict[tuple[tuple[str, ...], tuple[str, ...]], list[FiveNumbers]] = {}
    joined: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
    for active, by_values in found.items():
        fewer = [names for names in found if set(names) < set(active)]
        for values, members in by_values.items():
            said = dict(zip(active, values, strict=True))
            parts = [(names, tuple(said[name] for name in names)) for names in fewer]
            joined.update(parts)
            more = [entry for names, key in parts for entry in found[names].get(key, [])]
            groups[active, values] = members + more
    return [group for key, group in groups.items() if key not in joined]


def make_signature(values: Mapping[str, Any]) -> str:
    """Give a text that tells contexts or configurations apart."""
    return repr(sorted(values.items()))


def share(value: float, best: float, maximize: bool) -> float:
    """Value over best, or best over value where less is better."""
    return value / best if maximize else best / value


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean."""
    return float(np.mean(values))


def geometric(values: Sequence[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


_MOST_CLUSTERS = 10
_MOST_LEAVES = 2000
_SILHOUETTE_SAMPLE = 2000


@dataclass(frozen=True)
class Clusters:
    """Groups of configurations that behave alike.

    Attributes
    ----------
    silhouettes : mapping
        Mean silhouette for each number of clusters tried; the largest won.
    centres : tuple of tuple of float
        Five numbers of each cluster: medians over its members.
    tree : ndarray, shape (n - 1, 4)
        The linkage (Ward, on the logarithms of the five numbers), of the configurations or, above 2,000 of them, of
        groups found by k-means first.
    """

    count: int
    silhouettes: Mapping[int, float]
    centres: tuple[tuple[float, ...], ...]
    sizes: tuple[int, ...]
    tree: NDArray[np.float64] = field(repr=False)
    leaves: int


def cluster(numbers: Sequence[Sequence[float]], maximize: bool = True) -> tuple[Clusters | None, NDArray[np.int64]]:
    """Group five-number summaries hierarchically; the number of clusters is that of the largest mean silhouette.

    Parameters
    ----------
    numbers : sequence of five floats
        Above zero.
    maximize : bool
        Clusters are numbered from the best median on.

    Returns
    -------
    tuple of (Clusters or None, ndarray of int, shape (n,))
        None, and one cluster, for fewer than four summaries or where all are alike.
    """
    data = np.log(np.asarray(numbers, dtype=np.float64).reshape(-1, len(NUMBERS)))
    distinct = len(np.unique(np.round(data, 12), axis=0))
    if len(data) < 4 or distinct < 3:
        return None, np.ones(len(data), dtype=np.int64)
    # Large, and slow to load: a service that shows no summary is not to hold it.
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.metrics import silhouette_score  # noqa: PLC0415

    leaves, member = data, np.arange(len(data))
    if len(data) > _MOST_LEAVES:
        # Linkage needs memory by the square of its leaves.
        groups = KMeans(_MOST_LEAVES // 2, n_init=1, random_state=0).fit(data)
        leaves, member = np.asarray(groups.cluster_centers_), np.asarray(groups.labels_)
    from scipy.cluster.hierarchy import fcluster, linkage  # noqa: PLC0415  slow to load

    tree = np.asarray(linkage(leaves, "ward"), dtype=np.float64)
    sample = slice(None)
    if len(data) > _SILHOUETTE_SAMPLE:
        sample = np.random.default_rng(0).choice(len(data), _SILHOUETTE_SAMPLE, replace=False)  # type: ignore[assignment]
    scores: dict[int, float] = {}
    for count in range(2, min(_MOST_CLUSTERS, distinct - 1) + 1):
        labels = fcluster(tree, count, "maxclust")[member][sample]
        if 1 < len(np.unique(labels)) < len(labels):
            scores[count] = float(silhouette_score(data[sample], labels))
    if not scores:
        return None, np.ones(len(data), dtype=np.int64)
    best = max(scores, key=lambda count: (scores[count], -count))
    labels = fcluster(tree, best, "maxclust")[member]
    centres = {int(label): np.exp(np.median(data[labels == label], axis=0)) for label in np.unique(labels)}
    ranked = sorted(centres, key=lambda label: -centres[label][2] if maximize else centres[label][2])
    renamed = {label: number for number, label in enumerate(ranked, start=1)}
    final = np.array([renamed[int(label)] for label in labels], dtype=np.int64)
    return (
        Clusters(
            count=len(ranked),
            silhouettes=scores,
            centres=tuple(tuple(float(v) for v in centres[label]) for label in ranked),
            sizes=tuple(int(np.sum(final == number)) for number in range(1, len(ranked) + 1)),
            tree=tree,
            leaves=len(leaves),
        ),
        final,
    )


_CLASSES = 3


@dataclass(frozen=True)
class Default:
    """The best one setting for a class of workloads.

    Attributes
    ----------
    workload : mapping
        The class: values, or ranges, of the context; empty for all workloads together.
    contexts, of : int
        In how many of the class's contexts it was measured.
    arithmetic, harmonic, worst : float
        Achieved over best, over these contexts. Pick and score are from different repeats, so noise can bring one
        above 1, where it is cut.
    declared : float or None
        The same arithmetic mean for the setting that acts when nothing is set, where the table says which and has it.
    gain : SettingGain or None
        What it brings over that setting; None where no repeats tell.
    changed : mapping
        What it sets otherwise than that setting, as far as the table says it.
    untold : tuple of str
        Of these, what no measurement tells from its usual value.
    alone : bool
        Whether no other setting was measured in as many of the contexts.
    """

    workload: Mapping[str, str]
    configuration: Mapping[str, Value | None]
    contexts: int
    of: int
    arithmetic: float
    harmonic: float
    worst: float
    declared: float | None
    gain: SettingGain | None = None
    changed: Mapping[str, Value] = field(default_factory=dict)
    untold: tuple[str, ...] = ()
    alone: bool = False

    def shares(self) -> tuple[str, str, str]:
        """Write the means and the worst; of a single workload nothing but its own best stands beside it."""
        if self.of == 1:
            return ("-", "-", "-")
        return f"{self.arithmetic:.1%}", f"{self.harmonic:.1%}", f"{self.worst:.1%}"

    @property
    def today(self) -> str:
        """Write what today's setting reaches; empty where it was not measured."""
        return "" if self.declared is None else f"{self.declared:.1%}"


@dataclass(frozen=True)
class SettingGain:
    """How many times as good as another one setting was, over the same workloads."""

    factor: float
    interval: Interval


def defaults(
    table: Table, summaries: Sequence[FiveNumbers], apart: str | None = None, told: Sequence[SettingEffect] = ()
) -> list[Default]:
    """Find the best one setting for all workloads, and for each class of them.

    A class is a combination of the categorical columns of the context; ordered ones with more than three values are
    cut into thirds. A setting must have been measured in all contexts of its class, or, where none was, in as many as
    any; a class of whose contexts no setting met more than half is left out, for there a model has to prescribe.

    Parameters
    ----------
    told : sequence of SettingEffect
        Of :func:`effects`: what tells values apart besides.
    """
    columns = [c for c in table.schema.context if c.name != apart]
    varied = [c for c in columns if len({repr(s.context[c.name]) for s in summaries}) > 1]
    names = {c.name: _classes(c, [s.context[c.name] for s in summaries]) for c in varied}
    best = best_values(summaries, table.objective.maximize, scored=True)
    declared = {c.name: c.default for c in table.schema.parameter}
    found = [*_default({}, summaries, best, declared, told, table.objective.maximize)]
    groups: dict[tuple[tuple[str, str], ...], list[FiveNumbers]] = {}
    for entry in summaries:
        key = tuple((c.name, names[c.name][repr(entry.context[c.name])]) for c in varied)
        groups.setdefault(key, []).append(entry)
    if len(groups) > 1:
        for key, members in groups.items():
            found += _default(dict(key), members, best, declared, told, table.objective.maximize)
    return found


def _default(
    workload: Mapping[str, str],
    members: Sequence[FiveNumbers],
    best: Mapping[str, float],
    declared: Mapping[str, Value | None],
    told: Sequence[SettingEffect],
    maximize: bool,
) -> list[Default]:
    of = len({make_signature(m.context) for m in members})
    groups = by_configuration(members)
    widest = max(map(len, groups))
    if 2 * widest <= of and of > 1:
        return []
    full = [group for group in groups if len(group) == widest]
    # Picked by odd repeats, scored by even ones.
    expected = {id(m): value for m, value in zip(members, _expect(members, maximize), strict=True)}
    top: dict[str, float] = {}
    for m in members:
        key = make_signature(m.context)
        top[key] = max(expected[id(m)], top.get(key, -math.inf))
    chosen = max(
        full, key=lambda group: mean([math.exp(expected[id(m)] - top[make_signature(m.context)]) for m in group])
    )
    chosen, proven = _simplify(chosen, full, declared, told, maximize)
    ratios = [min(1.0, share(m.scored, best[make_signature(m.context)], maximize)) for m in chosen]
    now, usual = chosen[0].configuration, _declared_members(members, declared)
    changed = {name: value for name, value in now.items() if value is not None and value != declared[name]}
    found = Default(
        workload,
        chosen[0].configuration,
        len(chosen),
        of,
        mean(ratios),
        len(ratios) / sum(1 / ratio for ratio in ratios),
        min(ratios),
        mean([min(1.0, share(m.scored, best[make_signature(m.context)], maximize)) for m in usual]) if usual else None,
        _measure_gain(chosen, usual, maximize),
        changed,
        tuple(name for name in changed if declared[name] is not None and name not in proven),
        len(full) == 1,
    )
    return [found]


def _simplify(
    chosen: list[FiveNumbers],
    groups: Sequence[list[FiveNumbers]],
    declared: Mapping[str, Value | None],
    told: Sequence[SettingEffect],
    maximize: bool,
) -> tuple[list[FiveNumbers], Set[str]]:
    """Take back each setting without which the measurements are not worse: it is not named.

    Returns
    -------
    tuple of (list of FiveNumbers, set of str)
        The setting without them, and what it was measurably worse without.
    """
    known = {make_signature(group[0].configuration): group for group in groups}
    factors = {(effect.parameter, repr(effect.value)): effect for effect in told}
    proven = set()
    for name, usual in declared.items():
        now = chosen[0].configuration
        if usual is None or now[name] is None or now[name] == usual:
            continue
        alone, default = factors.get((name, repr(now[name]))), factors.get((name, repr(usual)))
        if alone is not None and default is not None and alone.median_interval.low > default.median:
            proven.add(name)
            continue
        less = known.get(make_signature({**now, name: usual}))
        if less is not None:
            if _is_better(chosen, less, maximize):
                proven.add(name)
            else:
                chosen = less
    return chosen, proven


_TOLD = 1.64
"""Standard errors by which a setting must be better than its default to be named: one in twenty is chance."""
_OF_MEDIAN = math.pi / 2
"""Variance of a median in that of a mean."""


def _compare(
    members: Sequence[FiveNumbers], others: Sequence[FiveNumbers], maximize: bool, *, scored: bool = False
) -> tuple[float, float, int] | None:
    """Compare two settings over these workloads; with ``scored``, by the repeats that did not choose one.

    Returns
    -------
    tuple of (float, float, int) or None
        Mean gain (ln), its standard error, and the degrees of freedom of that; None where nothing tells the error.
    """
    beside = {make_signature(entry.context): entry for entry in others}
    pairs = [(one, beside[key]) for one in members if (key := make_signature(one.context)) in beside]
    values = [[one.scored if scored else one.median for one in pair] for pair in pairs]
    gains = [(1 if maximize else -1) * math.log(one / other) for one, other in values]
    free = sum(one.runs - 1 for pair in pairs for one in pair)
    if free:
        runs = [(one, -(-one.runs // 2) if scored else one.runs) for pair in pairs for one in pair]
        error = math.sqrt(_OF_MEDIAN * sum(one.deviation**2 / count for one, count in runs)) / len(gains)
        return statistics.fmean(gains), error, free
    if len(gains) > 1:
        return statistics.fmean(gains), statistics.stdev(gains) / math.sqrt(len(gains)), len(gains) - 1
    return None


def _is_better(members: Sequence[FiveNumbers], others: Sequence[FiveNumbers], maximize: bool) -> bool:
    """Whether one setting is measurably better than another."""
    found = _compare(members, others, maximize)
    return found is not None and found[0] > _TOLD * found[1]


def _measure_gain(members: Sequence[FiveNumbers], others: Sequence[FiveNumbers], maximize: bool) -> SettingGain | None:
    found = _compare(members, others, maximize, scored=True)
    if found is None:
        return None
    from scipy.special import stdtrit  # noqa: PLC0415  slow to load

    middle, error, free = found
    half = float(stdtrit(free, (1 + USUAL_LEVEL) / 2)) * error
    return SettingGain(math.exp(middle), Interval(math.exp(middle - half), math.exp(middle + half)))


def _declared_members(members: Sequence[FiveNumbers], declared: Mapping[str, Value | None]) -> list[FiveNumbers]:
    """Give what was measured with the setting that acts when nothing is set."""
    if any(value is None for value in declared.values()):
        return []
    return [m for m in members if all(v is None or v == declared[n] for n, v in m.configuration.items())]


def _classes(column: Column, values: Sequence[Value]) -> dict[str, str]:
    """Name the class of each value: itself, or the third of the column's values in which it lies."""
    present = [value for value in column.values if value in values]

    def spell(value: Value) -> str:
        if column.unit == "B" and isinstance(value, int) and not isinstance(value, bool):
            return format_size(value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    if column.kind == "categorical" or len(present) <= _CLASSES:
        return {repr(value): spell(value) for value in present}
    named = {}
    size = -(-len(present) // _CLASSES)
    for start in range(0, len(present), size):
        part = present[start : start + size]
        for value in part:
            named[repr(value)] = f"{spell(part[0])} to {spell(part[-1])}" if len(part) > 1 else spell(part[0])
    return named


@dataclass(frozen=True)
class Consistency:
    """How good a setting is over the workloads in which it was measured.

    Attributes
    ----------
    of : int
        Contexts that the operation has.
    typical : float
        Geometric mean over contexts of its median as a share of the context's best median.
    low : float
        The same with its worse quartile in place of its median: what it gives under load.
    worst : float
        The smallest of these over contexts.
    spread : float
        Median over contexts of interquartile range over median.
    best_cluster : float
        Share of its contexts in which it lies in the best cluster that any setting of the context lies in: clusters are
        of all contexts together, and a slow one need not have a part in the best of all.
    """

    configuration: Mapping[str, Value | None]
    contexts: int
    of: int
    typical: float
    low: float
    worst: float
    spread: float
    best_cluster: float


@dataclass(frozen=True)
class SettingEffect:
    """What one value of one parameter does, over all workloads and all values of the others.

    Attributes
    ----------
    median : float
        Factor on the median against the parameter's worst value, by least squares on the logarithms with a term for
        each workload: designs that are not full grids still compare like with like.
    low : float
        The same for the worse quartile: under load.
    median_interval, low_interval : Interval
        Of these factors, for all pairs of the parameter's values together.
    configurations : int
        That have the value.
    """

    parameter: str
    value: Value
    median: float
    low: float
    median_interval: Interval
    low_interval: Interval
    configurations: int


def rank_consistent(summaries: Sequence[FiveNumbers], maximize: bool = True) -> list[Consistency]:
    """Rank settings by what they give under load, over all contexts in which they were measured.

    Settings measured in fewer than half as many contexts as the widest known one are left out: they may have met the
    easy ones only. None is given where no setting met more than half of the contexts: see :func:`effects` there.
    """
    best = best_values(summaries, maximize)
    reached: dict[str, int] = {}
    for entry in summaries:
        key = make_signature(entry.context)
        reached[key] = min(entry.cluster, reached.get(key, entry.cluster))
    groups = by_configuration(summaries)
    widest = max(len(members) for members in groups)
    if 2 * widest <= len(best) and len(best) > 1:
        return []
    rows = []
    for members in groups:
        if 2 * len(members) < widest:
            continue
        quartile = 1 if maximize else 3
        typical = [share(m.median, best[make_signature(m.context)], maximize) for m in members]
        low = [share(m.numbers[quartile], best[make_signature(m.context)], maximize) for m in members]
        rows.append(
            Consistency(
                members[0].configuration,
                len(members),
                len(best),
                geometric(typical),
                geometric(low),
                min(low),
                float(np.median([m.spread for m in members])),
                sum(m.cluster == reached[make_signature(m.context)] for m in members) / len(members),
            )
        )
    return sorted(rows, key=lambda row: (-row.low, -row.worst))


_ROUNDING = 1e-9


def keep_compared(summaries: Sequence[FiveNumbers]) -> list[FiveNumbers]:
    """Keep the workloads in which configurations can be compared: a single one is the best there by itself."""
    counts = Counter(make_signature(entry.context) for entry in summaries)
    return [entry for entry in summaries if counts[make_signature(entry.context)] > 1]


def _design(
    summaries: Sequence[FiveNumbers],
) -> tuple[NDArray[np.float64], dict[tuple[str, str], int], dict[tuple[str, str], Value]]:
    """Give a matrix with a column for each workload and each value, the places of values, and the values."""
    contexts = {key: place for place, key in enumerate(dict.fromkeys(make_signature(s.context) for s in summaries))}
    columns: dict[tuple[str, str], int] = {}
    values: dict[tuple[str, str], Value] = {}
    cells = []
    for row, entry in enumerate(summaries):
        cells.append((row, contexts[make_signature(entry.context)]))
        for name, value in entry.configuration.items():
            if value is not None:
                columns.setdefault((name, repr(value)), len(contexts) + len(columns))
                values[name, repr(value)] = value
                cells.append((row, columns[name, repr(value)]))
    matrix = np.zeros((len(summaries), len(contexts) + len(columns)))
    matrix[tuple(np.transpose(cells))] = 1
    return matrix, columns, values


def _expect(summaries: Sequence[FiveNumbers], maximize: bool) -> list[float]:
    """Give what each configuration is expected to reach: its odd repeats, drawn towards what its values bring alone.

    The best of many noisy medians is mostly luck. As far as the residuals of the main effects are no larger than the
    noise of the repeats, they are noise (empirical Bayes).
    """
    matrix = _design(summaries)[0]
    seen = (1 if maximize else -1) * np.log([one.picked for one in summaries])
    alone = matrix @ np.linalg.lstsq(matrix, seen, rcond=None)[0]
    free = max(1, len(seen) - int(np.linalg.matrix_rank(matrix)))
    noise = _OF_MEDIAN * np.mean([one.deviation**2 / -(-one.runs // 2) for one in summaries])
    residual = float(((seen - alone) ** 2).sum()) / free
    kept = max(0.0, 1.0 - noise / residual) if residual > 0 else 1.0
    return [float(value) for value in alone + kept * (seen - alone)]


def effects(summaries: Sequence[FiveNumbers], maximize: bool = True) -> list[SettingEffect]:
    """Tell the parameters' values apart by their main effects.

    A factor needs an interval, so there is none where the design has as many terms as configurations. A parameter of
    whose values no two can be told apart is left out.
    """
    matrix, columns, values = _design(summaries)
    sign = 1 if maximize else -1
    quartile = 1 if maximize else 3
    from scipy.special import stdtrit  # noqa: PLC0415  slow to load

    targets = np.log([[s.median, s.numbers[quartile]] for s in summaries])
    solved, _, rank, _ = np.linalg.lstsq(matrix, targets, rcond=None)
    free = len(summaries) - int(rank)
    if free < 1:
        return []
    variance = ((targets - matrix @ solved) ** 2).sum(axis=0) / free
    shape = np.linalg.pinv(matrix.T @ matrix)
    known = shape @ (matrix.T @ matrix)
    solved = sign * solved
    found = []
    for name in summaries[0].configuration:
        own = [key for key in columns if key[0] == name]
        if len(own) < 2:
            continue
        places = np.array([columns[key] for key in own])
        contrasts = np.eye(len(known))[places] - np.eye(len(known))[places[0]]
        if not np.allclose(contrasts @ known, contrasts, atol=1e-6):
            continue  # the design does not tell these values from other parameters or from workloads
        worst = places[solved[places].argmin(axis=0)]
        # Bonferroni's level: the worst value is known only from the same data.
        quantile = float(stdtrit(free, 1 - (1 - USUAL_LEVEL) / (len(own) * (len(own) - 1))))
        bounds = []
        for target, base in enumerate(worst):
            spread = shape[places, places] + shape[base, base] - 2 * shape[places, base]
            half = quantile * np.sqrt(variance[target] * np.maximum(spread, 0.0))
            factor = solved[places, target] - solved[base, target]
            bounds.append(np.exp([factor, factor - half, factor + half]))
        if not any(np.any(low > 1 + _ROUNDING) for _, low, _ in bounds):
            continue
        rows = [
            SettingEffect(
                name,
                values[key],
                float(bounds[0][0][place]),
                float(bounds[1][0][place]),
                Interval(float(bounds[0][1][place]), float(bounds[0][2][place])),
                Interval(float(bounds[1][1][place]), float(bounds[1][2][place])),
                int(matrix[:, columns[key]].sum()),
            )
            for place, key in enumerate(own)
        ]
        found += sorted(rows, key=lambda row: -row.low)
    return found


@dataclass(frozen=True)
class SummaryReport:
    """All there is to say of one operation of a table.

    Attributes
    ----------
    operation : str
        ``read``, ``write``, or ``all`` where the table does not tell them apart.
    summaries : tuple of FiveNumbers
        The best median first.
    clusters : Clusters or None
        None for fewer than four configurations.
    consistent : tuple of Consistency
        The most dependable first.
    effects : tuple of SettingEffect
        Parameter by parameter, the best value first.
    defaults : tuple of Default
        All workloads together first, then by class; those are left out of whose
        workloads no setting met more than half.
    """

    operation: str
    summaries: tuple[FiveNumbers, ...]
    clusters: Clusters | None
    consistent: tuple[Consistency, ...]
    effects: tuple[SettingEffect, ...]
    defaults: tuple[Default, ...]

    @property
    def compared(self) -> bool:
        """Whether a workload was measured with two configurations."""
        return bool(keep_compared(self.summaries))

    def verdict(self, units: Mapping[str, str]) -> str:
        """Say in one sentence which single setting is the best default, and what it brings."""
        which = "" if self.operation == "all" else f" for {self.operation}s"
        if not self.compared:
            return f"nothing to compare{which}: no workload was measured with two configurations"
        best = next((default for default in self.defaults if not default.workload), None)
        if best is None:
            return f"no best default{which}: no setting was measured in most workloads, so let a model prescribe"
        if not best.changed:
            if best.alone:
                return f"only today's settings were measured in all workloads{which}, so let a model prescribe"
            return f"no single default{which} is measurably better than today's settings"
        named = {name: value for name, value in best.changed.items() if name not in best.untold} or best.changed
        said = f"best single default{which}: {write_values(named, units)}"
        if best.contexts < best.of:
            said += f" (measured in {best.contexts} of {best.of} workloads)"
        if best.gain is not None:
            low, high = best.gain.interval.low, best.gain.interval.high
            said += (
                f", {best.gain.factor:.2f} times today's ({low:.2f} to {high:.2f}{', not proven' if low <= 1 else ''})"
            )
        elif best.declared is not None:
            said += "; without repeats, nothing tells how far it is from today's"
        elif best.of > 1:
            said += f"; it reaches {best.arithmetic:.0%} of the best, at worst {best.worst:.0%}"
        if best.untold:
            which = "these settings help" if named is best.changed else f"{', '.join(best.untold)} would help too"
            said += f". The measurements do not tell whether {which}"
        return said


def write_values(values: Mapping[str, Any], units: Mapping[str, str]) -> str:
    """Write settings, or a class of workloads, as words; what cannot act there is left out."""
    return " ".join(list_changes({name: value for name, value in values.items() if value is not None}, units=units))


def summarise(table: Table) -> list[SummaryReport]:
    """Summarise a table, operation by operation.

    Raises
    ------
    UserError
        If a value is not above zero, which a bandwidth or a time cannot be.
    """
    if np.any(table.values <= 0):
        row = int(np.argmax(table.values <= 0)) + 1
        raise UserError(
            f"table {table.name}: row {row}: the objective is {table.values[row - 1]:g}, not above zero",
            "leave failed runs out",
        )
    column = next((c for c in table.schema.context if c.role == "operation" or c.name == "operation"), None)
    if column is None:
        return [_report(table, "all", None)]
    reports = []
    for value in column.values:
        rows = table.take(table.of({column.name: value}))
        if len(rows):
            reports.append(_report(rows, str(value), column.name))
    return reports


def _report(table: Table, operation: str, apart: str | None) -> SummaryReport:
    maximize = table.objective.maximize
    found = five_numbers(table, apart)
    clusters, labels = cluster([entry.numbers for entry in found], maximize)
    found = [replace(entry, cluster=int(label)) for entry, label in zip(found, labels, strict=True)]
    compared = keep_compared(found)
    # Without repeats nothing shows what load does: the quartiles are the median.
    repeated = any(entry.runs > 1 for entry in compared)
    told = tuple(effects(compared, maximize)) if compared else ()
    sign = -1 if maximize else 1
    ordered = sorted(found, key=lambda entry: sign * entry.median)
    return SummaryReport(
        operation,
        tuple(ordered),
        clusters,
        tuple(rank_consistent(compared, maximize)) if repeated else (),
        told,
        tuple(defaults(table, compared, apart, told)) if compared else (),
    )
