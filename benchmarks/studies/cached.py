"""Study 002 with a component that is not ours: rclone's mount over a slow disk, tuned for two patterns of reads.

rclone and fusermount3 are looked for on the path; Debian has both.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.slow_disk import SlowDisk
from benchmarks.studies.accelerated import BANDWIDTH, KEPT, READS, enter_disk
from benchmarks.studies.steps import ROOT, Study, StudyError, stripewise, write_toml

STACK = ROOT / "examples" / "rclone.toml"
MIB = 1 << 20
PATTERNS = {
    "16 KiB one after another": "--transfer 16k --size 8m",
    "64 KiB at random": "--random --transfer 64k --size 8m",
}
"""Options of the benchmark program, which reads with POSIX calls and compares all that it reads."""
BUDGET = 30


def measured(study: Study) -> None:
    """Tune the mount for each pattern."""
    if not (shutil.which("rclone") and shutil.which("fusermount3")):
        print(f"{study.name}: rclone or fusermount3 is missing, so its part is left out", file=sys.stderr)
        return
    kernel = stripewise("site", "native", "build")["kernel"]
    version = subprocess.run(["rclone", "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    with contextlib.ExitStack() as stack:
        disk = enter_disk(stack, study, 1 << 29)
        if disk is None:
            return
        for name, options in list(PATTERNS.items())[: study.size(None, 1)]:
            study.step(
                f"rclone, {name}",
                lambda options=options: _tuned(study.work, kernel, disk, options, study.size(BUDGET, 3)),
                "measured",
                options=options, budget=study.size(BUDGET, 3), reads=READS, bandwidth=BANDWIDTH, version=version,
            )  # fmt: skip


def _tuned(work: Path, kernel: str, disk: SlowDisk, options: str, budget: int) -> dict[str, Any]:
    data, mount, cache = disk.folder / "data", work / "mount", work / "cache"
    mount.mkdir(exist_ok=True)
    read = [kernel, "--api", "posix", *shlex.split(options), "--read", "--file"]
    subprocess.run(
        [kernel, "--api", "posix", *shlex.split(options), "--write", "--keep", "--file", str(data)], check=True
    )
    document = {
        "name": f"rclone {options}",
        "command": [*read, str(mount / "data")],
        "stacks": [str(_with_off(work, [*read, str(data)]))],
        "objective": {"name": "regex:read bandwidth: ([0-9.]+)", "direction": "maximize", "unit": "MiB/s"},
        "budget": {"runs": budget},
        # What setup lines start lives as long as the run. What a run sets, rclone reads from the environment.
        "setup": [
            f"fusermount3 -uzq {mount}; rm -rf {cache}; dd of={data} oflag=nocache conv=notrunc,fdatasync count=0",
            f"rclone mount {disk.folder} {mount} --daemon --read-only --config /dev/null --cache-dir {cache}",
        ],
    }
    words = [sys.executable, "-m", "stripewise", "tune", str(write_toml(work / "rclone-experiment.toml", document))]
    words += ["--seed", "0", "--store", f"sqlite:///{work / 'rclone.db'}", "--json", "--yes"]
    done = subprocess.run(disk.command(words), capture_output=True, text=True, check=False)
    subprocess.run(["fusermount3", "-uzq", str(mount)], check=False)
    if done.returncode:
        raise StudyError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    told = json.loads(done.stdout)
    return {key: told[key] for key in (*KEPT, "reference")} | {"load_average": round(os.getloadavg()[0], 1)}


def _with_off(work: Path, command: list[str]) -> Path:
    """Give the example's stack with how this program runs without the mount."""
    stack = work / "rclone-stack.toml"
    parameters = STACK.read_text("utf-8").partition("[off]")[0]
    off = f'[off]\ndescription = "the slow disk itself"\ncommand = {json.dumps(shlex.join(command))}\n'
    stack.write_text(parameters + off, "utf-8")
    return stack
