"""HDF5 in records: what datasets are like, and what transfers select of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from stripewise.errors import UserError
from stripewise.formats import RECORD_CALLS, RECORD_LINES


def is_hdf5(name: str) -> bool:
    """Whether a line of a record is of HDF5."""
    return name.startswith("h5")


HDF5_NAMES = tuple(name for name in RECORD_LINES if is_hdf5(name) and name not in RECORD_CALLS)
"""Lines that calls refer to."""
OPERATIONS = {
    "h5fcreate": "file_create",
    "h5fopen": "file_open",
    "h5fflush": "file_flush",
    "h5fclose": "file_close",
    "h5dcreate": "dataset_create",
    "h5dopen": "dataset_open",
    "h5dset_extent": "dataset_extend",
    "h5dwrite": "dataset_write",
    "h5dread": "dataset_read",
    "h5dclose": "dataset_close",
}
"""Lines of a record, and what the report calls these operations."""

OPENS = ("h5fcreate", "h5fopen")
STORAGE = ("compact", "contiguous", "chunked")
MOST_DIMENSIONS = 32
MOST_VALUES = 64
"""Parameters of a filter."""
_CLASSES = 5
_FILLS = 3
_MOST_ELEMENT = (1 << 31) - 1
_MOST_BYTES = (1 << 63) - 1
_FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scaleoffset"}


@dataclass(frozen=True)
class Shape:
    """What a dataset is like.

    Attributes
    ----------
    element_size : int
        Bytes.
    storage : str
        One of :data:`STORAGE`.
    size, chunk : tuple of int
        Elements, the slowest dimension first; no chunk where it is not chunked.
    filters : tuple of str
    """

    element_size: int
    storage: str
    size: tuple[int, ...] = ()
    chunk: tuple[int, ...] = ()
    filters: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pieces:
    """How what a transfer moves lies in a dataset, in its elements' order.

    Attributes
    ----------
    start : int
        Bytes before the first.
    count : int
    size : int
        Bytes of a piece.
    gap : float
        Mean bytes between two pieces.
    """

    start: int
    count: int
    size: int
    gap: float

    @property
    def selection(self) -> str:
        """The report's word for it."""
        return "none" if not self.count else "block" if self.count == 1 else "strided"


def pieces_of(shape: Shape, selected: Sequence[Sequence[int]]) -> Pieces:
    """Find the pieces of a selection.

    Parameters
    ----------
    shape : Shape
    selected : sequence of sequences of int
        Of each dimension start, stride, count and block; empty: the whole dataset.

    Raises
    ------
    UserError
        If it has other dimensions than the dataset.
    """
    if selected and len(selected) != len(shape.size):
        what = f"the record is damaged: a selection in {len(selected)} dimensions of a dataset of {len(shape.size)}"
        raise UserError(what, "record the program again")
    if not selected:
        return Pieces(0, 1, math.prod(shape.size) * shape.element_size, 0.0)
    run, count, first, last, below = 1, 1, 0, 0, 1
    whole = True
    for size, (start, stride, times, block) in zip(reversed(shape.size), reversed(selected), strict=True):
        elements = times * block
        if not elements:
            return Pieces(0, 0, 0, 0.0)
        together = times == 1 or stride == block
        if whole and together:
            run *= elements
        else:
            count *= times if whole and not together else elements
            run *= block if whole and not together else 1
        whole &= together and elements == size
        first += start * below
        last += (start + (times - 1) * stride + block - 1) * below
        below *= size
    holes = last + 1 - first - run * count
    gap = holes * shape.element_size / (count - 1) if count > 1 else 0.0
    return Pieces(first * shape.element_size, count, run * shape.element_size, max(0.0, gap))


@dataclass
class Hdf5Names:
    """What the calls of HDF5 of a group refer to, while the group is read."""

    accesses: int = 0
    shapes: list[Shape] = field(default_factory=list)
    values: int | None = None
    """Parameters of the last dataset's last filter; None without one."""

    def take(self, name: str, numbers: Sequence[int]) -> None:
        """Read a line.

        Raises
        ------
        ValueError
            If it stands in a wrong place or says what cannot be.
        """
        if name == "h5access":
            self.accesses += 1
        elif name in ("h5more", "h5space"):
            if not self.accesses:
                raise ValueError(f"{name} without an access")
        elif name == "h5dataset":
            kind, size, layout, fills, _ = numbers
            known = 0 <= kind < _CLASSES and 0 <= layout < len(STORAGE) and 0 <= fills < _FILLS
            if not (known and 0 < size <= _MOST_ELEMENT):
                raise ValueError("a dataset that cannot be")
            self.values = None
            self.shapes.append(Shape(size, STORAGE[layout]))
        else:
            if not self.shapes:
                raise ValueError(f"{name} without a dataset")
            self._of_dataset(name, numbers)

    def _of_dataset(self, name: str, numbers: Sequence[int]) -> None:
        known = self.shapes[-1]
        if name == "h5dim":
            size, most, chunk_size = numbers
            if size < 0 or most < -1 or chunk_size < 0 or len(known.size) == MOST_DIMENSIONS:
                raise ValueError("a dimension that cannot be")
            if math.prod((*known.size, size)) * known.element_size > _MOST_BYTES:
                raise ValueError("a dataset of too many bytes")
            chunk = (*known.chunk, chunk_size) if known.storage == "chunked" else ()
            self.shapes[-1] = Shape(known.element_size, known.storage, (*known.size, size), chunk)
        elif name == "h5value":
            if self.values is None or self.values == MOST_VALUES:
                raise ValueError("a parameter of no filter, or one too many")
            self.values += 1
        else:
            self.values = 0
            filters = (*known.filters, _FILTERS.get(numbers[0], "other"))
            self.shapes[-1] = Shape(known.element_size, known.storage, known.size, known.chunk, filters)
