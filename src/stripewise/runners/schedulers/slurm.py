"""Slurm. Sources: the manual pages of sbatch, squeue, scontrol, sacct and srun; states as of version 24.05."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from stripewise.errors import StripewiseError, TransientError, UserError
from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers.base import Allocation, Arrays, Scheduler, Steps, clock, read_clock
from stripewise.runners.schedulers.job import Answer, Call, Inside, JobPhase, Lookup, Standing
from stripewise.shell import directive_path

_FIELDS = "%i|%T|%r|%j"
_LIST = ("squeue", "--me", "--noheader", "--states=all", f"--format={_FIELDS}")
_QUEUED = ["PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"]
_ACTIVE = ["RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED"]
_OVER = {
    "COMPLETED": ("", False),
    "FAILED": ("its job failed", False),
    "TIMEOUT": ("its job reached the walltime", False),
    "DEADLINE": ("its job reached its deadline", False),
    "OUT_OF_MEMORY": ("its job ran out of memory", False),
    "CANCELLED": ("its job was cancelled in the scheduler", False),
    "NODE_FAIL": ("a node of its job failed", True),
    "BOOT_FAIL": ("a node of its job did not start", True),
    "PREEMPTED": ("its job was preempted", True),
    "REVOKED": ("its job was revoked", True),
}
_INTERRUPTED = {
    "suspended": re.compile(r"\bSuspendTime=(\d\S*)"),
    # During a GraceTime, a preempted job still counts as running, and a program may end well when it is asked to.
    "preempted": re.compile(r"\bPreemptTime=(\d\S*)"),
}
"""How scontrol tells that a job does not run, or did not for a while, and when that was."""
_FORGOTTEN = re.compile(r"Invalid job id", re.IGNORECASE)
_AWAY = re.compile(r"contact|connect|communication|timed out|did not answer", re.IGNORECASE)


@dataclass(frozen=True)
class QueueLine:
    """A line of squeue.

    Attributes
    ----------
    identifier, state, reason, name : str
    """

    identifier: str
    state: str
    reason: str
    name: str


def parse_queue(text: str) -> list[QueueLine]:
    """Read what squeue prints in our format; other lines (a site's message) are ignored."""
    lines = []
    for line in text.splitlines():
        fields = line.strip().split("|", 3)
        if len(fields) == 4 and re.fullmatch(r"\d+(_\S+)?(\+\d+)?", fields[0]):
            lines.append(QueueLine(fields[0], fields[1], fields[2], fields[3]))
    return lines


def standing_of(state: str, reason: str = "") -> Standing:
    """Say what a state means for a run; a state that no version had so far is not over."""
    word = state.split(maxsplit=1)[0].split("+", maxsplit=1)[0].upper() if state.split() else ""
    if word in _QUEUED:
        return Standing(JobPhase.QUEUED)
    if word not in _OVER:
        return Standing(JobPhase.ACTIVE, interrupted="suspended" if word in ("STOPPED", "SUSPENDED") else "")
    why, lost = _OVER[word]
    told = f" ({reason})" if why and reason not in ("", "None", "NonZeroExitCode") else ""
    return Standing(JobPhase.OVER, why + told, lost)


def _make_failure(answer: Answer, command: str) -> TransientError:
    return TransientError(f"{command} failed: {answer.stderr.strip()}", "Slurm may be restarting")


class SlurmSteps(Steps):
    """Steps of ``srun`` within an allocation."""

    def allocation(self, environment: Mapping[str, str], call: Call) -> Allocation:
        """Find the allocation that this process runs in; see :class:`Steps`."""
        job, nodes = environment.get("SLURM_JOB_ID", ""), environment.get("SLURM_JOB_NODELIST", "")
        if not job or not nodes:
            raise UserError(
                "runner steps works inside a Slurm allocation, but this process is not in one",
                "start it by salloc or in a job script, or use --runner batch",
            )
        names, said = _hostnames(nodes, call)
        if not names:
            raise UserError(f"cannot read the node list {nodes}: {said}", "is Slurm's module loaded?")
        return Allocation(job, names)

    def options(self, nodes: Sequence[str], name: str) -> list[str]:
        """Start a step on these nodes; without --nodes srun would take the allocation's number."""
        return [f"--nodes={len(nodes)}", f"--nodelist={','.join(nodes)}", f"--job-name={name}"]

    def named(self, allocation: str, name: str, call: Call) -> list[str]:
        """List the steps with a name that are not over; see :class:`Steps`."""
        done = call(["squeue", "--steps", "--noheader", "--jobs", allocation, "--format=%i|RUNNING||%j"])
        if done.returncode:
            if _FORGOTTEN.search(done.stderr):
                return []
            raise _make_failure(done, "squeue")
        lines = [line.strip().split("|") for line in done.stdout.splitlines()]
        return [fields[0] for fields in lines if len(fields) == 4 and fields[3] == name]

    def end(self, steps: Sequence[str], call: Call) -> None:
        """Ask for the end of steps."""
        call(["scancel", "--quiet", *steps])

    def nodes_left(self, allocation: str, call: Call) -> tuple[str, ...]:
        """List the nodes that belong to an allocation now; see :class:`Steps`."""
        done = call(["squeue", "--noheader", "--jobs", allocation, "--format=%N"])
        named = done.stdout.strip()
        if done.returncode or not named:
            raise _make_failure(done, "squeue")
        names, said = _hostnames(named, call)
        if said:
            raise TransientError(f"scontrol failed: {said}", "Slurm may be restarting")
        return names

    def suspended(self, allocation: str, call: Call) -> str:
        """Give the time of the last suspension; see :class:`Steps`."""
        done = call(["scontrol", "--oneliner", "show", "job", allocation])
        if done.returncode:
            raise _make_failure(done, "scontrol")
        found = _INTERRUPTED["suspended"].search(done.stdout)
        return found[1] if found else ""

    def is_over(self, allocation: str, call: Call) -> bool:
        """Whether an allocation is over, with all its steps; see :class:`Steps`."""
        done = call(["squeue", "--noheader", "--states=all", "--jobs", allocation, f"--format={_FIELDS}"])
        if done.returncode and not _FORGOTTEN.search(done.stderr):
            raise _make_failure(done, "squeue")
        return all(line.state not in (*_QUEUED, *_ACTIVE) for line in parse_queue(done.stdout))


def _hostnames(nodes: str, call: Call) -> tuple[tuple[str, ...], str]:
    done = call(["scontrol", "show", "hostnames", nodes])
    names = tuple(done.stdout.split())
    if done.returncode or not names:
        return (), done.stderr.strip() or "scontrol printed nothing"
    return names, ""


class SlurmArrays(Arrays):
    """Job arrays of ``sbatch``."""

    index = "SLURM_ARRAY_TASK_ID"

    def limits(self, call: Call, user: str) -> Mapping[str, int]:
        """Ask for ``MaxArraySize``, which bounds the index, and for the user's ``MaxSubmitJobs``, where accounted."""
        done = call(["scontrol", "show", "config"])
        if done.returncode:
            raise StripewiseError(f"scontrol failed: {done.stderr.strip()}", "submit where Slurm answers")
        size = re.search(r"^MaxArraySize\s*=\s*(\d+)", done.stdout, re.MULTILINE)
        if size is not None and int(size[1]) < 2:
            raise UserError("this cluster allows no job arrays (MaxArraySize)", "submit shards one by one: --shard i/n")
        told = call(["sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"user={user}", "format=MaxSubmitJobs"])
        numbers = [int(line) for line in told.stdout.split() if line.isdigit()] if told.returncode == 0 else []
        most = {"MaxArraySize": int(size[1]) - 1} if size else {}
        return {**most, **({"MaxSubmitJobs": min(numbers)} if numbers else {})}

    def options(self, tasks: int, at_once: int, logs: Path) -> list[str]:
        """Write the options of an array; in a file name of Slurm's %% is a percent sign."""
        output = directive_path(Path(str(logs).replace("%", "%%")) / "%a.out")
        return [f"--array=1-{tasks}%{at_once}", f"--output={output}"]

    def submit(self, script: Path) -> list[str]:
        """Give the command that submits an array."""
        return ["sbatch", "--parsable", str(script)]


class Slurm(Scheduler):
    """Slurm."""

    name = "slurm"
    title = "Slurm"
    mark = "#SBATCH"
    programs = ("sbatch", "squeue", "scancel", "scontrol")
    inside = Inside(
        job="${SLURM_JOB_ID:-$$}",
        nodes="${SLURM_JOB_NUM_NODES:-}",
        node_list="${SLURM_JOB_NODELIST:-$(hostname)}",
        restarts="${SLURM_RESTART_COUNT:-0}",
        folder="SLURM_SUBMIT_DIR",
    )
    start = ("srun", "-N", "{nodes}", "-n", "{processes}", "--ntasks-per-node", "{processes_per_node}")
    nodes_option = re.compile(r"(?:--nodes[= ]|-N ?)(\d+)")
    time_option = re.compile(r"(?:--time[= ]|-t ?)([\d:-]+)")
    steps: ClassVar[Steps | None] = SlurmSteps()
    arrays: ClassVar[Arrays | None] = SlurmArrays()
    misleading = ("SCANCEL_", "SQUEUE_", "SBATCH_JOB_NAME")
    waits = frozenset({"squeue", "scontrol"})
    submit_words = ("sbatch",)
    cancel_words = ("scancel", "--quiet")
    find_words = (*_LIST, "--name={name}")
    name_words = ("--job-name={name}", "--export=ALL")
    identifier_in = re.compile(r"Submitted batch job (\d+)")  # a cluster's name may follow
    gone = _FORGOTTEN
    overview = ("sinfo", "-h", "-o", "first partition %P, %D nodes")

    def place_options(self, batch: Batch) -> list[str]:
        """Write partition, account and reservation; the run's script redirects its own output."""
        named = {"partition": batch.queue, "account": batch.account, "reservation": batch.reservation}
        return [*(f"--{key}={value}" for key, value in named.items() if value), "--output=/dev/null"]

    def first_options(self) -> list[str]:
        """Keep Slurm from requeueing: a requeued job waits two minutes, and we submit at once."""
        return ["--no-requeue"]

    def resource_options(self, nodes: int, per_node: int, exclusive: bool) -> list[str]:
        """Write nodes and ranks."""
        options = [f"--nodes={nodes}", f"--ntasks={nodes * per_node}", f"--ntasks-per-node={per_node}"]
        return [*options, *(["--exclusive"] if exclusive else [])]

    def time_options(self, seconds: float) -> list[str]:
        """Write the time limit."""
        return [f"--time={clock(seconds)}"]

    def read_time(self, text: str) -> float | None:
        """Read minutes, minutes:seconds, hours:minutes:seconds, or days-hours[:minutes[:seconds]]."""
        days, dash, rest = text.rpartition("-")
        if dash:
            within = read_clock(rest, {1: (3600,), 2: (3600, 60), 3: (3600, 60, 1)})
            return 86400 * int(days) + within if days.isdigit() and within is not None else None
        return read_clock(rest, {1: (60,), 2: (60, 1), 3: (3600, 60, 1)})

    def status(self, identifiers: Sequence[str]) -> list[str]:
        """List all jobs of the user: if squeue is asked by number, a job that it forgot makes it fail."""
        return [*_LIST]

    def standings(self, output: str) -> dict[str, Standing]:
        """Read what squeue printed."""
        return {line.identifier: standing_of(line.state, line.reason) for line in parse_queue(output)}

    def found(self, answer: Answer) -> list[str] | None:
        """Read the jobs that are not over."""
        if answer.returncode:
            return None
        return [key for key, found in self.standings(answer.stdout).items() if found.phase is not JobPhase.OVER]

    def lookups(self, identifier: str) -> tuple[Lookup, ...]:
        """Ask the controller, then the accounting, which many sites do not have."""
        account = ("sacct", "--allocations", "--noheader", "--parsable2", "--format=State", "-j", identifier)
        return (
            Lookup(("scontrol", "--oneliner", "show", "job", identifier), _read_controlled),
            Lookup(account, _read_accounted, optional=True),
        )

    def silent(self, answer: Answer) -> bool:
        """Whether the controller did not answer."""
        return bool(answer.returncode) and _AWAY.search(answer.stderr) is not None


def _read_controlled(answer: Answer) -> Standing | None:
    if answer.returncode == 0:
        state = re.search(r"\bJobState=(\S+)", answer.stdout)
        reason = re.search(r"\bReason=(\S+)", answer.stdout)
        standing = standing_of(state[1] if state else "", reason[1] if reason else "")
        found = next((word for word, time in _INTERRUPTED.items() if time.search(answer.stdout)), "")
        return replace(standing, interrupted=found or standing.interrupted)
    if not _FORGOTTEN.search(answer.stderr + answer.stdout):
        raise _make_failure(answer, "scontrol")
    return None


def _read_accounted(answer: Answer) -> Standing | None:
    state = next((line.strip() for line in answer.stdout.splitlines() if line.strip()), "")
    return standing_of(state) if state and answer.returncode == 0 else None
