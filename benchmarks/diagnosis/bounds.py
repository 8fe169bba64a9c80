"""Measure the gain of each remedy that has a bound, beside the bound.

    python benchmarks/diagnosis/bounds.py --libdarshan LIBRARY --memory FOLDER --disk FOLDER [--cases 2] [--json FILE]

Each case is a program with a fault and the same program with the remedy that the finding names: ``patterns.c``
under Darshan. Both take turns, the first of each pair in turn too. The bound is that of the finding
in the logs with the fault (their median); the gain is the ratio of the least times in I/O of the slowest rank, which
other work on the machine lengthens least.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from generate import compile_patterns, native

from stripewise.diagnose.site import diagnose
from stripewise.observe.activity import Activity
from stripewise.observe.darshan_logs import read_log

KIB, MIB = 1024, 1 << 20
SECONDS = 120


@dataclass(frozen=True)
class Pair:
    """A program with a fault, and with its remedy.

    Attributes
    ----------
    fault, remedy : tuple of str
        Words after ``mpiexec -n RANKS``.
    before : int
        Bytes of a file made before.
    on_disk : bool
        Whether it must write to a disk: in memory, a flush takes no time.
    """

    ranks: int
    fault: tuple[str, ...]
    remedy: tuple[str, ...]
    before: int = 0
    on_disk: bool = False


def reading_again(draw: random.Random) -> Pair:
    size, count, passes = draw.choice([64, 256]) * KIB, draw.choice([400, 600]), draw.choice([3, 5])
    steps = [f"do=read,file={{f}},size={size},count={count},passes={n}" for n in (passes, 1)]
    return Pair(2, (steps[0],), (steps[1],), before=2 * size * count)


def everyone_reading(draw: random.Random) -> Pair:
    size, count, ranks = draw.choice([64, 256]) * KIB, draw.choice([1600, 2400]), draw.choice([2, 4])
    read = f"do=read,file={{f}},size={size}"
    return Pair(ranks, (f"{read},count={count},same=1",), (f"{read},count={count // ranks}",), before=size * count)


def writing_again(draw: random.Random) -> Pair:
    size, count, passes = draw.choice([64, 256]) * KIB, draw.choice([400, 600]), draw.choice([2, 3, 5])
    order = draw.choice(["forward", "random"])
    steps = [f"do=write,file={{f}},size={size},count={count},passes={n},order={order}" for n in (passes, 1)]
    return Pair(2, (steps[0],), (steps[1],))


def flushing_again(draw: random.Random) -> Pair:
    size, count, passes = draw.choice([64, 256]) * KIB, draw.choice([100, 200]), draw.choice([2, 3])
    steps = [f"do=write,file={{f}},size={size},count={count},passes={n},flush=10" for n in (passes, 1)]
    return Pair(2, (steps[0],), (steps[1],), on_disk=True)


def one_for_all(way: str, draw: random.Random) -> Pair:
    size, count, ranks = draw.choice([64, 256]) * KIB, draw.choice([960, 1440]), 3
    step = f"do={way},file={{f}},size={size}"
    before = size * count if way == "read" else 0
    return Pair(ranks, (f"{step},count={count},who=0",), (f"{step},count={count // ranks}",), before=before)


def unequal(way: str, file: str, draw: random.Random) -> Pair:
    size, count, heavy = draw.choice([64, 256]) * KIB, draw.choice([400, 600]), draw.choice([3, 5])
    equal = count * (heavy + 3) // 4
    step = f"do={way},file={file},size={size}"
    before = size * equal * 4 if way == "read" else 0
    return Pair(4, (f"{step},count={count},heavy={heavy}",), (f"{step},count={equal}",), before=before)


KINDS: tuple[tuple[str, str, Callable[[random.Random], Pair]], ...] = (
    ("redundant-reads", "read once", reading_again),
    ("redundant-reads", "each rank reads its part", everyone_reading),
    ("redundant-writes", "write once", writing_again),
    ("redundant-writes", "write once, with fsync", flushing_again),
    ("rank-funnel", "each rank writes a part", partial(one_for_all, "write")),
    ("rank-funnel", "each rank reads a part", partial(one_for_all, "read")),
    ("rank-imbalance", "equal files", partial(unequal, "write", "{f}.%r")),
    ("rank-imbalance", "equal parts of a file", partial(unequal, "write", "{f}")),
    ("rank-imbalance", "equal parts to read", partial(unequal, "read", "{f}")),
)
"""Finding, remedy, and what draws a case."""


def run(pair: Pair, remedied: bool, folder: Path, parts: dict[str, str], library: str) -> Activity:
    """Run one of a pair under Darshan and read its log."""
    for left in folder.iterdir():
        left.unlink()
    if pair.before:
        (folder / "f").write_bytes(os.urandom(1 << 16) * (-(-pair.before // (1 << 16))))
    log = folder / "log.darshan"
    # By itself Darshan leaves out what lies below /dev, where most systems have memory as a file system.
    chosen = folder / "darshan.conf"
    chosen.write_text(f"NAME_INCLUDE {folder} *\n")
    variables = {"LD_PRELOAD": library, "DARSHAN_LOGFILE": str(log), "DARSHAN_CONFIG_PATH": str(chosen)}
    words = [word.format(f=folder / "f") for word in (pair.remedy if remedied else pair.fault)]
    program = [parts["patterns"], *words]
    mpiexec = str(Path(parts["mpicc"]).with_name("mpiexec"))
    command = [mpiexec, "-n", str(pair.ranks), "env", *(f"{k}={v}" for k, v in variables.items()), *program]
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    return read_log(log)


def measured(code: str, pair: Pair, pairs: int, where: tuple[Path, dict[str, str], str]) -> dict[str, Any]:
    """The bound of a case, and its gain."""
    times: tuple[list[float], list[float]] = ([], [])
    bounds: list[float] = []
    for number in range(pairs):
        for arm in (True, False) if number % 2 else (False, True):
            seen = run(pair, arm, *where)
            times[arm].append(seen.io_seconds)
            found = [one for one in diagnose(seen).findings if one.code == code and not arm]
            bounds += [one.bound.speedup for one in found if one.bound is not None]
    gain = min(times[False]) / min(times[True])
    bound = median(bounds) if bounds else None
    return {"bound": bound, "gain": gain, "seconds": min(times[False]), "runs": 2 * pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libdarshan", required=True)
    for place in ("memory", "disk"):
        parser.add_argument(f"--{place}", type=Path, required=True, help="a folder there, where nothing else lies")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=2, help="of each remedy")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", help="a finding")
    parser.add_argument("--native", type=Path, help="what 'stripewise site native build --json' printed")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    for folder in (given.memory, given.disk):
        folder.mkdir(parents=True, exist_ok=True)
    parts = native(given.native)
    parts["patterns"] = str(compile_patterns(parts["mpicc"], given.disk.parent))
    rows = []
    for number in range(given.cases):
        for code, remedy, make in KINDS:
            if given.only and code != given.only:
                continue
            pair = make(random.Random(f"{given.seed}/{code}/{remedy}/{number}"))
            folder = given.disk if pair.on_disk else given.memory
            row = measured(code, pair, given.pairs, (folder.absolute(), parts, given.libdarshan))
            rows.append({"case": number, "finding": code, "remedy": remedy, **row})
            told = "none" if row["bound"] is None else f"{row['bound']:.2f}"
            print(f"{code}, {remedy}: bound {told}, gain {row['gain']:.2f} of {row['seconds']:.3f} s", flush=True)
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
