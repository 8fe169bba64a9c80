"""A store in a folder that many hosts share, without locks and without a server.

::

    FOLDER/stripewise-journal.json               what the folder is
    FOLDER/experiments/ID/experiment.json        the definition, never changed
    FOLDER/experiments/ID/claims/00000007.json   who made claim 7; the first to create the name has the claim
    FOLDER/experiments/ID/leases/00000007.json   until when it holds; replaced by its owner alone
    FOLDER/experiments/ID/events/00000007.jsonl  what was written under it; appended to by its owner alone
    FOLDER/experiments/ID/stops/00000007.json    claim 7 was asked to stop
    FOLDER/experiments/ID/labels.json            tags and remark; replaced by whoever changes them

An owner checks after each append that its claim is still the newest. If it is, every later claim counts that event into
its seal. If it is not, the owner gets the error that its claim is lost.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from stripewise.errors import StoreError
from stripewise.facts import Facts, RunFacts
from stripewise.ownership import part_of
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.store import base as rules
from stripewise.store import codec
from stripewise.store import journal_files as files
from stripewise.store.base import Claim, OnUnreadable, Record, Sort, Store, read_or_skip
from stripewise.store.holder import Holder
from stripewise.store.journal_files import make_folder, sync_folder
from stripewise.store.journal_history import LABELS, Fold, fold_events, labels_of, merged_events
from stripewise.store.transactions import explain_errors
from stripewise.trial import Run, Trial

_FOLDERS = ("claims", "leases", "events", "stops")
_TRIES = 100


@dataclass
class _Open:
    """A claim of ours."""

    writer: files.Writer
    fold: Fold


class JournalStore(Store):
    """Keeps experiments in the files of a folder.

    Parameters
    ----------
    folder : Path
        Prepared by :func:`~stripewise.store.journal_files.prepare_folder`.
    clock : callable
        Epoch seconds; the clocks of the hosts should agree to a fraction of a lease.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._seen: dict[str, tuple[object, Record]] = {}
        self._turn = threading.RLock()
        self._open: dict[tuple[str, int], _Open] = {}

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
                    record = read_or_skip(partial(self._record, identifier), on_unreadable)
                    if record is None:
                        continue
                    if state in (None, record.state) and name in (None, record.experiment.name):
                        found.append(record)
        return found

    def record(self, identifier: str) -> Record:
        """Give one experiment; see :meth:`Store.record`."""
        rules.check_identifier(identifier, self.url)
        with self._using():
            return self._record(rules.choose_experiment(identifier, self._identifiers(), self.url))

    def _record(self, identifier: str) -> Record:
        folder = self._experiments / identifier
        holding = files.newest_claim(folder)
        alive = holding.alive(self._clock())
        live = holding.token if alive else None
        signature = (live, _make_signature(folder))
        seen = self._seen.get(identifier)
        if seen is None or seen[0] != signature:
            seen = (signature, self._read_record(identifier, live))
            self._seen[identifier] = seen
        record = seen[1]
        state = "stopped" if record.state == "running" and not alive else record.state
        return replace(record, owner=holding.owner, state=state)

    def _read_record(self, identifier: str, live: int | None) -> Record:
        folder = self._experiments / identifier
        with codec.reading(f"experiment {identifier}"):
            first, merged = merged_events(folder, live)
            state, labels = fold_events(identifier, first, merged), labels_of(folder)
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
        with self._using(identifier) as folder, codec.reading(f"experiment {identifier}"):
            found = fold_events(identifier, *merged_events(folder, files.newest_claim(folder).token)).together()
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
        with self._turn, explain_errors(self.url):
            if identifier is not None and not folder.is_dir():
                raise rules.no_experiment(identifier, self.url)
            try:
                yield folder
            except FileNotFoundError as error:
                if identifier is not None and not folder.exists():
                    raise rules.no_experiment(identifier, self.url) from error
                raise

    # -- experiments ---------------------------------------------------------------------------------------

    def create(self, experiment: Experiment, facts: Mapping[str, Any] | None = None) -> str:
        """Keep a new experiment; see :meth:`Store.create`."""
        data = {
            "created": self._clock(),
            "experiment": codec.experiment_json(experiment),
            "facts": dict(facts or {}),
        }
        with self._using():
            part = part_of(self._experiments / "new")
            make_folder(part)
            try:
                for name in _FOLDERS:
                    (part / name).mkdir(mode=0o700)
                files.replace_file(part / "experiment.json", data)
                identifier = self._name(part)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
            sync_folder(self._experiments)
            return identifier

    def _name(self, part: Path) -> str:
        """Give a finished experiment its place."""
        for _ in range(_TRIES):
            identifier = secrets.token_hex(4)
            if (self._experiments / identifier).exists():
                continue
            try:
                part.rename(self._experiments / identifier)
            except FileExistsError:
                continue
            return identifier
        raise StoreError(f"store {self.url} has no identifiers left", "delete experiments that are not needed")

    def delete(self, identifier: str) -> None:
        """Delete an experiment; see :meth:`Store.delete`."""
        # Whoever claims is alone: nobody can take the experiment up while its files go.
        claim = self.claim(identifier, "stripewise experiment delete")
        with self._using(identifier) as folder:
            self._end(claim)
            gone = part_of(folder)
            folder.rename(gone)
            sync_folder(self._experiments)
            self._seen.pop(identifier, None)
            # What cannot be removed now (files that others still have open) is out of sight already.
            shutil.rmtree(gone, ignore_errors=True)

    # -- claims --------------------------------------------------------------------------------------------

    def claim(self, identifier: str, owner: str, lease_seconds: float = 60.0) -> Claim:
        """Take the right to write; see :meth:`Store.claim`."""
        me = Holder.current()
        with self._using(identifier) as folder:
            for _ in range(_TRIES):
                now = self._clock()
                last = files.newest_claim(folder, certain=True)
                if last.alive(now) and (last.owner, last.holder) != (owner, me):
                    raise rules.explain_held_claim(identifier, last.owner, last.expires - now)
                claim = Claim(identifier, last.token + 1, owner, lease_seconds)
                if files.take_claim(folder, claim.token, owner, me, now + lease_seconds):
                    self._begin(folder, claim)
                    return claim
            raise StoreError(f"experiment {identifier} is claimed by many at once", "try again")

    def _begin(self, folder: Path, claim: Claim) -> None:
        """Seal the earlier journals and begin a new one."""
        writer = files.Writer(files.journal_path(folder, claim.token))
        with codec.reading(f"experiment {claim.experiment}"):
            first, merged = merged_events(folder, None, certain=True)
            opened = _Open(writer, fold_events(claim.experiment, first, merged))
        writer.open()
        counts = {str(token): count for token, count in merged.counts.items() if token < claim.token}
        writer.append({"kind": "seal", "time": opened.fold.updated, "counts": counts})
        self._open[claim.experiment, claim.token] = opened

    def renew(self, claim: Claim) -> None:
        """Prolong the lease; see :meth:`Store.renew`."""
        with self._using(claim.experiment) as folder:
            self._check_claim(folder, claim, certain=True)
            files.prolong_lease(folder, claim.token, self._clock() + claim.lease_seconds)

    def release(self, claim: Claim) -> None:
        """Give the right to write back; see :meth:`Store.release`."""
        with self._using():
            self._end(claim)
            folder = self._experiments / claim.experiment
            with contextlib.suppress(FileNotFoundError):
                if files.newest_token(folder) == claim.token:
                    files.prolong_lease(folder, claim.token, 0.0)

    def request_stop(self, identifier: str) -> None:
        """Ask for a stop; see :meth:`Store.request_stop`."""
        with self._using(identifier) as folder:
            files.ask_to_stop(folder, files.newest_token(folder))

    def annotate(self, identifier: str, *, tags: Sequence[str] | None = None, remark: str | None = None) -> None:
        """Replace tags, remark; see :meth:`Store.annotate`."""
        given = {} if tags is None else {"tags": list(rules.check_tags(tags))}
        text = {} if remark is None else {"remark": rules.check_remark(remark)}
        with self._using(identifier) as folder:
            labels = {**labels_of(folder), **given, **text, "time": self._clock()}
            files.replace_file(folder / LABELS, labels)

    # -- writing under a claim -----------------------------------------------------------------------------

    def update(
        self,
        identifier: str,
        *,
        claim: Claim,
        state: str | None = None,
        facts: Mapping[str, Any] | None = None,
        result: Result | None = None,
    ) -> None:
        """Replace state, facts, result; see :meth:`Store.update`."""
        rules.check_state(state)
        given = {"state": state, "facts": facts, "result": None if result is None else result.as_json()}
        event = {name: value for name, value in given.items() if value is not None}
        self._append(identifier, claim, {"kind": "update", **event})

    def plan(self, identifier: str, claim: Claim, trial: Trial | None, run: Run) -> None:
        """Add a run that is going to be started; see :meth:`Store.plan`."""
        rules.check_planned(trial, run)
        new = None if trial is None else codec.trial_json(trial)
        self._append(identifier, claim, {"kind": "plan", "trial": new, "run": codec.run_json(run)})

    def begin(self, identifier: str, claim: Claim, run: int, facts: Mapping[str, Any] | None = None) -> None:
        """Note that a run is being started; see :meth:`Store.begin`."""
        self._append(identifier, claim, {"kind": "begin", "number": run, "facts": dict(facts or {})})

    def accept(self, identifier: str, claim: Claim, run: Run) -> None:
        """Keep the one result of a planned run; see :meth:`Store.accept`."""
        rules.check_result(run)
        self._append(identifier, claim, {"kind": "accept", "run": codec.run_json(run)})

    def _append(self, identifier: str, claim: Claim, event: Mapping[str, Any]) -> None:
        rules.check_claim(identifier, claim)
        # As readers will see it: nothing of the caller's, and plain numbers and lists only.
        event = codec.load(codec.dump({"time": self._clock(), **event}), "an event")
        with self._using(identifier) as folder:
            opened = self._check_claim(folder, claim)
            opened.fold.check(event)
            opened.writer.append(event)
            opened.fold.apply(event)
            # Still the newest after the append: then every later claim will count it.
            self._check_claim(folder, claim, certain=True)

    def _check_claim(self, folder: Path, claim: Claim, *, certain: bool = False) -> _Open:
        """Refuse to write under a claim that has ended."""
        opened = self._open.get((claim.experiment, claim.token))
        if opened is None or files.newest_token(folder, certain=certain) != claim.token:
            self._end(claim)
            raise rules.explain_lost_claim(claim, files.newest_claim(folder).owner)
        return opened

    def _end(self, claim: Claim) -> None:
        opened = self._open.pop((claim.experiment, claim.token), None)
        if opened is not None:
            opened.writer.close()

    def close(self) -> None:
        """Close all files."""
        with self._turn:
            for opened in self._open.values():
                opened.writer.close()
            self._open.clear()


def _sort_key(record: Record, sort: Sort) -> Any:
    return record.experiment.name if sort is Sort.NAME else getattr(record, sort.value)


def _make_signature(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Give what changes whenever a journal does."""
    found = []
    for entry in os.scandir(folder / "events"):
        status = entry.stat()
        found.append((entry.name, status.st_size, status.st_mtime_ns))
    with contextlib.suppress(FileNotFoundError):
        status = (folder / LABELS).stat()
        found.append((LABELS, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))
