"""Programs on which a preloaded library could have a bad effect do with the observer what they do without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stripewise.observe.left import PREFIX, parts_in
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import Report, read_report_file
from tests.conftest import require
from tests.integration.building import checked
from tests.integration.test_observer import Observe, accelerator, counts, observe, observer  # noqa: F401  fixtures

NOBODY = 65534
ALL = "advice=random,readahead=65536,stream_buffer=65536,direct=4096,cluster_threshold=2"
"""Settings that act on every call."""


def compiled(folder: Path, name: str, text: str, *flags: str) -> Path:
    """A program, or a library with ``-shared``."""
    (folder / f"{name}.c").write_text(text)
    checked(["cc", "-O1", "-o", folder / name, folder / f"{name}.c", *flags])
    return folder / name


COPIES = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    char *b = malloc(70000);
    int in = open("in", O_RDONLY), out = open("out", O_CREAT | O_WRONLY | O_TRUNC, 0644);
    for (ssize_t got; (got = read(in, b, 70000)) > 0;)
        if (write(out, b, (size_t)got) != got) return 1;
    return in < 0 || close(in) || close(out);
}
"""


@pytest.mark.parametrize("asked", ["", ALL])
def test_static_and_setuid_programs_work_and_leave_no_part(accelerator: Path, asked: str) -> None:  # noqa: F811
    require(os.geteuid() == 0, "running a program of another user's needs root")
    data = os.urandom(300_000)
    with tempfile.TemporaryDirectory() as place:  # which others may enter
        folder = Path(place)
        folder.chmod(0o777)
        (folder / "in").write_bytes(data)
        library = shutil.copy(accelerator, folder / "lib.so")
        static, setuid = compiled(folder, "static", COPIES, "-static"), compiled(folder, "setuid", COPIES)
        setuid.chmod(0o4755)
        for program, user in ((static, 0), (setuid, NOBODY)):
            (folder / "out").unlink(missing_ok=True)
            given = {
                "LD_PRELOAD": str(library),
                "STRIPEWISE_PROCESSES": f"{folder}/{PREFIX}",
                "STRIPEWISE_POSIX": asked,
            }
            done = subprocess.run([program], cwd=folder, env=given, user=user, capture_output=True, check=True)
            assert (folder / "out").read_bytes() == data and not parts_in(folder)
            assert done.stdout == b""


PIVOTS = r"""
import ctypes, os, sys
c = ctypes.CDLL(None, use_errno=True)
NAMESPACE, PRIVATE, BIND, DETACH = 0x20000, 0x44000, 0x1000, 2
PIVOT = {"x86_64": 155, "aarch64": 41}[os.uname().machine]
place = sys.argv[1].encode()
assert c.unshare(NAMESPACE) == 0 and c.mount(None, b"/", None, ctypes.c_ulong(PRIVATE), None) == 0
assert c.mount(place, place, None, ctypes.c_ulong(BIND), None) == 0 and c.chdir(place) == 0
assert c.syscall(PIVOT, b".", b".") == 0 and c.umount2(b".", DETACH) == 0
c.execv(b"/env", (ctypes.c_char_p * 2)(b"env", None))
"""
"""What starts containers."""


