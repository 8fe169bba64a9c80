"""Reading the experiments of a journal: what any host may do at any time, without a claim."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from stripewise.errors import StoreError
from stripewise.facts import Facts, RunFacts
from stripewise.store import codec, rules
from stripewise.store import journal_claims as claims
from stripewise.store import journal_files as files
from stripewise.store.base import OnUnreadable, Record, Sort, Store, readable
from stripewise.store.faults import explained
from stripewise.store.journal_fold import Merged, fold, merge
from stripewise.trial import Trial

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
        holding = claims.holding(folder)
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
            found = fold(identifier, *merged_events(folder, claims.holding(folder).token)).together()
        if facts:
            return found
        return tuple(
            replace(trial, runs=tuple(replace(run, facts=RunFacts()) for run in trial.runs)) for trial in found
        )

    def stop_requested(self, identifier: str) -> bool:
        """Whether a stop was asked for; see :meth:`Store.stop_requested`."""
        with self._using(identifier) as folder:
            return claims.asked_to_stop(folder, claims.newest(folder))

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
    found = claims.tokens(folder)
    journals = [(token, files.read_lines(claims.journal_path(folder, token), certain=certain)) for token in found]
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
