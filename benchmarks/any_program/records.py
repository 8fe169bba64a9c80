"""Whether replays of programs without MPI take as long as the programs, and are ordered as they are.

    python -m benchmarks.any_program records [--rounds 3] [--disk /var/tmp] [--memory /dev/shm] [--json FILE] [NAME ...]

Each program is recorded once. Then it and its replay run in interleaved rounds: in memory, and on a disk with a cold
page cache by default and with settings of the accelerator. Times are those inside calls, of the thread or rank that
spent most; figures are medians over the rounds. Beside the rank correlation stands the share of the pairs of
configurations that are more than 20% apart in the program and have the same order in the replay.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from stripewise.engine.fidelity import Done
from stripewise.observe.left import PREFIX, calls_in
from stripewise.observe.record import Record
from stripewise.observe.record_joining import join_threads
from stripewise.observe.record_reading import parse_record
from stripewise.requests.experiment import Replay
from stripewise.runners.native.build import accelerator_for
from stripewise.runners.native.replaying import make_replayer
from stripewise.runners.program.mpi import mpiexec

PYTHON = sys.executable
ROWS = (
    "with recursive n(i) as (select 1 union all select i + 1 from n where i < {}) select i, hex(randomblob(40)) from n"
)
CDL = "netcdf a { dimensions: x = 4000 ; y = 1000 ; t = 4 ; variables: float v(x,y) ; int s(t) ; data: s = 1,2,3,4 ; }"
# Of each program what makes its input, and the program.
PROGRAMS: Mapping[str, tuple[str, str]] = {
    "dd": ("head -c 48M /dev/urandom > in", "dd if=in of=out bs=256k"),
    "tar-create": ("mkdir t; for i in $(seq 200); do head -c 200000 /dev/urandom > t/$i; done", "tar cf out t"),
    "tar-extract": ("mkdir t x; for i in $(seq 200); do head -c 200000 /dev/urandom > t/$i; done; tar cf in t; rm -r t",
                    "tar xf in -C x"),
    "sqlite-fill": ("", f"sqlite3 out 'create table t as {ROWS.format(60000)}; create index i on t(i)'"),
    "sqlite-scan": (f"sqlite3 in 'create table t as {ROWS.format(300000)}'", "sqlite3 in 'select sum(i) from t'"),
    "sort": ("head -c 24M /dev/urandom | base64 > in", "sort -S 4M -T . -o out in"),
    "numpy": ("", f"{PYTHON} -c 'import numpy as n; a = n.ones(3000000); "
                  "[n.save(f\"o{i}.npy\", a) for i in range(2)]; [n.load(f\"o{i}.npy\") for i in range(2)]'"),
    "h5py": ("", f"{PYTHON} -c 'import h5py as h, numpy as n; f = h.File(\"out\", \"w\"); d = f.create_dataset(\"d\", "
                 "(2000, 2000), chunks=(100, 100)); d[:] = 1.5; f.close(); h.File(\"out\")[\"d\"][:]'"),
    "ncgen": (f"echo '{CDL}' > in", "ncgen -o out in"),
    "nccopy": (f"echo '{CDL}' > c; ncgen -o in c", "nccopy -k 4 in out"),
    "h5repack": (f"echo '{CDL}' > c; ncgen -k 4 -o in c", "h5repack -l v:CHUNK=100x1000 in out"),
    "fio-random": ("head -c 32M /dev/urandom > in", "fio --name=a --filename=in --size=32m --bs=4k --rw=randread "
                   "--io_size=12m --ioengine=psync --invalidate=0 --output=log"),
    "fio-sync": ("", "fio --name=a --filename=out --size=8m --bs=128k --rw=write --ioengine=psync --fsync=8 "
                 "--output=log"),
    "rsync": ("mkdir t; for i in $(seq 100); do head -c 300000 /dev/urandom > t/$i; done",
              "rsync -a --whole-file t/ x/"),
}  # fmt: skip
# Each with where it is, whether the page cache is emptied before, and what the accelerator is asked for.
PLACES: Mapping[str, tuple[str, bool, str]] = {
    "memory": ("memory", False, ""),
    "disk": ("disk", True, ""),
    "random": ("disk", True, "advice=random"),
    "readahead": ("disk", True, "readahead=16777216"),
    "direct 256 KiB": ("disk", True, "direct=262144"),
    "direct 4 MiB": ("disk", True, "direct=4194304"),
}
SAME = 0.2
"""A replay's time may differ by this part of the program's, and so may configurations that count as equal."""


def clear_cache(folder: Path) -> None:
    """Write what is in the folder, and forget what memory holds of it."""
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def library(asked: str) -> dict[str, str]:
    """Give the variables that preload the accelerator, with what it is asked for."""
    found = {"LD_PRELOAD": str(accelerator_for(os.environ))}
    return found | ({"STRIPEWISE_POSIX": asked} if asked else {})


def run_program(name: str, scratch: Path, cold: bool, asked: str) -> tuple[str, Record]:
    """Run a program once, on files of its own, and give its record."""
    prepare, command = PROGRAMS[name]
    with tempfile.TemporaryDirectory(dir=scratch) as made, tempfile.TemporaryDirectory() as parts:
        folder = Path(made)
        subprocess.run(["bash", "-c", prepare], cwd=folder, check=True, capture_output=True)
        os.sync()
        if cold:
            clear_cache(folder)
        given = {**os.environ, **library(asked), "STRIPEWISE_CALLS": "1", "STRIPEWISE_PROCESSES": f"{parts}/{PREFIX}"}
        subprocess.run(["bash", "-c", f"exec {command}"], cwd=folder, env=given, check=True, capture_output=True)
        text = join_threads(calls_in(Path(parts)))
    return text, parse_record(text, name)


def run_replay(record: Record, place: Path, scratch: Path, cold: bool, asked: str) -> Done:
    """Replay a record once."""
    folder = Path(tempfile.mkdtemp(dir=scratch)) / "replay"
    launcher = [mpiexec(os.environ), "-n", str(record.ranks), "stripewise-replay"]
    replayer = make_replayer(Replay(record=str(place), folder=str(folder)), record, launcher, os.environ)

    def start(part: Literal["prepare", "calls"], **variables: str) -> None:
        own = replayer.words(part)
        before = [*replayer.before, "env", *(f"{key}={value}" for key, value in variables.items())]
        subprocess.run([*before, *own[len(replayer.before) :], "--counts", f"{folder}.json"], check=True)

    start("prepare")
    os.sync()
    if cold:
        clear_cache(folder)
    with tempfile.TemporaryDirectory() as parts:
        start("calls", STRIPEWISE_PROCESSES=f"{parts}/{PREFIX}", **library(asked))
    done = Done.by_counts(json.loads(Path(f"{folder}.json").read_text("utf-8")))
    shutil.rmtree(folder.parent)
    return done


def ranks(values: list[float]) -> list[float]:
    """Give each value's place; equal ones share theirs."""
    return [sum(other < one for other in values) + sum(other == one for other in values) / 2 for one in values]


