"""The workload: what cannot be tuned once the program starts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from stripewise.sizes import parse_size

Size = Annotated[int, BeforeValidator(parse_size)]
"""Bytes; text with a unit is accepted."""


class Workload(BaseModel):
    """What a program does to its files, as declared or observed.

    ``None`` means unknown: expressions then see a value that rules nothing out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    operation: Literal["read", "write", "both"] | None = Field(
        default=None, description="what the program does to its files"
    )
    nodes: Annotated[int, Field(ge=1)] | None = Field(default=None, description="nodes of a run")
    processes_per_node: Annotated[int, Field(ge=1)] | None = Field(default=None, description="ranks per node")
    file_size: Size | None = Field(default=None, description='bytes of a file; sizes may be written as `"64 GiB"`')
    transfer_size: Size | None = Field(default=None, description="bytes of one call of a rank")
    layout: Literal["segmented", "strided", "random", "tile"] | None = Field(
        default=None, description="how the data of the ranks are arranged in the file"
    )
    piece_size: Size | None = Field(default=None, description="contiguous bytes in the file of a strided call")
    collective: bool | None = Field(default=None, description="whether collective calls are used")
    file_per_process: bool | None = Field(default=None, description="one file per rank")
    api: Literal["posix", "mpiio", "hdf5", "pnetcdf"] | None = Field(default=None, description="what the program calls")
    files: Annotated[int, Field(ge=0)] | None = Field(default=None, description="number of files")
    driver: str | None = Field(default=None, description="file-system driver, as in romio_filesystem_type")
    file_system: str | None = Field(default=None, description="type, such as `lustre`")

    @property
    def processes(self) -> int | None:
        """All ranks, if known."""
        if self.nodes is None or self.processes_per_node is None:
            return None
        return self.nodes * self.processes_per_node

    def words(self) -> dict[str, Any]:
        """Give the words that expressions may use; unknown ones have the value that rules nothing out.

        ``pieces``: one call of a rank touches several places of the file. ``interleaved``: in one collective call the
        ranks' ranges of the file overlap, so that ROMIO's ``automatic`` means collective buffering. Both are ``yes``,
        ``no`` or ``unknown``.
        """
        return {
            "nodes": self.nodes or 1,
            "processes_per_node": self.processes_per_node or 1,
            "processes": self.processes or 1,
            "operation": self.operation or "both",
            "reads": self.operation in (None, "read", "both"),
            "writes": self.operation in (None, "write", "both"),
            "file_size": self.file_size or 0,
            "transfer_size": self.transfer_size or 0,
            "piece_size": self.piece_size or 0,
            "layout": self.layout or "unknown",
            "pieces": self._pieces(),
            "interleaved": self._interleaved(),
            "collective": self.collective is not False,
            "independent": self.collective is not True,
            "file_per_process": bool(self.file_per_process),
            "api": self.api or "unknown",
            "driver": self.driver or "unknown",
            "file_system": self.file_system or "unknown",
        }

    def _pieces(self) -> str:
        if self.layout == "segmented" or (self.transfer_size and self.transfer_size == self.piece_size):
            return "no"
        if self.piece_size and self.transfer_size:
            return "yes"
        return "unknown"

    def _interleaved(self) -> str:
        if self.processes == 1 or self.file_per_process or self.layout == "segmented":
            return "no"
        if self.layout == "strided" and self._pieces() != "unknown":
            return self._pieces()
        most = (self.processes or 0) * (self.transfer_size or 0)
        if self._pieces() == "yes" and self.file_size is not None and self.file_size <= most:
            # Ranges with holes do not fit into the file beside one another.
            return "yes"
        return "unknown"

    def merged(self, observed: Workload) -> Workload:
        """Fill what is unknown here from an observation; what was declared stays."""
        declared = self.model_dump(exclude_none=True)
        return Workload.model_validate({**observed.model_dump(exclude_none=True), **declared})
