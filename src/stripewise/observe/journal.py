"""The runtime's journal: what phases of I/O cost with which settings, kept from job to job.

``native/include/formats.toml`` defines the keys of its lines for both sides. Each line has its own checksum:
a line that was cut off by a crash is passed over.

As a source of activities, a journal gives one for each start of a program, with a file for each site. What was seen of
the phases of an order is the report of a run with a file each, so that it is kept and judged like that of a launch.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stripewise.errors import UserError
from stripewise.formats import JOURNAL_HEADER, REPORT_FORMAT, REPORT_VERSION
from stripewise.observe.activity import (
    Activity,
    ActivityJob,
    ActivityTotals,
    Calls,
    Counted,
    FileActivity,
    Level,
    Modes,
)
from stripewise.observe.from_report import DIRECTIONS, calls_of, file_layout, sum_of
from stripewise.observe.report import (
    Candidate,
    Dataset,
    FileReport,
    Hdf5Report,
    Mode,
    Operation,
    Posix,
    PosixCalls,
    Report,
    ReportedJob,
    ReportedLoader,
    ReportedMpi,
    ReportedObject,
    ReportedTotals,
    SettingOutcome,
    Share,
    Transfers,
)

_ESCAPE = re.compile(r"%([0-9a-f]{2})")


@dataclass(frozen=True)
class JournalPhase:
    """One phase, from the open of a file to its close.

    Attributes
    ----------
    site : str
        Path of the file with every run of digits as ``#``.
    operation : str
        ``write`` or ``read``: what it did more of.
    collective, strided : bool
        Of its calls.
    ranks, nodes : int
    moved : float
        Bytes, summed over ranks.
    seconds : float
        Inside MPI-IO calls on the file, the maximum over ranks.
    time : float
        Seconds since 1970, at the close.
    settings : mapping
        What was applied, by key (of a layout ``FILESYSTEM KEY``); empty for the default.
    workload : mapping
        Words of the workload, as text.
    program : str
    layout : mapping
        Of the file, where the file system told.
    driver : str
        What drove the file, as the runtime's report says it.
    order : int
        Number of the order that it carried out; 0 for none.
    missed : int
        Settings of the order that did not act.
    launch : float
        Seconds since 1970, when its program began.
    evidence : str
        What was seen of its calls; :func:`report_of` reads it.
    """

    site: str
    operation: str
    collective: bool
    strided: bool
    ranks: int
    nodes: int
    moved: float
    seconds: float
    time: float = 0.0
    settings: Mapping[str, str] = field(default_factory=dict)
    workload: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    layout: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    order: int = 0
    missed: int = 0
    launch: float = 0.0
    evidence: str = ""

    @property
    def kind(self) -> tuple[str, str, bool, bool]:
        """What phases must have in common to be compared: site, operation and pattern."""
        return self.site, self.operation, self.collective, self.strided

    @property
    def bandwidth(self) -> float:
        """MiB/s."""
        return self.moved / 2**20 / self.seconds

    @property
    def kept_layout(self) -> bool:
        """Whether the file has another layout than was asked for: most were there already, and keep theirs."""
        asked = ((key.partition(" ")[2], value) for key, value in self.settings.items())
        return any(key and self.layout.get(key, value) != value for key, value in asked)


@dataclass(frozen=True)
class Journal:
    """What a file held.

    Attributes
    ----------
    phases : tuple of JournalPhase
        In the order of the file.
    damaged : int
        Lines that are not whole.
    """

    phases: tuple[JournalPhase, ...]
    damaged: int


def parse_journal(text: str) -> Journal:
    """Read the phases of a text; other lines are counted."""
    phases, damaged = [], 0
    for line in text.split("\n"):
        if not line or line == JOURNAL_HEADER:
            continue
        phase = _phase(line)
        if phase is None:
            damaged += 1
        else:
            phases.append(phase)
    return Journal(tuple(phases), damaged)


def read_journal(text: str, origin: str) -> tuple[JournalPhase, ...]:
    """Read the phases of a text.

    Raises
    ------
    UserError
        If it holds none.
    """
    phases = parse_journal(text).phases
    if not phases:
        raise UserError(f"{origin} holds no whole record", "was it written by mode online?")
    return phases


def learned_lines(report: Report) -> list[str]:
    """Say in a line or two for each site what the mode ``online`` explored, chose and gained in a job."""
    lines = []
    for site in report.online:
        default, *tried = site.candidates
        chosen = site.candidates[site.choice]
        known = [one for one in tried if one.bandwidth and default.bandwidth]
        doing = "writing" if site.operation == "write" else "reading"
        did = f"{doing} {site.site}, {_count(site.phases, 'phase')}"
        if not tried:
            why = site.why or (
                "the plan has no settings for it" if site.settled else "candidates follow from the second phase on"
            )
            lines.append(f"{did}: nothing was tried ({why})")
            continue
        if not site.settled:
            said = f"{len(known)} of {_count(len(tried), 'candidate')} tried, not yet decided; the next phase would try"
        else:
            said = f"{_count(len(known), 'candidate')} tried, and settled on"
        lines.append(f"{did}: {said} {_describe_setting(chosen, default)}")
        others = [_describe_setting(one, default) for one in known if one is not chosen]
        if others:
            lines.append(f"  also tried: {'; '.join(others)}")
    if any(0 < file.ranks < report.job.ranks for file in report.files):
        lines.append("this tells of rank 0 only: other ranks lead files of their own, and learn for themselves")
    return lines


def _describe_setting(one: Candidate, default: Candidate) -> str:
    """Its settings, its bandwidth and how many times that of the default it is."""
    if one is default or not one.settings:
        return "the default" + (f" ({one.bandwidth:,.4g} MiB/s)" if one.bandwidth else "")
    words = " ".join(f"{key.replace(' ', '.')}={value}" for key, value in _settings(one.settings).items())
    if not (one.bandwidth and default.bandwidth):
        return words
    times = f"{one.bandwidth / default.bandwidth:.2f} times the default's {default.bandwidth:,.4g} MiB/s"
    return f"{words} ({times}, {_count(one.phases, 'phase')})"


def _count(number: int, word: str) -> str:
    return f"{number} {word if number == 1 else word + 's'}"


def fields_of(line: str) -> dict[str, str] | None:
    """Give the fields of a line as they are written, without its newline; None if it is damaged."""
    body = line[8:]
    if f"{zlib.crc32(body.encode('utf-8', 'surrogateescape')):08x}" != line[:8] or not body.startswith("\t"):
        return None
    return dict(part.partition("=")[::2] for part in body[1:].split("\t"))


def _phase(line: str) -> JournalPhase | None:
    fields = fields_of(line)
    if fields is None:
        return None
    try:
        pattern = fields["pattern"]
        moved, seconds = float(fields["bytes"]), float(fields["seconds"])
        if not (moved > 0 and seconds > 0 and math.isfinite(moved) and math.isfinite(seconds)):
            return None
        if fields["operation"] not in ("write", "read"):
            return None
        return JournalPhase(
            site=unescaped(fields["site"]),
            operation=fields["operation"],
            collective=pattern.lower() == "c",
            strided=pattern.isupper(),
            ranks=int(fields["ranks"]),
            nodes=int(fields["nodes"]),
            moved=moved,
            seconds=seconds,
            time=float(fields.get("time", "0")),
            settings=_settings(unescaped(fields.get("settings", ""))),
            workload=_pairs(unescaped(fields.get("workload", ""))),
            program=unescaped(fields.get("program", "")),
            layout=_pairs(unescaped(fields.get("layout", ""))),
            driver=unescaped(fields.get("driver", "")),
            order=int(fields.get("order", "0")),
            missed=int(fields.get("missed", "0")),
            launch=float(fields.get("launch", "0")),
            evidence=unescaped(fields.get("evidence", "")),
        )
    except (KeyError, ValueError):
        return None


def unescaped(text: str) -> str:
    """Give a field's text as it was before it was written into a line."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


