"""Settings that fix findings, where Stripewise can apply them."""

from __future__ import annotations

from collections.abc import Sequence

from stripewise.carriers import HDF5, HINT, LAYOUT, Setting
from stripewise.filesystems import USUAL
from stripewise.measure.activity import FileActivity


def hint(key: str, value: str) -> Setting:
    """An MPI-IO hint."""
    return Setting(HINT, key, value)


def ompio(files: Sequence[FileActivity]) -> bool:
    """Whether OMPIO does the I/O, to which ROMIO's hints mean nothing."""
    return any((file.driver or "").lower().startswith("ompio") for file in files)


def aggregation(files: Sequence[FileActivity], direction: str) -> tuple[Setting, ...]:
    """Switch collective buffering on, where collective calls are made: hints cannot make a call collective."""
    collective = [f for f in files if f.modes and getattr(f.modes, f"collective_{direction}s")]
    if not collective or ompio(collective):
        return ()
    return (hint(f"romio_cb_{direction}", "enable"),)


def no_sieving(files: Sequence[FileActivity]) -> tuple[Setting, ...]:
    """Let writes of pieces not read and rewrite what lies between them."""
    if not files or ompio(files):
        return ()
    if any(file.modes and file.modes.collective_writes for file in files):
        return (hint("romio_cb_write", "enable"),)
    return (hint("romio_ds_write", "disable"),)


def alignment(files: Sequence[FileActivity], unit: int | None) -> tuple[Setting, ...]:
    """Let the library above align its objects."""
    if not unit or unit < 2:
        return ()
    if any(file.hdf5 for file in files):
        return (Setting(HDF5, "alignment", str(unit)),)
    if any(file.pnetcdf for file in files):
        return (hint("nc_var_align_size", str(unit)),)
    return ()


def stripes(count: int, size: int | None = None) -> tuple[Setting, ...]:
    """Lay a new file out over ``count`` targets."""
    found = [Setting(LAYOUT, "stripe_count", str(count), USUAL.name)]
    if size:
        found.append(Setting(LAYOUT, "stripe_size", str(size), USUAL.name))
    return tuple(found)
