"""Run clang-tidy over the native sources with the compile commands of a fresh CMake configuration.

A file in which nothing was found is analysed again once it, a header, its command, the checks or clang-tidy change:
``build/tidy`` keeps a mark for each.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARKS = ROOT / "build" / "tidy"


@functools.cache
def digest_file(path: str) -> str:
    """Digest the content of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def digest_entry(entry: dict[str, str], *more: str) -> str:
    """Digest all that decides what is found in a file: its command, and the content of it and of its headers."""
    command = shlex.split(entry["command"])
    place = command.index("-o")
    del command[place : place + 2]
    made = subprocess.run([*command, "-M"], cwd=entry["directory"], stdout=subprocess.PIPE, text=True, check=True)
    files = made.stdout.replace("\\\n", " ").split()[1:]
    words = [*more, *command, *(f"{file} {digest_file(file)}" for file in files)]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def main() -> int:
    """Configure, then check each file that is compiled."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpicc", required=True)
    parser.add_argument("--clang-tidy", required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as build:
        configure = ["cmake", "-S", str(ROOT), "-B", build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
        compiler = f"-DCMAKE_C_COMPILER={Path(options.mpicc).absolute()}"
        done = subprocess.run([*configure, compiler], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.stderr.write(done.stdout + done.stderr)
            return done.returncode
        # Some parts of the core are compiled into several libraries; clang-tidy would check them once for each.
        listed = Path(build, "compile_commands.json")
        once = {entry["file"]: entry for entry in json.loads(listed.read_text())}
        listed.write_text(json.dumps(list(once.values())))
        files = sorted(once)
        current: set[Path] = set()

        # clang-tidy runs its own compiler front end, which knows nothing of the paths that the wrapper adds.
        shown = subprocess.run([compiler.partition("=")[2], "-show"], capture_output=True, text=True, check=True)
        extra = [f"--extra-arg={word}" for word in shown.stdout.split() if word.startswith("-I")]

        version = subprocess.run([options.clang_tidy, "--version"], capture_output=True, text=True, check=True).stdout
        checks = digest_file(str(ROOT / ".clang-tidy"))
        MARKS.mkdir(parents=True, exist_ok=True)

        def check(file: str) -> tuple[str, int, str]:
            mark = MARKS / digest_entry(once[file], version, checks, *extra)
            current.add(mark)
            if mark.exists():
                return file, 0, ""
            run = subprocess.run(
                [options.clang_tidy, "--quiet", "-p", build, *extra, file], capture_output=True, text=True, check=False
            )
            if run.returncode == 0:
                mark.touch()
            return file, run.returncode, run.stdout or run.stderr

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            results = list(pool.map(check, files))
    for mark in set(MARKS.iterdir()) - current:
        mark.unlink()
    for _, code, output in results:
        if code:
            sys.stdout.write(output)
    failed = [file for file, code, _ in results if code]
    print(f"clang-tidy: {len(files)} files, {len(failed)} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
