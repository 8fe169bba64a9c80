"""What processes without MPI do to files is counted at the C library, whatever becomes of the processes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.carriers import POSIX, Setting
from stripewise.catalogue.filesystems.base import mount_type
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.desk.cli.main import main
from stripewise.diagnose.causes.analysis import read_timings
from stripewise.diagnose.site import diagnose
from stripewise.engine.effects import verdicts
from stripewise.errors import RunFailed
from stripewise.launch import Outcome
from stripewise.observe.from_report import activity_of
from stripewise.observe.left import PREFIX, parts_in, places_in
from stripewise.observe.objectives import kind_of
from stripewise.observe.places import add_places
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import Report, read_report_file
from stripewise.observe.workload import workload_of
from stripewise.runners.injection import Guidance, prepare
from stripewise.runners.local.scratch import Scratch
from stripewise.trial import State
from tests.conftest import require
from tests.formats import faults
from tests.integration.building import accelerator_library, checked, observer_library

Observe = Callable[..., Report]
NOBODY = 65534

CALLS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
int __xstat(int version, const char *path, struct stat *about); /* in the headers of older C libraries */
int main(void) {
    char b[4096] = {0};
    struct iovec two[2] = {{b, 1000}, {b, 24}};
    struct stat about;
    int fd = open("a", O_CREAT | O_RDWR | O_TRUNC, 0600), out;
    for (int i = 0; i < 8; i++)
        if (write(fd, b, 4096) != 4096) return 1;
    for (int i = 7; i >= 0; i--)
        if (pread(fd, b, 512, i * 4096) != 512) return 2;
    if (pwrite(fd, b, 100, 50000) != 100 || writev(fd, two, 2) != 1024) return 3;
    mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, fd, 0); /* it ignores the descriptor */
    if (write(memfd_create("memory", 0), b, 9) != 9) return 3;
    lseek(fd, 0, SEEK_SET);
    while (read(fd, b, 4096) > 0)
        ;
    out = open("b", O_CREAT | O_WRONLY, 0600);
    off_t from = 0;
    if (sendfile(out, fd, &from, 2048) != 2048) return 4;
    fsync(out), close(out), close(fd);
    FILE *stream = fopen("c", "w+");
    if (fwrite(b, 10, 7, stream) != 7 || fprintf(stream, "%05d\n", 3) != 6 || fputs("xyz", stream) < 0) return 5;
    rewind(stream);
    if (fread(b, 1, 20, stream) != 20) return 6;
    fclose(stream);
    if (stat("a", &about) || open("none", O_RDONLY) >= 0 || unlink("c")) return 7;
    char *line = NULL;
    size_t room = 0;
    if (!freopen("lines", "w", stdout) || fputs("two\nlines\n", stdout) < 0) return 8;
    stream = freopen("lines", "r", stdout);
    if (!stream || getline(&line, &room, stream) != 4) return 9;
    if (preadv2(fileno(stream), two, 1, 4, 0) != 6 || preadv64v2(fileno(stream), two, 1, 8, 0) != 2) return 10;
    return __xstat(1, "a", &about);
}
"""

HANDLER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>
static int ends[2];
static void complain(int number) {
    int fd = open("dump", O_CREAT | O_WRONLY | O_TRUNC, 0600);
    (void)!write(ends[1], "caught", write(fd, "caught", number ? 6 : 0) == 6 && close(fd) == 0 ? 6 : 0);
}
int main(void) {
    size_t size = (size_t)sysconf(_SC_MINSIGSTKSZ) + 6144, page = 65536;
    char *memory = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), text[7];
    if (mprotect(memory, page, PROT_NONE) || pipe(ends)) return 1;
    sigaltstack(&(stack_t){.ss_sp = memory + page, .ss_size = size}, NULL);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = complain, .sa_flags = SA_ONSTACK}, NULL);
    raise(SIGUSR1);
    return read(ends[0], text, 7) == 6 ? 0 : 2;
}
"""


SMALL_THREAD = r"""
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <unistd.h>
static void *work(void *told) {
    char text[4];
    int fd = open("made", O_CREAT | O_RDWR, 0600);
    *(int *)told = write(fd, "text", 4) == 4 && pread(fd, text, 4, 0) == 4 && close(fd) == 0;
    return NULL;
}
int main(void) {
    pthread_attr_t small;
    pthread_t thread;
    int told = 0;
    if (pthread_attr_init(&small) || pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN)) return 1;
    if (pthread_create(&thread, &small, work, &told) || pthread_join(thread, NULL)) return 2;
    return told ? 0 : 3;
}
"""

DLERROR = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    if (dlerror() || dlopen("/nowhere.so", RTLD_NOW)) return 1;
    fprintf(stdout, "calls that no one made before\n");
    fflush(stdout);
    return dlerror() ? 0 : 2;
}
"""


@pytest.fixture(scope="session")
def observer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, as users build it."""
    return observer_library(tmp_path_factory)


@pytest.fixture(scope="session")
def accelerator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that acts as settings ask."""
    return accelerator_library(tmp_path_factory)


