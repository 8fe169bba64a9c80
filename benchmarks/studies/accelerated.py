"""Study 002 for real on slow storage: programs of every class tuned with the product's accelerator, by two searches.

The storage is a loop device with ext4 on which the control group of the runs may make so many reads a second, so that
each read waits as it does on a busy file system.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.slow_disk import SlowDisk, slow_disk
from benchmarks.studies.steps import ROOT, Study, StudyError

EXAMPLE = ROOT / "examples" / "accelerator"
sys.path.insert(0, str(EXAMPLE))

import programs  # noqa: E402  from examples/accelerator
import simulation  # noqa: E402

MIB = 1 << 20
READS, BANDWIDTH = 500, 500 * 10**6
"""Of the device: reads and bytes per second."""
OPERATIONS, FILE_SIZE = 500, 256 * MIB
"""At most, of a program's: so that a run without accelerator takes about a second."""
SEARCHES = {"genetic": ("--sampler", "shaman", "--sampler-option", "initial=8"), "auto": ("--sampler", "auto")}
"""The study's genetic search, its plan of 30 of 100 runs cut in proportion to the budget, and ours."""
DEFAULT = {"cluster_threshold": 2, "binsize": MIB, "sequence_length": 100, "prefetch_size": 20 * MIB}
"""The study's default settings; the stack's own default is off."""
KEPT = ("default", "best", "candidate", "speedup", "speedup_ci95", "confirmed", "runs", "seconds")


def _call(*words: str | Path, disk: SlowDisk | None = None, **more: str) -> str:
    command = list(map(str, words))
    if disk is not None:
        command = disk.command(command)
    done = subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StudyError(f"{' '.join(map(str, words))} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def reduced(program: programs.Program) -> programs.Program:
    """A program with fewer operations on a smaller file; the sizes and places of its reads follow the same laws."""
    return dataclasses.replace(
        program, operations=min(program.operations, OPERATIONS), file_size=min(program.file_size, FILE_SIZE)
    )


def measured(study: Study, each: int, budget: int) -> None:
    """Tune programs, the first of every class before the second of any; a step for each."""
    built = simulation.build(study.work / "accelerator")
    members = programs.programs(0, each)
    asked = [(name, number, reduced(members[name][number])) for number in range(each) for name in members]
    with contextlib.ExitStack() as stack:
        disk = enter_disk(stack, study, 1 << 30)
        if disk is None:
            return
        for name, number, program in asked:
            study.step(
                f"slow disk {name} {number}",
                lambda program=program: _tuned(study.work, built, disk, program, budget),
                "measured",
                program=program.arguments, budget=budget, reads=READS, bandwidth=BANDWIDTH,
            )  # fmt: skip


def enter_disk(stack: contextlib.ExitStack, study: Study, size: int) -> SlowDisk | None:
    """Give the slow disk until the stack ends; None, with the reason on standard error, where there can be none."""
    limits = {"read_iops": READS, "read_bps": BANDWIDTH, "write_bps": BANDWIDTH}
    try:
        return stack.enter_context(slow_disk(study.work, limits, size=size))
    except PermissionError as error:
        print(f"{study.name}: {error}, so its part on slow storage is left out", file=sys.stderr)
        return None


def _tuned(work: Path, built: Path, disk: SlowDisk, program: programs.Program, budget: int) -> dict[str, Any]:
    file = disk.folder / "data"
    command = [str(built / "synthetic"), str(file), *program.arguments]
    file.unlink(missing_ok=True)
    # The first run makes the file.
    subprocess.run(command, check=True, capture_output=True)
    found: dict[str, Any] = {"program": program.arguments}
    settings: list[Mapping[str, int] | None] = [None, DEFAULT]
    for name, words in SEARCHES.items():
        scratch = work / "slow-runs"
        shutil.rmtree(scratch, ignore_errors=True)
        told = json.loads(
            _call(
                sys.executable, "-m", "stripewise", "tune", "--stack", "accelerator", "--budget", str(budget),
                "--objective", "regex:seconds: ([0-9.]+)", "--direction", "minimize", "--seed", "0", *words,
                "--store", f"sqlite:///{work / 'slow.db'}", "--scratch", scratch, "--json", "--yes", "--", *command,
                disk=disk, STRIPEWISE_SOLE_WRITER="1",
            )
        )  # fmt: skip
        found[name] = {key: told[key] for key in KEPT}
        best = told["best"]["configuration"]
        settings.append({key: value for key, value in best.items() if value is not None})
    # What is compared ran in turns, three times each.
    turns = [_run(work, command, disk, one) for _ in range(3) for one in settings]
    names = ("off", "default", *SEARCHES)
    found["seconds"] = {name: [run[0] for run in turns[place :: len(names)]] for place, name in enumerate(names)}
    found["exact"] = len({run[1] for run in turns}) == 1
    found["load_average"] = round(os.getloadavg()[0], 1)
    return found


def _run(work: Path, command: list[str], disk: SlowDisk, settings: Mapping[str, int] | None) -> tuple[float, str]:
    """Seconds and digest of a run."""
    from stripewise.runners.native.build import accelerator_for  # noqa: PLC0415  loads the engine

    more = {}
    if settings:
        words = ",".join(f"{name}={value}" for name, value in settings.items())
        more = {"LD_PRELOAD": str(accelerator_for(os.environ)), "STRIPEWISE_POSIX": words}
    parts = work / "slow-parts"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir()
    text = _call(*command, disk=disk, STRIPEWISE_SOLE_WRITER="1", STRIPEWISE_PROCESSES=f"{parts}/process-", **more)
    seconds, digest = re.findall(r"seconds: ([0-9.]+)\ndigest: (\w+)", text)[0]
    return float(seconds), digest
