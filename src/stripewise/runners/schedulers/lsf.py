"""IBM Spectrum LSF. Source: the manual pages of bsub, bjobs and bkill, version 10.1."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers.base import Scheduler, json_object, read_clock
from stripewise.runners.schedulers.job import Answer, Inside, JobPhase, Standing

_PHASES = {
    **dict.fromkeys(["PEND", "PROV", "PSUSP", "WAIT"], JobPhase.QUEUED),
    **dict.fromkeys(["RUN", "SSUSP", "USUSP"], JobPhase.ACTIVE),
    **dict.fromkeys(["DONE", "EXIT"], JobPhase.OVER),
}
"""ZOMBI and UNKWN, the states of a job on an unreachable host, are left out: such a job may still run."""
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
    submit_words = ("bsub",)
    cancel_words = ("bkill",)
    find_words = ("bjobs", "-noheader", "-o", "JOBID", "-J", "{name}")
    name_words = ("-J {name}", "-env all")
    identifier_in = re.compile(r"Job <(\d+)>")
    gone = re.compile(r"job has already finished|no matching job found|is not found", re.IGNORECASE)
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
            state = str(entry.get("STAT"))
            phase = _PHASES.get(state, JobPhase.ACTIVE)
            why = next((str(entry[key]) for key in _REASONS if entry.get(key)), "")
            found[str(entry["JOBID"])] = Standing(
                phase,
                why if phase is JobPhase.OVER else "",
                interrupted="suspended" if state in ("SSUSP", "USUSP") else "",
            )
        return found

    def found(self, answer: Answer) -> list[str] | None:
        """Read the identifiers; bjobs fails if the job does not exist."""
        return [] if self.gone.search(answer.stderr) else super().found(answer)
