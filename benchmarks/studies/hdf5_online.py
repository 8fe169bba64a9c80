"""Study 004's online tuner where a setting of HDF5 is clearly better than the default: chunk cache and metadata.

The programs, their exhaustive sweeps and the turns are those of ``benchmarks.runtime.hdf5_choices``. A model of the
other programs of the family knows neither the program nor its sizes. Beside mode online, two ways decide before the
first checkpoint: mode predict, and `prescribe` from one observed run.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.runtime import hdf5_choices as choices
from benchmarks.studies.steps import Study, StudyError, stripewise

STORAGES: dict[str, tuple[int, tuple[str, ...]]] = {
    "memory": (0, ("tables-2x24576", "tables-4x24576", "tables-2x81920")),
    "slow requests": (500, ("alone-16x1024", "alone-40x1024")),
}
"""Microseconds that each request waits, simulated, and the programs that are tuned while they run."""
MPICC = "mpicc.openmpi"


def programs() -> dict[str, choices.Program]:
    """The family by name."""
    return {program.name: program for program in choices.PROGRAMS}


def real(study: Study) -> None:
    """Sweep the family on each storage; then default, best and what a model decides take turns."""
    if shutil.which(MPICC) is None:
        raise StudyError(f"{MPICC} is missing: apt-get install libopenmpi-dev libhdf5-openmpi-dev")
    options = argparse.Namespace(
        library=Path(stripewise("site", "native", "build", "--mpicc", shutil.which(MPICC))["library"]),
        mpicc=MPICC, mpiexec=choices.LAUNCHER + ("" if os.geteuid() else " --allow-run-as-root"),
        repeats=study.size(6, 2), phases=study.size(60, 4), rounds=study.size(5, 1),
    )  # fmt: skip
    memory = Path("/dev/shm")
    for storage, (latency, names) in study.size(STORAGES, {"memory": (0, ("tables-2x24576",))}).items():
        build = study.work / f"hdf5-{storage.replace(' ', '-')}"
        build.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
            options.latency = latency
            bench = choices.Bench(options, build, Path(folder))
            sweeps = study.step(
                f"hdf5 sweeps, {storage}",
                lambda bench=bench: swept(bench),
                "measured",
                latency=latency, sweeps=choices.SWEEPS, programs=list(programs()), repeats=options.repeats,
            )  # fmt: skip
            known = {one: choices.measured_before(sweeps, one) for one in programs().values()}
            for name in names:
                study.step(
                    f"hdf5 online, {storage}, {name}",
                    lambda bench=bench, name=name, known=known: turns(bench, known, programs()[name]),
                    "measured",
                    latency=latency, phases=options.phases, rounds=options.rounds, seed=0,
                )  # fmt: skip


def swept(bench: choices.Bench) -> dict[str, list[dict[str, Any]]]:
    """Seconds of every setting of every program, in random order within one launch of each."""
    shuffle = random.Random(0)
    return {
        name: [
            {"settings": choices.lines(settings), "seconds": [round(second, 6) for second in seconds]}
            for settings, seconds in bench.sweep(program, shuffle)
        ]
        for name, program in programs().items()
    }


def turns(
    bench: choices.Bench,
    known: Mapping[choices.Program, list[tuple[choices.Settings, list[float]]]],
    program: choices.Program,
) -> dict[str, Any]:
    """Leave a program out of the model; observe one run of it; then all ways take turns."""
    artifact, model = bench.build / f"{program.name}.swm", bench.build / f"{program.name}.model"
    fitted = choices.trained({other: own for other, own in known.items() if other != program}, artifact)
    fitted.save(model)
    bench.run(program, 1, STRIPEWISE_MODE="observe")
    told = stripewise("prescribe", model, "--from", bench.build / "report")
    phases = bench.options.phases
    found = choices.rounds(
        bench, known[program], program, random.Random(0),
        {
            "predict": lambda: bench.inside(program, artifact, "predict", phases),
            "observed": lambda: bench.planned(program, [told["settings"]] * phases),
        },
    )  # fmt: skip
    return found | {
        "phases": phases,
        "prescribed": choices.lines(told["settings"]),
        "at_random": at_random(known[program]),
    }


def at_random(swept_settings: Sequence[tuple[Any, Sequence[float]]]) -> float:
    """Time of a setting that is drawn from the sweep, over that of the best: the mean over all settings."""
    medians = [statistics.median(seconds) for _, seconds in swept_settings]
    return statistics.mean(medians) / min(medians)
