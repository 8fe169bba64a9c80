"""The test bed, where it is up (``make cluster-up``): commands in jobs that have all of its nodes."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.system.testbed.bed import Bed
from tests.system.testbed.placement import OBJECT_SIZE, settled
from tests.system.testbed.processes import BedError, of_bed

from benchmarks.studies.steps import ROOT, Study, StudyError

STANDING = Path("/var/tmp/stripewise-testbed")
LAUNCHER = ["srun", "--mpi=pmi2", "-N", "{nodes}", "-n", "{processes}", "--ntasks-per-node", "{processes_per_node}"]
MPICC = Path(sys.executable).parent / "mpicc"
NODES = 4
SLEEPY = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8"}
"""Ranks that wait for one another sleep: the nodes share the machine's cores with the OSDs."""


class Site:
    """The bed as a study uses it.

    Parameters
    ----------
    bed : Bed
        It is up.
    study : Study

    Attributes
    ----------
    folder : Path
        On the bed's file system, as jobs see it; files there have one stripe by default, which never ends.
    """

    def __init__(self, bed: Bed, study: Study) -> None:
        self.bed = bed
        self.environment = {**os.environ, **bed.environment}
        self._work = study.work
        self.folder = bed.shared / f"study-{study.name}"
        made = bed.ceph.mount(1) / self.folder.name
        made.mkdir(exist_ok=True)
        layout = f"stripe_unit=4194304 stripe_count=1 object_size={OBJECT_SIZE}"
        os.setxattr(made, "ceph.dir.layout", layout.encode())
        self._groups = study.work / "groups.json"
        self._groups.write_text(json.dumps(settled(bed.ceph)), "utf-8")

    def placing(self, *names: str) -> str:
        """Give a shell line that makes files in the folder, empty, whose stripes will lie on different OSDs."""
        words = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "benchmarks.studies.placed", str(self._groups)]
        return shlex.join([*words, *(str(self.folder / name) for name in names)])

    def job(self, lines: Sequence[str], minutes: int = 15) -> str:
        """Run lines of bash in a job with all nodes, and give what they print.

        Raises
        ------
        StudyError
            Where a line fails.
        """
        script, told = self._work / "job.sh", self._work / "job.out"
        begin = ["#!/bin/bash", "set -euo pipefail", f"cd {shlex.quote(str(ROOT))}"]
        begin += [f"export {name}={value}" for name, value in SLEEPY.items()]
        script.write_text("\n".join([*begin, *lines]) + "\n", "utf-8")
        words = [f"--nodes={NODES}", "--ntasks-per-node=2", "--exclusive", f"--time={minutes}"]
        output = [f"--output={told}", f"--error={told.with_suffix('.err')}"]
        try:
            job = self.bed.slurm.submit(script, *words, *output, env=self.environment)
        except BedError as error:
            raise StudyError(str(error)) from error
        if code := job.wait(timeout=math.inf):
            said = told.with_suffix(".err").read_text("utf-8") if told.with_suffix(".err").exists() else ""
            raise StudyError(f"a job on the test bed ended with {code}: {said.strip()[-1000:]}")
        return told.read_text("utf-8")

    def stripewise(self, *words: str | Path) -> Any:
        """Run a command of Stripewise on the first node of such a job, and give its document."""
        arguments = [str(word) for word in words]
        place = arguments.index("--") if "--" in arguments else len(arguments)
        arguments[place:place] = ["--json"]
        return json.loads(self.job([shlex.join([sys.executable, "-m", "stripewise", *arguments])]))


def carry_out(study: Study, module: Any) -> None:
    """Do the part of a study that the test bed is needed for; say so where it is not up."""
    if not of_bed(STANDING):
        print(f"{study.name}: the test bed is not up (make cluster-up), so its part is left out", file=sys.stderr)
        return
    module.bed(study, Site(Bed(STANDING), study))
