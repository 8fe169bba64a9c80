"""A real launch of the benchmark in a program's place, which shows what the storage gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stripewise.engine.session import Session
from stripewise.requests.experiment import Budget, Experiment
from stripewise.runners.local.runner import LocalRunner
from stripewise.runners.program_runner import Surroundings
from stripewise.store.opening import open_store
from stripewise.trial import Role, State
from tests.integration.building import cache_home
from tests.integration.conftest import Mpi


def test_the_benchmark_is_launched_with_the_programs_ranks_and_bytes(
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    mpich: Mpi,
    kernel: Callable[[Mpi], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home(tmp_path_factory)))
    monkeypatch.setenv("PATH", f"{mpich.mpicc.parent}:/usr/bin:/bin")
    program = [*mpich.mpiexec(2), str(kernel(mpich)), "--file", str(tmp_path / "chk.dat"), "--write", "--keep"]
    command = [*program, "--layout", "strided", "--block", "4M", "--transfer", "64K", "--piece", "4K", "--collective"]
    experiment = Experiment(command=command, budget=Budget(runs=30), warmup=0, stacks=["romio"])
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        identifier = store.create(experiment)
        runner = LocalRunner(experiment, tmp_path / "runs", Surroundings(cwd=tmp_path))
        steps = Session(store, identifier, runner, "test").steps()
        found = None
        while found is None or not found.runs or not found.runs[0].state.ended:
            next(steps)
            found = next((one for one in store.trials(identifier) if one.role is Role.CEILING), None)
        steps.close()
        (run,) = next(one for one in store.trials(identifier) if one.role is Role.CEILING).runs
    assert run.state is State.FINISHED and run.value is None
    assert run.activity is not None and run.activity.job.ranks == 2
    assert run.activity.directions["write"].bytes == 8 << 20
    (file,) = [file for file in run.activity.files if file.bytes]
    assert file.path.startswith(f"{tmp_path}/stripewise-ceiling.") and file.upper.write.count == 2
    assert sorted(path.name for path in tmp_path.glob("*.dat*")) == ["chk.dat"]
    assert not list(tmp_path.glob("stripewise-ceiling*"))
