"""Calls past the page cache: what they do to a file, to its locks, and to whoever shares it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from stripewise.catalogue.filesystems.base import mount_type
from stripewise.observe.left import PREFIX
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import Report, read_report_file
from tests.integration.building import ROOT, checked
from tests.integration.test_observer import RANDOM_CALLS, Observe, accelerator, observe, observer  # noqa: F401  fixtures

DIRECT = "direct=65536"
EVERYTHING = "advice=sequential,readahead=65536,stream_buffer=65536,direct=4096,cluster_threshold=2"


@pytest.fixture(autouse=True)
def storage(tmp_path: Path) -> None:
    """They are made on some file systems only."""
    if mount_type(tmp_path) not in ("ext4", "xfs", "f2fs"):
        pytest.skip(f"files on {mount_type(tmp_path)} are left alone")


def acted(report: Report, key: str, name: str = "") -> tuple[int, int]:
    """Calls in which a setting acted, and could not."""
    found = [o for f in report.files if Path(f.path).name.startswith(name) for o in f.settings if o.key == key]
    return sum(o.acted or 0 for o in found), sum(o.missed or 0 for o in found)


# -- past the page cache -----------------------------------------------------------------------------------------------

# Memory of mmap begins at a page.
ALIGNED = """
import fcntl, mmap, os, subprocess, sys
def memory(text, size=65536):
    area = mmap.mmap(-1, size)
    area.write((text.encode() * size)[:size])
    return area
"""


def test_calls_of_whole_pages_go_past_the_cache_and_others_do_not(observe: Observe) -> None:  # noqa: F811
    report = observe(
        ALIGNED
        + """
f = os.open("data", os.O_RDWR | os.O_CREAT)
os.write(f, memory("a"))              # past it
os.write(f, b"odd")                   # less than the setting is for
os.write(f, memory("b"))              # not at a page
os.lseek(f, 65536 * 3, 0)
os.writev(f, [memory("c")])           # left alone
back = memory(" ")
assert os.preadv(f, [back], 0) == 65536 and back[:] == b"a" * 65536
os.lseek(f, 0, 0)
os.read(f, 65536)                     # Python's memory is not aligned
assert os.lseek(f, 0, os.SEEK_CUR) == 65536
assert os.pread(f, 3, 65536) == b"odd" and os.pread(f, 3, 65539) == b"bbb"
g = os.open("data", os.O_WRONLY | os.O_APPEND)
os.write(g, memory("d"))              # at an end that others may move
assert os.fstat(f).st_size == 65536 * 5
"""
        , STRIPEWISE_POSIX=DIRECT)  # fmt: skip
    assert acted(report, "direct", "data") == (1, 3)


# Lustre cannot be mounted here: this says that files lie on it. tmpfs takes direct I/O at any place, as Lustre does
# since 2.16, and ext4 answers EINVAL, as Lustre did before.
ON_LUSTRE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/vfs.h>
int fstatfs(int fd, struct statfs *about) {
    about->f_type = 0x0bd00bd0;
    return 0;
}
"""


@pytest.mark.parametrize(("folder", "went"), [("/dev/shm", (4, 0)), (None, (1, 3))])
def test_lustre_may_take_any_large_call(
    observe: Observe,  # noqa: F811
    accelerator: Path,  # noqa: F811
    tmp_path: Path,
    folder: str | None,
    went: tuple[int, int],
) -> None:
    (tmp_path / "fake.c").write_text(ON_LUSTRE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "fake.so", "fake.c"], cwd=tmp_path, check=True)
    with tempfile.TemporaryDirectory(dir=folder or tmp_path) as place:
        report = observe(
            ALIGNED
            + f"""
f = os.open("{place}/data", os.O_RDWR | os.O_CREAT)
os.write(f, memory("a"))              # whole pages
os.write(f, b"b" * 70001)             # any size and memory
os.pwrite(f, memory("c"), 12345)      # any place
assert os.pread(f, 65537, 65535) == b"c" * 12346 + b"b" * 53191
assert os.lseek(f, 0, os.SEEK_CUR) == 65536 + 70001
"""
            , STRIPEWISE_POSIX=DIRECT, LD_PRELOAD=f"{tmp_path}/fake.so:{accelerator}")  # fmt: skip
    assert acted(report, "direct", "data") == went


SHARED = r"""
/* Two processes, of two threads each, write records through one position, and read them back through another. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define EACH 40
static int fd;
static size_t sizes[] = {65536, 131072, 65536, 4096};
static void *put(void *given) {
    size_t who = (size_t)given;
    char *b = aligned_alloc(4096, 131072);
    for (size_t i = 0; i < EACH; i++) {
        size_t size = sizes[(who + i) % 4];
        memset(b, (int)(1 + who * EACH + i), size);
        if (write(fd, b, size) != (ssize_t)size) abort();
    }
    free(b);
    return NULL;
}
static void *get(void *given) {
    char *b = aligned_alloc(4096, 65536);
    long *sum = given;
    for (ssize_t got; (got = read(fd, b, 65536)) > 0; *sum += got)
        ;
    free(b);
    return NULL;
}
int main(int count, char **words) {
    int reads = count > 1 && *words[1] == 'r';
    pthread_t one[2];
    long sum[2] = {0};
    fd = open("shared", reads ? O_RDONLY : O_RDWR | O_CREAT, 0600);
    int child = fork() == 0;
    for (size_t i = 0; i < 2; i++)
        pthread_create(&one[i], NULL, reads ? get : put, reads ? (void *)&sum[i] : (void *)(child * 2 + i));
    for (int i = 0; i < 2; i++) pthread_join(one[i], NULL);
    if (!child && wait(NULL) < 0) return 1;
    if (reads) fprintf(fopen(child ? "sum.child" : "sum", "w"), "%ld\n", sum[0] + sum[1]);
    return 0;
}
"""


