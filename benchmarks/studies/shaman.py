"""Study 002: an accelerator of small reads tuned for ninety synthetic programs in nine classes.

The accelerator, its stack file and the programs are those of ``examples/accelerator``. The ninety searches run on a
replay of the programs over a modelled storage, in which the accelerator's own code decides; one program of each class
also runs for real.
"""

from __future__ import annotations

import dataclasses
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


SERVED = "read09_small"
"""The class that is tuned through the service."""
SERVED_PARTS = ((0, 3), (3, 5), (5, 7), (7, 10))
"""Programs of it that one step tunes."""
SLOW_BUDGET = 24
"""Launches of a search on slow storage."""
PARTS = ((0, 2), (2, 4), (4, 7), (7, 10))
"""Programs of a class that one step tunes: all classes have had their first ones before any has its last."""


def simulated(study: Study) -> None:
    """Ninety programs: genetic search and ``auto``, against no accelerator and its default settings."""
    study.step("size of the space", grids, "computed")
    library = simulation.build(study.work / "accelerator") / "libreplay.so"
    classes = programs.programs(0, PARTS[-1][1])
    storage = simulation.Storage()
    runs = study.size((GENETIC_RUNS, AUTO_RUNS), (32, 10))
    few = study.size(PARTS[-1][1], 1)
    for name in study.size(list(classes), list(classes)[-1:]):
        study.step(
            f"random search of {name}",
            lambda members=classes[name][:few]: [
                _random(library, member, storage, runs[1]) for member in members
            ],
            "simulated",
            seed=0, storage=vars(storage), runs=runs[1],
        )  # fmt: skip
    for first, end in study.size(PARTS, ((0, 1),)):
        for name in study.size(list(classes), list(classes)[-1:]):
            study.step(
                f"{name} {first}-{end - 1}",
                lambda members=classes[name][first:end]: [_tuned(library, m, storage, *runs) for m in members],
                "simulated",
                seed=0, programs=[first, end], storage=vars(storage), runs=runs,
            )  # fmt: skip


def _space() -> Any:
    from stripewise.catalogue.space import Space  # noqa: PLC0415  loads the engine
    from stripewise.catalogue.stack import load_stack  # noqa: PLC0415

    stack = load_stack(str(STACK))
    return Space.bind(stack.parameters, stack.constraints, stack.derived, {}, stack.knowledge)


def _tuned(
    library: Path, program: programs.Program, storage: simulation.Storage, genetic_runs: int, auto_runs: int
) -> dict[str, Any]:
    from benchmarks.studies.searches import play  # noqa: PLC0415  loads the engine
    from stripewise.requests.objective import Objective  # noqa: PLC0415

    space = _space()
    quiet = simulation.Replay(library, program, storage)
    found: dict[str, Any] = {
        "program": program.arguments,
        "reference": quiet.exact(None),
        "default": quiet.exact(space.default),
    }
    for name, sampler, runs in (("genetic", "shaman", genetic_runs), ("auto", "auto", auto_runs)):
        trace = play(
            space, Objective("seconds", "minimize", "s"), simulation.Replay(library, program, storage), quiet.exact,
            sampler=sampler, runs=runs, seed=program.seed,
        )  # fmt: skip
        found[name] = {
            "seconds": trace.final,
            "configuration": dict(trace.chosen),
            "runs": len(trace.seen),
            "best_run": trace.seen.index(min(trace.seen)) + 1,
        }
    return found


def _random(library: Path, program: programs.Program, storage: simulation.Storage, runs: int) -> dict[str, Any]:
    """What random choices find, for comparison."""
    from benchmarks.studies.searches import play  # noqa: PLC0415  loads the engine
    from stripewise.requests.objective import Objective  # noqa: PLC0415

    quiet = simulation.Replay(library, program, storage)
    trace = play(
        _space(), Objective("seconds", "minimize", "s"), simulation.Replay(library, program, storage), quiet.exact,
        sampler="random", runs=runs, seed=program.seed,
    )  # fmt: skip
    return {"reference": quiet.exact(None), "random": {"seconds": trace.final}}


def random_by_class(steps: Mapping[str, Any]) -> dict[str, float]:
    """Median of the time that random choices save, by class."""
    start = "random search of "
    return {
        name.removeprefix(start): statistics.median(speedup(entry, "random") for entry in step["result"])
        for name, step in steps.items()
        if name.startswith(start)
    }


