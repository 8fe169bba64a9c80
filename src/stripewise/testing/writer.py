"""A process that carries an experiment on until it is killed: what a store must survive.

Started as ``python -m stripewise.testing.writer ADDRESS EXPERIMENT RUNS BYTES``. It takes the claim, finishes what an
earlier process had planned, plans more, and says what it was told: ``accepted NUMBER VALUE`` means that the store has
taken the result and must never lose it.
"""

from __future__ import annotations

import os
import random
import sys

from stripewise.catalogue.configuration import Configuration
from stripewise.facts import RunFacts
from stripewise.result import Result
from stripewise.store.base import Claim, Store
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Role, Run, State, Trial

RUNS_A_TRIAL = 3
LEASE_SECONDS = 3600.0


def carry_on(store: Store, identifier: str, total: int, size: int) -> None:
    """Bring an experiment to ``total`` runs with a result each, whose facts have ``size`` bytes."""
    claim = store.claim(identifier, f"writer:{os.getpid()}", LEASE_SECONDS)
    store.update(identifier, state="running", claim=claim)
    _say("claimed", claim.token)
    trials = store.trials(identifier)
    planned = [run for trial in trials for run in trial.runs]
    for run in planned:
        if not run.state.ended:
            _launch(store, claim, run, size)
    for number in range(len(planned), total):
        trial = number // RUNS_A_TRIAL
        new = number % RUNS_A_TRIAL == 0
        configuration = Configuration({"stripe_count": trial, "collective": trial % 2 == 0, "ratio": trial / 7})
        run = Run(number, trial, Phase.SEARCH)
        store.plan(identifier, claim, Trial(trial, configuration, Role.CANDIDATE) if new else None, run)
        _say("planned", number)
        _launch(store, claim, run, size)
    store.update(identifier, state="finished", result=Result(runs=total), claim=claim)
    store.release(claim)
    _say("finished", total)


def _launch(store: Store, claim: Claim, run: Run, size: int) -> None:
    store.begin(claim.experiment, claim, run.number)
    # Drawn anew at each launch: a result that was accepted twice would show.
    value = random.random()
    facts = RunFacts({"report": "x" * size})
    store.accept(
        claim.experiment, claim, Run(run.number, run.trial, run.phase, State.FINISHED, value, 0.1, 1.0, facts=facts)
    )
    _say("accepted", run.number, value)


def _say(*words: object) -> None:
    print(*words, flush=True)


def main(arguments: list[str]) -> None:
    """Open the store and carry on."""
    address, identifier, total, size = arguments
    with open_store(address) as store:
        carry_on(store, identifier, int(total), int(size))


if __name__ == "__main__":
    main(sys.argv[1:])
