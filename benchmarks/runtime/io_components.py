"""An h5py program on Open MPI 4.1: what ``tune`` finds from its default, against a sweep over OMPIO and ROMIO.

    python -m benchmarks.runtime.io_components --out FILE

Needs Debian's ``openmpi-bin`` and ``python3-h5py-mpi``. Every configuration of the sweep runs in interleaved rounds;
then ``tune`` has 40 launches; then the default, the best of the sweep and the answer run in interleaved rounds, whose
ratios give the figure. All of them run with the runtime.
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
import time
from pathlib import Path

PROGRAM = Path(__file__).with_name("h5py_columns.py")
BIN = Path(sys.prefix) / "bin"
OBJECTIVE = "bandwidth: ([0-9.]+)"


def arms_of_sweep() -> dict[str, list[str]]:
    """Give the lines of a plan for each configuration, by a name."""
    arms: dict[str, list[str]] = {"default": [], "individual": ["mca fcoll individual"]}
    for name in ("vulcan", "dynamic_gen2", "dynamic", "two_phase"):
        for count in (-1, 1, 2, 4):
            lines = [f"mca fcoll {name}"] + [f"mca io_ompio_num_aggregators {count}"] * (count != -1)
            arms[f"{name}, {count}"] = lines
    for sieving in ("enable", "disable"):
        romio = ["mca io romio321", f"hint romio_ds_write {sieving}"]
        arms[f"romio321, {sieving}, alone"] = [*romio, "hint romio_cb_write disable"]
        for count in (1, 2, 4):
            nodes = [f"hint cb_nodes {count}", f"hint cb_config_list *:{count}"]
            arms[f"romio321, {sieving}, {count}"] = [*romio, "hint romio_cb_write enable", *nodes]
    return arms


class Bench:
    """A folder with the plans and the store, and the program's file."""

    def __init__(self, folder: Path, file: Path) -> None:
        self.folder, self.file = folder, file
        path = f"{BIN}:{os.environ['PATH']}"
        self.environment = dict(os.environ, STRIPEWISE_STORE=f"sqlite:///{folder}/store.db", PATH=path)
        launcher = ["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "4"]
        self.command = [*launcher, "/usr/bin/python3", str(PROGRAM), str(file)]

    def stripewise(self, *words: str) -> str:
        """Run a command of Stripewise; what it prints."""
        done = subprocess.run(
            ["stripewise", *words], env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode and not done.stdout:
            sys.exit(f"{' '.join(words)}: {done.stderr[-1000:]}")
        return done.stdout

    def run(self, lines: list[str]) -> float:
        """Run the program with the lines of a plan; its MiB/s."""
        self.file.unlink(missing_ok=True)
        (self.folder / "plan.txt").write_text("stripewise-plan 1\n" + "\n".join(lines) + "\n")
        return float(re.findall(OBJECTIVE, self.stripewise("run", "-q", "./plan.txt", "--", *self.command))[0])

    def rounds(self, arms: dict[str, list[str]], count: int) -> dict[str, list[float]]:
        """Run each arm once a round, in random order."""
        found: dict[str, list[float]] = {arm: [] for arm in arms}
        rng = random.Random(1)
        for _ in range(count):
            for arm in rng.sample(list(arms), len(arms)):
                found[arm].append(self.run(arms[arm]))
        return found


def main() -> None:
    """Sweep, tune, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=2, help="of the sweep")
    parser.add_argument("--pairs", type=int, default=11, help="of the comparison")
    parser.add_argument("--budget", type=int, default=40)
    asked = parser.parse_args()
    begun = time.time()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        bench = Bench(Path(place), Path(place) / "columns.h5")
        arms = arms_of_sweep()
        bench.run([])
        swept = {arm: statistics.median(rates) for arm, rates in bench.rounds(arms, asked.rounds).items()}
        best = max(swept, key=lambda arm: swept[arm])
        print("best of the sweep:", best, swept[best], f"{time.time() - begun:.0f} s", flush=True)
        # Without --stack: tune takes the component with the settings of both by itself.
        objective = ["--objective", f"regex:{OBJECTIVE}", "--direction", "maximize", "--budget", str(asked.budget)]
        result = json.loads(bench.stripewise("tune", "--json", *objective, "--", *bench.command))
        plan = bench.stripewise("export", result["experiment"], "--to", "plan")
        lines = [line for line in plan.splitlines() if line.split(" ")[0] in ("mca", "hint", "hdf5")]
        print("answer:", lines, result["speedup"], result["runs"], f"{time.time() - begun:.0f} s", flush=True)
        final = bench.rounds({"default": [], "best": arms[best], "answer": lines}, asked.pairs)
    ratios = [answer / other for answer, other in zip(final["answer"], final["best"], strict=True)]
    rng = random.Random(1)
    drawn = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
    kept = {
        "sweep": swept,
        "best": best,
        "answer": lines,
        "launches": result["runs"],
        "speedup": result["speedup"],
        "speedup_ci95": result["speedup_ci95"],
        "confirmed": result["confirmed"],
        "final": {arm: statistics.median(rates) for arm, rates in final.items()},
        "of_best": statistics.median(ratios),
        "of_best_ci95": [drawn[50], drawn[1949]],
        "pairs": len(ratios),
    }
    asked.out.write_text(json.dumps(kept, indent=1) + "\n")
    print(
        json.dumps({name: kept[name] for name in ("final", "of_best", "of_best_ci95")}), f"{time.time() - begun:.0f} s"
    )


if __name__ == "__main__":
    main()
