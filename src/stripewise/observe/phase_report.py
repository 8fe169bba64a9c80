"""What was seen of phases, as the report of a run with a file each: the rules of evidence judge both alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stripewise.formats import REPORT_FORMAT, REPORT_VERSION
from stripewise.observe.from_report import DIRECTIONS, calls_of
from stripewise.observe.journal import JournalPhase
from stripewise.observe.report import (
    Dataset,
    FileReport,
    Hdf5Report,
    Mode,
    Operation,
    Posix,
    PosixCalls,
    Report,
    ReportedJob,
    ReportedMpi,
    ReportedTotals,
    SettingOutcome,
    Share,
    Transfers,
)

_WAYS = ("write", "read")
_NUMBERS = ("count", "bytes", "ranks", "max_size", "messages", "time_sum")


def report_of(phases: Sequence[JournalPhase]) -> Report | None:
    """Give the evidence of phases as a report with a file each; None where an answer holds none that can be read.

    Parameters
    ----------
    phases : sequence of JournalPhase
        At least one, each of another file.
    """
    try:
        files = [file for phase in phases if (file := _file_of(phase)) is not None]
    except (ValueError, OverflowError):  # of infinite sizes
        return None
    return _report(phases, files) if len(files) == len(phases) else None


def _file_of(phase: JournalPhase) -> FileReport | None:
    words = [word.partition("=")[::2] for word in phase.evidence.split(" ") if "=" in word]
    calls = {key: _numbers(value) for key, value in words if key.split(".")[0] in _WAYS}
    datasets = [_dataset(value) for key, value in words if key == "dataset"]
    return _file(phase, calls, datasets, dict(words)) if calls else None


def _file(
    phase: JournalPhase, calls: Mapping[str, dict[str, Any]], datasets: list[Dataset], words: Mapping[str, str]
) -> FileReport:
    operations = dict(_operations(calls))
    return FileReport(
        path=phase.site,
        opens=1,
        ranks=phase.ranks,
        nodes=phase.nodes,
        driver=phase.driver or None,
        file_system=phase.workload.get("file_system"),
        operations=operations,
        collective=_mode(operations, "_all"),
        independent=_mode(operations, ""),
        posix=PosixCalls(write=_posix(calls, "write"), read=_posix(calls, "read")),
        layout={key: int(value) if value.isdigit() else value for key, value in phase.layout.items()} or None,
        application_info=_within(words, "own."),
        settings=[_outcome(key, value) for key, value in phase.settings.items()],
        hdf5=_hdf5(phase, datasets, _within(words, "hdf5.")),
    )


def _report(phases: Sequence[JournalPhase], files: list[FileReport]) -> Report:
    first = phases[0]
    ranks, elapsed = max(phase.ranks for phase in phases), sum(phase.seconds for phase in phases)
    made = {way: [calls_of(file.operations, way) for file in files] for way in DIRECTIONS}
    moved = {way: sum(calls.bytes for calls in own) for way, own in made.items()}
    seconds = {way: sum(calls.seconds for calls in own) for way, own in made.items()}
    io = "ompio" if first.driver == "ompio" else "romio" if "ROMIO" in first.driver else "unknown"
    return Report(
        format=REPORT_FORMAT,
        version=REPORT_VERSION,
        mpi=ReportedMpi(io=io),
        job=ReportedJob(
            executable=first.program,
            ranks=ranks,
            nodes=max(phase.nodes for phase in phases),
            start=min(phase.time - phase.seconds for phase in phases),
            elapsed=elapsed,
            io_time=elapsed,
            ranks_reported=ranks,
        ),
        totals=ReportedTotals(
            bytes_read=moved["read"],
            bytes_written=moved["write"],
            read_time=seconds["read"] / ranks,
            write_time=seconds["write"] / ranks,
        ),
        files=files,
    )


def _numbers(text: str) -> dict[str, Any]:
    numbers = [float(number) for number in text.split(",")]
    if len(numbers) != len(_NUMBERS) or not all(map(math.isfinite, numbers)):
        raise ValueError(text)
    return {name: value if name == "time_sum" else int(value) for name, value in zip(_NUMBERS, numbers, strict=True)}


def _operations(calls: Mapping[str, dict[str, Any]]) -> Iterator[tuple[str, Operation]]:
    for way in _WAYS:
        for part, name in (("collective", f"{way}_all"), ("independent", way)):
            if found := calls.get(f"{way}.{part}"):
                yield name, Operation(**{key: value for key, value in found.items() if key != "ranks"})


def _mode(operations: Mapping[str, Operation], end: str) -> Mode:
    own = [operations[way + end] for way in _WAYS if way + end in operations]
    return Mode(calls=sum(one.count for one in own), bytes=sum(one.bytes for one in own))


def _posix(calls: Mapping[str, dict[str, Any]], way: str) -> Posix:
    within = ("collective", "independent", "write")
    shares = {f"during_{part}": _share(calls, f"{way}.within_{part}") for part in within}
    return Posix(**_share(calls, f"{way}.system").model_dump(exclude={"time_sum"}), **shares)


def _share(calls: Mapping[str, dict[str, Any]], key: str) -> Share:
    found = calls.get(key)
    return Share(time_sum=0.0) if found is None else Share(**{k: v for k, v in found.items() if k != "messages"})


def _within(words: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in words.items() if key.startswith(prefix)}


def _outcome(key: str, value: str) -> SettingOutcome:
    """Of a setting that acted: an answer counts those that did not, and then it is no measurement."""
    layer, _, name = key.rpartition(" ")
    note = "asked for by an order"
    return SettingOutcome(
        layer=layer, key=name, requested=value, given=value, echoed=value, outcome="applied", note=note
    )


def _hdf5(phase: JournalPhase, datasets: list[Dataset], properties: dict[str, str]) -> Hdf5Report | None:
    if not properties and not datasets:
        return None
    transfers = Transfers(bytes=int(phase.moved), collective=int(properties.pop("collective", "0")))
    every = Dataset(name="(all datasets)", **{phase.operation: transfers})
    return Hdf5Report(properties=properties, datasets=[*datasets, every])


def _dataset(text: str) -> Dataset:
    address, size, chunk, filters, name = text.split(",", 4)
    return Dataset(
        name=name,
        element_size=1,
        size=[int(float(size))],
        chunk=[int(float(number)) for number in chunk.split("x") if number],
        filters=[one for one in filters.split("+") if one],
        address=int(address) if int(address) >= 0 else None,
    )
