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
RANKS = 2
"""On one node: where several clients write one file CephFS takes their caches away, and then the cores of this machine,
on which all nodes and OSDs live, are slower than the OSDs may be."""
SIZE, PIECE = 64 * MIB, 64 * KIB
"""Of the program's checkpoint; no campaign has measured them."""
TUNABLES: dict[str, list[Any]] = {
    "cephfs_stripe_count": [1, 2, 4],
    "cephfs_stripe_unit": [MIB, 4 * MIB],
    "romio_cb_write": ["automatic", "disable"],
}
STACKS = ["cephfs", "romio"]
CAMPAIGN_FILE = "campaign"


def campaign(kernel: str, site: Site, *, quick: bool) -> dict[str, Any]:
    """What the site is known by: other sizes than the program's."""
    from benchmarks.studies.on_bed import LAUNCHER  # noqa: PLC0415  of the system tests

    return {
        "name": "bed",
        "executable": kernel,
        "launcher": LAUNCHER,
        "stacks": STACKS,
        # After the campaign has made the file with its layout.
        "setup": [site.placing(CAMPAIGN_FILE)],
        "files": {"name": CAMPAIGN_FILE},
        "operations": ["write"],
        "repeats": 1 if quick else 2,
        "timeout": 120,
        "workload": [
            {"name": "nodes", "values": [1]},
            {"name": "processes_per_node", "values": [RANKS]},
            {"name": "file_size", "values": [32 * MIB] if quick else [32 * MIB, 128 * MIB]},
            {"name": "layout", "values": ["strided"]},
            {"name": "transfer_size", "values": [16 * MIB]},
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
        "operation": "write", "nodes": 1, "processes_per_node": RANKS, "file_size": SIZE, "layout": "strided",
        "transfer_size": SIZE // RANKS, "piece_size": PIECE, "collective": True, "api": "mpiio", "file_system": "ceph",
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
        "batch": {"jobs": 1, "nodes": 1},
        "hooks": {"delete": [str(site.folder / "chk*")], "before": [site.placing("chk")]},
        "parameters": {name: {"values": values} for name, values in TUNABLES.items()}
        | {name: {"exclude": True} for name in _others()},
        **({} if model is None else {"model": str(model)}),
    }


def _others() -> list[str]:
    from stripewise.catalogue.stack import load_stack  # noqa: PLC0415  loads the engine

    return [p.name for stack in STACKS for p in load_stack(stack).parameters if p.name not in TUNABLES]


def command(program: Path, site: Site, phases: int) -> list[str]:
    """The program's launch."""
    launch = ["srun", "--mpi=pmi2", "-N", "1", "-n", str(RANKS)]
    pieces = SIZE // RANKS // PIECE
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
    rounds, phases, runs = study.size(5, 1), study.size(40, 4), study.size(6, 3)
    from benchmarks.studies.on_bed import MPICC  # noqa: PLC0415  of the system tests

    native = stripewise("site", "native", "build", "--mpicc", MPICC)
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
    plan = write_toml(study.work / "bed-campaign.toml", campaign(kernel, site, quick=study.quick))
    journal = study.work / "bed-journal"
    told = site.stripewise(
        "site", "profile", plan, "--folder", site.folder, "--journal", journal, "--out", table, "--yes"
    )
    stripewise("site", "train", table, "--model", "boosting" if study.quick else "auto", "--out", model)
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
        # Six runs prove nothing, so the default is kept as best; what looked better is the candidate.
        chosen = (told["candidate"] or told["best"])["configuration"]
        found[name] = {parameter: value for parameter, value in chosen.items() if parameter in TUNABLES}
    return {"predicted_speedup": prescribed["speedup"], "of": found}


def plan_of(configuration: Mapping[str, Any]) -> str:
    """A plan with settings by name."""
    from stripewise.catalogue.carriers import Setting  # noqa: PLC0415  loads the engine
    from stripewise.catalogue.plan import Plan, spell  # noqa: PLC0415
    from stripewise.catalogue.stack import load_stack  # noqa: PLC0415

    known = {p.name: p for stack in STACKS for p in load_stack(stack).parameters}
    lines = tuple(
        Setting(known[name].carrier, known[name].setting, spell(value), known[name].layer)
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
    arms["predicted at open"] = ["STRIPEWISE_MODE=predict", f"STRIPEWISE_MODEL={artifact}"]
    shuffle = random.Random(0)
    order = [name for _ in range(rounds) for name in shuffle.sample(list(arms), len(arms))]
    found: dict[str, list[float]] = {name: [] for name in arms}
    checkpoints = study.size(3, 2)
    for name, text in zip(
        order, _runs(site, program, library, [arms[name] for name in order], checkpoints), strict=True
    ):
        # The first checkpoint of a run also finds its way to the servers.
        found[name] += _bandwidths(text)[1:]
    learning = ["STRIPEWISE_MODE=online", f"STRIPEWISE_MODEL={artifact}"]
    # The default before and after: what the machine does besides is then the same for both.
    turns = [arms["default"], learning, arms["default"]]
    before, online, after = _runs(site, program, library, turns, phases)
    return {
        "rounds": rounds,
        "values": found,
        "medians": {name: statistics.median(values) for name, values in found.items()},
        "phases": {"default": [*_bandwidths(before), *_bandwidths(after)], "online": _bandwidths(online)},
    }


def _runs(site: Site, program: Path, library: str, environments: list[list[str]], phases: int) -> list[str]:
    """What the program prints, run after run, in one job."""
    launch = command(program, site, phases)
    place = launch.index(str(program))
    files = [f"chk.{number:04d}" for number in range(phases)]
    lines = []
    for words in environments:
        whole = [*launch[:place], "env", f"LD_PRELOAD={library}", *words, *launch[place:]]
        lines += [site.placing(*files), "echo run", shlex.join(whole), f"rm -f {shlex.quote(str(site.folder))}/chk*"]
    return site.job(lines).split("run\n")[1:]


def _bandwidths(text: str) -> list[float]:
    """MiB/s of each checkpoint."""
    return [SIZE / MIB / float(seconds) for seconds in re.findall(r"^phase \d+ ([0-9.]+)$", text, re.M)]


def stages(told: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Stages of the chain, for table and figure: name, MiB/s, and the default's of the same minutes.

    Online is judged by the second half of its checkpoints, against runs of the default before and after it.
    """
    default = told["medians"]["default"]
    settled = told["phases"]["online"][len(told["phases"]["online"]) // 2 :]
    beside = statistics.median(told["phases"]["default"])
    rows = [(name, value, default) for name, value in told["medians"].items()]
    return [*rows, ("online, after it has settled", statistics.median(settled), beside)]
