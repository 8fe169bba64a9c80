"""What mode online costs and brings over 60 checkpoints of a strided write on real ROMIO.

    python benchmarks/runtime/online.py --library libstripewise.so --model site.swm --folder /tmp

The program writes checkpoints collectively, its ranks' pieces interleaved. First every static setting of a sweep is
measured, in turns: the one with the best median is the best static setting known in advance. Then the program runs
under mode online, again and again, each time with static runs of the default and of the best beside it, in random
order, so that the slow changes of the machine fall on all alike. Reported is, for each round and as a median, the
total time of online over 1.15 times that of the best static plus two default phases (at most 1 is wanted); with a
model that prefers what is slow (--adverse), over 1.05 times that of the default.
"""

import argparse
import itertools
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "programs" / "phases.c"
SWEEP = {
    "romio_cb_write": ["automatic", "enable", "disable"],
    "romio_ds_write": ["automatic", "disable"],
    "cb_nodes": ["1", "2", "4"],
}


def settings_of_sweep():
    """Every distinct static setting; aggregators mean nothing without collective buffering."""
    for cb_write, ds_write, cb_nodes in itertools.product(*SWEEP.values()):
        if cb_write == "disable" and cb_nodes != "1":
            continue
        chosen = {"romio_cb_write": cb_write, "romio_ds_write": ds_write, "cb_nodes": cb_nodes}
        yield {key: value for key, value in chosen.items() if value not in ("automatic", "1")}


class Bench:
    """One program, its runs counted by the seconds of their phases."""

    def __init__(self, options, program, folder):
        self.options, self.program, self.folder = options, program, folder
        self.number = 0

    def run(self, environment, phases):
        """The seconds of each phase."""
        self.number += 1
        prefix = Path(self.folder) / "chk"
        for old in Path(self.folder).glob("chk*"):
            old.unlink()
        clean = {key: value for key, value in os.environ.items() if not key.startswith("STRIPEWISE_")}
        words = [f"{key}={value}" for key, value in environment.items()]
        if environment:
            words.append(f"LD_PRELOAD={self.options.library}")
        command = [*shlex.split(self.options.mpiexec), "-n", str(self.options.ranks), "env", *words, str(self.program)]
        command += [str(prefix), str(phases), str(self.options.pieces), str(self.options.bytes)]
        done = subprocess.run(command, capture_output=True, text=True, env=clean, timeout=1800, check=False)
        if done.returncode != 0 or "stripewise:" in done.stderr:
            sys.exit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
        return [float(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("phase ")]

    def static(self, settings, phases):
        """A run with a plan; the empty one is the default, with the runtime observing as well."""
        plan = Path(self.folder) / "plan"
        plan.write_text("stripewise-plan 1\n" + "".join(f"hint {k} {v}\n" for k, v in settings.items()), "utf-8")
        return self.run({"STRIPEWISE_MODE": "apply", "STRIPEWISE_PLAN": str(plan)}, phases)

    def online(self, phases):
        """A run that learns, knowing nothing of earlier ones."""
        return self.run({"STRIPEWISE_MODE": "online", "STRIPEWISE_MODEL": str(self.options.model)}, phases)


def sweep(bench, shuffle):
    """The median seconds of a phase with each static setting, measured in turns."""
    found = {json.dumps(settings): [] for settings in settings_of_sweep()}
    for turn in range(bench.options.turns + 1):
        for key in shuffle.sample(list(found), len(found)):
            seconds = bench.static(json.loads(key), bench.options.sweep_phases)
            if turn > 0:  # the first turn warms up
                found[key] += seconds[1:]
    return {key: statistics.median(seconds) for key, seconds in found.items()}


def main():
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libstripewise.so, built with the same MPI")
    parser.add_argument("--model", required=True, help="an artifact, as prescribe --artifact writes it")
    parser.add_argument("--folder", default="/tmp", help="where the checkpoints are written")
    parser.add_argument("--mpicc", default="mpicc")
    parser.add_argument("--mpiexec", default="mpiexec", help="with its options")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--pieces", type=int, default=2048)
    parser.add_argument("--bytes", type=int, default=1024)
    parser.add_argument("--phases", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=3, help="of the sweep")
    parser.add_argument("--sweep-phases", type=int, default=6)
    parser.add_argument("--adverse", action="store_true", help="the default is best: compare with it alone")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shuffle = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as build, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        program = Path(build) / "phases"
        subprocess.run([options.mpicc, "-O2", str(PROGRAM), "-o", str(program)], check=True)
        bench = Bench(options, program, folder)
        medians = {json.dumps({}): 0.0} if options.adverse else sweep(bench, shuffle)
        best = json.loads(min(medians, key=medians.__getitem__))
        rounds = []
        for _ in range(options.rounds):
            runs = {"default": lambda: bench.static({}, options.phases), "online": lambda: bench.online(options.phases)}
            if not options.adverse:
                runs["best"] = lambda: bench.static(best, options.phases)
            totals = {who: sum(runs[who]()) for who in shuffle.sample(list(runs), len(runs))}
            phase = totals["default"] / options.phases
            bound = 1.05 * totals["default"] if options.adverse else 1.15 * totals["best"] + 2 * phase
            rounds.append({**totals, "over_bound": totals["online"] / bound})
            print(json.dumps(rounds[-1]), file=sys.stderr)
    ordered = sorted(entry["over_bound"] for entry in rounds)
    print(
        json.dumps(
            {
                "ranks": options.ranks,
                "phases": options.phases,
                "bytes_a_phase": options.ranks * options.pieces * options.bytes,
                "sweep_seconds_a_phase": medians,
                "best_static": best,
                "rounds": rounds,
                "over_bound": {"median": statistics.median(ordered), "least": ordered[0], "most": ordered[-1]},
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
