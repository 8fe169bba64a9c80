"""Parallel HDF5 programs of many small datasets, with and without a plan, in interleaved pairs.

``small`` writes checkpoints of datasets with attributes, and reads them back; ``rows`` reads compressed datasets of
1.5 MB row by row, each in one chunk that is larger than HDF5's cache of chunks.

Both runs of a pair have the runtime preloaded, one of them a plan as well; their order is random. The figures are the
medians over pairs of the ratio of times (with the plan to without), with 95% intervals from order statistics. What
became of each setting is judged from the reports of the first pair, as `stripewise tune` does it. With --latency each
read and write of a file waits so long, as if storage were far away: the storage is then simulated, and the output
says so.
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from overhead import median_interval

from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.engine.effects import verdicts
from stripewise.observe.report import parse_report

HERE = Path(__file__).resolve().parent
PROGRAMS = {
    "small": ("hdf5 coll_metadata_write true", {"steps": 5, "datasets": 100, "values": 16, "attributes": 12}),
    "rows": ("hdf5 chunk_cache 4194304", {"steps": 5, "datasets": 8, "rows": 64, "columns": 3000}),
}
"""What is set, and how many of what there are."""


class Bench:
    def __init__(self, options, build):
        self.options = options
        self.program = Path(build) / f"hdf5_{options.program}"
        self.sizes = PROGRAMS[options.program][1]
        flags = shlex.split(options.flags)
        source = str(HERE / f"hdf5_{options.program}.c")
        subprocess.run([options.mpicc, "-O2", source, *flags, "-o", str(self.program)], check=True)
        self.delay = None
        if options.latency:
            self.delay = Path(build) / "slow_storage.so"
            delay = ["-O2", "-shared", "-fPIC", str(HERE / "slow_storage.c"), "-o", str(self.delay), "-ldl"]
            subprocess.run(["cc", *delay], check=True)

    def run(self, folder, plan):
        """One run; what the program measured, and the runtime's report."""
        options = self.options
        preload = [options.library, *([str(self.delay)] if self.delay else [])]
        settings = [f"LD_PRELOAD={':'.join(preload)}", f"STRIPEWISE_REPORT={folder}/report.json"]
        if plan:
            Path(folder, "plan").write_text(plan)
            settings.append(f"STRIPEWISE_PLAN={folder}/plan")
        if self.delay:
            settings.append(f"SLOW_STORAGE_MICROSECONDS={options.latency}")
        words = [*shlex.split(options.launch), "env", *settings, str(self.program), f"{folder}/data.h5"]
        words += [str(number) for number in self.sizes.values()]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("STRIPEWISE_")}
        done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=600, check=False)
        if done.returncode:
            sys.exit(f"{shlex.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
        report = json.loads(Path(folder, "report.json").read_text())
        Path(folder, "data.h5").unlink()
        return json.loads(done.stdout), parse_report(report)


def judged(plan, with_plan, without):
    """Status and evidence of each setting."""
    settings = Plan.parse(plan, "the benchmark's plan").settings
    job = with_plan.job
    context = {"nodes": job.nodes, "processes": job.ranks, "processes_per_node": -(-job.ranks // job.nodes)}
    space = Space(tuple(p.bind(context) for p in load_stack("hdf5").parameters), context=context)
    effects = verdicts(space, settings, [with_plan], [without])
    return {effect.name: {"status": effect.status, "evidence": effect.evidence} for effect in effects}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libstripewise.so, built with the same MPI")
    parser.add_argument("--mpicc", default="mpicc.mpich")
    parser.add_argument(
        "--flags",
        default="-I/usr/include/hdf5/mpich -L/usr/lib/x86_64-linux-gnu/hdf5/mpich -lhdf5",
        help="what finds the parallel HDF5 of that MPI",
    )
    parser.add_argument("--launch", default="mpiexec.mpich -n 2", help="the launcher with its options")
    parser.add_argument("--folder", default=None, help="on the file system to be measured")
    parser.add_argument("--program", choices=PROGRAMS, default="small")
    parser.add_argument("--plan", type=Path, help="in place of the built-in one")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument(
        "--latency", type=int, default=0, metavar="MICROSECONDS", help="simulated, of each read and write"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write the figures there (- for standard output)")
    options = parser.parse_args()
    setting, sizes = PROGRAMS[options.program]
    plan = options.plan.read_text() if options.plan else f"stripewise-plan 1\n{setting}\n"
    shuffle = random.Random(options.seed)
    plain, tuned, effects = [], [], None
    with tempfile.TemporaryDirectory() as build, tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(options, build)
        for pair in range(options.pairs + 1):
            found = {who: bench.run(folder, who) for who in shuffle.sample([None, plan], 2)}
            if pair == 0:  # the first pair warms up
                effects = judged(plan, found[plan][1], found[None][1])
                continue
            plain.append(found[None][0])
            tuned.append(found[plan][0])
    result = {
        "simulated_latency_microseconds": options.latency,
        "pairs": options.pairs,
        "launch": options.launch,
        "program": options.program,
        **sizes,
        "plan": plan.splitlines()[1:],
        "effects": effects,
    }
    out = sys.stderr if options.json == "-" else sys.stdout
    if options.latency:
        print(f"simulated storage: each read and write waits {options.latency} us", file=out)
    for phase in ("write", "read"):
        before, after = [run[phase] for run in plain], [run[phase] for run in tuned]
        ratio = median_interval([b / a for a, b in zip(before, after, strict=True)])
        result[phase] = {"plain": statistics.median(before), "tuned": statistics.median(after), "ratio": ratio}
        print(
            f"{phase}: {statistics.median(before):.3f} s without the plan, {statistics.median(after):.3f} s with it, "
            f"ratio {ratio['median']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}], {options.pairs} pairs",
            file=out,
        )
    for name, effect in effects.items():
        print(f"{name}: {effect['status']} ({effect['evidence']})", file=out)
    if options.json == "-":
        json.dump(result, sys.stdout, indent=1)
        print()
    elif options.json:
        Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
