"""Reading the experiments of a journal: what any host may do at any time, without a claim.

What the journals of an experiment say when they are read together.

Each claim has a journal of its own, so no two processes append to one file. A new claim begins its journal with a
*seal*: how many events of each earlier journal count. An event that an earlier owner appends after that, because it
woke up late, never counts for any reader. So all readers see the same history without a lock.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from stripewise.errors import StoreError
from stripewise.facts import Facts, RunFacts
from stripewise.store import base as rules
from stripewise.store import codec
from stripewise.store import journal_files as files
from stripewise.store.base import OnUnreadable, Record, Sort, Store, readable
from stripewise.store.journal_files import Lines
from stripewise.store.transactions import explained
from stripewise.trial import Run, Trial


@dataclass
class Fold:
    """The state of an experiment after some events.

    Attributes
    ----------
    identifier : str
    facts, result, state, updated
        As in :class:`~stripewise.store.base.Record`.
    trials : dict
        Trials by number, without their runs.
    runs : dict
        Runs by number.
    """

    identifier: str
    facts: dict[str, Any]
    updated: float
    state: str = "created"
    result: dict[str, Any] | None = None
    trials: dict[int, Trial] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)

    @property
    def ended(self) -> int:
        """How many runs have a result."""
        return sum(run.state.ended for run in self.runs.values())

    def together(self) -> tuple[Trial, ...]:
        """Give the trials in order, each with its runs in order."""
        of_trial: dict[int, list[Run]] = {number: [] for number in self.trials}
        for number in sorted(self.runs):
            of_trial[self.runs[number].trial].append(self.runs[number])
        return tuple(
            Trial(trial.number, trial.configuration, trial.role, tuple(of_trial[number]), trial.tag)
            for number, trial in sorted(self.trials.items())
        )

    def check(self, event: Mapping[str, Any]) -> None:
        """Refuse an event that contradicts what is known.

        Raises
        ------
        StoreError
        """
        kind = event["kind"]
        if kind == "plan":
            self._check_plan(event)
        elif kind in ("begin", "accept"):
            number = event["run"]["number"] if kind == "accept" else event["number"]
            planned = self.runs.get(number)
            if planned is None:
                raise rules.not_planned(self.identifier, number)
            if planned.state.ended:
                raise rules.has_result(self.identifier, number)
            if kind == "accept" and event["run"]["trial"] != planned.trial:
                raise rules.other_run(self.identifier, self._run(event), planned.trial)

    def _check_plan(self, event: Mapping[str, Any]) -> None:
        number, trial = event["run"]["number"], event["run"]["trial"]
        if number in self.runs:
            raise rules.already_there(self.identifier, "run", number)
        if event["trial"] is not None and trial in self.trials:
            raise rules.already_there(self.identifier, "trial", trial)
        if event["trial"] is None and trial not in self.trials:
            raise rules.no_trial(self.identifier, trial)

    def apply(self, event: Mapping[str, Any]) -> None:
        """Take an event in."""
        kind = event["kind"]
        if kind == "update":
            self.state = event.get("state", self.state)
            self.facts = event.get("facts", self.facts)
            self.result = event.get("result", self.result)
        elif kind == "plan":
            if event["trial"] is not None:
                number = event["trial"]["number"]
                self.trials[number] = codec.read_trial(event["trial"], (), f"trial {number} of {self.identifier}")
            self._put(self._run(event))
        elif kind == "begin":
            planned = codec.run_json(self.runs[event["number"]])
            facts = {**planned["facts"], **event["facts"]}
            self._put(self._run({"run": {**planned, "state": "running", "facts": facts}}))
        elif kind == "accept":
            self._put(self._run(event))
        elif kind != "seal":
            raise StoreError(
                f"the journal of experiment {self.identifier} has an event '{kind}' that this version does not know",
                "update Stripewise: pip install --upgrade stripewise",
            )
        self.updated = max(self.updated, event["time"])

    def _run(self, event: Mapping[str, Any]) -> Run:
        return codec.read_run(event["run"], f"run {event['run'].get('number')} of experiment {self.identifier}")

    def _put(self, run: Run) -> None:
        self.runs[run.number] = run


@dataclass(frozen=True)
class Merged:
    """The events that count, of all journals of an experiment.

    Attributes
    ----------
    events : list of dict
        In order.
    counts : dict
        How many count, by claim.
    notes : tuple of str
        What was left out.
    """

    events: list[dict[str, Any]]
    counts: dict[int, int]
    notes: tuple[str, ...]


def merge(journals: Sequence[tuple[int, Lines]], live: int | None) -> Merged:
    """Put journals together.

    Parameters
    ----------
    journals : sequence of (int, Lines)
        Fencing numbers with what was read, in rising order.
    live : int or None
        The claim whose owner may be writing just now: half a line at its end is expected.

    Raises
    ------
    StoreError
        If events that count are damaged.
    """
    limits = _limits(journals)
    events: list[dict[str, Any]] = []
    counts: dict[int, int] = {}
    notes: list[str] = []
    for token, lines in journals:
        limit = limits.get(token, len(lines.events))
        if limit > len(lines.events) or (token not in limits and lines.damaged is not None):
            raise StoreError(
                f"the journal {lines.path} is damaged in line {lines.damaged or len(lines.events) + 1}",
                "restore the file from a copy, or delete the experiment",
            )
        if lines.torn and token != live:
            notes.append(f"{lines.path}: a crash tore its last line, which was never accepted and is left out")
        if limit < len(lines.events):
            left_out = len(lines.events) - limit
            notes.append(f"{lines.path}: {left_out} events written after the claim was lost are left out")
        events += lines.events[:limit]
        counts[token] = limit
    return Merged(events, counts, tuple(notes))


def _limits(journals: Sequence[tuple[int, Lines]]) -> dict[int, int]:
    """The newest seal speaks for all earlier journals: it repeats what earlier seals said."""
    for _, lines in reversed(journals):
        if lines.events:
            seal = lines.events[0]
            if seal.get("kind") != "seal" or not isinstance(seal.get("counts"), dict):
                raise codec.damaged(f"the journal {lines.path}")
            return {int(token): int(count) for token, count in seal["counts"].items()}
    return {}


def fold(identifier: str, first: Mapping[str, Any], merged: Merged) -> Fold:
    """Go through all events that count.

    Raises
    ------
    StoreError
        If they contradict each other.
    """
    state = Fold(identifier, dict(first["facts"]), float(first["created"]))
    for event in merged.events:
        try:
            state.check(event)
            state.apply(event)
        except (KeyError, TypeError, ValueError) as error:
            raise codec.damaged(f"the journal of experiment {identifier}") from error
    return state


LABELS = "labels.json"


class JournalReader(Store):
    """The part of a journal's store that only reads.

    Parameters
    ----------
    folder : Path
    clock : callable
        Epoch seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._seen: dict[str, tuple[object, Record]] = {}
        self._turn = threading.RLock()

    @property
    def url(self) -> str:
        """The address."""
        return f"journal:{self._folder}"

    def records(
        self,
        state: str | None = None,
        name: str | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        sort: Sort | str = Sort.CREATED,
        descending: bool = True,
        on_unreadable: OnUnreadable = None,
    ) -> list[Record]:
        """Give a page of experiments; see :meth:`Store.records`."""
        key = rules.check_page(limit, offset, sort)
        found = self._matching(state, name, on_unreadable)
        found.sort(key=lambda record: (_sort_key(record, key), record.id), reverse=descending)
        return found[offset : offset + limit]

    def count(self, state: str | None = None, name: str | None = None) -> int:
        """Count experiments; see :meth:`Store.count`."""
        return len(self._matching(state, name))

    def _matching(self, state: str | None, name: str | None, on_unreadable: OnUnreadable = None) -> list[Record]:
        rules.check_state(state)
        found = []
        with self._using():
            for identifier in self._identifiers():
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    record = readable(partial(self._record, identifier), on_unreadable)
                    if record is None:
                        continue
                    if state in (None, record.state) and name in (None, record.experiment.name):
                        found.append(record)
        return found

    def record(self, identifier: str) -> Record:
        """Give one experiment; see :meth:`Store.record`."""
        rules.check_identifier(identifier, self.url)
        with self._using():
            known = self._identifiers()
            if identifier not in known:
                found = [other for other in known if other.startswith(identifier)]
                if len(found) > 1:
                    raise rules.ambiguous(identifier, found[:4])
                if not found:
                    raise rules.no_experiment(identifier, self.url)
                identifier = found[0]
            return self._record(identifier)

    def _record(self, identifier: str) -> Record:
        folder = self._experiments / identifier
        holding = files.newest_claim(folder)
        alive = holding.alive(self._clock())
        live = holding.token if alive else None
        signature = (live, _signature(folder))
        seen = self._seen.get(identifier)
        if seen is None or seen[0] != signature:
            seen = (signature, self._read_record(identifier, live))
            self._seen[identifier] = seen
        record = seen[1]
        state = "stopped" if record.state == "running" and not alive else record.state
        return replace(record, owner=holding.owner, state=state)

    def _read_record(self, identifier: str, live: int | None) -> Record:
        folder = self._experiments / identifier
        first, merged = merged_events(folder, live)
        state, labels = fold(identifier, first, merged), labels_of(folder)
        return Record(
            id=identifier,
            experiment=codec.read_experiment(first["experiment"], identifier),
            state=state.state,
            created=float(first["created"]),
            updated=max(state.updated, float(labels.get("time", 0.0))),
            facts=Facts(state.facts),
            result=None if state.result is None else codec.read_result(state.result, identifier),
            trials=len(state.trials),
            runs=len(state.runs),
            ended=state.ended,
            notes=merged.notes,
            tags=tuple(labels.get("tags", ())),
            remark=str(labels.get("remark", "")),
        )

    def trials(self, identifier: str, *, facts: bool = True) -> tuple[Trial, ...]:
        """Give the trials with their runs; see :meth:`Store.trials`."""
        with self._using(identifier) as folder:
            found = fold(identifier, *merged_events(folder, files.newest_claim(folder).token)).together()
        if facts:
            return found
        return tuple(
            replace(trial, runs=tuple(replace(run, facts=RunFacts()) for run in trial.runs)) for trial in found
        )

    def stop_requested(self, identifier: str) -> bool:
        """Whether a stop was asked for; see :meth:`Store.stop_requested`."""
        with self._using(identifier) as folder:
            return files.asked_to_stop(folder, files.newest_token(folder))

    @property
    def _experiments(self) -> Path:
        return self._folder / "experiments"

    def _identifiers(self) -> list[str]:
        return sorted(path.name for path in self._experiments.iterdir() if not path.name.startswith("."))

    @contextlib.contextmanager
    def _using(self, identifier: str | None = None) -> Iterator[Path]:
        """Work with the folder of an experiment, one thread at a time."""
        if identifier is not None:
            rules.check_identifier(identifier, self.url)
        folder = self._experiments / (identifier or "")
        with self._turn, explained(self.url):
            if identifier is not None and not folder.is_dir():
                raise rules.no_experiment(identifier, self.url)
            try:
                yield folder
            except FileNotFoundError as error:
                if identifier is not None and not folder.exists():
                    raise rules.no_experiment(identifier, self.url) from error
                raise


