"""How near a program is to what the storage gives: arithmetic, words, the benchmark's launch, and the search."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.configuration import Configuration, find_changes
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.causes.models import Calibration, TimeModel
from stripewise.diagnose.ceiling import ceiling_for
from stripewise.engine.ceiling import as_benchmark, ceiling_of, lay_out, reached, why_none
from stripewise.engine.ledger import Spent
from stripewise.engine.loop import Finish, Planned, Wait
from stripewise.engine.planner import Planner
from stripewise.engine.session import Session
from stripewise.engine.space import Circumstances, bind_space
from stripewise.errors import UserError
from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.models.table import Column, ObjectiveColumn, Schema, make_table, write_table
from stripewise.observe.activity import Activity
from stripewise.observe.ceiling import Ceiling, near
from stripewise.observe.report import Report
from stripewise.requests.experiment import Budget, Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.base import AnsweringRunner, Preflight
from stripewise.search.base import make_sampler
from stripewise.search.policy.pruning import make_pruner
from stripewise.search.policy.resampling import make_resampler
from stripewise.search.policy.stopping import make_stopping
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.unit.reports import recorded

MIB = 1 << 20
WRITES = recorded("romio_strided_write")["default"]
ELAPSED = Objective("elapsed", "minimize", "s")


def report(
    seconds: float, *, written: int = 64 * MIB, read: int = 0, synced: bool = False, **file: Any
) -> dict[str, Any]:
    """A report of four ranks on one shared file."""
    data: dict[str, Any] = json.loads(json.dumps(WRITES))
    data["job"] |= {"io_time": seconds, "ranks": 4, "elapsed": 2 * seconds}
    data["totals"] |= {
        "bytes_written": written,
        "bytes_read": read,
        "write_time": seconds,
        "read_time": seconds if read else None,
    }
    one = data["files"][0]
    one |= {"path": "/scratch/chk.dat", "size": written or read, "ranks": 4, **file}
    if synced:
        one["operations"]["sync"] = {"count": 4, "time_sum": 0.1}
    data["files"] = [one]
    return data


def run(number: int, trial: int, seconds: float, phase: Phase = Phase.SEARCH, **about: Any) -> Run:
    about |= {"path": "/scratch/stripewise-ceiling.abc.2/stripewise-ceiling.dat"} if trial == 1 else {}
    facts = RunFacts(report=report(seconds, **about))
    return Run(number, trial, phase, State.FINISHED, None if trial == 1 else seconds, seconds, facts=facts)


def trials(program: float, benchmark: float, best: float | None = None, **about: Any) -> list[Trial]:
    made = [
        Trial(0, Configuration({}), Role.DEFAULT, tuple(run(n, 0, program, **about) for n in (0, 1))),
        Trial(1, Configuration({}), Role.CEILING, (run(2, 1, benchmark, Phase.WARMUP, **about),)),
    ]
    if best is not None:
        runs = tuple(run(n, 2, best, **about) for n in (3, 4))
        made.append(Trial(2, Configuration({"stripes": 4}), Role.CANDIDATE, runs))
    return made


def test_the_ceiling_is_compared_by_time_in_io() -> None:
    made = trials(1.0, 0.62, 0.775)
    found = ceiling_of(made, made[2])
    assert found is not None and found.default == pytest.approx(0.62) and found.best == pytest.approx(0.8)
    assert found.says == (
        "now at 62% of what this storage gives to 4 ranks, and at 80% with the settings that are proven, by time in "
        "I/O (write 103.2 MiB/s in large contiguous pieces, which may be in memory, by one launch of a benchmark)"
    )
    assert ceiling_of(made[:1]) is None


@pytest.mark.parametrize(
    ("benchmark", "best", "times"), [(1.2, None, "1.20"), (1.04, None, "1.04"), (0.9, 0.5, "1.80")]
)
def test_a_program_above_the_ceiling_is_told_so(benchmark: float, best: float | None, times: str) -> None:
    made = trials(1.0, benchmark, best)
    found = ceiling_of(made, made[-1] if best else None)
    assert found is not None and found.says.startswith(
        f"the ceiling of this storage is unknown: by time in I/O, the program was {times} times as fast as a "
    )
    assert "%" not in found.says


def test_like_is_compared_with_like() -> None:
    made = trials(1.0, 0.5, synced=True)
    assert "each file on the disk" in (ceiling_of(made) or Ceiling()).says
    fewer = report(0.5, path="/scratch/stripewise-ceiling.abc.2/stripewise-ceiling.dat")
    fewer["job"]["ranks"] = 2
    other = replace(made[1], runs=(replace(made[1].runs[0], facts=RunFacts(report=fewer)),))
    assert ceiling_of([made[0], other]) is None
    itself = replace(made[1], runs=(replace(made[1].runs[0], facts=RunFacts(report=report(0.5))),))
    assert ceiling_of([made[0], itself]) is None
    ceiling = Ceiling(rates={"write": 1e8}, ranks=4)
    assert ceiling.share(trials(1.0, 1.0, written=0, read=64 * MIB)[0].runs[0].activity) is None
    assert ceiling.share(None) is None and ceiling.says == ""
    both = trials(1.0, 0.5, written=32 * MIB, read=32 * MIB)
    assert (ceiling_of(both) or Ceiling()).default == pytest.approx(0.5)


def launched(made: list[Trial]) -> tuple[list[str], Launch]:
    launch = Launch("abc", 2, Configuration({}), Plan(), Phase.WARMUP, program="app")
    launch = as_benchmark(launch, ["mpiexec", "-n", "4", "/opt/kernel"], made[0])
    assert launch.command is not None and launch.program == "" and launch.replays
    return shlex.split(launch.command), launch


def test_the_benchmark_writes_the_programs_bytes_in_large_pieces() -> None:
    words, launch = launched(trials(1.0, 1.0))
    assert words[:4] == ["mpiexec", "-n", "4", "/opt/kernel"]
    given = dict(zip(words[4::2], words[5::2], strict=False))
    assert given["--file"] == "/scratch/stripewise-ceiling.abc.2/stripewise-ceiling.dat"
    assert (given["--block"], given["--transfer"]) == (str(16 * MIB), str(16 * MIB))
    assert "--write" in words and not {"--fsync", "--read", "--reorder", "--file-per-process"} & set(words)
    assert len(launch.before) == 1 and launch.after == ("rm -rf /scratch/stripewise-ceiling.abc.2",)


def test_the_benchmark_writes_into_a_folder_of_its_own_and_through_no_link(tmp_path: Path) -> None:
    """Where everyone may write, another user could put a link there: the file's name is known."""
    _, launch = launched(trials(1.0, 1.0, path=str(tmp_path / "out file")))
    folder, (made,) = tmp_path / "stripewise-ceiling.abc.2", launch.before
    (tmp_path / "precious").mkdir()
    folder.symlink_to("precious")
    assert subprocess.run(["sh", "-c", made], check=False, capture_output=True).returncode
    folder.unlink()
    for _ in range(2):  # it may be left of a launch that was killed
        subprocess.run(["sh", "-c", made], check=True)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    subprocess.run(["sh", "-c", *launch.after], check=True)
    assert not folder.exists()


