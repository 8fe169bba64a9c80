"""One file in the runtime's report: the calls that were made on it, and what HDF5 did to it."""

from __future__ import annotations

import math
from typing import Any

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


class Operation(ReportPart):
    """Calls of one MPI function on a file, over all ranks."""

    count: int = 0
    bytes: int = 0
    time_max: float = 0.0
    time_sum: float = 0.0
    min_size: int | None = None
    max_size: int | None = None
    messages: int = 0


class Mode(ReportPart):
    """Collective or independent data calls."""

    calls: int = 0
    bytes: int = 0


class View(ReportPart):
    """The file view through which most bytes moved."""

    filetype_size: int
    contiguous: bool
    piece_size: int | None = None


class SystemCalls(ReportPart):
    """System calls that moved a file's data."""

    count: int = 0
    bytes: int = 0
    ranks: int = 0
    max_size: int = 0


class Share(SystemCalls):
    """System calls made within one kind of MPI call; ``time_sum`` is None in reports of earlier versions."""

    time_sum: float | None = None


class Posix(SystemCalls):
    """System calls that really moved a file's data."""

    min_size: int = 0
    sizes: list[tuple[int, int]] = Field(default_factory=list)
    during_collective: Share = Share()
    during_independent: Share = Share()
    during_write: Share = Share()


class PosixCalls(ReportPart):
    """Both directions."""

    write: Posix = Posix()
    read: Posix = Posix()


class SettingOutcome(ReportPart):
    """What became of one setting of the plan on one file."""

    layer: str
    key: str
    requested: str | None = None
    application: str | None = None
    given: str | None = None
    echoed: str | None = None
    outcome: str = ""
    note: str = ""
    acted: int | None = None
    missed: int | None = None


class FileReport(ReportPart):
    """One file."""

    path: str
    opens: int = 0
    ranks: int = 0
    nodes: int = 0
    processes: int | None = None
    whole_readers: int | None = None
    whole_read: int | None = None
    driver: str | None = None
    file_system: str | None = None
    size: int | None = None
    span: float | None = None
    write_span: float | None = None
    read_span: float | None = None
    operations: dict[str, Operation] = Field(default_factory=dict)
    collective: Mode = Mode()
    independent: Mode = Mode()
    view: View | None = None
    pattern: Patterns = Patterns()
    posix: PosixCalls = PosixCalls()
    layout: dict[str, Any] | None = None
    application_info: dict[str, str] = Field(default_factory=dict)
    info: dict[str, str] = Field(default_factory=dict)
    settings: list[SettingOutcome] = Field(default_factory=list)
    hdf5: Hdf5Report | None = None

    @property
    def bytes(self) -> int:
        """Bytes that MPI-IO calls moved."""
        return self.collective.bytes + self.independent.bytes

    @property
    def without_data(self) -> list[Operation]:
        """Operations that ask the file system for something else than data: opens, closes, syncs, sizes."""
        others = ("read", "write", "iread", "iwrite", "seek", "map", "advise")
        return [operation for name, operation in self.operations.items() if name.split("_")[0] not in others]

    def moved(self, direction: str) -> list[Operation]:
        """Data operations of a direction, ``read`` or ``write``."""
        names = (direction, f"i{direction}")
        return [operation for name, operation in self.operations.items() if name.split("_")[0] in names]

    def calls(self, direction: str, collective: bool) -> int:
        """Number of data calls of a direction, summed over ranks."""
        return sum(
            operation.count
            for name, operation in self._data(direction, collective).items()
            if not name.endswith("_end")
        )

    def messages(self, direction: str) -> int:
        """MPI calls that the MPI library made within collective calls of a direction; 0 also where none can be seen."""
        return sum(operation.messages for operation in self._data(direction, collective=True).values())

    def exchange_seconds(self, direction: str) -> tuple[float, float] | None:
        """Time in collective calls of a direction outside system calls, and all of it; None if it was not measured."""
        write, read = self.posix.write, self.posix.read
        within = read.during_write.time_sum
        system = (write if direction == "write" else read).during_collective.time_sum
        if within is None or system is None:
            return None
        system += within if direction == "write" else -within
        whole = sum(operation.time_sum for operation in self._data(direction, collective=True).values())
        return max(0.0, whole - system), whole

    def _data(self, direction: str, collective: bool) -> dict[str, Operation]:
        return {
            name: operation
            for name, operation in self.operations.items()
            if name.split("_")[0] in (direction, f"i{direction}")
            and any(mark in name for mark in ("_all", "_ordered")) is collective
        }
