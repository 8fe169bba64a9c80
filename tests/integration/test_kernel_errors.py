"""stripewise-kernel used wrongly, and on storage that fails: one clear line, the right exit code, no hang."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import require
from tests.integration.conftest import Mpi

PREFIX = "stripewise-kernel: error: "

WRONG_USE = {
    "--blok 1m": "unknown option '--blok'",
    "-y": "unknown option '-y'",
    "-ky": "unknown option '-y'",
    "data": "unexpected argument 'data'",
    "--": "unexpected argument '--'",
    "-b": "option -b (--block) needs a value",
    "--block": "option --block needs a value",
    "--fsync=yes": "option --fsync takes no value",
    "-b 3x": "--block: '3x' is not a size",
    "-b 1.5m": "--block: '1.5m' is not a size",
    "-b 1kb": "decimal unit",
    "-b -5": "--block: '-5' is negative",
    "-b 0": "--block: '0' must be greater than 0",
    "-t 0": "--transfer: '0' must be greater than 0",
    "-s 0": "--segments: '0' must be greater than 0",
    "-i 0": "--repetitions: '0' must be greater than 0",
    "-i 2000000": "--repetitions: at most 1000000",
    "--memory 0": "--memory: '0' must be greater than 0",
    "-b 99999999999999999999": "is too large",
    "-b 9000000t": "is too large",
    "-b 4000000t -t 1t -s 4": "exceeds the largest file offset",
    "-b 1m -t 300k": "--transfer: 307200 bytes do not divide the block of 1048576 bytes",
    "-b 300k": "262144 bytes (the default) do not divide the block",
    "-t 1m -b 64k": "do not divide the block",
    "--layout strided -t 64k --piece 3k": "--piece: 3072 bytes do not divide the transfer",
    "--piece 1k": "--piece needs --layout strided",
    "--layout diagonal": "--layout: 'diagonal' is unknown",
    "--layout strided -z": "give one",
    "-a hdf4": "--api: 'hdf4' is unknown; use one of posix, mpiio, dummy",
    "-a hdf5": "--api: this program was built without HDF5; build it with a parallel HDF5 of the same MPI",
    "-a posix -c": "--collective: the posix api has no collective calls",
    "--size 1m -s 2": "--size and --segments both choose",
    "--size 1m -b 1m": "less than one block for each of the 2 ranks",
    "--size 1": "less than one transfer for each of the 2 ranks",
    "--tile-x 5": "--tile-x needs --layout tile",
    "--layout tile --tiles-x 3": "--tiles-x: 3 does not divide the 2 ranks",
    "--layout tile --tiles-x 2 --tiles-y 2": "are not the 2 ranks",
    "--layout tile --tiles-x 4 --tiles-y 0": "must be greater than 0",
    "--layout tile --tile-x 8 --overlap-x 8": "--overlap-x: 8 is not smaller than the tile",
    "--layout tile --tile-x 4g": "more than 2147483647 elements",
    "--layout tile --tile-x 1000m --tile-y 1000m --element 1g": "exceeds the largest file offset",
    "--layout tile -t 100": "not whole elements that divide the tile",
    "--layout tile -b 1m": "--block does not go with --layout tile",
    "--layout tile -F": "--file-per-process does not go with --layout tile",
    "--layout tile --size 7": "less than one row of elements",
    "--layout tile --size 100 --tile-x 5 --tile-y 5": "less than one tile",
    "-r -e": "--fsync needs a write",
    "-r -E": "--existing needs a write",
    "-r --verify-write": "--verify-write needs a write",
    "-w -C": "--reorder needs a read",
    "-Q 1": "--shift needs --reorder",
    "--seed x": "--seed: 'x' is not a whole number",
    "--dummy-noise 0.1": "--dummy-noise needs --api dummy",
    "-a dummy --dummy-noise x": "--dummy-noise: 'x' is not a number",
    "-a dummy --dummy-noise -1": "--dummy-noise: '-1' is negative",
    "-a dummy --dummy-bandwidth 0": "--dummy-bandwidth: must be greater than 0",
    "-a dummy --dummy-fail-probability 1.5": "is greater than 1",
    "-a dummy --dummy-effect a=b": "is not of the form K=V:FACTOR",
    "-a dummy --dummy-effect a=b:x": "factor 'x' is not a number",
    "-a dummy --dummy-effect a=b:0": "factor '0' must be greater than 0",
    "-a dummy --dummy-hang-if a": "is not of the form K=V",
    "-a dummy --dummy-seed-from clock": "is not env:NAME, plan-id or plan-run",
    "-a dummy --dummy-seed-from env:NOT_SET_ANYWHERE": "no variable 'NOT_SET_ANYWHERE'",
    "-U {tmp}/none": "cannot read the hints file {tmp}/none: No such file or directory",
    "-r": "cannot read {tmp}/data: No such file or directory",
    "-r -F": "cannot read {tmp}/data.00000000: No such file or directory",
    "-o {tmp}/none/data": "the folder of {tmp}/none/data: No such file or directory",
    "-o {tmp}": "is a directory",
    "-o /dev/null": "/dev/null is not a regular file",
    "--json {tmp}/none/json": "--json: cannot write {tmp}/none/json: No such file or directory",
}

HINTS_LINES = {
    "romio_cb_write": "line 2: expected `key value`",
    "romio_cb_write enable please": "line 2: a third word",
    "= enable": "line 2: expected `key value`",
    "IOR_HINT__GPFS__x=1": "line 2: only MPI hints are known",
    "cb_nodes 2": "line 2: the key 'cb_nodes' stands twice",
    "key \x01": "line 2: a control character",
    "k" * 300 + " v": "line 2: the key is too long",
    "key " + "v" * 2000: "line 2: the value is too long",
    "key " + "v" * 9000: "line 2: longer than",
}


def launch(mpi: Mpi, program: Path, options: list[str], timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*mpi.mpiexec(2), str(program), *options],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def own_lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The kernel's lines on stderr; Open MPI's launcher adds its own about the exit code."""
    return [line for line in done.stderr.splitlines() if line.startswith("stripewise-kernel")]


