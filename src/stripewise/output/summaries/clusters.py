"""Configurations of like behaviour, by hierarchical clustering of their five numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stripewise.output.summaries.five_numbers import NUMBERS

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
