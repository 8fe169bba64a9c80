"""A campaign in shards, as a job array of a real Slurm over a real parallel file system."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.slurm_support import BIN, Case, kernel_program
from tests.system.testbed.bed import Bed

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.testbed, pytest.mark.timeout(900)]

CAMPAIGN = """
name = "shards"
operations = ["write"]
stacks = ["cephfs"]
repeats = 2
timeout = 60
warmup = 1
launcher = ["srun", "--mpi=pmi2", "-N", "{nodes}", "-n", "{processes}", "--ntasks-per-node", "{processes_per_node}"]
[[workload]]
name = "nodes"
role = "nodes"
values = [1, 2]
[[workload]]
name = "file_size"
role = "file_size"
values = ["8 MiB"]
[[tunable]]
name = "cephfs_stripe_count"
values = [1, 4]
"""


@pytest.fixture
def own(bed: Bed) -> Iterator[Path]:
    """A folder of CephFS that its user alone writes, as jobs see it; outside of them, a folder stands for it."""
    folders = [root / "shards" for root in (bed.ceph.mount(1), bed.shared)]
    for folder in folders:
        folder.mkdir()
    yield folders[1]
    for folder in folders:
        folder.rmdir()


def test_three_shards_as_an_array_write_one_table(bed: Bed, own: Path, tmp_path: Path) -> None:
    case = Case(bed, tmp_path)
    (tmp_path / "shards.toml").write_text(f'executable = "{kernel_program()}"\n{CAMPAIGN}')
    words = [
        str(BIN / "stripewise"),
        "site",
        "profile",
        "shards.toml",
        "--folder",
        str(own),
        "--journal",
        "journal",
    ]
    words += ["--out", "table", "--array", "3", "--at-once", "2", "--directive=--time=5", "--json"]

    def call(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, *more], env=case.environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )

    shown = json.loads(call("--dry-run").stdout)
    assert "#SBATCH --array=1-3%2" in shown["text"]
    assert bed.slurm.ask("squeue", "-h").strip() == ""
    done = call("--yes")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["shards"], told["nodes"], told["runs"]) == (3, 2, 8)
    deadline = time.monotonic() + 400
    most = 0
    while running := bed.slurm.ask("squeue", "-h", "-t", "PENDING,RUNNING,COMPLETING").strip():
        assert time.monotonic() < deadline, running
        most = max(most, len(bed.slurm.ask("squeue", "-h", "-t", "RUNNING").splitlines()))
        time.sleep(0.5)
    logs = "".join(path.read_text() for path in (tmp_path / "journal-array").glob("*.out"))
    assert (tmp_path / "table.csv").exists(), logs
    with (tmp_path / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert len({tuple(row[name] for name in ("nodes", "cephfs_stripe_count", "repeat")) for row in rows}) == 8
    assert 1 <= most <= 2
    assert not list((bed.ceph.mount(1) / own.name).iterdir()), "every shard removed its file"


def test_more_shards_than_the_cluster_takes_are_made_fewer(bed: Bed, tmp_path: Path) -> None:
    case = Case(bed, tmp_path)
    (tmp_path / "shards.toml").write_text(CAMPAIGN.replace("repeats = 2", "repeats = 1000"))
    words = [str(BIN / "stripewise"), "site", "profile", "shards.toml", "--folder", str(bed.shared), "--array", "3000"]
    done = subprocess.run(
        [*words, "--dry-run", "--json"], env=case.environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["shards"] == 1000
    assert "MaxArraySize" in done.stderr
