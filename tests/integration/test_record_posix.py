"""Records of programs without MPI: each call once, in its order, and replayed with the same calls and bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.engine.fidelity import Done
from stripewise.formats import RECORD_HEADER
from stripewise.observe.left import PREFIX, calls_in
from stripewise.observe.record import NO_CALLS, Record
from stripewise.observe.record_joining import join_threads
from stripewise.observe.record_reading import parse_record, read_record
from stripewise.runners.injection import _name_stream
from tests.integration.building import checked, fresh_home, native_parts, observer_library
from tests.integration.conftest import Mpi

CALLS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
int main(void) {
    static char b[100000];
    struct iovec two[2] = {{b, 1000}, {b, 24}};
    struct stat about;
    mkdir("sub", 0777);
    int fd = open("sub/a", O_RDWR | O_CREAT | O_EXCL, 0644);
    for (int i = 0; i < 50; i++)
        pwrite(fd, b, 100, i * 200);
    writev(fd, two, 2);
    lseek(fd, 0, SEEK_SET);
    while (read(fd, b, 4096) > 0)
        ;
    ftruncate(fd, 5000);
    fsync(fd);
    close(fd);
    if (open("sub/a", O_RDWR | O_CREAT | O_EXCL, 0644) >= 0 || open("none", O_RDONLY) >= 0 || unlink("none") == 0)
        return 1;
    FILE *stream = fopen("sub/b", "w+");
    for (int i = 0; i < 3000; i++)
        fprintf(stream, "line %d\n", i);
    putc('x', stream);
    rewind(stream);
    while (getc(stream) != EOF)
        ;
    fwrite(b, 1, 30000, stream);
    fclose(stream);
    rename("sub/b", "sub/c");
    stat("sub/c", &about);
    unlink("sub/a");
    dup2(open("out", O_WRONLY | O_CREAT, 0644), 1);
    write(1, b, 10);
    _exit(about.st_size > 30000 ? 3 : 2);
}
"""

IN_MEMORY = r"""
#include <errno.h>
#include <stdio.h>
int main(void) {
    char *text, room[10] = "hello";
    size_t size;
    errno = 0;
    FILE *out = open_memstream(&text, &size), *in = fmemopen(room, sizeof room, "r+");
    fputs("ab", out);
    fflush(out);
    if (fseek(out, -9, SEEK_CUR) != -1 || errno != EINVAL)
        return 1;
    errno = 0;
    rewind(out);
    if (errno || fseek(in, 0, SEEK_SET) || errno || fgetc(in) != 'h' || errno)
        return 2;
    return fclose(out) || fclose(in) || errno ? 3 : fclose(fopen("a", "w"));
}
"""

THREADS = """
import os, subprocess, threading
made = threading.Barrier(2)
def write():
    with open("both", "wb", buffering=0) as file:
        made.wait()
        for _ in range(5000):
            file.write(b"x" * 100)
def other():
    made.wait()
    with open("mine", "wb", buffering=0) as file:
        for _ in range(5000):
            file.write(b"y" * 10)
threads = [threading.Thread(target=one) for one in (write, other)]
[one.start() for one in threads]
[one.join() for one in threads]
subprocess.run(["cp", "both", "copy"], check=True)
print(len(open("copy", "rb").read()))
"""

Recorded = Callable[..., Record]


@pytest.fixture(scope="module")
def replayer(mpich: Mpi, tmp_path_factory: pytest.TempPathFactory) -> list[Path | str]:
    return [
        mpich.mpicc.with_name("mpiexec"),
        "-n",
        native_parts(tmp_path_factory, mpich.mpicc) / "bin" / "stripewise-replay",
    ]


