"""A sample of a dataset in an HDF5 file, read by a child in bounded time and memory."""

from __future__ import annotations

import io
import json
import math
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError, optional
from stripewise.interpreter import inherited, python

_MOST_BLOCKS = 16
_SECONDS = 300
_MEMORY = 2 << 30
_LARGEST_CHUNK = 256 << 20


@dataclass(frozen=True)
class Sample:
    """Blocks of a dataset, each as large as a chunk would be.

    Attributes
    ----------
    dataset : str
        Its path.
    blocks : tuple of array
    share : float
        Of all its elements.
    chunked, filtered : bool
        Whether the program chunks and filters it by itself.
    """

    dataset: str
    blocks: tuple[NDArray[Any], ...]
    share: float
    chunked: bool
    filtered: bool


def load_h5py() -> Any:
    """Import h5py, which only this part needs.

    Raises
    ------
    UserError
        If it is not installed.
    """
    with optional("hdf5"):
        import h5py  # noqa: PLC0415
    return h5py


def chunk_shape(shape: Sequence[int], element: int, size: int) -> tuple[int, ...]:
    """Divide a dataset as the runtime does it: at most so many bytes, with the fastest dimensions kept whole."""
    left = max(1, size // element)
    chunk: list[int] = []
    for extent in reversed(shape):
        chunk.append(min(extent, left))
        left = max(1, left // chunk[-1])
    return tuple(reversed(chunk))


def take_sample(path: Path, dataset: str | None, chunk_size: int, most: int) -> Sample:
    """Read blocks at even distances from a dataset.

    A child reads them, in bounded time and memory: the file may be damaged, or somebody else's, and neither what it
    says of its sizes nor the library's behaviour on it can be trusted.

    Parameters
    ----------
    path : Path
    dataset : str or None
        Its path in the file, or a pattern, which stands for the largest that it matches; None for the largest.
    chunk_size : int
        Bytes of a chunk, where the program has none.
    most : int
        Bytes to read, at least one block.

    Raises
    ------
    UserError
        If the file or dataset cannot be read, or holds no numbers.
    """
    load_h5py()
    fix = "name a file that the program has written"
    if not path.is_file():
        raise UserError(f"{path} is not a regular file" if path.exists() else f"{path} does not exist", fix)
    asked = json.dumps([os.fspath(path.absolute()), dataset, chunk_size, most]).encode()
    environment = {**inherited(), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            python("-m", __name__),
            input=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(f"cannot read {path} as HDF5: it takes more than {_SECONDS} s", fix) from None
    if done.returncode:
        why = f"it is damaged, or too large: its reader ended with {done.returncode}"
        raise UserError(f"cannot read {path} as HDF5: {why}", fix)
    with np.load(io.BytesIO(done.stdout), allow_pickle=False) as arrays:
        told = json.loads(arrays["told"].tobytes())
        if "error" in told:
            raise UserError(*told["error"])
        return Sample(told["dataset"], tuple(arrays[name] for name in told["blocks"]), *told["rest"])


def main() -> None:
    """Read a sample for the parent, which asks on standard input."""
    path, dataset, chunk_size, most = json.load(sys.stdin)
    load_h5py()
    # An alarm that nobody handles ends this process in the middle of a library too, also without the parent.
    signal.alarm(_SECONDS)
    limit = _MEMORY + 3 * max(most, _LARGEST_CHUNK)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    told, blocks = read_sample(Path(path), dataset, chunk_size, most)
    np.savez(sys.stdout.buffer, allow_pickle=False, told=np.frombuffer(json.dumps(told).encode(), np.uint8), **blocks)


def read_sample(
    path: Path, dataset: str | None, size: int, most: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Give what a child tells of a file, and the blocks, by name."""
    try:
        taken = _read(path, dataset, size, most)
    except UserError as error:
        return {"error": (error.what, error.fix)}, {}
    except (OSError, RuntimeError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        return {"error": (f"cannot read {path} as HDF5: {why}", "name a file that the program has written")}, {}
    blocks = {f"block{number}": block for number, block in enumerate(taken.blocks)}
    rest = (taken.share, taken.chunked, taken.filtered)
    return {"dataset": taken.dataset, "blocks": list(blocks), "rest": rest}, blocks


def _read(path: Path, dataset: str | None, chunk_size: int, most: int) -> Sample:
    h5py = load_h5py()
    with h5py.File(path, "r") as file:
        found = _dataset(h5py, file, path, dataset)
        shape, element = tuple(found.shape), found.dtype.itemsize
        stored = found.id.get_create_plist()
        if found.file.filename != file.filename or found.is_virtual or stored.get_external_count():
            raise UserError(f"the data of {found.name} lie in other files than {path}", "name the file that has them")
        chunk = found.chunks or chunk_shape(shape, element, chunk_size)
        size = math.prod(chunk) * element
        if size > max(_LARGEST_CHUNK, chunk_size):
            raise UserError(
                f"{found.name} has chunks of {size >> 20} MiB",
                f"name a dataset with chunks of {_LARGEST_CHUNK >> 20} MiB",
            )
        counts = [-(-extent // length) for extent, length in zip(shape, chunk, strict=True)]
        total = math.prod(counts)
        wanted = min(total, _MOST_BLOCKS, max(1, most // size))
        blocks = []
        for number in range(wanted):
            corner, place = [], (total - 1) * number // max(1, wanted - 1)
            for count in reversed(counts):
                place, at = divmod(place, count)
                corner.append(at)
            slices = (slice(at * length, (at + 1) * length) for at, length in zip(reversed(corner), chunk, strict=True))
            blocks.append(np.ascontiguousarray(found[tuple(slices)]))
        share = sum(block.size for block in blocks) / math.prod(shape)
        return Sample(found.name, tuple(blocks), share, found.chunks is not None, stored.get_nfilters() > 0)


def _dataset(h5py: Any, file: Any, path: Path, name: str | None) -> Any:
    """The dataset of that name, or the largest of numbers; names that no plan can hold do not count."""

    def usable(item: Any) -> bool:
        if not isinstance(item, h5py.Dataset) or not isinstance(item.name, str) or not item.name.isprintable():
            return False
        try:
            return item.dtype.kind in "iuf" and bool(item.shape) and 0 not in item.shape
        except (TypeError, ValueError):  # a type that NumPy does not have
            return False

    if name is not None and not any(mark in name for mark in "*?["):
        if usable(file.get(name)):
            return file[name]
        raise UserError(f"{path} has no dataset of numbers called {name}", f"look at its names: h5ls -r {path}")
    found: list[Any] = []
    file.visititems(lambda _, item: found.append(item) if usable(item) else None)
    pattern = "*" if name is None else name.strip("/")
    found = [item for item in found if any(fnmatchcase(word, pattern) for word in _names(item.name))]
    if not found:
        raise UserError(
            f"{path} has no dataset of numbers that {pattern} matches", f"look at its names: h5ls -r {path}"
        )
    return max(found, key=lambda item: math.prod(item.shape) * item.dtype.itemsize)


def _names(path: str) -> tuple[str, str]:
    """A dataset's path, and the last part of it: the runtime compares patterns with both."""
    return path.strip("/"), path.rpartition("/")[2]


if __name__ == "__main__":
    main()
