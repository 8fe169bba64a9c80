"""What a job did to its files, as any observer saw it: the common form of Darshan logs, traces, reports and outputs.

Observers see different things. What one could not see is ``None`` or empty, never zero, and :attr:`Activity.unseen`
says in words what cannot be judged for that reason.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Annotated, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from stripewise.formats import OTHER_FILES, SIZE_NAMES

_MODULES = frozenset({".py", ".pyc", ".so", ".pyd", ".pth"})
_PACKAGES = frozenset({"site-packages", "dist-packages"})
_SYSTEM = frozenset((name,) for name in ("usr", "etc", "lib", "lib64", "bin", "sbin", "opt", "proc", "sys"))
_OVERLAPPING = 1.1
"""Times in calls are beyond the run's, by more than clocks differ, only where a rank makes several calls at a time."""


def _make_printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


Name = Annotated[str, AfterValidator(_make_printable)]
"""Text from a log that is printed: control characters, which could command a terminal, are shown as escapes."""


class _ActivityPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Calls(_ActivityPart):
    """Data calls of one direction at one level, over all ranks.

    Attributes
    ----------
    count, bytes : int
    seconds : float
        Summed over ranks.
    consecutive, sequential : int or None
        Calls that began exactly where the rank's previous one ended, and anywhere behind it.
    sizes : list of int
        Calls by size, bins :data:`stripewise.formats.SIZE_NAMES`; empty where unknown.
    common : list of (int, int)
        The most frequent sizes with their counts.
    largest : int or None
        Bytes of the largest call.
    ranks : int or None
        Ranks that made them.
    random : int or None
        Calls that neither continued the rank's previous one nor were as far from it as that from the one before.
    extent : int or None
        One beyond the last byte touched.
    start, end : float or None
        Seconds since the job began.
    """

    count: int = Field(default=0, ge=0)
    bytes: int = Field(default=0, ge=0)
    seconds: float = Field(default=0.0, ge=0)
    consecutive: int | None = None
    sequential: int | None = None
    random: int | None = None
    sizes: list[int] = Field(default_factory=list, max_length=len(SIZE_NAMES))
    common: list[tuple[int, int]] = Field(default_factory=list)
    largest: int | None = None
    ranks: int | None = None
    extent: int | None = None
    start: float | None = None
    end: float | None = None

    @property
    def mean(self) -> float:
        """Bytes a call."""
        return self.bytes / self.count if self.count else 0.0

    def below(self, bins: int) -> int | None:
        """Calls in the first ``bins`` bins of the histogram, None where it is unknown."""
        return sum(self.sizes[:bins]) if self.sizes else None


class Level(_ActivityPart):
    """Calls of one interface (POSIX, MPI-IO, STDIO, HDF5 datasets, PnetCDF variables) on one file or on all.

    Attributes
    ----------
    opens, stats : int
    syncs : int
        fsync and fdatasync, MPI_File_sync, fflush, H5Fflush.
    meta_seconds : float
        Time in calls that move no data, summed over ranks.
    common : list of (int, int)
        The most frequent sizes of both directions together, with their counts.
    calls : dict
        Seconds of calls that move no data, by name, summed over ranks; empty where the source does not tell.
    unaligned_file, unaligned_memory : int or None
        Data calls whose offset is not a multiple of ``file_alignment``, and whose buffer is not aligned in memory.
    file_alignment : int or None
        Bytes.
    """

    read: Calls = Calls()
    write: Calls = Calls()
    opens: int = 0
    stats: int = 0
    syncs: int = 0
    meta_seconds: float = 0.0
    common: list[tuple[int, int]] = Field(default_factory=list)
    calls: dict[Name, float] = Field(default_factory=dict, max_length=100)
    unaligned_file: int | None = None
    unaligned_memory: int | None = None
    file_alignment: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.read.bytes + self.write.bytes

    @property
    def seconds(self) -> float:
        """Time in all calls, summed over ranks."""
        return self.read.seconds + self.write.seconds + self.meta_seconds

    @property
    def count(self) -> int:
        """Data calls."""
        return self.read.count + self.write.count


