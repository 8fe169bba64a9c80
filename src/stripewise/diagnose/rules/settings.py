"""Settings that fix findings, where Stripewise can apply them and a gain is expected of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stripewise.catalogue.carriers import HDF5, HINT, LAYOUT, Setting
from stripewise.catalogue.expectation import Expected, Proposal, propose
from stripewise.catalogue.filesystems import USUAL
from stripewise.catalogue.meaning import find_breakage
from stripewise.catalogue.workload import Workload
from stripewise.observe.activity import Activity, FileActivity
from stripewise.observe.workload import workload_of

NOTHING: Mapping[str, str] = {}
_AGGREGATION = ("enable", "disable", "automatic")


def hint(key: str, value: str) -> Setting:
    """An MPI-IO hint."""
    return Setting(HINT, key, value)


def ompio(files: Sequence[FileActivity]) -> bool:
    """Whether OMPIO does the I/O, to which ROMIO's hints mean nothing."""
    return any((file.driver or "").lower().startswith("ompio") for file in files)


def proposed(
    activity: Activity,
    files: Sequence[FileActivity],
    candidates: Sequence[Sequence[Setting]],
    direction: str | None = None,
    now: Mapping[str, str] = NOTHING,
) -> Proposal:
    """Give the candidate of which most is expected for the file that matters most; none where no gain is expected.

    Parameters
    ----------
    activity : Activity
    files : sequence of FileActivity
        Those concerned, the most important first.
    candidates : sequence of sequence of Setting
    direction : {"read", "write"}, optional
        Of the calls concerned; by default what the program does.
    now : mapping
        Settings in effect, by key, that the source shows only by what they did.
    """
    if not files:
        return Proposal()
    file = files[0]
    layout = (
        {}
        if file.layout is None
        else {"stripe_count": file.layout.stripe_count, "stripe_size": file.layout.stripe_size}
    )
    current = {**file.info, **{key: str(value) for key, value in layout.items()}, **now}
    candidates = [settings for settings in candidates if not _breaks(settings, activity.files)]
    io = "ompio" if ompio(files) else activity.job.mpi_io
    job = activity.job
    return propose(candidates, _workload(activity, file, direction), current, job.ranks, io, job.mpi or "")


def _breaks(settings: Sequence[Setting], files: Sequence[FileActivity]) -> bool:
    """Whether settings break calls of the program, on whichever file: what is proposed may be set for all of them."""
    broken = {call for one in map(find_breakage, settings) if one is not None for call in one.calls}
    return any(not broken.isdisjoint(file.calls) for file in files)


def _workload(activity: Activity, file: FileActivity, direction: str | None) -> Workload:
    """What the program does, as ``prescribe`` sees it; of one direction and file where that is known better."""
    workload = workload_of(activity)
    extents = (file.size, file.lower.read.extent, file.lower.write.extent)
    size = max((extent for extent in extents if extent), default=None)
    known: dict[str, Any] = {"driver": file.driver, "file_system": file.file_system, "file_size": size}
    if direction is not None:
        known["operation"] = direction
        if file.modes is not None:
            together, alone = (getattr(file.modes, f"{how}_{direction}s") for how in ("collective", "independent"))
            known["collective"] = None if bool(together) == bool(alone) else together > 0
    return workload.model_copy(update={name: value for name, value in known.items() if value is not None})


def aggregation(
    activity: Activity,
    files: Sequence[FileActivity],
    direction: str,
    now: Mapping[str, str] = NOTHING,
) -> Proposal:
    """Switch collective buffering on or off, where collective calls are made: hints cannot make a call collective."""
    collective = [f for f in files if f.modes and getattr(f.modes, f"collective_{direction}s")]
    key = f"romio_cb_{direction}"
    return proposed(activity, collective, [(hint(key, value),) for value in _AGGREGATION], direction, now)


def joined(proposals: Sequence[Proposal]) -> Proposal:
    """Propose all of these together; the least and the most that any of them brings is expected of all."""
    some = [proposal for proposal in proposals if proposal.settings]
    if not some:
        return Proposal()
    expected = Expected(
        min(one.expected.low for one in some),
        max(one.expected.high for one in some),
        tuple(dict.fromkeys(reason for one in some for reason in one.expected.reasons)),
    )
    return Proposal(tuple(setting for one in some for setting in one.settings), expected)


def no_sieving(activity: Activity, files: Sequence[FileActivity]) -> Proposal:
    """Let writes of pieces not read and rewrite what lies between them."""
    if any(file.modes and file.modes.collective_writes for file in files):
        return aggregation(activity, files, "write")
    return proposed(activity, files, [(hint("romio_ds_write", "disable"),)], "write")


def alignment(activity: Activity, files: Sequence[FileActivity], unit: int | None) -> Proposal:
    """Let the library above align its objects."""
    if not unit or unit < 2:
        return Proposal()
    if any(file.hdf5 for file in files):
        return proposed(activity, files, [(Setting(HDF5, "alignment", str(unit)),)])
    if any(file.pnetcdf for file in files):
        return proposed(activity, files, [(hint("nc_var_align_size", str(unit)),)])
    return Proposal()


def stripes(activity: Activity, files: Sequence[FileActivity], count: int, size: int | None = None) -> Proposal:
    """Lay new files out over ``count`` targets, where the files are on a file system with stripes."""
    found = [Setting(LAYOUT, "stripe_count", str(count), USUAL.name)]
    if size:
        found.append(Setting(LAYOUT, "stripe_size", str(size), USUAL.name))
    return proposed(activity, files, [found])
