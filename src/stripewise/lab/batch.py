"""What is simulated together: one row a workload with its configuration, one array a property.

An array has shape ``(n,)``, or ``(1,)`` where all rows share the value: a property that does not vary costs nothing.
Sizes are in bytes. 0 stands for "not set" in every setting: the site's or ROMIO's default then acts. Columns come from
the workload, from how the program touches its files, and from settings by the names that the stacks give them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from stripewise.catalogue.configuration import Value, place_of
from stripewise.catalogue.meaning import parse
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.space import Levels, Space
from stripewise.catalogue.stack import every_stack
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.lab.site import Share, Size

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
_FLAGS: dict[str, str] = {
    "romio_no_indep_rw": "no_indep_rw",
    "hdf5_coll_metadata_write": "hdf5_collective_metadata",
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


def of_hints(hints: Iterable[tuple[str, str]]) -> dict[str, Value]:
    """Give the hints of a program that a batch has columns for, with their values; a library ignores what is wrong."""
    found: dict[str, Value] = {}
    for name, text in hints:
        if name == "cb_config_list" and _LIST.fullmatch(text.strip()):
            found[name] = text
        if name in parameters():
            parameter = parameters()[name]
            value = parse(parameter, text).value
            if value is not None and ((parameter.ordered and value) or place_of(value, parameter.values) is not None):
                found[name] = value
    return found


def _find_unset(column: NDArray[Any]) -> NDArray[np.bool_]:
    unset: NDArray[np.bool_] = np.asarray(column == None, dtype=bool)  # noqa: E711  elementwise
    return unset


def blank_defaults(column: NDArray[Any], default: Any) -> NDArray[Any]:
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
        return np.where(_find_unset(column), default, column).astype(float)
    return np.where(np.isnan(column), default, column) if column.dtype.kind == "f" else column


def _meant(value: Any, name: str) -> NDArray[Any]:
    """Values of a parameter, or their texts, as its library takes them; its default where nothing is set."""
    parameter = parameters()[name]
    column = np.atleast_1d(np.asarray(value, dtype=object))
    found = np.full(column.shape, parameter.default, dtype=object)
    for given in set(column.tolist()) - {None}:
        meaning = parse(parameter, spell(given))
        if meaning.wrong:
            raise UserError(f"{name}: {meaning.wrong}", meaning.fix)
        found[column == given] = meaning.value
    return found


def _codes(value: Any, words: tuple[str, ...], name: str) -> Any:
    column = _meant(value, name)
    codes = np.full(column.shape, -1, dtype=np.int8)
    for code, word in enumerate(words):
        codes[column == word] = code
    if np.any(codes < 0):
        raise UserError(f"{name} does not know '{column[codes < 0][0]}'", f"choose from {', '.join(words)}")
    return codes


def _switch(value: Any, name: str) -> Any:
    return _meant(value, name).astype(bool)


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
    raw |= {column: _switch(get(name), name) for name, column in _FLAGS.items()}
    way = "write" if direction == "write" else "read"
    for column, name in (("collective_buffering", f"romio_cb_{way}"), ("data_sieving", f"romio_ds_{way}")):
        raw[column] = _codes(get(name), SWITCHES, name)
    raw["sieving_buffer_size"] = _number(get("ind_wr_buffer_size" if way == "write" else "ind_rd_buffer_size"), 0)
    raw["ds_in_coll"] = _codes(get("romio_lustre_ds_in_coll"), SWITCHES, "romio_lustre_ds_in_coll") != 2
    raw["aggregators"] = _number(get("cb_nodes"), 0)
    raw["aggregators_per_node"] = _per_node(get("cb_config_list"), raw["aggregators"], nodes)
    raw["ompio_aggregators"] = np.maximum(raw["ompio_aggregators"], 0)
    fcoll = ("automatic", "vulcan", "dynamic_gen2", "individual")
    raw["ompio_individual"] = _codes(get("fcoll"), fcoll, "fcoll") == 3
    raw["ompio_sieving"] = _switch(get(f"fbtl_posix_{way}_datasieving"), f"fbtl_posix_{way}_datasieving")
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


LAYOUTS = ("segmented", "strided", "random", "tile")
APIS = ("posix", "mpiio", "hdf5", "pnetcdf")
DIRECTIONS = ("read", "write")


class Access(BaseModel):
    """What a simulation needs to know of an access beyond the workload: the ``[access]`` table.

    Attributes
    ----------
    hole_size : int or None
        Bytes between two pieces of one process; where not given, what the layout leaves for the other processes.
    overlap : float
        Part of the bytes that neighbours access as well (ghost zones of tiles).
    fsync : bool
        Whether writes end only when the bytes are on the servers.
    metadata_operations : int
        Small operations on the file's metadata by one process a file (HDF5 headers, attributes), beyond open and close.
    client_cached, server_cached : float or None
        Parts of a read that the client's own memory, or the servers' memory, holds already; the site's if not given.
    misaligned : bool
        Whether pieces start off the boundaries of stripes and requests, as after a header.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hole_size: Size | None = None
    overlap: Share = 0.0
    fsync: bool = True
    metadata_operations: int = Field(default=0, ge=0)
    client_cached: Share | None = None
    server_cached: Share | None = None
    misaligned: bool = False


