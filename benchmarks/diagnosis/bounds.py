"""Measure the gain of each remedy that has a bound, beside the bound.

    python benchmarks/diagnosis/bounds.py --libdarshan LIBRARY --folder FOLDER [--cases 6] [--pairs 5] [--json FILE]

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
    """A program with a fault, and with its remedy: words after ``mpiexec -n RANKS``; bytes of a file made before."""

    ranks: int
    fault: tuple[str, ...]
    remedy: tuple[str, ...]
    before: int = 0


def reading_again(draw: random.Random) -> Pair:
    size, count, passes = draw.choice([64, 256]) * KIB, draw.choice([400, 600]), draw.choice([2, 3, 5])
    steps = [f"do=read,file={{f}},size={size},count={count},passes={n}" for n in (passes, 1)]
    return Pair(2, (steps[0],), (steps[1],), before=2 * size * count)


def writing_again(draw: random.Random) -> Pair:
    size, count, passes = draw.choice([64, 256]) * KIB, draw.choice([400, 600]), draw.choice([2, 3, 5])
    steps = [f"do=write,file={{f}},size={size},count={count},passes={n}" for n in (passes, 1)]
    return Pair(2, (steps[0],), (steps[1],))


def one_for_all(draw: random.Random) -> Pair:
    size, count, ranks = draw.choice([64, 256]) * KIB, draw.choice([480, 720]), 3
    steps = (
        f"do=write,file={{f}},size={size},count={count},who=0",
        f"do=write,file={{f}},size={size},count={count // 3}",
    )
    return Pair(ranks, (steps[0],), (steps[1],))


def unequal(draw: random.Random) -> Pair:
    size, count, heavy = draw.choice([64, 256]) * KIB, draw.choice([200, 400]), draw.choice([3, 5])
    equal = count * (heavy + 3) // 4
    steps = f"size={size},count={count},heavy={heavy}", f"size={size},count={equal}"
    return Pair(4, *((f"do=write,file={{f}}.%r,{step}",) for step in steps))


KINDS: dict[str, Callable[[random.Random], Pair]] = {
    "redundant-reads": reading_again, "redundant-writes": writing_again, "rank-funnel": one_for_all,
    "rank-imbalance": unequal,
}  # fmt: skip


def run(pair: Pair, remedied: bool, folder: Path, parts: dict[str, str], library: str) -> Activity:
    """Run one of a pair under Darshan and read its log."""
    for left in folder.iterdir():
        left.unlink()
    if pair.before:
        (folder / "f").write_bytes(os.urandom(1 << 16) * (-(-pair.before // (1 << 16))))
    log = folder / "log.darshan"
    variables = {"LD_PRELOAD": library, "DARSHAN_LOGFILE": str(log)}
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
    return {"finding": code, "bound": bound, "gain": gain, "seconds": min(times[False]), "runs": 2 * pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libdarshan", required=True)
    parser.add_argument(
        "--folder", type=Path, required=True, help="where files are written; nothing else may lie there"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", help="a finding")
    parser.add_argument("--native", type=Path, help="what 'stripewise site native build --json' printed")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    parts = native(given.native)
    parts["patterns"] = str(compile_patterns(parts["mpicc"], given.folder.parent))
    rows = []
    for number in range(given.cases):
        for code, make in KINDS.items():
            if given.only and code != given.only:
                continue
            pair = make(random.Random(f"{given.seed}/{code}/{number}"))
            row = measured(code, pair, given.pairs, (given.folder.absolute(), parts, given.libdarshan))
            rows.append({"case": number, **row})
            told = "none" if row["bound"] is None else f"{row['bound']:.2f}"
            print(f"{code} {number}: bound {told}, gain {row['gain']:.2f} of {row['seconds']:.3f} s", flush=True)
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
