"""Every study in small, as CI runs them: what is simulated, and what launches programs on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.studies import hdf5_online, holes, interfaces, page, sweep  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def studies(out: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = ["all", "--quick", "--simulated", "--out", str(out), *options]
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.studies", *words],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip


def test_all_studies_run_in_small_and_go_on_where_they_were(tmp_path: Path) -> None:
    require(shutil.which(interfaces.MPICC), "Debian's libmpich-dev and libhdf5-mpich-dev")
    require(shutil.which(hdf5_online.MPICC), "Debian's libopenmpi-dev and libhdf5-openmpi-dev")
    begun = studies(tmp_path, "--minutes", "0")
    assert begun.returncode == 4, begun.stderr[-3000:]
    for parts in ((), ("--measured",)):
        done = studies(tmp_path, *parts)
        assert done.returncode == 0, done.stderr[-3000:]
    kept = page.load(tmp_path)
    assert all(kept.values()), {name: list(steps) for name, steps in kept.items()}
    for name in page.STUDIES:
        assert json.loads((tmp_path / f"{name}.json").read_text("utf-8"))["quick"] is True
    again = studies(tmp_path, "--measured")
    assert again.returncode == 0, again.stderr[-3000:]
    assert " ...\n" not in again.stderr, "a step was done again"
    assert page.load(tmp_path) == kept


def test_real_sieving_reads_and_writes_what_it_should(tmp_path: Path) -> None:
    program = holes.built(tmp_path)
    for operation in ("read", "write"):
        words = [holes.BIN / "mpiexec", "-n", "1", program, tmp_path / "data", operation, "100", "900", "50"]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert f"{operation} bandwidth: " in done.stdout


@pytest.mark.parametrize("interface", ["posix", "mpiio", "hdf5"])
def test_each_interface_reads_what_its_neighbour_wrote(interface: str, tmp_path: Path) -> None:
    require(shutil.which(interfaces.MPICC), "Debian's libmpich-dev and libhdf5-mpich-dev")
    program = interfaces.built(tmp_path)
    for operation in ("write", "read"):
        words = [*interfaces.MPIEXEC, str(program), interface, operation, str(tmp_path / "data"), "1000", "16", "1"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert f"{operation} bandwidth: " in done.stdout


def test_many_runs_in_one_launch_read_and_write_what_they_should(tmp_path: Path) -> None:
    hints = {"romio_cb_write": "enable", "cb_nodes": 2, "cb_config_list": "*:2"}
    runs = [
        sweep.Run(way, interface, collective, 100, hole, 1000, 500, hints if collective else {})
        for way in ("write", "read")
        for interface, collective in (("posix", False), ("mpiio", False), ("mpiio", True))
        for hole in (0, 50)
    ]
    found = sweep.measured(sweep.built(tmp_path), runs, tmp_path / "data", tmp_path, ranks=2, rounds=2)
    assert all(len(values) == 2 and min(values) > 0 for values in found)
    require(shutil.which(interfaces.MPICC), "Debian's libmpich-dev and libhdf5-mpich-dev")
    settings = {"hdf5_alignment": 4096, "hdf5_chunk": 2, "hdf5_collective_metadata": 1}
    runs = [sweep.Run(way, "hdf5", True, 100, 0, 1000, 500, settings) for way in ("write", "read")]
    found = sweep.measured(
        sweep.built(tmp_path, hdf5=True), runs, tmp_path / "data", tmp_path, ranks=2, rounds=1, other=tmp_path / "data"
    )
    assert all(min(values) > 0 for values in found)
