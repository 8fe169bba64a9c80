# SPDX-License-Identifier: BSD-3-Clause
"""ReFrame: the runtime passes a hint to MPI-IO with the MPI of this environment; the bandwidth of the writes.

    reframe -c packaging/reframe/stripewise_check.py -r --performance-report

`-S modules=stripewise/VERSION` loads a module first, `-S num_tasks=64` asks for more ranks, `-S size=8g` writes more
bytes. The partition needs a launcher of MPI programs, not `local`.
"""

import json
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import deferrable, parameter, performance_function, run_before, sanity_function, variable


@rfm.simple_test
class StripewiseHint(rfm.RunOnlyRegressionTest):
    """A strided collective write under a plan of one hint; the runtime's report says whether MPI-IO took it."""

    descr = "Stripewise: a hint of a plan reaches an MPI program"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    num_tasks = 2
    executable = "env"
    value = parameter(["automatic", "enable", "disable"])
    mpicc = variable(str, value="mpicc")
    size = variable(str, value="8m")

    @run_before("run")
    def build_and_plan(self):
        self.env_vars = {"STRIPEWISE_PLAN": "$PWD/one_hint.plan", "STRIPEWISE_REPORT": "$PWD/seen.json"}
        self.prerun_cmds = [
            f"stripewise site native build --mpicc {self.mpicc} --json > native.json",
            """built() { sed -n "s/^ *\\"$1\\": \\"\\(.*\\)\\",*$/\\1/p" native.json; }""",
            f"printf 'stripewise-plan 1\\nhint romio_cb_write {self.value}\\n' > one_hint.plan",
        ]
        kernel = f"--write --collective --layout strided --piece 1k --size {self.size} --file out.dat"
        self.executable_opts = ['LD_PRELOAD="$(built library)"', '"$(built kernel)"', kernel]

    @deferrable
    def outcomes(self):
        seen = json.loads((Path(self.stagedir) / "seen.json").read_text("utf-8"))
        return [(s["key"], s["echoed"], s["outcome"]) for file in seen["files"] for s in file["settings"]]

    @sanity_function
    def hint_was_taken(self):
        return sn.assert_eq(self.outcomes(), [("romio_cb_write", self.value, "applied")])

    @performance_function("MiB/s")
    def write_bandwidth(self):
        return sn.extractsingle(r"^write bandwidth: ([\d.]+) MiB/s", self.stdout, 1, float)
