"""What a library that is preloaded into programs without MPI adds to a read, and to a short process.

    python -m benchmarks.any_program overhead --observer LIBRARY [--libdarshan LIBRARY] [--also NAME=LIBRARY]

The program reads 4 KiB from memory. A round runs it once without a library and once with each, in random order, so that
the slow changes of the machine fall on all; figures are medians over the rounds of the difference to the run without.
Short processes are started by one shell, a thousand each time. ``--also`` measures further libraries that are preloaded
into any program, as they come.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stripewise.observe.left import PREFIX

PROGRAM = Path(__file__).with_name("pread.c")
BATCHES, CALLS = 200, 2000
PROCESSES = 1000
Variables = dict[str, str]


def libraries(given: argparse.Namespace) -> dict[str, Callable[[Path], Variables]]:
    """Give the variables that load each library, by its name; it leaves its files in a folder."""
    known: dict[str, Callable[[Path], Variables]] = {
        "observer": lambda folder: {"LD_PRELOAD": str(given.observer), "STRIPEWISE_PROCESSES": f"{folder}/{PREFIX}"}
    }
    if given.libdarshan:
        known["libdarshan"] = lambda folder: {
            "LD_PRELOAD": str(given.libdarshan),
            "DARSHAN_ENABLE_NONMPI": "1",
            "DARSHAN_LOGFILE": f"{folder}/log",
        }
    for name, library in (text.split("=", 1) for text in given.also):
        known[name] = lambda folder, library=library: {  # type: ignore[misc]
            "LD_PRELOAD": library,
            "STRIPEWISE_PROCESSES": f"{folder}/{PREFIX}",
        }
    return known


def a_read(variables: Variables, program: Path, folder: Path) -> float:
    """Nanoseconds of one read."""
    done = subprocess.run(
        [program, folder / "data", str(BATCHES), str(CALLS)],
        env={**os.environ, **variables}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout)


def a_process(variables: Variables, _program: Path, _folder: Path) -> float:
    """Nanoseconds of one of a thousand short processes."""
    began = time.monotonic_ns()
    loop = f"i=0; while [ $i -lt {PROCESSES} ]; do /bin/true; i=$((i+1)); done"
    subprocess.run(["sh", "-c", loop], env={**os.environ, **variables}, check=True)
    return (time.monotonic_ns() - began) / PROCESSES


def rounds(
    measure: Callable[[Variables, Path, Path], float], count: int, given: argparse.Namespace, program: Path
) -> dict[str, Any]:
    """Run all in turn, and give the median of what each library adds, and of the runs without."""
    known = libraries(given)
    added: dict[str, list[float]] = {name: [] for name in known}
    plain: list[float] = []
    shuffle = random.Random(1)
    for _ in range(count):
        took: dict[str, float] = {}
        for name in shuffle.sample(["", *known], len(known) + 1):
            with tempfile.TemporaryDirectory(dir=given.scratch) as folder:
                variables = known[name](Path(folder)) if name else {}
                took[name] = measure(variables, program, Path(folder))
        plain.append(took[""])
        for name in known:
            added[name].append(took[name] - took[""])
    return {
        "rounds": count,
        "without": statistics.median(plain),
        "added": {name: statistics.median(values) for name, values in added.items()},
        "every": added,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--observer", type=Path, required=True)
    parser.add_argument("--libdarshan", type=Path, help="built without MPI; measured beside it")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=LIBRARY")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--process-rounds", type=int, default=5)
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--machine", default="quiet", choices=["quiet", "shared"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pread"
        subprocess.run(["cc", "-O2", "-o", program, PROGRAM], check=True)
        found = {
            "machine": given.machine,
            "read": rounds(a_read, given.rounds, given, program),
            "process": rounds(a_process, given.process_rounds, given, program),
        }
    json.dump(found, sys.stdout, indent=1)
    print()
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
