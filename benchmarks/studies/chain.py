# ruff: noqa: E501  texts of the page
"""The whole chain with a real program on the test bed: profile, model, prescription, search, runtime, online learning."""

from __future__ import annotations

import random
import re
import shlex
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.studies import interfaces
from benchmarks.studies.steps import Study, stripewise, write_toml

if TYPE_CHECKING:
    from benchmarks.studies.on_bed import Site

KIB, MIB = 1 << 10, 1 << 20
NODES = 4
SIZE, PIECE = 32 * MIB, 64 * KIB
"""Of the program's checkpoint; no campaign has measured them."""
TUNABLES: dict[str, list[Any]] = {
    "cephfs_stripe_count": [1, 2, 4],
    "cephfs_stripe_unit": [MIB, 4 * MIB],
    "romio_cb_write": ["enable", "disable"],
}
STACKS = ["cephfs", "romio"]


def campaign(kernel: str, *, quick: bool) -> dict[str, Any]:
    """What the site is known by: other sizes than the program's."""
    from benchmarks.studies.on_bed import LAUNCHER  # noqa: PLC0415  of the system tests

    return {
        "name": "bed",
        "executable": kernel,
        "launcher": LAUNCHER,
        "stacks": STACKS,
        "operations": ["write"],
        "repeats": 1 if quick else 3,
        "timeout": 120,
        "workload": [
            {"name": "nodes", "values": [4] if quick else [1, 4]},
            {"name": "file_size", "values": [16 * MIB] if quick else [16 * MIB, 64 * MIB]},
            {"name": "layout", "values": ["strided"]},
            {"name": "transfer_size", "values": [4 * MIB]},
            {"name": "piece_size", "values": [16 * KIB] if quick else [16 * KIB, 256 * KIB]},
            {"name": "collective", "values": [True]},
        ],
        "tunable": [
            {"name": name, "values": values[-2:] if quick else values} for name, values in TUNABLES.items()
        ],
    }  # fmt: skip


def workload() -> dict[str, Any]:
    """The program as its user would declare it."""
    return {
        "operation": "write", "nodes": NODES, "processes_per_node": 1, "file_size": SIZE, "layout": "strided",
        "transfer_size": SIZE // NODES, "piece_size": PIECE, "collective": True, "api": "mpiio", "file_system": "ceph",
    }  # fmt: skip


def experiment(program: Path, site: Site, runs: int, model: Path | None) -> dict[str, Any]:
    """The search: so many runs of the program, the default's included."""
    return {
        "name": "checkpoint",
        "command": shlex.join(command(program, site, 1)),
        "runner": "steps",
        "stacks": STACKS,
        "objective": {"name": r"regex:bandwidth: ([0-9.]+) MiB/s", "direction": "maximize", "unit": "MiB/s"},
        "budget": {"runs": runs},
        "warmup": 0,
        "timeout": 120,
        "workload": workload(),
        "confirmation": {"pairs": 0},
        "batch": {"jobs": 1, "nodes": NODES},
        "hooks": {"delete": [str(site.folder / "chk*")]},
        "parameters": {name: {"values": values} for name, values in TUNABLES.items()}
        | {name: {"exclude": True} for name in _others()},
        **({} if model is None else {"model": str(model)}),
    }


def _others() -> list[str]:
    from stripewise.spec.stack import load_stack  # noqa: PLC0415  loads the engine

    return [p.name for stack in STACKS for p in load_stack(stack).parameters if p.name not in TUNABLES]


def command(program: Path, site: Site, phases: int) -> list[str]:
    """The program's launch."""
    launch = ["srun", "--mpi=pmi2", "-N", str(NODES), "-n", str(NODES)]
    pieces = SIZE // NODES // PIECE
    return [
        *launch,
        str(program),
        "mpiio",
        "write",
        str(site.folder / "chk"),
        str(PIECE),
        str(pieces),
        str(phases),
    ]


def on_bed(study: Study, site: Site) -> None:
    """Every link of the chain, each from the one before."""
    rounds, phases, runs = study.size(5, 1), study.size(40, 10), study.size(6, 4)
    from benchmarks.studies.on_bed import MPICC  # noqa: PLC0415  of the system tests

    native = stripewise("native", "build", "--mpicc", MPICC)
    program = interfaces.built(study.work, MPICC, hdf5=False)
    table, model = study.work / "bed", study.work / "bed.model"
    study.step(
        "bed campaign",
        lambda: _learned(study, site, native["kernel"], table, model),
        "measured",
        (model,),
        tunables=TUNABLES,
    )
    told = study.step(
        "bed settings",
        lambda: _settings(study, site, program, model, runs),
        "measured",
        runs=runs, workload=workload(), seed=0,
    )  # fmt: skip
    study.step(
        "bed comparison",
        lambda: _compared(study, site, program, native["library"], model, told, rounds, phases),
        "measured",
        rounds=rounds, phases=phases, settings=told,
    )  # fmt: skip