def test_whoever_shares_a_position_reads_and_writes_each_byte_once(observe: Observe, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "shared.c").write_text(SHARED)
    checked(["cc", "-O1", "-pthread", "-o", tmp_path / "program", tmp_path / "shared.c"])
    report = observe(str(tmp_path / "program"), "write", STRIPEWISE_POSIX=DIRECT)
    data = (tmp_path / "shared").read_bytes()
    each = [(65536, 131072, 65536, 4096)[(who + i) % 4] for who in range(4) for i in range(40)]
    assert len(data) == sum(each)
    # Each record is there, in one piece.
    assert [data.count(bytes([1 + at])) for at in range(160)] == each
    assert sum(data[i] != data[i + 4096] for i in range(0, len(data) - 4096, 4096)) == 159
    assert sum(acted(report, "direct", "shared")) > 0
    report = observe(str(tmp_path / "program"), "read", STRIPEWISE_POSIX=DIRECT)
    assert int((tmp_path / "sum").read_text()) + int((tmp_path / "sum.child").read_text()) == len(data)


def test_record_locks_stay(observe: Observe) -> None:  # noqa: F811
    """A process loses its record locks on a file with any descriptor of it that it closes."""
    report = observe(
        ALIGNED
        + """
f = os.open("data", os.O_RDWR | os.O_CREAT)
os.pwritev(f, [memory("x")], 0)
for at in range(2):
    os.write(f, memory("a"))
    fcntl.lockf(f, fcntl.LOCK_EX)
ask = "import fcntl; fcntl.lockf(open('data', 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
held = subprocess.run([sys.executable, "-S", "-E", "-c", ask], stderr=subprocess.DEVNULL).returncode != 0
assert held
"""
        , STRIPEWISE_POSIX=DIRECT)  # fmt: skip
    assert acted(report, "direct", "data") == (1, 1)


def test_a_process_that_maps_a_file_for_stores_goes_through_the_cache(observe: Observe) -> None:  # noqa: F811
    report = observe(
        ALIGNED
        + """
f = os.open("data", os.O_RDWR | os.O_CREAT)
os.write(f, memory("a"))
area = mmap.mmap(f, 65536)
area[:3] = b"own"
os.lseek(f, 65536, 0)
os.write(f, memory("b"))
assert os.pread(f, 4, 0) == b"owna"
"""
        , STRIPEWISE_POSIX=DIRECT)  # fmt: skip
    assert acted(report, "direct", "data") == (1, 1)


def test_a_limit_of_the_size_of_files_is_told_once(observe: Observe) -> None:  # noqa: F811
    report = observe(
        ALIGNED
        + """
import resource, signal
told = []
signal.signal(signal.SIGXFSZ, lambda *_: told.append(1))
f = os.open("data", os.O_RDWR | os.O_CREAT)
os.write(f, memory("a"))
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))
try:
    os.write(f, memory("b"))
except OSError as error:
    assert error.errno == 27
for _ in range(9): pass               # Python calls its handlers between steps
assert told == [1] and os.fstat(f).st_size == 65536
"""
        , STRIPEWISE_POSIX=DIRECT)  # fmt: skip
    assert acted(report, "direct", "data") == (1, 1)


# -- sanitizers --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["thread", "address,undefined"])
def test_sanitizers_find_nothing(tmp_path: Path, kind: str) -> None:
    """Library and program are built with the sanitizer, and linked: it has to be the first library of a process."""
    flags = ["-O1", "-g", "-pthread", f"-fsanitize={kind}", "-fno-sanitize-recover=all"]
    native = ROOT / "native"
    observing = [path for path in sorted((native / "observer").glob("*.c")) if path.stem != "alone"]
    sources = [*observing, *sorted((native / "accelerator").glob("*.c")), *sorted((native / "core").glob("layout*.c"))]
    library = tmp_path / "libobserver.so"
    made = [
        "-std=c11",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-I",
        native / "include",
        *(native / "core" / name for name in ("crc.c", "input.c", "record.c")),
    ]
    checked(["cc", *flags, *made, *sources, "-o", library, "-ldl"])
    for name, text, words in (("plays", RANDOM_CALLS, ["1", "2"]), ("puts", SHARED, ["write", "read"])):
        (tmp_path / f"{name}.c").write_text(text)
        linked = ["-Wl,--no-as-needed", library, f"-Wl,-rpath,{tmp_path}"]
        checked(["cc", *flags, "-o", tmp_path / name, tmp_path / f"{name}.c", *linked])
        for word in words:
            given = {"STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}", "STRIPEWISE_POSIX": EVERYTHING}
            done = subprocess.run(
                [tmp_path / name, word],
                cwd=tmp_path,
                env={**os.environ, **given, "ASAN_OPTIONS": "detect_leaks=0"},
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert merge_parts(tmp_path, tmp_path / "report.json")
            report = read_report_file(tmp_path / "report.json")
            assert word == "read" or sum(acted(report, "direct")) > 0
