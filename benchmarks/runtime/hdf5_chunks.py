"""Shapes of chunks and caches that ``tune`` finds for three programs, against sweeps: in memory, or on the test bed.

    python -m benchmarks.runtime.hdf5_chunks --out hdf5-chunks.json
    make cluster-up; python -m benchmarks.runtime.hdf5_chunks --files MOUNT --out FILE

Needs Debian's parallel HDF5 (``libhdf5-mpich-dev``). Each program runs with every configuration of its sweep in
interleaved rounds; then ``stripewise tune`` has 20 launches, its proof included; then the default, the best of the
sweep and the answer run in interleaved rounds, from which the figures come.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("hdf5_chunks.c")
BIN = Path(sys.prefix) / "bin"
BUDGET = 20
SHAPES = {
    "series": ["1x512x32", "4x256x256", "8x128x128", "16x64x64", "64x32x32", "64x16x16"],
    "blocks": ["*x*/2", "1024x2048", "256x2048", "64x4096", "512x512", "64x64"],
}
CACHES = ["4 MiB", "16 MiB", "64 MiB", "256 MiB"]
SLOTS = [521, 8191, 131071]


def sweep_of(name: str) -> dict[str, list[str]]:
    """Give the lines of a plan for each configuration of a program's sweep, by a name."""
    if name in SHAPES:
        return {shape: [f"hdf5 chunk_shape {shape}"] for shape in SHAPES[name]}
    return {
        f"{cache}, {slots}": [f"hdf5 chunk_cache {int(cache.split()[0]) << 20}", f"hdf5 chunk_slots {slots}"]
        for cache in CACHES
        for slots in SLOTS
    }


class Bench:
    """A folder in memory with the programs, and the folder of their files."""

    def __init__(self, folder: Path, files: Path, limit: int, rows: int) -> None:
        self.limit, self.rows = limit, rows
        self.folder, self.files, self.program = folder, files, folder / "hdf5_chunks"
        path = f"{BIN}:{os.environ['PATH']}"
        self.environment = dict(os.environ, STRIPEWISE_STORE=f"sqlite:///{folder}/store.db", PATH=path)
        place = "/usr/lib/x86_64-linux-gnu/hdf5/mpich"
        flags = ["-O1", "-I/usr/include/hdf5/mpich", str(SOURCE), "-o", str(self.program), f"-L{place}", "-lhdf5"]
        subprocess.run(["mpicc.mpich", *flags], check=True)

    def command(self, name: str) -> list[str]:
        """The program's command."""
        words = ["mpiexec.mpich", "-n", "2", str(self.program), str(self.files / f"{name}.h5"), name]
        return [*words, str(self.rows)] if name == "blocks" else words

    def run(self, name: str, lines: list[str]) -> float:
        """Run a program with the lines of a plan; its own seconds."""
        if name != "slices":
            (self.files / f"{name}.h5").unlink(missing_ok=True)
        words = self.command(name)
        if lines:
            plan = self.folder / "plan.txt"
            plan.write_text("stripewise-plan 1\n" + "\n".join(lines) + "\n")
            words = ["stripewise", "run", "--quiet", str(plan), "--", *words]
        words = ["timeout", str(self.limit), *words]
        done = subprocess.run(words, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode == 124:
            return float(self.limit)
        done.check_returncode()
        return float(re.findall(r"seconds: ([0-9.]+)", done.stdout)[0])

    def rounds(self, name: str, arms: dict[str, list[str]], count: int) -> dict[str, list[float]]:
        """Run each arm once a round, in random order."""
        found: dict[str, list[float]] = {arm: [] for arm in arms}
        rng = random.Random(1)
        for _ in range(count):
            for arm in rng.sample(list(arms), len(arms)):
                if self.limit not in found[arm]:
                    found[arm].append(self.run(name, arms[arm]))
        return found

    def tune(self, name: str) -> tuple[dict[str, Any], list[str]]:
        """Tune a program; the result and the lines of its best."""
        writes = {"series": "both", "blocks": "write", "slices": "read"}[name]
        values = '[parameters.hdf5_chunk_shape]\nvalues = ["own", "writers", "readers", "balanced"]\n'
        (self.folder / "x.toml").write_text(
            f"command = {json.dumps(self.command(name))}\nstacks = ['hdf5']\nbudget = {BUDGET}\n"
            "objective = { name = 'regex:seconds: ([0-9.]+)', direction = 'minimize', unit = 's' }\n"
            f"[workload]\noperation = '{writes}'\napi = 'hdf5'\n" + (values if name == "blocks" else "")
            + ("" if name == "slices" else f"[hooks]\ndelete = ['{self.files}/{name}.h5']\n")
        )  # fmt: skip
        words = ["stripewise", "tune", "--json", "x.toml"]
        done = subprocess.run(words, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False)
        result = json.loads(done.stdout)
        plan = ["stripewise", "export", result["experiment"], "--to", "plan"]
        text = subprocess.run(plan, env=self.environment, capture_output=True, text=True, check=False).stdout
        return result, [line for line in text.splitlines() if line.split(" ")[0] in ("hdf5", "hint")]


def main() -> None:
    """Run all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", default="/dev/shm", help="where the files lie, such as a folder of the test bed")
    parser.add_argument("--limit", type=int, default=60, help="seconds after which a run of a sweep is given up")
    parser.add_argument("--rows", type=int, default=4096, help="of blocks: fewer for storage that is slow")
    parser.add_argument("names", nargs="*", default=["series", "blocks", "slices"])
    asked = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place, tempfile.TemporaryDirectory(dir=asked.files) as files:
        bench = Bench(Path(place), Path(files), asked.limit, asked.rows)
        for name in asked.names:
            if name == "slices":
                bench.run(name, [])
            swept = bench.rounds(name, {"default": [], **sweep_of(name)}, asked.rounds)
            best = min(swept, key=lambda arm: statistics.median(swept[arm]))
            result, lines = bench.tune(name)
            arms = {"default": [], "best": sweep_of(name).get(best, []), "answer": lines}
            final = {arm: statistics.median(times) for arm, times in bench.rounds(name, arms, 7).items()}
            results[name] = {
                "sweep": {arm: statistics.median(times) for arm, times in swept.items()},
                "best": best,
                "answer": lines,
                "launches": result.get("runs"),
                "speedup": result.get("speedup"),
                "speedup_ci95": result.get("speedup_ci95"),
                "confirmed": result.get("confirmed"),
                "seconds": final,
                "of_best": final["best"] / final["answer"],
            }
            print(name, json.dumps(results[name]), flush=True)
    asked.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
