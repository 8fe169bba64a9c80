"""Several small models, each of a group of systems, and the configuration that helps on most of them.

Each member predicts the logarithm of performance of one group, up to a constant of the workload, from the roles of
parameters and the words of the workload. :func:`choose` weighs the groups by the runs so far, and none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.model.domain import Floats
from stripewise.model.features import Matrix
from stripewise.model.trees.ensemble import Trees
from stripewise.search.costs import Costs
from stripewise.spec.parameter import Parameter
from stripewise.spec.space import Levels, Space
from stripewise.spec.trial import History

ROLES = (
    "collective_buffering",
    "data_sieving",
    "aggregators",
    "collective_buffer_size",
    "sieving_buffer_size",
    "stripe_count",
    "stripe_size",
)
"""Roles of parameters that it knows something about."""
UNKNOWN = -64.0
"""In place of what is not known: far from every logarithm of a size or a count."""
_SIZES = ("nodes", "processes", "piece_size", "transfer_size", "file_size")
_SWITCHES: Mapping[object, float] = {"disable": -1.0, "automatic": 0.0, "enable": 1.0, False: -1.0, True: 1.0}
OF_ONE_NODE = ("tmpfs", "ext4", "ext3", "xfs", "btrfs", "overlay", "overlayfs", "zfs")
_OTHER_KIND = 0.25
"""What a system of the other kind (a node's own file system, a shared one) counts."""
_OTHER = {"read": ("_write", "_wr_buffer_size"), "write": ("_read", "_rd_buffer_size")}
"""What ends the names of parameters that act on the other operation alone."""


def encode(facts: Mapping[str, Any], operation: str, settings: Mapping[str, Floats], count: int) -> Matrix:
    """Features of configurations of one workload.

    Parameters
    ----------
    facts : mapping
        What is known of the workload: ``operation``, ``collective``, ``layout``, ``file_system`` and sizes.
    operation : {"read", "write"}
    settings : mapping
        Numbers of the configurations by role, shape ``(n,)`` each, as :func:`settings_by_role` gives them.
    count : int
        Configurations.

    Returns
    -------
    ndarray of float32, shape (n, f)
        :data:`UNKNOWN` where something is not known.
    """
    layout, system, collective = (facts.get(name) for name in ("layout", "file_system", "collective"))
    fixed = [
        float(operation == "write"),
        np.nan if collective is None else float(collective),
        np.nan if layout is None else float(layout != "segmented"),
        np.nan if system is None else float(system not in OF_ONE_NODE),
    ]
    found = np.column_stack([np.tile(fixed, (count, 1)), sizes_and_roles(facts, settings, count)])
    return np.where(np.isnan(found), UNKNOWN, found).astype(np.float32)


def sizes_and_roles(facts: Mapping[str, Any], settings: Mapping[str, Floats], count: int) -> Floats:
    """Logarithms of sizes and of settings by role, and of their ratios, shape ``(count, f)``; NaN where unknown."""
    size = {name: np.log2(float(facts[name])) if facts.get(name) else np.nan for name in _SIZES}
    value = {role: settings.get(role, np.full(count, np.nan)) for role in ROLES}
    ratios = [
        value["aggregators"] - size["nodes"],
        value["aggregators"] - size["processes"],
        value["collective_buffer_size"] + value["aggregators"] - size["processes"] - size["transfer_size"],
        value["sieving_buffer_size"] - size["piece_size"],
        value["sieving_buffer_size"] - size["transfer_size"],
        value["stripe_count"] - size["nodes"],
        value["stripe_count"] - size["processes"],
        value["stripe_size"] - size["transfer_size"],
        size["file_size"] - value["stripe_count"] - value["stripe_size"],
    ]
    sizes = [*size.values(), size["transfer_size"] - size["piece_size"]]
    return np.column_stack([np.tile(sizes, (count, 1)), *value.values(), *ratios])


def settings_by_role(space: Space, levels: Levels, operation: str) -> dict[str, Floats]:
    """Numbers of the configurations for each role that the space has, for one operation, shape ``(n,)`` each."""
    folded = space.fold(levels)
    return {
        parameter.role: np.array([number_of(value) for value in parameter.values])[folded[:, index]]
        for index, parameter in enumerate(space.parameters)
        if _acts(parameter, operation)
    }


def _acts(parameter: Parameter, operation: str) -> bool:
    return parameter.role in ROLES and not parameter.name.endswith(_OTHER[operation])


def number_of(value: object) -> float:
    """A switch as -1, 0 or 1, a count or a size as its logarithm; NaN for whatever means something else."""
    if isinstance(value, str | bool):
        return _SWITCHES.get(value, np.nan)
    number = float(value)  # type: ignore[arg-type]  # numbers are all that is left of a parameter's values
    return float(np.log2(number)) if number > 0 else np.nan


@dataclass(frozen=True, eq=False)
class Members:
    """Trees of several groups of systems: each says what settings brought there.

    Attributes
    ----------
    groups : tuple of str
        Systems behind each of the members, and their MPI library.
    shared : tuple of bool
        Whether the file systems of each are shared by several nodes.
    several : tuple of bool
        Whether any of its programs ran on several nodes.
    members : tuple of Trees
        Each predicts the natural logarithm of performance, up to a constant of the workload.
    """

    groups: tuple[str, ...]
    shared: tuple[bool, ...]
    several: tuple[bool, ...]
    members: tuple[Trees, ...]

    def only(self, kept: Sequence[bool]) -> Members:
        """Give what is known from some of the members alone."""
        places = [place for place, keep in enumerate(kept) if keep]
        return replace(
            self,
            groups=tuple(self.groups[place] for place in places),
            shared=tuple(self.shared[place] for place in places),
            several=tuple(self.several[place] for place in places),
            members=tuple(self.members[place] for place in places),
        )

    def weights(self, facts: Mapping[str, Any]) -> Floats:
        """How much each member counts for a workload before anything has run, shape ``(members,)``; their sum is 1.

        What is like this system as far as one can see, a node's own file system or a shared one, counts more.
        """
        system = facts.get("file_system")
        alike = np.array([system is None or shared == (system not in OF_ONE_NODE) for shared in self.shared])
        weight = np.where(alike, 1.0, _OTHER_KIND)
        return np.asarray(weight / weight.sum(), dtype=np.float64)

    def weights_on_nodes(self) -> Floats:
        """How much each member counts for a program on several nodes, before anything has run, shape ``(members,)``.

        Those of several nodes alone; measured ones together as much as simulated ones.
        """
        several, simulated = np.array(self.several), np.array([name.endswith(", simulated") for name in self.groups])
        weight = np.zeros(len(self.groups))
        for kind in (several & simulated, several & ~simulated):
            weight[kind] = 1.0 / max(1, int(kind.sum()))
        return np.asarray(weight / max(1.0, weight.sum()), dtype=np.float64)

    def predict(self, x: Matrix) -> Floats:
        """What each member says, shape ``(members, n)``; rows that are alike are asked about once."""
        if not self.members:
            return np.zeros((0, len(x)))
        distinct, place = np.unique(x, axis=0, return_inverse=True)
        # All trees at once: asking each member by itself takes ten times as long.
        each = np.add.reduceat(self._joined.members(distinct), self._starts, axis=1)
        return np.asarray(each.T[:, place.reshape(-1)])

    @cached_property
    def _joined(self) -> Trees:
        return Trees.joined(self.members)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Where the trees of each member begin among all."""
        return np.cumsum([0, *(len(member) for member in self.members[:-1])])

    def gains(self, facts: Mapping[str, Any], space: Space, levels: Levels) -> Floats:
        """Logarithm of each configuration's performance over the default's, as each member has it, ``(members, n)``.

        Where a program reads and writes, the mean of both.
        """
        rows = np.concatenate([space.levels([space.default]), levels])
        operation = facts.get("operation")
        each = ("read", "write") if operation in (None, "both") else (str(operation),)
        total = np.zeros((len(self.members), len(levels)))
        for one in each:
            found = self.predict(encode(facts, one, settings_by_role(space, rows, one), len(rows)))
            total += (found[:, 1:] - found[:, :1]) / len(each)
        return total


DOUBT = 0.3
"""Standard deviation of the error of a gain (logarithm) on a system that is not among the members."""


@dataclass(frozen=True, eq=False)
class Advice:
    """What the members say of one workload."""

    members: Members
    facts: Mapping[str, Any]
    doubt: float = DOUBT
    on_nodes: bool = False
    """Whether to weigh the members for several nodes."""

    @cached_property
    def weights(self) -> Floats:
        return self.members.weights_on_nodes() if self.on_nodes else self.members.weights(self.facts)

    def __call__(self, space: Space, levels: Levels) -> Floats:
        """Logarithm of performance over the default's on each of the systems: ``(n, d)`` to ``(k, n)``."""
        return self.members.gains(self.facts, space, levels)


NONE = 0.3
"""Probability, before the first run, that this system resembles none of the others."""
LEAST = 0.02
"""Expected gain (logarithm) for which a configuration is tried."""


def resemblance(weights: Floats, gains: Floats, cost: Floats, doubt: float) -> Floats:
    """How probable it is that this system behaves as each of the others, or as none of them.

    Parameters
    ----------
    weights : ndarray, shape (k,)
        How much each of the systems counts before the first run.
    gains : ndarray, shape (k, m)
        Of the configurations that have run, on each of the other systems.
    cost : ndarray, shape (m,)
        Their costs here (logarithms), up to a constant.
    doubt : float
        Standard deviation of the error of a gain.

    Returns
    -------
    ndarray, shape (k + 1,)
        The last is the probability that it resembles none; then configurations are alike up to the doubt.
    """
    before = np.append((1 - NONE) * weights, NONE)
    if len(cost) == 0:
        return before
    error = np.concatenate([gains, np.zeros((1, len(cost)))]) + cost
    error -= error.mean(axis=1, keepdims=True)
    log = np.log(before) - 0.5 * np.sum(error**2, axis=1) / doubt**2
    weight = np.exp(log - log.max())
    return np.asarray(weight / weight.sum(), dtype=np.float64)


def choose(advice: Advice, space: Space, history: History, seen: Levels, candidates: Levels) -> Levels:
    """Give the configuration that is expected to improve most on what was tried, over the other systems.

    1. Find how probable it is that this system behaves as each of the others (:func:`resemblance`).
    2. On each of them, the best of what was tried has a gain, and a candidate improves on it or does not. Take the
       candidate with the largest improvement on average, so that a second one helps where the first does not.

    Parameters
    ----------
    advice : Advice
    space : Space
    history : History
    seen : ndarray, shape (m, d)
        Configurations that ran or are running; not empty.
    candidates : ndarray, shape (n, d)

    Returns
    -------
    ndarray, shape (1, d)
        Or (0, d) where nothing is expected to improve by :data:`LEAST`.
    """
    if len(candidates) == 0:
        return candidates
    known = Costs.of(history).known
    worked = ~np.isnan(known)
    ran = space.levels([trial.configuration for trial in history.trials])[worked]
    gains = advice(space, np.concatenate([ran, seen, candidates]))
    here, tried, new = np.split(gains, [len(ran), len(ran) + len(seen)], axis=1)
    weight = resemblance(advice.weights, here, known[worked], advice.doubt)[:-1]
    improvement = weight @ np.maximum(new - np.max(tried, axis=1, keepdims=True), 0.0)
    chosen = int(np.argmax(improvement))
    return candidates[[chosen]] if improvement[chosen] >= LEAST else candidates[:0]
