"""Configurations of one workload as numbers: the roles of parameters and the words of the workload, never names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.model.domain import Floats
from stripewise.model.features import Matrix
from stripewise.spec.parameter import Parameter
from stripewise.spec.space import Levels, Space

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
OF_ONE_NODE = ("tmpfs", "ext4", "ext3", "xfs", "btrfs", "overlay", "overlayfs", "zfs")
"""File systems of a node's own; all others are shared by several."""
UNKNOWN = -64.0
"""In place of what is not known: far from every logarithm of a size or a count."""
_SIZES = ("nodes", "processes", "piece_size", "transfer_size", "file_size")
_SWITCHES: Mapping[object, float] = {"disable": -1.0, "automatic": 0.0, "enable": 1.0, False: -1.0, True: 1.0}
_OTHER = {"read": ("_write", "_wr_buffer_size"), "write": ("_read", "_rd_buffer_size")}
"""What ends the names of parameters that act on the other operation alone: columns of tables do not say it."""


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
        parameter.role: _numbers(parameter, folded[:, index])
        for index, parameter in enumerate(space.parameters)
        if _acts(parameter, operation)
    }


def _acts(parameter: Parameter, operation: str) -> bool:
    known = parameter.role in ROLES and operation in parameter.operations
    return known and not parameter.name.endswith(_OTHER[operation])


def _numbers(parameter: Parameter, levels: NDArray[np.int64]) -> Floats:
    """Numbers of some levels; a parameter may be a range of millions, so only the values that occur are looked at."""
    distinct, place = np.unique(levels, return_inverse=True)
    return np.array([number_of(parameter.values[level]) for level in distinct], dtype=np.float64)[place.reshape(-1)]


def number_of(value: object) -> float:
    """A switch as -1, 0 or 1, a count or a size as its logarithm; NaN for whatever means something else."""
    if isinstance(value, str | bool):
        return _SWITCHES.get(value, np.nan)
    number = float(value)  # type: ignore[arg-type]  # numbers are all that is left of a parameter's values
    return float(np.log2(number)) if number > 0 else np.nan