def _pairs(text: str) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in text.split(" ") if "=" in word)


def _settings(text: str) -> dict[str, str]:
    found = {}
    for part in filter(None, text.split(";")):
        layer, _, rest = part.partition(" ")
        words = rest.split(" ", 2 if layer == "layout" else 1)
        if len(words) != (3 if layer == "layout" else 2):
            raise ValueError(part)
        found[" ".join(words[:-1])] = words[-1]
    return found


_UNSEEN = (
    "a journal has the bytes and the time of each phase, but no single calls: their sizes and order are not judged",
    "a journal names file families: files whose names differ in digits only count as one",
)


def activities_of(phases: Sequence[JournalPhase], source: str) -> list[Activity]:
    """Give each start of a program as an activity.

    Parameters
    ----------
    phases : sequence of JournalPhase
        At least one.
    source : str
        Where they came from. Of several starts, each has its number behind it.
    """
    starts: dict[tuple[str, float], list[JournalPhase]] = {}
    for phase in phases:
        starts.setdefault((phase.program, phase.launch), []).append(phase)
    if len(starts) == 1:
        return [_activity(phases, source)]
    return [_activity(own, f"{source} (run {number})") for number, own in enumerate(starts.values(), 1)]


def _activity(phases: Sequence[JournalPhase], source: str) -> Activity:
    sites = {phase.site: [one for one in phases if one.site == phase.site] for phase in phases}
    files = sorted((_file(site, own) for site, own in sites.items()), key=lambda file: -file.seconds)
    ended, began = max(phase.time for phase in phases), phases[0].launch
    levels = [file.mpiio for file in files if file.mpiio is not None]
    return Activity(
        source=source,
        kind="journal",
        counts_opens_once=True,
        planned=any(phase.settings for phase in phases),
        job=ActivityJob(
            executable=phases[0].program,
            ranks=max(phase.ranks for phase in phases),
            nodes=max(phase.nodes for phase in phases),
            elapsed=max(0.0, ended - began) if began else 0.0,
            started=began or None,
        ),
        seen=["MPI-IO"],
        unseen=list(_UNSEEN),
        io_seconds=sum(phase.seconds for phase in phases),
        summed_seconds=sum(file.seconds for file in files),
        totals=ActivityTotals(mpiio=sum_of(levels)),
        counted=Counted(files=len(files), shared=sum(file.ranks > 1 for file in files)),
        files=files,
    )


