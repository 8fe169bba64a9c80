"""A small campaign of real MPI-IO: the benchmark program under MPICH, hints through the preloaded runtime."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stripewise.models.table import read_table
from tests.integration.building import cache_home
from tests.integration.conftest import Mpi

CAMPAIGN = """
name = "real"
stacks = ["romio"]
repeats = 2
timeout = 300.0

[files]
folder = "FOLDER"

[[workload]]
name = "processes_per_node"
values = [2]

[[workload]]
name = "layout"
values = ["strided"]

[[workload]]
name = "piece_size"
values = ["64 KiB"]

[[workload]]
name = "file_size"
values = ["2 MiB"]

[[workload]]
name = "api"
values = ["posix", "mpiio"]

[[tunable]]
name = "transfer_size"
values = ["256 KiB"]

[[tunable]]
name = "collective"
values = [false, true]

[[tunable]]
name = "romio_cb_write"
values = ["automatic", "disable"]
"""


@pytest.mark.slow
def test_a_real_campaign_measures_deletes_and_repeats_nothing(
    mpich: Mpi, kernel: Callable[[Mpi], Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kernel(mpich)
    file, data = tmp_path / "real.toml", tmp_path / "data"
    data.mkdir()
    file.write_text(CAMPAIGN.replace("FOLDER", str(data)), "utf-8")
    out = str(tmp_path / "out")
    command = [sys.executable, "-m", "stripewise", "site", "profile", str(file), "--out", out, "--json"]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    environment["PATH"] = f"{mpich.mpicc.parent}:{os.environ['PATH']}"
    environment["XDG_CACHE_HOME"] = str(cache_home(tmp_path_factory))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    # POSIX has no collective calls and no hints; a read does not care for a hint of writes.
    assert document["runs"] == {"planned": 2 * (4 + 3), "finished": 14, "failed": 0, "left": 0}
    table = read_table(out)
    assert len(table) == 14 and min(table.values) > 0
    assert not list(data.iterdir())
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert again.returncode == 0 and "warm-up" not in again.stderr
    assert list(read_table(out).values) == list(table.values)
