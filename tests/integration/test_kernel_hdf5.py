"""stripewise-kernel with Debian's parallel HDF5, for each of its two MPIs; and builds for an MPI that has none."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from stripewise.engine.campaign.book import open_book
from stripewise.engine.campaign.plan import CampaignPlan
from stripewise.engine.campaign.session import CampaignSession
from stripewise.errors import StripewiseError
from stripewise.requests.campaign import Campaign, load_campaign
from stripewise.requests.campaign_points import Points
from stripewise.runners.native import benchmark_lines
from stripewise.runners.native.benchmark import Bench
from stripewise.runners.native.build import KERNEL_HDF5, BuildTarget, Built, build
from stripewise.runners.native.compiler import Compiler, ask_compiler
from tests.conftest import require
from tests.integration.building import cache_home, native_parts
from tests.integration.conftest import Mpi
from tests.integration.hdf5_support import HDF5_PARTS, debian_mpi
from tests.integration.kernel_oracle import content

KIB = 1024
# As those of test_kernel.py, of two ranks: layout options, size of one file's data.
LAYOUTS = {
    "segmented": ("-b 24k -t 8k -s 2", 96 * KIB),
    "pieces": ("--layout strided -b 8k -t 4k --piece 1k", 16 * KIB),
    "random": ("--layout random -b 4k -t 1k", 8 * KIB),
    "overlapping tiles": ("--layout tile --tile-x 20 --tile-y 10 --element 12 --overlap-x 3 --overlap-y 2", 4440),
    "parts of tile rows": ("--layout tile --tile-x 20 --tile-y 4 -t 128", 2 * 20 * 4 * 8),
}
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=["mpich", "openmpi"])
def debian(request: pytest.FixtureRequest) -> Mpi:
    return debian_mpi(request.param)


@pytest.fixture
def run(debian: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Run:
    program = native_parts(tmp_path_factory, debian.mpicc, *HDF5_PARTS) / "bin" / "stripewise-kernel"

    def start(*words: object) -> subprocess.CompletedProcess[str]:
        command = [*debian.mpiexec(2), str(program), "-a", "hdf5", *map(str, words)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL
        )

    return start


def stored(file: Path, tmp_path: Path) -> bytes:
    """The dataset as h5dump, a program that knows nothing of us, reads it."""
    require(Path("/usr/bin/h5dump").exists(), "no h5dump: apt install hdf5-tools")
    raw = tmp_path / "raw"
    subprocess.run(["h5dump", "-d", "/data", "-b", "LE", "-o", str(raw), str(file)], capture_output=True, check=True)
    return raw.read_bytes()


ACCESS = {"independent": [], "collective": ["-c"]}
# The MPIs in turn: each layout and each access meets both.
STORED = [
    (("mpich", "openmpi")[(row + column) % 2], layout, access)
    for row, layout in enumerate(LAYOUTS)
    for column, access in enumerate(ACCESS)
]


@pytest.mark.parametrize(("debian", "layout", "access"), STORED, indirect=["debian"])
def test_every_byte_of_the_dataset_is_where_it_belongs(run: Run, tmp_path: Path, layout: str, access: str) -> None:
    (options, size), collective = LAYOUTS[layout], ACCESS[access]
    file = tmp_path / "data"
    done = run("-o", file, *options.split(), *collective, "-k", "-e", "--seed", "7", "-C", "--json", "-")
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert (outcome["api"], outcome["options"]["file_size"]) == ("hdf5", size)
    assert [(entry["operation"], entry["verified"]) for entry in outcome["repetitions"]] == [
        ("write", None),
        ("read", True),
    ]
    assert stored(file, tmp_path) == content(size, seed=7)


def test_a_file_per_process_is_kept_or_deleted(run: Run, tmp_path: Path) -> None:
    done = run("-o", tmp_path / "data", "-F", "-b", "8k", "-t", "4k", "-k")
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert stored(tmp_path / f"data.{rank:08d}", tmp_path) == content(8 * KIB, file_index=rank)
    done = run("-o", tmp_path / "data", "-F", "-b", "8k", "-t", "4k")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["raw"]


def test_a_file_that_cannot_be_read_says_why(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(bytes(10_000))
    done = run("-o", file, "-r", "-b", "4k", "-t", "4k")
    assert done.returncode == 1
    assert f"stripewise-kernel: error: rank 0: H5Fopen of {file}: file signature not found" in done.stderr
    assert run("-o", file, "-w", "-E", "-b", "4k", "-t", "4k").returncode == 0
    done = run("-o", file, "-r", "-b", "8k", "-t", "4k")
    assert done.returncode == 1
    assert "the dataset data has 8192 of 16384 bytes; write it with the same sizes first" in done.stderr


def test_a_full_file_system_ends_all_ranks(run: Run, tmp_path: Path) -> None:
    require(os.geteuid() == 0, "mounting a small tmpfs needs root")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    require(subprocess.run(mount, capture_output=True, check=False).returncode == 0, "no right to mount a tmpfs")
    try:
        done = run("-o", tmp_path / "data", "-w")
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"H5Dwrite of {tmp_path / 'data'}: " in done.stderr


def test_an_mpi_without_hdf5_is_refused_in_one_line(mpich: Mpi, tmp_path: Path) -> None:
    """Debian's HDF5 is there, and would bring Debian's MPI into a program of another."""
    compiler = ask_compiler(mpich.mpicc, os.environ)
    with pytest.raises(StripewiseError) as caught:
        build(KERNEL_HDF5, compiler, os.environ, cache=tmp_path)
    assert "no parallel HDF5 of the MPI of" in caught.value.what and "HDF5_ROOT" in caught.value.what
    if Path("/usr/lib/x86_64-linux-gnu/hdf5/mpich").exists():
        assert "libhdf5-mpich-dev is of another MPI" in caught.value.what
    assert not list(tmp_path.glob("kernel-hdf5-*"))


@pytest.mark.slow
def test_the_campaign_over_three_interfaces_runs_the_kernel(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The preset, shrunk to this machine: its program, interfaces and tunables as they are."""
    mpi = debian_mpi("mpich")
    program = native_parts(tmp_path_factory, mpi.mpicc, *HDF5_PARTS) / "bin" / "stripewise-kernel"
    asked: list[tuple[BuildTarget, Compiler]] = []

    def built(target: BuildTarget, compiler: Compiler, environment: Mapping[str, str]) -> Built:
        asked.append((target, compiler))
        return Built(program, compiler, reused=True)

    monkeypatch.setattr(benchmark_lines, "build", built)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home(tmp_path_factory)))
    fields = load_campaign("sctuner").model_dump(exclude_unset=True)
    assert fields["program"] == "kernel"
    small = {"nodes": [1], "processes_per_node": [2], "file_size": [256 * KIB], "transfer_size": [64 * KIB]}
    for factor in fields["workload"]:
        factor["values"] = small.get(factor["name"], factor["values"])
        factor.pop("assumed", None)
    fields |= {"repeats": 1, "warmup": 0, "operations": ["write"], "design": {"kind": "subset", "size": 6}}
    fields |= {"launcher": [*mpi.launcher, "-n", "{processes}"], "files": {"folder": str(tmp_path), "caches": "none"}}
    points = Points(Campaign.model_validate(fields))
    bench = Bench(points.campaign, points, tmp_path / "runs", dict(os.environ))
    book = open_book(points.campaign, (1, 1), None, "test")
    CampaignSession(points, bench, book, (1, 1), tmp_path / "runs").run()
    runs = CampaignPlan(points).known(book.runs).runs
    assert {run.point.workload.api for run in runs} == {"posix", "mpiio", "hdf5"}
    assert len(book.runs) == len(runs) >= 3
    assert all(run.value and run.value > 0 for run in book.runs.values()), [run.reason for run in book.runs.values()]
    # mpiexec.mpich stands beside an mpicc that may be another MPI's.
    assert [(target, compiler.abi) for target, compiler in asked] == [(KERNEL_HDF5, "mpich")]
