"""The contract of a store: experiments with their trials and runs, and who may write to them.

A store promises three things. What a call has accepted survives the loss of power. Only one owner at a time writes to
an experiment, even if an earlier one, long given up for dead, wakes up. And a planned run gets one result, never two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from stripewise.errors import StoreError, UserError
from stripewise.spec.experiment import Experiment
from stripewise.spec.trial import Run, Trial

STATES = ("created", "running", "finished", "stopped", "failed")
"""Where an experiment can stand."""

MEMORY = "sqlite:///:memory:"
"""A store that lives as long as its object."""


class Sort(StrEnum):
    """What records can be ordered by."""

    CREATED = "created"
    UPDATED = "updated"
    NAME = "name"
    STATE = "state"
    OWNER = "owner"
    RUNS = "runs"


@dataclass(frozen=True)
class Record:
    """An experiment as it is kept.

    Attributes
    ----------
    id : str
        Short and unique within the store.
    experiment : Experiment
    state : str
        One of :data:`STATES`. An experiment that was running when its owner died reads as ``stopped``: nobody carries
        it on.
    created, updated : float
        Epoch seconds.
    owner : str
        Who holds its claim, or held it last.
    facts : dict
        What was observed (JSON): preflight, workload, space, MPI ...
    result : dict or None
        The result (JSON) once there is one.
    trials, runs, ended : int
        How many trials it has, how many runs were planned, and how many of these have a result.
    notes : tuple of str
        What a reader should know about how it was read: a line that a crash tore, for instance.
    """

    id: str
    experiment: Experiment
    state: str
    created: float
    updated: float
    owner: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] | None = None
    trials: int = 0
    runs: int = 0
    ended: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Claim:
    """The right to write to an experiment.

    Attributes
    ----------
    experiment : str
    token : int
        The fencing number: larger with each claim of the experiment; only the latest may write.
    owner : str
        For messages to others.
    lease_seconds : float
        After so long without :meth:`Store.renew` others may take over.
    """

    experiment: str
    token: int
    owner: str
    lease_seconds: float = 60.0


class Store(ABC):
    """Keeps experiments.

    All methods may be called from several threads. Every one raises :class:`~stripewise.errors.StoreError` where the
    store cannot be read or written, and :class:`~stripewise.errors.UserError` where an experiment does not exist.
    """

    @property
    @abstractmethod
    def url(self) -> str:
        """The address, for people: a password in it is not shown."""

    @abstractmethod
    def create(self, experiment: Experiment, facts: Mapping[str, Any] | None = None) -> str:
        """Keep a new experiment and give its identifier."""

    @abstractmethod
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
        """Give a page of experiments, newest first unless asked otherwise; ties are ordered by identifier.

        Parameters
        ----------
        state, name : str, optional
            Only those in this state, of exactly this name.
        limit, offset : int
            The page.
        sort : Sort
        descending : bool
        """

    @abstractmethod
    def count(self, state: str | None = None, name: str | None = None) -> int:
        """Count the experiments that :meth:`records` would give without a limit."""

    @abstractmethod
    def record(self, identifier: str) -> Record:
        """Give one experiment, by its identifier or a beginning of it that no other has.

        All other methods want the whole identifier.
        """

    @abstractmethod
    def trials(self, identifier: str, *, facts: bool = True) -> tuple[Trial, ...]:
        """Give the trials in order of asking, each with its runs in order of planning.

        Parameters
        ----------
        identifier : str
        facts : bool
            False leaves the runs' facts out, which are most of the bytes.
        """

    @abstractmethod
    def claim(self, identifier: str, owner: str, lease_seconds: float = 60.0) -> Claim:
        """Take the right to write, to be called before the first write and given back with :meth:`release`.

        A claim that was released, whose lease ran out, or whose process is proven dead (same machine, and either
        another boot or no such process any more) is taken over at once. The same process may claim again under the
        same owner; its earlier claim then ends. A request to stop was made to the earlier claim, and ends with it.

        Raises
        ------
        StoreError
            Naming the owner, if somebody holds it.
        """

    @abstractmethod
    def renew(self, claim: Claim) -> None:
        """Prolong the lease; to be called well within each ``lease_seconds``.

        Raises
        ------
        StoreError
            If the claim was taken over.
        """

    @abstractmethod
    def release(self, claim: Claim) -> None:
        """Give the right to write back. Does nothing if the claim has already ended."""

    @abstractmethod
    def update(
        self,
        identifier: str,
        *,
        claim: Claim,
        state: str | None = None,
        facts: Mapping[str, Any] | None = None,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        """Replace what is given: state, facts, result."""

    @abstractmethod
    def plan(self, identifier: str, claim: Claim, trial: Trial | None, run: Run) -> None:
        """Add a run that is going to be started, and its trial if that is new: both or neither.

        Raises
        ------
        StoreError
            If there is a run (or trial) of that number, or no such trial.
        """

    @abstractmethod
    def begin(self, identifier: str, claim: Claim, run: int, facts: Mapping[str, Any] | None = None) -> None:
        """Note that a planned run is being started, or started again after a crash; ``facts`` are kept with it."""

    @abstractmethod
    def accept(self, identifier: str, claim: Claim, run: Run) -> None:
        """Keep the one result of a planned run.

        Raises
        ------
        StoreError
            If the run was never planned, belongs to another trial, or already has a result.
        """

    @abstractmethod
    def request_stop(self, identifier: str) -> None:
        """Ask whoever holds the claim to stop; the next claim does not see the request."""

    @abstractmethod
    def stop_requested(self, identifier: str) -> bool:
        """Whether a stop was asked for since the latest claim. Cheap: meant to be called twice a second."""

    @abstractmethod
    def delete(self, identifier: str) -> None:
        """Delete an experiment with its trials and runs.

        Raises
        ------
        StoreError
            If somebody holds its claim.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of connections and files. Claims stay: release them first."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# What every kind of store checks in the same way, so that none lets through what another refuses.


