"""Every runner keeps the contract of runners."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Space
from stripewise.models.landscape import Landscape
from stripewise.models.table import Schema, make_table
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.base import Preflight, Runner
from stripewise.runners.batch.runner import BatchRunner
from stripewise.runners.function import FunctionRunner
from stripewise.runners.local.runner import LocalRunner
from stripewise.runners.program_runner import Surroundings
from stripewise.runners.registry import make_runner
from stripewise.runners.replay import ReplayRunner
from stripewise.testing.runners import RunnerContract
from tests.fixtures import fake_slurm

SCHEMA = {
    "name": "small",
    "objective": {"column": "time", "direction": "minimize", "unit": "s"},
    "parameter": [{"name": "stripes", "kind": "ordinal", "values": [1, 2, 4], "default": 1}],
    "context": [{"name": "nodes", "kind": "ordinal", "role": "nodes", "values": [1, 2]}],
}


class TestLocal(RunnerContract):
    lasting = True
    folder: Path

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        yield

    def of(self, *command: str) -> Runner:
        return LocalRunner(Experiment(command=list(command)), self.folder / "runs", Surroundings(cwd=self.folder))

    def make(self) -> Runner:
        return self.of("sh", "-c", "echo done")

    def slow(self) -> Runner:
        return self.of("sh", "-c", "sleep 600 & sleep 600")

    def failing(self) -> Runner:
        return self.of("sh", "-c", "echo out of luck >&2; exit 7")


class TestLocalWithSetupAndHooks(TestLocal):
    def of(self, *command: str) -> Runner:
        experiment = Experiment.model_validate(
            {
                "command": list(command),
                "setup": ["FIRST=1", "export SECOND=2"],
                "hooks": {
                    "before": ["true"],
                    "after": ['test -n "$SECOND"'],
                    "delete": ["out.*"],
                    "drop_caches": "advise",
                },
            }
        )
        return LocalRunner(experiment, self.folder / "runs", Surroundings(cwd=self.folder))


@pytest.mark.slow
class TestBatch(RunnerContract):
    """Over a fake Slurm, whose jobs really run."""

    lasting = True
    folder: Path

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        programs = fake_slurm.install(tmp_path / "slurm")
        changes = {"PATH": f"{programs}:{os.environ['PATH']}", "FAKE_SLURM": str(tmp_path / "slurm" / "state")}
        self.environment = {**os.environ, **changes}
        yield
        for job in (tmp_path / "slurm" / "state").iterdir():
            fake_slurm.end(job, "CANCELLED")

    def of(self, *command: str) -> Runner:
        experiment = Experiment.model_validate(
            {"command": list(command), "runner": "batch", "batch": {"jobs": 2, "poll": 1}}
        )
        return BatchRunner(
            experiment, self.folder / "runs", Surroundings(cwd=self.folder, environment=self.environment), grace=0.5
        )

    def make(self) -> Runner:
        return self.of("sh", "-c", "echo done")

    def slow(self) -> Runner:
        return self.of("sh", "-c", "sleep 600 & sleep 600")

    def failing(self) -> Runner:
        return self.of("sh", "-c", "echo out of luck >&2; exit 7")


class TestLocalWithoutProgram(RunnerContract):
    """A program that vanishes after the preflight fails its runs, and none is lost."""

    folder: Path

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        yield

    def make(self) -> Runner:
        program = self.folder / "app"
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
        return LocalRunner(Experiment(command=["./app"]), self.folder / "runs", Surroundings(cwd=self.folder))

    def failing(self) -> Runner:
        runner = self.make()
        runner.prepare()
        (self.folder / "app").unlink()

        def prepared() -> Preflight:
            return Preflight()

        runner.prepare = prepared  # type: ignore[method-assign]
        return runner


def landscape(value: float) -> Landscape:
    rows = [
        {"stripes": stripes, "nodes": 2, "repeat": repeat, "time": value + stripes + repeat / 10}
        for stripes in (1, 2, 4)
        for repeat in range(5)
    ]
    return Landscape.of(make_table(Schema.model_validate(SCHEMA), rows), {"nodes": 2})


class TestReplay(RunnerContract):
    lasting = True

    def make(self) -> Runner:
        return ReplayRunner(landscape(1.0), seed=3)

    def slow(self) -> Runner:
        return ReplayRunner(landscape(600.0), seed=3)

    # A replayed run has ended as soon as it is started: it cannot last, but its measured time can exceed a limit.
    test_a_run_at_its_time_limit_is_failed = None  # type: ignore[assignment]

    def test_a_measured_time_beyond_the_limit_is_failed(self) -> None:
        runner = self.slow()
        outcome = self.run(runner, [self.launch(runner.prepare(), 0, timeout=1.0)])[0]
        assert (outcome.state.value, outcome.elapsed) == ("failed", 1.0)
        assert "limit of 1 s" in outcome.reason

    def test_answers_depend_on_seed_run_and_configuration_alone(self) -> None:
        def values(seed: int, numbers: list[int]) -> dict[int, float]:
            runner = ReplayRunner(landscape(1.0), seed=seed)
            preflight = runner.prepare()
            ended = self.run(runner, [self.launch(preflight, number) for number in numbers])
            return {number: outcome.metrics["time"] for number, outcome in ended.items()}

        forward = values(3, list(range(20)))
        assert values(3, list(reversed(range(20)))) == forward
        assert values(4, list(range(20))) != forward
        assert set(forward.values()) <= {2.0, 2.1, 2.2, 2.3, 2.4}
        assert len(set(forward.values())) > 2

    def test_it_brings_space_objective_and_workload_and_is_not_simulated(self) -> None:
        runner = self.make()
        preflight = runner.prepare()
        assert (runner.kind, runner.simulated) == ("replayed", False)
        assert preflight.objective == Objective("time", "minimize", "s")
        assert preflight.space is not None
        assert preflight.space.count() == (3, True)
        assert preflight.workload.nodes == 2
        assert self.run(runner, [self.launch(preflight, 0)])[0].facts.nodes == 2


class TestFunction(RunnerContract):
    def make(self) -> Runner:
        space = Space.bind([Parameter(name="x", kind=Kind.INTEGER, values=(1, 2), default=1)])
        return FunctionRunner(lambda configuration: float(configuration["x"]), space, Objective("y", "minimize", ""))

    def failing(self) -> Runner:
        space = Space.bind([Parameter(name="x", kind=Kind.INTEGER, values=(1, 2), default=1)])

        def fail(configuration: Configuration) -> float:
            raise RuntimeError("no luck\nat all")

        return FunctionRunner(fail, space, Objective("y", "minimize", ""))


def test_runners_are_made_by_name(tmp_path: Path) -> None:
    assert isinstance(make_runner(Experiment(command=[sys.executable]), tmp_path), LocalRunner)
    assert isinstance(make_runner(Experiment(runner="replay:x"), tmp_path), ReplayRunner)
    assert list(tmp_path.iterdir()) == []


class TestSimulated(RunnerContract):
    """Simulated time passes in no time, so limits and bounds are those of the simulated clock."""

    lasting = True
    folder: Path

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        (tmp_path / "site.toml").write_text(
            'name = "small"\nnodes = 4\ncores = 8\n'
            '[network]\nnode_write_bandwidth = "1 GB/s"\nnode_read_bandwidth = "1 GB/s"\n'
            '[oss]\ncount = 1\nbandwidth = "1 GB/s"\n'
            '[ost]\ncount = 2\nwrite_bandwidth = "200 MB/s"\nread_bandwidth = "200 MB/s"\n'
        )
        yield

    def of(self, size: str, changes: str = "") -> Runner:
        experiment = Experiment.model_validate(
            {
                "runner": f"sim:{self.folder / 'site.toml'}{changes}",
                "workload": {"operation": "both", "nodes": 2, "processes_per_node": 4, "file_size": size},
            }
        )
        return make_runner(experiment, self.folder / "runs")

    def make(self) -> Runner:
        return self.of("1 GiB")

    def slow(self) -> Runner:
        return self.of("1 TiB")

    def failing(self) -> Runner:
        return self.of("1 GiB", "@failures.node_lost=1")
