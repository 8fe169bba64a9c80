"""Labelled runs of what loaders of training jobs and Python do, for the findings of rules/processes.py.

    python benchmarks/diagnosis/loaders.py --seed 2 --observer LIBRARY --json benchmarks/diagnosis/results/loaders.json

Each case runs for real under the observer of programs without MPI: half have the fault, half are near misses.
``loaders.c`` makes the calls; imports are those of Python itself, of modules that are generated. Cases of striped
files are constructed in ``layouts.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from score import score, show

from stripewise.diagnose.site import diagnose
from stripewise.observe.from_report import activity_of
from stripewise.observe.left import PREFIX
from stripewise.observe.processes import merge_parts
from stripewise.observe.report import read_report_file

EACH = 24
MIB = 1 << 20
SOURCE = Path(__file__).with_name("loaders.c")
Command = list[str]
Case = list[tuple[Command, dict[str, str]]]
"""Commands that run at the same time, and the variables of each."""


class Place:
    """Where a case runs: a program, a file of some size, and a folder for what is written."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = str(program), folder

    def data(self, mebibytes: int) -> str:
        """Give a file with data, so that no read is of a hole."""
        path = self.folder / "data.bin"
        path.write_bytes(os.urandom(MIB) * mebibytes)
        return str(path)


def whole_file(place: Place, draw: random.Random, fault: bool) -> Case:
    """Workers read all of a file; near misses read a part each, half of them in as many epochs as there are workers."""
    workers, each = draw.randint(2, 5), draw.randint(4, 12)
    piece = str(draw.choice([64, 256, 1024]) << 10)
    if fault:
        data = place.data(each)
        return [([place.program, "read", data, "0", str(each * MIB), piece, str(workers), "1", "1"], {})]
    data = place.data(each * workers)
    epochs = str(draw.choice([1, workers]))
    return [([place.program, "read", data, "0", str(each * MIB), piece, str(workers), "0", epochs], {})]


def samples(place: Place, draw: random.Random, fault: bool) -> Case:
    """Small pieces at random; near misses are large pieces at random, or small ones in order."""
    data, workers = place.data(32), draw.randint(1, 4)
    small = draw.choice([512, 4096, 16384, 65536])
    if fault:
        return [([place.program, "samples", data, str(draw.randrange(10**6)), str(draw.randint(300, 2000)), str(small),
                  str(workers)], {})]  # fmt: skip
    if draw.random() < 0.5:
        return [([place.program, "samples", data, str(draw.randrange(10**6)), "300", str(MIB // 2), str(workers)], {})]
    return [([place.program, "read", data, "0", str(8 * MIB), str(small), str(workers), "0", "1"], {})]


def fed(place: Place, draw: random.Random, fault: bool) -> Case:
    """Workers do nothing but read; near misses decode what they read."""
    data = place.data(48)
    pause = 0 if fault else draw.randint(2000, 5000)
    return [([place.program, "fed", data, "48", str(MIB), str(draw.randint(2, 4)), str(pause)], {})]


def checkpoint(place: Place, draw: random.Random, fault: bool) -> Case:
    """Rank 0 writes for all; near misses write a part each, or rank 0 writes a small file."""
    ranks, data = draw.randint(3, 6), place.data(8)
    size, shared = draw.randint(20, 48), draw.random() < 0.5
    case: Case = []
    for rank in range(ranks):
        first = rank == 0
        written = size * first if fault else size // ranks if shared else 4 * first
        out = str(place.folder / f"checkpoint-{rank}")
        variables = {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
        case.append(([place.program, "step", data, str(8 * MIB), out, str(written * MIB)], variables))
    return case


def imports(place: Place, draw: random.Random, fault: bool) -> Case:
    """Python looks for many modules in many folders; near misses are few modules, or looks for what is no module."""
    if not fault and draw.random() < 0.5:
        return [([place.program, "look", str(place.folder), str(draw.randint(300, 900))], {})]
    folders, modules = (draw.randint(8, 20), draw.randint(60, 150)) if fault else (3, draw.randint(2, 12))
    for number in range(folders):
        (place.folder / f"site{number}").mkdir()
    names = []
    for number in range(modules):
        # A package is a folder: Python looks for it by stat in each folder of the path.
        package = place.folder / f"site{folders - 1}" / f"module{number}"
        package.mkdir()
        (package / "__init__.py").write_text(f"x = {number}\n")
        names.append(package.name)
    places = [str(place.folder / f"site{number}") for number in range(folders)]
    program = f"import sys; sys.path[:0] = {places!r}\nfor name in {names!r}: __import__(name)"
    return [([sys.executable, "-I", "-S", "-c", program], {})]


KINDS: dict[str, Callable[[Place, random.Random, bool], Case]] = {
    "read-by-every-process": whole_file, "small-samples": samples, "starved-workers": fed,
    "checkpoint-one-rank": checkpoint, "import-storm": imports,
}  # fmt: skip


def observed(case: Case, folder: Path, observer: Path) -> set[str]:
    """Run a case, and give the codes of its findings."""
    given = {**os.environ, "LD_PRELOAD": str(observer), "STRIPEWISE_PROCESSES": f"{folder}/{PREFIX}"}
    running = [subprocess.Popen(command, env={**given, **variables}) for command, variables in case]
    for child in running:
        if child.wait():
            raise SystemExit(f"{child.args} ended with code {child.returncode}")
    if not merge_parts(folder, folder / "report.json"):
        raise SystemExit(f"the observer saw nothing of {case[0][0]}")
    report = read_report_file(folder / "report.json")
    return {finding.code for finding in diagnose(activity_of(report, "report")).findings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--observer", type=Path, required=True)
    parser.add_argument("--each", type=int, default=EACH, help="faults of a kind, and near misses")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    truth: dict[str, dict[str, bool]] = {}
    found: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        program = Path(scratch) / "loaders"
        subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True)
        for code, make in KINDS.items():
            for number in range(2 * given.each):
                name, fault = f"{code}-{number}", number % 2 == 0
                truth[name] = {code: fault}
                with tempfile.TemporaryDirectory(dir=scratch) as folder:
                    place = Place(program, Path(folder))
                    case = make(place, random.Random(f"{given.seed}/{name}"), fault)
                    found[name] = observed(case, Path(folder), given.observer.resolve())
                if (code in found[name]) != fault:
                    print(f"{name}: {'missed' if fault else 'found'} {code}: {sorted(found[name])}")
    table = score(truth, found, ())
    show("loaders, run", table)
    if given.json:
        given.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
