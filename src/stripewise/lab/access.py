"""How a program touches its files: the workload, and what a simulation needs to know beyond, as columns of a batch."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.lab.site import Share, Size

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
