"""A store in a folder that many hosts share, without locks and without a server.

::

    FOLDER/stripewise-journal.json               what the folder is
    FOLDER/experiments/ID/experiment.json        the definition, never changed
    FOLDER/experiments/ID/claims/00000007.json   who made claim 7; the first to create the name has the claim
    FOLDER/experiments/ID/leases/00000007.json   until when it holds; replaced by its owner alone
    FOLDER/experiments/ID/events/00000007.jsonl  what was written under it; appended to by its owner alone
    FOLDER/experiments/ID/stops/00000007.json    claim 7 was asked to stop

An owner looks after each append whether its claim is still the newest. If it is, whoever claims later will count that
event into its seal; if it is not, the owner is told that its claim is lost.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stripewise.errors import StoreError
from stripewise.spec.experiment import Experiment
from stripewise.spec.trial import Run, Trial
from stripewise.store import base, codec
from stripewise.store import journal_claims as claims
from stripewise.store import journal_files as files
from stripewise.store.base import Claim, Record, Sort, Store
from stripewise.store.faults import explained
from stripewise.store.folders import make_folder, sync_folder
from stripewise.store.holder import Holder
from stripewise.store.journal_fold import Fold, Merged, fold, merge

MARKER = "stripewise-journal.json"
_FORMAT = "stripewise-journal"
_VERSION = 1
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
        Prepared by :func:`prepare_folder`.
    clock : callable
        Epoch seconds; the clocks of the hosts should agree to a fraction of a lease.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._open: dict[tuple[str, int], _Open] = {}
        self._seen: dict[str, tuple[object, Record]] = {}
        self._turn = threading.RLock()

    @property
    def url(self) -> str:
        """The address."""
        return f"journal:{self._folder}"

    # -- experiments ---------------------------------------------------------------------------------------

    def create(self, experiment: Experiment, facts: Mapping[str, Any] | None = None) -> str:
        """Keep a new experiment; see :meth:`Store.create`."""
        data = {
            "created": self._clock(),
            "experiment": codec.experiment_json(experiment),
            "facts": dict(facts or {}),
        }
        with self._using():
            part = self._experiments / f"{files.PART}{secrets.token_hex(8)}"
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

    def records(
        self,
        state: str | None = None,
        name: str | None = None,
        limit: int = 50,
        offset: int = 0,
        *,
        sort: Sort | str = Sort.CREATED,
        descending: bool = True,
    ) -> list[Record]:
        """Give a page of experiments; see :meth:`Store.records`."""
        key = base.check_page(limit, offset, sort)
        found = self._matching(state, name)
        found.sort(key=lambda record: (_sort_key(record, key), record.id), reverse=descending)
        return found[offset : offset + limit]

    def count(self, state: str | None = None, name: str | None = None) -> int:
        """Count experiments; see :meth:`Store.count`."""
        return len(self._matching(state, name))

    def _matching(self, state: str | None, name: str | None) -> list[Record]:
        base.check_state(state)
        found = []
        with self._using():
            for identifier in self._identifiers():
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    record = self._record(identifier)
                    if state in (None, record.state) and name in (None, record.experiment.name):
                        found.append(record)
        return found

    def record(self, identifier: str) -> Record:
        """Give one experiment; see :meth:`Store.record`."""
        base.check_identifier(identifier, self.url)
        with self._using():
            known = self._identifiers()
            if identifier not in known:
                found = [other for other in known if other.startswith(identifier)]
                if len(found) > 1:
                    raise base.ambiguous(identifier, found[:4])
                if not found:
                    raise base.no_experiment(identifier, self.url)
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
        first, merged = _merged(self._experiments / identifier, live)
        state = fold(identifier, first, merged)
        return Record(
            id=identifier,
            experiment=codec.read_experiment(first["experiment"], identifier),
            state=state.state,
            created=float(first["created"]),
            updated=state.updated,
            facts=state.facts,
            result=state.result,
            trials=len(state.trials),
            runs=len(state.runs),
            ended=state.ended,
            notes=merged.notes,
        )

    def trials(self, identifier: str, *, facts: bool = True) -> tuple[Trial, ...]:
        """Give the trials with their runs; see :meth:`Store.trials`."""
        with self._using(identifier) as folder:
            found = fold(identifier, *_merged(folder, claims.holding(folder).token)).together()
        if facts:
            return found
        return tuple(replace(trial, runs=tuple(replace(run, facts={}) for run in trial.runs)) for trial in found)

    def delete(self, identifier: str) -> None:
        """Delete an experiment; see :meth:`Store.delete`."""
        # Whoever claims is alone: nobody can take the experiment up while its files go.
        claim = self.claim(identifier, "stripewise delete")
        with self._using(identifier) as folder:
            self._end(claim)
            gone = self._experiments / f"{files.PART}{identifier}-{secrets.token_hex(4)}"
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
                last = claims.holding(folder)
                if last.alive(now) and (last.owner, last.holder) != (owner, me):
                    raise base.held(identifier, last.owner, last.expires - now)
                claim = Claim(identifier, last.token + 1, owner, lease_seconds)
                if claims.take(folder, claim.token, owner, me, now + lease_seconds):
                    self._begin(folder, claim)
                    return claim
            raise StoreError(f"experiment {identifier} is claimed by many at once", "try again")

    def _begin(self, folder: Path, claim: Claim) -> None:
        """Seal the earlier journals and begin one's own."""
        first, merged = _merged(folder, None)
        writer = files.Writer(claims.journal_path(folder, claim.token))
        opened = _Open(writer, fold(claim.experiment, first, merged))
        writer.open()
        counts = {str(token): count for token, count in merged.counts.items() if token < claim.token}
        writer.append({"kind": "seal", "time": opened.fold.updated, "counts": counts})
        self._open[claim.experiment, claim.token] = opened

    def renew(self, claim: Claim) -> None:
        """Prolong the lease; see :meth:`Store.renew`."""
        with self._using(claim.experiment) as folder:
            self._held(folder, claim, certain=True)
            claims.prolong(folder, claim.token, self._clock() + claim.lease_seconds)

    def release(self, claim: Claim) -> None:
        """Give the right to write back; see :meth:`Store.release`."""
        with self._using():
            self._end(claim)
            folder = self._experiments / claim.experiment
            with contextlib.suppress(FileNotFoundError):
                if claims.newest(folder) == claim.token:
                    claims.prolong(folder, claim.token, 0.0)

    def request_stop(self, identifier: str) -> None:
        """Ask for a stop; see :meth:`Store.request_stop`."""
        with self._using(identifier) as folder:
            claims.ask_to_stop(folder, claims.newest(folder))

    def stop_requested(self, identifier: str) -> bool:
        """Whether a stop was asked for; see :meth:`Store.stop_requested`."""
        with self._using(identifier) as folder:
            return claims.asked_to_stop(folder, claims.newest(folder))

    # -- writing under a claim -----------------------------------------------------------------------------

    def update(
        self,
        identifier: str,
        *,
        claim: Claim,
        state: str | None = None,
        facts: Mapping[str, Any] | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        """Replace state, facts, result; see :meth:`Store.update`."""
        base.check_state(state)
        given = {"state": state, "facts": facts, "result": result}
        event = {name: value for name, value in given.items() if value is not None}
        self._append(identifier, claim, {"kind": "update", **event})

    def plan(self, identifier: str, claim: Claim, trial: Trial | None, run: Run) -> None:
        """Add a run that is going to be started; see :meth:`Store.plan`."""
        base.check_planned(trial, run)
        new = None if trial is None else codec.trial_json(trial)
        self._append(identifier, claim, {"kind": "plan", "trial": new, "run": codec.run_json(run)})

    def begin(self, identifier: str, claim: Claim, run: int, facts: Mapping[str, Any] | None = None) -> None:
        """Note that a run is being started; see :meth:`Store.begin`."""
        self._append(identifier, claim, {"kind": "begin", "number": run, "facts": dict(facts or {})})

    def accept(self, identifier: str, claim: Claim, run: Run) -> None:
        """Keep the one result of a planned run; see :meth:`Store.accept`."""
        base.check_result(run)
        self._append(identifier, claim, {"kind": "accept", "run": codec.run_json(run)})

    def _append(self, identifier: str, claim: Claim, event: Mapping[str, Any]) -> None:
        base.check_claim(identifier, claim)
        # As readers will see it: nothing of the caller's, and plain numbers and lists only.
        event = codec.load(codec.dump({"time": self._clock(), **event}), "an event")
        with self._using(identifier) as folder:
            opened = self._held(folder, claim)
            opened.fold.check(event)
            opened.writer.append(event)
            opened.fold.apply(event)
            # Still the newest after the append: then every later claim will count it.
            self._held(folder, claim, certain=True)

    def _held(self, folder: Path, claim: Claim, *, certain: bool = False) -> _Open:
        """Refuse to write under a claim that has ended."""
        opened = self._open.get((claim.experiment, claim.token))
        if opened is None or claims.newest(folder, certain=certain) != claim.token:
            self._end(claim)
            raise base.lost(claim, claims.holding(folder).owner)
        return opened

    def _end(self, claim: Claim) -> None:
        opened = self._open.pop((claim.experiment, claim.token), None)
        if opened is not None:
            opened.writer.close()

    def close(self) -> None:
        """Let go of files."""
        with self._turn:
            for opened in self._open.values():
                opened.writer.close()
            self._open.clear()

    # -- the folder ----------------------------------------------------------------------------------------

    @property
    def _experiments(self) -> Path:
        return self._folder / "experiments"

    def _identifiers(self) -> list[str]:
        return sorted(path.name for path in self._experiments.iterdir() if not path.name.startswith("."))

    @contextlib.contextmanager
    def _using(self, identifier: str | None = None) -> Iterator[Path]:
        """Work with the folder of an experiment, one thread at a time."""
        if identifier is not None:
            base.check_identifier(identifier, self.url)
        folder = self._experiments / (identifier or "")
        with self._turn, explained(self.url):
            if identifier is not None and not folder.is_dir():
                raise base.no_experiment(identifier, self.url)
            try:
                yield folder
            except FileNotFoundError as error:
                if identifier is not None and not folder.exists():
                    raise base.no_experiment(identifier, self.url) from error
                raise


def _sort_key(record: Record, sort: Sort) -> Any:
    return record.experiment.name if sort is Sort.NAME else getattr(record, sort.value)


def _merged(folder: Path, live: int | None) -> tuple[dict[str, Any], Merged]:
    """Read the definition of an experiment, and all events that count."""
    first = files.read_file(folder / "experiment.json")
    if first is None or not {"created", "experiment", "facts"} <= first.keys():
        raise codec.damaged(str(folder / "experiment.json"))
    journals = [(token, files.read_lines(claims.journal_path(folder, token))) for token in claims.tokens(folder)]
    return first, merge(journals, live)


def _signature(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Give what changes whenever a journal does."""
    found = []
    for entry in os.scandir(folder / "events"):
        status = entry.stat()
        found.append((entry.name, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))


def prepare_folder(folder: Path) -> None:
    """Make the folder of a journal, or check that it is one.

    Raises
    ------
    StoreError
        If it cannot be made or read, is something else, or was made by a newer version.
    """
    where = f"journal:{folder}"
    marker = folder / MARKER
    with explained(where):
        make_folder(folder)
        if not marker.exists():
            # Somebody else may be making it just now.
            others = sorted(p.name for p in folder.iterdir() if not p.name.startswith(files.PART) and p.name != MARKER)
            if others and not marker.exists():
                raise StoreError(
                    f"store {where}: the folder holds other things ('{others[0]}') and no journal",
                    "name a new or an empty folder",
                )
            files.create_file(marker, {"format": _FORMAT, "version": _VERSION})
        _check_marker(marker, where)
        if not (folder / "experiments").is_dir():
            (folder / "experiments").mkdir(mode=0o700, exist_ok=True)


def _check_marker(marker: Path, where: str) -> None:
    data = files.read_file(marker)
    if data is None or data.get("format") != _FORMAT or not isinstance(data.get("version"), int):
        raise StoreError(f"store {where}: {marker} is not of a journal of Stripewise", "name another folder")
    if data["version"] > _VERSION:
        raise StoreError(
            f"store {where} was written by a newer Stripewise (version {data['version']}, this one knows {_VERSION})",
            "update Stripewise: pip install --upgrade stripewise",
        )
