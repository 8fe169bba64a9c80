"""Reads that the library in programs without MPI answers from memory are what the calls themselves would have read."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stripewise.catalogue.filesystems.base import mount_type
from stripewise.observe.left import PREFIX
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import Report, read_report_file
from tests.integration.building import ROOT, checked
from tests.integration.test_accelerator import PROGRAM
from tests.integration.test_observer import accelerator  # noqa: F401  a fixture

Run = Callable[..., Report]

# File systems of machines that tests run on, of those in native/accelerator/small_reads.c.
COHERENT = {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "ceph"}
REST = 4.2
QUICK = {"cluster_threshold": 1, "binsize": 65536, "prefetch_size": 200_000}


@pytest.fixture
def run(accelerator: Path, tmp_path: Path) -> Run:  # noqa: F811
    if mount_type(tmp_path) not in COHERENT:
        pytest.skip(f"files on {mount_type(tmp_path)} are left alone")

    def start(words: list[str], settings: dict[str, int], **more: str) -> Report:
        asked = ",".join(f"{name}={value}" for name, value in settings.items())
        given = {
            "LD_PRELOAD": str(accelerator),
            "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}",
            "STRIPEWISE_POSIX": asked,
        }
        done = subprocess.run(
            words, env={**os.environ, **given, **more}, cwd=tmp_path, capture_output=True, text=True, check=False,
            timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        merge_parts(tmp_path, tmp_path / "report.json")
        return read_report_file(tmp_path / "report.json")

    return start


def acted(report: Report, name: str) -> tuple[int, int]:
    (file,) = [file for file in report.files if file.path.endswith(name)]
    found = [(s.acted, s.missed) for s in file.settings if s.key == "cluster_threshold"]
    return (found[0][0] or 0, found[0][1] or 0) if found else (0, 0)


@pytest.mark.parametrize("sole", ["0", "1"])
def test_any_order_of_reads_and_writes_gives_what_the_file_holds(run: Run, sole: str) -> None:
    report = run([sys.executable, "-c", PROGRAM, "data", sole], QUICK, STRIPEWISE_SOLE_WRITER=sole)
    # A program that writes all the time is never at rest, unless it says that nobody else writes.
    assert (acted(report, "/data")[0] > 500) == (sole == "1")


PIECES = """
import ctypes, errno, os, sys
c = ctypes.CDLL(None, use_errno=True)
c.pread.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
fd = os.open(sys.argv[1], os.O_RDONLY)
plain = open(sys.argv[1], "rb").read()
for place in range(0, 12000, 400):
    parts = [bytearray(100), bytearray(), bytearray(300)]
    assert os.preadv(fd, parts, place) == 400 and b"".join(parts) == plain[place : place + 400]
    one = bytearray(400)
    os.lseek(fd, place, 0)
    assert os.readv(fd, [one]) == 400 and one == plain[place : place + 400]
for bad in (4096, None, os.sysconf("SC_PAGESIZE") * 7):
    assert c.pread(fd, bad, 100, 800) == -1 and ctypes.get_errno() == errno.EFAULT
# Lengths whose sum wraps.
memory = ctypes.create_string_buffer(8192)
inside = ctypes.addressof(memory) // 4096 * 4096 + 4096 + 5
c.preadv.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_long]
vector = (ctypes.c_size_t * 4)(inside, 2**64 - 1, inside, 401)
assert c.preadv(fd, vector, 2, 0) == -1 and ctypes.get_errno() == errno.EINVAL
"""


def test_reads_into_pieces_are_answered_and_bad_memory_is_refused(run: Run, tmp_path: Path) -> None:
    # Its times are old, so it is at rest. A module of Python would share its record with others.
    source = Path(shutil.which("sh") or "").resolve()
    if mount_type(source.parent) not in COHERENT:
        pytest.skip(f"files on {mount_type(source.parent)} are left alone")
    report = run([sys.executable, "-c", PIECES, str(source)], QUICK, STRIPEWISE_POSIX_FILES=str(source))
    answered, missed = acted(report, source.name)
    assert answered > 40 and answered + missed >= 60


# Threads on several files, through shared and other descriptors, then children, and a file that is mapped for stores.
TOGETHER = f"""
import mmap, os, random, sys, threading, time
names = [f"file{{i}}" for i in range(4)]
content = []
for i, name in enumerate(names):
    content.append(random.Random(i).randbytes(4 << 20))
    open(name, "wb").write(content[i])
