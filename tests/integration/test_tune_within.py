"""``tune --within`` on real programs of both MPIs: one launch, from its first phase to the proof and beyond."""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.carriers import ENVIRONMENT, HINT
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.desk.cli.main import main
from stripewise.engine.definition import with_options
from stripewise.engine.session import Session
from stripewise.errors import Stopped, UserError
from stripewise.facts import Facts
from stripewise.observe.journal import JournalPhase, parse_journal
from stripewise.requests.experiment import Experiment
from stripewise.result import Result
from stripewise.runners.program_runner import Surroundings
from stripewise.runners.within.runner import WithinRunner
from stripewise.store.opening import open_store
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import Bench

PIECES, BYTES, GAP = 100, 4096, 31
"""Data sieving reads and writes 32 times as much as it must: without it, writing is many times as fast."""


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    mpi: Mpi = request.getfixturevalue(request.param)
    return Bench(mpi, tmp_path_factory)


def experiment(bench: Bench, folder: Path, count: int, between: int, **fields: Any) -> Experiment:
    romio = [] if bench.is_mpich else ["--mca", "io", "romio341"]
    program = [bench.program("checkpoints.c"), folder / "chk", count, PIECES, BYTES, GAP, between]
    options: dict[str, Any] = {
        "runner": "within",
        "objective": {"name": "phase_bandwidth"},
        "budget": {"runs": 30},
        "stacks": ["romio"],
        "parameters": {"romio_ds_write": {}, "ind_wr_buffer_size": {"exclude": True}},
    } | fields
    command = [*bench.mpi.mpiexec(1), *romio, *map(str, program)]
    return with_options(Experiment(), command=command, **options)


def answers(folder: Path) -> list[JournalPhase]:
    return [
        phase
        for path in sorted(folder.glob("launch-*/answers"))
        for phase in parse_journal(path.read_text("utf-8")).phases
    ]


def tuned(bench: Bench, folder: Path, count: int, budget: int) -> Result:
    (folder / "tuned").mkdir()
    wanted = experiment(bench, folder / "tuned", count, 20, budget={"runs": budget})
    with open_store(f"sqlite:///{folder}/store.db") as store:
        identifier = store.create(wanted, Facts(folder=str(folder)))
        runner = WithinRunner(wanted, folder / "runs", Surroundings(str(bench.library), folder))
        result = Session(store, identifier, runner, "test").run()
    orders = [phase.order for phase in answers(folder / "runs") if phase.order]
    assert orders == sorted(set(orders)) and len(list((folder / "runs").glob("launch-*"))) == 1
    assert len(answers(folder / "runs")) == count
    return result


@pytest.mark.parametrize("bench", ["mpich"], indirect=True)
def test_a_gain_is_proven_and_used_within_one_launch(bench: Bench, tmp_path: Path) -> None:
    # A busy machine needs more pairs; concluding takes about a second, in which fifty of these phases pass.
    result = tuned(bench, tmp_path, 400, 80)
    assert result.confirmed and "Proven within one launch" in result.verdict, result.verdict
    assert result.best.configuration["romio_ds_write"] == "disable" and result.speedup > 2
    kept, missed = " ".join(result.confirmation.kept), " ".join(result.confirmation.limits)
    assert "writing" in kept and "chk.#" in kept and "carry-over" in kept + missed and "one launch" in missed
    assert "I/O time up to the last pair" in kept + missed
    # Answers tell what acted, as reports of ordinary runs do.
    (effect,) = result.effects
    assert effect.status == "effective" and "piece by piece" in effect.evidence, effect
    # From the proof on, the program has what was proven.
    assert [phase.settings for phase in answers(tmp_path / "runs")[-10:]] == [{"romio_ds_write": "disable"}] * 10
    # Its files are those of a program that nobody tunes.
    (tmp_path / "plain").mkdir()
    plain = experiment(bench, tmp_path / "plain", 400, 0).command
    subprocess.run(plain, check=True, capture_output=True, cwd=tmp_path)
    for number in range(10):
        name = f"chk.{number:04d}"
        # The gaps are nobody's: where they lie behind the end of the file, data sieving writes what its buffer held.
        tuned_file, plain_file = ((tmp_path / folder / name).read_bytes() for folder in ("tuned", "plain"))
        assert len(tuned_file) == len(plain_file)
        for piece in range(0, len(plain_file), (GAP + 1) * BYTES):
            assert tuned_file[piece : piece + BYTES] == plain_file[piece : piece + BYTES], (name, piece)


