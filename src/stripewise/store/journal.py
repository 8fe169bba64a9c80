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
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.errors import StoreError
from stripewise.ownership import part_of
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.store import base as rules
from stripewise.store import codec
from stripewise.store import journal_files as files
from stripewise.store.base import Claim
from stripewise.store.holder import Holder
from stripewise.store.journal_files import make_folder, sync_folder
from stripewise.store.journal_reading import LABELS, Fold, JournalReader, fold, labels_of, merged_events
from stripewise.trial import Run, Trial

_FOLDERS = ("claims", "leases", "events", "stops")
_TRIES = 100


@dataclass
class _Open:
    """A claim of ours."""

    writer: files.Writer
    fold: Fold


class JournalStore(JournalReader):
    """Keeps experiments in the files of a folder.

    Parameters
    ----------
    folder : Path
        Prepared by :func:`~stripewise.store.journal_files.prepare_folder`.
    clock : callable
        Epoch seconds; the clocks of the hosts should agree to a fraction of a lease.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        super().__init__(folder, clock)
        self._open: dict[tuple[str, int], _Open] = {}

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
        first, merged = merged_events(folder, None, certain=True)
        writer = files.Writer(files.journal_path(folder, claim.token))
        opened = _Open(writer, fold(claim.experiment, first, merged))
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
