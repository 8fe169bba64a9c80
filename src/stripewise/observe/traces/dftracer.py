"""Traces of DFTracer: one event per line in JSON, one file per process, mostly compressed.

Names of files are hashed: an event ``FH`` gives the name of a hash. The first releases of version 1 name file and host
in each event instead. Times are in the unit that the event ``CM`` names, microseconds where there is none. Files of
versions 1 and 2 differ in ``ph``, and in whether hashes and other numbers are numbers.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stripewise.observe.traces.calls import Span, TraceCalls

NAME = "dftracer"
TITLE = "DFTracer trace"
SUFFIXES: tuple[str, ...] = (".pfw", ".pfw.gz")
INNER: tuple[str, ...] = ()
CUT = "trace again with DFTRACER_INC_METADATA=1, and let the program end by itself"

_UNITS = {"S": 1.0, "SEC": 1.0, "MS": 1e-3, "US": 1e-6, "NS": 1e-9}
_MICROSECOND = 1e-6
_UNSEEN = (
    "a DFTracer trace has no ranks: each process that moved data counts as one",
    "a DFTracer trace has no alignment and no layouts: these are not judged",
    "calls of MPI-IO and HDF5 in a trace are not judged, only the POSIX calls beneath them",
)


def holds(path: Path) -> bool:
    """Whether a path is a file of DFTracer, or a folder with some."""
    if not path.is_dir():
        return path.name.endswith(SUFFIXES)
    return any(child.name.endswith(SUFFIXES) for child in path.iterdir())


def parts(path: Path) -> list[Path]:
    """Give the files of a trace; in a folder all of them are of one run."""
    return sorted(child for child in path.iterdir() if child.name.endswith(SUFFIXES)) if path.is_dir() else [path]


def summarise(path: Path) -> dict[str, Any]:
    """Sum up a trace: an activity as JSON.

    Raises
    ------
    LogError
        If it cannot be read, or has no names of files.
    """
    from stripewise.observe._darshan_fold import LogError, LogHead  # noqa: PLC0415  loads Darshan's library
    from stripewise.observe.traces.calls import TraceCalls  # noqa: PLC0415  loads Darshan's library

    calls = TraceCalls()
    reader = _Trace(calls)
    for part in parts(path):
        reader.add(part)
    if not reader.events:
        raise LogError("it has no events")
    if not calls.known:
        raise LogError("none of its events names a file")
    calls.names = reader.names
    return calls.activity(
        LogHead(NAME, str(path), [*_UNSEEN, *reader.damaged], reader.version),
        executable=reader.command,
        nodes=len(reader.hosts) or None,
        started=True,
    )


class _Trace:
    def __init__(self, calls: TraceCalls) -> None:
        self._calls = calls
        self.names: dict[str, str] = {}
        self.hosts: set[str] = set()
        self.damaged: list[str] = []
        self.events, self.version, self.command = 0, "", ""
        self._words: dict[str, str] = {}
        self._unit = _MICROSECOND

    def add(self, part: Path) -> None:
        """Add the events of one file; of a damaged one, those that can be read."""
        self._unit = _MICROSECOND
        wrong = 0
        try:
            for line in _lines(part):
                text = line.strip().strip(b",")
                if text in (b"", b"[", b"]"):
                    continue
                try:
                    event = json.loads(text)
                    self._event(event, event.get("args") or {})
                except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                    wrong += 1
        except (OSError, EOFError, zlib.error):
            self.damaged.append(f"{part.name} is cut off or damaged: what follows is not counted")
        if wrong:
            self.damaged.append(f"{part.name} has {wrong:,} lines that are no events: these are not counted")

    def _event(self, event: dict[str, Any], args: dict[str, Any]) -> None:
        name = str(event["name"])
        self.events += 1
        host = str(args.get("hhash", args.get("hostname", "")))
        if host:
            self.hosts.add(host)
        if event.get("ph") in ("M", 4):
            self._metadata(name, args)
        elif event.get("cat") in ("POSIX", "STDIO") and ("fhash" in args or "fname" in args):
            self._call(
                (host, int(event["pid"])),
                "posix" if event["cat"] == "POSIX" else "stdio",
                name,
                args,
                self._span(event["ts"], event["dur"]),
            )
        else:
            if name == "start" and not self.command:
                self.version = str(args.get("version", ""))
                self.command = self._words.get(str(args.get("cmd_hash")), "").replace(";", " ")
            if event.get("ts"):  # times count from 1970: 0 is none
                self._calls.seen(self._span(event["ts"], event.get("dur") or 0))

    def _span(self, start: Any, took: Any) -> Span:
        begin = float(start) * self._unit
        return begin, begin + float(took) * self._unit

    def _metadata(self, name: str, args: dict[str, Any]) -> None:
        if name == "FH":
            self.names[str(args["value"])] = str(args["name"])
        elif name == "SH":
            self._words[str(args["value"])] = str(args["name"])
        elif name == "CM" and args.get("name") == "time_metric":
            self._unit = _UNITS[str(args["value"]).upper()]

    def _call(
        self, process: tuple[str, int], level: str, name: str, args: dict[str, Any], span: tuple[float, float]
    ) -> None:
        if "fhash" not in args:
            self.names[args["fname"]] = str(args["fname"])
        who = (process, str(args["fhash"] if "fhash" in args else args["fname"]), level)
        word = name.removesuffix("64")
        if word in ("read", "pread", "write", "pwrite", "fread", "fwrite", "readv", "writev", "preadv", "pwritev"):
            size = int(args["ret"] if "ret" in args else args.get("count", 0)) * int(args.get("size", 1))
            offset = int(args["offset"]) if word.startswith("p") and "offset" in args else None
            self._calls.moved(who, "read" if "read" in word else "write", max(0, size), offset, span)
        elif "seek" in word and "whence" in args:
            ended = int(args.get("ret", -1)) if level == "posix" else None
            self._calls.sought(who, int(args["whence"]), int(args.get("offset", 0)), ended, span)
        else:
            self._calls.other(who, word, span)


def _lines(part: Path) -> Iterator[bytes]:
    with part.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    with gzip.open(part) if packed else part.open("rb") as stream:
        yield from stream
