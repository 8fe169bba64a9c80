"""Study 003 beside the fitted site: hardware facts alone, harder patterns, the tree, and times of two components.

On the patterns of the first repetition no static choice is as bad as in the study. Of the families of 17 blocks and 12
holes in steps of two or four that were computed without noise, this one is nearest to the study's eight static choices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.studies import ai_for_io
from benchmarks.studies.steps import Study
from stripewise.models.table import Table, read_table

UNFITTED = "dkrz-porting-hardware"
BLOCKS = [64 << i for i in range(17)]
HOLES = [1024 << 2 * i for i in range(12)]
COMPONENTS = ((2, 20), (2, 50), (2, 200))
"""Shapes of the gamma distributions of the fast and the slow component. Assumed."""
MISSES, POINTS, NORMAL = 0.3, 1000, 0.1
"""Share of operations that need the slow component (assumed), their number, and the deviation of the normal part."""


def simulated(study: Study) -> None:
    """Predict and choose on the unfitted site, and cluster times that two components make."""
    models, folds, few = ("linear", "tree"), ai_for_io.FOLDS, ai_for_io.FEW_HOLES
    depths, groups, repeats = study.size("1-10", "1-2"), study.size(8, 4), study.size(3, 2)
    if not study.quick:
        study.step(
            f"errors on {UNFITTED}",
            lambda: _errors(study, ai_for_io.BLOCKS, few, models, folds, 10),
            "simulated",
            blocks=ai_for_io.BLOCKS, holes=few, repeats=10, models=models, folds=folds,
        )  # fmt: skip
        blocks, holes = ai_for_io.BLOCKS, ai_for_io.HOLES
        study.step(
            f"choices on {UNFITTED}",
            lambda: _choices(study, "unfitted", blocks, holes, repeats, depths, groups),
            "simulated",
            blocks=blocks, holes=holes, repeats=repeats, depths=depths,
        )  # fmt: skip
    hard, apart = study.size(BLOCKS, BLOCKS[::4]), study.size(HOLES, HOLES[::6])
    study.step(
        "hard patterns",
        lambda: _choices(study, "hard", hard, apart, repeats, depths, groups),
        "simulated",
        site=UNFITTED, blocks=hard, holes=apart, repeats=repeats, depths=depths,
    )  # fmt: skip
    study.step("two components", lambda: [components(*shapes) for shapes in COMPONENTS], "simulated", shapes=COMPONENTS)


def _errors(
    study: Study, blocks: list[int], holes: list[int], models: tuple[str, ...], folds: tuple[int, ...], repeats: int
) -> dict[str, Any]:
    name = "prediction-unfitted"
    runs = ai_for_io.profiled(study, f"{name}-runs", ["write"], blocks, holes, repeats, UNFITTED)
    table = ai_for_io.medians(runs, study.work / name)
    return {"baseline": ai_for_io.baseline(table), "models": ai_for_io.errors(table, models, folds, 0)}


def _choices(
    study: Study, name: str, blocks: list[int], holes: list[int], repeats: int, depths: str, groups: int
) -> dict[str, Any]:
    table = ai_for_io.profiled(study, name, ["read", "write"], blocks, holes, repeats, UNFITTED)
    return ai_for_io.judged_choices(table, depths, groups) | {"tree": tree(read_table(table), 4)}


def tree(table: Table, depth: int) -> list[dict[str, Any]]:
    """The prescribing tree that knows every pattern: its nodes from the root, a leaf with its two most frequent bests.

    It is fitted as the trees that are judged are: a leaf holds the mean share of the best of every setting.
    """
    from sklearn.tree import DecisionTreeRegressor  # noqa: PLC0415  slow import

    patterns, place = np.unique(table.context_levels, axis=0, return_inverse=True)
    settings, kind = np.unique(table.levels, axis=0, return_inverse=True)
    value = np.zeros((len(patterns), len(settings)))
    for row in range(len(patterns)):
        for column in range(len(settings)):
            value[row, column] = np.median(table.values[(place.ravel() == row) & (kind.ravel() == column)])
    share = value / value.max(axis=1, keepdims=True)
    best = value.argmax(axis=1)
    fitted = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(patterns, share)
    leaf, form = fitted.apply(patterns), fitted.tree_
    names = [
        {c.name: c.values[level] for c, level in zip(table.schema.parameter, row, strict=True)} for row in settings
    ]

    def walk(node: int, deep: int, way: str) -> list[dict[str, Any]]:
        told: dict[str, Any] = {"depth": deep, "if": way}
        left, right = int(form.children_left[node]), int(form.children_right[node])
        if left < 0:
            kinds, counts = np.unique(best[leaf == node], return_counts=True)
            order = np.argsort(-counts)[:2]
            told["chosen"] = names[int(np.argmax(form.value[node][:, 0]))]
            told["best"] = [[names[int(kinds[i])], int(counts[i])] for i in order]
            told["patterns"] = int((leaf == node).sum())
            return [told]
        column = table.schema.context[int(form.feature[node])]
        edge = column.values[int(np.floor(form.threshold[node]))]
        name = column.name.replace("_", " ")
        low, high = (f"{name} at most {edge} B", "above")
        if column.kind == "categorical":
            low, high = f"{name} is {edge}", "else"
        return [told, *walk(left, deep + 1, low), *walk(right, deep + 1, high)]

    return walk(0, 0, "")


def components(fast: float, slow: float) -> dict[str, Any]:
    """Times of operations of which some need a slow component as well, and what the clusters of their times tell."""
    from stripewise.diagnose.causes.analysis import clusters  # noqa: PLC0415  loads the engine

    rng = np.random.default_rng(0)
    missed = rng.random(POINTS) < MISSES
    seconds = rng.gamma(fast, 1.0, POINTS) + np.where(missed, rng.gamma(slow, 1.0, POINTS), 0.0)
    seconds = np.maximum(seconds + rng.normal(0.0, NORMAL, POINTS), 1e-3)
    found = clusters(list(seconds))
    logs = np.log(seconds)[:, None]
    middle, spread, weight = (
        np.array(each) for each in zip(*((np.log(c.seconds), c.spread, c.share) for c in found), strict=True)
    )
    likely = np.log(weight) - np.log(spread) - 0.5 * ((logs - middle) / spread) ** 2
    own = likely.argmax(axis=1)
    # A cluster stands for the component that most of its operations used last.
    stands = np.array(
        [missed[own == place].mean() > 0.5 if (own == place).any() else False for place in range(len(found))]
    )
    return {
        "fast": fast,
        "slow": slow,
        "clusters": [[c.seconds, c.share, c.peak] for c in found],
        "right": float(np.mean(stands[own] == missed)),
        "most_frequent": float(max(missed.mean(), 1 - missed.mean())),
    }
