"""Rules for HDF5 settings: where datasets lie, what the file says of itself, how metadata reached it."""

from __future__ import annotations

from stripewise.observe.evidence_case import EFFECTIVE, NO_EFFECT, UNPROVABLE, Case, Verdict, compared
from stripewise.observe.report_file import Dataset, FileReport
from stripewise.sizes import format_size

_NOT_HDF5 = "the file was not used through HDF5"


def _placed(file: FileReport | None) -> dict[str, Dataset]:
    """Datasets that lie in one piece, by name."""
    if file is None or file.hdf5 is None:
        return {}
    return {dataset.name: dataset for dataset in file.hdf5.datasets if dataset.address is not None}


def _aligned(datasets: list[Dataset], size: int) -> int:
    return sum((dataset.address or 0) % size == 0 for dataset in datasets)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 1


def _unaligned(case: Case, file: FileReport) -> int | None:
    found = [dataset for name, dataset in _placed(file).items() if name in _placed(case.file)]
    return len(found) - _aligned(found, case.number or 1) if found else None


@compared(_unaligned)
def alignment(case: Case) -> Verdict:
    """Addresses of datasets: multiples of the value, which they are not by default."""
    size = case.number
    if case.file.hdf5 is None:
        return NO_EFFECT, _NOT_HDF5
    if not size or size < 2:
        return UNPROVABLE, f"any address is a multiple of {case.value}"
    least = _number(case.file.hdf5.properties.get("alignment_threshold"))
    found = [dataset for dataset in _placed(case.file).values() if dataset.bytes >= least]
    if not found:
        return UNPROVABLE, "no dataset lies in one piece, so none has an address to look at"
    now = _aligned(found, size)
    sentence = f"{now} of {len(found)} datasets start at a multiple of {format_size(size)}"
    if now < len(found):
        return NO_EFFECT, sentence
    before = _placed(case.before)
    usual = [before[dataset.name] for dataset in found if dataset.name in before]
    if not usual:
        return UNPROVABLE, f"{sentence}; no default run to compare with"
    sentence += f", {_aligned(usual, size)} of {len(usual)} by default"
    return (EFFECTIVE if _aligned(usual, size) < len(usual) else NO_EFFECT), sentence


def _loose(case: Case, file: FileReport) -> int | None:
    """Small datasets that are not aligned in a file that aligns; None of a file that aligns nothing anyway."""
    size = _number(file.hdf5.properties.get("alignment")) if file.hdf5 is not None else 1
    small = [dataset for dataset in _placed(file).values() if dataset.bytes < (case.number or 1)]
    return len(small) - _aligned(small, size) if size > 1 else None


@compared(_loose)
def threshold(case: Case) -> Verdict:
    """A dataset smaller than the value that is not aligned, as by default it would be."""
    if case.file.hdf5 is None:
        return NO_EFFECT, _NOT_HDF5
    size, least = _number(case.file.hdf5.properties.get("alignment")), case.number or 1
    if size < 2:
        return NO_EFFECT, "nothing is aligned in this file"
    small = [dataset for dataset in _placed(case.file).values() if dataset.bytes < least]
    loose = len(small) - _aligned(small, size)
    if loose:
        what, are = ("1 dataset", "is") if loose == 1 else (f"{loose} datasets", "are")
        return EFFECTIVE, f"{what} below {format_size(least)} {are} not at a multiple of {format_size(size)}"
    return UNPROVABLE, "every dataset is aligned; whether metadata is cannot be seen"


def _property(case: Case, file: FileReport) -> str | None:
    return None if file.hdf5 is None else file.hdf5.properties.get(case.parameter.setting)


@compared(_property)
def file_property(case: Case) -> Verdict:
    """What the file itself says."""
    if case.file.hdf5 is None:
        return NO_EFFECT, _NOT_HDF5
    key = case.parameter.setting
    found = case.file.hdf5.properties.get(key)
    if found is None:
        return UNPROVABLE, f"this HDF5 library does not tell the file's {key}"
    return (EFFECTIVE if found == case.value else NO_EFFECT), f"the file's {key} is {found}"


def _collective_calls(case: Case, file: FileReport) -> int:
    return file.calls("write" if "write" in case.parameter.operations else "read", collective=True)