@pytest.fixture
def recorded(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    def run(*command: str | Path, code: int = 0) -> Record:
        (tmp_path / "work").mkdir()
        (tmp_path / "parts").mkdir()
        given = {
            **os.environ,
            "LD_PRELOAD": str(observer_library(tmp_path_factory)),
            "STRIPEWISE_PROCESSES": f"{tmp_path}/parts/{PREFIX}",
            "STRIPEWISE_CALLS": ",".join(map(_name_stream, range(3))),
        }
        assert subprocess.run(command, cwd=tmp_path / "work", env=given, check=False).returncode == code
        text = join_threads(calls_in(tmp_path / "parts"))
        (tmp_path / "a.record").write_text(text, "utf-8", "surrogateescape")
        return parse_record(text, "a.record")

    return run


def replayed(replayer: list[Path | str], record: Record, folder: Path) -> Done:
    """Replay a.record, beside what must stay as it is."""
    before = {path: path.read_bytes() for path in (folder / "work").rglob("*") if path.is_file()}
    launcher, option, program = replayer
    words = [launcher, option, str(record.ranks), program, folder / "a.record", "--directory", folder / "replay"]
    checked([*words, "--quiet", "--counts", folder / "counts.json"])
    assert list((folder / "replay").iterdir()) == []
    assert {path: path.read_bytes() for path in (folder / "work").rglob("*") if path.is_file()} == before
    return Done.by_counts(json.loads((folder / "counts.json").read_text()))


def test_each_call_is_recorded_once_and_replayed(
    recorded: Recorded, replayer: list[Path | str], tmp_path: Path
) -> None:
    (tmp_path / "calls.c").write_text(CALLS)
    checked(["cc", "-O1", "-o", tmp_path / "calls", tmp_path / "calls.c"])
    record = recorded(tmp_path / "calls", code=3)
    assert record.gaps == () and record.ranks == 1 and record.inputs == ()
    made = Counter(name.removeprefix("posix_") for name, _ in record.calls(0) if name not in NO_CALLS)
    lines = sum(len(f"line {i}\n") for i in range(3000)) + 1
    assert made["pwrite"] == 50 and made["open"] == 5 and made["close"] == 2
    for name in ("mkdir", "truncate", "sync", "rename", "stat"):
        assert made[name] == 1, name
    assert made["unlink"] == 2, "one in vain"
    assert [numbers for name, numbers in record.calls(0) if name == "posix_open" and numbers[3]] == [
        (0, 1, 14, 1), (0, 2, 0, 1),
    ]  # fmt: skip
    assert record.moved == {"write": 5000 + 1024 + lines + 30000 + 10, "read": 9900 + lines}
    done = replayed(replayer, record, tmp_path)
    program = Done.by_record(record)
    assert done.calls == program.calls and (done.read, done.written) == (program.read, program.written)
    assert done.io_time > 0


def test_threads_and_processes_are_kept_apart_in_their_order(
    recorded: Recorded, replayer: list[Path | str], tmp_path: Path
) -> None:
    record = recorded(sys.executable, "-S", "-E", "-c", THREADS)
    # Where a busy machine lets the threads call by turns, both are one rank.
    assert record.gaps == () and record.ranks in (1, 2)
    names = [[group.path(file, group.first) for file in range(len(group.files))] for group in record.groups]
    assert not any(path.endswith((".py", ".pyc", ".so")) for paths in names for path in paths)
    moved = record.rank_bytes()
    assert sum(moved["write"]) == 1_050_000 and sum(moved["read"]) == 1_000_000
    assert record.ranks == 1 or max(moved["write"]) < 1_050_000
    done = replayed(replayer, record, tmp_path)
    program = Done.by_record(record)
    assert done.calls == program.calls and (done.read, done.written) == (program.read, program.written)


def test_what_a_shell_puts_in_place_of_a_standard_stream_is_recorded(
    recorded: Recorded, replayer: list[Path | str], tmp_path: Path
) -> None:
    """The output of `sort` was missing, and the replay of what read it read nothing."""
    record = recorded("sh", "-c", "seq 1 5000 > in; sort -r < in > out; cp out copy; echo this is not for a file")
    size = len("".join(f"{number}\n" for number in range(1, 5001)))
    assert record.gaps == () and record.moved == {"write": 3 * size, "read": 2 * size}
    done = replayed(replayer, record, tmp_path)
    program = Done.by_record(record)
    assert done.calls == program.calls and (done.read, done.written) == (program.read, program.written)


def test_what_a_killed_program_did_is_there(recorded: Recorded) -> None:
    kill = "import os, signal; f = open('a', 'wb', 0); [f.write(b'12345678') for _ in range(1000)]; "
    record = recorded(
        sys.executable, "-S", "-E", "-c", f"{kill}os.kill(os.getpid(), signal.SIGKILL)", code=-signal.SIGKILL
    )
    assert record.moved["write"] == 8000 and record.gaps == ()


def test_streams_in_memory_keep_their_errors(recorded: Recorded, tmp_path: Path) -> None:
    (tmp_path / "memory.c").write_text(IN_MEMORY)
    checked(["cc", "-O1", "-o", tmp_path / "memory", tmp_path / "memory.c"])
    assert recorded(tmp_path / "memory").gaps == ()


def test_calls_without_regularity_end_the_record_and_not_the_program(recorded: Recorded) -> None:
    calls = "import os, random; r = random.Random(1); f = os.open('a', os.O_RDWR | os.O_CREAT); "
    record = recorded(
        sys.executable, "-S", "-E", "-c", f"{calls}[os.pwrite(f, b'x', r.randrange(1 << 20)) for _ in range(40000)]"
    )
    assert record.gaps == ("calls that do not repeat took more than the memory for a record",)


def test_wild_descriptors_and_names_that_are_not_unicode_end_neither_program_nor_record(
    recorded: Recorded, replayer: list[Path | str], tmp_path: Path
) -> None:
    calls = "import os, contextlib\nwith contextlib.suppress(OSError): os.close(-2_000_000_000)\n"
    record = recorded(sys.executable, "-S", "-E", "-c", calls + "open(b'\\xff', 'wb', 0).write(b'12345678')")
    assert record.moved["write"] == 8 and read_record(tmp_path / "a.record") == record
    assert replayed(replayer, record, tmp_path).written == 8


def test_a_replay_makes_no_room_for_calls_that_no_system_makes(replayer: list[Path | str], tmp_path: Path) -> None:
    lines = [
        RECORD_HEADER,
        "job 1 1 1 1",
        "ranks 0 1",
        "file - /a/b",
        "posix_open 3 0 2 0 0",
        "posix_read 3 9999999999 0",
    ]
    text = "".join(f"{line}\n" for line in lines)
    record = tmp_path / "large.record"
    record.write_text(f"{text}checksum {zlib.crc32(text.encode()):08x}\n")
    found = subprocess.run(
        [*replayer[:2], "1", replayer[2], record, "--directory", tmp_path / "replay"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode and "line 6: a call of more bytes than Linux moves at once" in found.stderr


def test_the_commands_record_and_replay_a_program_without_mpi(
    replayer: list[Path | str],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observer_library(tmp_path_factory)
    monkeypatch.setenv("STRIPEWISE_HOME", str(fresh_home(tmp_path_factory)))
    monkeypatch.setenv("PATH", f"{Path(replayer[0]).parent}:{os.environ['PATH']}")
    record = tmp_path / "a.record"
    copies = ["dd", "if=/dev/zero", f"of={tmp_path}/data", "bs=4096", "count=20"]
    assert main(["lab", "record", "--output", str(record), "--", *copies]) == 0
    assert "23 calls, at most 1 at a time, 80 KiB written" in " ".join(capfd.readouterr().err.split())
    main(["lab", "replay", str(record), "--json"])
    told = json.loads(capfd.readouterr().out)
    assert told["calls"] == {"program": 23, "replay": 23} and told["bytes_written"] == {
        "program": 81920,
        "replay": 81920,
    }
    assert not any("bytes" in line or "calls" in line for line in told["differences"])
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.record", "data"]
    names = ["sh", "-c", f"echo a > {tmp_path}/$(printf '\\377')"]
    assert main(["lab", "record", "--quiet", "--output", str(record), "--", *names]) == 0
    assert read_record(record).groups[0].files[-1][0] == f"{tmp_path}/\udcff"
    assert main(["lab", "record", "--output", str(record), "--", "sh", "-c", "exit 5"]) == 5
    full = "stripewise.desk.cli.records.join_threads"
    monkeypatch.setattr(full, lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    capfd.readouterr()
    assert main(["lab", "record", "--output", str(record), "--", "sh", "-c", f"echo a > {tmp_path}/b; exit 6"]) == 6
    assert "there is no record in" in capfd.readouterr().err


def test_a_record_of_what_cannot_be_preloaded_names_no_other_mode(tmp_path, capfd):
    (tmp_path / "static.c").write_text("int main(void) { return 0; }\n")
    checked(["cc", "-static", str(tmp_path / "static.c"), "-o", str(tmp_path / "static")])
    assert main(["lab", "record", "--output", str(tmp_path / "record"), "--", str(tmp_path / "static")]) == 2
    said = capfd.readouterr().err
    assert "linked statically; record one that can be preloaded" in said and "--mode observe" not in said
