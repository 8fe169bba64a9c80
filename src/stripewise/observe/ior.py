"""Output of the IOR benchmark, versions 2.10 to 4: its text, JSON and CSV forms, told apart by their content.

This is the only place that knows how IOR writes. Others read runs, whose values are those of one test.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stripewise.errors import UserError
from stripewise.observe import benchmark
from stripewise.observe.activity import Activity
from stripewise.observe.benchmark import BenchmarkRow, BenchmarkRun, Layout, read_options
from stripewise.observe.source import Measured, Row, Source, read_text
from stripewise.sizes import parse_size

_KIB, _MIB = 1024, 2**20
_ROUNDING, _SECONDS, _MOST_ROUNDING = 0.0002, 0.005, 0.02
"""How far the product of rate and time may be from the bytes moved: a part for rates, seconds for times; at most."""

# Field of a row, with the names that texts and CSV files, and JSON files, have for it.
_COLUMNS = {
    "access": ("access", "access"),
    "bandwidth": ("bw(MiB/s)", "bwMiB"),
    "block": ("block(KiB)", "blockKiB"),
    "transfer": ("xfer(KiB)", "xferKiB"),
    "open": ("open(s)", "openTime"),
    "moving": ("wr/rd(s)", "wrRdTime"),
    "close": ("close(s)", "closeTime"),
    "total": ("total(s)", "totalTime"),
    "tasks": ("numTasks", "numTasks"),
    "repetition": ("iter", "iter"),
}
_BY_NAME = {name.lower(): field for field, names in _COLUMNS.items() for name in names}
# Exact figures of the table behind all tests; ``moved`` is of the first repetition.
_SUMMARY = {
    "test#": "test",
    "testid": "test",
    "#tasks": "tasks",
    "numtasks": "tasks",
    "segcnt": "segments",
    "segmentcount": "segments",
    "blksiz": "block",
    "blocksize": "block",
    "xsize": "transfer",
    "transfersize": "transfer",
    "aggsize": "moved",
    "aggs(mib)": "moved_mib",
    "xsizemib": "moved_mib",
}
# Columns of version 2.10, which prints the means of all repetitions only, and the second half only if it is verbose.
_MEANS = [
    "access",
    "",
    "",
    "bandwidth",
    *5 * [""],
    "total",
    "tasks",
    *7 * [""],
    "segments",
    "block",
    "transfer",
    "moved",
]
_APIS = {"ncmpi": "pnetcdf"}
"""Interfaces that have another name here."""

# Words that describe a test, in lower case and letters only; other lines that look like options are not.
# fmt: off
_WORDS = frozenset({
    "api", "access", "aggregatefilesize", "blocksize", "clients", "clientspernode", "collective",
    "deadlineforstonewall", "fileperproc", "fileperprocess", "nodes", "numnodes", "numtasks", "orderinginafile",
    "pattern", "randomoffset", "repetitions", "segmentcount", "segments", "stonewallingtime", "tasks",
    "taskspernode", "testfilename", "transfersize", "type", "usingstonewalling", "xfersize",
})
# fmt: on
_SECTIONS = ("parameters", "options", "summary")
_BANNER = r"\bIOR-([^\s:]{1,40}):"
_MOVED = r"Using actual aggregate bytes moved\s*=\s*([0-9]{1,18})"
_CSV = r"^[\ufeff \t]*(?:[^\s,]+,)*access[ \t]*,[ \t]*bw"
_OPTION = re.compile(r"[ \t]*([A-Za-z][\w \t/()-]*)[:=][ \t]+(\S.*)")
_COMMAND = re.compile(r"Command line(?: used)?\s*:(.*)")
_FLAGS = "BcCeEFgHIkKmMnpPqrRSuvVwWxYzZ"
"""Options of IOR that take no value; the first versions let them be joined."""
# A string ends at its line at the latest, so that one left open does no harm to the next.
_TOKENS = re.compile(
    rf'{_BANNER}|{_MOVED}|"((?:[^"\\\n]|\\.)*+)"?|([{{}}\[\]:,])|(-?[0-9][0-9.eE+-]*|[A-Za-z_]+)', re.ASCII
)


@dataclass(frozen=True)
class IorOutput:
    """An output of IOR.

    Attributes
    ----------
    form : {"text", "json", "csv"}
    runs : tuple of BenchmarkRun
        Those with results, in the order of the output. One launch makes several if its script names several tests.
    """

    form: str
    runs: tuple[BenchmarkRun, ...] = ()


def is_ior(beginning: str) -> bool:
    """Whether a text begins as an output of IOR, whatever the launcher printed before it."""
    # Most texts of a folder hold none of these words, which are found a hundred times as fast as patterns.
    return bool(
        '"bwMiB"' in beginning
        or ("IOR-" in beginning and re.search(rf"{_BANNER} MPI", beginning))
        or ('"Command line"' in beginning and re.search(r'"Command line"\s*:.{0,400}\bior\b', beginning))
        or _is_csv(beginning)
    )


def run_of_command(command: str, tasks: int | None = None) -> BenchmarkRun:
    """Give what a command line of IOR asks for, without rows."""
    return _Test(command=command, words={"tasks": str(tasks)} if tasks else {}).finished()


def _is_csv(text: str) -> bool:
    return "access" in text and re.search(_CSV, text, re.MULTILINE) is not None


def parse_ior(text: str, origin: str = "the output") -> IorOutput:
    """Read an output of IOR in any of its forms: of one run, or of several one after the other.

    Raises
    ------
    UserError
        If it has no result of IOR.
    """
    seen = _Tests()
    if text.lstrip("\ufeff \t\r\n").startswith("{") or '"bwMiB"' in text:
        form = "json"
        _read_json(text, seen)
    elif _is_csv(text):
        form = "csv"
        _read_csv(text, seen)
    else:
        form = "text"
        _read_text(text, seen)
    runs = tuple(test.finished() for test in seen.tests if test.results)
    if not runs:
        raise UserError(f"{origin} has no result of IOR", "give the whole output of a run that wrote or read something")
    return IorOutput(form, runs)


# -- tests, as their lines come -------------------------------------------------------------------------------------


@dataclass
class _Test:
    """What was read of a test so far: words as printed, cells by field."""

    version: str = ""
    command: str = ""
    words: dict[str, str] = field(default_factory=dict)
    sections: set[str] = field(default_factory=set)
    rows: list[dict[str, Any]] = field(default_factory=list)
    means: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def results(self) -> list[dict[str, Any]]:
        """Rows, or the means that stand for them."""
        return self.rows or self.means

    def _first(self, cell: str) -> Any:
        return self.results[0].get(cell) if self.results else None

    def finished(self) -> BenchmarkRun:
        """What was read, as values."""
        words, told = self.words, next(iter(self.summary.values()), {})
        arguments = read_options(self.command, _FLAGS)
        # A script of tests overrides what the command line says.
        given = {} if "-f" in arguments else arguments
        tasks = _find_first(
            (
                *(_integer(words.get(name, "")) for name in ("tasks", "numtasks", "clients")),
                _count(told.get("tasks")),
                _count(self._first("tasks")),
            )
        )
        block = self._size(("blocksize",), "-b", "block", given)
        transfer = self._size(("transfersize", "xfersize"), "-t", "transfer", given)
        own = self._own(given)
        segments = self._segments(told, given, block, tasks)
        share = block * tasks if block and tasks else None
        return BenchmarkRun(
            version=self.version,
            command=self.command,
            api=_api(words.get("api") or given.get("-a", "")),
            path=words.get("testfilename") or given.get("-o"),
            nodes=self._nodes(tasks),
            tasks=tasks,
            segments=segments,
            block=block,
            transfer=transfer,
            layout=self._layout(given, own, segments),
            collective=self._collective(given),
            file_per_process=own,
            rows=tuple(self._row(cells, share, segments) for cells in self.results),
        )

    def _nodes(self, tasks: int | None) -> int | None:
        words = self.words
        nodes = _integer(words.get("nodes", "")) or _integer(words.get("numnodes", ""))
        inner = re.search(r"\((\d{1,18}) per node\)", words.get("clients", ""))
        per_node = _find_first(
            (
                _integer(words.get("clientspernode", "")),
                _integer(words.get("taskspernode", "")),
                int(inner[1]) if inner else None,
            )
        )
        if nodes or not tasks or not per_node:
            return nodes or None
        return tasks // per_node if tasks % per_node == 0 else None

    def _size(self, names: Sequence[str], argument: str, cell: str, given: Mapping[str, str]) -> int | None:
        """A size in bytes, from what is exact if anything is: IOR rounds sizes above 1 MiB, and KiB in tables."""
        shown = [self.words[name] for name in names if name in self.words]
        return _find_first(
            (
                *(_bytes(text) for text in shown if "." not in text),
                *(_count(told.get(cell)) for told in self.summary.values() if cell in told),
                _bytes(given.get(argument, "")),
                *map(_bytes, shown),
                _count(self._first(cell)),
            )
        )

    def _segments(
        self, told: Mapping[str, Any], given: Mapping[str, str], block: int | None, tasks: int | None
    ) -> int | None:
        pattern = re.search(r"\((\d{1,18}) segment", self.words.get("pattern", ""))
        found = _find_first(
            (
                _integer(self.words.get("segments", "")),
                _integer(self.words.get("segmentcount", "")),
                _count(told.get("segments")),
                int(pattern[1]) if pattern else None,
                _bytes(given.get("-s", "")),
            )
        )
        if found is not None:
            return found
        whole = _bytes(self.words.get("aggregatefilesize", ""))
        if whole and block and tasks:
            return max(1, round(whole / (block * tasks)))
        return 1 if self.words or given else None

    def _own(self, given: Mapping[str, str]) -> bool | None:
        access = self.words.get("access", "").lower()
        if access:
            return access.startswith("file-per-process")
        said = _truth(self.words.get("fileperproc", self.words.get("fileperprocess", "")))
        return ("-F" in given if given else None) if said is None else said

    def _layout(self, given: Mapping[str, str], own: bool | None, segments: int | None) -> Layout | None:
        if segments is None:
            return None
        order = self.words.get("orderinginafile", "").lower()
        said = order.startswith("random") if order else _truth(self.words.get("randomoffset", ""))
        if said or (said is None and "-z" in given):
            return "random"
        # The segments of a file that a task has for itself adjoin.
        return "strided" if segments > 1 and not own else "segmented"

    def _collective(self, given: Mapping[str, str]) -> bool | None:
        kind = f"{self.words.get('type', '')} {self.words.get('access', '')}".lower()
        for word, said in (("collective", True), ("independent", False)):
            if word in kind:
                return said
        number = _truth(self.words.get("collective", ""))
        return ("-c" in given if given else None) if number is None else number

    def _row(self, cells: Mapping[str, Any], share: int | None, segments: int | None) -> BenchmarkRow:
        times = {name: _number(cells.get(name)) for name in ("open", "moving", "close", "total")}
        moved = self._moved(cells, share, segments)
        return BenchmarkRow(
            cells["access"], cells["bandwidth"], moved, times["open"], times["moving"], times["close"], times["total"]
        )

    def _moved(self, cells: Mapping[str, Any], share: int | None, segments: int | None) -> int | None:
        """Bytes of one access: as IOR says, else as asked for unless a deadline cut it, else from rate and time."""
        if cells["moved"] is not None:
            return int(cells["moved"])
        if share and segments and not self._deadline():
            return share * segments
        told = self.summary.get(cells["access"], {})
        if sum(other["access"] == cells["access"] for other in self.results) == 1:
            whole, mib = _count(told.get("moved")), _number(told.get("moved_mib"))
            if whole is not None or mib is not None:
                return whole if whole is not None else round((mib or 0) * _MIB)
        total = _number(cells.get("total"))
        if not total:
            return None
        found = cells["bandwidth"] * _MIB * total
        # All was moved after all, or the number of segments is not known, but is whole.
        whole = share * (segments or max(1, round(found / share))) if share else 0
        rounding = min(_MOST_ROUNDING, _ROUNDING + _SECONDS / total)
        return whole if abs(found - whole) <= rounding * whole else round(found)

    def _deadline(self) -> bool:
        """Whether the test ends after a time, and not when all is moved."""
        told = [self.words.get(name, "") for name in ("stonewallingtime", "usingstonewalling", "deadlineforstonewall")]
        return any(_integer(text) for text in (*told, read_options(self.command, _FLAGS).get("-D", "")))


class _Tests:
    """The tests of an output, made as its lines come."""

    def __init__(self) -> None:
        self.tests: list[_Test] = [_Test()]
        self._launch = 0
        self._moved: int | None = None

    @property
    def test(self) -> _Test:
        return self.tests[-1]

    def launched(self, version: str) -> None:
        """A launch of IOR begins."""
        self.tests.append(_Test(version))
        self._launch = len(self.tests) - 1
        self._moved = None

    def command(self, line: str) -> None:
        if self.test.rows or self.test.command:
            self.launched(self.test.version)
        self.test.command = line.strip()

    def section(self, name: str) -> None:
        """A list of words begins: of another test if this one has such a list already."""
        if name in self.test.sections or self.test.rows:
            self._next()
        self.test.sections.add(name)

    def word(self, name: str, value: str) -> None:
        plain = re.sub(r"[^a-z]", "", name.lower())
        if plain not in _WORDS:
            return
        if self.test.rows:
            self._next()
        # Parameters come first and are exact numbers; options of the same names are for people.
        if not self.test.words.get(plain, "").isdigit():
            self.test.words[plain] = value.strip()

    def _next(self) -> None:
        self.tests.append(_Test(self.test.version, self.test.command))
        self._moved = None

    def moved(self, size: str) -> None:
        """IOR says how much the access moved whose row comes next."""
        self._moved = int(size)

    def row(self, cells: Mapping[str, Any]) -> None:
        """Take the row of an access that has a bandwidth; nothing of others."""
        access, bandwidth = str(cells.get("access")).strip(), _number(cells.get("bandwidth"))
        if access not in ("write", "read"):
            return
        if bandwidth is not None:
            kib = {name: _number(cells.get(name)) for name in ("block", "transfer")}
            sizes = {name: None if size is None else round(size * _KIB) for name, size in kib.items()}
            self.test.rows.append({**cells, **sizes, "access": access, "bandwidth": bandwidth, "moved": self._moved})
        self._moved = None

    def means(self, cells: Mapping[str, Any]) -> None:
        """Take the row of an access for all repetitions, which stands for those that are not printed."""
        bandwidth = _number(cells.get("bandwidth"))
        if bandwidth is not None:
            self.test.means.append({**cells, "bandwidth": bandwidth, "moved": self._moved})
            self.test.summary[cells["access"]] = cells
        self._moved = None

    def summary(self, access: str, cells: Mapping[str, Any]) -> None:
        """Give the figures of the last table to the test of their number."""
        tests = self.tests[self._launch :]
        number = _count(cells.get("test")) or 0
        if access in ("write", "read") and number < len(tests):
            tests[number].summary[access] = cells


# -- forms ----------------------------------------------------------------------------------------------------------


def _read_text(text: str, seen: _Tests) -> None:
    header: list[str] = []
    summary: list[str] = []
    label = ""
    for whole in text.splitlines():
        # Launchers may label each line with the rank that printed it.
        line = whole.removeprefix(label)
        cells = line.split()
        if match := re.search(_BANNER, whole):
            label = whole[: match.start()]
            seen.launched(match[1])
            header, summary = [], []
        elif match := _COMMAND.match(line):
            seen.command(match[1])
        elif match := re.search(_MOVED, line):
            seen.moved(match[1])
        elif len(cells) == 1 and (name := cells[0].lower().rstrip(":")) in _SECTIONS:
            seen.section(name)
            header, summary = [], []
        elif cells[:1] == ["access"] and len(cells) > 2 and cells[1].startswith("bw"):
            header, summary = [_BY_NAME.get(name.lower(), "") for name in cells], []
        elif cells[:3] == ["Operation", "Max", "(MiB)"]:
            header, summary = [], _MEANS
        elif cells[:1] == ["Operation"]:
            header, summary = [], [_SUMMARY.get(name.lower(), "") for name in cells]
        elif header and len(header) <= len(cells) <= len(header) + 1:
            # The first versions end a row with a word for spreadsheets.
            seen.row(dict(zip(header, cells, strict=False)))
        elif summary is _MEANS and cells[:1] in (["write"], ["read"]):
            seen.means(dict(zip(summary, cells, strict=False)))
        elif summary and len(cells) == len(summary):
            seen.summary(cells[0], dict(zip(summary, cells, strict=True)))
        # Blanks around are stripped afterwards: patterns with them take time in proportion to their number's square.
        elif match := _OPTION.match(line):
            seen.word(match[1], match[2])


def _read_csv(text: str, seen: _Tests) -> None:
    """Rows only: those of the same sizes and tasks are of one test, until repetitions are counted anew."""
    header: list[str] = []
    last: list[str | None] = []
    before = 0
    for cells in (line.split(",") for line in text.lstrip("\ufeff").splitlines()):
        names = [name.strip().lower() for name in cells]
        if "access" in names and any(name.startswith("bw") for name in names):
            header = [_BY_NAME.get(name, "") for name in names]
        elif header and len(cells) == len(header):
            found = dict(zip(header, cells, strict=True))
            same = [found.get(name) for name in ("block", "transfer", "tasks")]
            repetition = _count(found.get("repetition")) or 0
            if same != last or repetition < before:
                seen.launched("")
            last, before = same, repetition
            seen.row(found)


def _read_json(text: str, seen: _Tests) -> None:
    """Take the objects as they come, whether commas and brackets between them are right or not.

    Versions of IOR leave out commas, close what is not open, and print warnings in between. Each object with words or
    results is whole all the same.
    """
    objects: list[tuple[str, dict[str, str]]] = []
    key = last = ""
    for match in _TOKENS.finditer(text):
        banner, moved, string, mark, plain = match.groups()
        if banner is not None:
            seen.launched(banner)
        elif moved is not None:
            seen.moved(moved)
        elif mark == ":":
            key, last = last, ""
        elif mark == "{":
            objects.append((key.lower(), {}))
            if key.lower() in _SECTIONS[:2]:
                seen.section(key.lower())
            key = ""
        elif mark == "}":
            if objects:
                _take(objects.pop()[1], seen)
            key = ""
        elif mark is not None:
            key = ""
        elif not key:
            last = string or ""
        else:
            _value(key, plain if string is None else string, objects, seen)
            key = last = ""
    # Of an output that was cut off, what is open holds what was written of it.
    while objects:
        _take(objects.pop()[1], seen)


def _value(key: str, value: str, objects: Sequence[tuple[str, dict[str, str]]], seen: _Tests) -> None:
    if key == "Command line":
        seen.command(value)
    elif key == "Version":
        seen.launched(value)
    elif objects and objects[-1][0] in _SECTIONS[:2]:
        seen.word(key, value)
    elif objects:
        objects[-1][1][key.lower()] = value


def _take(values: Mapping[str, str], seen: _Tests) -> None:
    if "operation" in values:
        seen.summary(values["operation"], {_SUMMARY.get(name, ""): value for name, value in values.items()})
    elif "access" in values:
        seen.row({_BY_NAME.get(name, ""): value for name, value in values.items()})


# -- values ---------------------------------------------------------------------------------------------------------


def _find_first(values: Iterable[int | None]) -> int | None:
    return next((value for value in values if value is not None), None)


def _number(cell: Any) -> float | None:
    """A cell's number; None where IOR prints a dash, or infinity as a text."""
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _count(cell: Any) -> int | None:
    value = _number(cell)
    return None if value is None else round(value)