def _learned(study: Study, site: Site, kernel: str, table: Path, model: Path) -> dict[str, Any]:
    plan = write_toml(study.work / "bed-campaign.toml", campaign(kernel, quick=study.quick))
    journal = study.work / "bed-journal"
    told = site.stripewise("profile", plan, "--folder", site.folder, "--journal", journal, "--out", table, "--yes")
    stripewise("train", table, "--model", "boosting" if study.quick else "auto", "--out", model)
    return {key: told[key] for key in ("configurations", "runs", "repeats")}


def _settings(study: Study, site: Site, program: Path, model: Path, runs: int) -> dict[str, Any]:
    """Settings by name of stage: with no run from the model, and after a search with and without it."""
    declared = write_toml(study.work / "bed-workload.toml", {"workload": workload()})
    prescribed = stripewise("prescribe", model, "--workload", declared)
    found = {"prescribed": {name: v for name, v in prescribed["settings"].items() if name in TUNABLES}}
    for name, prior in (("searched with the model", model), ("searched without", None)):
        file = write_toml(study.work / "bed-experiment.toml", experiment(program, site, runs, prior))
        store = f"sqlite:///{study.work / 'bed.db'}"
        scratch = study.work / "bed-runs"
        told = site.stripewise("tune", file, "--store", store, "--scratch", scratch, "--seed", 0, "--yes")
        found[name] = told["best"]["configuration"]
    return {"predicted_speedup": prescribed["speedup"], "of": found}


def plan_of(configuration: Mapping[str, Any]) -> str:
    """A plan with settings by name."""
    from stripewise.spec.plan import Plan, Setting, spell  # noqa: PLC0415  loads the engine
    from stripewise.spec.stack import load_stack  # noqa: PLC0415

    known = {p.name: p for stack in STACKS for p in load_stack(stack).parameters}
    lines = tuple(
        Setting(known[name].apply, known[name].setting, spell(value), known[name].layer)
        for name, value in configuration.items()
    )
    return Plan(lines, "study", override=True).text()


def _compared(
    study: Study, site: Site, program: Path, library: str, model: Path, told: Mapping[str, Any], rounds: int, phases: int
) -> dict[str, Any]:  # fmt: skip
    """Every stage's settings under the runtime in turns, and a program of many checkpoints that learns by itself."""
    artifact = study.work / "bed.swm"
    stripewise("prescribe", model, "--artifact", artifact)
    arms: dict[str, list[str]] = {}
    for name, configuration in {"default": {}, **told["of"]}.items():
        plan = study.work / f"bed-{name.replace(' ', '-')}.plan"
        plan.write_text(plan_of(configuration), "utf-8")
        arms[name] = ["STRIPEWISE_MODE=apply", f"STRIPEWISE_PLAN={plan}"]
    # All nodes of the bed have one name, by which the runtime would count one node.
    known = f"STRIPEWISE_WORKLOAD=nodes={NODES}"
    arms["predicted at open"] = ["STRIPEWISE_MODE=predict", f"STRIPEWISE_MODEL={artifact}", known]
    shuffle = random.Random(0)
    order = [name for _ in range(rounds) for name in shuffle.sample(list(arms), len(arms))]
    found: dict[str, list[float]] = {name: [] for name in arms}
    for name, text in zip(order, _runs(site, program, library, [arms[name] for name in order], 3), strict=True):
        # The first checkpoint of a run also finds its way to the servers.
        found[name] += _bandwidths(text)[1:]
    learning = ["STRIPEWISE_MODE=online", f"STRIPEWISE_MODEL={artifact}", known]
    default, online = _runs(site, program, library, [arms["default"], learning], phases)
    return {
        "rounds": rounds,
        "values": found,
        "medians": {name: statistics.median(values) for name, values in found.items()},
        "phases": {"default": _bandwidths(default), "online": _bandwidths(online)},
    }


def _runs(site: Site, program: Path, library: str, environments: list[list[str]], phases: int) -> list[str]:
    """What the program prints, run after run, in one job."""
    launch = command(program, site, phases)
    place = launch.index(str(program))
    lines = []
    for words in environments:
        whole = [*launch[:place], "env", f"LD_PRELOAD={library}", *words, *launch[place:]]
        lines += ["echo run", shlex.join(whole), f"rm -f {shlex.quote(str(site.folder))}/chk*"]
    return site.job(lines).split("run\n")[1:]


def _bandwidths(text: str) -> list[float]:
    """MiB/s of each checkpoint."""
    return [SIZE / MIB / float(seconds) for seconds in re.findall(r"^phase \d+ ([0-9.]+)$", text, re.M)]


def stages(told: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Stages of the chain and what they are worth, for table and figure; online by the second half of its checkpoints."""
    rows = list(told["medians"].items())
    settled = told["phases"]["online"][len(told["phases"]["online"]) // 2 :]
    return [*rows, ("online, after it has settled", statistics.median(settled))]
