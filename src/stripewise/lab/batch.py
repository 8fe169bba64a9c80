"""What is simulated together: one row a workload with its configuration, one array a property.

An array has shape ``(n,)``, or ``(1,)`` where all rows share the value: a property that does not vary costs nothing.
Sizes are in bytes. 0 stands for "not set" in every setting: the site's or ROMIO's default then acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.space import Levels, Space
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.lab.access import Access, columns_of_access, columns_of_workload
from stripewise.lab.settings import columns_of_settings, left_out

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
    nodes, processes_per_node : ndarray
    file_size, transfer_size, piece_size : ndarray
        Bytes of a file, of one call of a process, of one contiguous piece within it.
    hole_size : ndarray
        Bytes between two pieces of one process; negative: what the layout leaves for the other processes.
    overlap : ndarray
        Part of the bytes that neighbours access as well.
    layout, api : ndarray of int8
        Index into :data:`~stripewise.lab.access.LAYOUTS` and :data:`~stripewise.lab.access.APIS`.
    collective, file_per_process, fsync, misaligned : ndarray of bool
    metadata_operations : ndarray
    client_cached, server_cached : ndarray
        Parts of a read; negative for the site's.
    stripe_count, stripe_size, overstripe_count : ndarray
        As ``lfs setstripe`` was told: 0 for the site's default, a count of -1 for all OSTs.
    striping_factor, striping_unit : ndarray
        The hints, which not every driver obeys; 0 for none.
    collective_buffering, data_sieving : ndarray of int8
        Index into :data:`~stripewise.lab.settings.SWITCHES`; of the row's direction.
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
        return cls(**_arrays(raw))

    @classmethod
    def of(
        cls, workload: Workload, direction: str, space: Space, levels: Levels, access: Access | None = None
    ) -> RunBatch:
        """Build a batch from rows of a space; settings at their defaults are left to the site, as in a real run."""
        settings: dict[str, Any] = {}
        values = space.columns(space.fold(levels))
        for parameter in space.parameters:
            column = np.asarray(values[parameter.name])
            settings[parameter.name] = left_out(column, parameter.default) if parameter.ordered else column
        return cls.make(workload, direction, settings, access)


_KINDS: dict[str, type] = {
    "Numbers": np.float64,
    "Flags": np.bool_,
    "Codes": np.int8,
}
_TYPES = {field.name: _KINDS[str(field.type)] for field in fields(RunBatch)}


def _array(name: str, value: Any) -> NDArray[Any]:
    return np.atleast_1d(np.asarray(value, dtype=_TYPES[name]))


def _arrays(raw: Mapping[str, Any]) -> dict[str, Any]:
    unknown = raw.keys() - _TYPES.keys()
    if unknown:
        raise UserError(f"a batch has no column {sorted(unknown)[0]}", f"columns: {', '.join(_TYPES)}")
    arrays = {name: _array(name, value) for name, value in raw.items()}
    lengths = {len(array) for array in arrays.values()} - {1}
    if len(lengths) > 1:
        raise UserError(f"columns of {sorted(lengths)} rows cannot be simulated together")
    return arrays
