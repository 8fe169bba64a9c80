"""Flux. Source: the manual pages of flux-batch, flux-jobs, flux-cancel and flux-getattr, flux-core 0.50 and later."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers.base import Scheduler, make_unsupported
from stripewise.runners.schedulers.job import Inside, JobPhase, Standing

_FIELDS = "{id.f58}|{state}|{result}|{name}"
_UNITS = {"": 60.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PHASES = {
    **dict.fromkeys(["NEW", "DEPEND", "PRIORITY", "SCHED"], JobPhase.QUEUED),
    **dict.fromkeys(["RUN", "CLEANUP"], JobPhase.ACTIVE),
    "INACTIVE": JobPhase.OVER,
}
_RESULTS = {
    "FAILED": "its job failed",
    "CANCELED": "its job was cancelled in the scheduler",
    "TIMEOUT": "its job reached the walltime",
}


class Flux(Scheduler):
    """Flux. A job is a Flux instance of its own, in which ``flux run`` starts the ranks."""

    name = "flux"
    title = "Flux"
    mark = "#flux:"
    programs = ("flux",)
    inside = Inside(
        job="${FLUX_ENCLOSING_ID:-${FLUX_JOB_ID:-$$}}",
        nodes="$(flux getattr size 2>/dev/null)",
        node_list="$(flux getattr hostlist 2>/dev/null || hostname)",
    )
    submit_words = ("flux", "batch")
    cancel_words = ("flux", "cancel")
    find_words = ("flux", "jobs", "--no-header", "--name={name}", "--format={{id.f58}}")
    name_words = ("--job-name={name}",)
    gone = re.compile(r"job is inactive|unknown (?:job )?id|invalid job|unable to find", re.IGNORECASE)
    overview = ("flux", "resource", "list", "--no-header")
    start = ("flux", "run", "-N", "{nodes}", "-n", "{processes}")
    nodes_option = re.compile(r"(?:--nodes[= ]|-N ?)(\d+)")
    time_option = re.compile(r"(?:--time-limit[= ]|-t ?)([\d.]+[smhd]?)")

    def place_options(self, batch: Batch) -> list[str]:
        """Write queue and bank.

        Raises
        ------
        UserError
            If a reservation is asked for, which Flux does not have.
        """
        if batch.reservation:
            raise make_unsupported(self, "reservations")
        named = {"queue": batch.queue, "bank": batch.account}
        return [*(f"--{key}={value}" for key, value in named.items() if value), "--output=/dev/null"]

    def resource_options(self, nodes: int, per_node: int, exclusive: bool) -> list[str]:
        """Write nodes and ranks."""
        return [f"--nodes={nodes}", f"--nslots={nodes * per_node}", *(["--exclusive"] if exclusive else [])]

    def time_options(self, seconds: float) -> list[str]:
        """Write the time limit."""
        return [f"--time-limit={int(-(-seconds // 1))}s"]

    def read_time(self, text: str) -> float | None:
        """Read a number with its unit; a plain number is minutes."""
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([smhd]?)", text)
        return float(found[1]) * _UNITS[found[2]] if found else None

    def status(self, identifiers: Sequence[str]) -> list[str]:
        """List all jobs of the user."""
        return ["flux", "jobs", "--no-header", "-a", f"--format={_FIELDS}"]

    def standings(self, output: str) -> dict[str, Standing]:
        """Read what flux jobs printed."""
        found = {}
        for line in output.splitlines():
            fields = line.strip().split("|", 3)
            if len(fields) == 4:
                phase = _PHASES.get(fields[1], JobPhase.ACTIVE)
                found[fields[0]] = Standing(phase, _RESULTS.get(fields[2], "") if phase is JobPhase.OVER else "")
        return found
