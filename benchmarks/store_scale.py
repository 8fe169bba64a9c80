"""How fast a database store answers when it is large.

::

    python benchmarks/store_scale.py [ADDRESS] [--experiments 1000] [--runs 1000]

fills a new store (a temporary SQLite file if no address is given) and prints, as JSON, medians and maxima in
milliseconds of what a page, the tuning loop and a worker ask of it.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from stripewise.catalogue.configuration import Configuration
from stripewise.requests.experiment import Experiment
from stripewise.store import codec
from stripewise.store import schema as rows
from stripewise.store.base import Claim, Store
from stripewise.store.opening import open_store
from stripewise.store.schema import experiments, runs, trials
from stripewise.store.sql import SqlStore
from stripewise.trial import Phase, Role, Run, State, Trial

STATES = ("finished", "finished", "finished", "stopped", "failed", "created")
FACTS = {"folder": "/scratch/user/experiment/1", "exit_code": 0, "metrics": {}, "report": {"files": ["x" * 60] * 20}}
RESULT = {"speedup": 3.1, "confirmed": True, "runs": 40, "effects": [{"name": "cb_nodes", "evidence": "x" * 200}] * 20}


def fill(store: SqlStore, count: int, runs_each: int) -> None:
    """Insert in bulk what would take the store's own, durable calls hours."""
    definition = codec.dump(codec.experiment_json(Experiment(command=["mpiexec", "-n", "64", "./application"])))
    for number in range(count):
        identifier = secrets.token_hex(4)
        state = STATES[number % len(STATES)]
        row = {
            **{"id": identifier, "name": f"experiment {number % 50}", "state": state, "created": 1.7e9 + number},
            **{"updated": 1.7e9 + number, "owner": "ada", "token": 1, "stop": -1, "trials": runs_each // 2},
            **{"runs": runs_each, "ended": runs_each, "definition": definition, "facts": "{}"},
            "result": codec.dump(RESULT) if state == "finished" else None,
        }
        claim = Claim(identifier, 1, "ada")
        tried = [Trial(n, configuration(n), Role.CANDIDATE) for n in range(runs_each // 2)]
        ended = [
            Run(n, n // 2, Phase.SEARCH, State.FINISHED, 100.0 + n, 10.0, 1.7e9, facts=FACTS) for n in range(runs_each)
        ]

        def work(connection: sa.Connection, again: bool) -> None:
            connection.execute(experiments.insert().values(row))  # noqa: B023  called at once
            connection.execute(trials.insert(), [rows.trial_values(identifier, trial) for trial in tried])  # noqa: B023
            connection.execute(runs.insert(), [rows.run_values(identifier, claim, run) for run in ended])  # noqa: B023

        store._database.write(work)


def configuration(number: int) -> Configuration:
    """A configuration of eight parameters."""
    return Configuration({f"parameter_{i}": (number >> i) * 1024 if i % 2 else number % (i + 2) == 0 for i in range(8)})


def measure(calls: Iterator[Callable[[], Any]]) -> dict[str, float]:
    """Time calls, one by one."""
    milliseconds = []
    for call in calls:
        start = time.perf_counter()
        call()
        milliseconds.append(1e3 * (time.perf_counter() - start))
    return {"median_ms": round(statistics.median(milliseconds), 2), "max_ms": round(max(milliseconds), 2)}


def answers(store: Store, repeats: int) -> dict[str, dict[str, float]]:
    """Ask what is asked in daily use."""
    known = [record.id for record in store.records(limit=10**6)]
    some = [known[i * 37 % len(known)] for i in range(repeats)]
    identifier = store.create(Experiment())
    claim = store.claim(identifier, "ada", 3600.0)
    found: dict[str, dict[str, float]] = {
        "records, first page of 50": measure(store.records for _ in some),
        "records, page of 50 at 900": measure(lambda: store.records(offset=900) for _ in some),
        "records, finished by update": measure(lambda: store.records("finished", sort="updated") for _ in some),
        "records, by name": measure(lambda: store.records(name="experiment 7") for _ in some),
        "records, sorted by name": measure(lambda: store.records(sort="name") for _ in some),
        "count": measure(lambda: store.count("finished") for _ in some),
        "record, beginning of its id": measure(lambda i=i: store.record(i[:6]) for i in some),
        "trials with facts": measure(lambda i=i: store.trials(i) for i in some),
        "trials without facts": measure(lambda i=i: store.trials(i, facts=False) for i in some),
        "stop_requested": measure(lambda: store.stop_requested(identifier) for _ in some),
        "plan": measure(
            lambda n=n: store.plan(identifier, claim, Trial(n, configuration(n)), Run(n, n, Phase.SEARCH))
            for n in range(repeats)
        ),
        "accept": measure(
            lambda n=n: store.accept(
                identifier, claim, Run(n, n, Phase.SEARCH, State.FINISHED, 1.0, 1.0, 1.0, facts=FACTS)
            )
            for n in range(repeats)
        ),
    }
    store.release(claim)
    found["delete"] = measure(lambda i=i: store.delete(i) for i in known[:3])
    return found


def main() -> None:
    """Fill, ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", nargs="?")
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_store(options.address or f"{folder}/store.db") as store:
        assert isinstance(store, SqlStore)
        if store.count() == 0:
            fill(store, options.experiments, options.runs)
        sizes = {"experiments": store.count(), "runs_each": options.runs}
        print(json.dumps({"store": store.url.partition(":")[0], **sizes, **answers(store, options.repeats)}, indent=1))


if __name__ == "__main__":
    main()
