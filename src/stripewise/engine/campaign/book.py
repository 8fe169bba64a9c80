"""The book of a campaign: what was planned and the one result of each run, kept in a journal as soon as it is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stripewise.engine.campaign.plan import Shard
from stripewise.engine.ledger import Ledger, StoredLedger, check_same
from stripewise.errors import UserError
from stripewise.facts import Facts
from stripewise.requests.campaign import Campaign
from stripewise.requests.experiment import Experiment
from stripewise.store.base import Record, Store
from stripewise.store.opening import open_store
from stripewise.trial import Run

FORMAT = "stripewise-campaign 1"


INSTEAD = "name another folder with --journal"


class _Book(StoredLedger):
    """A ledger with a store of its own."""

    def release(self) -> None:
        """Give the claim back, and close the store."""
        super().release()
        self._store.close()


def open_book(campaign: Campaign, shard: Shard, folder: Path | None, owner: str = "") -> Ledger:
    """Open the ledger of one shard of a campaign.

    Parameters
    ----------
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
    if folder is None:
        return Ledger()
    store = open_store(f"journal:{folder}")
    try:
        return _Book(store, _find(store, campaign, shard), owner)
    except BaseException:
        store.close()
        raise


def _find(store: Store, campaign: Campaign, shard: Shard) -> str:
    """Give the identifier of a shard in the journal, which is added where it is not there yet."""
    for record in store.records(limit=1_000_000):
        about = _about(record)
        if about["digest"] != campaign.digest:
            raise UserError(
                f"the journal {store.url} belongs to another campaign, or to another state of its file "
                f"('{record.experiment.name}')",
                f"restore the file, or {INSTEAD}",
            )
        if about["shard"][1] != shard[1]:
            raise UserError(
                f"the journal {store.url} has shards of {about['shard'][1]}, not of {shard[1]}",
                f"continue with the same number of shards, or {INSTEAD}",
            )
        if tuple(about["shard"]) == shard:
            return record.id
    experiment = Experiment(name=campaign.name, runner=campaign.runner, seed=campaign.seed)
    about = {
        "format": FORMAT,
        "digest": campaign.digest,
        "shard": list(shard),
        "campaign": campaign.model_dump(mode="json"),
    }
    return store.create(experiment, Facts(campaign=about))


@dataclass(frozen=True)
class Collected:
    """The results of all shards of a campaign.

    Attributes
    ----------
    runs : dict
        Ended runs by number.
    shards : int
        How many the campaign was cut into.
    seen : tuple of int
        Which of them were found.
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
                    check_same(fingerprint, own, INSTEAD)
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