def test_the_benchmark_does_as_the_program_does() -> None:
    assert "--fsync" in launched(trials(1.0, 1.0, synced=True))[0]
    words, launch = launched(trials(1.0, 1.0, written=0, read=64 * MIB))
    assert {"--read", "--keep", "--reorder"} <= set(words) and "--write" not in words
    assert len(launch.before) == 2 and launch.before[1].endswith("--write --keep")
    writes = trials(1.0, 1.0)[0].runs[0].activity
    assert writes is not None
    again = launched(trials(1.0, 1.0, size=writes.files[0].upper.write.bytes // 3))[0]
    assert again[again.index("--repetitions") + 1] == "3"


def test_the_benchmarks_file_is_laid_out_as_the_catalogue_expects_best() -> None:
    known = {"operation": "write", "nodes": 16, "processes_per_node": 4, "file_size": 64 << 30, "file_system": "lustre"}
    workload = Workload(**known, layout="strided", collective=True, driver="LUSTRE", api="mpiio")
    experiment = Experiment(command=["./app"], stacks=["lustre", "romio"], files="chk.*")
    bound = bind_space(experiment, Circumstances(workload, "romio", "MPICH 4.0.2"))
    chosen = find_changes(lay_out(bound, workload), bound.space.default)
    assert set(chosen) == {"stripe_count"} and int(chosen["stripe_count"]) > 4
    launch = Launch("abc", 2, Configuration({}), Plan(files="chk.*"), Phase.WARMUP)
    assert as_benchmark(launch, ["kernel"], trials(1.0, 1.0)[0]).plan.files == "*"


def test_no_ceiling_is_measured_where_it_would_not_be_one(tmp_path: Path) -> None:
    default, forty = trials(1.0, 1.0)[0], Experiment(command=["./app"], budget=Budget(runs=40))
    here = trials(1.0, 1.0, path=f"{tmp_path}/chk.dat")[0]
    assert why_none(forty, here, lambda: ("kernel",)) == ""
    assert why_none(forty, here, None) is None
    for changes in ({"ceiling": False}, {"budget": Budget(runs=29)}):
        assert why_none(forty.model_copy(update=changes), here, lambda: ("kernel",)) is None
    assert "No such file" in (why_none(forty, default, lambda: ("kernel",)) or "")

    def broken() -> tuple[str, ...]:
        raise UserError("no compiler was found", "install one")

    assert "no compiler" in (why_none(forty, here, broken) or "")
    small = trials(1.0, 1.0, written=MIB, path=f"{tmp_path}/chk.dat")[0]
    assert why_none(forty, small, lambda: ("kernel",)) is None
    cold = forty.model_copy(update={"hooks": forty.hooks.model_copy(update={"drop_caches": "advise"})})
    assert why_none(cold, here, lambda: ("kernel",)) == ""
    reads = trials(1.0, 1.0, written=0, read=64 * MIB, path=f"{tmp_path}/chk.dat")[0]
    assert "empty caches" in (why_none(cold, reads, lambda: ("kernel",)) or "")


def planner(**more: Any) -> Planner:
    parts = (make_sampler("random"), make_resampler(), make_pruner(), make_stopping())
    space = Space.bind([Parameter("stripes", Kind.ORDINAL, (1, 2, 4, 8, 16, 32), 1)])
    return Planner(Experiment(command=["./app"], budget=Budget(runs=40)), ELAPSED, space, False, *parts, **more)


def test_the_benchmark_comes_once_after_the_default_and_teaches_the_sampler_nothing() -> None:
    made = trials(1.0, 0.6)
    with_it = planner(ceiling=Configuration({"stripes": 32}))
    step = with_it.next(made[:1], Spent(2, 0, 0))
    assert isinstance(step, Planned) and (step.trial.role, step.run.phase) == (Role.CEILING, Phase.WARMUP)
    assert step.trial.configuration == {"stripes": 32}
    waiting = replace(made[1], runs=(Run(2, 1, Phase.WARMUP, State.RUNNING),))
    assert isinstance(with_it.next([made[0], waiting], Spent(3, 0, 0)), Wait)
    failed = replace(made[1], runs=(Run(2, 1, Phase.WARMUP, State.FAILED),))
    for ended in (made, [made[0], failed]):
        step = with_it.next(ended, Spent(3, 0, 0))
        assert isinstance(step, Planned) and step.trial.role is Role.CANDIDATE
        assert [one.role for one in with_it.history(ended).trials] == [Role.DEFAULT]
    step = planner().next(made[:1], Spent(2, 0, 0))
    assert isinstance(step, Planned) and step.trial.role is Role.CANDIDATE


@pytest.mark.parametrize(("program", "benchmark", "ends"), [(1.0, 0.99, True), (1.0, 0.9, False), (1.0, 1.2, False)])
def test_the_search_ends_near_the_ceiling_and_only_there(program: float, benchmark: float, ends: bool) -> None:
    made = trials(program, benchmark)
    assert bool(reached(made, None)) is ends
    step = planner(ceiling=Configuration({})).next(made, Spent(3, 0, 0))
    assert isinstance(step, Finish if ends else Planned)
    best = trials(2 * program, benchmark, program)
    assert bool(reached(best, 2)) is ends and not reached(best, None)
    once = replace(best[2], runs=best[2].runs[:1])
    assert not reached([*best[:2], once], 2)
    assert near(0.98) and near(1.02) and not near(1.1) and not near(None)


def activity(ranks: int = 8, **about: Any) -> Activity:
    found = trials(1.0, 1.0, **about)[0].runs[0].activity
    assert found is not None
    return found.model_copy(update={"job": found.job.model_copy(update={"ranks": ranks})})


def campaign(folder: Path) -> Path:
    columns = [
        Column(name="nodes", kind="ordinal", role="nodes", values=[1, 2]),
        Column(name="each", kind="ordinal", role="processes_per_node", values=[4]),
        Column(name="size", kind="ordinal", role="file_size", values=[64 * MIB]),
        Column(name="way", kind="categorical", role="operation", values=["write"]),
    ]
    stripes = Column(name="stripes", kind="ordinal", role="stripe_count", values=[1, 4], default=1)
    schema = Schema(
        name="site", objective=ObjectiveColumn(direction="maximize", unit="MiB/s"), context=columns, parameter=[stripes]
    )
    base = {"each": 4, "size": 64 * MIB, "way": "write"}
    rows = [(1, 1, 40.0), (1, 4, 50.0), (2, 1, 100.0), (2, 4, 126.0), (2, 4, 128.0), (2, 4, 900.0)]
    made = [{**base, "nodes": n, "stripes": s, "objective": v, "repeat": i} for i, (n, s, v) in enumerate(rows)]
    write_table(make_table(schema, made), folder / "site.csv")
    return folder / "site.csv"


def test_a_campaign_gives_the_ceiling_of_as_many_ranks(tmp_path: Path) -> None:
    found = ceiling_for(campaign(tmp_path), activity())
    assert found.rates == pytest.approx({"write": 128.0 * MIB}) and found.default == pytest.approx(0.5)
    assert "now at 50% of what this storage gives to 8 ranks, by time in I/O (write 128 MiB/s" in found.says
    assert f"by {tmp_path}/site.csv" in found.says
    with pytest.raises(UserError, match=r"no write with 5 ranks; .*ranks of the table: 4, 8"):
        ceiling_for(tmp_path / "site.csv", activity(5))


def test_a_calibration_gives_the_ceiling_of_one_process(tmp_path: Path) -> None:
    models = {
        "write": {
            "cached": TimeModel(0.0, 1 / (256 * MIB), 0.1, 4096, MIB, 20),
            "uncached": TimeModel(0.0, 1 / (128 * MIB), 0.1, 4096, MIB, 20),
        }
    }
    path = tmp_path / "site.json"
    path.write_text(Calibration(models).text())
    assert ceiling_for(path, activity(1)).default == pytest.approx(0.25)
    assert ceiling_for(path, activity(1, synced=True)).default == pytest.approx(0.5)
    with pytest.raises(UserError, match=r"of one process, and the job has 8 ranks; .*campaign"):
        ceiling_for(path, activity(8))
    with pytest.raises(UserError, match="no reads"):
        ceiling_for(path, activity(1, written=0, read=64 * MIB))


class Program(AnsweringRunner):
    """Writes 64 MiB with four ranks in as many seconds as it is given."""

    name = "program"
    kind = "replayed"

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def prepare(self) -> Preflight:
        return Preflight(io="romio", environment={"mpi": "MPICH 5.0.2"})

    def answer(self, launch: Launch) -> Outcome:
        found = Report.model_validate(report(self._seconds))
        return Outcome(launch.number, State.FINISHED, self._seconds, launch.number, exit_code=0, report=found)


@pytest.mark.parametrize(("seconds", "share"), [(4.0, 0.32), (1.28, 1.0)])
def test_a_search_takes_the_ceiling_of_a_file_and_launches_no_benchmark(
    tmp_path: Path, seconds: float, share: float
) -> None:
    experiment = Experiment(command=["app"], stacks=["romio"], budget=Budget(runs=20), ceiling=str(campaign(tmp_path)))
    assert not experiment.model_copy(update={"budget": Budget(runs=40)}).measures_ceiling
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        identifier = store.create(experiment)
        result = Session(store, identifier, Program(seconds), "test").run()
        roles = {trial.role for trial in store.trials(identifier)}
    assert roles == {Role.DEFAULT, Role.CANDIDATE}
    assert result.ceiling is not None and result.ceiling.default == pytest.approx(share)
    assert result.ceiling.origin == f"{tmp_path}/site.csv"
    assert ("as fast as a benchmark" in result.search_ended) is (share == 1.0)


def test_phases_of_one_launch_have_no_other_launch_for_the_ceiling() -> None:
    many = {"command": ["-"], "budget": {"runs": 140}}
    assert Experiment.model_validate(many).measures_ceiling
    assert not Experiment.model_validate({**many, "runner": "within"}).measures_ceiling


def test_a_file_of_a_ceiling_that_does_not_exist_costs_no_run(tmp_path: Path) -> None:
    experiment = Experiment(command=["app"], stacks=["romio"], budget=Budget(runs=14), ceiling=f"{tmp_path}/no.csv")
    with open_store(f"sqlite:///{tmp_path}/s.db") as store:
        identifier = store.create(experiment)
        with pytest.raises(UserError, match=r"there is no file .*no\.csv"):
            Session(store, identifier, Program(1.0), "test").run()
        assert not store.trials(identifier)
