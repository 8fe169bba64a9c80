"""Striping on a real parallel file system: does `tune` find what an exhaustive sweep finds?

On the test bed (Slurm with four nodes, CephFS with four OSDs of 50 MB/s each): files of objects of 1 GiB, one stripe by
default, placed so that stripes lie on different OSDs. For one writer, and for a job of four nodes, every configuration
of stripes, stripe unit and (for the job) collective buffering is run once, `stripewise tune` searches the same space,
and then the best five of the sweep, tune's answer and the default are run again in interleaved rounds. At last OSD 3 is
slowed to 10 MB/s and the writer is tuned once more. `predict` learns a model from the sweeps at full speed and lets
the runtime choose at open, with no run before.

    make cluster-up
    python -m benchmarks.runtime.bed --kernel "$(stripewise site native build --mpicc mpicc --json | jq -r .kernel)"

It submits itself as one allocation of all nodes, in which runs are steps.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tests.system.testbed.bed import Bed
from tests.system.testbed.placement import OBJECT_SIZE, settled

from stripewise.catalogue.carriers import ENVIRONMENT, Setting
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan, settings_of, spell
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.engine.session import Session
from stripewise.engine.space import Circumstances, bind_space
from stripewise.launch import Launch, Outcome
from stripewise.models.artifact.export import to_artifact
from stripewise.models.artifact.file import save_artifact
from stripewise.models.registry import make_model
from stripewise.models.table import Schema, make_table, read_table, write_table
from stripewise.observe.objectives import measure, parse_objective
from stripewise.requests.experiment import Experiment
from stripewise.runners.registry import make_runner
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Role, State, Trial

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BEST = 5
RATE = 50.0
# Ranks that wait for one another sleep: the nodes share this machine's cores with the OSDs.
SLEEPY = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8"}
SLOW = 10.0
CASES: dict[str, dict[str, Any]] = {
    "writer": {"nodes": 1, "ranks": 1, "options": "--layout segmented --transfer 4m"},
    "four nodes": {
        "nodes": 4,
        "ranks": 4,
        "options": "--layout strided --transfer 1m --piece 64k --collective",
        # Said rather than observed: collective buffering that is on by itself and enabled are then one setting.
        "workload": {"layout": "strided", "transfer_size": "1 MiB", "piece_size": "64 KiB"},
    },
    "writer, OSD 3 slowed": {"nodes": 1, "ranks": 1, "options": "--layout segmented --transfer 4m"},
}
UNITS = [262144, 1048576, 4194304]


def experiment_of(name: str, options: argparse.Namespace, folder: Path, groups: Path, **fields: Any) -> Experiment:
    """One case as a user would write it."""
    case = CASES[name]
    file = folder / "bed.dat"
    command = f"srun --mpi=pmi2 -N {case['nodes']} -n {case['ranks']} {shlex.quote(options.kernel)} --api mpiio --write"
    command += f" --existing --fsync {case['options']} --size {options.size}m --file {file}"
    # The slowed OSD is to be the fourth stripe's, so that three stripes can do without it.
    last = ["3"] if "slowed" in name else []
    spread = shlex.join([sys.executable, "-m", "benchmarks.runtime.spread", str(file), str(groups), *last])
    parameters: dict[str, Any] = {
        "cephfs_stripe_count": {"values": [1, 2, 3, 4]},
        "cephfs_stripe_unit": {"values": UNITS if case["ranks"] == 1 else UNITS[1:]},
        # Fixed by the folder: stripes must not end.
        "cephfs_object_size": {"exclude": True},
    }
    if case["ranks"] > 1:
        parameters |= {
            "romio_cb_write": {"values": ["enable", "disable"]},
            "cb_nodes": {"values": [1, 2, 4]},
            "cb_buffer_size": {"values": ["16 MiB"]},
        }
        names = (
            "romio_ds_write",
            "ind_wr_buffer_size",
            "romio_no_indep_rw",
            "cb_buffer_size",
            "romio_min_fdomain_size",
        )
        parameters |= {other: {"exclude": True} for other in names}
    return Experiment.model_validate(
        {
            "name": name,
            "command": command,
            "runner": "steps",
            "stacks": ["cephfs", "romio"],
            "objective": "write_bandwidth",
            "override": True,
            "parameters": parameters,
            "hooks": {"delete": [str(file)], "before": [spread]},
            "batch": {"jobs": 1, "nodes": case["nodes"]},
            "workload": case.get("workload", {}),
            **fields,
        }
    )


def carry_out(experiment: Experiment, scratch: Path) -> tuple[dict[str, Any], tuple[Trial, ...], str]:
    with open_store(f"sqlite:///{scratch}/bed.db") as store:
        identifier = store.create(experiment)
        runner = make_runner(experiment, scratch / identifier, cwd=ROOT)
        result = Session(store, identifier, runner, "benchmark").run().as_json()
        return result, store.trials(identifier), identifier


def interleaved(
    experiment: Experiment, space: Space, arms: dict[str, Configuration], rounds: int, scratch: Path
) -> dict[str, list[float]]:
    plans = {}
    for name, configuration in arms.items():
        settings = () if configuration == space.default else settings_of(space, configuration)
        plans[name] = Plan(settings, f"interleaved.{name}", override=True)
    return in_rounds(experiment, plans, rounds, scratch)


def in_rounds(experiment: Experiment, plans: dict[str, Plan], rounds: int, scratch: Path) -> dict[str, list[float]]:
    """Run every plan once a round, in random order."""
    objective = parse_objective("write_bandwidth")
    values: dict[str, list[float]] = {name: [] for name in plans}
    rng = np.random.default_rng(1)
    number = 0
    with make_runner(experiment, scratch / f"interleaved-{experiment.name}", cwd=ROOT) as runner:
        runner.prepare()
        for _ in range(rounds):
            for name in rng.permutation(list(plans)):
                nothing = Configuration({})
                runner.start(Launch("interleaved", number, nothing, plans[name], Phase.CONFIRMATION, timeout=120))
                number += 1
                outcomes: list[Outcome] = []
                while not outcomes:
                    outcomes = runner.poll(130)
                if outcomes[0].state is State.FINISHED:
                    values[name].append(measure(objective, outcomes[0]))
                else:
                    print(f"{name}: {outcomes[0].reason}", flush=True)
    return values


def study(name: str, options: argparse.Namespace, folder: Path, groups: Path, scratch: Path) -> dict[str, Any]:
    def defined(**fields: Any) -> Experiment:
        return experiment_of(name, options, folder, groups, **fields)

    tuned, _, _ = carry_out(defined(budget=options.budget, seed=options.seed), scratch)
    distinct = tuned["space"]["distinct"]
    print(f"{name}: {tuned['verdict']}; now {distinct} to sweep", flush=True)
    sweep = {"sampler": "exhaustive", "resampling": {"kind": "none"}, "confirmation": {"pairs": 0}}
    swept, trials, _ = carry_out(defined(budget=distinct + 2, **sweep), scratch)
    ranked = sorted((t for t in trials if t.value is not None), key=lambda trial: -float(trial.value or 0.0))
    workload = Workload.model_validate(swept["workload"])
    space = bind_space(
        defined(), Circumstances(workload, swept["environment"].get("io"), swept["environment"].get("mpi"))
    ).space
    configurations = [space.default if t.role is Role.DEFAULT else t.configuration for t in ranked]
    arms = {f"sweep {place + 1}": found for place, found in enumerate(configurations[:BEST])}
    found = Configuration(tuned["best"]["configuration"]) if tuned["confirmed"] else space.default
    arms |= {"tune": found, "default": space.default}
    print(f"{name}: swept; now {len(arms)} times {options.rounds} interleaved", flush=True)
    values = interleaved(defined(), space, arms, options.rounds, scratch)
    pooled = {arm: [run for other, runs in values.items() if arms[other] == arms[arm] for run in runs] for arm in arms}
    medians = {arm: statistics.median(runs) for arm, runs in pooled.items() if runs}
    best = max((arm for arm in medians if arm.startswith("sweep")), key=lambda arm: medians[arm])
    return {
        "case": name,
        "distinct": distinct,
        "launches": tuned["runs"],
        "seconds": tuned["seconds"],
        "confirmed": tuned["confirmed"],
        "speedup": tuned["speedup"],
        "speedup_ci95": tuned["speedup_ci95"],
        "found": dict(found),
        "settings": tuned["settings"],
        "effects": [effect for effect in tuned["effects"] if effect["name"].startswith("cephfs")],
        "best_of_sweep": dict(arms[best]),
        "median_default": medians["default"],
        "median_tune": medians["tune"],
        "median_best_of_sweep": medians[best],
        "share_of_best": medians["tune"] / medians[best],
        "rounds": options.rounds,
        "values": values,
        "default": dict(space.default),
        "sweep": [{"configuration": dict(c), "value": t.value} for c, t in zip(configurations, ranked, strict=True)],
    }


def campaign_table(rows: list[dict[str, Any]], size: int, scratch: Path) -> Path:
    """Write the sweeps as one table: what was measured of the bed, at full speed."""
    contexts = {row["case"]: CASES[row["case"]] for row in rows}
    names = sorted({name for row in rows for name in row["default"]})
    stacks = {p.name: p for stack in ("cephfs", "romio") for p in load_stack(stack).parameters}
    lines = []
    for row in rows:
        case = contexts[row["case"]]
        about = {"operation": "write", "nodes": case["nodes"], "collective": case["ranks"] > 1, "file_size": size}
        for entry in row["sweep"]:
            values = {**{name: stacks[name].default for name in names}, **row["default"], **entry["configuration"]}
            lines.append({**about, **{name: values[name] for name in names}, "repeat": 0, "bandwidth": entry["value"]})
    schema = {
        "name": "bed",
        "objective": {"column": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
        "context": [
            _column(name, "categorical" if name in ("operation", "collective") else "ordinal", name, lines)
            for name in ("operation", "nodes", "collective", "file_size")
        ],
        "parameter": [
            {
                **_column(name, "ordinal" if stacks[name].ordered else "categorical", stacks[name].role, lines),
                "default": stacks[name].default,
            }
            for name in names
        ],
    }
    path = scratch / "bed.csv"
    write_table(make_table(Schema.model_validate(schema), lines), path)
    return path


def _column(name: str, kind: str, role: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    values = sorted({line[name] for line in lines})
    return {"name": name, "kind": kind, "role": role or "other", "values": values}


def predicted(options: argparse.Namespace, folder: Path, groups: Path, scratch: Path) -> dict[str, Any]:
    """Learn from the sweeps and let the runtime choose at open, with no run before."""
    rows = [row for row in json.loads(options.out.read_text())["cases"] if row["case"] in ("writer", "four nodes")]
    model = make_model("auto")
    model.fit(read_table(str(campaign_table(rows, options.size << 20, scratch))))
    artifact = scratch / "bed.swm"
    save_artifact(to_artifact(model), artifact)
    found: dict[str, Any] = {"case": "predict", "rounds": options.rounds, "of": {}}
    chosen = (
        Setting(ENVIRONMENT, "STRIPEWISE_MODE", "predict"),
        Setting(ENVIRONMENT, "STRIPEWISE_MODEL", str(artifact)),
    )
    for row in rows:
        experiment = experiment_of(row["case"], options, folder, groups)
        case = CASES[row["case"]]
        # All nodes of the bed have one name, by which the runtime would count one node.
        workload = (("file_size", str(options.size << 20)), ("nodes", str(case["nodes"])))
        stacks = [load_stack(stack) for stack in ("cephfs", "romio")]
        carried = {p.name: (p.carrier, p.setting, p.layer) for stack in stacks for p in stack.parameters}
        best = tuple(
            Setting(carried[name][0], carried[name][1], spell(value), carried[name][2])
            for name, value in row["best_of_sweep"].items()
            if value != row["default"].get(name)
        )
        plans = {
            "default": Plan((), "default", override=True),
            "best": Plan(best, "best", override=True),
            "predict": Plan(chosen, "predict", override=True, workload=workload),
        }
        values = in_rounds(experiment, plans, options.rounds, scratch)
        medians = {name: statistics.median(runs) for name, runs in values.items()}
        share = medians["predict"] / medians["best"]
        found["of"][row["case"]] = {"values": values, "medians": medians, "share_of_best": share}
        print(f"predict, {row['case']}: {medians}", flush=True)
    return found


def inside(options: argparse.Namespace) -> int:
    """Carry out the cases in the allocation."""
    os.environ.update(SLEEPY)
    bed = Bed(options.bed)
    scratch = options.scratch.absolute()
    groups = scratch / "groups.json"
    groups.write_text(json.dumps(settled(bed.ceph)))
    folder = bed.shared / "bed-benchmark"
    folder.mkdir(exist_ok=True)
    layout = f"stripe_unit=4194304 stripe_count=1 object_size={OBJECT_SIZE}"
    os.setxattr(folder, "ceph.dir.layout", layout.encode())
    rows = json.loads(options.out.read_text())["cases"] if options.out.exists() else []
    for name in options.cases.split(";"):
        slowed = "slowed" in name
        bed.ceph.throttle(3, SLOW if slowed else RATE)
        try:
            row = (predicted if name == "predict" else partial(study, name))(options, folder, groups, scratch)
        finally:
            bed.ceph.throttle(3, RATE)
        rows = [old for old in rows if old["case"] != name] + [row]
        about = {"machine": f"{os.cpu_count()} cores, shared", "osd_mb_per_second": RATE, "slow": SLOW}
        options.out.write_text(json.dumps({**about, "cases": rows}, indent=1) + "\n")
        if name == "predict":
            continue
        print(
            f"{name}: default {row['median_default']:.1f}, tune {row['median_tune']:.1f}, best "
            f"{row['median_best_of_sweep']:.1f} MiB/s: {row['share_of_best']:.1%}; {row['found']}",
            flush=True,
        )
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", required=True, help="stripewise-kernel")
    parser.add_argument("--bed", type=Path, default=Path("/var/tmp/stripewise-testbed"))
    parser.add_argument("--cases", default=";".join([*CASES, "predict"]), help="divided by semicolons")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", type=int, default=128, help="MiB a run writes")
    parser.add_argument("--budget", type=int, default=40, help="launches of tune")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp/stripewise-bed-benchmark"))
    parser.add_argument("--out", type=Path, default=HERE / "bed.json")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options)
    options.scratch.mkdir(parents=True, exist_ok=True)
    call = [sys.executable, "-m", "benchmarks.runtime.bed", *sys.argv[1:], "--inside"]
    script = options.scratch / "allocation.sh"
    log = options.scratch / "bed.log"
    script.write_text(f"#!/bin/bash\ncd {shlex.quote(str(ROOT))} && exec {shlex.join(call)}\n")
    words = ["--wait", "--nodes=4", "--ntasks-per-node=2", "--exclusive", "--time=60", f"--output={log}", str(script)]
    environment = {**os.environ, **Bed(options.bed).environment}
    done = subprocess.run(["sbatch", *words], env=environment, check=False)
    print(log.read_text() if log.exists() else "no log")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
