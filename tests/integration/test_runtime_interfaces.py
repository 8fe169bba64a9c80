"""Programs that reach MPI-IO through h5py and PnetCDF: observed, tuned, unchanged."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from stripewise.engine.space import Circumstances, bind_space
from stripewise.observe.from_report import activity_of
from stripewise.observe.report import parse_report
from stripewise.observe.workload import workload_of
from stripewise.requests.experiment import Experiment
from tests.conftest import require
from tests.integration.hdf5_support import Hdf5Bench, debian_mpi, differences
from tests.integration.runtime_support import HEADER, PROGRAMS, Outcome

RANKS = 2
PYTHON = Path("/usr/bin/python3")
BYTES = RANKS * 8 * 64 * 8


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Hdf5Bench:
    """Debian's h5py and PnetCDF are built for Open MPI."""
    return Hdf5Bench(debian_mpi("openmpi"), tmp_path_factory)


def h5py(bench: Hdf5Bench, file: Path, plan: str | None = None, *, preload: bool = True) -> Outcome:
    outcome = bench.run(PYTHON, PROGRAMS / "h5py_rows.py", file, ranks=RANKS, plan=plan, preload=preload)
    assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
    return outcome


@pytest.mark.usefixtures("romio")
def test_h5py_programs_are_observed_and_tuned(bench: Hdf5Bench, tmp_path: Path) -> None:
    probe = [str(PYTHON), "-c", "import mpi4py, h5py._debian_h5py_mpi"]
    require(subprocess.run(probe, capture_output=True, check=False).returncode == 0, "apt install python3-h5py-mpi")
    plain, tuned = tmp_path / "plain.h5", tmp_path / "tuned.h5"
    h5py(bench, plain, preload=False)
    seen = h5py(bench, tuned)
    (dataset,) = seen.file("tuned.h5")["hdf5"]["datasets"]
    assert (dataset["name"], dataset["size"], dataset["address"] % 65536 != 0) == ("/rows", [8 * RANKS, 64], True)
    assert (dataset["write"]["calls"], dataset["write"]["collective"], dataset["write"]["bytes"]) == (
        *(RANKS, RANKS, BYTES),
    )
    assert (dataset["read"]["independent"], dataset["read"]["bytes"]) == (RANKS, BYTES)
    plan = HEADER + "hdf5 alignment 65536\nhdf5 alignment_threshold 1024\nhint cb_nodes 2\n"
    outcome = h5py(bench, tuned, plan)
    assert outcome.setting("tuned.h5", "alignment")["echoed"] == "65536"
    assert outcome.file("tuned.h5")["hdf5"]["datasets"][0]["address"] % 65536 == 0
    assert outcome.setting("tuned.h5", "cb_nodes")["outcome"] == "applied"
    assert differences(plain, tuned) == ""


@pytest.mark.usefixtures("romio")
def test_pnetcdf_programs_are_observed_and_tuned(bench: Hdf5Bench, tmp_path: Path) -> None:
    require(Path("/usr/include/pnetcdf.h").exists(), "no PnetCDF: apt install libpnetcdf-dev")
    program = bench.program("pnetcdf_rows.c", "-Wl,--no-as-needed", "-lpnetcdf")
    file = tmp_path / "data.nc"

    def run(plan: str | None = None, **environment: Any) -> tuple[Outcome, int, bytes]:
        outcome = bench.run(program, file, ranks=RANKS, plan=plan, **environment)
        assert (outcome.code, outcome.complaints) == (0, []), outcome.stderr
        begin = int(outcome.stdout.rsplit(maxsplit=1)[-1])
        return outcome, begin, file.read_bytes()[begin : begin + BYTES]

    seen, _, data = run()
    operations = seen.file("data.nc")["operations"]
    moved = {way: sum(part["bytes"] for name, part in operations.items() if way in name) for way in ("write", "read")}
    assert moved["write"] >= BYTES and moved["read"] >= BYTES
    assert seen.file("data.nc")["collective"]["calls"] >= 2 * RANKS
    assert len(data) == BYTES and any(data)
    # What `stripewise` does with PnetCDF's own hints: by its variable. The runtime carries those of MPI-IO.
    tuned, begin, same = run(HEADER + "hint cb_nodes 2\n", PNETCDF_HINTS="nc_var_align_size=65536")
    assert begin % 65536 == 0 and same == data
    assert tuned.setting("data.nc", "cb_nodes")["outcome"] == "applied"


@pytest.mark.parametrize("shape", ["tiles", "slabs"])
def test_a_report_keeps_how_pnetcdf_wrote_although_it_takes_its_views_back(
    shape: str, bench: Hdf5Bench, tmp_path: Path
) -> None:
    require(Path("/usr/include/pnetcdf.h").exists(), "no PnetCDF: apt install libpnetcdf-dev")
    program = bench.program("pnetcdf_blocks.c", "-Wl,--no-as-needed", "-lpnetcdf", "-lm")
    words = [tmp_path / "data.nc", shape, "cb_nodes", 2]
    seen = bench.run(program, *words, ranks=4, OMPI_MCA_io="romio321")
    assert (seen.code, seen.complaints) == (0, []), seen.stderr
    file = seen.file("data.nc")
    assert file["application_info"]["cb_nodes"] == "2"
    assert file["view"]["contiguous"] is (shape == "slabs")
    assert seen.report is not None
    workload = workload_of(activity_of(parse_report(seen.report), "report.json"))
    expected = ("tile", 64 * 8) if shape == "tiles" else ("segmented", None)
    assert (workload.layout, workload.piece_size) == expected
    assert (workload.collective, workload.transfer_size) == (True, 64 * 64 * 8)
    names = bind_space(Experiment(command=["./app"], stacks=["romio"]), Circumstances(workload, "romio")).space.names
    assert ("ind_wr_buffer_size" in names) is (shape == "tiles")
