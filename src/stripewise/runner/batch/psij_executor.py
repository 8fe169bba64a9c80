"""What PSI/J's executors fall short of, mended thinly: hanging commands, and directives of the user's own script."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from io import StringIO
from typing import IO, Any

from stripewise.runner.batch.scheduled import Request
from stripewise.shell import directive
from stripewise.spec.batch import MARKS, Batch

Call = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
"""Calls one of the scheduler's programs."""
_RESOURCES = {
    "slurm": re.compile(r"#SBATCH --(nodes|ntasks|ntasks-per-node|cpus-per-task|exclusive)\b"),
    "pbs": re.compile(r"#PBS -l (?!walltime)"),
    "pbs_classic": re.compile(r"#PBS -l (?!walltime)"),
    "lsf": re.compile(r"#BSUB -(nnodes|n|x)\b"),
}
"""What PSI/J's templates say of resources even where nothing was asked of them: a user's own script says it better."""
_TIME = {
    "slurm": re.compile(r"#SBATCH --time\b"),
    "pbs": re.compile(r"#PBS -l walltime"),
    "pbs_classic": re.compile(r"#PBS -l walltime"),
    "lsf": re.compile(r"#BSUB -W\b"),
}
_FIRST = {"slurm": ("#SBATCH --no-requeue",)}
"""What holds unless the user's script says otherwise: Slurm lets a requeued job wait two minutes, we submit at once."""
_OURS = {"slurm": ("#SBATCH --job-name={name}", "#SBATCH --export=ALL")}
"""What must hold whatever a user's script says: jobs are found by their name, and runs get the environment."""


def watchful(base: type[Any], batch: Batch, call: Call) -> type[Any]:
    """Mend, thinly, what PSI/J's executors do where a scheduler stumbles.

    Commands without a time limit would hang with the scheduler's daemon, and an exception of one would fail all jobs.
    """

    class Watchful(base):  # type: ignore[misc]
        def _run_command(self, cmd: list[str]) -> str:
            done = call(cmd)
            if done.returncode:
                said = "\n".join(part for part in (done.stdout, done.stderr) if part) or "it printed nothing"
                raise subprocess.CalledProcessError(done.returncode, cmd, output=said)
            return done.stdout

        def generate_submit_script(self, job: Any, context: dict[str, object], submit_file: IO[str]) -> None:
            draft = StringIO()
            super().generate_submit_script(job, context, draft)
            submit_file.write(with_directives(draft.getvalue(), batch.scheduler, job.spec.stripewise))

    Watchful.__name__ = base.__name__
    # PSI/J names an executor's folder and threads by this.
    Watchful._NAME_ = getattr(base, "_NAME_", batch.scheduler)
    return Watchful


def with_directives(script: str, kind: str, request: Request) -> str:
    """Put the user's directives into PSI/J's script, after its own: of two that contradict the later one holds."""
    lines = script.removesuffix("\n").split("\n")
    mark = MARKS[kind]
    if request.directives:
        lines = [line for line in lines if not _RESOURCES[kind].match(line)]
    if request.seconds is None:
        lines = [line for line in lines if not _TIME[kind].match(line)]
    last = max((at for at, line in enumerate(lines) if line.startswith(mark)), default=0)
    added = [
        *_FIRST.get(kind, ()),
        *request.directives,
        *(directive(mark, option) for option in request.batch.directives),
    ]
    added += [line.format(name=request.name) for line in _OURS.get(kind, ())]
    return "\n".join([*lines[: last + 1], *added, *lines[last + 1 :]]) + "\n"
