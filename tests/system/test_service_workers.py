"""Eight workers share short runs over PostgreSQL; two are killed, the database restarts: each result exactly once."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stripewise.requests.experiment import Experiment
from stripewise.store.base import Store
from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.jobs import Jobs
from stripewise.trial import State
from tests.integration.conftest import Mpi, kernel, mpich  # noqa: F401  fixtures
from tests.system.postgresql import Server
from tests.system.test_postgresql import database, server  # noqa: F401  fixtures

WORKERS = 8
EXPERIMENTS = 20
RUNS = int(os.environ.get("STRIPEWISE_SERVICE_RUNS", "120")) // EXPERIMENTS

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(3600)]


@contextlib.contextmanager
def workers(url: str, folder: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start workers as separate processes, and end those that are left."""
    environment = {**os.environ, "STRIPEWISE_STORE": url, "STRIPEWISE_HOME": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "stripewise", "service", "worker", "--lease", "10", "--data", str(folder / "data")]
    with (folder / "workers.log").open("ab") as log:
        started = [subprocess.Popen(command, env=environment, stderr=log, cwd=folder) for _ in range(WORKERS)]
    try:
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)


def wait(condition: Callable[[], bool], seconds: float = 1800.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


def ended(store: Store) -> int:
    return sum(record.ended for record in store.records(limit=EXPERIMENTS))


def test_every_result_is_stored_exactly_once(
    server: Server,  # noqa: F811
    database: str,  # noqa: F811
    kernel: Callable[[Mpi], Path],  # noqa: F811
    mpich: Mpi,  # noqa: F811
    tmp_path: Path,
) -> None:
    program = kernel(mpich)
    with open_store(database) as store:
        jobs = Jobs(database_of(store))
        for number in range(EXPERIMENTS):
            experiment = Experiment.model_validate(
                {
                    "name": f"e{number}",
                    "command": [str(program), "--api", "dummy", "--write", "--segments", "{segments}"],
                    "parameters": {
                        "segments": {
                            "kind": "ordinal",
                            "values": list(range(1, 65)),
                            "default": 1,
                            "carrier": "argument",
                        }
                    },
                    "stacks": [],
                    "sampler": "random",
                    "resampling": {"kind": "simple", "repeats": 1},
                    "confirmation": {"pairs": 0},
                    "budget": {"runs": RUNS},
                    "seed": number,
                    "timeout": 60.0,
                    "hooks": {"before": [f'echo "$STRIPEWISE_RUN" >> {tmp_path}/started-{number}']},
                }
            )
            identifier = store.create(experiment, {"folder": str(tmp_path)})
            jobs.submit("experiment", identifier, "test")
        with workers(database, tmp_path) as started:
            wait(lambda: ended(store) >= EXPERIMENTS * RUNS * 0.15)
            for process in started[:2]:
                process.send_signal(signal.SIGKILL)
                process.wait()
            killed = time.monotonic()
            wait(lambda: ended(store) >= EXPERIMENTS * RUNS * 0.4)
            server.stop("immediate")
            time.sleep(2.0)
            server.start()
            wait(lambda: store.count("finished") + store.count("failed") == EXPERIMENTS)
            # A worker that is ended between its last run and this note hands the job back: wait for the notes, too.
            wait(lambda: jobs.counts()["queued"] + jobs.counts()["running"] == 0)
            assert all(process.poll() is None for process in started[2:]), "a worker did not outlive the restart"
        assert time.monotonic() > killed
        restarted = 0
        for record in store.records(limit=EXPERIMENTS):
            assert (record.state, record.runs, record.ended) == ("finished", RUNS, RUNS), (record.id, record.state)
            runs = [run for trial in store.trials(record.id, facts=True) for run in trial.runs]
            assert sorted(run.number for run in runs) == list(range(RUNS))
            assert all(run.state is State.FINISHED and run.value is not None for run in runs), record.id
            assert len({(run.trial, run.number) for run in runs}) == RUNS
            # What really was launched: each run once, and once more where its worker was killed or lost its claim.
            launched = Counter((tmp_path / f"started-{record.experiment.name[1:]}").read_text().split())
            assert set(launched) == {str(number) for number in range(RUNS)}
            again = {number: count - 1 for number, count in launched.items() if count > 1}
            attempts = {str(run.number): int(run.facts.get("attempt", 0)) for run in runs if run.facts.get("attempt")}
            assert again.keys() <= attempts.keys(), (again, attempts)
            restarted += sum(again.values())
        assert restarted <= 2 + WORKERS
        counts = jobs.counts()
        assert (counts["queued"], counts["running"], counts["failed"]) == (0, 0, 0), counts
        assert counts["done"] == EXPERIMENTS
