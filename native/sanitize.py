"""Run odd MPI programs with the runtime preloaded, under ThreadSanitizer, under ASan with UBSan, and in valgrind.

Library and programs are built with each sanitizer. The programs are those in tests/fixtures/programs. The runtime
learns (the mode ``online``, with a model, a plan and a journal), which takes most of its code; ``--mode`` chooses
another: in ``orders`` it has a thread. A finding is a report of a tool that native/sanitize/*.supp does not name as the
MPI library's own, another exit code than the program's, or a report of the runtime that is missing or cannot be read.
Findings stay in build/sanitize, and the exit code is then 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stripewise.catalogue.carriers import HINT, Setting
from stripewise.observe.orders import Order, append_orders, site_of

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "fixtures" / "programs"
SUPPRESSIONS = ROOT / "native" / "sanitize"
CORPUS = ROOT / "native" / "fuzz" / "corpus_model"
RANKS = 2
# Ranks wait for one another all the time: beside other work a program takes minutes that takes seconds alone.
SECONDS = 900
# Ranks that wait sleep, and no transport looks for networks.
QUIET = {
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8",
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm",
    "OMPI_MCA_osc": "^ucx",
    "PMIX_MCA_gds": "hash",
}
FLAGS = {"thread": "-fsanitize=thread", "address": "-fsanitize=address,undefined", "valgrind": ""}
OPTIONS = {"thread": "thread", "address": "ON", "valgrind": "OFF"}
# How programs end that do not end with 0: MPICH's launcher kills ranks that are slower to exit, with 9.
ENDS = {
    "aborts": {7},
    "aborts_while_threads_write": {7},
    "exits": {5, 9},
    "exits_while_threads_write": {5, 9},
    "killed": {9, 137},
    "closes_everything": {0, 9},
    "no_finalize": {0, 1},
}
# They leave without passing any handler, or what they leave depends on who is killed first.
NO_REPORT = {"no_finalize", "killed", "aborts", "aborts_while_threads_write", "exits", "exits_while_threads_write"}
# What hangs or fails without the runtime too, by MPI, tool or library behind the runtime, and name.
CANNOT = {
    ("darshan", "evicted"): "libdarshan 3.5.0 alone frees what it did not allocate when it ends",
    ("darshan", "one_file_of_many_threads"): "libdarshan 3.5.0 alone frees what it did not allocate when it ends",
    (
        "darshan",
        "threads_and_children",
    ): "a child waits for a lock of libdarshan 3.5.0 that a thread of its parent held",
    ("openmpi", "spawns"): "its launcher cannot start processes here",
    ("openmpi", "spawn"): "its launcher cannot start processes here",
    ("address", "threads_and_children"): "ASan's allocator may hang after a fork while other threads allocate",
}
PLAN = "stripewise-plan 1\nhint cb_buffer_size 65536\nhint cb_nodes 1\n"
FAMILIES = ("data", "data.#", "data.#.#", "data.#.#.#", "data.log.#")  # of what the programs write


def orders(folder: Path) -> list[Order]:
    """Order something of the first phases of each family."""
    return [
        Order(number, f"{site_of(folder)}/{name}", operation, (Setting(HINT, "cb_nodes", str(number % 2 + 1)),))
        for number, (_, name, operation) in enumerate(itertools.product(range(8), FAMILIES, ("write", "read")), 1)
    ]


@dataclass(frozen=True)
class Case:
    """A program of tests/fixtures/programs, and its arguments after the file."""

    source: str
    name: str
    arguments: tuple[str, ...] = ()


def cases() -> Iterator[Case]:
    """Every scenario of the programs that have some, and the programs that have none."""
    for source in ("odd.c", "scenarios.c"):
        listed = re.findall(r'^    \{"(\w+)", \w+\},$', (PROGRAMS / source).read_text(), re.MULTILINE)
        for name in listed:
            if name != "spawned":
                yield Case(source, name, (name, *(["1200"] if name == "many" else [])))
    for name in ("own", "shared"):
        yield Case("every_call.c", f"every_call_{name}", (name,))
    for name in ("world", "self", "split", "excl", "read", "spawn"):
        yield Case("phases.c", name, ("8", "16", "256", name))
    yield Case("session.c", "session", ("init",))


@dataclass(frozen=True)
class Bench:
    """One MPI with one tool: what was built, and how it is started."""

    mpi: str
    bin: Path
    tool: str
    folder: Path
    behind: Path | None
    mode: str

    @property
    def library(self) -> Path:
        """The runtime."""
        return self.folder / "lib" / "libstripewise.so"

    def build(self) -> None:
        """Build the runtime, the programs, and what stands in for UCX."""
        compiler = self.bin / "mpicc"
        options = [f"-DCMAKE_C_COMPILER={compiler}", "-DSTRIPEWISE_KERNEL=OFF"]
        options += [f"-DSTRIPEWISE_SANITIZE={OPTIONS[self.tool]}"]
        options += ["-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g -fno-omit-frame-pointer"]
        done(["cmake", "-S", str(ROOT), "-B", str(self.folder), *options])
        done(["cmake", "--build", str(self.folder), "-j2", "--target", "stripewise"])
        large = ["-DLARGE_COUNTS"] if b"MPI_File_write_at_c" in mpi_header(compiler) else []
        for source in sorted({case.source for case in cases()}):
            target = ["-o", str(self.program(source))]
            flags = ["-O1", "-g", "-pthread", *FLAGS[self.tool].split(), *large]
            done([str(compiler), *flags, str(PROGRAMS / source), *target])
        # The hooks that UCX sets in the allocator are more than the thread sanitizer survives; no function of these
        # libraries is called where the network is another.
        (self.folder / "without-ucx").mkdir(exist_ok=True)
        needed = subprocess.run(["ldd", self.program("odd.c")], capture_output=True, text=True, check=True).stdout
        for name in re.findall(r"^\s*(libuc[mpst]\.so\.\d+)", needed, re.MULTILINE):
            empty = ["-shared", "-fPIC", "-x", "c", "/dev/null", f"-Wl,-soname,{name}"]
            done(["cc", *empty, "-o", str(self.folder / "without-ucx" / name)])

    def program(self, source: str) -> Path:
        """Where it is built."""
        return self.folder / Path(source).stem

    def preload(self) -> str:
        """What the program loads first. ASan demands to be the first of all."""
        first = []
        if self.tool == "address":
            asked = ["cc", "-print-file-name=libasan.so"]
            first = [subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()]
        return ":".join([*first, str(self.library), *([str(self.behind)] if self.behind else [])])

    def run(self, case: Case, kept: Path) -> str:
        """Run one program; what was found, or an empty text."""
        logs, report = kept / "log", kept / "report.json"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        (kept / "plan").write_text(PLAN)
        append_orders(kept / "orders", orders(kept))
        settings = {
            "LD_PRELOAD": self.preload(),
            "STRIPEWISE_REPORT": str(report),
            "STRIPEWISE_MODE": self.mode,
            "STRIPEWISE_PLAN": str(kept / "plan"),
            "STRIPEWISE_MODEL": str(CORPUS / "trees.swm"),
            "STRIPEWISE_JOURNAL": str(kept / "journal"),
            "STRIPEWISE_ORDERS": str(kept / "orders"),
            "DARSHAN_LOGPATH": str(kept),
            "TSAN_OPTIONS": f"log_path={logs}:suppressions={SUPPRESSIONS}/thread.supp",
            "ASAN_OPTIONS": f"log_path={logs}:detect_leaks=1:fast_unwind_on_malloc=0",
            "UBSAN_OPTIONS": f"log_path={logs}:print_stacktrace=1",
            "LSAN_OPTIONS": f"suppressions={SUPPRESSIONS}/leak.supp:print_suppressions=0",
        }
        launcher = [str(self.bin / "mpiexec"), "-n", str(RANKS)]
        if self.mpi == "openmpi":
            launcher += ["--oversubscribe", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
        words = [*launcher, "env", *(f"{name}={value}" for name, value in settings.items())]
        if self.tool == "valgrind":
            words += [
                "valgrind",
                "--fair-sched=yes",
                "--leak-check=full",
                "--show-leak-kinds=definite",
                "--errors-for-leak-kinds=definite",
                "--gen-suppressions=all",
            ]
            words += ["--num-callers=30", f"--suppressions={SUPPRESSIONS}/valgrind.supp", f"--log-file={logs}.%p"]
        words += [str(self.program(case.source)), str(kept / "data"), *case.arguments]
        # What MPI_Comm_spawn starts sees only what the launcher sees.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("STRIPEWISE_")}
        environment = {**clean, **QUIET, "LD_LIBRARY_PATH": str(self.folder / "without-ucx")}
        with (kept / "output").open("wb") as output:
            started = subprocess.Popen(words, stdout=output, stderr=output, env=environment, start_new_session=True)
            try:
                code = started.wait(SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, 9)
                started.wait()
                return f"not ended after {SECONDS} s"
        said = [log.name for log in sorted(kept.glob("log*")) if is_finding(log.read_text(errors="replace"))]
        if said:
            return f"{', '.join(said)}"
        if code not in ENDS.get(case.name, {0}):
            return f"exit code {code}"
        return "" if case.name in NO_REPORT else unreadable(report)


def is_finding(log: str) -> bool:
    """Whether a tool's log tells of anything but what is suppressed."""
    return bool(re.search(r"WARNING: ThreadSanitizer|ERROR: \w+Sanitizer|runtime error:|ERROR SUMMARY: [1-9]", log))


