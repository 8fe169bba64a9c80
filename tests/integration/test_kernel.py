"""stripewise-kernel under MPICH and Open MPI: what it writes and reads, its times, its JSON."""

import json
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Mpi
from tests.integration.kernel_oracle import content, segmented_owner, strided_owner, tile_owners

KIB = 1024
Run = Callable[..., subprocess.CompletedProcess[str]]

OVERLAP = ["--layout", "tile", "--tile-x", "20", "--tile-y", "10", "--element", "12"]
OVERLAP += ["--overlap-x", "3", "--overlap-y", "2"]

# layout options, size of one file with 4 ranks
LAYOUTS = {
    "segmented": (["-b", "24k", "-t", "8k", "-s", "3"], 4 * 72 * KIB),
    "strided": (["--layout", "strided", "-b", "24k", "-t", "8k", "-s", "2"], 4 * 48 * KIB),
    "pieces": (["--layout", "strided", "-b", "24k", "-t", "8k", "--piece", "1k"], 4 * 24 * KIB),
    "odd pieces": (["--layout", "strided", "-b", "1989", "-t", "153", "--piece", "17"], 4 * 1989),
    "random": (["--layout", "random", "-b", "24k", "-t", "1k"], 4 * 24 * KIB),
    "tile": (["--layout", "tile", "--tile-x", "20", "--tile-y", "10", "--element", "12"], 40 * 20 * 12),
    "overlap": (
        [*OVERLAP, "-s", "2"],
        37 * 18 * 12 * 2,
    ),
    "tile rows": (["--layout", "tile", "--tile-x", "20", "--tile-y", "10", "-t", "320"], 40 * 20 * 8),
}
APIS = {
    "posix": ["-a", "posix"],
    "independent": ["-a", "mpiio"],
    "collective": ["-a", "mpiio", "-c"],
}


def alternating(first: int, kinds: Iterable[Any] = LAYOUTS) -> list[tuple[str, Any, str]]:
    """Give each layout (or other kind) with each interface, the MPIs in turn: each of them meets both."""
    pairs = [(row + column, kind, api) for row, kind in enumerate(kinds) for column, api in enumerate(APIS)]
    return [(("mpich", "openmpi")[(place + first) % 2], kind, api) for place, kind, api in pairs]


