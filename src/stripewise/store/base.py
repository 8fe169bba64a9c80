"""The contract of a store: experiments with their trials and runs, and who may write to them.

A store promises three things. What a call has accepted survives the loss of power. Only one owner at a time writes to
an experiment, even if an earlier one, long given up for dead, wakes up. And a planned run gets one result, never two.

What every kind of store refuses stands below, so that none lets through what another does not.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from stripewise.errors import NotFound, StoreError, UserError, choose
from stripewise.facts import Facts
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.trial import Run, State, Trial

STATES = ("created", "running", "finished", "stopped", "failed")
"""Where an experiment can stand."""

_MAX_TIME = 1e11
"""Epoch seconds of the year 5138: all dates before it can be shown."""

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

    def __post_init__(self) -> None:
        """Refuse what no store of ours wrote: files are named after an identifier, and times are shown as dates."""
        words = (self.id, self.state, self.owner, self.remark, *self.tags)
        if not all(isinstance(word, str) for word in words) or not _identifies(self.id):
            raise ValueError(f"{self.id!r} is not an experiment of this version")
        if self.state not in STATES or not all(isinstance(n, int) for n in (self.trials, self.runs, self.ended)):
            raise ValueError(f"{self.state!r} is not a state, or numbers of runs are none")
        if not all(abs(when) < _MAX_TIME for when in (self.created, self.updated)):
            raise ValueError(f"{self.created} and {self.updated} are not times")

    @property
    def gain(self) -> float:
        """What :data:`Sort.GAIN` goes by."""
        return 0.0 if self.result is None else self.result.gain


OnUnreadable = Callable[[StoreError], None] | None
"""Is told why an experiment cannot be read; None where that is an error."""


def read_or_skip(read: Callable[[], Record], on_unreadable: OnUnreadable) -> Record | None:
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


MOST_TAGS = 20
LONGEST_TAG = 40
LONGEST_REMARK = 4000


def check_state(state: str | None) -> None:
    """Refuse a state that experiments do not have."""
    if state is not None and state not in STATES:
        raise UserError(f"'{state}' is not a state of an experiment", choose(state, STATES))


def check_page(limit: int, offset: int, sort: Sort | str) -> Sort:
    """Refuse a page that cannot be."""
    if limit < 0 or offset < 0:
        raise UserError(f"a page of {limit} experiments from {offset} cannot be given", "use numbers from 0")
    try:
        return Sort(sort)
    except ValueError:
        raise UserError(f"experiments cannot be sorted by '{sort}'", choose(sort, Sort)) from None


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Give tags without blanks around them, each once; refuse what cannot be a tag."""
    found = tuple(dict.fromkeys(word for tag in tags if (word := tag.strip())))
    if len(found) > MOST_TAGS:
        raise UserError(f"{len(found)} tags are too many", f"an experiment has at most {MOST_TAGS}")
    for tag in found:
        if "," in tag or len(tag) > LONGEST_TAG or not tag.isprintable():
            raise UserError(
                f"'{tag[:60]!a}' cannot be a tag",
                f"use at most {LONGEST_TAG} characters, without commas and line feeds",
            )
    return found


def check_remark(text: str) -> str:
    """Give a remark without blanks around it; refuse one that is too long."""
    if len(text) > LONGEST_REMARK:
        raise UserError(f"the remark has {len(text)} characters", f"use at most {LONGEST_REMARK}")
    if not all(character.isprintable() or character in "\n\t\r" for character in text):
        raise UserError("the remark has characters that cannot be shown", "remove them")
    return text.strip()


def check_planned(trial: Trial | None, run: Run) -> None:
    """Refuse to plan what is not a planned run."""
    if run.state.ended:
        raise StoreError(f"run {run.number} has ended and cannot be planned")
    if trial is not None and trial.number != run.trial:
        raise StoreError(f"run {run.number} belongs to trial {run.trial}, not to trial {trial.number}")


def check_result(run: Run) -> None:
    """Refuse to accept anything but a result."""
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
    if not _identifies(identifier):
        raise no_experiment(identifier, where)


def _identifies(identifier: str) -> bool:
    return identifier.isascii() and identifier.isalnum() and len(identifier) <= 32


def no_experiment(identifier: str, where: str) -> UserError:
    """Say that the experiment does not exist."""
    shown = identifier[:40].encode("ascii", "backslashreplace").decode()
    return NotFound(f"experiment '{shown}' does not exist in {where}", "see: stripewise list")


def choose_experiment(identifier: str, known: Sequence[str], where: str) -> str:
    """Give the one that is called or begins like this.

    Raises
    ------
    UserError
        If there is none, or several.
    """
    if identifier in known:
        return identifier
    found = [other for other in known if other.startswith(identifier)]
    if not found:
        raise no_experiment(identifier, where)
    if len(found) > 1:
        raise UserError(
            f"'{identifier}' begins several experiments: {', '.join(found[:4])}", "give more of the identifier"
        )
    return found[0]


def explain_held_claim(identifier: str, owner: str, seconds: float) -> StoreError:
    """Say who has the right to write."""
    return StoreError(
        f"experiment {identifier} is being run by {owner}",
        f"stop it with: stripewise experiment stop {identifier}; if it died on another host, it can be taken over in "
        f"{math.ceil(max(seconds, 1))} s",
    )


def explain_lost_claim(claim: Claim, owner: str) -> StoreError:
    """Say that a claim has ended."""
    by = f"was taken over by {owner}" if owner and owner != claim.owner else "has ended"
    return StoreError(
        f"the claim of {claim.owner} on experiment {claim.experiment} {by}",
        "nothing more is written under it; stripewise list shows who runs the experiment now",
    )


def check_free(identifier: str, run: Run, *, run_known: bool, trial_known: bool, new_trial: bool) -> None:
    """Refuse to plan a run whose number is in use, or whose trial is in use or missing."""
    taken = ("run", run.number) if run_known else ("trial", run.trial) if new_trial and trial_known else None
    if taken is not None:
        raise StoreError(
            f"experiment {identifier} already has a {taken[0]} {taken[1]}", "two sessions may be planning at once"
        )
    if not new_trial and not trial_known:
        raise StoreError(f"experiment {identifier} has no trial {run.trial} for the run to belong to")


def check_open(identifier: str, number: int, trial: int | None, state: State | None, result_of: int | None) -> None:
    """Refuse to begin or end a run that was never planned or has ended, or to end it for another trial.

    Parameters
    ----------
    trial, state : int, State or None
        Of the planned run; None where there is none.
    result_of : int or None
        The trial that a result names.
    """
    if state is None:
        raise StoreError(f"experiment {identifier} has no run {number}: it was never planned")
    if state.ended:
        raise StoreError(f"run {number} of experiment {identifier} already has a result", "a run has only one")
    if result_of not in (None, trial):
        raise StoreError(f"run {number} of experiment {identifier} belongs to trial {trial}, not to trial {result_of}")