def directions(workload: Workload) -> tuple[str, ...]:
    """The directions that a workload moves bytes in, in order."""
    return {"read": ("read",), "write": ("write",)}.get(workload.operation or "both", ("write", "read"))


def columns_of_workload(workload: Workload, direction: str) -> dict[str, Any]:
    """Give the columns of a batch that a workload says, with the plainest value for what it does not.

    Raises
    ------
    UserError
        If the direction does not exist.
    """
    if direction not in DIRECTIONS:
        raise UserError(f"no direction is called '{direction}'", "use read or write")
    processes = workload.processes or 1
    shared = not workload.file_per_process
    size = workload.file_size or (1 << 30)
    part = max(1, size // processes if shared else size)
    transfer = workload.transfer_size or min(part, 4 << 20)
    piece = min(workload.piece_size or transfer, transfer)
    return {
        "write": direction == "write",
        "nodes": workload.nodes or 1,
        "processes_per_node": workload.processes_per_node or 1,
        "file_size": size,
        "transfer_size": transfer,
        "piece_size": piece,
        "layout": LAYOUTS.index(workload.layout or "segmented"),
        "api": APIS.index(workload.api or "mpiio"),
        "collective": bool(workload.collective),
        "file_per_process": bool(workload.file_per_process),
    }


def columns_of_access(access: Access) -> dict[str, Any]:
    """Give the columns of a batch that an access says; negative numbers leave the choice to the layout or the site."""
    return {
        "hole_size": -1 if access.hole_size is None else access.hole_size,
        "overlap": access.overlap,
        "fsync": access.fsync,
        "misaligned": access.misaligned,
        "metadata_operations": access.metadata_operations,
        "client_cached": -1 if access.client_cached is None else access.client_cached,
        "server_cached": -1 if access.server_cached is None else access.server_cached,
    }


Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class RunBatch:
    """Workloads and configurations, one a row.

    Attributes
    ----------
    write : ndarray of bool
        Direction; a workload that does both is two batches (:meth:`of` makes one direction).
    file_size, transfer_size, piece_size : ndarray
        Bytes of a file, of one call of a process, of one contiguous piece within it.
    hole_size : ndarray
        Bytes between two pieces of one process; negative: what the layout leaves for the other processes.
    overlap : ndarray
        Part of the bytes that neighbours access as well.
    layout, api : ndarray of int8
        Index into :data:`~stripewise.lab.batch.LAYOUTS` and :data:`~stripewise.lab.batch.APIS`.
    client_cached, server_cached : ndarray
        Parts of a read; negative for the site's.
    stripe_count, stripe_size, overstripe_count : ndarray
        As ``lfs setstripe`` was told: 0 for the site's default, a count of -1 for all OSTs.
    striping_factor, striping_unit : ndarray
        The hints, which not every driver obeys; 0 for none.
    collective_buffering, data_sieving : ndarray of int8
        Index into :data:`~stripewise.lab.batch.SWITCHES`; of the row's direction.
    aggregators, aggregators_per_node : ndarray
        ``cb_nodes`` and the number that ``cb_config_list`` allows on a node.
    collective_buffer_size, sieving_buffer_size : ndarray
        ``cb_buffer_size``; ``ind_rd_buffer_size`` or ``ind_wr_buffer_size``.
    co_ratio, coll_threshold, ds_in_coll, no_indep_rw, min_fdomain_size : ndarray
        The other hints of ROMIO that act. ``ds_in_coll`` and ``no_indep_rw`` are of bool.
    ompio_aggregators, ompio_bytes_per_agg, ompio_individual, ompio_cycle_size, ompio_sieving : ndarray
        OMPIO's parameters; ``ompio_aggregators`` 0 for its own choice.
    hdf5_alignment, hdf5_meta_block_size, hdf5_collective_metadata : ndarray
    """

    write: Flags
    nodes: Numbers
    processes_per_node: Numbers
    file_size: Numbers
    transfer_size: Numbers
    piece_size: Numbers
    hole_size: Numbers
    overlap: Numbers
    layout: Codes
    api: Codes
    collective: Flags
    file_per_process: Flags
    fsync: Flags
    misaligned: Flags
    metadata_operations: Numbers
    client_cached: Numbers
    server_cached: Numbers
    stripe_count: Numbers
    stripe_size: Numbers
    overstripe_count: Numbers
    striping_factor: Numbers
    striping_unit: Numbers
    collective_buffering: Codes
    data_sieving: Codes
    aggregators: Numbers
    aggregators_per_node: Numbers
    collective_buffer_size: Numbers
    sieving_buffer_size: Numbers
    co_ratio: Numbers
    coll_threshold: Numbers
    ds_in_coll: Flags
    no_indep_rw: Flags
    min_fdomain_size: Numbers
    ompio_aggregators: Numbers
    ompio_bytes_per_agg: Numbers
    ompio_individual: Flags
    ompio_cycle_size: Numbers
    ompio_sieving: Flags
    hdf5_alignment: Numbers
    hdf5_meta_block_size: Numbers
    hdf5_collective_metadata: Flags

    def __len__(self) -> int:
        return self._rows

    @cached_property
    def _rows(self) -> int:
        return max(len(getattr(self, name)) for name in _TYPES)

    def __getitem__(self, rows: slice) -> RunBatch:
        """Take a range of rows."""
        n = len(self)
        columns = {name: getattr(self, name) for name in _TYPES}
        taken = {name: column if len(column) == 1 < n else column[rows] for name, column in columns.items()}
        return RunBatch(**taken)

    @cached_property
    def processes(self) -> Numbers:
        """All ranks."""
        return self.nodes * self.processes_per_node

    @cached_property
    def files(self) -> Numbers:
        """Files of a run."""
        return np.where(self.file_per_process, self.processes, 1.0)

    @cached_property
    def bytes(self) -> Numbers:
        """Bytes that the processes move together."""
        return self.files * self.file_size

    @cached_property
    def any_striping_hint(self) -> bool:
        """Whether any row has hints of MPI-IO about striping."""
        return bool(self.striping_factor.any() or self.striping_unit.any())

    @cached_property
    def any_metadata(self) -> bool:
        """Whether any row has metadata operations beyond open and close."""
        return bool(self.metadata_operations.any())

    @classmethod
    def make(
        cls,
        workload: Workload,
        direction: str,
        settings: Mapping[str, Any] | None = None,
        access: Access | None = None,
        columns: Mapping[str, Any] | None = None,
    ) -> RunBatch:
        """Build a batch from a workload and settings by the names that the stacks give them.

        Parameters
        ----------
        workload : Workload
            What is unknown of it takes the plainest value: one process, segmented, whole calls, independent.
        direction : str
            ``read`` or ``write``.
        settings : mapping, optional
            Parameter name to a value or an array of values; names that no driver reads have no effect.
        access : Access, optional
        columns : mapping, optional
            Fields of the batch by name, as values or arrays: they win over the workload.

        Raises
        ------
        UserError
            If arrays differ in length, or a value is not one of its parameter's.
        """
        raw = columns_of_workload(workload, direction) | columns_of_access(access or Access())
        raw |= columns_of_settings(settings or {}, direction, workload.nodes or 1)
        raw |= dict(columns or {})
        return cls(**_make_arrays(raw))

    @classmethod
    def of(
        cls, workload: Workload, direction: str, space: Space, levels: Levels, access: Access | None = None
    ) -> RunBatch:
        """Build a batch from rows of a space; settings at their defaults are left to the site, as in a real run."""
        settings: dict[str, Any] = {}
        values = space.columns(space.fold(levels))
        for parameter in space.parameters:
            column = np.asarray(values[parameter.name])
            settings[parameter.name] = blank_defaults(column, parameter.default) if parameter.ordered else column
        return cls.make(workload, direction, settings, access)


_KINDS: dict[str, type] = {
    "Numbers": np.float64,
    "Flags": np.bool_,
    "Codes": np.int8,
}
_TYPES = {field.name: _KINDS[str(field.type)] for field in fields(RunBatch)}


def _array(name: str, value: Any) -> NDArray[Any]:
    return np.atleast_1d(np.asarray(value, dtype=_TYPES[name]))


def _make_arrays(raw: Mapping[str, Any]) -> dict[str, Any]:
    unknown = raw.keys() - _TYPES.keys()
    if unknown:
        raise UserError(f"a batch has no column {sorted(unknown)[0]}", f"columns: {', '.join(_TYPES)}")
    arrays = {name: _array(name, value) for name, value in raw.items()}
    lengths = {len(array) for array in arrays.values()} - {1}
    if len(lengths) > 1:
        raise UserError(f"columns of {sorted(lengths)} rows cannot be simulated together")
    return arrays
