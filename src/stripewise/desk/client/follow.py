"""Watches an experiment of a service as if it ran here: the same events, the same result, the same errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.client.client import Client, error_of
from stripewise.desk.client.store import RemoteStore, run_of
from stripewise.desk.client.transport import reads_answers
from stripewise.errors import StripewiseError, TransientError
from stripewise.requests.experiment import Budget
from stripewise.requests.objective import Objective
from stripewise.result import Result
from stripewise.runners.base import Preflight
from stripewise.trial import Role, Run, State, Trial

_PATIENCE_SECONDS = 120.0
_SETTLE_SECONDS = 0.2
_ENDED = ("finished", "stopped", "failed")

Tell = Callable[[str, dict[str, Any]], None]


@reads_answers
class Follower:
    """Follows one experiment to its end; ``tell`` is told each event, its kind and data, as by a local session."""

    def __init__(self, client: Client, identifier: str, tell: Tell) -> None:
        self._client = client
        self._store = RemoteStore(client)
        self._identifier = identifier
        self._tell = tell
        self._trials: dict[int, Trial] = {}
        self._told: set[int] = set()
        self._after = 0
        self._prepared = False
        self._budget = Budget()

    def run(self, after: int = 0, told: Iterable[int] = ()) -> Result:
        """Follow until there is a result, and give it.

        Parameters
        ----------
        after : int
            The last message that is known already.
        told : iterable of int
            Runs that had ended before a worker was asked: all others are told, also those that end before this begins.

        Raises
        ------
        NothingWorks, UserError, StripewiseError
            As the worker has met them.
        TransientError
            If the service stays away.
        """
        self._after, self._told = after, set(told)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            fresh = True
            try:
                for name, data in self._client.events(self._identifier, self._after):
                    deadline = time.monotonic() + _PATIENCE_SECONDS
                    if fresh:
                        # From the first event on nothing is missed; what came before is read.
                        self._read()
                        fresh = False
                    result = self._take(name, data)
                    if result is not None:
                        return result
                    if name == "lost":
                        break
            except TransientError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1.0)

    def _read(self) -> None:
        """Learn what has happened before, or while nobody listened."""
        self._budget = self._store.record(self._identifier).experiment.budget
        missed = []
        for trial in self._store.trials(self._identifier, facts=False):
            self._trials[trial.number] = trial
            missed += [run for run in trial.runs if run.state.ended and run.number not in self._told]
        self._hear()
        for run in sorted(missed, key=lambda run: run.number):
            self._ended(run)
            self._told.add(run.number)

    def _hear(self) -> None:
        """Learn what the session has said, up to its failure: what the runs need to be understood comes before them."""
        for message in self._client.messages(self._identifier, self._after):
            if message["kind"] == "failed":
                return
            self._after = int(message["number"])
            self._message(message["kind"], message["data"])

    def _take(self, name: str, data: Mapping[str, Any]) -> Result | None:
        if name == "message":
            if int(data["number"]) > self._after:
                self._after = int(data["number"])
                self._message(data["kind"], data["data"])
        elif name == "run":
            self._run(data)
        elif name == "deleted":
            raise StripewiseError(f"experiment {self._identifier} was deleted")
        elif name == "experiment" and data["state"] in _ENDED:
            return self._end()
        return None

    def _message(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "prepared":
            preflight = Preflight(summary=tuple(data["summary"]), warnings=tuple(data["warnings"]))
            objective = Objective(**data["objective"])
            # Runs that are still to be told came after this.
            trials = self._with(lambda run: run.number in self._told)
            self._tell("prepared", {"preflight": preflight, "objective": objective, "trials": trials})
        elif kind == "space":
            self._prepared = True
            units = dict(data.get("units", {}))
            parameters = tuple(SimpleNamespace(name=name, unit=units.get(name, "")) for name in data["names"])
            space = SimpleNamespace(
                names=tuple(data["names"]), default=Configuration(data["default"]), parameters=parameters
            )
            bound = SimpleNamespace(space=space, left_out=dict(data["left_out"]))
            about = {"distinct": data["distinct"], "exact": data["exact"], "workload": None}
            self._tell("space", {"bound": bound, **about})
        elif kind in ("worst_case", "note"):
            self._tell(kind, dict(data))
        elif kind == "failed":
            raise _error(data)

    def _run(self, data: Mapping[str, Any]) -> None:
        run = run_of(data)
        trial = self._trials.get(run.trial)
        if trial is None:
            trial = Trial(run.trial, Configuration(data["configuration"]), Role(data["role"]))
        others = tuple(known for known in trial.runs if known.number != run.number)
        trial = replace(trial, runs=tuple(sorted((*others, run), key=lambda known: known.number)))
        self._trials[run.trial] = trial
        if run.state is State.RUNNING:
            self._tell("started", {"run": run, "trial": trial, **self._spent(run)})
        elif run.state.ended and run.number not in self._told:
            self._told.add(run.number)
            self._ended(run)

    def _ended(self, run: Run) -> None:
        if not self._prepared:
            # Runs and messages come by ways of their own; what was said before a run is there once the run is.
            self._hear()
        trial, spent = self._trials[run.trial], self._spent(run)
        self._tell("started", {"run": run, "trial": trial, **spent})
        self._tell("ended", {"run": run, "trial": trial, "trials": self._known_at(run), "spent": spent["spent"]})

    def _known_at(self, run: Run) -> tuple[Trial, ...]:
        """The trials as they were when a run ended; of a run that is told late, later ones are known already."""
        return self._with(lambda known: known.number <= run.number)

    def _with(self, chosen: Callable[[Run], bool]) -> tuple[Trial, ...]:
        """All trials with some of their runs."""
        known = (self._trials[number] for number in sorted(self._trials))
        return tuple(replace(trial, runs=tuple(filter(chosen, trial.runs))) for trial in known)

    def _spent(self, run: Run) -> dict[str, Any]:
        """What was spent up to a run; later ones may be known already."""
        made = sum(known.number <= run.number for trial in self._trials.values() for known in trial.runs)
        return {"spent": SimpleNamespace(runs=made), "budget": self._budget}

    def _end(self) -> Result | None:
        """Give the result, or say why there is none; None where another worker goes on."""
        document = self._client.experiment(self._identifier)
        while document["queued"] and document["state"] in _ENDED:
            # Its worker is about to say why it ended, of which no event comes, or another one is to take it up.
            time.sleep(_SETTLE_SECONDS)
            document = self._client.experiment(self._identifier)
        if document["state"] in _ENDED:
            # The last runs may come after the event of the end.
            self._read()
        if document["result"] is not None and document["state"] == "finished":
            result = Result.from_json(document["result"])
            self._tell("finished", {"result": result})
            return result
        if document["state"] not in _ENDED:
            return None
        if document["state"] == "failed" or document["error"]:
            # Why comes as a message of the session; where it could not say it, the job does.
            said = self._client.messages(self._identifier, self._after)
            if why := [message["data"] for message in said if message["kind"] == "failed"]:
                raise _error(why[-1])
            what, _, fix = str(document["error"] or f"experiment {self._identifier} has failed").partition("; ")
            raise StripewiseError(what, fix)
        raise StripewiseError(
            f"experiment {self._identifier} was stopped", f"stripewise resume {self._identifier} goes on"
        )


def _error(data: Mapping[str, Any]) -> StripewiseError:
    return error_of(data.get("error"))(str(data["what"]), str(data.get("fix", "")))
