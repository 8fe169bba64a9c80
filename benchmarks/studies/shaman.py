"""Study 002: an accelerator of small reads tuned for ninety synthetic programs in nine classes.

The accelerator, its stack file and the programs are those of ``examples/accelerator``. The ninety searches run on a
replay of the programs over a modelled storage, in which the accelerator's own code decides; one program of each class
also runs for real.
"""

from __future__ import annotations

import itertools
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.studies.steps import ROOT, Study, stripewise

EXAMPLE = ROOT / "examples" / "accelerator"
STACK = EXAMPLE / "smallread.toml"
GENETIC_RUNS, AUTO_RUNS = 100, 40
sys.path.insert(0, str(EXAMPLE))

import programs  # noqa: E402  from examples/accelerator
import simulation  # noqa: E402


def grids() -> dict[str, int]:
    """Sizes of the space of table 1 under its possible readings."""
    limits = {
        "threshold": (1, 15, 1), "bins": (1 << 20, 20 << 20, 1 << 19), "sequence": (50, 200, 20),
        "prefetch": (2 << 20, 40 << 20, 1 << 20),
    }  # fmt: skip

    def size(sequence_step: int, *, top: bool) -> int:
        count = 1
        for name, (low, high, step) in limits.items():
            width = sequence_step if name == "sequence" else step
            # A grid that stops short of the top value is what numpy.arange and range give.
            count *= (high - low) // width + 1 if top else len(range(low, high, width))
        return count

    return {
        "as printed, top values included": size(20, top=True),
        "sequence in steps of 5, top values included": size(5, top=True),
        "sequence in steps of 5, top values left out": size(5, top=False),
        "as printed, top values left out": size(20, top=False),
    }


def simulated(study: Study) -> None:
    """Ninety programs: genetic search and ``auto``, against no accelerator and its default settings."""
    each = study.size(10, 1)
    study.step("size of the space", grids, "computed")
    library = simulation.build(study.work / "accelerator") / "libreplay.so"
    classes = programs.programs(0, each)
    if study.quick:
        classes = dict(itertools.islice(classes.items(), 2))
    storage = simulation.Storage()
    for name, members in classes.items():
        study.step(
            name,
            lambda members=members: [
                _tuned(library, program, storage, study.size(GENETIC_RUNS, 32), study.size(AUTO_RUNS, 10))
                for program in members
            ],
            "simulated",
            seed=0, programs=each, storage=vars(storage), genetic=study.size(GENETIC_RUNS, 32),
            auto=study.size(AUTO_RUNS, 10),
        )  # fmt: skip


def _tuned(
    library: Path, program: programs.Program, storage: simulation.Storage, genetic_runs: int, auto_runs: int
) -> dict[str, Any]:
    import stripewise as sw  # noqa: PLC0415  loads the engine

    found: dict[str, Any] = {"program": program.arguments}
    for name, sampler, budget in (("genetic", "shaman", genetic_runs), ("auto", "auto", auto_runs)):
        replay = simulation.Replay(library, program, storage)
        tuned = sw.tune(replay, str(STACK), budget=budget, sampler=sampler, pairs=0, seed=program.seed, unit="s")
        chosen = (tuned.result["candidate"] or tuned.result["best"])["configuration"]
        whole = {**_default(), **chosen}
        runs = sorted(run.number for trial in tuned.trials for run in trial.runs)
        values = {run.number: run.value for trial in tuned.trials for run in trial.runs}
        best = min(runs, key=lambda number: values[number])
        found |= {"reference": replay.exact(None), "default": replay.exact(_default())}
        found[name] = {"seconds": replay.exact(whole), "configuration": whole, "runs": len(runs), "best_run": best + 1}
    return found


def _default() -> dict[str, int]:
    from stripewise.spec.stack import load_stack  # noqa: PLC0415

    return {parameter.name: int(parameter.default) for parameter in load_stack(str(STACK)).parameters}


def speedup(entry: Mapping[str, Any], name: str) -> float:
    """The study's measure: time saved, in percent of the time without the accelerator."""
    seconds = entry["default"] if name == "default" else entry[name]["seconds"]
    return 100.0 * (entry["reference"] - seconds) / entry["reference"]


def by_class(steps: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Medians of each class, and of all programs."""
    classes = {name: step["result"] for name, step in steps.items() if re.fullmatch(r"read\d\d_\w+", name)}
    whole = [entry for members in classes.values() for entry in members]
    return {
        name: {
            **{which: statistics.median(speedup(entry, which) for entry in members) for which in
               ("default", "genetic", "auto")},
            "runs to the best, genetic": statistics.median(entry["genetic"]["best_run"] for entry in members),
            "runs to the best, auto": statistics.median(entry["auto"]["best_run"] for entry in members),
            "programs": len(members),
        }
        for name, members in {**classes, "all": whole}.items()
    }  # fmt: skip


def real(study: Study) -> None:
    """Tune one program of each class for real, with the library preloaded."""
    built = simulation.build(study.work / "accelerator")
    classes = programs.programs(0, 1)
    chosen = study.size(list(classes), list(classes)[-1:])
    budget = study.size(40, 8)
    for name in chosen:
        study.step(
            f"real {name}",
            lambda name=name: _real(study, built, classes[name][0], budget),
            "measured",
            program=classes[name][0].arguments, budget=budget,
        )  # fmt: skip


def _real(study: Study, built: Path, program: programs.Program, budget: int) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="accelerator-", dir=study.work))
    try:
        arguments = [str(folder / "data"), *program.arguments]
        return _on_disk(study, built, folder, arguments, budget)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _on_disk(study: Study, built: Path, folder: Path, arguments: list[str], budget: int) -> dict[str, Any]:
    stack = folder / "smallread.toml"
    text = STACK.read_text("utf-8").replace("examples/accelerator/build", str(built))
    stack.write_text(text, "utf-8")
    # The first run makes the file.
    subprocess.run([built / "synthetic", *arguments], check=True, capture_output=True)
    found = stripewise(
        "tune", "--stack", stack, "--budget", budget, "--objective", "regex:seconds: ([0-9.]+)",
        "--direction", "minimize",
        "--seed", 0, "--store", f"sqlite:///{study.work / 'real.db'}", "--scratch", folder / "runs", "--",
        built / "synthetic", *arguments,
    )  # fmt: skip
    kept = ("reference", "default", "best", "speedup", "speedup_ci95", "confirmed", "runs", "seconds")
    return {key: found[key] for key in kept} | {"exact": _exact(built, arguments)}


def _exact(built: Path, arguments: list[str]) -> bool:
    """Whether the program reads the same with the accelerator as without."""

    def digest(**more: str) -> str:
        done = subprocess.run([built / "synthetic", *arguments], env=more, check=True, capture_output=True, text=True)
        return done.stdout.split("digest: ")[1].strip()

    preload = str(built / "libsmallread.so")
    return digest() == digest(LD_PRELOAD=preload) == digest(LD_PRELOAD=preload, SMALLREAD_CLUSTER_THRESHOLD="1")