class Modes(_ActivityPart):
    """How MPI-IO was called: data calls by kind, over all ranks.

    ``collective_bytes`` and ``independent_bytes`` are None where the source does not tell them apart.
    """

    collective_reads: int = 0
    collective_writes: int = 0
    independent_reads: int = 0
    independent_writes: int = 0
    nonblocking_reads: int = 0
    nonblocking_writes: int = 0
    views: int = 0
    collective_bytes: int | None = None
    independent_bytes: int | None = None


class SystemCalls(_ActivityPart):
    """System calls that moved data: how many, of how many ranks, and the bytes of all and of the largest."""

    count: int = Field(default=0, ge=0, validation_alias=AliasChoices("count", "calls"))
    bytes: int = 0
    ranks: int = 0
    largest: int = 0


class Within(SystemCalls):
    """System calls within the collective calls of one direction.

    Attributes
    ----------
    moving : int
        The collective calls around them that moved bytes: some ranks may only take part.
    messages : int
        MPI calls that the MPI library made within these collective calls; 0 also where none can be seen.
    exchange : (float, float) or None
        Seconds of these collective calls outside system calls, and all of them; None where they were not measured.
    """

    moving: int = 0
    messages: int = 0
    exchange: tuple[float, float] | None = None


class Beneath(_ActivityPart):
    """System calls that MPI-IO made for its own calls; the runtime alone sees which belong to which.

    Attributes
    ----------
    write, read : Within
        Within collective calls, by the direction of these.
    independent_write, independent_read : SystemCalls
        Within independent calls.
    reading_back : SystemCalls
        Reads within write calls: read-modify-write.
    """

    # Activities that earlier versions stored hold sums that follow from the rest.
    model_config = ConfigDict(extra="ignore")

    write: Within = Within()
    read: Within = Within()
    independent_write: SystemCalls = SystemCalls()
    independent_read: SystemCalls = SystemCalls()
    reading_back: SystemCalls = SystemCalls()

    @property
    def collective_ranks(self) -> int:
        """Ranks that wrote or read within collective calls: the aggregators."""
        return max(self.write.ranks, self.read.ranks)


class DatasetTransfers(_ActivityPart):
    """H5Dwrite or H5Dread of all datasets of a file; the runtime alone sees them.

    Attributes
    ----------
    collective, broken : int
        Calls for which the program asked for collective transfers, and those of them that HDF5 made independently.
    independent : int
        Calls for which it asked for independent transfers.
    broken_by : list of str
        Why, in the words of ``H5Pget_mpio_no_collective_cause``.
    bytes, moved : int
        That the datasets hold, and that the calls moved.
    selections : list of str
        How the program selected elements: ``block``, ``strided`` and so on.
    common : list of (int, int)
        The most frequent sizes in bytes with their counts.
    flat : bool
        Whether all datasets have one dimension.
    """

    collective: int = 0
    independent: int = 0
    broken: int = 0
    broken_by: list[Name] = Field(default_factory=list)
    bytes: int = 0
    moved: int = 0
    selections: list[Name] = Field(default_factory=list)
    common: list[tuple[int, int]] = Field(default_factory=list)
    flat: bool = False


class Selected(_ActivityPart):
    """What H5Dwrite or H5Dread moved of a dataset.

    Attributes
    ----------
    box : list of int
        Elements in each dimension that most calls select; empty where they differ.
    chunk_ranks : float or None
        Ranks that moved data of the same chunk, on average.
    """

    calls: int = 0
    bytes: int = 0
    box: list[int] = Field(default_factory=list)
    chunk_ranks: float | None = None


class Place(_ActivityPart):
    """A place in the source code from which data moved: its line, then the lines that called it."""

    direction: Literal["read", "write"]
    calls: int
    bytes: int
    lines: list[str]


class Dataset(_ActivityPart):
    """One dataset of HDF5.

    Attributes
    ----------
    bytes : int
        That its elements take, before any filter.
    address : int or None
        In the file; None where it does not lie in one piece.
    size, chunk : list of int
        In elements, slowest dimension first.
    write, read : Selected or None
        What was moved.
    element_size, ranks : int
        Bytes of an element, and ranks that opened it.
    cache_bytes, cache_slots : int or None
        Of the cache of its chunks, as HDF5 told of the open dataset.
    """

    name: Name
    bytes: int = 0
    address: int | None = None
    chunk: list[int] = Field(default_factory=list)
    filters: list[Name] = Field(default_factory=list)
    element_size: int = 0
    ranks: int = 0
    cache_bytes: int | None = None
    cache_slots: int | None = None
    size: list[int] = Field(default_factory=list)
    write: Selected | None = None
    read: Selected | None = None


