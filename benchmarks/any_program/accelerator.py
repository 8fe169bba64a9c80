"""The accelerator of small reads: real runs of the ninety programs of ``examples/accelerator`` on slow storage.

    python -m benchmarks.any_program accelerator --observer LIBRARY --folder /mnt/slow --enter CGROUP --out runs.jsonl
    python -m benchmarks.any_program accelerator --show runs.jsonl

The folder lies on a device whose reads are limited, for instance by ``blkio.throttle.read_iops_device`` of a control
group of version 1; ``--enter`` names that group's folder, and each measured run enters it. One file of real data serves
all programs: those with the largest files come first, and it is cut down for each next one. A first run outside the
group brings the file into its final state; then each program runs without the accelerator, with the study's default
settings, and with each of a few settings chosen beforehand. No run begins with the file in memory: the program itself
drops it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "accelerator"))

import programs  # noqa: E402  from examples/accelerator
import simulation  # noqa: E402

MIB = 1 << 20
DEFAULT = {"cluster_threshold": 2, "binsize": MIB, "sequence_length": 100, "prefetch_size": 20 * MIB}
CHOSEN = (
    {"cluster_threshold": 4, "binsize": 4 * MIB, "sequence_length": 100, "prefetch_size": 4 * MIB},
    {"cluster_threshold": 3, "binsize": 2 * MIB, "sequence_length": 50, "prefetch_size": 2 * MIB},
)
"""Beside the default: nothing was learned from the programs."""
Settings = Mapping[str, int] | None


class Machine:
    """Runs of the programs.

    Parameters
    ----------
    built : Path
        Of ``examples/accelerator``.
    observer : Path
        The library that is preloaded.
    group : Path or None
        Control group that measured runs enter.
    """

    def __init__(self, built: Path, observer: Path, group: Path | None) -> None:
        self._built, self._observer, self._group = built, observer, group

    def run(
        self, program: programs.Program, file: Path, settings: Settings, *, measured: bool = True
    ) -> dict[str, Any]:
        """Seconds, digest and bytes of windows of one run."""
        words = [str(self._built / "synthetic"), str(file), *program.arguments]
        with tempfile.TemporaryDirectory(prefix="parts-") as parts:
            environment = {**os.environ, "STRIPEWISE_PROCESSES": f"{parts}/process-", "STRIPEWISE_SOLE_WRITER": "1"}
            if settings is not None:
                environment["LD_PRELOAD"] = str(self._observer)
                environment["STRIPEWISE_POSIX"] = ",".join(f"{name}={value}" for name, value in settings.items())
            if measured and self._group is not None:
                words = ["sh", "-c", f'echo $$ > {self._group / "cgroup.procs"}; exec "$@"', "sh", *words]
            done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
            memory = _memory(Path(parts))
        seconds, digest = re.findall(r"seconds: ([0-9.]+)\ndigest: (\w+)", done)[0]
        return {"settings": settings, "seconds": float(seconds), "digest": digest, "memory": memory}


def _memory(parts: Path) -> int:
    from stripewise.observe.processes import merge_parts  # noqa: PLC0415  loads the engine
    from stripewise.observe.report import read_report_file  # noqa: PLC0415

    report = parts / "report.json"
    if not merge_parts(parts, report):
        return 0
    return max((process.windows_memory or 0 for process in read_report_file(report).processes), default=0)


def measure(options: argparse.Namespace) -> None:
    """Run the programs that the output does not have yet, and write a line for each as it ends."""
    known = {
        f"{kind}_{number:02d}": program
        for kind, members in programs.programs(0, options.each).items()
        for number, program in enumerate(members)
    }
    done = {row["program"] for row in _rows(options.out)} if options.out.exists() else set()
    names = sorted(known, key=lambda name: -known[name].file_size)[options.part :: options.parts]
    file = options.folder / f"data-{options.part}"
    end = time.monotonic() + options.minutes * 60
    with tempfile.TemporaryDirectory(prefix="built-") as built, options.out.open("a", encoding="utf-8") as out:
        machine = Machine(simulation.build(Path(built)), options.observer, options.enter)
        for name in [name for name in names if name not in done]:
            if time.monotonic() > end:
                break
            if file.exists():
                os.truncate(file, known[name].file_size)
            machine.run(known[name], file, None, measured=False)
            runs = [machine.run(known[name], file, one) for one in (None, DEFAULT, *CHOSEN)]
            out.write(json.dumps({"program": name, "runs": runs}) + "\n")
            out.flush()
    file.unlink(missing_ok=True)


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def show(path: Path) -> None:
    """Print the time saved by class, as the study does: in percent of the time without the accelerator."""
    rows = _rows(path)
    classes: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        none, *others = (run["seconds"] for run in row["runs"])
        saved = [100 * (none - seconds) / none for seconds in others]
        classes.setdefault(row["program"][:-3], []).append((saved[0], max(0.0, *saved)))
    print("| class | programs | default | best of 3, or off |\n| --- | ---: | ---: | ---: |")
    everyone = [one for members in classes.values() for one in members]
    for name, members in [*sorted(classes.items()), ("all", everyone)]:
        default, best = (statistics.median(one[at] for one in members) for at in (0, 1))
        print(f"| {name} | {len(members)} | {default:.1f}% | {best:.1f}% |")
    same = sum(len({run["digest"] for run in row["runs"]}) == 1 for row in rows)
    print(f"\n{same} of {len(rows)} programs read the same bytes in all runs.", end=" ")
    most = max(run["memory"] for row in rows for run in row["runs"])
    print(f"Windows took at most {most / MIB:.0f} MiB of a process.")


def main() -> None:
    """Measure, or show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--observer", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--enter", type=Path)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--part", type=int, default=0, help="of --parts, which measure different programs")
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600.0, help="begin no program after this time")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.show:
        show(given.show)
    else:
        measure(given)


if __name__ == "__main__":
    main()
