"""A service with experiments in every state, for the tests of its pages; a server of its own on a free port."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from dataclasses import replace

import uvicorn

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.server.app import create_app
from stripewise.desk.server.model_jobs import WORK, folder_of
from stripewise.desk.server.resources import campaigns, diagnoses, tables
from stripewise.desk.server.resources.campaigns import preset
from stripewise.desk.server.service import Settings
from stripewise.models.table import Schema, make_table, write_table
from stripewise.requests.experiment import Experiment
from stripewise.store.service.tokens import Token
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.unit.finished_experiment import finished
from tests.unit.reports import recorded

HOSTILE = "<img src=x onerror=alert(1)>"


def put(store, experiment, facts, trials, state, result=None):
    """Keep an experiment as a worker would have; gives its identifier. Trials may be made for it."""
    identifier = store.create(experiment, facts)
    trials = trials(identifier) if callable(trials) else trials
    if not trials and state == "created":
        return identifier
    claim = store.claim(identifier, "ada@node1:4711")
    add(store, identifier, claim, trials)
    # The record's own identifier belongs into its result.
    whole = None if result is None else result.model_copy(update={"experiment": identifier})
    store.update(identifier, claim=claim, state=state, facts=facts, result=whole)
    if state != "running":
        store.release(claim)
    return identifier


def add(store, identifier, claim, trials):
    """Plan, begin and accept runs in order."""
    rows = sorted(((run, trial) for trial in trials for run in trial.runs), key=lambda pair: pair[0].number)
    seen = set()
    for run, trial in rows:
        first = trial.number not in seen
        seen.add(trial.number)
        bare = replace(run, state=State.PENDING, value=None, elapsed=None, started=None, reason="")
        store.plan(identifier, claim, replace(trial, runs=()) if first else None, bare)
        if run.state is State.PENDING:
            continue
        store.begin(identifier, claim, run.number)
        if run.state is not State.RUNNING:
            store.accept(identifier, claim, run)


def fill(service, folder):
    """Put experiments in every state into a service's store; gives their identifiers."""
    record, trials = finished()
    store, made = service.store, {}

    def placed(identifier):
        """The runs, each with its output where runs of this experiment write it."""
        log = folder / "runs" / identifier / "run"
        log.mkdir(parents=True, exist_ok=True)
        (log / "stdout").write_text(f"writing 32 MiB\n{HOSTILE}\n")
        (log / "stderr").write_text("")
        return tuple(
            replace(
                trial,
                runs=tuple(
                    replace(run, facts={**run.facts, "folder": str(log), "osts": [run.number % 4],
                                        "hosts": [f"node{run.number % 2 + 1}"]})
                    for run in trial.runs
                ),
            )
            for trial in trials
        )  # fmt: skip

    facts = {**record.facts, "folder": str(folder), "submitter": "ada"}
    own = record.experiment.model_copy(update={"scratch": str(folder / "runs")})
    made["finished"] = put(store, own, facts, placed, "finished", record.result)
    surroundings = {**record.result.environment, "mpi": "MPICH 4.1"}
    other = record.result.model_copy(update={"environment": surroundings})
    twin = record.experiment.model_copy(update={"name": "kernel on another MPI"})
    made["twin"] = put(store, twin, facts, trials, "finished", other)
    known = {**facts, "space": record.result.space.model_dump(), "objective": vars(record.result.objective)}
    early = tuple(trial for trial in trials if trial.number < 6)
    early = tuple(
        replace(trial, runs=tuple(run for run in trial.runs if run.phase is not Phase.CONFIRMATION)) for trial in early
    )
    numbers = sorted(run.number for trial in early for run in trial.runs)
    fresh = {number: place for place, number in enumerate(numbers)}
    early = tuple(
        replace(trial, runs=tuple(replace(run, number=fresh[run.number]) for run in trial.runs)) for trial in early
    )
    live = record.experiment.model_copy(update={"name": "climate checkpoint"})
    made["running"] = put(store, live, known, early, "running")
    made["stopped"] = put(store, live.model_copy(update={"name": "stopped half-way"}), known, early, "stopped")
    failed = Trial(
        0, Configuration({}), Role.DEFAULT,
        (Run(0, 0, Phase.WARMUP, State.FAILED, reason="exit code 1: cannot open input.nml", elapsed=0.2, started=1.0),),
    )  # fmt: skip
    broken = Experiment(name=HOSTILE, command=["mpiexec", "-n", "4", "./my_app"], budget={"runs": 20})
    made["failed"] = put(store, broken, {"folder": str(folder)}, (failed,), "failed")
    made |= knowledge(service)
    made["created"] = store.create(Experiment(name="waits", runner="sim:kay"), {"folder": str(folder)})
    return made