def speedup(entry: Mapping[str, Any], name: str) -> float:
    """The study's measure: time saved, in percent of the time without the accelerator."""
    seconds = entry["default"] if name == "default" else entry[name]["seconds"]
    return 100.0 * (entry["reference"] - seconds) / entry["reference"]


def _by_class(steps: Mapping[str, Any]) -> dict[str, list[Any]]:
    classes: dict[str, list[Any]] = {}
    for name, step in steps.items():
        known = re.fullmatch(r"(read\d\d_\w+) \d+-\d+", name)
        if known:
            classes.setdefault(known[1], []).extend(step["result"])
    return classes


def against(steps: Mapping[str, Any]) -> tuple[float, int, int]:
    """Time found by ``auto`` over the genetic search's (geometric mean), programs without a longer time, and all."""
    ratios = [e["auto"]["seconds"] / e["genetic"]["seconds"] for members in _by_class(steps).values() for e in members]
    return statistics.geometric_mean(ratios), sum(ratio <= 1 for ratio in ratios), len(ratios)


def by_class(steps: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Medians of each class, and of all programs."""
    classes = _by_class(steps)
    if not classes:
        return {}
    whole = [entry for members in classes.values() for entry in members]
    return {name: _medians(members) for name, members in {**classes, "all": whole}.items()}


def _medians(members: list[Any]) -> dict[str, float]:
    found = {
        which: statistics.median(speedup(entry, which) for entry in members) for which in ("default", "genetic", "auto")
    }
    for which in ("genetic", "auto"):
        found[f"runs to the best, {which}"] = statistics.median(entry[which]["best_run"] for entry in members)
    return {**found, "programs": len(members)}


def real(study: Study) -> None:
    """Tune one program of each class for real, with the library preloaded."""
    built = simulation.build(study.work / "accelerator")
    classes = {name: members[0] for name, members in programs.programs(0, 1).items()}
    if study.quick:
        classes = {SERVED: dataclasses.replace(classes[SERVED], file_size=64 << 20, operations=500)}
    budget = study.size(40, 6)
    for name, program in classes.items():
        study.step(
            f"real {name}",
            lambda program=program: _real(study, built, program, budget),
            "measured",
            program=program.arguments, budget=budget,
        )  # fmt: skip


def _real(study: Study, built: Path, program: programs.Program, budget: int) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp(prefix="accelerator-", dir=study.work))
    try:
        arguments = [str(folder / "data"), *program.arguments]
        return _on_disk(study, built, folder, arguments, budget)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _on_disk(study: Study, built: Path, folder: Path, arguments: list[str], budget: int) -> dict[str, Any]:
    stack = _stack(folder, built)
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


def _stack(folder: Path, built: Path) -> Path:
    """The stack file with the place of the library."""
    stack = folder / "smallread.toml"
    stack.write_text(STACK.read_text("utf-8").replace("examples/accelerator/build", str(built)), "utf-8")
    return stack


def bed(study: Study, site: Any) -> None:
    """Tune programs of one class through the service, as jobs of the test bed's Slurm."""
    from benchmarks.studies import service  # noqa: PLC0415  of the system tests

    built = simulation.build(study.work / "accelerator")
    budget = study.size(24, 6)
    for first, end in study.size(SERVED_PARTS, ((0, 1),)):
        members = programs.programs(0, end)[SERVED][first:]
        study.step(
            f"service {SERVED}" + (f" {first}-{end - 1}" if first else ""),
            lambda members=members, first=first: service.tuned(
                site, study.work, built, _stack(study.work, built), members, budget, first
            ),
            "measured",
            programs=[member.arguments for member in members], budget=budget,
        )  # fmt: skip


def disk(study: Study) -> None:
    """Tune programs with the product's accelerator on slow storage: hours, so it goes on where it was."""
    from benchmarks.studies import accelerated, cached  # noqa: PLC0415  need root

    if not study.quick:
        cached.measured(study)
        accelerated.measured(study, PARTS[-1][1], SLOW_BUDGET)


def _exact(built: Path, arguments: list[str]) -> bool:
    """Whether the program reads the same with the accelerator as without."""

    def digest(**more: str) -> str:
        done = subprocess.run([built / "synthetic", *arguments], env=more, check=True, capture_output=True, text=True)
        return done.stdout.split("digest: ")[1].strip()

    preload = str(built / "libsmallread.so")
    return digest() == digest(LD_PRELOAD=preload) == digest(LD_PRELOAD=preload, SMALLREAD_CLUSTER_THRESHOLD="1")
