"""Calls that another carries out, the kernel or a thread, are counted when they are queued; so are mappings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.building import checked
from tests.integration.test_observer import Observe, accelerator, counts, observe, observer  # noqa: F401  fixtures

# What libaio does, as its header says it: errors are negative, and errno stays. Another library may have the name.
LIBRARY = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef OTHER
int io_submit(const char *text, long count) { return text[0] == 'x' ? (int)count * 2 : -1; }
#else
int io_submit(aio_context_t context, long count, struct iocb **blocks) {
    int kept = errno, code = (int)syscall(SYS_io_submit, context, count, blocks);
    code = code < 0 ? -errno : code;
    errno = kept;
    return code;
}
#endif
"""

PROGRAM = r"""
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#define MANY 100
int io_submit(aio_context_t, long, struct iocb **);
#define submit io_submit
#ifdef LOADED /* a library that is loaded with its own libaio, which nobody else sees */
int run(int count, char **words);
int run(int count, char **words) {
#else
int main(int count, char **words) {
#endif
    static char b[MANY * 4096], back[2][150];
    struct iovec pieces[2] = {{back[0], 150}, {back[1], 150}};
    struct iocb block[MANY + 2], *all[MANY + 2];
    struct io_event events[MANY + 2];
    aio_context_t context = 0;
    int fd = open("kernel", O_CREAT | O_RDWR, 0600);
    if (count < 2 || words[2] || syscall(SYS_io_setup, 256, &context)) return 1;
    memset(block, 0, sizeof block);
    memset(b, 'a', sizeof b);
    for (int i = 0; i < MANY + 2; i++) {
        all[i] = &block[i];
        block[i].aio_fildes = (unsigned)fd;
        block[i].aio_lio_opcode = i < MANY ? IOCB_CMD_PWRITE : i == MANY ? IOCB_CMD_PREADV : IOCB_CMD_FSYNC;
        block[i].aio_buf = i < MANY ? (__u64)(b + i * 4096) : (__u64)pieces;
        block[i].aio_nbytes = i < MANY ? 4096 : 2;
        block[i].aio_offset = i < MANY ? i * 4096 : 100;
    }
    block[MANY + 1].aio_buf = block[MANY + 1].aio_nbytes = block[MANY + 1].aio_offset = 0;
    errno = 77;
    if (submit(context, MANY + 1, all) != MANY + 1) return 2;
    if (syscall(SYS_io_getevents, context, MANY + 1, MANY + 1, events, NULL) != MANY + 1) return 3;
    if (memcmp(back[1], b, 150)) return 4;
    if (submit(context, 1, all + MANY + 1) == 1 &&
        syscall(SYS_io_getevents, context, 1, 1, events, NULL) != 1) return 5;
    if (submit(0, 1, all) != -EINVAL || errno != 77 || submit(context, 0, all) != 0) return 6;
    block[1].aio_fildes = 4000; /* the first is queued, the second cannot be */
    if (submit(context, 2, all) != 1 || syscall(SYS_io_getevents, context, 1, 1, events, NULL) != 1) return 7;

    int thread = open("thread", O_CREAT | O_RDWR, 0600);
    struct aiocb one = {.aio_fildes = thread, .aio_buf = b, .aio_nbytes = 500, .aio_lio_opcode = LIO_WRITE},
                 two = {.aio_fildes = thread, .aio_buf = b, .aio_nbytes = 70, .aio_offset = 500, .aio_lio_opcode = 1},
                 none = {.aio_lio_opcode = LIO_NOP};
    struct aiocb *const list[] = {&one, NULL, &two, &none};
    if (lio_listio(LIO_WAIT, list, 4, NULL)) return 8;
    one.aio_buf = back;
    if (aio_read(&one) || aio_suspend((const struct aiocb *const[]){&one}, 1, NULL) || aio_return(&one) != 500)
        return 9;
    if (mmap(NULL, 300, PROT_READ, MAP_PRIVATE, thread, 0) == MAP_FAILED ||
        mmap(NULL, 9000, PROT_READ, MAP_PRIVATE, thread, 1) != MAP_FAILED || readahead(thread, 0, 100))
        return 10;
    return 0;
}
"""


LOADS = r"""
#include <dlfcn.h>
int main(int count, char **words) {
    int (*run)(int, char **) = (int (*)(int, char **))dlsym(dlopen(words[1], RTLD_NOW | RTLD_LOCAL), "run");
    return run ? run(count, words) : 20;
}
"""


@pytest.mark.parametrize("loaded", [False, True])
def test_what_is_queued_and_mapped_is_counted(observe: Observe, tmp_path: Path, loaded: bool) -> None:  # noqa: F811
    library = tmp_path / "libaio.so.1"
    (tmp_path / "library.c").write_text(LIBRARY)
    (tmp_path / "program.c").write_text(PROGRAM)
    checked(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "library.c"])
    linked = [tmp_path / "program.c", library, f"-Wl,-rpath,{tmp_path}", "-lrt"]
    if loaded:
        (tmp_path / "loads.c").write_text(LOADS)
        checked(["cc", "-DLOADED", "-shared", "-fPIC", "-o", tmp_path / "loaded.so", *linked])
        linked = [tmp_path / "loads.c", "-ldl"]
    checked(["cc", "-o", tmp_path / "program", *linked])
    report = observe(str(tmp_path / "program"), str(tmp_path / "loaded.so"))
    # 100 at once, and one of two of which the other could not be queued.
    found = counts(report, "kernel")
    assert (found["write_async"], found["read_async"]) == ((101, 101 * 4096), (1, 300))
    file = next(file for file in report.files if file.path.endswith("/kernel"))
    assert file.pattern.write is not None and file.pattern.write.contiguous == 100
    other = next(file for file in report.files if file.path.endswith("/thread"))
    assert other.pattern.write is not None and other.pattern.write.contiguous == 2
    assert counts(report, "thread") == {
        "open": 1, "write_async": (2, 570), "read_async": (1, 500), "map": (2, 300), "advise": 1
    }  # fmt: skip


def test_another_function_of_that_name_is_left_alone(observe: Observe, tmp_path: Path) -> None:  # noqa: F811
    library = tmp_path / "libother.so"
    (tmp_path / "library.c").write_text(LIBRARY)
    checked(["cc", "-DOTHER", "-shared", "-fPIC", "-o", library, tmp_path / "library.c"])
    (tmp_path / "program.c").write_text(
        "#include <stdio.h>\nint io_submit(const char *, long);\n"
        'int main(void) { return fprintf(fopen("a", "w"), "%d", io_submit("x", 21)) != 2; }\n'
    )
    checked(["cc", "-o", tmp_path / "program", tmp_path / "program.c", library, f"-Wl,-rpath,{tmp_path}"])
    observe(str(tmp_path / "program"), "")
    assert (tmp_path / "a").read_text() == "42"