def apart(ours: list[float], theirs: list[float]) -> list[int]:
    """Give how many pairs are clearly apart, and how many of these have the same order in both."""
    pairs = [(a, b) for a, b in itertools.permutations(range(len(ours)), 2) if ours[a] > (1 + SAME) * ours[b]]
    return [len(pairs), sum(theirs[a] > theirs[b] for a, b in pairs)]


def measure(name: str, given: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    """Record a program, and compare it with its replays."""
    folders = {"memory": given.memory, "disk": given.disk}
    text, record = run_program(name, given.disk, False, "")
    place = scratch / f"{name}.record"
    place.write_text(text, "utf-8", "surrogateescape")
    program = Done.by_record(record)
    times: dict[str, dict[str, list[float]]] = {kind: {way: [] for way in PLACES} for kind in ("program", "replay")}
    for _, (way, (where, cold, asked)) in itertools.product(range(given.rounds), PLACES.items()):
        _, again = run_program(name, folders[where], cold, asked)
        done = run_replay(record, place, folders[where], cold, asked)
        times["program"][way].append(again.io_time)
        times["replay"][way].append(done.io_time)
    middle = {kind: [statistics.median(values) for values in found.values()] for kind, found in times.items()}
    return {
        "calls": sum(program.calls.values()),
        "ranks": record.ranks,
        "record_bytes": len(text),
        "gaps": list(record.gaps),
        "same_calls": program.calls == done.calls,
        "same_bytes": (program.read, program.written) == (done.read, done.written),
        "rank_correlation": statistics.correlation(ranks(middle["program"]), ranks(middle["replay"])),
        "apart": apart(middle["program"], middle["replay"]),
        "ratio": statistics.median(b / a for a, b in zip(middle["program"], middle["replay"], strict=True)),
        "ratios": dict(zip(PLACES, (b / a for a, b in zip(*middle.values(), strict=True)), strict=True)),
        "times": times,
    }


def chosen(names: list[str]) -> Iterator[str]:
    """Give the programs that are asked for and are there."""
    for name in names or PROGRAMS:
        if shutil.which(PROGRAMS[name][1].split()[0]):
            yield name
        else:
            print(f"{name}: not installed", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}; default: all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--disk", type=Path, default=Path("/var/tmp"))
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in chosen(given.names):
            one = found[name] = measure(name, given, Path(scratch))
            same = "equal calls and bytes" if one["same_calls"] and one["same_bytes"] else "other calls or bytes"
            print(
                f"{name}: {one['calls']:,} calls, {one['ranks']} at a time, {same}; rank correlation "
                f"{one['rank_correlation']:.2f}, {one['apart'][1]} of {one['apart'][0]} pairs in order, "
                f"{one['ratio']:.2f} times the program's time", flush=True,
            )  # fmt: skip
    good = [one for one in found.values() if one["rank_correlation"] >= 0.9 and abs(one["ratio"] - 1) <= SAME]
    whole = sum(one["same_calls"] and one["same_bytes"] and not one["gaps"] for one in found.values())
    print(f"{whole} of {len(found)} whole; {len(good)} with a rank correlation of 0.9 and a time within {SAME:.0%}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
