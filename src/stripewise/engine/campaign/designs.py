"""The combinations that a campaign measures: all, some at random, some spread evenly, or where a model is unsure."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Point, Points

Floats = NDArray[np.float64]
_TREES = 100
_NEAR = 64


def first_batch(points: Points) -> list[Point]:
    """Choose what is measured before any result is known: everything, but for a sequential design.

    Parameters
    ----------
    points : Points

    Returns
    -------
    list of Point
        Operation by operation. The same for the same campaign, whenever it is asked.
    """
    design = points.campaign.design
    found: list[Point] = []
    for operation in points.campaign.operations:
        whole = points.of(operation)
        size = {"grid": None, "sequential": design.initial}.get(design.kind, design.size)
        if design.kind == "sequential" and design.size is not None:
            size = min(design.initial, design.size)
        if size is None or size >= len(whole):
            found += whole
            continue
        rng = _generator(points.campaign, operation, 0)
        if design.kind == "subset":
            chosen = rng.choice(len(whole), size, replace=False)
        else:
            chosen = _spread(points.levels(operation), size, rng)
        found += [whole[int(index)] for index in np.sort(chosen)]
    return found


def next_batch(points: Points, measured: dict[str, dict[int, float]], number: int) -> list[Point]:
    """Choose the next combinations of a sequential design: where an ensemble of trees is least sure, well apart.

    Parameters
    ----------
    points : Points
    measured : dict
        By operation: index of a point in :meth:`Points.of` to its median so far; failed points have NaN.
    number : int
        Of the batch, from 1; part of the seed.

    Returns
    -------
    list of Point
        Empty when the design is complete.
    """
    design = points.campaign.design
    found: list[Point] = []
    if design.kind != "sequential":
        return []
    for operation in points.campaign.operations:
        whole, known = points.of(operation), measured.get(operation, {})
        wanted = min(design.batch, (design.size or 0) - len(known), len(whole) - len(known))
        if wanted <= 0:
            continue
        rng = _generator(points.campaign, operation, number)
        found += [whole[index] for index in _doubtful(points.levels(operation), known, wanted, rng)]
    return found


def _generator(campaign: Campaign, operation: str, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([campaign.seed, len(operation), number]))


def _spread(levels: Floats, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A Latin hypercube on the unit cube, each of its points moved to the nearest combination that is left."""
    dimensions = levels.shape[1]
    cube = np.stack([rng.permutation(size) for _ in range(dimensions)], axis=1)
    wanted = (cube + rng.random((size, dimensions))) / size
    from scipy.spatial import cKDTree  # noqa: PLC0415  slow to load

    tree = cKDTree(levels + rng.uniform(-1e-6, 1e-6, levels.shape))
    taken: set[int] = set()
    for place in wanted:
        near = min(_NEAR, len(levels))
        while True:
            _, order = tree.query(place, k=near)
            free = next((int(index) for index in np.atleast_1d(order) if int(index) not in taken), None)
            if free is not None:
                taken.add(free)
                break
            near = min(2 * near, len(levels))
    return np.array(sorted(taken), dtype=np.int64)


def _doubtful(levels: Floats, known: dict[int, float], wanted: int, rng: np.random.Generator) -> list[int]:
    usable = [index for index, value in known.items() if np.isfinite(value) and value > 0]
    left = np.array([index for index in range(len(levels)) if index not in known], dtype=np.int64)
    from scipy.spatial import cKDTree  # noqa: PLC0415  slow to load

    gap = np.asarray(cKDTree(levels[list(known)]).query(levels[left])[0], dtype=np.float64)
    doubt = np.ones(len(left))
    if len(usable) >= 4:
        from sklearn.ensemble import ExtraTreesRegressor  # noqa: PLC0415  slow to load

        forest = ExtraTreesRegressor(_TREES, min_samples_leaf=1, random_state=int(rng.integers(2**31)), bootstrap=True)
        forest.fit(levels[usable], np.log([known[index] for index in usable]))
        doubt = np.std([tree.predict(levels[left]) for tree in forest.estimators_], axis=0)
    chosen: list[int] = []
    for _ in range(wanted):
        # The deviation alone would pick neighbours; the distance keeps a batch apart.
        best = int(np.argmax((doubt + 1e-9) * np.sqrt(gap + 1e-9)))
        chosen.append(int(left[best]))
        gap = np.minimum(gap, np.linalg.norm(levels[left] - levels[left[best]], axis=1))
        doubt[best] = -1.0
    return chosen