def _integer(text: str) -> int | None:
    match = re.match(r"\s*(\d{1,18})", text)
    return int(match[1]) if match else None


def _bytes(text: str) -> int | None:
    """A size as IOR prints it or takes it; rounded to bytes where it was printed with decimals."""
    match = re.match(r"([0-9]{1,18})(\.[0-9]{1,18})?\s*([A-Za-z]{0,9})", text.strip())
    if match is None:
        return None
    try:
        unit = parse_size(f"1{re.sub('(?i)bytes?$', '', match[3])}")
    except UserError:
        return None
    return round(float(f"{match[1]}{match[2]}") * unit) if match[2] else int(match[1]) * unit


def _truth(text: str) -> bool | None:
    return {"1": True, "true": True, "0": False, "false": False}.get(text.strip().lower())


def _api(text: str) -> str | None:
    """An interface without its version: ``MPIIO (version=3, subversion=1)``, ``HDF5-1.8.14 (Parallel)``."""
    name = re.match(r"\w{0,40}", text.strip().lower())[0]  # type: ignore[index]  # always matches
    return _APIS.get(name, name) or None


def activities_of(output: IorOutput, source: str) -> list[Activity]:
    """Give each run of an output as an activity; of several, each has its number behind the source."""
    return benchmark.activities_of(output.runs, source, "ior", "IOR")


def rows_of(output: IorOutput) -> list[Row]:
    """Give one row for each access of each repetition; None where the output does not tell."""
    return benchmark.rows_of(output.runs)


def _parse(path: Path) -> IorOutput:
    return parse_ior(read_text(path), str(path))


def _measure(path: Path) -> Measured:
    output = _parse(path)
    return Measured(rows_of(output), f"IOR {output.form}")


SOURCE = Source(
    "ior", "IOR's output", "outputs of IOR", is_ior, lambda path: activities_of(_parse(path), str(path)), _measure
)
RANKS = Source(
    "ior-ranks",
    "IOR's figures of single ranks (saveRankPerformanceDetailsCSV)",
    "",
    lambda beginning: beginning.startswith("access,rank,runtime-with-openclose,"),
    instead="give what IOR printed, which has the figures of all ranks together",
)
