"""Output of the metadata benchmark mdtest, versions 1.8 to 4: rates of operations on files, folders and trees."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from stripewise.errors import UserError
from stripewise.observe.benchmark import read_options
from stripewise.observe.source import Measured, Row, Source, read_text
from stripewise.sizes import parse_size

_BANNER = re.compile(r"mdtest-(\S{1,40}) was launched with (\d{1,9}) total task\(s\) on (\d{1,9}) node")
_COMMAND = re.compile(r"Command line used\s*:\s*(.*)")
_SUMMARY = re.compile(r"SUMMARY(?: (rate|time))?[^:]{0,40}:")
_NUMBER = r"([0-9.]{1,30}|-?nan|-?inf|NA)"
_ROW = re.compile(
    rf"\s*((?:File|Directory|Tree) [a-z]{{2,20}})\s*:?\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s*\Z"
)
_ITEMS = re.compile(r"(\d{1,9}) tasks, (\d{1,18}) (?:files|directories|files/directories|directories/files)")
_FLAGS = "ABCDEFGLPRSTXYcghkqrtuyZ"
"""Options of mdtest that take no value."""


@dataclass
class MdtestRun:
    """One launch of mdtest.

    Attributes
    ----------
    rates : dict
        Operation, as ``file creation``, to the mean of all repetitions in operations per second. Phases that did not
        run have none.
    items : int or None
        Files or folders of one task.
    written, read : int
        Bytes of one file.
    """

    version: str
    tasks: int
    nodes: int
    command: str = ""
    api: str = "posix"
    items: int | None = None
    written: int = 0
    read: int = 0
    rates: dict[str, float] = field(default_factory=dict)


def is_mdtest(beginning: str) -> bool:
    """Whether a text begins as output of mdtest, whatever the launcher printed before it."""
    return _BANNER.search(beginning) is not None


def parse_mdtest(text: str, origin: str = "the output") -> list[MdtestRun]:
    """Read an output of mdtest, of one launch or of several.

    Raises
    ------
    UserError
        If no launch measured a rate.
    """
    runs: list[MdtestRun] = []
    label, in_rates = "", False
    for whole in text.splitlines():
        # Launchers may label each line with the rank that printed it.
        line = whole.removeprefix(label)
        if banner := _BANNER.search(whole):
            label = whole[: banner.start()]
            runs.append(MdtestRun(banner[1], int(banner[2]), int(banner[3])))
            in_rates = False
        elif not runs:
            continue
        elif command := _COMMAND.match(line):
            _take_command(runs[-1], command[1])
        elif summary := _SUMMARY.search(line):
            in_rates = summary[1] != "time"
        elif items := _ITEMS.search(line):
            runs[-1].items = int(items[2]) // int(items[1]) if int(items[1]) else None
        elif in_rates and (row := _ROW.match(line)):
            _take_rate(runs[-1], row[1].lower(), row[4])
    runs = [run for run in runs if run.rates]
    if not runs:
        raise UserError(
            f"{origin}: mdtest's output without a rate", "give the whole output of a run that came to its end"
        )
    return runs


def run_of_command(command: str, tasks: int, rates: dict[str, float]) -> MdtestRun:
    """Give what a command line of mdtest asks for, with rates that are known from elsewhere."""
    run = MdtestRun("", tasks, 0, rates=rates)
    _take_command(run, command)
    return run


def _take_rate(run: MdtestRun, operation: str, mean: str) -> None:
    try:
        rate = float(mean)
    except ValueError:
        return
    if rate > 0 and math.isfinite(rate):
        run.rates[operation] = rate


def _take_command(run: MdtestRun, command: str) -> None:
    run.command = command.strip()
    options = read_options(run.command, _FLAGS)
    run.api = options.get("-a", "posix").lower()
    run.written, run.read = (_size(options.get(name, "")) for name in ("-w", "-e"))
    if options.get("-n", "").isdigit():
        run.items = int(options["-n"])


def _size(text: str) -> int:
    try:
        return parse_size(text) if text else 0
    except UserError:
        return 0


def rows_of(runs: list[MdtestRun]) -> list[Row]:
    """Give one row for each operation of each launch."""
    return [
        {
            "metadata_operation": operation,
            "nodes": run.nodes,
            "processes": run.tasks,
            "api": run.api,
            "items": run.items,
            "file_bytes": run.read if operation == "file read" else run.written,
            "rate": rate,
        }
        for run in runs
        for operation, rate in run.rates.items()
    ]


def _measure(path: Path) -> Measured:
    return Measured(rows_of(parse_mdtest(read_text(path), str(path))), "mdtest")


SOURCE = Source(
    "mdtest",
    "mdtest's output",
    "outputs of mdtest",
    is_mdtest,
    measured=_measure,
    instead="it has rates of operations on files, no reads or writes; stripewise site table import makes a table of it",
)
RANKS = Source(
    "mdtest-ranks",
    "mdtest's figures of single ranks (saveRankPerformanceDetails)",
    "",
    lambda beginning: beginning.startswith("rank,items,rate-"),
    instead="give what mdtest printed, which has the figures of all ranks together",
)