@compared(_collective_calls)
def metadata(case: Case) -> Verdict:
    """Collective MPI calls beyond those of the program's own transfers."""
    if case.file.hdf5 is None:
        return NO_EFFECT, _NOT_HDF5
    if case.file.ranks < 2:
        return NO_EFFECT, "the file was opened by one rank"
    way = "write" if "write" in case.parameter.operations else "read"
    if case.before is None:
        return UNPROVABLE, "no default run to compare with"
    now, usual = case.file.calls(way, collective=True), case.before.calls(way, collective=True)
    sentence = f"{now} collective {way} calls of MPI, {usual} by default"
    if now == usual:
        return NO_EFFECT, sentence
    same = _collective_transfers(case.file, way) == _collective_transfers(case.before, way)
    return (EFFECTIVE if same and now > usual else UNPROVABLE), sentence


def _collective_transfers(file: FileReport, way: str) -> int:
    transfers = [getattr(dataset, way) for dataset in (file.hdf5.datasets if file.hdf5 else [])]
    return sum(part.collective for part in transfers if part is not None)


def _places(case: Case, file: FileReport) -> tuple[object, ...] | None:
    if file.hdf5 is None:
        return None
    return file.size, tuple(sorted((name, dataset.address) for name, dataset in _placed(file).items()))


@compared(_places)
def addresses(case: Case) -> Verdict:
    """Where datasets lie, and the sizes of MPI's calls: metadata gathered in blocks moves both."""
    if case.file.hdf5 is None:
        return NO_EFFECT, _NOT_HDF5
    if case.before is None or case.before.hdf5 is None:
        return UNPROVABLE, "no default run to compare with"
    now, usual = _placed(case.file), _placed(case.before)
    moved = [name for name in now if name in usual and now[name].address != usual[name].address]
    if moved:
        sentence = f"{moved[0]} lies at {now[moved[0]].address}, at {usual[moved[0]].address} by default"
    elif case.file.size != case.before.size:
        sentence = f"the file has {case.file.size} bytes, {case.before.size} by default"
    else:
        return UNPROVABLE, "every dataset lies where it does by default, and the file is as large"
    return (EFFECTIVE, sentence) if case.alone else (UNPROVABLE, f"{sentence}; other settings changed with it")


def _chunked(case: Case, file: FileReport) -> tuple[object, ...]:
    datasets = file.hdf5.datasets if file.hdf5 is not None else []
    return tuple(sorted((dataset.name, tuple(dataset.chunk)) for dataset in datasets if dataset.chunk))


@compared(_chunked)
def chunks(case: Case) -> Verdict:
    """Chunks that datasets do not have by default."""
    if case.file.hdf5 is None:
        return NO_EFFECT, _NOT_HDF5
    usual = {d.name: d for d in (case.before.hdf5.datasets if case.before and case.before.hdf5 else [])}
    chunked = [
        d for d in case.file.hdf5.datasets if d.chunk and (d.name not in usual or d.chunk != usual[d.name].chunk)
    ]
    if not chunked:
        return NO_EFFECT, "no dataset has other chunks than by default"
    first = chunked[0]
    return EFFECTIVE, f"{first.name} has chunks of {' x '.join(map(str, first.chunk))} elements"


def _filtered(case: Case, file: FileReport) -> list[Dataset]:
    """Datasets with the filter; a plugin's number is not told, only that it is none of HDF5's own filters."""
    name = {"plugin": "other"}.get(case.parameter.setting, case.parameter.setting)
    return [dataset for dataset in (file.hdf5.datasets if file.hdf5 else []) if name in dataset.filters]


@compared(lambda case, file: tuple(sorted(dataset.name for dataset in _filtered(case, file))))
def filters(case: Case) -> Verdict:
    """Filters that HDF5 lists for a dataset, and what all filters together made of the data."""
    if case.file.hdf5 is None:
        return NO_EFFECT, _NOT_HDF5
    name = case.parameter.setting
    found = _filtered(case, case.file)
    if not found:
        return NO_EFFECT, f"no dataset is filtered by {name}"
    sentence = f"{'1 dataset is' if len(found) == 1 else f'{len(found)} datasets are'} filtered by {name}"
    given = sum(dataset.write.bytes for dataset in case.file.hdf5.datasets if dataset.write is not None)
    stored = sum(part.bytes for part in case.file.moved("write"))
    if given and stored:
        sentence += f"; {format_size(given)} of data were written in {format_size(stored)}, {given / stored:.2g} to 1"
    return EFFECTIVE, sentence
