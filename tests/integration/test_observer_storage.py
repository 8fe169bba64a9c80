"""What sanitizers say of the accelerator, in programs whose threads and processes share files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from stripewise.catalogue.filesystems.mounts import mount_type
from stripewise.observe.processes import PREFIX, merge_parts
from stripewise.observe.report import Report, read_report_file
from tests.integration.building import ROOT, checked
from tests.integration.test_observer import RANDOM_CALLS

EVERYTHING = "advice=sequential,readahead=65536,stream_buffer=65536,cluster_threshold=2"


@pytest.fixture(autouse=True)
def storage(tmp_path: Path) -> None:
    """Files in memory follow no advice."""
    if mount_type(tmp_path) not in ("ext4", "xfs", "f2fs"):
        pytest.skip(f"files on {mount_type(tmp_path)} are left alone")


def acted(report: Report, key: str) -> int:
    """Calls in which a setting acted."""
    return sum(o.acted or 0 for f in report.files for o in f.settings if o.key == key)


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
        native / "core" / "input.c",
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
            assert word == "read" or acted(report, "advice") > 0