def unreadable(report: Path) -> str:
    """What is wrong with the runtime's report; an empty text: nothing."""
    try:
        return "" if json.loads(report.read_text())["files"] else "a report without files"
    except (OSError, ValueError, KeyError) as error:
        return f"no report: {error}"


def mpi_header(compiler: Path) -> bytes:
    """What mpi.h declares."""
    asked = [str(compiler), "-E", "-include", "mpi.h", "-x", "c", "/dev/null"]
    return subprocess.run(asked, capture_output=True, check=True).stdout


def done(command: list[str]) -> None:
    """Carry out a step of the build."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{' '.join(command)}\n{ended.stdout}{ended.stderr}")


def pairs(given: list[str]) -> dict[str, Path]:
    """Read NAME=PATH."""
    return {name: Path(path).absolute() for name, _, path in (word.partition("=") for word in given)}


def main() -> int:
    """Build and run; one line for each program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mpi", action="append", required=True, metavar="mpich|openmpi=BIN", help="folder of its mpicc"
    )
    parser.add_argument("--tool", action="append", choices=FLAGS, help="default: all")
    parser.add_argument("--libdarshan", action="append", default=[], metavar="MPI=FILE", help="behind the runtime")
    parser.add_argument("--mode", default="online", choices=["observe", "apply", "predict", "online", "orders"])
    parser.add_argument("--only", default="", help="a regular expression of the programs' names")
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "sanitize", help="folder of builds and findings")
    options = parser.parse_args()
    tools, behind, good = options.tool or list(FLAGS), pairs(options.libdarshan), True
    for mpi, folder in pairs(options.mpi).items():
        for tool in tools:
            build = options.kept.absolute() / f"{mpi}-{tool}"
            bench = Bench(mpi, folder, tool, build, behind.get(mpi), options.mode)
            bench.build()
            for case in cases():
                if not re.fullmatch(options.only or ".*", case.name):
                    continue
                around = (mpi, tool, *(("darshan",) if mpi in behind else ()))
                if why := next((CANNOT[key, case.name] for key in around if (key, case.name) in CANNOT), ""):
                    print(f"{mpi:8} {tool:9} {case.name:28} left out: {why}", flush=True)
                    continue
                with tempfile.TemporaryDirectory() as scratch:
                    kept = Path(scratch) / "run"
                    found = bench.run(case, kept)
                    place = build / f"finding-{case.name}"
                    shutil.rmtree(place, ignore_errors=True)
                    if found:
                        shutil.copytree(kept, place)
                good &= not found
                print(f"{mpi:8} {tool:9} {case.name:28} {found or 'nothing found'}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
