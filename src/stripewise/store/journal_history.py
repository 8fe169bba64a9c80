"""What the journals of an experiment say when they are read together.

Each claim has a journal of its own, so no two processes append to one file. A new claim begins its journal with a
*seal*: how many events of each earlier journal count. An event that an earlier owner appends after that, because it
woke up late, never counts for any reader. So all readers see the same history without a lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stripewise.errors import StoreError, pip_install
from stripewise.store import base as rules
from stripewise.store import codec
from stripewise.store import journal_files as files
from stripewise.store.journal_files import Lines
from stripewise.trial import Run, Trial


@dataclass
class Fold:
    """The state of an experiment after some events.

    Attributes
    ----------
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
            run, new = self._run(event), event["trial"] is not None
            known = {"run_known": run.number in self.runs, "trial_known": run.trial in self.trials}
            rules.check_free(self.identifier, run, new_trial=new, **known)
        elif kind in ("begin", "accept"):
            number, of = (
                (event["run"]["number"], event["run"]["trial"]) if kind == "accept" else (event["number"], None)
            )
            planned = self.runs.get(number)
            trial, state = (None, None) if planned is None else (planned.trial, planned.state)
            rules.check_open(self.identifier, number, trial, state, of)

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
                f"update it {pip_install()}",
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


def fold_events(identifier: str, first: Mapping[str, Any], merged: Merged) -> Fold:
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


def labels_of(folder: Path) -> dict[str, Any]:
    """Read the tags and the remark of an experiment; nothing where nobody has given any."""
    try:
        return files.read_file(folder / LABELS) or {}
    except FileNotFoundError:
        return {}


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