def check_state(state: str | None) -> None:
    """Refuse a state that experiments do not have."""
    if state is not None and state not in STATES:
        raise UserError(f"'{state}' is no state of an experiment", f"choose from {', '.join(STATES)}")


def check_page(limit: int, offset: int, sort: Sort | str) -> Sort:
    """Refuse a page that cannot be."""
    if limit < 0 or offset < 0:
        raise UserError(f"a page of {limit} experiments from {offset} cannot be given", "use numbers from 0")
    try:
        return Sort(sort)
    except ValueError:
        raise UserError(f"experiments cannot be sorted by '{sort}'", f"choose from {', '.join(Sort)}") from None


def check_planned(trial: Trial | None, run: Run) -> None:
    """Refuse to plan what is not a planned run."""
    if run.state.ended:
        raise StoreError(f"run {run.number} has ended and cannot be planned")
    if trial is not None and trial.number != run.trial:
        raise StoreError(f"run {run.number} belongs to trial {run.trial}, not to trial {trial.number}")


def check_result(run: Run) -> None:
    """Refuse to accept what is no result."""
    if not run.state.ended:
        raise StoreError(f"run {run.number} is {run.state} and has no result to accept")
    for name, value in (("value", run.value), ("elapsed", run.elapsed), ("started", run.started)):
        if value is not None and math.isnan(value):
            raise StoreError(f"the {name} of run {run.number} is not a number", "mark the run as failed instead")


def check_claim(identifier: str, claim: Claim) -> None:
    """Refuse a claim on another experiment."""
    if claim.experiment != identifier:
        raise StoreError(f"a claim on experiment {claim.experiment} gives no right to write to {identifier}")


def check_identifier(identifier: str, where: str) -> None:
    """Refuse what cannot be an identifier, or the beginning of one, before a database or a path is made of it."""
    if not (identifier.isascii() and identifier.isalnum() and len(identifier) <= 32):
        raise no_experiment(identifier, where)


def no_experiment(identifier: str, where: str) -> UserError:
    """Say that there is no such experiment."""
    shown = identifier[:40].encode("ascii", "backslashreplace").decode()
    return UserError(f"there is no experiment '{shown}' in {where}", "see: stripewise list")


def ambiguous(identifier: str, found: list[str]) -> UserError:
    """Say that an identifier was cut too short."""
    return UserError(f"'{identifier}' begins several experiments: {', '.join(found)}", "give more of the identifier")


def held(identifier: str, owner: str, seconds: float) -> StoreError:
    """Say who has the right to write."""
    return StoreError(
        f"experiment {identifier} is being run by {owner}",
        f"stop it with: stripewise stop {identifier}; had it died on another host, it could be taken over in "
        f"{math.ceil(max(seconds, 1))} s",
    )


def lost(claim: Claim, owner: str) -> StoreError:
    """Say that a claim has ended."""
    by = f"was taken over by {owner}" if owner and owner != claim.owner else "has ended"
    return StoreError(
        f"the claim of {claim.owner} on experiment {claim.experiment} {by}",
        "nothing more is written under it; stripewise list shows who runs the experiment now",
    )


def not_planned(identifier: str, number: int) -> StoreError:
    """Say that a run does not exist."""
    return StoreError(f"experiment {identifier} has no run {number}: it was never planned")


def has_result(identifier: str, number: int) -> StoreError:
    """Say that a run has ended already."""
    return StoreError(f"run {number} of experiment {identifier} already has a result", "a run has only one")


def other_run(identifier: str, run: Run, trial: int) -> StoreError:
    """Say that a result names another trial than the planned run."""
    return StoreError(f"run {run.number} of experiment {identifier} belongs to trial {trial}, not to trial {run.trial}")


def already_there(identifier: str, what: str, number: int) -> StoreError:
    """Say that a number is in use."""
    return StoreError(f"experiment {identifier} already has a {what} {number}", "two sessions may be planning at once")


def no_trial(identifier: str, number: int) -> StoreError:
    """Say that a run's trial does not exist."""
    return StoreError(f"experiment {identifier} has no trial {number} for the run to belong to")