@pytest.mark.parametrize("bench", ["openmpi"], indirect=True)
def test_phases_of_another_mpi_are_runs_as_well(bench: Bench, tmp_path: Path) -> None:
    result = tuned(bench, tmp_path, 100, 5)
    assert result.runs <= 5 and result.default.value
    phases = answers(tmp_path / "runs")
    tried = [phase for phase in phases if phase.settings]
    assert tried and {phase.settings["romio_ds_write"] for phase in tried} <= {"enable", "disable"}
    assert all(phase.missed == 0 for phase in tried)
    # Open MPI 5 opens files by ROMIO without the hints that it is given; they act all the same.
    usual = statistics.median(phase.seconds for phase in phases if not phase.settings)
    disabled = [phase.seconds for phase in tried if phase.settings["romio_ds_write"] == "disable"]
    assert disabled and min(disabled) < usual  # by far, but a busy machine makes single phases slow


@pytest.mark.parametrize("bench", ["mpich"], indirect=True)
def test_a_program_that_ends_too_early_leaves_an_experiment_to_resume(bench: Bench, tmp_path: Path) -> None:
    wanted = experiment(bench, tmp_path, 8, 20)
    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(wanted, Facts(folder=str(tmp_path)))
        runner = WithinRunner(wanted, tmp_path / "runs", Surroundings(str(bench.library), tmp_path))
        with pytest.raises(Stopped, match="before the experiment was decided"):
            Session(store, identifier, runner, "test").run()
        assert store.record(identifier).state == "stopped"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"objective": {"name": "elapsed"}}, "phases of one launch have no elapsed"),
        ({"hooks": {"before": ["true"]}}, "phases of one launch have none"),
    ],
)
@pytest.mark.parametrize("bench", ["mpich"], indirect=True)
def test_what_belongs_to_launches_is_refused(
    bench: Bench, tmp_path: Path, fields: dict[str, Any], complaint: str
) -> None:
    runner = WithinRunner(experiment(bench, tmp_path, 8, 0, **fields), tmp_path, Surroundings(str(bench.library)))
    with pytest.raises(UserError, match=complaint):
        runner.prepare()


@pytest.mark.parametrize("bench", ["mpich"], indirect=True)
def test_settings_of_the_launch_are_left_to_ordinary_trials(bench: Bench, tmp_path: Path) -> None:
    runner = WithinRunner(experiment(bench, tmp_path, 8, 0), tmp_path, Surroundings(str(bench.library)))
    lost = runner.prepare().lost
    threads = Parameter("threads", Kind.ORDINAL, (1, 2), 1, carrier=ENVIRONMENT, key="THREADS")
    assert "ordinary trials can search it" in lost(threads)
    assert lost(Parameter("cb_nodes", Kind.ORDINAL, (1, 2), 1, carrier=HINT)) == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--within", "--runner", "batch"], "--within and --runner batch exclude each other"),
        (["--max-loss", "3"], "belongs to trials inside one launch"),
        (["--settle"], "belongs to trials inside one launch"),
        (["--objective", "phase_bandwidth:both"], "phase_bandwidth:read or phase_bandwidth:write"),
    ],
)
def test_options_that_do_not_fit_together(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *words, "--", "true"]) == 2
    assert complaint in " ".join(capsys.readouterr().err.split())
