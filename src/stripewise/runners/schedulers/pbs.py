"""PBS Professional and OpenPBS, and the older syntax for nodes of classic PBS and Torque.

Sources: the PBS Professional reference guide (qsub, qstat, qselect, job states and exit statuses), Torque's manual.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers.base import Scheduler, clock, json_object, read_clock
from stripewise.runners.schedulers.job import Inside, JobPhase, Standing

_PHASES = {
    **dict.fromkeys("HQTW", JobPhase.QUEUED),
    **dict.fromkeys("BERSU", JobPhase.ACTIVE),
    **dict.fromkeys("CFX", JobPhase.OVER),
}
"""Job states by their letter; M (moved to another server) is left out: what happens there is not known here."""
_SIGNALS = 256
"""An exit status above this is that number plus a signal."""


class Pbs(Scheduler):
    """PBS Professional and OpenPBS."""

    name = "pbs"
    title = "PBS"
    mark = "#PBS"
    programs = ("qsub", "qstat", "qdel", "qselect")
    inside = Inside(
        job="${PBS_JOBID:-$$}",
        nodes='$(if [ -s "${PBS_NODEFILE:-}" ]; then sort -u "$PBS_NODEFILE" | wc -l; fi)',
        folder="PBS_O_WORKDIR",
    )
    submit_words = ("qsub",)
    cancel_words = ("qdel",)
    find_words = ("qselect", "-N", "{name}")
    name_words = ("-N {name}", "-V")
    gone = re.compile(r"unknown job|job has finished|invalid job|history is not|job not found", re.IGNORECASE)
    overview = ("qstat", "-B")
    nodes_option = re.compile(r"-l ?(?:\S*,)?(?:select=|nodes=)([^\s,]+)")
    time_option = re.compile(r"-l ?(?:\S*,)?walltime=([\d:]+)")

    def place_options(self, batch: Batch) -> list[str]:
        """Write account and queue. PBS makes a queue of each reservation, so the reservation takes its place."""
        options = [f"-A {batch.account}"] if batch.account else []
        queue = batch.reservation or batch.queue
        return [*options, *([f"-q {queue}"] if queue else []), "-o /dev/null", "-e /dev/null"]

    def resource_options(self, nodes: int, per_node: int, exclusive: bool) -> list[str]:
        """Write nodes and ranks."""
        place = "exclhost" if exclusive else "shared"
        return [f"-l select={nodes}:ncpus={per_node}:mpiprocs={per_node}", f"-l place=scatter:{place}"]

    def time_options(self, seconds: float) -> list[str]:
        """Write the time limit."""
        return [f"-l walltime={clock(seconds)}"]

    def read_nodes(self, text: str) -> int:
        """Add up the chunks, as in ``2:ncpus=4+1:ncpus=8``; a chunk without a number is one."""
        counts = [chunk.partition(":")[0] for chunk in text.split("+")]
        return sum(int(count) if count.isdecimal() else 1 for count in counts)

    def read_time(self, text: str) -> float | None:
        """Read seconds, minutes:seconds or hours:minutes:seconds."""
        return read_clock(text, {1: (1,), 2: (60, 1), 3: (3600, 60, 1)})

    def status(self, identifiers: Sequence[str]) -> list[str]:
        """List jobs, finished ones included, with their whole identifiers."""
        return ["qstat", "-f", "-F", "json", "-x", *identifiers]

    def standings(self, output: str) -> dict[str, Standing]:
        """Read qstat's JSON; qstat prints nothing at all if it knows none of the jobs."""
        jobs = json_object(output).get("Jobs", {}) if output.strip() else {}
        if not isinstance(jobs, dict) or not all(isinstance(job, dict) for job in jobs.values()):
            raise ValueError("qstat printed no list of jobs")
        return {identifier: _read_standing(job) for identifier, job in jobs.items()}


class ClassicPbs(Pbs):
    """Classic PBS and Torque."""

    name = "pbs_classic"
    title = "classic PBS"

    def resource_options(self, nodes: int, per_node: int, exclusive: bool) -> list[str]:
        """Write nodes and ranks."""
        return [f"-l nodes={nodes}:ppn={per_node}", *(["-n"] if exclusive else [])]


def _read_standing(job: dict[str, Any]) -> Standing:
    letter = str(job.get("job_state", ""))
    phase = _PHASES.get(letter, JobPhase.ACTIVE)
    status = job.get("Exit_status", 0)
    if phase is not JobPhase.OVER or not isinstance(status, int) or status == 0:
        return Standing(phase, interrupted="suspended" if letter in ("S", "U") else "")
    if status < 0:
        return Standing(phase, f"PBS could not run its job (exit status {status})", True)
    if status > _SIGNALS:
        return Standing(phase, f"its job was ended by signal {status - _SIGNALS}")
    return Standing(phase, str(job.get("comment") or f"its job ended with exit status {status}"))