@pytest.mark.parametrize("how", ["setpriv", "chroot", "pivot_root"])
def test_programs_that_leave_root_print_no_error_of_the_loader(
    accelerator: Path,  # noqa: F811
    tmp_path: Path,
    how: str,
) -> None:
    require(os.geteuid() == 0, "leaving root needs root")
    assert tmp_path.parent.parent.stat().st_mode & 0o077 == 0  # a folder that only root may enter
    library = shutil.copy(accelerator, tmp_path)
    command = ["setpriv", f"--reuid={NOBODY}", "--clear-groups", "env"]
    if how != "setpriv":
        program = shutil.which("env") or ""
        for needed in subprocess.check_output(["ldd", program], text=True).replace("(", " ").split():
            if needed.startswith("/"):
                (tmp_path / needed[1:]).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(needed, tmp_path / needed[1:])
        command = ["chroot", str(tmp_path), f"/{Path(shutil.copy(program, tmp_path)).name}"]
    if how == "pivot_root":
        command = [sys.executable, "-S", "-E", "-c", PIVOTS, str(tmp_path)]
    other = "libc.so.6"
    for preload, left in ((f"{library}:{other}", other), (library, "")):
        variables = {"PATH": os.environ["PATH"], "LD_PRELOAD": preload, "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        assert done.stderr == "" and f"LD_PRELOAD={left}\n" in done.stdout


# -- others that are preloaded -----------------------------------------------------------------------------------------

# As jemalloc: memory is mapped from the first call on, before others have begun, and forks are watched.
ALLOCATOR = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void before(void) { pthread_mutex_lock(&lock); }
static void after(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void begin(void) { pthread_atfork(before, after, after); }
static char *at, *end;
void *memalign(size_t align, size_t size) {
    pthread_mutex_lock(&lock);
    if (align < 16) align = 16;
    size_t room = size + align + 16;
    if (!at || (size_t)(end - at) < room) {
        size_t piece = room > (1 << 22) ? room : 1 << 22;
        at = mmap(NULL, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) _exit(99);
        end = at + piece;
    }
    char *given = (char *)(((size_t)at + 16 + align - 1) / align * align);
    memcpy(given - 8, &size, 8);
    at = given + size;
    pthread_mutex_unlock(&lock);
    return given;
}
void *malloc(size_t size) { return memalign(16, size); }
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void free(void *given) { (void)given; }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
int posix_memalign(void **given, size_t align, size_t size) { return !(*given = memalign(align, size)); }
void *realloc(void *old, size_t size) {
    size_t before_size = 0;
    void *given = malloc(size);
    if (old) memcpy(&before_size, (char *)old - 8, 8);
    if (old) memcpy(given, old, before_size < size ? before_size : size);
    return given;
}
"""

# As Darshan: it takes the place of the same calls, and writes a log of its own when the program ends.
TRACER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static long reads, writes, opens, closes;
ssize_t read(int fd, void *b, size_t n) {
    reads++;
    return ((ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read"))(fd, b, n);
}
ssize_t write(int fd, const void *b, size_t n) {
    writes++;
    return ((ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(fd, b, n);
}
int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    opens++;
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}
int close(int fd) {
    closes++;
    return ((int (*)(int))dlsym(RTLD_NEXT, "close"))(fd);
}
__attribute__((destructor)) static void end(void) {
    FILE *log = fopen("trace.log", "w");
    fprintf(log, "%ld %ld %ld %ld\n", opens, reads, writes, closes);
    fclose(log);
}
"""

# As XALT: at the beginning and the end it starts programs, without what is preloaded.
WATCHER = r"""
#include <stdio.h>
#include <stdlib.h>
static void tell(const char *when) {
    char line[200], *preload = getenv("LD_PRELOAD"), *kept = preload;
    char *copy = malloc(4096);
    snprintf(copy, 4096, "%s", kept ? kept : "");
    unsetenv("LD_PRELOAD");
    snprintf(line, sizeof line, "echo %s >> watched.log", when);
    if (system(line)) abort();
    setenv("LD_PRELOAD", copy, 1);
    free(copy);
}
__attribute__((constructor)) static void begin(void) { tell("begin"); }
__attribute__((destructor)) static void end(void) { tell("end"); }
"""


FORKS = """
import os, threading
for turn in range(9):
    thread = threading.Thread(target=bytearray, args=(9999,))
    thread.start()
    if os.fork() == 0:
        open(f"c{turn}", "w").write("12")
        os._exit(0)
    os.wait()
    thread.join()
"""


def allocators() -> list[str]:
    """Those that are installed here."""
    found = [
        Path("/usr/lib") / f"{os.uname().machine}-linux-gnu" / name for name in ("libjemalloc.so.2", "libtcmalloc.so.4")
    ]
    return [str(path) for path in found if path.exists()]


def test_programs_linked_to_musl_start(accelerator: Path, tmp_path: Path) -> None:  # noqa: F811
    symbols = subprocess.check_output(["nm", "-D", "--undefined-only", accelerator], text=True)
    required = {line.split()[1].partition("@")[0] for line in symbols.splitlines() if line.split()[0] == "U"}
    inner = {name for name in required if name.startswith("__")}
    assert inner <= {"__cxa_finalize", "__environ", "__errno_location"}  # what musl defines, too
    if not (musl := shutil.which("musl-gcc")):
        return
    (tmp_path / "in").write_bytes(os.urandom(300_000))
    (tmp_path / "copies.c").write_text(COPIES)
    checked([musl, "-o", tmp_path / "copies", tmp_path / "copies.c"])
    given = {"LD_PRELOAD": str(accelerator), "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}", "STRIPEWISE_POSIX": ALL}
    subprocess.run([tmp_path / "copies"], cwd=tmp_path, env=given, check=True)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes() and parts_in(tmp_path)


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
@pytest.mark.parametrize("other", ["ALLOCATOR", "TRACER", "WATCHER", *allocators()])
def test_programs_that_preload_others(
    observe: Observe,  # noqa: F811
    accelerator: Path,  # noqa: F811
    tmp_path: Path,
    other: str,
    first: bool,
) -> None:
    text = {"ALLOCATOR": ALLOCATOR, "TRACER": TRACER, "WATCHER": WATCHER}.get(other)
    library = (
        Path(other) if text is None else compiled(tmp_path, "other.so", text, "-shared", "-fPIC", "-ldl", "-pthread")
    )
    program = compiled(tmp_path, "copies", COPIES)
    data = os.urandom(300_000)
    (tmp_path / "in").write_bytes(data)
    order = [str(accelerator), str(library)] if first else [str(library), str(accelerator)]
    report = observe(str(program), "", LD_PRELOAD=":".join(order), STRIPEWISE_POSIX=ALL)
    assert (tmp_path / "out").read_bytes() == data
    assert counts(report, "out")["write"] == (5, 300_000) and counts(report, "in")["read"][1] == 300_000
    if other == "TRACER" and first:
        # What is answered in another way does not reach it; all else does.
        assert (tmp_path / "trace.log").read_text().split()[0] == "2"
    if other == "WATCHER":
        assert (tmp_path / "watched.log").read_text() == "begin\nend\n"
    report = observe(FORKS, LD_PRELOAD=":".join(order), STRIPEWISE_POSIX=ALL)
    assert all((tmp_path / f"c{i}").read_text() == "12" for i in range(9)) and len(report.processes) >= 9


# -- descriptors -------------------------------------------------------------------------------------------------------

CLOSES = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words) {
    char *b = aligned_alloc(4096, 65536);
    int first = open("first", O_CREAT | O_WRONLY, 0644);
    memset(b, 'f', 65536);
    if (count < 2 || write(first, b, 65536) != 65536) return 1;
    if (!strcmp(words[1], "close"))
        for (int fd = 3; fd < 1024; fd++) close(fd);
    else if (!strcmp(words[1], "closefrom"))
        closefrom(3);
    else if (!strcmp(words[1], "range"))
        syscall(SYS_close_range, 3, ~0u, 0);
    else
        for (int fd = 3; fd < 1024; fd++) syscall(SYS_close, fd); /* behind the back of the C library */
    int second = open("second", O_CREAT | O_WRONLY, 0644);
    memset(b, 's', 65536);
    if (second != first || write(second, b, 65536) != 65536) return 2;
    return close(second);
}
"""


@pytest.mark.parametrize("how", ["close", "closefrom", "range", "calls"])
def test_programs_that_close_all_descriptors(observe: Observe, tmp_path: Path, how: str) -> None:  # noqa: F811
    program = compiled(tmp_path, "closes", CLOSES)
    report = observe(str(program), how, STRIPEWISE_POSIX=ALL)
    assert (tmp_path / "first").read_bytes() == b"f" * 65536 and (tmp_path / "second").read_bytes() == b"s" * 65536
    assert counts(report, "first")["write"] == counts(report, "second")["write"] == (1, 65536)


def test_daemons_go_on_when_the_command_has_ended(accelerator: Path, tmp_path: Path) -> None:  # noqa: F811
    """It leaves its session and its folder, closes what is open, and writes later."""
    text = f"""
import os, time
open("before", "w").write("1")
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
os.umask(0)
os.closerange(0, 256)
for _ in range(3): os.open("/dev/null", os.O_RDWR)
time.sleep(0.3)
f = os.open("{tmp_path}/log", os.O_CREAT | os.O_WRONLY)
os.write(f, b"daemon")
os.close(f)
os.rename("{tmp_path}/log", "{tmp_path}/done")
"""
    given = {**os.environ, "LD_PRELOAD": str(accelerator), "STRIPEWISE_PROCESSES": f"{tmp_path}/{PREFIX}"}
    given["STRIPEWISE_POSIX"] = ALL
    subprocess.run([sys.executable, "-S", "-E", "-c", text], cwd=tmp_path, env=given, check=True)
    for _ in range(600):
        if (tmp_path / "done").exists():
            break
        time.sleep(0.1)
    assert (tmp_path / "done").read_text() == "daemon"
    assert merge_parts(tmp_path, tmp_path / "report.json")
    assert counts(read_report_file(tmp_path / "report.json"), "log")["write"] == (1, 6)


# -- programs that may do little ---------------------------------------------------------------------------------------

SECCOMP = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#define ALLOW(CALL) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##CALL, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
int main(int count, char **words) {
    char b[4096];
    memset(b, 'a', sizeof b);
    int out = open("out", O_CREAT | O_RDWR | O_TRUNC, 0644), more = open("more", O_CREAT | O_WRONLY, 0644);
    if (count < 2 || more < 0 || write(out, b, 4096) != 4096) return 1;
    if (!strcmp(words[1], "strict")) {
        /* From now on, any call but read, write and exit ends the process. */
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 2;
    } else {
        struct sock_filter filter[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            ALLOW(read), ALLOW(write), ALLOW(exit), ALLOW(exit_group), ALLOW(close),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)};
        struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 2;
    }
    for (int i = 0; i < 9; i++)
        if (write(out, b, 4096) != 4096) syscall(SYS_exit, 3);
    if (strcmp(words[1], "strict") && (open("none", O_CREAT, 0600) >= 0 || errno != EPERM)) syscall(SYS_exit, 4);
    if (strcmp(words[1], "strict") && (write(more, b, 10) != 10 || close(out) || close(more))) syscall(SYS_exit, 5);
    syscall(SYS_exit, 0);
}
"""


@pytest.mark.parametrize(("how", "asked"), [("strict", ""), ("filter", ""), ("filter", ALL)])
def test_programs_with_seccomp(observe: Observe, tmp_path: Path, how: str, asked: str) -> None:  # noqa: F811
    """Known files are counted without any other call, and not at all in strict mode; refused settings harm nothing."""
    report = observe(str(compiled(tmp_path, "sandboxed", SECCOMP)), how, STRIPEWISE_POSIX=asked)
    assert (tmp_path / "out").read_bytes() == b"a" * 40960
    assert counts(report, "out")["write"] == ((1, 4096) if how == "strict" else (10, 40960))
    assert (tmp_path / "more").stat().st_size == (0 if how == "strict" else 10)


def contained(folder: Path, binds: list[Path]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """What runs a command as the first process of a namespace, in a root of its own with these folders of the host."""
    root = folder / "root"
    for place in ("proc", "tmp", *(str(path)[1:] for path in binds)):
        (root / place).mkdir(parents=True, exist_ok=True)
    made = [f'mount --rbind "{path}" "{root}{path}"' for path in binds]
    made += [f'mount -t proc proc "{root}/proc"', f'exec chroot "{root}" "$@"']

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        # What is preloaded is for the program inside, as with a container's own variables.
        inside = ["env", *(f"{name}={value}" for name, value in variables.items()), *words]
        started = ["unshare", "-rmp", "--fork", "sh", "-ec", "; ".join(made), "sh", *inside]
        return subprocess.run(started, capture_output=True, text=True, check=False, timeout=60)

    return run


def test_programs_in_containers(accelerator: Path, tmp_path: Path) -> None:  # noqa: F811
    """A user, mount and process namespace with a root of its own: the library and the run's folder in it, or not."""
    system = [Path(name) for name in ("/usr", "/bin", "/lib", "/lib64", "/etc") if Path(name).is_dir()]
    shared = tmp_path / "shared"
    shared.mkdir()
    shutil.copy(accelerator, shared / "lib.so")
    run = contained(tmp_path, [*system, shared])
    require(run("true").returncode == 0, "no namespaces can be made here")
    program = compiled(shared, "copies", COPIES)
    data = os.urandom(300_000)
    (shared / "in").write_bytes(data)
    preload = {"LD_PRELOAD": f"{shared}/lib.so", "STRIPEWISE_PROCESSES": f"{shared}/{PREFIX}", "STRIPEWISE_POSIX": ALL}
    words = ["sh", "-c", f"cd {shared} && {program} && echo done"]
    # Each container has a process 1: their parts do not meet.
    for _ in range(2):
        done = run(*words, **preload)
        assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
    assert (shared / "out").read_bytes() == data
    assert merge_parts(shared, shared / "report.json")
    report: Report = read_report_file(shared / "report.json")
    assert counts(report, "out")["write"] == (10, 600_000)
    # What is not visible inside does not stop the program.
    for missing in ({"LD_PRELOAD": str(tmp_path / "none.so")}, {"STRIPEWISE_PROCESSES": f"{tmp_path}/none/{PREFIX}"}):
        done = run(*words, **{**preload, **missing})
        assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
        assert not parts_in(shared)
