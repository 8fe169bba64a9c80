"""The accelerator of the examples: byte for byte what the program would read, and a space of the printed size."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "accelerator"

# Any order of small reads, writes, appends, copies of descriptors, cuts and foreign writes, against a model in memory.
PROGRAM = """
import os, random, subprocess, sys
path, seed = sys.argv[1], int(sys.argv[2])
draw = random.Random(seed)
size = 3 << 20
model = bytearray(draw.randbytes(size))
with open(path, "wb") as file:
    file.write(model)
first = os.open(path, os.O_RDWR)
second = os.open(path, os.O_RDONLY)
third = os.dup(first)
append = os.open(path, os.O_WRONLY | os.O_APPEND)
answered = 0
for step in range(3000):
    offset = min(draw.randrange(8) * 400_000 + draw.randrange(60_000), len(model))
    count = draw.choice([1, 17, 512, 4096, 70_000])
    do = draw.random()
    if do < 0.6:
        assert os.pread(draw.choice([first, second, third]), count, offset) == model[offset : offset + count], step
        answered += 1
    elif do < 0.75:
        descriptor = draw.choice([first, third])
        os.lseek(descriptor, offset, os.SEEK_SET)
        assert os.read(descriptor, count) == model[offset : offset + count], step
        assert os.lseek(first, 0, os.SEEK_CUR) == min(offset + count, len(model)), step
    elif do < 0.9:
        data = draw.randbytes(count)
        if draw.random() < 0.5:
            assert os.pwrite(first, data, offset) == count
        else:
            os.lseek(third, offset, os.SEEK_SET)
            assert os.write(third, data) == count
        model[offset : offset + count] = data
    elif do < 0.94:
        data = draw.randbytes(count)
        assert os.write(append, data) == count
        model += data
    elif do < 0.97:
        data = [draw.randbytes(100), draw.randbytes(50)]
        assert os.pwritev(first, data, offset) == 150
        model[offset : offset + 150] = b"".join(data)
    elif do < 0.98:
        length = draw.randrange(2 << 20, 4 << 20)
        os.ftruncate(first, length)
        model = model[:length] + bytearray(max(0, length - len(model)))
    elif step % 10 == 0:
        other = "import sys; f = open(sys.argv[1], 'r+b'); f.seek(int(sys.argv[2])); f.write(bytes([7]) * 999)"
        plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        subprocess.run([sys.executable, "-c", other, path, str(offset)], check=True, env=plain)
        model[offset : offset + 999] = bytes([7]) * 999
try:
    os.read(append, 1)
except OSError as error:
    assert error.errno == 9
else:
    raise AssertionError("a descriptor that may not be read was read")
assert open(path, "rb").read() == bytes(model)
print(answered)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("accelerator")
    done = subprocess.run(["make", "-C", str(EXAMPLE), f"BUILD={folder}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run(built: Path, words: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
    preload = {"LD_PRELOAD": str(built / "libsmallread.so")} if settings.pop("on", "yes") == "yes" else {}
    named = {f"SMALLREAD_{name.upper()}": value for name, value in settings.items()}
    return subprocess.run(
        words, env={**os.environ, **preload, **named}, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"cluster_threshold": "1", "binsize": "65536", "prefetch_size": "200000"},
        {"cluster_threshold": "1", "binsize": "1048576", "prefetch_size": "100000"},
        {"cluster_threshold": "3", "sequence_length": "5", "prefetch_size": "99999999999"},
    ],
    ids=["defaults", "at once", "less than a bin", "short memory"],
)
def test_reads_are_what_they_would_be_without_it(built: Path, tmp_path: Path, settings: dict[str, str]) -> None:
    for seed in (1, 2):
        done = run(built, [sys.executable, "-c", PROGRAM, str(tmp_path / "data"), str(seed)], **settings)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > 1000


def test_a_synthetic_program_reads_the_same(built: Path, tmp_path: Path) -> None:
    words = [str(built / "synthetic"), str(tmp_path / "data")]
    words += ["7", "1500", "0.7", "4096", "33554432", "1048576", "100", "0.1"]
    first = run(built, words, on="no")
    digests = {
        run(built, words, **settings).stdout.split("digest: ")[1]
        for settings in ({"on": "no"}, {}, {"cluster_threshold": "1"}, {"binsize": "2097152", "sequence_length": "50"})
    }
    assert first.returncode == 0
    assert len(digests) == 1


def test_values_that_are_no_numbers_leave_the_defaults(built: Path, tmp_path: Path) -> None:
    words = [str(built / "synthetic"), str(tmp_path / "data")]
    words += ["7", "200", "0.7", "4096", "4194304", "1048576", "100", "0.1"]
    assert run(built, words, binsize="-1", prefetch_size="many").returncode == 0


def test_the_space_has_the_size_that_the_study_explains() -> None:
    stack = load_stack(str(EXAMPLE / "smallread.toml"))
    assert Space.bind(stack.parameters, stack.constraints, stack.derived, {}, stack.knowledge).count()[0] == 707_265
    assert {p.name: p.default for p in stack.parameters} == {
        "cluster_threshold": 2, "binsize": 1 << 20, "sequence_length": 100, "prefetch_size": 20 << 20,
    }  # fmt: skip
    assert stack.off is not None