def _file(site: str, phases: Sequence[JournalPhase]) -> FileActivity:
    first, last = phases[0], phases[-1]
    together = sum(int(phase.moved) for phase in phases if phase.collective)
    return FileActivity(
        path=site,
        file_system=last.workload.get("file_system"),
        ranks=max(phase.ranks for phase in phases),
        nodes=max(phase.nodes for phase in phases),
        mpiio=Level(**{way: _calls(phases, way) for way in DIRECTIONS}, opens=len(phases)),
        modes=Modes(collective_bytes=together, independent_bytes=sum(int(phase.moved) for phase in phases) - together),
        layout=file_layout(last.layout),
        view_contiguous=False if any(phase.strided for phase in phases) else None,
        driver=first.driver or None,
    )


def _calls(phases: Sequence[JournalPhase], way: str) -> Calls:
    own = [phase for phase in phases if phase.operation == way]
    return Calls(
        bytes=sum(int(phase.moved) for phase in own), seconds=sum(phase.seconds * phase.ranks for phase in own)
    )


_NUMBERS = ("count", "bytes", "ranks", "max_size", "messages", "time_sum")


def report_of(phases: Sequence[JournalPhase]) -> Report | None:
    """Give the evidence of phases as a report with a file each; None where an answer holds none that can be read.

    Parameters
    ----------
    phases : sequence of JournalPhase
        At least one, each of another file.
    """
    if phases[0].driver == _LOADER:
        return _of_loader(phases[0])
    try:
        files = [file for phase in phases if (file := _seen_of(phase)) is not None]
    except (ValueError, OverflowError):  # of infinite sizes
        return None
    return _report(phases, files) if len(files) == len(phases) else None


_LOADER = "DataLoader"


def _of_loader(phase: JournalPhase) -> Report:
    """Give what a loader of Python told of an epoch."""
    told = _pairs(phase.evidence.partition(";")[0])
    counts = {key: int(told.get(key, "0")) for key in ("workers", "prefetch", "batches")}
    loader = ReportedLoader(
        **counts,
        workers_started=int(told.get("started", "0")),
        iterators=1,
        samples=int(phase.moved),
        wait=phase.seconds,
    )
    of_each: dict[str, list[SettingOutcome]] = {}
    for key, value in phase.settings.items():
        outcome = SettingOutcome(
            layer="python", key=key, requested=value, given=value, echoed=value, outcome="applied", acted=1, missed=0
        )
        of_each.setdefault(key.rpartition(".")[0], []).append(outcome)
    objects = [ReportedObject(path=path, calls=1, settings=settings) for path, settings in of_each.items()]
    return _report([phase], []).model_copy(update={"objects": objects, "loaders": [loader]})


def _seen_of(phase: JournalPhase) -> FileReport | None:
    words = [word.partition("=")[::2] for word in phase.evidence.split(" ") if "=" in word]
    calls = {key: _numbers(value) for key, value in words if key.split(".")[0] in DIRECTIONS}
    if not calls:
        return None
    operations = dict(_list_operations(calls))
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
        application_info=_take_prefixed(words, "own."),
        settings=[_outcome(key, value) for key, value in phase.settings.items()],
        hdf5=_hdf5(
            phase, [_dataset(value) for key, value in words if key == "dataset"], _take_prefixed(words, "hdf5.")
        ),
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


def _list_operations(calls: Mapping[str, dict[str, Any]]) -> Iterator[tuple[str, Operation]]:
    for way in DIRECTIONS:
        for part, name in (("collective", f"{way}_all"), ("independent", way)):
            if found := calls.get(f"{way}.{part}"):
                yield name, Operation(**{key: value for key, value in found.items() if key != "ranks"})


def _mode(operations: Mapping[str, Operation], end: str) -> Mode:
    own = [operations[way + end] for way in DIRECTIONS if way + end in operations]
    return Mode(calls=sum(one.count for one in own), bytes=sum(one.bytes for one in own))


def _posix(calls: Mapping[str, dict[str, Any]], way: str) -> Posix:
    within = ("collective", "independent", "write")
    shares = {f"during_{part}": _share(calls, f"{way}.within_{part}") for part in within}
    return Posix(**_share(calls, f"{way}.system").model_dump(exclude={"time_sum"}), **shares)


def _share(calls: Mapping[str, dict[str, Any]], key: str) -> Share:
    found = calls.get(key)
    return Share(time_sum=0.0) if found is None else Share(**{k: v for k, v in found.items() if k != "messages"})


def _take_prefixed(words: Sequence[tuple[str, str]], prefix: str) -> dict[str, str]:
    return {key.removeprefix(prefix): value for key, value in words if key.startswith(prefix)}


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
