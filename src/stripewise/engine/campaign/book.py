"""The book of a campaign: what was planned and the one result of each run, kept in a journal as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stripewise.engine.campaign.plan import PlannedPoint, Shard
from stripewise.errors import StoreError, UserError
from stripewise.facts import Facts
from stripewise.requests.campaign import Campaign
from stripewise.requests.experiment import Experiment
from stripewise.store.base import Claim, Record, Store
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Run, State, Trial

LEASE_SECONDS = 60.0
FORMAT = "stripewise-campaign 1"


class Book:
    """Runs of one shard, by number; with a journal, or in memory only.

    Parameters
    ----------
    campaign : Campaign
    shard : tuple of int
        ``(i, n)``.
    folder : Path or None
        Of the journal. None keeps everything in memory: simulated runs cost nothing to repeat.
    owner : str
        Who writes, for messages to others.

    Raises
    ------
    StoreError, UserError
        If the journal cannot be used, belongs to another campaign, or is being written by somebody.
    """

    def __init__(self, campaign: Campaign, shard: Shard, folder: Path | None, owner: str = "") -> None:
        self.campaign = campaign
        self.runs: dict[int, Run] = {}
        self._trials: set[int] = set()
        self._store: Store | None = None
        self._claim: Claim | None = None
        self._identifier = ""
        self._facts = Facts()
        self._renewed = time.monotonic()
        if folder is None:
            return
        self._store = open_store(f"journal:{folder}")
        try:
            self._identifier = self._find(shard)
            self._claim = self._store.claim(self._identifier, owner, LEASE_SECONDS)
            self._facts = self._store.record(self._identifier).facts
            for trial in self._store.trials(self._identifier):
                self._trials.add(trial.number)
                self.runs |= {run.number: run for run in trial.runs}
        except BaseException:
            self._store.close()
            raise

    def _find(self, shard: Shard) -> str:
        assert self._store is not None
        for record in self._store.records(limit=1_000_000):
            about = _about(record)
            if about["digest"] != self.campaign.digest:
                raise UserError(
                    f"the journal {self._store.url} belongs to another campaign, or to another state of its file "
                    f"('{record.experiment.name}')",
                    "restore the file, or name another folder with --journal",
                )
            if about["shard"][1] != shard[1]:
                raise UserError(
                    f"the journal {self._store.url} has shards of {about['shard'][1]}, not of {shard[1]}",
                    "continue with the same number of shards, or name another folder with --journal",
                )
            if tuple(about["shard"]) == shard:
                return record.id
        experiment = Experiment(name=self.campaign.name, runner=self.campaign.runner, seed=self.campaign.seed)
        about = {
            "format": FORMAT,
            "digest": self.campaign.digest,
            "shard": list(shard),
            "campaign": self.campaign.model_dump(mode="json"),
        }
        return self._store.create(experiment, Facts(campaign=about))

    # -- writing -------------------------------------------------------------------------------------------

    def check_fingerprint(self, now: Mapping[str, str]) -> None:
        """Refuse to continue with another program or MPI: runs that differ are never pooled.

        Raises
        ------
        UserError
        """
        if self._store is None or self._claim is None:
            return
        earlier = self._facts.fingerprint
        if earlier is None:
            self._facts = self._facts.with_(fingerprint=dict(now))
            self._store.update(self._identifier, facts=self._facts, claim=self._claim)
            return
        _same(earlier, now)

    def begin(self, planned: PlannedPoint) -> int:
        """Write a run down before it is started, and give which attempt it is."""
        known = self.runs.get(planned.number)
        attempt = 0 if known is None else 1 + known.facts.attempt
        if known is None:
            run = Run(planned.number, planned.trial, Phase.SEARCH)
            if self._store is not None and self._claim is not None:
                trial = None if planned.trial in self._trials else Trial(planned.trial, planned.point.values)
                self._store.plan(self._identifier, self._claim, trial, run)
            self._trials.add(planned.trial)
        else:
            run = replace(known, facts=known.facts.with_(attempt=attempt))
            if self._store is not None and self._claim is not None:
                self._store.begin(self._identifier, self._claim, run.number, {"attempt": attempt})
        self.runs[run.number] = run
        return attempt

    def accept(self, run: Run) -> None:
        """Keep the one result of a run."""
        if self._store is not None and self._claim is not None:
            self._store.accept(self._identifier, self._claim, run)
        elif self.runs[run.number].state.ended:
            raise StoreError(f"run {run.number} already has a result", "a run has only one")
        self.runs[run.number] = run

    def keep(self) -> None:
        """Renew the claim in good time."""
        if self._store is not None and self._claim is not None and time.monotonic() - self._renewed > LEASE_SECONDS / 3:
            self._store.renew(self._claim)
            self._renewed = time.monotonic()

    def set_state(self, state: str) -> None:
        """Say where the campaign stands."""
        if self._store is not None and self._claim is not None:
            self._store.update(self._identifier, state=state, claim=self._claim)

    def stop_requested(self) -> bool:
        """Whether somebody asked for a stop (``stripewise experiment stop ID --store journal:FOLDER``)."""
        return self._store is not None and self._store.stop_requested(self._identifier)

    def close(self) -> None:
        """Give the claim back."""
        if self._store is not None:
            if self._claim is not None:
                self._store.release(self._claim)
            self._store.close()

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def interrupted(self) -> list[Run]:
        """Runs that an earlier session planned and did not finish."""
        return [run for run in self.runs.values() if not run.state.ended]


@dataclass(frozen=True)
class Collected:
    """The results of all shards of a campaign.

    Attributes
    ----------
    campaign : Campaign
    runs : dict
        Ended runs by number.
    shards : int
        How many the campaign was cut into.
    seen : tuple of int
        Which of them were found.
    notes : tuple of str
    """

    campaign: Campaign
    runs: dict[int, Run]
    shards: int
    seen: tuple[int, ...]
    notes: tuple[str, ...] = ()


def collect(folders: Iterable[Path]) -> Collected:
    """Put the journals of a campaign's shards together; each may lie in a folder of its own.

    Raises
    ------
    UserError
        If they belong to different campaigns, programs or machines' MPI, or a run has two different results.
    """
    runs: dict[int, Run] = {}
    notes: list[str] = []
    first: dict[str, Any] | None = None
    seen: set[int] = set()
    fingerprint: Mapping[str, str] | None = None
    for folder in folders:
        if not (folder / "experiments").is_dir():
            raise UserError(f"{folder} has no journal", "name the folders that the shards were given")
        with open_store(f"journal:{folder}") as store:
            for record in store.records(limit=1_000_000):
                about = _about(record)
                first = first or about
                if about["digest"] != first["digest"]:
                    raise UserError(f"{folder} holds another campaign ('{record.experiment.name}')", "leave it out")
                if about["shard"][1] != first["shard"][1]:
                    raise UserError(f"{folder} was cut into another number of shards", "leave it out")
                own = record.facts.fingerprint
                if own and fingerprint:
                    _same(fingerprint, own)
                fingerprint = fingerprint or own
                seen.add(int(about["shard"][0]))
                notes += record.notes
                for trial in store.trials(record.id):
                    for run in trial.runs:
                        if run.number in runs and run.state.ended and runs[run.number].value != run.value:
                            raise UserError(
                                f"run {run.number} has two results, one of them in {folder}",
                                "a shard was run twice: merge only one of its journals",
                            )
                        if run.state.ended:
                            runs[run.number] = run
    if first is None:
        raise UserError("the journals hold no campaign", "run its shards first")
    campaign = Campaign.model_validate(first["campaign"])
    return Collected(campaign, runs, int(first["shard"][1]), tuple(sorted(seen)), tuple(notes))


def _about(record: Record) -> dict[str, Any]:
    about = record.facts.campaign
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UserError(
            f"the journal holds experiment {record.id}, which is not a campaign",
            "name a folder of its own with --journal",
        )
    return about


def _same(earlier: Mapping[str, str], now: Mapping[str, str]) -> None:
    for name in sorted({*earlier, *now}):
        if earlier.get(name) != now.get(name):
            raise UserError(
                f"{name} was '{earlier.get(name)}' in the earlier runs and is '{now.get(name)}' now",
                "restore it, or name another folder with --journal: runs that differ are never pooled",
            )


def finished(runs: Mapping[int, Run]) -> list[Run]:
    """Runs with a value, by number."""
    return [runs[number] for number in sorted(runs) if runs[number].state is State.FINISHED]
