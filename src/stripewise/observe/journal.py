"""The runtime's journal: what phases of I/O cost with which settings, kept from job to job.

``native/include/formats.toml`` defines the keys of its lines for both sides. Each line has its own checksum:
a line that was cut off by a crash is passed over.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from stripewise.errors import UserError
from stripewise.formats import JOURNAL_HEADER
from stripewise.observe.report import Candidate, Report

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
        What was seen of its calls; :func:`~stripewise.observe.phase_report.report_of` reads it.
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


@dataclass(frozen=True)
class Journal:
    """What a file held.

    Attributes
    ----------
    phases : tuple of JournalPhase
        In the order of the file.
    damaged : int
        Lines that are not whole records.
    """

    phases: tuple[JournalPhase, ...]
    damaged: int


def parse_journal(text: str) -> Journal:
    """Read the records of a text; other lines are counted."""
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
        lines.append(f"{did}: {said} {_described(chosen, default)}")
        others = [_described(one, default) for one in known if one is not chosen]
        if others:
            lines.append(f"  also tried: {'; '.join(others)}")
    if any(0 < file.ranks < report.job.ranks for file in report.files):
        lines.append("this tells of rank 0 only: other ranks lead files of their own, and learn for themselves")
    return lines


def _described(one: Candidate, default: Candidate) -> str:
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
