"""Output of h5bench's reads and writes of HDF5: what it prints, and its CSV, of versions 1.0 on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from stripewise.errors import UserError
from stripewise.observe.activity import Activity
from stripewise.observe.benchmark import BenchmarkRow, BenchmarkRun, activities_of, rows_of
from stripewise.observe.source import Measured, Source, read_text

_BEGIN = re.compile(
    r"(?<!=)={5,}\s*performance results\s*={5,}|^metric\s*,\s*value\s*,\s*unit\s*$|^NUM_RANKS\s*,",
    re.IGNORECASE | re.MULTILINE,
)
_SURE = re.compile(r"\bobserved[ _](?:(?:write|read|modify|append)[ _])?(?:rate|completion[ _]time)\b", re.IGNORECASE)
_FIGURE = re.compile(
    r"[ \t]*(?:(?:SYNC|ASYNC)[ \t]+)?([A-Za-z][A-Za-z0-9_() ]{1,40}?)[ \t]*(?:[:=,]|[ \t]takes)?[ \t]*"
    r"([0-9]{1,18}(?:\.[0-9]{1,18})?)[ \t]*,?[ \t]*([A-Za-z/]{0,8})[ \t]*\Z",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"[ \t]*(Collective buffering for data operations|collective data|CollectiveWrite|CollectiveRead|operation)"
    r"[ \t]*[:,][ \t]*([^,]*?)[ \t,.]*\Z",
    re.IGNORECASE,
)
_WAYS = {"write": "write", "read": "read", "modify": "write", "append": "write", "overwrite": "write"}
_SCALE = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_TOGETHER = ("collective buffering for data operations", "collective data", "collectivewrite", "collectiveread")
_ROUNDED = 0.0006
"""Of the unit of a rate, by which it may be rounded."""
_MIB = 2**20
Figures = Mapping[str, tuple[float, str]]
"""Values with their units, by the name that h5bench prints."""


def is_h5bench(beginning: str) -> bool:
    """Whether a text begins as output of h5bench."""
    # Few other texts say so, and patterns are slow on the many texts of a folder.
    if "observed" not in beginning.lower():
        return False
    return _BEGIN.search(beginning) is not None and _SURE.search(beginning) is not None


def parse_h5bench(text: str, origin: str = "the output") -> list[BenchmarkRun]:
    """Read an output of h5bench, of one program or of several.

    Raises
    ------
    UserError
        If no program has an observed rate.
    """
    runs: list[BenchmarkRun] = []
    options: dict[str, str] = {}
    figures: dict[str, tuple[float, str]] = {}

    def end() -> None:
        """Take what a program measured, before the lines of the next one."""
        if (run := _run(figures, options)) is not None:
            runs.append(run)
            options.clear()
        figures.clear()

    for line in text.splitlines():
        if _BEGIN.search(line):
            end()
        if option := _OPTION.match(line):
            if _rate_of(figures) is not None:
                end()
            options[option[1].lower()] = option[2].lower()
        elif figure := _FIGURE.match(line):
            figures[" ".join(figure[1].lower().replace("_", " ").split())] = (float(figure[2]), figure[3])
    end()
    if not runs:
        raise UserError(
            f"{origin}: h5bench's output without an observed rate",
            "give the whole output of a run that came to its end",
        )
    return runs


def _rate_of(figures: Figures) -> tuple[float, str] | None:
    return _first(figures, r"observed(?: \w+)? rate")


def _first(figures: Figures, pattern: str) -> tuple[float, str] | None:
    return next((value for name, value in figures.items() if re.fullmatch(pattern, name)), None)


def _run(figures: Figures, options: Mapping[str, str]) -> BenchmarkRun | None:
    printed = _rate_of(figures)
    words = {word for name in figures for word in name.split() if word in _WAYS} or {options.get("operation", "")}
    ways = {_WAYS[word] for word in words if word in _WAYS}
    if printed is None or printed[0] <= 0 or len(ways) != 1:
        return None
    rate = _bytes(printed)
    size, raw = _first(figures, r"total(?: \w+)? size"), _first(figures, r"raw(?: \w+)? time")
    observed = _first(figures, r"observed(?: \w+)*(?: completion)? time")
    compute = _first(figures, r"total(?: emulated)? compute time") or (0.0, "s")
    meta = _first(figures, r"(?:core )?metadata time")
    ranks = _first(figures, r"total number of ranks|num ranks|ranks")
    moved = round(_bytes(size)) if size else None
    spent = max(0.0, _seconds(observed) - _seconds(compute)) if observed else 0.0
    # The rate is rounded to thousandths of a GB/s, size and time are not.
    if moved and spent and abs(moved / spent - rate) <= _ROUNDED * _bytes((1.0, printed[1])):
        rate = moved / spent
    together = next((options[name] for name in _TOGETHER if name in options), "")
    return BenchmarkRun(
        command="h5bench",
        api="hdf5",
        tasks=int(ranks[0]) if ranks else None,
        collective={"yes": True, "no": False}.get(together),
        file_per_process=False,
        rows=(
            BenchmarkRow(
                ways.pop(),
                rate / _MIB,
                moved,
                open=_seconds(meta) if meta else None,
                moving=_seconds(raw) if raw else None,
                total=spent or None,
            ),
        ),
    )


def _bytes(figure: tuple[float, str]) -> float:
    """A size or a rate in bytes: h5bench's units are powers of 1024."""
    value, unit = figure
    return value * _SCALE.get(unit.upper().partition("/")[0].removesuffix("B"), 1)


def _seconds(figure: tuple[float, str]) -> float:
    value, unit = figure
    return value / 1000 if unit.lower() == "ms" else value / 1e6 if unit.lower() == "us" else value


def _read(path: Path) -> list[Activity]:
    return activities_of(parse_h5bench(read_text(path), str(path)), str(path), "h5bench", "h5bench")


def _measure(path: Path) -> Measured:
    return Measured(rows_of(parse_h5bench(read_text(path), str(path))), "h5bench")


SOURCE = Source("h5bench", "h5bench's output", "outputs of h5bench", is_h5bench, _read, _measure)
LOG = Source(
    "h5bench-log",
    "a log of the script h5bench",
    "",
    lambda beginning: "h5bench" in beginning and "- Starting h5bench Suite" in beginning,
    instead="give the file stdout in the folder of each run, which has the results",
)
IOTEST = Source(
    "h5bench-iotest",
    "results of h5bench's hdf5_iotest",
    "",
    lambda beginning: beginning.lstrip().startswith("steps,arrays,rows,cols,scaling,"),
    instead="say what its columns mean: stripewise site table import FILE --schema FILE.toml",
)
