"""Which parameters matter: shares of the variation that a forest can attribute, once chance is ruled out.

A forest of extremely randomised trees is fitted to the logarithm of the trials' values. Where a parameter is inactive,
its value is replaced by one drawn from the trials where it is active: otherwise its default there would tell whether
its parent is on, and it would take the parent's credit. Twice the forest is asked about each parameter:

*Is there an influence at all?* Beside the real columns stand shadows, copies in which a parameter's values are shuffled
among the trials where it is active. A
parameter has a measurable influence only if the trees use it more than the luckiest of all shadows in nearly every one
of many shufflings (after Kursa and Rudnicki, 2010). In 75 simulated searches of 20 to 40 trials one parameter was
claimed falsely.

*How large is it?* Over the whole space, half the mean squared change of the prediction when that parameter alone is
drawn anew, folded and feasible (the total effect of Sobol, in the estimator of Jansen, 1999). An inactive parameter
changes nothing and gets nothing; what is gained by a parent together with its children is counted for each of them, so
the effects are scaled to add up to one.

Where a gain was proven, the answer is known to matter: its settings are never without influence, and what cannot act
beside them gets nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Value
from stripewise.catalogue.space import Levels, Space
from stripewise.errors import UserError
from stripewise.trial import History

_LEAST_TRIALS = 8
_TRIALS_A_PARAMETER = 5
_SHUFFLINGS = 29
_LUCKY = 1
_TREES = 20
_MOST_TRIALS = 400
_FINAL_TREES = 120
_POINTS = 400
_LEAST_ROWS = 3

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Importance:
    """Shares of the parameters in what the settings changed.

    Attributes
    ----------
    shares : dict
        Parameter name to its share, 0 to 1, largest first. They add up to one over the parameters with a measurable
        influence, and are 0 for all others; what cannot act beside a proven answer is left out. Empty where there are
        too few runs to tell.
    note : str
        What the reader must know with it, in a sentence; empty if nothing.
    """

    shares: dict[str, float] = field(default_factory=dict)
    note: str = ""


def importance(
    space: Space,
    history: History,
    seed: int = 0,
    *,
    answer: Mapping[str, Value] | None = None,
    proven: Collection[str] = (),
) -> Importance:
    """Say which parameters matter.

    Parameters
    ----------
    history : History
        Trials with a value count; of pruned ones the bound, which the truth exceeds.
    seed : int
        Of the shufflings and the forest, so that the same history always gives the same answer.
    answer : mapping, optional
        The configuration whose gain was proven.
    proven : collection of str
        Parameters whose settings in it make up the gain, as far as is known.
    """
    rng = np.random.default_rng(seed)
    rows = _Rows.of(space, history, rng)
    n = len(rows.value)
    if n < _LEAST_TRIALS:
        having = "1 configuration has" if n == 1 else f"{n} configurations have"
        return Importance(note=f"too few runs to tell which parameters matter: {having} a value")
    varied = [j for j in range(len(space.parameters)) if np.ptp(rows.levels[:, j]) > 0]
    if not varied or np.ptp(rows.value) == 0:
        return Importance(dict.fromkeys(space.names, 0.0), "all configurations performed alike")
    idle = [] if answer is None else [int(j) for j in np.flatnonzero(~space.active(space.levels([answer]))[0])]
    can_act = [j for j in varied if j not in idle]
    real = [j for j in _list_measurable(space, rows, varied, rng) if j in can_act]
    real += [j for j in can_act if space.names[j] in proven and j not in real]
    if not real:
        return _make_nothing(space, rows)
    drawn = rng.multinomial(len(rows.value), np.full(len(rows.value), 1 / len(rows.value)), _FINAL_TREES)
    forest = _Forest.grown(_encode(space, rows.filled), rows.value, drawn * rows.weight, rng)
    effects = _total_effects(space, forest, real, rng)
    whole = float(np.sum(effects)) or 1.0
    shares = {name: 0.0 for j, name in enumerate(space.names) if j not in idle}
    shares |= {space.names[j]: float(effect) / whole for j, effect in zip(real, effects, strict=True)}
    # The pairs show what these do together; how much of it is whose, the search does not tell.
    together = [space.names[j] for j in real if shares[space.names[j]] == 0]
    shares = {name: share for name, share in shares.items() if name not in together}
    if together and not any(shares.get(name) for name in proven):
        # Shares of the others alone would deny the answer.
        return Importance(note=f"share in the proven gain unknown: {', '.join(together)}")
    ordered = dict(sorted(shares.items(), key=lambda item: -item[1]))
    note = _note(space, n, set(varied), set(real), {j for j in idle if j in varied})
    note += f"{'; ' if note else ''}share in the proven gain unknown: {', '.join(together)}" if together else ""
    return Importance(ordered, note)


@dataclass(frozen=True)
class _Rows:
    """The trials as arrays: levels (n, d), activity (n, d), log value (n,), weight (n,), noise variance or None.

    ``filled`` are the levels with values drawn for inactive parameters.
    """

    levels: Levels
    filled: Levels
    active: NDArray[np.bool_]
    value: _Floats
    weight: _Floats
    noise: float | None

    @classmethod
    def of(cls, space: Space, history: History, rng: np.random.Generator) -> _Rows:
        seen = [(trial, trial.values or trial.bounds) for trial in history.trials if trial.values or trial.bounds]
        if len(seen) > _MOST_TRIALS:
            # As many tell as much, and the answer is to take a second, not minutes.
            seen = [seen[index] for index in sorted(rng.choice(len(seen), _MOST_TRIALS, replace=False))]
        levels = space.levels([trial.configuration for trial, _ in seen])
        positive = all(value > 0 for _, values in seen for value in values)
        scaled = [np.log(values) if positive else np.asarray(values, dtype=np.float64) for _, values in seen]
        repeats = [values - np.mean(values) for values in scaled if len(values) > 1]
        freedom = sum(len(values) - 1 for values in repeats)
        noise = float(sum(np.sum(values**2) for values in repeats)) / freedom if freedom else None
        value = np.array([float(np.median(values)) for values in scaled])
        # A median of several runs is worth more than a single run, but never more than the configurations differ.
        counts = np.array([len(values) for values in scaled], dtype=np.float64)
        active = space.active(levels)
        return cls(levels, _fill_levels(space, levels, active, rng), active, value, 2 * counts / (1 + counts), noise)


def _fill_levels(space: Space, levels: Levels, active: NDArray[np.bool_], rng: np.random.Generator) -> Levels:
    filled = levels.copy()
    for j in range(levels.shape[1]):
        idle = np.flatnonzero(~active[:, j])
        seen = levels[active[:, j], j]
        filled[idle, j] = rng.choice(seen if len(seen) else np.arange(len(space.parameters[j].values)), len(idle))
    return filled


@dataclass(frozen=True)
class _Forest:
    """Extremely randomised trees (Geurts and others, 2006), all of them grown at once, depth by depth.

    The forest of scikit-learn gives the same answers, but loading it takes two seconds and each small fit 40 ms, and a
    tuning run ends with up to thirty fits. A leaf is its own child.
    """

    feature: NDArray[np.int64]
    threshold: _Floats
    children: NDArray[np.int64]
    value: _Floats
    used: _Floats
    """Of each feature, the mean share in what the splits of a tree explain."""

    @classmethod
    def grown(cls, x: _Floats, y: _Floats, weights: _Floats, rng: np.random.Generator) -> _Forest:
        """Grow a tree from each row of weights, shape (trees, rows); rows without weight are not in it."""
        tree, row = np.nonzero(weights)
        weight, place, begin = weights[tree, row], tree, 0
        used = np.zeros((len(weights), x.shape[1]))
        grown = []
        while len(row):
            # Rows of a node stand together; `node` numbers the nodes of this depth.
            order = np.argsort(place, kind="stable")
            tree, row, weight, place = tree[order], row[order], weight[order], place[order]
            first = np.flatnonzero(np.diff(place, prepend=-1))
            node = np.cumsum(np.diff(place, prepend=place[0]) > 0)
            at, target = x[row], (weight * y[row])[:, None]
            low, high = np.minimum.reduceat(at, first), np.maximum.reduceat(at, first)
            cut = low + (high - low) * rng.random(low.shape)
            right = at > cut[node]
            count = np.add.reduceat(right, first, dtype=np.int64)
            rows = np.diff(first, append=len(row))[:, None]
            whole, total = np.add.reduceat(weight[:, None], first), np.add.reduceat(target, first)
            heavy, sums = np.add.reduceat(weight[:, None] * right, first), np.add.reduceat(target * right, first)
            allowed = (count >= _LEAST_ROWS) & (rows - count >= _LEAST_ROWS)
            # Where a side is empty, the division does not matter: it is not allowed.
            with np.errstate(divide="ignore", invalid="ignore"):
                explained = sums**2 / heavy + (total - sums) ** 2 / (whole - heavy) - total**2 / whole
            gain = np.where(allowed, explained, -1.0)
            best, of = np.argmax(gain, axis=1), np.arange(len(first))
            split = gain[of, best] > 0
            np.add.at(used, (tree[first[split]], best[split]), gain[of, best][split])
            # Ids of the children follow those of this depth.
            kids = begin + len(first) + 2 * (np.cumsum(split) - 1)
            own = begin + of
            below = np.stack([np.where(split, kids + side, own) for side in (0, 1)], axis=1)
            grown.append((best, cut[of, best], below, (total / whole)[:, 0]))
            begin += len(first)
            goes_on = split[node]
            place = below[node, right[np.arange(len(row)), best[node]].astype(np.int64)][goes_on]
            tree, row, weight = tree[goes_on], row[goes_on], weight[goes_on]
        shares = used / np.maximum(np.sum(used, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        feature, threshold, children, value = (np.concatenate(part) for part in zip(*grown, strict=True))
        return cls(feature, threshold, children, value, np.mean(shares, axis=0))

    def predict(self, x: _Floats) -> _Floats:
        """Give the mean over the trees for each row."""
        node = np.repeat(np.arange(_FINAL_TREES)[:, None], len(x), axis=1)
        rows = np.arange(len(x))
        while True:
            right = x[rows, self.feature[node]] > self.threshold[node]
            below = self.children[node, right.astype(np.int64)]
            if np.array_equal(below, node):
                return np.asarray(np.mean(self.value[node], axis=0), dtype=np.float64)
            node = below


def _encode(space: Space, levels: Levels) -> _Floats:
    """Give each parameter its columns: one of ranks where ordered or two-valued, else one per value."""
    return np.concatenate([_columns(space, levels[:, j], j) for j in range(levels.shape[1])], axis=1)


def _columns(space: Space, positions: NDArray[np.int64], j: int) -> _Floats:
    parameter = space.parameters[j]
    if parameter.ordered or len(parameter.values) <= 2:
        return positions[:, None].astype(np.float64)
    return np.asarray(positions[:, None] == np.arange(len(parameter.values)), dtype=np.float64)


def _list_measurable(space: Space, rows: _Rows, varied: list[int], rng: np.random.Generator) -> list[int]:
    """Parameters that the trees use more than they use shadows."""
    real = [_columns(space, rows.filled[:, j], j) for j in varied]
    ends = np.cumsum([block.shape[1] for block in real] * 2)[:-1]
    beaten = np.zeros(len(varied), dtype=np.int64)
    weights = np.tile(rows.weight, (_TREES, 1))
    for _ in range(_SHUFFLINGS):
        shadows = [_columns(space, _shuffle_column(rows, j, rng), j) for j in varied]
        forest = _Forest.grown(np.concatenate([*real, *shadows], axis=1), rows.value, weights, rng)
        used = np.array([float(np.sum(part)) for part in np.split(forest.used, ends)])
        beaten += used[: len(varied)] <= np.max(used[len(varied) :])
        if np.all(beaten > _LUCKY):
            break
    return [j for j, times in zip(varied, beaten, strict=True) if times <= _LUCKY]


def _shuffle_column(rows: _Rows, j: int, rng: np.random.Generator) -> NDArray[np.int64]:
    column = rows.filled[:, j].copy()
    own = np.flatnonzero(rows.active[:, j])
    column[own] = column[rng.permutation(own)]
    return column


def _total_effects(space: Space, forest: _Forest, real: list[int], rng: np.random.Generator) -> _Floats:
    try:
        points = space.sample(rng, _POINTS)
    except UserError:
        # Hardly anything is feasible: the default's neighbourhood is what there is.
        points = np.repeat(space.levels([space.default]), _POINTS, axis=0)
    # Both sides of a change are given the same values where a parameter is inactive.
    drawn = np.stack([rng.integers(0, size, len(points)) for size in space.shape], axis=1)

    def predicted(levels: Levels) -> _Floats:
        shown = np.where(space.active(levels), levels, drawn)
        return forest.predict(_encode(space, shown))

    before = predicted(points)
    effects = np.zeros(len(real))
    for place, j in enumerate(real):
        moved = points.copy()
        moved[:, j] = rng.integers(0, len(space.parameters[j].values), len(points))
        moved = space.fold(moved)
        feasible = space.feasible(moved)
        change = predicted(moved) - before
        effects[place] = float(np.mean(change[feasible] ** 2)) / 2 if feasible.any() else 0.0
    return effects


def _make_nothing(space: Space, rows: _Rows) -> Importance:
    n, d = len(rows.value), len(space.parameters)
    if n < _TRIALS_A_PARAMETER * d:
        return Importance(note=f"too few runs to tell which parameters matter: {n} configurations, {d} parameters")
    if rows.noise is not None and rows.noise >= np.var(rows.value):
        why = "the configurations differ no more than repeated runs of one"
    else:
        why = f"no parameter stands out from chance in {n} configurations"
    return Importance(dict.fromkeys(space.names, 0.0), f"no measurable influence: {why}")


def _note(space: Space, n: int, varied: set[int], real: set[int], idle: set[int]) -> str:
    silent = [name for j, name in enumerate(space.names) if j in varied and j not in real and j not in idle]
    constant = [name for j, name in enumerate(space.names) if j not in varied]
    parts = []
    if silent:
        enough = n >= _TRIALS_A_PARAMETER * len(space.names)
        parts.append(("no measurable influence: " if enough else "too few runs to tell: ") + ", ".join(silent))
    if idle:
        parts.append("switched off by the best settings: " + ", ".join(space.names[j] for j in sorted(idle)))
    if constant:
        parts.append("never varied: " + ", ".join(constant))
    return "; ".join(parts)
