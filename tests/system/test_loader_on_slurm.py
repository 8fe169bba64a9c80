"""A loader without MPI as a step of a Slurm job: each rank and its worker processes are observed, and it is tuned."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stripewise.observe.report import parse_report
from stripewise.trial import State
from tests.system.slurm_support import Case

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.testbed, pytest.mark.timeout(600)]
LOADER = Path(__file__).parents[2] / "examples" / "training" / "loader.py"
RANKS, WORKERS = 2, 1
SIZE = 32 << 20


@pytest.fixture(params=["npy", "h5"])
def samples(request: pytest.FixtureRequest, case: Case) -> Iterator[Path]:
    """Samples on CephFS, as jobs see them."""
    outside = case.bed.ceph.mount(1) / f"samples.{request.param}"
    subprocess.run([sys.executable, str(LOADER), "make", str(outside)], check=True, timeout=120)
    yield case.bed.shared / outside.name
    outside.unlink()


def test_ranks_and_their_workers_are_observed_and_tuned(case: Case, samples: Path) -> None:
    experiment = case.folder / "experiment.toml"
    experiment.write_text(
        f'command = "srun -n {RANKS} {sys.executable} {LOADER} train {samples}"\nrunner = "batch"\n'
        'objective = "io_time"\ntimeout = 90\nwarmup = 0\nbudget = 4\nsampler = "exhaustive"\n'
        f"env = {{ NUM_WORKERS = '{WORKERS}' }}\n"
        f'[workload]\noperation = "read"\nnodes = 1\nprocesses_per_node = {RANKS}\n'
        "[parameters.batch]\nenv = 'READ_BATCH'\nvalues = [1, 4, 64]\ndefault = 1\n"
        "[batch]\njobs = 2\npoll = 1\n[confirmation]\npairs = 0\n[pruning]\nkind = 'none'\n"
    )
    result = case.finish(case.start("tune", str(experiment), "--json", "--yes"))
    runs = case.runs()
    assert result["runs"] == len(runs) == 4
    assert {run.state for run in runs} == {State.FINISHED}, [run.reason for run in runs]
    for run in runs:
        report = parse_report(run.facts.report)
        assert run.value == report.job.io_time > 0
        assert (report.job.interface, report.job.ranks, report.job.complete) == ("posix", RANKS, True)
        (file,) = [file for file in report.files if file.path == str(samples)]
        # Each rank's trainer and worker; what both ranks read, they read whole.
        assert file.ranks == RANKS
        assert sum(made.bytes for name, made in file.operations.items() if name.startswith("read")) >= RANKS * SIZE
        for rank in range(RANKS):
            own = [process for process in report.processes if process.rank == rank and process.script == LOADER.name]
            readers = [process for process in own if process.bytes_read >= SIZE]
            assert len(own) >= 1 + WORKERS and len(readers) == WORKERS
            assert {reader.parent for reader in readers} <= {process.pid for process in own}
    if samples.suffix == ".h5":
        return  # HDF5 reads whole chunks, however many samples are asked for
    reads = [sum(process.reads for process in parse_report(run.facts.report).processes) for run in runs]
    assert max(reads) > 2 * min(reads), "the variable reached the program"
