"""Each configuration of each workload, described by five numbers of its repeats, and groups of like behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value
from stripewise.models.landscape import Landscape
from stripewise.models.table import Table

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
    runs : int
    cluster : int
        From 1, the best first.
    picked, scored : float
        Medians of odd and of even repeats: what is picked by the one is scored by the other, so that luck is not
        crowned. Both are the median where there are not both.
    """

    context: Mapping[str, Value]
    configuration: Mapping[str, Value | None]
    numbers: tuple[float, float, float, float, float]
    runs: int
    cluster: int = 0
    picked: float = 0.0
    scored: float = 0.0

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

    Parameters
    ----------
    table : Table
    apart : str, optional
        A context column to leave out of the summaries' contexts.
    """
    found: list[FiveNumbers] = []
    for context in table.contexts():
        land = Landscape.of(table, context)
        space, groups = land.space, land.groups
        active = space.active(space.points)
        order = np.argsort(groups, kind="stable")
        present, starts = np.unique(groups[order], return_index=True)
        shown = {name: value for name, value in context.items() if name != apart}
        for point, rows in zip(present, np.split(order, starts[1:]), strict=True):
            values, repeats = land.table.values[rows], land.table.repeats[rows]
            odd = repeats % 2 == 1
            both = bool(odd.any() and (~odd).any())
            chosen = space.configuration(space.points[point])
            found.append(
                FiveNumbers(
                    shown,
                    {name: chosen[name] if on else None for name, on in zip(space.names, active[point], strict=True)},
                    tuple(float(v) for v in np.quantile(values, [0, 0.25, 0.5, 0.75, 1])),  # type: ignore[arg-type]
                    len(values),
                    picked=float(np.median(values[odd] if both else values)),
                    scored=float(np.median(values[~odd] if both else values)),
                )
            )
    return found


def best_values(
    summaries: Sequence[FiveNumbers], maximize: bool, *, scored: bool = False, picked: bool = False
) -> dict[str, float]:
    """The best median of each context; with ``scored``, the best by odd repeats at its value in even ones."""
    groups: dict[str, list[FiveNumbers]] = {}
    for entry in summaries:
        groups.setdefault(signature(entry.context), []).append(entry)
    pick = max if maximize else min
    found = {}
    for key, members in groups.items():
        if scored:
            found[key] = pick(members, key=lambda m: m.picked).scored
        else:
            found[key] = pick(m.picked if picked else m.median for m in members)
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


def signature(values: Mapping[str, Any]) -> str:
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
    count : int
    silhouettes : mapping
        Mean silhouette for each number of clusters tried; the largest won.
    centres : tuple of tuple of float
        Five numbers of each cluster: medians over its members.
    sizes : tuple of int
    tree : ndarray, shape (n - 1, 4)
        The linkage (Ward, on the logarithms of the five numbers), of the configurations or, above 2,000 of them, of
        groups found by k-means first.
    leaves : int
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
