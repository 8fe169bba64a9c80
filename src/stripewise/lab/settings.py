"""Settings by the names that the stacks give them, as columns of a batch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.stack import every_stack
from stripewise.errors import UserError

_LIST = re.compile(r"\*:([0-9]+|\*)")
SWITCHES = ("automatic", "enable", "disable")

# Parameter of a stack: (column, default). What depends on the direction, or must be read: see columns_of_settings.
_PLAIN: dict[str, tuple[str, Any]] = {
    "stripe_count": ("stripe_count", 0),
    "stripe_size": ("stripe_size", 0),
    "overstripe_count": ("overstripe_count", 0),
    "striping_factor": ("striping_factor", 0),
    "striping_unit": ("striping_unit", 0),
    "cb_buffer_size": ("collective_buffer_size", 0),
    "romio_lustre_co_ratio": ("co_ratio", 1),
    "romio_lustre_coll_threshold": ("coll_threshold", 0),
    "romio_min_fdomain_size": ("min_fdomain_size", 0),
    "io_ompio_num_aggregators": ("ompio_aggregators", 0),
    "io_ompio_bytes_per_agg": ("ompio_bytes_per_agg", 0),
    "io_ompio_cycle_buffer_size": ("ompio_cycle_size", 0),
    "hdf5_alignment": ("hdf5_alignment", 1),
    "hdf5_meta_block_size": ("hdf5_meta_block_size", 2048),
}
_FLAGS: dict[str, tuple[str, bool]] = {
    "romio_no_indep_rw": ("no_indep_rw", False),
    "hdf5_coll_metadata_write": ("hdf5_collective_metadata", False),
}


_OTHERS = (
    *(f"romio_cb_{way}" for way in ("write", "read")),
    *(f"romio_ds_{way}" for way in ("write", "read")),
    *("ind_wr_buffer_size", "ind_rd_buffer_size", "romio_lustre_ds_in_coll", "cb_nodes", "fcoll"),
    *(f"fbtl_posix_{way}_datasieving" for way in ("write", "read")),
)


@cache
def parameters() -> dict[str, Parameter]:
    """Give all parameters, by name, of each stack of which the simulated cluster models at least one."""
    stacks = [{p.name: p for p in stack.parameters} for stack in every_stack()]
    modelled = {*_PLAIN, *_FLAGS, *_OTHERS}
    return {name: parameter for stack in stacks if modelled & stack.keys() for name, parameter in stack.items()}


def not_modelled(parameter: Parameter) -> str:
    """Say that no rule of the simulated cluster reads a layout or a hint of a driver; empty of all others."""
    special = parameter.carrier.of_file_system or parameter.driver
    if not special or parameter.name in {*_PLAIN, *_FLAGS, *_OTHERS} or parameter.name not in parameters():
        return ""
    return "the simulated cluster does not model it"


def of_hints(hints: Iterable[tuple[str, str]]) -> dict[str, int | str]:
    """Give the hints of a program that a batch has columns for, with their values; a library ignores what is wrong."""
    found: dict[str, int | str] = {}
    for name, value in hints:
        parameter = parameters().get(name)
        if name == "cb_config_list" and _LIST.fullmatch(value.strip()):
            found[name] = value
        elif parameter is not None and parameter.ordered and value.strip().isdigit():
            found[name] = int(value)
        elif parameter is not None and not parameter.ordered and value in parameter.values:
            found[name] = value
    return found


def _unset(column: NDArray[Any]) -> NDArray[np.bool_]:
    unset: NDArray[np.bool_] = np.asarray(column == None, dtype=bool)  # noqa: E711  elementwise
    return unset


def left_out(column: NDArray[Any], default: Any) -> NDArray[Any]:
    """Give numbers with NaN, which stands for "not set", where they are the default."""
    return np.where(column == default, np.nan, column.astype(float))


def _number(value: Any, default: float) -> Any:
    """Values as floats, with what is not set replaced by the default."""
    if value is None:
        return default
    if np.ndim(value) == 0:
        return float(value)
    column = np.asarray(value)
    if column.dtype == object:
        return np.where(_unset(column), default, column).astype(float)
    return np.where(np.isnan(column), default, column) if column.dtype.kind == "f" else column


def _codes(value: Any, words: tuple[str, ...], name: str, default: str) -> Any:
    column = np.atleast_1d(np.asarray(default if value is None else value, dtype=object))
    column = np.where(_unset(column), default, column)
    codes = np.full(column.shape, -1, dtype=np.int8)
    for code, word in enumerate(words):
        codes[column == word] = code
    if np.any(codes < 0):
        wrong = column[codes < 0][0]
        raise UserError(f"{name} does not know '{wrong}'", f"choose from {', '.join(words)}")
    return codes


def _switch(value: Any, name: str, default: bool) -> Any:
    column = np.atleast_1d(np.asarray(default if value is None else value, dtype=object))
    spelt = {True: 1, False: 0, "true": 1, "false": 0, None: int(default)}
    try:
        return np.array([spelt[word] for word in column], dtype=bool)
    except KeyError as error:
        raise UserError(f"{name} does not know {error}", "choose from true, false") from error


def columns_of_settings(settings: Mapping[str, Any], direction: str, nodes: int) -> dict[str, Any]:
    """Give the columns of a batch that settings say, with the libraries' defaults for the others.

    Parameters
    ----------
    settings : mapping
        Parameter name to a value or an array of values; names that no driver reads have no effect.
    direction : str
        ``read`` or ``write``: which of the hints by direction acts.
    nodes : int
        Nodes of the workload, over which ``cb_nodes`` are spread where no list says otherwise.

    Raises
    ------
    UserError
        If a value is not one of its parameter's.
    """
    get = settings.get
    raw = {column: _number(get(name), default) for name, (column, default) in _PLAIN.items()}
    raw |= {column: _switch(get(name), name, default) for name, (column, default) in _FLAGS.items()}
    way = "write" if direction == "write" else "read"
    for column, name in (("collective_buffering", f"romio_cb_{way}"), ("data_sieving", f"romio_ds_{way}")):
        raw[column] = _codes(get(name), SWITCHES, name, "automatic")
    raw["sieving_buffer_size"] = _number(get("ind_wr_buffer_size" if way == "write" else "ind_rd_buffer_size"), 0)
    raw["ds_in_coll"] = _codes(get("romio_lustre_ds_in_coll"), SWITCHES, "romio_lustre_ds_in_coll", "enable") != 2
    raw["aggregators"] = _number(get("cb_nodes"), 0)
    raw["aggregators_per_node"] = _per_node(get("cb_config_list"), raw["aggregators"], nodes)
    raw["ompio_aggregators"] = np.maximum(raw["ompio_aggregators"], 0)
    fcoll = ("automatic", "vulcan", "dynamic_gen2", "individual")
    raw["ompio_individual"] = _codes(get("fcoll"), fcoll, "fcoll", "automatic") == 3
    raw["ompio_sieving"] = _switch(get(f"fbtl_posix_{way}_datasieving"), f"fbtl_posix_{way}_datasieving", True)
    return raw


def _per_node(config_list: Any, aggregators: Any, nodes: float) -> Any:
    """Aggregators that may share a node; without a list, what the romio stack derives from ``cb_nodes``."""
    if config_list is None:
        return np.ceil(np.asarray(aggregators) / nodes)
    found = []
    for text in np.atleast_1d(np.asarray(config_list, dtype=object)):
        if text is None:
            found.append(0.0)
            continue
        match = _LIST.fullmatch(str(text).strip())
        if match is None:
            raise UserError(f"cb_config_list '{text}' is not understood", "write '*:N', N processes of every node")
        # A list that was given allows at least one; 0 would stand for the library's own default.
        found.append(float("inf") if match[1] == "*" else max(1.0, float(match[1])))
    return np.array(found)
