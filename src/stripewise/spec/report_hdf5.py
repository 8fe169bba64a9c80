"""The parts of the runtime's report that tell how calls went over a file, and what HDF5 did to it."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field


class ReportPart(BaseModel):
    """A part of the report. It keeps what a newer runtime adds, so that a stored report is whole."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)


class Pattern(ReportPart):
    """Sizes and order of the calls of one direction."""

    histogram: list[int] = Field(default_factory=list)
    top: list[tuple[int, int]] = Field(default_factory=list)
    contiguous: int = 0
    strided: int = 0
    random: int = 0


class Patterns(ReportPart):
    """Both directions; None where no bytes were moved."""

    write: Pattern | None = None
    read: Pattern | None = None


class Transfers(Pattern):
    """Calls of H5Dwrite or H5Dread on a dataset."""

    calls: int = 0
    bytes: int = 0
    collective: int = 0
    independent: int = 0
    broken_collective: int = 0
    broken_by: list[str] = Field(default_factory=list)
    time_max: float = 0.0
    time_sum: float = 0.0
    selections: dict[str, int] = Field(default_factory=dict)


class Dataset(ReportPart):
    """One dataset; ``size`` and ``chunk`` in elements, slowest dimension first."""

    name: str
    creates: int = 0
    opens: int = 0
    ranks: int = 0
    nodes: int = 0
    storage: str | None = None
    element_size: int = 0
    size: list[int] = Field(default_factory=list)
    chunk: list[int] = Field(default_factory=list)
    filters: list[str] = Field(default_factory=list)
    address: int | None = None
    write: Transfers | None = None
    read: Transfers | None = None

    @property
    def bytes(self) -> int:
        """Bytes that its elements take, before any filter."""
        return math.prod(self.size) * self.element_size


class Hdf5Calls(ReportPart):
    """Calls of one operation of HDF5."""

    count: int = 0
    time_max: float = 0.0
    time_sum: float = 0.0


class Hdf5Report(ReportPart):
    """What HDF5 did to a file, and the properties it says the open file has."""

    driver: str | None = None
    properties: dict[str, str] = Field(default_factory=dict)
    operations: dict[str, Hdf5Calls] = Field(default_factory=dict)
    datasets: list[Dataset] = Field(default_factory=list)
