"""IBM Spectrum LSF. Source: the manual pages of bsub, bjobs and bkill, version 10.1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers.base import Scheduler, json_object, read_clock
from stripewise.runners.schedulers.job import Answer, Inside, JobPhase, Standing

_PHASES = {
    **dict.fromkeys(["PEND", "PROV", "PSUSP", "WAIT"], JobPhase.QUEUED),
    **dict.fromkeys(["RUN", "SSUSP", "USUSP"], JobPhase.ACTIVE),
    **dict.fromkeys(["DONE", "EXIT"], JobPhase.OVER),
}
"""ZOMBI and UNKWN, the states of a job on an unreachable host, are left out: such a job may still run."""
_GONE = re.compile(r"job has already finished|no matching job found|is not found", re.IGNORECASE)
_REASONS = ("EXIT_REASON", "KILL_REASON")


class Lsf(Scheduler):
    """IBM Spectrum LSF."""

    name = "lsf"
    title = "LSF"
    mark = "#BSUB"
    programs = ("bsub", "bjobs", "bkill")
    inside = Inside(
        job="${LSB_JOBID:-$$}",
        nodes='$(if [ -s "${LSB_DJOB_HOSTFILE:-}" ]; then sort -u "$LSB_DJOB_HOSTFILE" | wc -l; fi)',
        folder="LSB_SUBCWD",
    )
    overview = ("lsid",)
    nodes_option = re.compile(r"-nnodes ?(\d+)")
    time_option = re.compile(r"-W ?([\d:]+)")

    def place_options(self, batch: Batch) -> list[str]:
        """Write queue, account (as user group and as project) and reservation."""
        options = [f"-q {batch.queue}"] if batch.queue else []
        options += [f"-G {batch.account}", f"-P {batch.account}"] if batch.account else []
        return [*options, *([f"-U {batch.reservation}"] if batch.reservation else []), "-o /dev/null", "-e /dev/null"]

    def resource_options(self, nodes: int, per_node: int, exclusive: bool) -> list[str]:
        """Write nodes and ranks. Hosts are shared or not by the queue: -x is refused where the queue forbids it."""
        return [f"-nnodes {nodes}", f"-n {nodes * per_node}"]

    def time_options(self, seconds: float) -> list[str]:
        """Write the time limit in hours and minutes, rounded up."""
        minutes = int(-(-seconds // 60))
        return [f"-W {minutes // 60}:{minutes % 60:02d}"]

    def read_time(self, text: str) -> float | None:
        """Read minutes or hours:minutes."""
        return read_clock(text, {1: (60,), 2: (3600, 60)})

    def name_options(self, name: str) -> list[str]:
        """Write the job's name and hand the environment on."""
        return [f"-J {name}", "-env all"]

    def submit(self, script: Path) -> list[str]:
        """Give the command that submits a script."""
        return ["bsub", str(script)]

    def identifier(self, output: str) -> str:
        """Read "Job <7> is submitted to queue <normal>."."""
        found = re.search(r"Job <(\d+)>", output)
        return found[1] if found else ""

    def status(self, identifiers: Sequence[str]) -> list[str]:
        """List jobs, finished ones included."""
        return ["bjobs", "-o", f"JOBID STAT {' '.join(_REASONS)}", "-json", "-a", *identifiers]

    def standings(self, output: str) -> dict[str, Standing]:
        """Read bjobs' JSON; it has an entry with an error for a job that LSF has forgotten."""
        found = {}
        records = json_object(output).get("RECORDS")
        if not isinstance(records, list) or not all(isinstance(entry, dict) for entry in records):
            raise ValueError("bjobs printed no list of records")
        for entry in records:
            if "JOBID" not in entry or "ERROR" in entry:
                continue
            phase = _PHASES.get(str(entry.get("STAT")), JobPhase.ACTIVE)
            why = next((str(entry[key]) for key in _REASONS if entry.get(key)), "")
            found[str(entry["JOBID"])] = Standing(phase, why if phase is JobPhase.OVER else "")
        return found

    def cancel(self, identifier: str) -> list[str]:
        """Give the command that ends a job."""
        return ["bkill", identifier]

    def is_gone(self, said: str) -> bool:
        """Whether the job is over or unknown."""
        return _GONE.search(said) is not None

    def find(self, name: str) -> list[str]:
        """List the jobs with a name that are not over."""
        return ["bjobs", "-noheader", "-o", "JOBID", "-J", name]

    def found(self, answer: Answer) -> list[str] | None:
        """Read the identifiers; bjobs fails if the job does not exist."""
        return [] if self.is_gone(answer.stderr) else super().found(answer)