@pytest.mark.parametrize("options", WRONG_USE)
def test_wrong_use_is_one_line_and_exit_code_2(
    mpich: Mpi, kernel: Callable[[Mpi], Path], tmp_path: Path, options: str
) -> None:
    words = options.format(tmp=tmp_path).split()
    done = launch(mpich, kernel(mpich), ["-o", str(tmp_path / "data"), *words])
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(PREFIX)
    assert WRONG_USE[options].format(tmp=tmp_path) in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_no_file_at_all(mpich: Mpi, kernel: Callable[[Mpi], Path]) -> None:
    done = launch(mpich, kernel(mpich), [])
    assert (done.returncode, done.stderr) == (2, PREFIX + "no test file; name one with -o PATH\n")


def test_open_mpi_ends_wrong_use_with_2_too(openmpi: Mpi, kernel: Callable[[Mpi], Path]) -> None:
    done = launch(openmpi, kernel(openmpi), ["--blok", "1m"])
    assert done.returncode == 2
    assert own_lines(done) == [PREFIX + "unknown option '--blok'; see --help"]


@pytest.mark.parametrize("line", HINTS_LINES, ids=lambda line: repr(line[:30]))
def test_a_line_of_the_hints_file_that_is_no_hint(
    mpich: Mpi, kernel: Callable[[Mpi], Path], tmp_path: Path, line: str
) -> None:
    hints = tmp_path / "hints"
    hints.write_text(f"cb_nodes 1\n{line}\n")
    done = launch(mpich, kernel(mpich), ["-o", str(tmp_path / "data"), "-U", str(hints)])
    assert done.returncode == 2
    assert done.stderr.startswith(f"{PREFIX}hints file {hints} {HINTS_LINES[line]}")


def test_an_unreadable_hints_file_is_not_taken_for_an_empty_one(
    mpich: Mpi, kernel: Callable[[Mpi], Path], tmp_path: Path
) -> None:
    done = launch(mpich, kernel(mpich), ["-o", str(tmp_path / "data"), "-U", str(tmp_path)])
    assert done.returncode == 2
    assert done.stderr == f"{PREFIX}cannot read the hints file {tmp_path}: Is a directory\n"


def test_help_names_every_option_and_version_the_version(mpi: Mpi, kernel: Callable[[Mpi], Path]) -> None:
    done = launch(mpi, kernel(mpi), ["--help"])
    assert done.returncode == 0
    for option in ("--block", "--overlap-y", "--dummy-effect", "-C, --reorder", "-E, --existing", "Exit codes"):
        assert option in done.stdout
    done = launch(mpi, kernel(mpi), ["--version"])
    assert (done.returncode, done.stdout) == (0, "stripewise-kernel 1.1.5\n")


@pytest.mark.parametrize("api", ["-a posix", "-a posix -F", "-a mpiio", "-a mpiio -c"])
def test_a_file_too_short_to_read(mpi: Mpi, kernel: Callable[[Mpi], Path], tmp_path: Path, api: str) -> None:
    file = tmp_path / "data"
    for path in (file, Path(f"{file}.00000000"), Path(f"{file}.00000001")):
        path.write_bytes(bytes(1000))
    done = launch(mpi, kernel(mpi), ["-o", str(file), "-r", "-b", "4k", "-t", "4k", *api.split()])
    assert done.returncode == 1
    assert str(file) in own_lines(done)[0]


@pytest.mark.parametrize("api", ["-a posix", "-a mpiio"])
def test_a_full_device(mpi: Mpi, kernel: Callable[[Mpi], Path], api: str) -> None:
    done = launch(mpi, kernel(mpi), ["-o", "/dev/full", "-E", "-w", *api.split()])
    assert done.returncode == 1
    [line] = own_lines(done)
    assert line.startswith(f"{PREFIX}rank 0: {'pwrite' if 'posix' in api else 'MPI_File_write_at'} of /dev/full: ")
    if mpi.name == "mpich" or "posix" in api:
        assert "No space left on device" in line


@pytest.mark.parametrize(
    "options", ["-a posix", "-a mpiio -c", "-a mpiio -c --layout strided --piece 1k", "--layout strided --piece 1k"]
)
def test_a_full_file_system_ends_all_ranks(
    mpi: Mpi, kernel: Callable[[Mpi], Path], tmp_path: Path, options: str
) -> None:
    """Libraries hide it (OMPIO's collective write) or leave the others waiting (ROMIO's data sieving)."""
    require(os.geteuid() == 0 and shutil.which("unshare"), "mounting a small tmpfs needs root and unshare")
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)]
    require(subprocess.run(probe, capture_output=True, check=False).returncode == 0, "no right to mount a tmpfs")
    program = [*mpi.mpiexec(2), str(kernel(mpi)), "-o", str(tmp_path / "data"), "-w", *options.split()]
    script = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, str(tmp_path), *program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(line.startswith(PREFIX) and str(tmp_path / "data") in line for line in own_lines(done)), done.stderr


def test_no_json_is_left_of_a_run_that_failed(mpich: Mpi, kernel: Callable[[Mpi], Path], tmp_path: Path) -> None:
    words = ["-a", "dummy", "--dummy-fail-probability", "1", "--json", str(tmp_path / "json")]
    done = launch(mpich, kernel(mpich), words)
    assert done.returncode == 1
    assert "injected failure" in done.stderr
    assert list(tmp_path.iterdir()) == []
