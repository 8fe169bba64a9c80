"""What the preloaded runtime adds to a call of MPI_File_write_at, in interleaved pairs with and without it.

Each pair runs the same program twice, in random order, so that the slow changes of the machine fall on both. The
figures are the medians over pairs of the difference (nanoseconds a call) and of the ratio, with 95% intervals from
order statistics, which assume nothing about the noise. With --libdarshan the same is measured for libdarshan; with
--record what recording adds to observing: pairs of runs that both have the runtime.
"""

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from math import comb
from pathlib import Path

PROGRAM = Path(__file__).with_name("write_at.c")
WITHOUT = {"record": "stripewise"}
"""What a run is compared with; a run without any library if it is not here."""


def median_interval(values, confidence=0.95):
    """Return the median and an interval that holds the true one (binomial order statistics)."""
    ordered = sorted(values)
    count = len(ordered)
    outside = 0.0
    rank = 0
    while rank < count // 2:
        tail = comb(count, rank) / 2**count
        if 2 * (outside + tail) > 1 - confidence:
            break
        outside += tail
        rank += 1
    low = ordered[max(rank - 1, 0)]
    high = ordered[min(count - rank, count - 1)]
    return {"median": statistics.median(ordered), "low": low, "high": high}


def one_run(arguments, program, file, size, calls, preload):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STRIPEWISE_")}
    prefix = ["env"]
    if preload in ("stripewise", "record"):
        prefix += [f"LD_PRELOAD={arguments.library}", f"STRIPEWISE_REPORT={file}.json"]
        if preload == "record":
            prefix.append(f"STRIPEWISE_RECORD={file}.record")
    elif preload == "darshan":
        prefix += [
            f"LD_PRELOAD={arguments.libdarshan}",
            f"DARSHAN_LOGFILE={file}.darshan",
            "DARSHAN_ENABLE_NONMPI=",
        ]
    command = [*shlex.split(arguments.mpiexec), "-n", "1", *prefix, str(program), file, str(size), str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    recorded = Path(f"{file}.record").exists()
    for made in (file, f"{file}.json", f"{file}.darshan", f"{file}.record"):
        Path(made).unlink(missing_ok=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    if recorded != (preload == "record"):
        sys.exit(f"{shlex.join(command)} wrote {'a' if recorded else 'no'} record")
    return json.loads(done.stdout)[arguments.batch]


def measure(arguments, program, folder, size, calls, preload, shuffle):
    without = WITHOUT.get(preload)
    plain, loaded = [], []
    for pair in range(arguments.pairs + 1):
        times = {}
        for who in shuffle.sample([without, preload], 2):
            times[who] = one_run(arguments, program, str(Path(folder) / "data"), size, calls, who)
        if pair > 0:  # the first pair warms up
            plain.append(times[without])
            loaded.append(times[preload])
    pairs = list(zip(plain, loaded, strict=True))
    return {
        "preload": preload,
        "without": without,
        "bytes": size,
        "calls": calls,
        "pairs": arguments.pairs,
        "plain_ns": statistics.median(plain),
        "loaded_ns": statistics.median(loaded),
        "added_ns": median_interval([with_it - before for before, with_it in pairs]),
        "ratio": median_interval([with_it / before for before, with_it in pairs]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libstripewise.so, built with the same MPI")
    parser.add_argument("--libdarshan", help="libdarshan.so, built with the same MPI; measured beside it")
    parser.add_argument("--record", action="store_true", help="measure what recording adds to observing as well")
    parser.add_argument("--mpicc", default="mpicc")
    parser.add_argument("--mpiexec", default="mpiexec", help="with its options")
    parser.add_argument("--folder", default="/dev/shm", help="where the file is written; memory shows overhead best")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument(
        "--batch", choices=["median", "fastest"], default="median", help="of a run's; fastest on a busy machine"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write the figures there (- for standard output)")
    arguments = parser.parse_args()
    for library in filter(None, (arguments.library, arguments.libdarshan)):
        # The loader goes on without a library that it cannot find, and nothing would be measured.
        if not Path(library).is_file():
            parser.error(f"library {library} does not exist")
    measured = ["stripewise", *(["darshan"] if arguments.libdarshan else []), *(["record"] if arguments.record else [])]
    shuffle = random.Random(arguments.seed)
    results = []
    with tempfile.TemporaryDirectory() as build, tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        program = Path(build) / "write_at"
        subprocess.run([arguments.mpicc, "-O2", str(PROGRAM), "-o", str(program)], check=True)
        for size, calls in ((4096, 100_000), (1 << 20, 1_000)):
            for preload in measured:
                result = measure(arguments, program, folder, size, calls, preload, shuffle)
                results.append(result)
                added, ratio = result["added_ns"], result["ratio"]
                print(
                    f"{size:>8} bytes, {preload:<10}: {result['plain_ns']:.0f} ns a call without, "
                    f"{added['median']:+.0f} ns with it [{added['low']:+.0f}, {added['high']:+.0f}], "
                    f"ratio {ratio['median']:.4f} [{ratio['low']:.4f}, {ratio['high']:.4f}]",
                    file=sys.stderr if arguments.json == "-" else sys.stdout,
                )
    if arguments.json == "-":
        json.dump(results, sys.stdout, indent=1)
        print()
    elif arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