@pytest.fixture
def run(mpi: Mpi, kernel: Callable[[Mpi], Path]) -> Run:
    program = kernel(mpi)

    def start(*options: object, ranks: int = 4, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        command = [*mpi.mpiexec(ranks), str(program), *map(str, options)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL
        )

    return start


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


@pytest.mark.parametrize(("mpi", "layout", "api"), alternating(0), indirect=["mpi"])
def test_writes_every_byte_where_it_belongs(run: Run, tmp_path: Path, layout: str, api: str) -> None:
    options, size = LAYOUTS[layout]
    file = tmp_path / "data"
    outcome = result(run("-o", file, *APIS[api], *options, "-w", "-k", "--seed", "7", "--verify-write", "--json", "-"))
    assert file.read_bytes() == content(size, seed=7)
    assert outcome["options"]["file_size"] == size
    assert [entry["verified"] for entry in outcome["repetitions"]] == [True]


@pytest.mark.parametrize(("mpi", "layout", "api"), alternating(1), indirect=["mpi"])
def test_reads_what_another_program_wrote(run: Run, tmp_path: Path, layout: str, api: str) -> None:
    options, size = LAYOUTS[layout]
    file = tmp_path / "data"
    file.write_bytes(content(size, seed=3))
    outcome = result(run("-o", file, *APIS[api], *options, "-r", "--seed", "3", "--json", "-"))
    assert [(entry["operation"], entry["verified"]) for entry in outcome["repetitions"]] == [("read", True)]
    assert file.read_bytes() == content(size, seed=3), "a file this run did not write was touched"


@pytest.mark.parametrize("api", APIS)
def test_a_file_per_process(run: Run, tmp_path: Path, api: str) -> None:
    file = tmp_path / "data"
    outcome = result(run("-o", file, "-F", *APIS[api], "-b", "16k", "-t", "4k", "-s", "2", "-k", "--json", "-"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"data.{rank:08d}" for rank in range(4)]
    for rank in range(4):
        assert Path(f"{file}.{rank:08d}").read_bytes() == content(32 * KIB, file_index=rank)
    assert [entry["verified"] for entry in outcome["repetitions"]] == [None, True]
    assert outcome["repetitions"][0]["bytes"] == 4 * 32 * KIB


def reported_rank(done: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    """The rank that saw a wrong byte, and its offset."""
    found = re.search(r"error: rank (\d+): verification of \S+: 1 wrong bytes, the first at offset (\d+)", done.stderr)
    assert found, done.stderr
    return int(found[1]), int(found[2])


def corrupt(file: Path, data: bytes, offset: int) -> None:
    file.write_bytes(data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1 :])


REORDER = {0: [], 1: ["-C"], 3: ["-C", "-Q", "3"]}


@pytest.mark.parametrize(("mpi", "shift", "api"), alternating(0, REORDER), indirect=["mpi"])
def test_reorder_reads_another_ranks_data(run: Run, tmp_path: Path, api: str, shift: int) -> None:
    file = tmp_path / "data"
    reorder = REORDER[shift]
    for options, size, owner in (
        (["-b", "4k", "-t", "1k", "-s", "2"], 32 * KIB, lambda at: segmented_owner(at, 4, 4 * KIB)),
        (
            ["--layout", "strided", "-b", "4k", "-t", "1k", "--piece", "256"],
            16 * KIB,
            lambda at: strided_owner(at, 4, 256),
        ),
    ):
        offset = size - 4 * KIB + 1029
        corrupt(file, content(size), offset)
        done = run("-o", file, "-r", *APIS[api], *options, *reorder)
        assert done.returncode == 1
        assert reported_rank(done) == ((owner(offset) - shift) % 4, offset)


def test_reorder_with_a_file_per_process_opens_another_ranks_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "data"
    for rank in range(4):
        Path(f"{file}.{rank:08d}").write_bytes(content(4 * KIB, file_index=rank))
    corrupt(Path(f"{file}.00000002"), content(4 * KIB, file_index=2), 100)
    done = run("-a", "posix", "-F", "-o", file, "-r", "-C", "-b", "4k", "-t", "1k")
    assert reported_rank(done) == (1, 100)
    assert f"{file}.00000002" in done.stderr


def test_random_covers_each_place_once_in_a_seeded_disorder(
    mpich: Mpi, kernel: Callable[[Mpi], Path], tmp_path: Path
) -> None:
    """The calls are as many as the places and every place is right, so each was written exactly once."""
    file = tmp_path / "data"
    options = ["-o", file, "--layout", "random", "-b", "4k", "-t", "512", "-a", "posix"]

    def start(*more: object) -> subprocess.CompletedProcess[str]:
        words = [*mpich.mpiexec(2), str(kernel(mpich)), *map(str, [*options, *more])]
        return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    outcome = result(start("-w", "-k", "--json", "-"))
    assert outcome["options"]["calls"] * 2 * 512 == file.stat().st_size
    assert file.read_bytes() == content(8 * KIB)

    def owner(seed: int, place: int) -> int:
        corrupt(file, content(8 * KIB, seed=seed), place * 512)
        return reported_rank(start("-r", "--seed", seed))[0]

    first = [owner(1, place) for place in range(16)]
    assert sorted(first) == [0] * 8 + [1] * 8
    assert first != sorted(first)
    assert any(owner(2, place) != first[place] for place in range(16))


def test_every_tile_over_an_element_reads_it(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "data"
    owners = tile_owners((2, 2), (20, 10), (3, 2))
    size = owners[0].size * 12
    for y, x, sharing in ((0, 0, 1), (0, 18, 2), (9, 2, 2), (9, 18, 4), (17, 36, 1)):
        readers = owners[:, y, x].nonzero()[0]
        assert len(readers) == sharing
        offset = (y * owners.shape[2] + x) * 12 + 5
        corrupt(file, content(size), offset)
        done = run("-o", file, "-c", *OVERLAP, "-r", "--json", tmp_path / "json")
        assert done.returncode == 1
        assert reported_rank(done) == (readers[0], offset)
        outcome = json.loads((tmp_path / "json").read_text())
        assert outcome["repetitions"][0]["verified"] is False
        assert outcome["repetitions"][0]["errors"] == sharing


def test_wrong_bytes_are_counted_unless_checking_is_switched_off(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(content(16 * KIB))
    options = ["-o", file, "-a", "posix", "-b", "4k", "-t", "1k", "-r", "--seed", "1"]
    assert run(*options, "--json", tmp_path / "json").returncode == 1
    wrong = sum(a != b for a, b in zip(content(16 * KIB), content(16 * KIB, seed=1), strict=True))
    assert json.loads((tmp_path / "json").read_text())["repetitions"][0]["errors"] == wrong
    assert result(run(*options, "--no-verify", "--json", "-"))["repetitions"][0]["verified"] is None


def test_verify_write_sees_what_a_write_lost(run: Run) -> None:
    """A device that takes every byte and keeps none."""
    done = run("-o", "/dev/null", "-E", "-a", "posix", "-b", "4k", "-t", "1k", "-w")
    assert done.returncode == 0, "writes to /dev/null succeed"
    done = run("-o", "/dev/null", "-E", "-a", "posix", "-b", "4k", "-t", "1k", "-w", "--verify-write")
    assert done.returncode == 1
    assert "pread of /dev/null: at offset" in done.stderr


def test_json_has_every_key_of_the_contract(run: Run, tmp_path: Path) -> None:
    hints = tmp_path / "hints"
    hints.write_text("# for ROMIO\nromio_cb_write enable\ncb_nodes = 2\nsetenv IOR_HINT__MPI__cb_buffer_size=1048576\n")
    done = run(
        "-o", tmp_path / "a 'file'", "-c", "-e", "-i", "3", "--size", "100k", "-t", "4k", "-U", hints, "--json", "-"
    )
    outcome = result(done)
    assert {key: outcome[key] for key in ("format", "version", "api", "ranks", "nodes")} == {
        "format": "stripewise-kernel", "version": 1, "api": "mpiio", "ranks": 4, "nodes": 1,
    }  # fmt: skip
    assert set(outcome) == {
        "format", "version", "api", "command", "ranks", "nodes", "options", "repetitions", "summary",
    }  # fmt: skip
    assert outcome["command"].endswith(f"-t 4k -U {hints} --json -")
    assert "'" + str(tmp_path / "a ") + r"'\''file'\''" in outcome["command"]
    options = outcome["options"]
    assert options["hints"] == {"romio_cb_write": "enable", "cb_nodes": "2", "cb_buffer_size": "1048576"}
    assert (options["block"], options["transfer"], options["segments"]) == (24 * KIB, 4 * KIB, 1)
    assert (options["size_requested"], options["size"]) == (100 * KIB, 96 * KIB)
    assert options["size_resolution"] == "4 ranks x block 24576 x segments 1 = 98304 bytes; rounded down from 102400"
    assert [(e["repetition"], e["operation"]) for e in outcome["repetitions"]] == [
        (repetition, operation) for repetition in range(3) for operation in ("write", "read")
    ]
    for entry in outcome["repetitions"]:
        assert set(entry) == {
            "repetition", "operation", "bytes", "open", "access", "sync", "close", "total", "bandwidth", "verified",
            "errors",
        }  # fmt: skip
        assert entry["bytes"] == 96 * KIB
        assert entry["total"] == pytest.approx(sum(entry[phase] for phase in ("open", "access", "sync", "close")))
        assert entry["bandwidth"] == pytest.approx(entry["bytes"] / 2**20 / entry["total"], rel=1e-6)
        assert entry["errors"] == 0
        assert entry["verified"] is (True if entry["operation"] == "read" else None)
    for operation in ("write", "read"):
        values = sorted(e["bandwidth"] for e in outcome["repetitions"] if e["operation"] == operation)
        summary = outcome["summary"][operation]
        assert (summary["min"], summary["median"], summary["max"]) == tuple(values)
        assert summary["mean"] == pytest.approx(sum(values) / 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hints"], "the test file was left behind"


def test_the_table_ends_with_the_median_bandwidths(run: Run, tmp_path: Path) -> None:
    done = run("-o", tmp_path / "data", "-i", "3", "--json", tmp_path / "json")
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "json").read_text())["summary"]
    lines = done.stdout.rstrip().splitlines()
    for line, operation in zip(lines[-2:], ("write", "read"), strict=True):
        found = re.fullmatch(rf"{operation} bandwidth: (\d+\.\d{{3}}) MiB/s", line)
        assert found, line
        # The two texts are rounded apart, to three places and to nine digits: the last place may differ.
        assert float(found[1]) == pytest.approx(summary[operation]["median"], abs=0.0011)
    assert len([line for line in lines if re.match(r" +\d+ (write|read) ", line)]) == 6


def test_fsync_is_timed_apart(run: Run, tmp_path: Path) -> None:
    for api in APIS.values():
        common = ["-o", tmp_path / "data", *api, "-b", "64k", "-t", "16k", "--json", "-"]
        write, read = result(run(*common, "-e"))["repetitions"]
        assert write["sync"] > 0
        assert read["sync"] == 0
        assert result(run(*common))["repetitions"][0]["sync"] == 0


def test_each_repetition_has_a_new_file_unless_the_existing_one_is_asked_for(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "data"
    options = ["-o", file, "-b", "4k", "-t", "4k", "-w", "-i", "2"]
    file.write_bytes(bytes(32 * KIB))
    result(run(*options, "-k", "--json", "-"))
    assert file.read_bytes() == content(16 * KIB), "the old file's tail is still there"
    file.write_bytes(bytes(32 * KIB))
    inode = file.stat().st_ino
    result(run(*options, "-E", "--json", "-"))
    assert file.read_bytes() == content(16 * KIB) + bytes(16 * KIB)
    assert file.stat().st_ino == inode
    result(run(*options, "--json", "-"))
    assert not file.exists()
