"""The contract of a store: experiments with their trials and runs, and who may write to them.

A store promises three things. What a call has accepted survives the loss of power. Only one owner at a time writes to
an experiment, even if an earlier one, long given up for dead, wakes up. And a planned run gets one result, never two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from stripewise.errors import StoreError
from stripewise.facts import Facts
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.trial import Run, Trial

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
    GAIN = "gain"
    """What was proven; 1 where the default was kept; least of all where there is no result yet."""


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
    facts : Facts
        What was observed: preflight, workload, space, MPI ...
    result : Result or None
        Once there is one.
    trials, runs, ended : int
        How many trials it has, how many runs were planned, and how many of these have a result.
    notes : tuple of str
        What a reader should know about how it was read: a line that a crash tore, for instance.
    tags : tuple of str
        Words that people gave it to find it again.
    remark : str
        What people wrote about it.
    """

    id: str
    experiment: Experiment
    state: str
    created: float
    updated: float
    owner: str = ""
    facts: Facts = field(default_factory=Facts)
    result: Result | None = None
    trials: int = 0
    runs: int = 0
    ended: int = 0
    notes: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    remark: str = ""

    @property
    def gain(self) -> float:
        """What :data:`Sort.GAIN` goes by."""
        return 0.0 if self.result is None else self.result.gain


OnUnreadable = Callable[[StoreError], None] | None
"""Is told why an experiment cannot be read; None where that is an error."""


def readable(read: Callable[[], Record], on_unreadable: OnUnreadable) -> Record | None:
    """Read a record; None if it cannot be read and somebody was told so."""
    try:
        return read()
    except StoreError as error:
        if on_unreadable is None:
            raise
        on_unreadable(error)
        return None


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
        on_unreadable: OnUnreadable = None,
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
        on_unreadable : callable, optional
            Is told why an experiment of the page cannot be read, which is then left out.

        Raises
        ------
        StoreError
            If an experiment cannot be read and nobody is to be told.
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
        result: Result | None = None,
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
    def annotate(self, identifier: str, *, tags: Sequence[str] | None = None, remark: str | None = None) -> None:
        """Replace what is given: tags, remark. Anybody may do so at any time, without a claim.

        Raises
        ------
        UserError
            If there are too many tags, or one or the remark is too long or has characters that cannot be shown.
        """

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
        """Close connections and files. Claims stay: release them first."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
