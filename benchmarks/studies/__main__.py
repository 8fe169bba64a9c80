"""Repeat a study with Stripewise's own commands, or all of them.

    python -m benchmarks.studies ai-for-io          # from the repository's folder; goes on where it was
    python -m benchmarks.studies all --simulated    # what needs no launch, a study on each core
    python -m benchmarks.studies all --quick        # everything in small, to see that it works
    python -m benchmarks.studies page               # writes the pages in docs/benchmarks from the results

Results are kept in benchmarks/studies/results, step by step; what is there is not done again. Those of --quick are kept
under build/studies-quick and mean nothing.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.studies import page
from benchmarks.studies.steps import RESULTS, ROOT, WORK, OutOfTime, Study, StudyError

PARTS = {
    "simulated": "what needs no launch",
    "measured": "programs of this machine",
    "bed": "programs of the test bed, where it is up",
    "disk": "programs on a disk with few requests a second, as root: hours for all of them",
}
STUDIES = ("io-search", "shaman", "ann", "ai-for-io", "beyond", "sctuner")
"""Those with the longest simulated part first."""
BESIDE = {"ai-for-io": ("hard_patterns",), "sctuner": ("at_scale",)}
"""Modules with further simulated steps of a study. They come first: no step of theirs reads a file of the others."""


def run(study: Study, parts: Sequence[str]) -> None:
    """Do what is missing of a study's parts; one whose figures are all computed has no others."""
    module = importlib.import_module(f"benchmarks.studies.{study.name.replace('-', '_')}")
    if "simulated" in parts:
        for name in BESIDE.get(study.name, ()):
            importlib.import_module(f"benchmarks.studies.{name}").simulated(study)
        module.simulated(study)
    if "measured" in parts and hasattr(module, "real"):
        module.real(study)
    if "bed" in parts and hasattr(module, "bed"):
        from benchmarks.studies import on_bed  # noqa: PLC0415  of the system tests

        on_bed.carry_out(study, module)
    if "disk" in parts and hasattr(module, "disk"):
        module.disk(study)


def main(arguments: list[str] | None = None) -> int:
    """Give the exit code: 0 done, 1 a command failed, 4 time is over and steps are left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=[*STUDIES, "all", "page"])
    parser.add_argument("--quick", action="store_true", help="everything in small; the figures mean nothing")
    for part, what in PARTS.items():
        parser.add_argument(f"--{part}", action="append_const", dest="parts", const=part, help=f"only {what}")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no step after this time")
    parser.add_argument("--out", type=Path, help="folder of the results")
    given = parser.parse_args(arguments)
    if given.study == "page":
        page.write()
        return 0
    results = given.out or (ROOT / "build" / "studies-quick" if given.quick else RESULTS)
    work = results / "work" if given.quick or given.out else WORK
    # Small matrices only: threads of the linear algebra would cost more than they save.
    for library in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(library, "1")
    until = time.monotonic() + 60 * given.minutes
    parts = given.parts or list(PARTS)
    studies = [
        Study(name, results, work, given.quick, until=until)
        for name in (STUDIES if given.study == "all" else [given.study])
    ]
    try:
        if parts == ["simulated"]:
            with ProcessPoolExecutor() as side_by_side:
                list(side_by_side.map(run, studies, [parts] * len(studies)))
        else:
            # Measured programs would share the machine.
            for study in studies:
                run(study, parts)
    except OutOfTime as over:
        print(over, file=sys.stderr)
        return 4
    except StudyError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
