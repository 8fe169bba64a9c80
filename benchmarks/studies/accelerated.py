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
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
_BLKIO = Path("/sys/fs/cgroup/blkio")


@contextlib.contextmanager
def slow_disk(work: Path) -> Iterator[tuple[Path, Path]]:
    """Give a folder on the device, and the control group that is limited there.

    Raises
    ------
    StudyError
        Where this is not root, or control groups of version 1 are missing.
    """
    if os.geteuid() or not _BLKIO.is_dir():
        raise StudyError("a slow disk needs root, and blkio of control groups of version 1 below /sys/fs/cgroup")
    image, folder, group = work / "slow.img", work / "slow", _BLKIO / f"stripewise-study-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    with image.open("wb") as stream:
        stream.truncate(1 << 30)
    with contextlib.ExitStack() as undo:
        undo.callback(image.unlink)
        device = _call("losetup", "--direct-io=on", "-f", "--show", image).strip()
        undo.callback(_call, "losetup", "-d", device)
        _call("mkfs.ext4", "-q", device)
        _call("mount", device, folder)
        undo.callback(_call, "umount", folder)
        number = Path(device).stat().st_rdev
        group.mkdir()
        undo.callback(_removed, group)
        for name, limit in (("read_iops", READS), ("read_bps", BANDWIDTH), ("write_bps", BANDWIDTH)):
            (group / f"blkio.throttle.{name}_device").write_text(f"{os.major(number)}:{os.minor(number)} {limit}\n")
        yield folder, group


def _removed(group: Path) -> None:
    # The last process leaves its group a moment after it has ended.
    for _ in range(100):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.1)
    raise StudyError(f"processes are left in {group}")


def _call(*words: str | Path, group: Path | None = None, **more: str) -> str:
    command = list(map(str, words))
    if group is not None:
        command = ["sh", "-c", f'echo $$ > {group / "cgroup.procs"}; exec "$@"', "sh", *command]
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
    with slow_disk(study.work) as (folder, group):
        for name, number, program in asked:
            study.step(
                f"slow disk {name} {number}",
                lambda program=program: _tuned(study.work, built, folder, group, program, budget),
                "measured",
                program=program.arguments, budget=budget, reads=READS, bandwidth=BANDWIDTH,
            )  # fmt: skip


def _tuned(
    work: Path, built: Path, folder: Path, group: Path, program: programs.Program, budget: int
) -> dict[str, Any]:
    file = folder / "data"
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
                group=group, STRIPEWISE_SOLE_WRITER="1",
            )
        )  # fmt: skip
        found[name] = {key: told[key] for key in KEPT}
        best = told["best"]["configuration"]
        settings.append({key: value for key, value in best.items() if value is not None})
    # What is compared ran in turns, three times each.
    turns = [_run(work, command, group, one) for _ in range(3) for one in settings]
    names = ("off", "default", *SEARCHES)
    found["seconds"] = {name: [run[0] for run in turns[place :: len(names)]] for place, name in enumerate(names)}
    found["exact"] = len({run[1] for run in turns}) == 1
    return found


def _run(work: Path, command: list[str], group: Path, settings: Mapping[str, int] | None) -> tuple[float, str]:
    """Seconds and digest of a run."""
    from stripewise.runner.native.build import observer_for  # noqa: PLC0415  loads the engine

    more = {}
    if settings:
        words = ",".join(f"{name}={value}" for name, value in settings.items())
        more = {"LD_PRELOAD": str(observer_for(os.environ)), "STRIPEWISE_POSIX": words}
    parts = work / "slow-parts"
    shutil.rmtree(parts, ignore_errors=True)
    parts.mkdir()
    text = _call(*command, group=group, STRIPEWISE_SOLE_WRITER="1", STRIPEWISE_PROCESSES=f"{parts}/process-", **more)
    seconds, digest = re.findall(r"seconds: ([0-9.]+)\ndigest: (\w+)", text)[0]
    return float(seconds), digest