@pytest.fixture
def observe(observer: Path, accelerator: Path, tmp_path: Path) -> Observe:
    """Run a command, or a text of Python, and read its report; with the library that its settings need."""

    def run(*command: str, code: int = 0, **environment: str) -> Report:
        words = command if len(command) > 1 else (sys.executable, "-S", "-E", "-c", *command)
        library = accelerator if environment.keys() & {"STRIPEWISE_POSIX", "STRIPEWISE_LAYOUT"} else observer
        given = {**os.environ, "LD_PRELOAD": str(library), "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}"}
        done = subprocess.run(words, cwd=tmp_path, env={**given, **environment}, check=False, timeout=60)
        assert done.returncode == code
        assert merge_parts(tmp_path, tmp_path / "report.json") and not parts_in(tmp_path)
        assert faults(json.loads((tmp_path / "report.json").read_text())) == []
        return read_report_file(tmp_path / "report.json")

    return run


def counts(report: Report, name: str) -> dict[str, Any]:
    """Count and bytes of each operation on the file of this base name."""
    (file,) = [file for file in report.files if Path(file.path).name == name]
    return {op: (made.count, made.bytes) if made.bytes else made.count for op, made in file.operations.items()}


def alone(direction: str, report: Report) -> Report:
    """The report of a run that did nothing in one direction."""
    return report.model_copy(update={"totals": report.totals.model_copy(update={f"bytes_{direction}": 0})})


