"""Rules for HDF5 settings: where datasets lie, what the file says of itself, how metadata reached it."""

from __future__ import annotations

from stripewise.observe.activity import Dataset, FileActivity
from stripewise.observe.evidence.comparison import (
    EFFECTIVE,
    NO_EFFECT,
    UNPROVABLE,
    Case,
    Verdict,
    compare_with_others,
)
from stripewise.sizes import count_of, format_size

NOT_HDF5 = "the file was not used through HDF5"


def _list_placed(file: FileActivity | None) -> dict[str, Dataset]:
    """Datasets that lie in one piece, by name."""
    datasets = file.datasets if file is not None else []
    return {dataset.name: dataset for dataset in datasets if dataset.address is not None}


def _count_aligned(datasets: list[Dataset], size: int) -> int:
    return sum((dataset.address or 0) % size == 0 for dataset in datasets)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 1


def _count_unaligned(case: Case, file: FileActivity) -> int | None:
    found = [dataset for name, dataset in _list_placed(file).items() if name in _list_placed(case.file)]
    return len(found) - _count_aligned(found, case.number or 1) if found else None


@compare_with_others(_count_unaligned)
def alignment(case: Case) -> Verdict:
    """Addresses of datasets: multiples of the value, which they are not by default."""
    size = case.number
    if not case.file.through_hdf5:
        return NO_EFFECT, NOT_HDF5
    if not size or size < 2:
        return UNPROVABLE, f"any address is a multiple of {case.value}"
    least = _number(case.file.properties.get("alignment_threshold"))
    found = [dataset for dataset in _list_placed(case.file).values() if dataset.bytes >= least]
    if not found:
        return UNPROVABLE, "no dataset lies in one piece, so none has an address to look at"
    now = _count_aligned(found, size)
    sentence = f"{now} of {count_of(len(found), 'dataset')} start at a multiple of {format_size(size)}"
    if now < len(found):
        return NO_EFFECT, sentence
    before = _list_placed(case.before)
    usual = [before[dataset.name] for dataset in found if dataset.name in before]
    if not usual:
        return UNPROVABLE, f"{sentence}; no default run to compare with"
    sentence += f", {_count_aligned(usual, size)} of {len(usual)} by default"
    return (EFFECTIVE if _count_aligned(usual, size) < len(usual) else NO_EFFECT), sentence


def _count_loose(case: Case, file: FileActivity) -> int | None:
    """Small datasets that are not aligned in a file that aligns; None of a file that aligns nothing anyway."""
    size = _number(file.properties.get("alignment"))
    small = [dataset for dataset in _list_placed(file).values() if dataset.bytes < (case.number or 1)]
    return len(small) - _count_aligned(small, size) if size > 1 else None


@compare_with_others(_count_loose)
def threshold(case: Case) -> Verdict:
    """A dataset smaller than the value that is not aligned, as by default it would be."""
    if not case.file.through_hdf5:
        return NO_EFFECT, NOT_HDF5
    size, least = _number(case.file.properties.get("alignment")), case.number or 1
    if size < 2:
        return NO_EFFECT, "nothing is aligned in this file"
    small = [dataset for dataset in _list_placed(case.file).values() if dataset.bytes < least]
    loose = len(small) - _count_aligned(small, size)
    if loose:
        what, are = ("1 dataset", "is") if loose == 1 else (f"{loose} datasets", "are")
        return EFFECTIVE, f"{what} below {format_size(least)} {are} not at a multiple of {format_size(size)}"
    return UNPROVABLE, "every dataset is aligned; whether metadata is cannot be seen"


def _property(case: Case, file: FileActivity) -> str | None:
    return file.properties.get(case.parameter.setting)


@compare_with_others(_property)
def file_property(case: Case) -> Verdict:
    """What the file itself says."""
    if not case.file.through_hdf5:
        return NO_EFFECT, NOT_HDF5
    key = case.parameter.setting
    found = case.file.properties.get(key)
    if found is None:
        return UNPROVABLE, f"this HDF5 library does not tell the file's {key}"
    return (EFFECTIVE if found == case.value else NO_EFFECT), f"the file's {key} is {found}"


def _collective_calls(case: Case, file: FileActivity) -> int:
    way = "write" if "write" in case.parameter.operations else "read"
    return 0 if file.modes is None else int(getattr(file.modes, f"collective_{way}s"))