class FileLayout(_ActivityPart):
    """Stripes of a file."""

    file_system: str
    stripe_count: int = Field(ge=0)
    stripe_size: int = Field(ge=0)
    osts: list[int] = Field(default_factory=list)


class Spread(_ActivityPart):
    """How unequal the ranks of a shared file were; seconds and bytes of a single rank."""

    fastest_seconds: float
    fastest_bytes: int
    slowest_rank: int
    slowest_seconds: float
    slowest_bytes: int


class SettingOutcome(_ActivityPart):
    """What became of one setting that a plan asked for.

    Attributes
    ----------
    layer : str
        The first word of its line in the plan.
    requested, application : str or None
        What the plan asked for, and what the program itself sets.
    given, echoed : str or None
        What was passed on, and what the library told of it.
    acted, missed : int or None
        Calls in which it acted, and others, where the observer counts them.
    """

    layer: Name = ""
    key: Name
    requested: Name | None = None
    application: Name | None = None
    given: Name | None = Field(default=None, validation_alias=AliasChoices("given", "in_force"))
    echoed: Name | None = None
    outcome: Name = ""
    note: Name = ""
    acted: int | None = None
    missed: int | None = None

    @property
    def in_force(self) -> str | None:
        """The value that acted, as the library told it or as it was given."""
        return self.echoed or self.given


def _take_names(calls: object) -> object:
    """Take the names alone, as earlier versions stored them."""
    return dict.fromkeys(calls, 1) if isinstance(calls, list) else calls


class FileActivity(_ActivityPart):
    """One file.

    Attributes
    ----------
    ranks : int
        Ranks that touched it.
    processes : int or None
        Processes that touched it, where the source tells processes and ranks apart.
    whole_readers, whole_read : int or None
        Those of them that read it from end to end, and the bytes that they read of it.
    calls, hdf5_calls : dict
        How often each function of MPI-IO and of HDF5 was called on it, as a report names them; empty where the source
        does not name them.
    view_contiguous : bool or None
        Of the last MPI file view.
    view_bytes, view_piece : int or None
        Bytes that one turn of this view shows, and the bytes of each of its pieces where they are alike.
    hdf5_driver, hdf5_version : str or None
        With which HDF5 opened it, and the version of the library.
    properties : dict
        That HDF5 said the open file has.
    told_layout : dict
        What the file system told of its layout, by the file system's own keys.
    info, own_hints : dict
        Hints that the MPI library echoed, and those that the program gave.
    redundant_read : int or None
        Bytes that a rank read again, where a trace tells.
    read_blocks : list of int
        Different blocks that ranks read, for each size of :data:`stripewise.observe.profile_features.BLOCKS`; empty
        without a trace.
    transfers : dict
        Of HDF5, by direction; empty where none were seen.
    chunk_bytes : int or None
        Of the largest chunk of its datasets in HDF5, where the source tells.
    """

    path: Name
    file_system: Name | None = None
    ranks: int = 1
    nodes: int | None = None
    processes: int | None = None
    whole_readers: int | None = None
    whole_read: int | None = None
    size: int | None = None
    posix: Level | None = None
    mpiio: Level | None = None
    stdio: Level | None = None
    hdf5: Level | None = None
    pnetcdf: Level | None = None
    modes: Modes | None = None
    beneath: Beneath | None = None
    layout: FileLayout | None = None
    told_layout: dict[Name, int | Name] = Field(default_factory=dict)
    spread: Spread | None = None
    calls: Annotated[dict[Name, int], BeforeValidator(_take_names)] = Field(default_factory=dict, max_length=100)
    hdf5_calls: dict[Name, int] = Field(default_factory=dict)
    view_contiguous: bool | None = None
    view_bytes: int | None = None
    view_piece: int | None = None
    hdf5_driver: Name | None = None
    hdf5_version: Name | None = None
    properties: dict[Name, Name] = Field(default_factory=dict)
    driver: Name | None = None
    info: dict[Name, Name] = Field(default_factory=dict)
    own_hints: dict[Name, Name] = Field(default_factory=dict)
    asked: list[SettingOutcome] = Field(default_factory=list)
    places: list[Place] = Field(default_factory=list)
    redundant_read: int | None = None
    read_blocks: list[int] = Field(default_factory=list, max_length=16)
    transfers: dict[Literal["read", "write"], DatasetTransfers] = Field(default_factory=dict)
    datasets: list[Dataset] = Field(default_factory=list)
    chunk_bytes: int | None = None

    @property
    def through_hdf5(self) -> bool:
        """Whether the source saw HDF5 use it."""
        return self.hdf5_driver is not None or bool(self.properties or self.datasets)

    @property
    def upper(self) -> Level:
        """The level that the program called: the time of those below is within its time."""
        return self.mpiio or self.posix or self.stdio or Level()

    @property
    def lower(self) -> Level:
        """The lowest level seen: what the file system was asked for."""
        return self.posix or self.mpiio or self.stdio or Level()

    @property
    def stands_for_several(self) -> bool:
        """Whether several files are counted together: a package, or what had no record left."""
        return self.path == OTHER_FILES or self.path.endswith(("/*.py", "/*.pyc", "/*"))

    @property
    def of_python(self) -> bool:
        """Whether it is of an installation of Python, and no data of the program."""
        parts = PurePath(self.path).parts
        return PurePath(self.path).suffix in _MODULES or not _PACKAGES.isdisjoint(parts[:-1])

    @property
    def installed(self) -> bool:
        """Whether it is of installed software: of Python, or read from a folder of the system."""
        if self.of_python:
            return True
        moved = [level.write.bytes for level in (self.mpiio, self.posix, self.stdio) if level]
        return PurePath(self.path).parts[1:2] in _SYSTEM and not any(moved)

    @property
    def bytes(self) -> int:
        """Bytes that the program moved through all its interfaces."""
        both = self.mpiio or self.posix
        return (both.bytes if both else 0) + (self.stdio.bytes if self.stdio else 0)

    @property
    def seconds(self) -> float:
        """Time in calls on this file, summed over ranks."""
        both = self.mpiio or self.posix
        return (both.seconds if both else 0.0) + (self.stdio.seconds if self.stdio else 0.0)


