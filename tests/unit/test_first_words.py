"""What is said about an experiment, a run and a machine before anything was measured."""

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from stripewise.catalogue.workload import Workload
from stripewise.desk.cli import plan_run
from stripewise.desk.cli.main import main
from stripewise.engine import process
from stripewise.engine.definition import with_options
from stripewise.engine.protocol import TypicalRun, name_limits, protocol_points
from stripewise.errors import UserError
from stripewise.requests.experiment import Experiment
from stripewise.runners.native.compiler import Compiler
from stripewise.runners.program import checkup
from stripewise.runners.program.mpi import Mpi


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("mpiexec.mpich -n 2 /codes/bin/ior -a MPIIO", "ior"),
        ("mpirun --mca io romio321 -x A=b -np 4 ./flash", "flash"),
        ("env OMP_NUM_THREADS=1 srun -n 4 ./btio input", "btio"),
    ],
)
def test_an_experiment_is_named_by_its_program(command, name):
    assert with_options(Experiment(), command=command.split()).name == name


def test_a_program_whose_name_cannot_be_shown_makes_no_experiment_that_cannot_be_read():
    made = with_options(Experiment(), command=["/codes/\udcffior\x7f"])
    assert made.name == "?ior?"
    assert Experiment.model_validate(made.model_dump(mode="json")) == made


def test_signals_whose_handlers_a_library_had_set_are_put_back(monkeypatch):
    told = []
    monkeypatch.setattr(process.signal, "signal", lambda number, handler: told.append((number, handler)))
    with process.terminated_as_interrupted():
        told.clear()
    assert told == [(signal.SIGTERM, signal.SIG_DFL), (signal.SIGHUP, signal.SIG_DFL)]


@pytest.mark.parametrize(("operation", "asked"), [("read", False), ("both", True), ("write", True)])
def test_only_of_programs_that_write_new_files_are_expected(operation, asked):
    _, missed = protocol_points(Experiment(), 8, None, None, TypicalRun(2.0), Workload(operation=operation), False)
    assert any("new files" in point for point in missed) == asked


@pytest.mark.parametrize(("share", "told"), [(None, "alone"), (0.042, "alone, which took 4% of the default's runs")])
def test_how_much_of_the_runs_was_io_is_told(share, told):
    _, missed = protocol_points(Experiment(), 8, None, None, TypicalRun(2.0, share), Workload(), False)
    assert f"objective elapsed is not the time of I/O {told}" in missed


@pytest.mark.parametrize(
    ("experiment", "seconds", "workload", "limits"),
    [
        ({}, 0.9, {"operation": "write"}, ", for short runs whose data may have stayed in memory"),
        ({}, 0.9, {"operation": "write", "file_system": "tmpfs"}, ", for short runs with files in memory"),
        ({}, 60.0, {"operation": "write", "file_system": "tmpfs"}, ", for files in memory"),
        ({}, 60.0, {"operation": "read"}, ", for data that may have stayed in memory"),
        ({"hooks": {"drop_caches": "advise"}}, 60.0, {"operation": "read"}, ""),
        (
            {"hooks": {"drop_caches": "advise"}},
            2.0,
            {"operation": "read"},
            ", for short runs",
        ),
        ({"runner": "within"}, 0.1, {"operation": "write"}, ", for data that may have stayed in memory"),
        ({"runner": "function"}, 0.1, {"operation": "write"}, ""),
    ],
)
def test_a_proof_names_short_runs_and_data_in_memory(experiment, seconds, workload, limits):
    made, known = Experiment.model_validate(experiment), Workload.model_validate(workload)
    assert name_limits(made, seconds, known, False) == limits
    assert name_limits(made, seconds, known, True) == ""
    _, missed = protocol_points(made, 8, None, None, TypicalRun(seconds), known, False)
    assert ("the data may have stayed in memory, so these figures may not hold on disk" in missed) == (
        "may have stayed" in limits
    )


def test_observing_names_its_report(monkeypatch, tmp_path, capsys):
    started = []
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    monkeypatch.setattr(plan_run, "take_place", lambda words: started.append(words[0]))
    ready = SimpleNamespace(words=("true",), warnings=(), observed=False, injection=SimpleNamespace(environment={}))
    monkeypatch.setattr(plan_run, "prepare", lambda *_, **__: ready)
    main(["run", "--mode", "observe", "--", "true"])
    assert started == ["true"]
    said = capsys.readouterr().err.replace("\n", "")
    assert "mode observe; the report will be" in said and "report.json" in said
    assert "no settings" not in said


def test_doctor_looks_at_the_mpi_of_the_launcher_in_path(monkeypatch, tmp_path):
    launcher = tmp_path / "mpiexec"
    launcher.touch(mode=0o755)
    library = Mpi(Path("/usr/lib/libmpi.so"), "openmpi", "Open MPI v4.1.4", "3.1", "ompio", "")
    asked = []

    def compiler(mpi, launcher, environment):
        asked.append((mpi, launcher))
        return Compiler(Path("/usr/bin/mpicc"), "openmpi", "3.1", "gcc")

    monkeypatch.setattr(checkup, "library_of_launcher", lambda path: library.path if path == launcher else None)
    monkeypatch.setattr(checkup, "describe", lambda path, environment: library)
    monkeypatch.setattr(checkup, "find_compiler", compiler)
    monkeypatch.setattr(checkup, "list_drivers", lambda path: [])
    found = {check.part: check.found for check in checkup._mpi({"PATH": str(tmp_path)})}
    assert asked == [(library, launcher)]
    assert found["mpi launcher"] == str(launcher)
    assert found["mpi library"] == "Open MPI v4.1.4 (/usr/lib/libmpi.so)"


def test_doctor_without_an_mpi_says_so(monkeypatch):
    def none(*_):
        raise UserError("no compiler wrapper found for any MPI", "")

    monkeypatch.setattr(checkup, "find_compiler", none)
    assert [(check.part, check.status) for check in checkup._mpi({"PATH": ""})] == [("mpi", "missing")]