def test_each_call_is_counted_by_file(observe: Observe, tmp_path: Path) -> None:
    (tmp_path / "calls.c").write_text(CALLS)
    checked(["cc", "-O1", "-o", tmp_path / "calls", tmp_path / "calls.c"])
    report = observe(str(tmp_path / "calls"), "")
    size = 50100
    reads = -(-size // 4096) + 1  # the last one finds the end
    assert counts(report, "a") == {
        "open": 1,
        "close": 1,
        "write": (9, 8 * 4096 + 1024),
        "write_at": (1, 100),
        "read_at": (8, 8 * 512),
        "read": (reads, size),
        "read_copy": (1, 2048),
        "seek": 1,
    }
    assert counts(report, "b") == {"open": 1, "close": 1, "write_copy": (1, 2048), "sync": 1}
    written = counts(report, "c (deleted)" if not any(f.path.endswith("/c") for f in report.files) else "c")
    assert written["write_stream"] == (3, 70 + 6 + 3) and written["read_stream"] == (1, 20)
    assert counts(report, "lines") == {
        "open": 2, "close": 1, "write_stream": (1, 10), "read_stream": (1, 4), "read_at": (2, 8)
    }  # fmt: skip
    file = report.files[0]
    assert file.pattern.write is not None and file.pattern.write.histogram[2] == 8
    assert file.pattern.read is not None and file.pattern.read.strided == 6
    (process,) = json.loads((tmp_path / "report.json").read_text())["processes"]
    assert {name: made["count"] for name, made in process["metadata"].items()} == {
        "failed_open": 1, "stat": 2, "change": 1
    }  # fmt: skip
    assert (report.totals.bytes_written, process["bytes_written"]) == (8 * 4096 + 1024 + 100 + 2048 + 79 + 10,) * 2
    assert (
        workload_of(activity_of(report, "report.json")).api == "posix"
        and activity_of(report, "x").files[0].posix is not None
    )
    others = ("read", "write", "seek", "map", "advise")
    operations = [pair for f in report.files for pair in f.operations.items()]
    made = [(o.count, o.time_sum) for name, o in operations if name.split("_")[0] not in others]
    made += [(o["count"], o["time_sum"]) for o in process["metadata"].values()]
    outcome = Outcome(0, State.FINISHED, 1.0, 0.0, report=report)
    rate = sum(calls for calls, _ in made) / sum(seconds for _, seconds in made)
    assert kind_of("metadata_rate").value(outcome) == pytest.approx(rate)
    with pytest.raises(RunFailed, match="no read was seen"):
        kind_of("read_rate").value(replace(outcome, report=alone("read", report)))
    assert 0 < (report.totals.write_time or 0) < report.job.io_time <= report.job.elapsed + 1


def test_children_threads_and_replaced_programs_are_all_there(observe: Observe) -> None:
    report = observe(
        """
import os, subprocess, threading
def put(name, size=10):
    fd = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.write(fd, b"x" * size)
    os.close(fd)
put("parent")
if os.fork() == 0:
    put("child"); put("parent"); os._exit(0)
os.wait()
inherited = os.open("kept", os.O_CREAT | os.O_WRONLY)
if os.fork() == 0:
    os.write(inherited, b"y" * 30); os._exit(0)
os.wait()
many = [threading.Thread(target=lambda: [put("shared", 1) for _ in range(200)]) for _ in range(4)]
[one.start() for one in many]; [one.join() for one in many]
subprocess.run(["sh", "-c", "cat parent > copy"], check=True)
os.closerange(3, 4000)
put("after")
os.execv("/bin/sh", ["sh", "-c", "cat < parent > last"])
"""
    )
    assert counts(report, "parent")["write"] == (2, 20)
    assert counts(report, "child")["write"] == (1, 10) and counts(report, "after")["write"] == (1, 10)
    assert counts(report, "kept")["write"] == (1, 30)
    assert counts(report, "shared")["write"] == (800, 800)
    for name in ("copy", "last"):
        assert sum(made[1] for op, made in counts(report, name).items() if op.startswith("write")) == 20
    kept = report.as_json(2)
    assert len(kept["processes"]) == len(kept["files"]) == 2 and kept["files_left_out"] == len(report.files) - 2
    # Nothing is left out of the time of one rank, which all of these are.
    assert report.job.ranks == 1 and len(report.processes) >= 6


RANDOM_CALLS = r"""
/* Random calls on a few files, by processes and threads; what they read is printed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static unsigned long mix(unsigned long sum, const char *b, long n) {
    for (long i = 0; i < n; i++) sum = sum * 31 + (unsigned char)b[i];
    return sum;
}
static void *play(void *given) {
    unsigned seed = (unsigned)(size_t)given;
    char name[40], *b = aligned_alloc(4096, 1 << 18);
    unsigned long sum = 0;
    snprintf(name, sizeof name, "f%u", seed);
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 300; i++) {
        int what = rand_r(&seed) % 12;
        long size = rand_r(&seed) % (1 << (rand_r(&seed) % 18)), place = rand_r(&seed) % (1 << 20);
        if (rand_r(&seed) % 3) size &= ~4095, place &= ~4095;
        memset(b, 'a' + i % 26, (size_t)size);
        if (what < 3) sum += (unsigned long)write(fd, b, (size_t)size);
        else if (what < 6) sum = mix(sum, b, read(fd, b, (size_t)size));
        else if (what == 6) sum += (unsigned long)pwrite(fd, b, (size_t)size, place);
        else if (what == 7) sum = mix(sum, b, pread(fd, b, (size_t)size, place));
        else if (what == 8) sum += (unsigned long)lseek(fd, place, SEEK_SET);
        else if (what == 9) sum += (unsigned long)ftruncate(fd, place);
        else if (what == 10) { close(fd); fd = open(name, O_RDWR | (i % 3 ? 0 : O_APPEND)); }
        else {
            char other[48];
            snprintf(other, sizeof other, "%s.s", name);
            FILE *s = fopen(other, i % 2 ? "w" : "r");
            for (int k = 0; s && k < 50; k++) {
                if (i % 2 ? fprintf(s, "%d %ld\n", k, place) < 0 : !fgets(b, 100, s)) break;
                sum = i % 2 ? sum : mix(sum, b, (long)strlen(b));
                if (k == 20 && place % 3 == 0) fseek(s, 7, SEEK_SET);
                if (k == 30) fflush(s);
            }
            if (s) fclose(s);
        }
    }
    close(fd);
    snprintf(b, 64, "%s.sum", name);
    FILE *out = fopen(b, "w");
    fprintf(out, "%lu\n", sum);
    fclose(out);
    free(b);
    return NULL;
}
int main(int count, char **words) {
    unsigned seed = count > 1 ? (unsigned)atoi(words[1]) : 1;
    pthread_t one[2];
    pid_t child = fork();
    seed = seed * 10 + (child ? 0 : 5);
    for (int i = 0; i < 2; i++) pthread_create(&one[i], NULL, play, (void *)(size_t)(seed + (unsigned)i));
    for (int i = 0; i < 2; i++) pthread_join(one[i], NULL);
    return child ? waitpid(child, NULL, 0) < 0 : 0;
}
"""

ADVISED = """
import os
for name in ("kept", "left"):
    open(name, "wb").write(bytes(10))
    for _ in range(3): os.close(os.open(name, os.O_RDONLY))
"""


def test_settings_act_on_chosen_files_and_are_counted(observe: Observe, tmp_path: Path) -> None:
    asked = {"STRIPEWISE_POSIX": "advice=random,none=1,advise", "STRIPEWISE_POSIX_FILES": "*/k*"}
    report = observe(ADVISED, **asked)
    told = {Path(file.path).name: file.settings for file in report.files if file.settings}
    in_memory = mount_type(tmp_path) == "tmpfs"
    ((name, (outcome,)),) = told.items()
    assert (name, outcome.layer, outcome.key, outcome.requested) == ("kept", "posix", "advice", "random")
    # Of a file that is only written, advice on reads changes nothing.
    assert (outcome.acted, outcome.missed) == ((0, 4) if in_memory else (3, 1))
    assert counts(report, "kept")["open"] == 4 and "advise" not in counts(report, "kept")
    assert json.loads((tmp_path / "report.json").read_text())["processes"][0]["settings_misread"] == 2
    (effect,) = verdicts(
        Space(load_stack("posix").parameters), [Setting(POSIX, "advice", "random")], [activity_of(report, "r")], []
    )
    assert effect.evidence == f"it acted in {'none of 4' if in_memory else '3 of 4'} calls on 1 file" + (
        "" if in_memory else "; no run without it was observed"
    )
    assert effect.status == ("no_effect" if in_memory else "unprovable")
    report = observe(ADVISED, STRIPEWISE_POSIX="advice=7")
    (outcome,) = {file.settings[0] for file in report.files if file.path.endswith("/left")}
    assert (outcome.outcome, outcome.requested, outcome.acted, outcome.missed) == ("refused", "7", 0, 4)
    assert all(not file.settings for file in observe(ADVISED).files)


@pytest.mark.parametrize("asked", ["advice=random,readahead=65536,stream_buffer=65536", "direct=4096,readahead=65536"])
def test_whatever_is_set_the_program_reads_and_writes_the_same(accelerator: Path, tmp_path: Path, asked: str) -> None:
    (tmp_path / "random.c").write_text(RANDOM_CALLS)
    checked(["cc", "-O1", "-o", tmp_path / "random", tmp_path / "random.c", "-pthread"])
    done: Counter[str] = Counter()
    for seed in range(3):
        seen = []
        for name, variables in (("without", {}), ("with", {"LD_PRELOAD": str(accelerator), "STRIPEWISE_POSIX": asked})):
            folder, parts = tmp_path / f"{name}{seed}", tmp_path / f"parts-{name}{seed}"
            folder.mkdir()
            parts.mkdir()
            given = {**os.environ, **variables, "STRIPEWISE_PROCESSES": f"{parts}/{PREFIX}"}
            subprocess.run([tmp_path / "random", str(seed)], cwd=folder, env=given, check=True, timeout=60)
            seen.append({path.name: path.read_bytes() for path in folder.iterdir()})
        assert len(seen[0]) >= 8 and seen[0] == seen[1]
        assert merge_parts(parts, parts / "report.json")
        told = [outcome for file in read_report_file(parts / "report.json").files for outcome in file.settings]
        assert {outcome.key for outcome in told} == {entry.partition("=")[0] for entry in asked.split(",")}
        for outcome in told:
            done[outcome.key] += outcome.acted or 0
    if mount_type(tmp_path) in ("ext4", "xfs", "f2fs"):
        assert done["direct" if "direct" in asked else "readahead"]


STREAMS = r"""
#include <stdio.h>
int main(void) {
    static char own[512];
    FILE *s = fopen("out", "w"), *more[70];
    for (int i = 0; i < 20000; i++) fputs("0123456789", s);
    fclose(s);
    s = fopen("out", "w+");
    setvbuf(s, own, _IOFBF, sizeof own);
    for (int i = 0; i < 20000; i++) fputs("abcdefghij", s);
    fclose(s);
    for (int i = 0; i < 70; i++) more[i] = fopen("out", "w");
    for (int i = 0; i < 70; i++) if (fputc('a', more[i]) != 'a' || fclose(more[i])) return 1;
    s = fopen("out", "r");
    if (fgetc(s) != 'a' || fclose(s)) return 1;
    return 0;
}
"""


def test_buffers_of_streams_are_bounded_and_given_back(observe: Observe, tmp_path: Path) -> None:
    (tmp_path / "streams.c").write_text(STREAMS)
    checked(["cc", "-o", tmp_path / "streams", tmp_path / "streams.c"])
    report = observe(str(tmp_path / "streams"), "", STRIPEWISE_POSIX="stream_buffer=1048576")
    (file,) = [file for file in report.files if file.path.endswith("/out")]
    # The first, and 32 MiB of those that are open at a time; not those that read.
    assert [(o.acted, o.missed) for o in file.settings] == [(33, 40)]


def test_a_killed_process_leaves_what_it_did(observe: Observe) -> None:
    text = "import os; f = os.open('k', 65); [os.write(f, b'z' * 7) for _ in range(9)]; os.kill(os.getpid(), 9)"
    report = observe(text, code=-signal.SIGKILL)
    assert counts(report, "k")["write"] == (9, 63) and not report.processes[0].ended


def test_causes_are_found_in_such_reports(observe: Observe) -> None:
    report = observe(
        """
import os
size = 8 << 20
with open("data", "wb") as out: out.write(bytes(size))
for reader in range(4):
    if os.fork() == 0:
        f = os.open("data", os.O_RDONLY)
        while os.read(f, 1 << 20): pass
        os._exit(0)
    os.wait()
"""
    )
    assert len(report.processes) == 5 and all(process.ended for process in report.processes)
    found = {finding.code: finding for finding in diagnose(activity_of(report, "x")).findings}
    assert "by up to 4 processes: 24 MiB more than the file holds" in found["read-by-every-process"].says
    asked = "import os; os.write(os.open('o', 65), b'1'); [os.path.exists(f'none{i}') for i in range(500)]"
    report = observe(asked)
    found = {finding.code: finding for finding in diagnose(activity_of(report, "x")).findings}
    assert found["metadata-storm"].evidence["calls"] >= 501


def test_readers_of_a_whole_file_are_told_from_epochs_over_a_part_each(observe: Observe) -> None:
    """A parent opens the file and reads its head; workers read all of it, or two epochs of their half."""
    text = """
import os
size = 2 << 20
with open("data", "wb") as out: out.write(bytes(size))
f = os.open("data", os.O_RDONLY)
os.read(f, 100)
for worker in range(2):
    if os.fork() == 0:
        f = os.open("data", os.O_RDONLY)
        for start, end in PARTS:
            for at in range(start, end, 1 << 16): os.pread(f, 1 << 16, at)
        os._exit(0)
    os.wait()
"""
    for parts, readers in [("[(0, size)]", 2), ("[(worker << 20, (worker + 1) << 20)] * 2", 0)]:
        report = observe(text.replace("PARTS", parts))
        (data,) = [file for file in report.files if file.path.endswith("/data")]
        assert (data.processes, data.whole_readers, data.whole_read) == (3, readers, readers * (2 << 20))


def test_scripts_are_told_apart_and_no_argument_is_kept(observe: Observe, tmp_path: Path) -> None:
    (tmp_path / "write.sh").write_text("echo $1 > a\nsh -c 'echo x > b' token.sh\n")
    (tmp_path / "copy.sh").write_text("cat a > c\necho x > d")
    report = observe("sh", "-c", "echo x > e; sh -e write.sh secret; exec sh copy.sh")
    assert {one.script for one in report.programs} == {"", "write.sh", "copy.sh"}
    assert {one.name for one in report.programs} >= {"write.sh", "copy.sh", "cat"}
    kept = json.dumps([one.model_dump(mode="json") for one in report.processes])
    assert "secret" not in kept and "token.sh" not in kept


@pytest.mark.parametrize(
    "variables",
    ["SLURM_PROCID={} SLURM_NTASKS=2", "TORCHELASTIC_RUN_ID=1 SLURM_PROCID=0 SLURM_NTASKS=1 RANK={} WORLD_SIZE=2"],
)
def test_ranks_are_those_of_the_launcher(observe: Observe, tmp_path: Path, variables: str) -> None:
    for rank in range(2):
        text = "import os; f = os.open('r', 65); os.write(f, b'1')"
        words = f'{variables.format(rank)} exec {sys.executable} -S -E -c "{text}"'
        (tmp_path / f"{rank}.sh").write_text(words)
    report = observe("sh", "-c", "sh ./0.sh & sh ./1.sh & wait")
    assert (report.job.ranks, report.job.complete) == (2, True)
    (shared,) = [file for file in report.files if file.path.endswith("/r")]
    assert shared.ranks == 2
    alone = observe(text, SLURM_PROCID="1", SLURM_NTASKS="2")
    assert alone.job.ranks == 1


def test_more_files_than_have_room_are_summed(observe: Observe) -> None:
    report = observe("import os\nfor i in range(700): f = os.open(f'f{i}', 65); os.write(f, b'12'); os.close(f)")
    assert report.totals.bytes_written == 1400
    assert [file.path for file in report.files if file.path.startswith("(")] == ["(other files)"]


def test_modules_of_python_leave_room_for_data(observe: Observe, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("plain", "site-packages/net/layers", "site-packages/net/data")]
    for folder in folders:
        folder.mkdir(parents=True)
        for number in range(300):
            (folder / f"m{number}.py").write_text("")
    compiled = folders[0] / "__pycache__" / "m1.cpython-311.pyc"
    compiled.parent.mkdir()
    compiled.write_text("")
    paths = [str(folder) for folder in folders]
    report = observe(
        f"for folder in {paths}:\n"
        "    for i in range(300): open(f'{folder}/m{i}.py').read()\n"
        f"open('{compiled}').read()\n"
        "open('data', 'w').write('12')"
    )
    opens = {file.path: file.opens for file in report.files if file.path.startswith(str(tmp_path))}
    modules = {f"{tmp_path}/plain/*.py": 300, f"{tmp_path}/plain/*.pyc": 1, f"{tmp_path}/site-packages/net/*.py": 600}
    assert {path: opens[path] for path in modules} == modules
    data = [file for file in report.files if file.path.endswith("/data")]
    assert len(data) == 1
    assert not any(file.path == "(other files)" for file in report.files)
    shared = next(file for file in report.files if file.path == f"{tmp_path}/plain/*.py")
    assert shared.size is None
    assert shared.file_system == data[0].file_system


def test_files_of_shared_packages_leave_room_for_data(observe: Observe) -> None:
    # As the time zones that pandas opens, with which its tables had no record left.
    package, files = next(
        (folder, files)
        for folder in Path("/usr/share").iterdir()
        if folder.is_dir() and len(files := [str(file) for file in folder.rglob("*") if file.is_file()][:50]) > 2
    )
    report = observe(f"for path in {files}: open(path, 'rb').read(1)\nopen('data', 'w').write('12')")
    (shared,) = (file for file in report.files if file.path == f"{package}/*")
    assert shared.opens + sum(f.opens for f in report.files if f.path.startswith(f"{package}/*.")) >= len(files)
    assert shared.size is None and any(file.path.endswith("/data") for file in report.files)


def test_the_observer_alone_changes_nothing(observer: Path, accelerator: Path, tmp_path: Path) -> None:
    asked = {"STRIPEWISE_POSIX": "advice=random,direct=4096,cluster_threshold=1"}
    (tmp_path / "data").write_bytes(bytes(100_000))
    acted = {}
    for library in (observer, accelerator):
        parts = tmp_path / library.stem
        parts.mkdir()
        given = {**os.environ, "LD_PRELOAD": str(library), "STRIPEWISE_PROCESSES": f"{parts}/{PREFIX}"}
        subprocess.run(["cat", tmp_path / "data"], env={**given, **asked}, check=True, stdout=subprocess.DEVNULL)
        assert merge_parts(parts, parts / "report.json")
        (file,) = [f for f in read_report_file(parts / "report.json").files if f.path == str(tmp_path / "data")]
        acted[library] = {setting.key for setting in file.settings}
    assert acted == {observer: set(), accelerator: {"advice", "direct", "cluster_threshold"}}


def test_nothing_is_left_by_what_opens_no_file_or_cannot_write_its_part(observer: Path, tmp_path: Path) -> None:
    given = {**os.environ, "LD_PRELOAD": str(observer), "STRIPEWISE_PROCESSES": f"{tmp_path}/none/{PREFIX}"}
    (tmp_path / "in").write_text("text")
    done = subprocess.run(["cat", "in"], cwd=tmp_path, env=given, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"text", b"")
    given["STRIPEWISE_PROCESSES"] = f"{tmp_path}/{PREFIX}"
    subprocess.run(["true"], cwd=tmp_path, env=given, check=True)
    assert not parts_in(tmp_path) and not merge_parts(tmp_path, tmp_path / "report.json")


def test_time_in_fflush_is_time_of_writing(observe: Observe, observer: Path, tmp_path: Path) -> None:
    (tmp_path / "slow.c").write_text(
        "#include <stdio.h>\n#include <unistd.h>\n"
        "int fflush_unlocked(FILE *);\nint fflush(FILE *f) { usleep(50000); return fflush_unlocked(f); }"
    )
    text = (
        '#include <stdio.h>\n#include <unistd.h>\nint main(void) { usleep(200000); FILE *f = fopen("a", "w"); '
        'fputs("12", f); fflush(f); return fclose(f); }'
    )
    (tmp_path / "program.c").write_text(text)
    checked(["cc", "-shared", "-fPIC", "-o", tmp_path / "slow.so", tmp_path / "slow.c"])
    checked(["cc", "-o", tmp_path / "program", tmp_path / "program.c"])
    report = observe(str(tmp_path / "program"), "", LD_PRELOAD=f"{observer}:{tmp_path}/slow.so")
    assert counts(report, "a")["write_stream"] == (1, 2) and report.job.io_time >= 0.05
    assert report.job.elapsed >= 0.25, "the program begins before its first call on a file"


def test_a_full_disk_does_not_end_the_program(observer: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=64k none disk && exec "$@"', "sh"]
    if subprocess.run([*mount, "true"], cwd=tmp_path, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    for used in (0, 56, 64):
        fill = f"head -c {used}k /dev/zero > disk/fill; LD_PRELOAD={observer} STRIPEWISE_PROCESSES={disk}/{PREFIX} "
        text = "for i in range(300): open(f'f{i}', 'w').write('12')\nprint(len(open('f299').read()))"
        words = [*mount, "sh", "-c", f'{fill} {sys.executable} -S -E -c "{text}"; ls disk']
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
        # A file without room of its own counts with others; without any room, nothing is counted.
        assert done.stdout.startswith("2\n") and (PREFIX in done.stdout) == (used < 64)


@pytest.mark.parametrize("asked", [{}, {"STRIPEWISE_LAYOUT": "cephfs stripe_count=4"}])
def test_handlers_of_signals_have_room_on_small_stacks(
    accelerator: Path, tmp_path: Path, asked: dict[str, str]
) -> None:
    (tmp_path / "handler.c").write_text(HANDLER)
    checked(["cc", "-o", tmp_path / "handler", tmp_path / "handler.c"])
    given = {**os.environ, "LD_PRELOAD": str(accelerator), "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}"}
    assert subprocess.run([tmp_path / "handler"], env={**given, **asked}, cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "dump").read_text() == "caught"


@pytest.mark.parametrize("asked", [{}, {"STRIPEWISE_LAYOUT": "lustre stripe_count=4"}, {"STRIPEWISE_WHERE": "1"}])
def test_threads_may_have_the_smallest_stack(observe: Observe, tmp_path: Path, asked: dict[str, str]) -> None:
    (tmp_path / "thread.c").write_text(SMALL_THREAD)
    checked(["cc", "-D_GNU_SOURCE", "-o", tmp_path / "thread", tmp_path / "thread.c", "-pthread"])
    report = observe(str(tmp_path / "thread"), "", **asked)
    assert counts(report, "made") == {"open": 1, "close": 1, "write": (1, 4), "read_at": (1, 4)}


@pytest.mark.parametrize("asked", [{}, {"STRIPEWISE_WHERE": "1"}])
def test_what_dlerror_tells_the_program_stays(observer: Path, tmp_path: Path, asked: dict[str, str]) -> None:
    (tmp_path / "dlerror.c").write_text(DLERROR)
    checked(["cc", "-o", tmp_path / "dlerror", tmp_path / "dlerror.c", "-ldl"])
    given = {**os.environ, "LD_PRELOAD": str(observer), "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}"}
    assert subprocess.run([tmp_path / "dlerror"], env={**given, **asked}, check=False).returncode == 0


def test_a_limit_of_the_size_of_files_does_not_end_the_program(observer: Path, tmp_path: Path) -> None:
    given = {**os.environ, "LD_PRELOAD": str(observer), "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}"}
    (tmp_path / "in").write_text("text")
    done = subprocess.run(["sh", "-c", "ulimit -f 8; cat in"], cwd=tmp_path, env=given, capture_output=True, check=True)
    assert done.stdout == b"text" and not parts_in(tmp_path)


def test_a_run_of_an_experiment_finds_the_report_and_forgets_an_earlier_one(observe: Observe, tmp_path: Path) -> None:
    place = Scratch(tmp_path / "run", "id")
    place.create({})
    text = "import os; os.write(os.open('o', 65), b'1')"
    observe(text, STRIPEWISE_PROCESSES=f"{tmp_path}/{PREFIX}")
    (place.path / f"{PREFIX}1-1").write_bytes(b"not whole")
    assert place.read_report() == (None, "the runtime wrote none")
    place.create({})
    assert not parts_in(place.path)


def test_a_program_of_ones_own_is_observed(observer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stripewise.runners.injection.observer_for", lambda _: observer)
    folder = tmp_path / "applied"
    looked = Guidance(mode="observe")
    ready = prepare(Plan(), ["cp", "in", "out"], folder, cwd=tmp_path, guidance=replace(looked, own_calls=True))
    (tmp_path / "in").write_bytes(bytes(5000))
    subprocess.run(ready.words, cwd=tmp_path, check=True)
    assert ready.observed and merge_parts(folder, folder / "report.json")
    assert read_report_file(folder / "report.json").totals.bytes_written == 5000


def test_a_program_with_gccs_address_sanitizer_starts(
    observer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stripewise.runners.injection.observer_for", lambda _: observer)
    (tmp_path / "a.c").write_text('#include <stdio.h>\nint main(void) { return fopen("a.c", "r") ? 3 : 4; }\n')
    checked(["gcc", "-fsanitize=address", tmp_path / "a.c", "-o", tmp_path / "a"])
    guidance = Guidance(mode="observe", own_calls=True)
    ready = prepare(Plan(), [str(tmp_path / "a")], tmp_path / "applied", cwd=tmp_path, guidance=guidance)
    environment = {**os.environ, "ASAN_OPTIONS": ""}
    done = subprocess.run(ready.words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, parts_in(tmp_path / "applied") != []) == (3, True), done.stderr


def test_run_keeps_the_exit_code_and_takes_no_parts_of_an_earlier_run(
    observer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stripewise.runners.injection.observer_for", lambda _: observer)
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.plan").write_text(Plan().text())
    folder = tmp_path / "home" / "applied" / "a.plan"
    words = ["run", "a.plan", "--mode", "observe", "--", "sh", "-c", 'echo 1 > a; test -z "$0" || mkdir "$0"; exit 3']
    assert main([*words, ""]) == 3 and (folder / "report.json").is_file()
    (folder / f"{PREFIX}1-1").write_bytes(b"of a run that was killed")
    assert main([*words, str(folder / "report.json")]) == 3
    assert "cannot be written" in capfd.readouterr().err and not list(folder.glob(f"{PREFIX}1-1"))


def test_a_setuid_program_makes_no_file_where_its_user_says(observer: Path) -> None:
    """The loader preloads nothing into it; but a site can link the library, or name it in /etc/ld.so.preload."""
    require(os.geteuid() == 0, "making a program of another user's needs root")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o777)
        library = shutil.copy(observer, folder / observer.name)
        library.chmod(0o755)
        (folder / "a.c").write_text('#include <stdio.h>\nint main(void) { return !fopen("/etc/passwd", "r"); }\n')
        checked(["cc", folder / "a.c", "-o", folder / "a", "-Wl,--no-as-needed", library, f"-Wl,-rpath,{folder}"])
        for mode, parts in ((0o755, 1), (0o4755, 0)):
            (folder / "a").chmod(mode)
            variables = {"STRIPEWISE_PROCESSES": f"{folder}/{PREFIX}"}
            subprocess.run([folder / "a"], env=variables, user=NOBODY, check=True)
            assert len(parts_in(folder)) == parts
            for part in parts_in(folder):
                part.unlink()


def test_one_script_of_a_command_is_measured_alone(
    accelerator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stripewise.runners.program_runner.accelerator_for", lambda *_: accelerator)
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    Path("shard.py").write_text("open('shard', 'wb').write(bytes(3000000))")
    Path("train.py").write_text("open('shard', 'rb').read(1000000)")
    Path("both.sh").write_text(f"#!/bin/sh\n{sys.executable} -S -E shard.py\n{sys.executable} -S -E train.py\n")
    Path("both.sh").chmod(0o700)

    def tune(program: str) -> int:
        options = ["--objective", "io_time", "--program", program, "--stack", "posix", "--budget", "2", "--json"]
        return main(["tune", *options, "--", "./both.sh"])

    assert tune("train.py") == 0
    assert json.loads(capsys.readouterr().out)["default"]["value"] > 0
    assert tune("test.py") == 2
    assert "no program of the command is called test.py: it started both.sh, shard.py, train.py" in " ".join(
        capsys.readouterr().err.split()
    )


WHERE = r"""
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
static int small(int fd) { return write(fd, "0123456789", 10) == 10; }
int main(void) {
    int fd = open("cells", O_CREAT | O_WRONLY, 0600), told;
    for (int i = 0; i < 2000; i++)
        if (!small(fd)) return 1;
    if (fork() == 0) return !small(fd);
    wait(&told);
    return told;
}
"""


@pytest.mark.skipif(not shutil.which("addr2line"), reason="there is no addr2line")
def test_source_lines_of_calls_are_found_where_they_are_asked_for(observe: Observe, tmp_path: Path) -> None:
    (tmp_path / "where.c").write_text(WHERE)
    checked(["cc", "-g", "-O1", "-fno-inline", "-o", "where", "where.c"], tmp_path)
    observe("./where", "now")
    assert not places_in(tmp_path)
    observe("./where", "now", STRIPEWISE_WHERE="1")
    assert add_places(tmp_path / "report.json") == "" and not places_in(tmp_path)
    report = read_report_file(tmp_path / "report.json")
    (file,) = (file for file in report.files if file.path == str(tmp_path / "cells"))
    # The first 512 calls all count, then each that is looked at for 61.
    assert abs(sum(place.calls for place in file.places) - 2001) <= 61
    assert all(place.lines[0] == f"{tmp_path}/where.c:5 in small" for place in file.places)
    found = next(one for one in diagnose(activity_of(report, "report.json")).findings if one.code == "small-writes")
    assert found.lines[0].startswith(f"{tmp_path}/where.c:5 in small, called from {tmp_path}/where.c:9 in main (")
    (tmp_path / "plain.c").write_text(WHERE)
    checked(["cc", "-o", "plain", "plain.c"], tmp_path)
    observe("./plain", "now", STRIPEWISE_WHERE="1")
    assert "build the program with -g" in add_places(tmp_path / "report.json")


TRACED = """
import os
with open("data", "w+b", buffering=0) as file:
    for place in range(3):
        os.pwrite(file.fileno(), bytes(4096), 4096 * place)
    if os.fork() == 0:
        for place in (2, 1, 0):
            os.pread(file.fileno(), 4096, 4096 * place)
        os._exit(0)
    os.wait()
    file.seek(0)
    file.read(100)
    file.read(50)
"""


def test_single_reads_and_writes_are_traced_where_they_are_asked_for(
    observer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stripewise.runners.injection.observer_for", lambda _: observer)
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    words = ["run", "--mode", "observe", "--trace", "trace.csv", "--", sys.executable, "-S", "-E", "-c", TRACED]
    assert main(words) == 0 and re.search(r"trace\.csv: \d+ requests", " ".join(capfd.readouterr().err.split()))
    own = [timing for timing in read_timings(tmp_path / "trace.csv") if timing.series[1] == str(tmp_path / "data")]  # type: ignore[index]
    assert [(timing.operation, timing.offset, timing.size) for timing in own] == [
        *(("write", 4096 * place, 4096) for place in range(3)), ("read", 0, 100), ("read", 100, 50),
        *(("read", 4096 * place, 4096) for place in (2, 1, 0)),
    ]  # fmt: skip
    assert len({timing.series for timing in own}) == 2 and all(0 < timing.seconds < 1 for timing in own)
    assert not list((tmp_path / "home" / "applied").rglob("*.requests"))
    program = "open(b'\\xff', 'wb', 0).write(b'1'); raise SystemExit(3)"
    assert main([*words[:-1], program]) == 3
    assert r"\udcff" in (tmp_path / "trace.csv").read_text()