class Counted(_ActivityPart):
    """Counts over all files, those that are not listed included.

    Attributes
    ----------
    files, shared : int
        All, and those touched by several ranks.
    written_single : int
        Files that one rank wrote.
    writers : int
        Ranks that wrote a file of their own.
    small : int
        Files with data below 1 MiB.
    folders : int
    """

    files: int = 0
    shared: int = 0
    written_single: int = 0
    writers: int = 0
    small: int = 0
    folders: int = 0


class RankLoads(_ActivityPart):
    """Bytes and seconds of each rank.

    ``source`` says how they are known: ``records`` (nothing was reduced over ranks), ``heatmap`` (bytes only),
    ``trace``, or ``record`` (of a program; bytes only). Lists are empty where that is unknown.
    """

    source: Literal["records", "heatmap", "trace", "report", "record"]
    read: list[int] = Field(default_factory=list)
    written: list[int] = Field(default_factory=list)
    seconds: list[float] = Field(default_factory=list)


class ProcessActivity(_ActivityPart):
    """One process of a program without MPI, which may be a worker of a rank.

    Attributes
    ----------
    parent : int or None
        Number of the process that started it.
    elapsed, io_seconds : float
        Its life from its first regular file on, and its time in calls on files and paths.
    reads : int
    read, written : int
        Bytes.
    path_calls : int
        Stats, failed opens and listings of folders.
    """

    parent: int | None = None
    elapsed: float = 0.0
    io_seconds: float = 0.0
    reads: int = 0
    read: int = 0
    written: int = 0
    path_calls: int = 0


class LoaderActivity(_ActivityPart):
    """One loader of samples in a process of Python.

    Attributes
    ----------
    workers, prefetch, workers_started : int
        As the loader has them, and the workers that it started.
    iterators, batches, samples : int
    batch_bytes : int
        Of a batch; 0 where none was measured.
    wait, busy : float
        Seconds that its consumer spent in it, and between two batches.
    """

    host: Name = ""
    pid: int = 0
    workers: int = 0
    prefetch: int = 0
    workers_started: int = 0
    iterators: int = 0
    batches: int = 0
    samples: int = 0
    batch_bytes: int = 0
    wait: float = Field(default=0.0, ge=0)
    busy: float = Field(default=0.0, ge=0)