def knowledge(service):
    """Put a table, a model, a validation, a campaign and a diagnosis into a service."""
    data, items = service.settings.data, service.items
    user = Token("1", "ada", "admin", 0.0)
    table = make_table(
        Schema.model_validate(
            {
                "name": "strided writes",
                "objective": {"column": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
                "context": [{"name": "nodes", "kind": "ordinal", "role": "nodes", "values": [1, 2, 4, 8]}],
                "parameter": [
                    {"name": "cb_nodes", "kind": "ordinal", "role": "aggregators", "scale": "log2",
                     "values": [1, 2, 4, 8], "default": 1},
                    {"name": "romio_cb_write", "kind": "categorical", "role": "collective_buffering",
                     "values": ["automatic", "enable", "disable"], "default": "automatic"},
                ],
            }
        ),
        [
            {"nodes": nodes, "cb_nodes": cb, "romio_cb_write": how, "repeat": repeat,
             "bandwidth": 100.0 * nodes**0.5 * (1 + cb / 4) * {"automatic": 1, "enable": 2, "disable": 0.7}[how]
             * (1 + 0.02 * repeat)}
            for nodes in (1, 2, 4, 8) for cb in (1, 2, 4, 8) for how in ("automatic", "enable", "disable")
            for repeat in range(3)
        ],
    )  # fmt: skip
    written = data / "made"
    write_table(table, written)
    csv, toml = (written.with_suffix(ending).read_text() for ending in (".csv", ".toml"))
    tables.keep(service, tables.NewTable(name="writes", csv=csv, toml=toml), user)
    asked = {"table": "writes", "options": {}, "seed": 0}
    WORK["training"](service.jobs.submit("training", "site", "ada", {"name": "site", "model": "tree", **asked}),
                     data, items, lambda: False)  # fmt: skip
    job = service.jobs.submit(
        "validation", "v1", "ada", {"model": "tree", "folds": 4, "inverse": None, "leave_out": [], **asked}
    )
    WORK["validation"](job, data, items, lambda: False)
    for queued in ("site", "v1"):
        service.jobs.stop(queued)
    campaign = campaigns.create(service, preset("quick").replace('"local"', '"sim:kay"'), user, start=False)
    place = folder_of(data, "campaign", campaign["id"])
    write_table(table, place / "table")
    log = data / "report.json"
    log.write_text(json.dumps(recorded("romio_strided_write")["default"]))
    found = diagnoses.upload_log(service, user, "job.json", log)
    return {"campaign": campaign["id"], "diagnosis": found["id"]}


@contextlib.contextmanager
def serving(folder, filled=True):
    """Run a service on a free port; gives its address, its application and the experiments' identifiers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = create_app(
        Settings(
            store=f"sqlite:///{folder}/store.db", data=folder, roots=(folder,), requests_a_second=500.0, burst=2000
        )
    )
    made = fill(app.state.service, folder) if filled else {}
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + 60
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.05)
    assert server.started, "the service did not start within a minute"
    try:
        yield f"http://127.0.0.1:{port}", app, made
    finally:
        server.should_exit = True
        thread.join(30)
