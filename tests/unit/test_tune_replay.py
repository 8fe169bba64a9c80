"""Searching on replays of a record, and proving on the program."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stripewise.catalogue.carriers import Program
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.engine.definition import with_options
from stripewise.engine.fidelity import Done
from stripewise.engine.launching import run_timeout
from stripewise.engine.session import Session
from stripewise.errors import UserError
from stripewise.formats import REPLAY_MARK
from stripewise.launch import Launch, Outcome
from stripewise.observe.record_reading import read_record
from stripewise.observe.report import Report, parse_report
from stripewise.requests.experiment import Budget, Experiment, Replay
from stripewise.requests.from_python import space_of
from stripewise.requests.objective import Objective
from stripewise.runners.base import AnsweringRunner, Preflight
from stripewise.runners.local.runner import LocalRunner
from stripewise.runners.program.command import split_command
from stripewise.runners.program_runner import Found
from stripewise.runners.replayer import Replayer
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Role, Run, State, Trial

STEPS = Path(__file__).resolve().parents[1] / "fixtures" / "records" / "steps.record"
RECORD = read_record(STEPS)
REPLAY = Replay(record=str(STEPS), folder="/nowhere/stripewise-replay")
EXPERIMENT = Experiment(command=["mpiexec", "-n", "4", "./x"], replay=REPLAY, budget=Budget(runs=20), sampler="random")


def report_of(done: Done, io_time: float) -> Report:
    """What the runtime reports of a replay, which also reads its record: beside MPI-IO, in the totals alone."""
    operations = {name: {"count": n, "bytes": 0} for name, n in done.calls.items()}
    for way, moved in (("read", done.read), ("write", done.written)):
        if moved:
            operations[next(name for name in operations if way in name)]["bytes"] = moved
    return parse_report(
        {
            "format": "stripewise-report",
            "version": 1,
            "job": {"ranks": 4, "nodes": 1, "elapsed": 9.0, "io_time": io_time},
            "totals": {"bytes_read": done.read + STEPS.stat().st_size, "bytes_written": done.written},
            "files": [{"path": "/a", "operations": operations}],
        }
    )


class Cluster(AnsweringRunner):
    """A program of 100 s and its replays of 1 s; the better of two settings saves half of either."""

    name = "cluster"

    def __init__(self, slower: float = 1.0) -> None:
        super().__init__()
        self.slower = slower
        self.launches: list[Launch] = []

    def prepare(self) -> Preflight:
        replayer = Replayer(("mpiexec", "-n", "4"), Path("/bin/stripewise-replay"), REPLAY, RECORD)
        return Preflight(
            space=space_of({"x": [1, 2]}, {"x": 1}, []),
            objective=Objective("elapsed", "minimize", "s"),
            replayer=replayer,
        )

    def answer(self, launch: Launch) -> Outcome:
        self.launches.append(launch)
        faster = 0.5 if launch.configuration.get("x") == 2 else 1.0
        seconds = (1.0 if launch.command else 100.0) * faster * (1 + 0.001 * (launch.number % 5))
        report = report_of(Done.by_record(RECORD), RECORD.io_time * self.slower) if launch.command else None
        return Outcome(
            launch.number, State.FINISHED, seconds, 0.0, exit_code=0, report=report, metrics={"elapsed": seconds}
        )


def test_the_search_launches_replays_and_the_proof_the_program(tmp_path: Path) -> None:
    store, runner = open_store(f"sqlite:///{tmp_path}/s.db"), Cluster()
    found = Session(store, store.create(EXPERIMENT), runner, "test").run()
    replays = [launch for launch in runner.launches if launch.phase is not Phase.CONFIRMATION]
    proof = [launch for launch in runner.launches if launch.phase is Phase.CONFIRMATION]
    assert replays and proof and not any(launch.command or launch.before or launch.replays for launch in proof)
    for launch in replays:
        assert launch.command is not None and launch.command.endswith("--only calls") and launch.replays
        assert launch.before[0].endswith("--only prepare") and "/nowhere/stripewise-replay-" in launch.before[0]
    assert found.confirmed and found.speedup == pytest.approx(2, rel=0.02)
    assert found.default.value == pytest.approx(100, rel=0.01) and "on the program, after a search" in found.verdict
    assert found.replays is not None and found.replays.runs == len(replays)
    assert found.replays.candidate == pytest.approx(0.5, rel=0.01) and found.replays.faithful["faithful"]
    # The program takes longer than its replays; the machine did not change.
    assert found.level.changes == ()


@pytest.mark.parametrize("replays", [False, True])
def test_the_own_calls_of_a_replay_are_not_counted(tmp_path: Path, replays: bool) -> None:
    """It reads the record by them, which the program does not."""
    launch = Launch("ab12", 0, Configuration({}), Plan(), Phase.SEARCH, replays=replays)
    libraries = Path("/lib/libstripewise.so"), Path("/lib/libstripewise-observer.so")
    line, program = split_command(["mpiexec", "-n", "4", "./app"]), Program(abi="mpich", io="romio")
    target: Any = SimpleNamespace(line=line, program=program, mpi="mpich")
    runner = LocalRunner(EXPERIMENT, tmp_path)
    runner._found = Found({}, target, str(libraries[0]), observer=libraries[1])
    made = runner.assemble(launch, target)
    loaded = made.injection.environment["LD_PRELOAD"].split(":")
    assert loaded == [str(library) for library in (libraries[:1] if replays else libraries)]
    assert ("STRIPEWISE_PROCESSES" in made.injection.environment) is not replays


def test_only_folders_of_replays_are_deleted(tmp_path: Path) -> None:
    replay = REPLAY.model_copy(update={"folder": str(tmp_path / "files")})
    for name in ("files-ab12", "files-ab12.3", "files-ab12-by-hand", "files-cd34"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data").touch()
    for name in ("files-ab12", "files-ab12.3", "files-cd34"):
        (tmp_path / name / REPLAY_MARK).touch()
    Replayer(("mpiexec",), Path("/bin/stripewise-replay"), replay, RECORD).delete_folders("ab12")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files-ab12-by-hand", "files-cd34"]


def test_no_search_on_replays_that_are_not_faithful(tmp_path: Path) -> None:
    store, runner = open_store(f"sqlite:///{tmp_path}/s.db"), Cluster(slower=3.0)
    with pytest.raises(UserError, match=r"not faithful to the program: its I/O took 3\.00 times"):
        Session(store, store.create(EXPERIMENT), runner, "test").run()
    assert len(runner.launches) == 2


def test_the_time_limit_of_the_program_does_not_follow_from_its_replays() -> None:
    runs = [Run(0, 0, Phase.SEARCH, state=State.FINISHED, elapsed=1.0)]
    trials = (Trial(0, {}, Role.DEFAULT, tuple(runs)),)
    assert run_timeout(EXPERIMENT, trials, None) == 60
    assert run_timeout(EXPERIMENT, trials, None, Phase.CONFIRMATION) == 3600
    runs.append(Run(1, 0, Phase.CONFIRMATION, state=State.FINISHED, elapsed=100.0))
    trials = (Trial(0, {}, Role.DEFAULT, tuple(runs)),)
    assert run_timeout(EXPERIMENT, trials, None) == 60
    assert run_timeout(EXPERIMENT, trials, None, Phase.CONFIRMATION) == 3000


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"runner": "within"}, "runner within launches no replays"),
        ({"objective": {"name": "regex:t=([0-9.]+)", "direction": "minimize"}}, "cannot be measured on replays"),
    ],
)
def test_what_replays_cannot_measure_is_refused(given: dict[str, object], why: str) -> None:
    with pytest.raises(UserError, match=why):
        with_options(Experiment(), command=["./x"], replay={"record": str(STEPS)}, **given)