class Timeline(_ActivityPart):
    """Bytes over time; ``heat`` has a row for each group of ranks.

    Attributes
    ----------
    width : float
        Seconds a bin.
    read, written : list of int
    heat : list of list of int
        Read and written together; row r holds ranks r * ranks_a_row and following.
    """

    width: float = Field(gt=0)
    read: list[int]
    written: list[int]
    heat: list[list[int]] = Field(default_factory=list)
    ranks_a_row: int = 1


class OstLoad(_ActivityPart):
    """What one storage target carried; seconds only where a trace tells."""

    bytes: int = 0
    seconds: float | None = None


class ActivityJob(_ActivityPart):
    """The job; seconds. ``started`` counts from 1970.

    ``interface`` is ``posix`` where the runtime watched a program without MPI. ``ranks_seen`` are those that the
    source holds, where some are missing. ``program`` is its name, where the source tells
    it apart from interpreters and shells.
    """

    executable: Name = ""
    program: Name = ""
    identifier: Name = ""
    ranks: int = Field(default=1, ge=1)
    nodes: int | None = None
    elapsed: float = Field(default=0.0, ge=0)
    started: float | None = None
    mpi: str | None = None
    mpi_io: str | None = None
    interface: Literal["posix"] | None = None
    ranks_seen: int | None = None

    @property
    def name(self) -> str:
        """The name of the program, or else that of the executable, without its folder; empty where none is known."""
        return self.program or PurePath(self.executable.split(" ")[0]).name


class Moved(_ActivityPart):
    """Bytes of all ranks, and the seconds in calls of the slowest."""

    bytes: int = 0
    seconds: float = 0.0


class ActivityTotals(_ActivityPart):
    """Sums over all files, a level each, and of collective calls.

    ``other_calls`` ask the file system for something else than data (opens, closes, syncs, sizes, calls on paths) and
    take ``other_seconds`` over all ranks; both only where a report tells.
    """

    posix: Level = Level()
    mpiio: Level = Level()
    stdio: Level = Level()
    modes: Modes = Modes()
    other_calls: int = 0
    other_seconds: float = 0.0