def labels_of(folder: Path) -> dict[str, Any]:
    """Read the tags and the remark of an experiment; nothing where nobody has given any."""
    try:
        return files.read_file(folder / LABELS) or {}
    except FileNotFoundError:
        return {}


def _sort_key(record: Record, sort: Sort) -> Any:
    return record.experiment.name if sort is Sort.NAME else getattr(record, sort.value)


def merged_events(folder: Path, live: int | None, *, certain: bool = False) -> tuple[dict[str, Any], Merged]:
    """Read the definition of an experiment, and all events that count.

    Parameters
    ----------
    folder : Path
        The experiment's.
    live : int or None
        The claim whose owner may be writing just now.
    certain : bool
        Do not believe what a network file system's client remembers: what a seal misses never counts again.
    """
    first = files.read_file(folder / "experiment.json")
    if first is None or not {"created", "experiment", "facts"} <= first.keys():
        raise codec.damaged(str(folder / "experiment.json"))
    found = files.claim_tokens(folder)
    journals = [(token, files.read_lines(files.journal_path(folder, token), certain=certain)) for token in found]
    try:
        return first, merge(journals, live)
    except StoreError:
        if certain:
            raise
        # A client may remember less of an old journal than the newest one counts.
        return merged_events(folder, live, certain=True)


def _signature(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Give what changes whenever a journal does."""
    found = []
    for entry in os.scandir(folder / "events"):
        status = entry.stat()
        found.append((entry.name, status.st_size, status.st_mtime_ns))
    with contextlib.suppress(FileNotFoundError):
        status = (folder / LABELS).stat()
        found.append((LABELS, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))