@compare_with_others(_collective_calls)
def metadata(case: Case) -> Verdict:
    """Collective MPI calls beyond those of the program's own transfers."""
    if not case.file.through_hdf5:
        return NO_EFFECT, NOT_HDF5
    if case.file.ranks < 2:
        return NO_EFFECT, "the file was opened by one rank"
    way = "write" if "write" in case.parameter.operations else "read"
    if case.before is None:
        return UNPROVABLE, "no default run to compare with"
    now, usual = _collective_calls(case, case.file), _collective_calls(case, case.before)
    sentence = f"{count_of(now, f'collective {way} call')} of MPI, {usual} by default"
    if now == usual:
        return NO_EFFECT, sentence
    same = _collective_transfers(case.file, way) == _collective_transfers(case.before, way)
    return (EFFECTIVE if same and now > usual else UNPROVABLE), sentence


def _collective_transfers(file: FileActivity, way: str) -> int:
    return sum(made.collective for direction, made in file.transfers.items() if direction == way)


def _places(case: Case, file: FileActivity) -> tuple[object, ...] | None:
    if not file.through_hdf5:
        return None
    return file.size, tuple(sorted((name, dataset.address) for name, dataset in _list_placed(file).items()))


@compare_with_others(_places)
def addresses(case: Case) -> Verdict:
    """Where datasets lie, and the sizes of MPI's calls: metadata gathered in blocks moves both."""
    if not case.file.through_hdf5:
        return NO_EFFECT, NOT_HDF5
    if case.before is None or not case.before.through_hdf5:
        return UNPROVABLE, "no default run to compare with"
    now, usual = _list_placed(case.file), _list_placed(case.before)
    moved = [name for name in now if name in usual and now[name].address != usual[name].address]
    if moved:
        sentence = f"{moved[0]} lies at {now[moved[0]].address}, at {usual[moved[0]].address} by default"
    elif case.file.size != case.before.size:
        sentence = f"the file has {case.file.size} bytes, {case.before.size} by default"
    else:
        return UNPROVABLE, "every dataset lies where it does by default, and the file is as large"
    return (EFFECTIVE, sentence) if case.alone else (UNPROVABLE, f"{sentence}; other settings changed with it")


def _list_chunked(case: Case, file: FileActivity) -> tuple[object, ...]:
    return tuple(sorted((dataset.name, tuple(dataset.chunk)) for dataset in file.datasets if dataset.chunk))


@compare_with_others(_list_chunked)
def chunks(case: Case) -> Verdict:
    """Chunks that datasets do not have by default."""
    if not case.file.through_hdf5:
        return NO_EFFECT, NOT_HDF5
    usual = {dataset.name: dataset.chunk for dataset in (case.before.datasets if case.before else [])}
    chunked = [d for d in case.file.datasets if d.chunk and d.chunk != usual.get(d.name)]
    if not chunked:
        return NO_EFFECT, "no dataset has other chunks than by default"
    first = chunked[0]
    return EFFECTIVE, f"{first.name} has chunks of {' x '.join(map(str, first.chunk))} elements"


def _list_filtered(case: Case, file: FileActivity) -> list[Dataset]:
    """Datasets with the filter; a plugin's number is not told, only that it is none of HDF5's own filters."""
    name = {"plugin": "other"}.get(case.parameter.setting, case.parameter.setting)
    return [dataset for dataset in file.datasets if name in dataset.filters]


@compare_with_others(lambda case, file: tuple(sorted(dataset.name for dataset in _list_filtered(case, file))))
def filters(case: Case) -> Verdict:
    """Filters that HDF5 lists for a dataset, and what all filters together made of the data."""
    if not case.file.through_hdf5:
        return NO_EFFECT, NOT_HDF5
    name = case.parameter.setting
    found = _list_filtered(case, case.file)
    if not found:
        return NO_EFFECT, f"no dataset is filtered by {name}"
    sentence = f"{'1 dataset is' if len(found) == 1 else f'{len(found)} datasets are'} filtered by {name}"
    given = sum(made.moved for way, made in case.file.transfers.items() if way == "write")
    stored = case.file.upper.write.bytes
    if given and stored:
        sentence += f"; {format_size(given)} of data were written in {format_size(stored)}, {given / stored:.2g} to 1"
    return EFFECTIVE, sentence