class Activity(_ActivityPart):
    """A job's I/O.

    Attributes
    ----------
    source : str
        The file it was read from.
    kind : str
        What the source is: ``darshan``, ``report``, ``record`` and so on; each reader names its own.
    version : str
        Of the source's format.
    seen, partial : list of str
        Modules in the source, and those that ran out of memory while recording.
    unseen : list of str
        Sentences: what the source does not hold, and what cannot be judged without it.
    io_seconds : float
        Time in I/O calls of the slowest rank where known, else summed over ranks and divided by them. The time of a
        call counts where the program made it: that of the POSIX calls below MPI-IO is within MPI-IO's.
    moved : int or None
        Bytes of all files, where ``files`` lists only some.
    modules : dict
        Bytes and time of each level of a Darshan log (``mpiio``, ``posix``, ``stdio``) that moved data.
    summed_seconds : float
        Time in I/O calls over all ranks.
    rates, directions : dict
        MiB/s by direction from open to close, and its bytes with the time in data calls of the slowest rank, where the
        source states them.
    mixed : list of str
        Directions whose bytes went, in part at least, through opens in which the other one moved bytes, too: their
        time from open to close holds both.
    phase_rates : dict
        Of these, MiB/s over the time in data calls with their part of open, sync and close, where calls tell it.
    programs : list of str
        Of a report: the names of the programs that the command started, where they are several.
    processes : list of ProcessActivity
        Of a report of a program without MPI; empty elsewhere.
    files : list of FileActivity
        Those that matter most, first those with most time; the rest is counted only.
    objects : list of FileActivity
        Of a report: classes and functions of Python that settings are for, with what became of these; the path is
        their name.
    loaders : list of LoaderActivity
        Of a report: the loaders that programs of Python took samples from.
    planned : bool
        Whether the run applied a plan.
    timed : bool
        Whether the source has times of calls; without them seconds are the job's, shared out over the bytes.
    counts_opens_once : bool
        Whether a collective open counts once, and not once a rank.
    """

    source: str
    kind: Name
    version: str = ""
    job: ActivityJob = ActivityJob()
    seen: list[Name] = Field(default_factory=list)
    partial: list[Name] = Field(default_factory=list)
    unseen: list[str] = Field(default_factory=list)
    io_seconds: float = 0.0
    moved: int | None = None
    modules: dict[Literal["mpiio", "posix", "stdio"], Moved] = Field(default_factory=dict)
    summed_seconds: float = 0.0
    rates: dict[Literal["read", "write"], float] = Field(default_factory=dict)
    directions: dict[Literal["read", "write"], Moved] = Field(default_factory=dict)
    mixed: list[Literal["read", "write"]] = Field(default_factory=list)
    phase_rates: dict[Literal["read", "write"], float] = Field(default_factory=dict)
    programs: list[Name] = Field(default_factory=list)
    totals: ActivityTotals = ActivityTotals()
    counted: Counted = Counted()
    files: list[FileActivity] = Field(default_factory=list)
    ranks: RankLoads | None = None
    processes: list[ProcessActivity] = Field(default_factory=list)
    timeline: Timeline | None = None
    objects: list[FileActivity] = Field(default_factory=list)
    loaders: list[LoaderActivity] = Field(default_factory=list)
    osts: dict[int, OstLoad] = Field(default_factory=dict)
    hints: dict[str, str] = Field(default_factory=dict)
    planned: bool = False
    timed: bool = True
    counts_opens_once: bool = False

    @property
    def bytes(self) -> int:
        """Bytes that the program moved."""
        return sum(file.bytes for file in self.files) if self.moved is None else self.moved

    @property
    def through(self) -> list[FileActivity]:
        """The files that were used through MPI-IO; of a program without MPI, all."""
        return [file for file in self.files if self.job.interface or file.mpiio is not None]

    @property
    def beside(self) -> list[FileActivity]:
        """The files that a program with MPI used by calls of its own."""
        return [file for file in self.files if not self.job.interface and file.mpiio is None]

    @property
    def main(self) -> FileActivity | None:
        """The file that most bytes went through, of :attr:`through` if there are any, else of :attr:`beside`."""
        return max(self.through or self.beside, key=lambda file: file.bytes, default=None)

    @property
    def versions(self) -> dict[str, str]:
        """Versions of libraries as they told themselves, where all files agree."""
        told = {file.hdf5_version for file in self.files if file.hdf5_version is not None}
        return {"HDF5": told.pop()} if len(told) == 1 else {}

    @property
    def paths(self) -> list[Path]:
        """The files of :attr:`through` whose place is known."""
        return [Path(file.path) for file in self.through if file.path.startswith("/")]

    @property
    def bandwidth(self) -> float | None:
        """MiB/s over the time of the slowest rank; None where no time is known.

        Of a Darshan log it is Darshan's own estimate "by slowest": MPI-IO alone where it moved data, since POSIX calls
        below it would count the bytes again; otherwise POSIX and streams.
        """
        upper = self.modules.get("mpiio")
        used = [upper] if upper else list(self.modules.values())
        used = used or [Moved(bytes=self.bytes, seconds=self.io_seconds)]
        seconds = sum(one.seconds for one in used)
        return sum(one.bytes for one in used) / 2**20 / seconds if seconds > 0 else None

    @property
    def io_time(self) -> float | None:
        """Seconds in I/O of the slowest rank; None where the source has no times, or calls of threads overlapped."""
        if self.io_seconds <= 0 < self.bytes:
            return None
        return None if 0 < _OVERLAPPING * self.job.elapsed < self.io_seconds else self.io_seconds

    @property
    def io_share(self) -> float | None:
        """Part of the run in I/O, 0 to 1; None where :attr:`io_time` or the run's time is not known."""
        if self.io_time is None or self.job.elapsed <= 0:
            return None
        return min(1.0, self.io_time / self.job.elapsed)

    def on_nodes(self, nodes: int | None) -> Activity:
        """Give the same with the nodes of the job, where these are not known already."""
        if nodes is None or self.job.nodes is not None:
            return self
        return self.model_copy(update={"job": self.job.model_copy(update={"nodes": min(nodes, self.job.ranks)})})

    def share(self, seconds: float) -> float:
        """Part of the time in I/O calls, 0 to 1."""
        return min(1.0, seconds / self.summed_seconds) if self.summed_seconds > 0 else 0.0
