"""In programs with MPI the observer acts on the program's own calls of the C library, and not on those of MPI-IO."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stripewise.catalogue.carriers import LAYOUT, POSIX, Setting
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.diagnose.site import diagnose
from stripewise.engine.effects import verdicts
from stripewise.launch import Outcome
from stripewise.observe.from_report import activity_of
from stripewise.observe.left import PREFIX
from stripewise.observe.objectives.reported import IoTime, MetadataRate, WriteBandwidth
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import read_report_file, sum_reports
from stripewise.observe.workload import workload_of
from stripewise.runners.injection import Guidance, prepare
from stripewise.trial import State
from tests.formats import faults
from tests.integration.building import accelerator_library
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import HEADER, Bench

RANKS = 2


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


@pytest.fixture(scope="module")
def accelerator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return accelerator_library(tmp_path_factory)


def test_own_calls_are_told_apart_from_those_of_mpi_io(bench: Bench, accelerator: Path, tmp_path: Path) -> None:
    folder, report = tmp_path / "data", tmp_path / "report.json"
    folder.mkdir()
    outcome = bench.run(
        bench.program("own_calls.c"),
        folder,
        ranks=RANKS,
        plan=HEADER + "posix advice random\n",
        report=report,
        behind=(accelerator,),
        STRIPEWISE_PROCESSES=f"{tmp_path}/{PREFIX}",
        STRIPEWISE_POSIX="advice=random,stream_buffer=65536",
        STRIPEWISE_POSIX_FILES=f"{folder}/*",
    )
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    assert merge_parts(tmp_path, report) and faults(json.loads(report.read_text())) == []
    found = read_report_file(report)
    (shared,) = found.files
    assert shared.path == f"{folder}/shared" and shared.posix.write.bytes == RANKS * 65536
    own = [file for file in found.posix_files if file.path.startswith(f"{folder}/")]
    assert {file.path for file in own} == {f"{folder}/own.{rank}" for rank in range(RANKS)}
    for file in own:
        moved = {name: (made.count, made.bytes) for name, made in file.operations.items() if made.bytes}
        assert moved == {"write": (8, 32768), "read_at": (4, 4000)}
        assert [(s.layer, s.key, (s.acted or 0) + (s.missed or 0)) for s in file.settings] == [("posix", "advice", 1)]
    assert {process.rank for process in found.processes} == set(range(RANKS))
    assert found.job.interface is None
    assert (found.totals.bytes_written, found.totals.bytes_read) == (RANKS * (65536 + 32768), RANKS * (65536 + 4000))
    activity = activity_of(found, "report.json")
    assert {file.path: file.bytes for file in activity.files} == {
        f"{folder}/shared": RANKS * 2 * 65536,
        **{f"{folder}/own.{rank}": 32768 + 4000 for rank in range(RANKS)},
    }
    assert len(sum_reports([found, found]).posix_files) == 2 * len(found.posix_files)
    (effect,) = verdicts(Space(load_stack("posix").parameters), [Setting(POSIX, "advice", "random")], [activity], [])
    assert effect.evidence.endswith(f"of {RANKS} calls on {RANKS} files; no run without it was observed")


def test_a_plan_that_acts_on_calls_preloads_both(
    bench: Bench, accelerator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("accelerator_for", "observer_for"):
        monkeypatch.setattr(f"stripewise.runners.injection.{name}", lambda _environment: accelerator)
    command = [*bench.mpi.mpiexec(RANKS), str(bench.program("own_calls.c")), str(tmp_path)]
    plan = Plan((Setting(POSIX, "advice", "random"),))
    ready = prepare(plan, command, tmp_path / "run", library=bench.library)
    environment = ready.injection.environment
    assert environment["LD_PRELOAD"].split(":")[:2] == [str(bench.library), str(accelerator)]
    assert environment["STRIPEWISE_POSIX"] == "advice=random" and ready.observed and not ready.injection.lost
    laid = prepare(
        Plan((Setting(LAYOUT, "stripe_count", "4", "cephfs"),)), command, tmp_path / "run", library=bench.library
    )
    environment_of_layouts = laid.injection.environment
    assert environment_of_layouts["LD_PRELOAD"].split(":")[:2] == [str(bench.library), str(accelerator)]
    assert environment_of_layouts["STRIPEWISE_LAYOUT"] == "cephfs stripe_count=4" and not laid.injection.lost
    plain = prepare(Plan(()), command, tmp_path / "run", library=bench.library)
    assert environment["STRIPEWISE_REPORT"] and "STRIPEWISE_PROCESSES" not in plain.injection.environment
    looked = Guidance(mode="observe")
    seen = prepare(
        Plan(()), command, tmp_path / "run", library=bench.library, guidance=Guidance("observe", own_calls=True)
    )
    assert seen.observed and "STRIPEWISE_PROCESSES" in seen.injection.environment
    # A record or a replay counts what goes through MPI alone, and would merge no parts.
    alone = prepare(Plan(()), command, tmp_path / "run", library=bench.library, guidance=looked)
    assert not alone.observed and "STRIPEWISE_PROCESSES" not in alone.injection.environment
    many = [*bench.mpi.mpiexec(2000), *command[-2:]]
    unseen = prepare(
        Plan(()), many, tmp_path / "run", library=bench.library, guidance=Guidance("observe", own_calls=True)
    )
    assert not unseen.observed and "only MPI-IO is counted" in unseen.warnings[-1]


def test_a_program_with_a_file_for_each_rank_and_no_mpi_io_is_judged_as_a_serial_one(
    bench: Bench, accelerator: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    outcome = bench.run(
        bench.program("file_per_rank.c"),
        tmp_path,
        ranks=RANKS,
        report=report,
        behind=(accelerator,),
        STRIPEWISE_PROCESSES=f"{tmp_path}/{PREFIX}",
        STRIPEWISE_MODE="observe",
    )
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    assert merge_parts(tmp_path, report)
    found = read_report_file(report)
    # The MPI library's own files, and what it shares in memory, are not the program's.
    assert {Path(file.path).name for file in found.posix_files} == {f"rank.{rank}" for rank in range(RANKS)}
    assert not any(process.metadata for process in found.processes)
    run = Outcome(1, State.FINISHED, 1.0, 0.0, report=found)
    assert 0 < IoTime().value(run) < 100 and WriteBandwidth().value(run) > 0 and MetadataRate().value(run) > 0
    activity = activity_of(found, "report.json")
    assert activity.ranks is not None and not any("balance" in line for line in activity.unseen)
    findings = diagnose(activity).findings
    (small,) = [one for one in findings if one.kind.code == "small-writes"]
    assert f"{RANKS * 4096:,} requests" in small.says
    workload = workload_of(activity)
    assert (workload.api, workload.operation, workload.file_per_process) == ("posix", "write", True)