os.truncate(os.open("large", os.O_CREAT | os.O_WRONLY), 90 << 20)
fd = os.open(names[3], os.O_RDWR)
stores = mmap.mmap(fd, 4096)
time.sleep({REST})
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
def reads(seed, files, count):
    draw = random.Random(seed)
    opened = [os.open(names[i], os.O_RDONLY) for i in files]
    for step in range(count):
        at = draw.randrange(len(files))
        offset, size = draw.randrange(4 << 20), draw.choice([1, 300, 4096, 60_000])
        if draw.random() < 0.5:
            got = os.pread(opened[at], size, offset)
        else:
            os.lseek(opened[at], offset, os.SEEK_SET)
            got = os.read(opened[at], size)
            assert os.lseek(opened[at], 0, os.SEEK_CUR) == min(offset + size, 4 << 20)
        assert got == content[files[at]][offset : offset + size]
failed = []
def guarded(*words):
    try:
        reads(*words)
    except BaseException as error:
        failed.append(error)
large, before = os.open("large", os.O_RDONLY), peak()
assert all(os.pread(large, 4096, at) == bytes(4096) for at in range(0, 90 << 20, 1 << 20))
grown = peak() - before
threads = [threading.Thread(target=guarded, args=(i, [0, 1, 2], 700)) for i in range(3)]
[thread.start() for thread in threads]
time.sleep(0.05)
children = []
for i in range(2):
    pid = os.fork()
    if pid == 0:
        try:
            reads(9 + i, [0, 2], 400)
        except BaseException:
            os._exit(3)
        os._exit(0)
    children.append(pid)
[thread.join() for thread in threads]
codes = [os.waitpid(pid, 0)[1] for pid in children]
for i in range(200):
    stores[i] = i
    assert os.pread(fd, 1, i) == bytes([i])
# A position that two descriptors share, read to the end.
one = os.open(names[0], os.O_RDONLY)
two, whole = os.dup(one), b""
while piece := os.read(one if len(whole) % 2 else two, 5001):
    whole += piece
assert whole == content[0]
assert not failed and codes == [0, 0], (failed, codes)
assert 50 << 10 < grown < 64 << 10, grown
"""


def test_threads_children_and_mappings_read_what_the_files_hold(run: Run) -> None:
    settings = {"cluster_threshold": 1, "binsize": 1 << 20, "prefetch_size": 2 << 20}
    report = run([sys.executable, "-c", TOGETHER], settings)
    assert acted(report, "/file0")[0] > 400
    assert acted(report, "/file3")[0] == 0
    first = min(report.processes, key=lambda process: process.start)
    assert (first.windows_fetches or 0) > 40
    assert first.windows_memory == 60 << 20
    assert 80 << 20 < (first.windows_unused or 0) < (first.windows_fetched or 0)


def test_nothing_is_fetched_unless_the_threshold_is_given(run: Run) -> None:
    text = "import os, sys\nfd = os.open(sys.executable, os.O_RDONLY)\nfor i in range(99): os.pread(fd, 100, i * 100)"
    for settings, fetches in (({"prefetch_size": 1 << 22}, False), (QUICK, True)):
        report = run([sys.executable, "-c", text], settings)
        assert any(process.windows_fetches for process in report.processes) == fetches


@pytest.mark.slow
def test_a_reader_never_sees_what_is_older_than_its_read(run: Run, tmp_path: Path) -> None:
    source = ROOT / "tests" / "fixtures" / "observer" / "fresh.c"
    checked(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "fresh", source])
    report = run(["./fresh", "data", "2", "2", "20"], {**QUICK, "binsize": 1 << 20, "prefetch_size": 4 << 20})
    assert acted(report, "/data")[0] > 100
