"""The local runner: launches runs on this machine, each as a session of its own in a scratch folder of its own."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from stripewise.errors import StripewiseError, UserError
from stripewise.interpreter import inherited
from stripewise.launch import Launch, Outcome
from stripewise.requests.experiment import Experiment
from stripewise.runners.base import Preflight, Runner
from stripewise.runners.inject.assemble import defaults_of, values_of, words_of
from stripewise.runners.local import scratch
from stripewise.runners.local.output import DEFAULT_LIMIT
from stripewise.runners.local.preflight import Found, find, inspect
from stripewise.runners.local.run import LocalRun, RunContext
from stripewise.runners.local.scratch import Scratch, kept_input
from stripewise.runners.local.supervise import OrphanGuard
from stripewise.runners.program.preflight import Target, look


class LocalRunner(Runner):
    """Runs the experiment's command on this machine.

    The program keeps its user's working folder; its run's own folder is ``STRIPEWISE_RUN_FOLDER`` in its environment
    and ``{run_folder}`` in its command.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Where the runs' scratch folders are made.
    runtime : str
        ``auto`` builds or finds the runtime library for the program's MPI; ``none`` goes without; else its path.
    cwd : Path, optional
        Where the program runs; by default, where Stripewise does.
    environment : mapping, optional
        What the program's environment starts from; by default, that of Stripewise.
    output_limit : int
        Bytes kept of each run's standard output and of its standard error.
    deletes_in : sequence of Path, optional
        The only folders in which ``hooks.delete`` deletes files; by default all.
    """

    name = "local"

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        *,
        runtime: str = "auto",
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_LIMIT,
        deletes_in: Sequence[Path] | None = None,
    ) -> None:
        self._experiment = experiment
        self._folder = folder.absolute()
        self._runtime = runtime
        self._cwd = cwd or Path.cwd()
        self._environment = inherited(environment)
        self._output_limit = output_limit
        self._deletes_in = deletes_in
        self._guard = OrphanGuard()
        self._found: Found | None = None
        self._ended: queue.Queue[tuple[LocalRun, Outcome | StripewiseError]] = queue.Queue()
        self._under_way: dict[int, LocalRun] = {}
        self._files: dict[Path, None] = {}

    def prepare(self) -> Preflight:
        """Check the command, find its MPI, build or find the runtime; see :class:`Runner`."""
        self._found = find(self._experiment, self._environment, self._cwd, self._runtime)
        return self._found.preflight

    def inspect(self) -> Preflight:
        """Find the program and its MPI by reading files; see :class:`Runner`."""
        return inspect(self._experiment, self._environment, self._cwd, self._runtime)[0]

    def start(self, launch: Launch) -> None:
        """Begin a run; see :class:`Runner`."""
        if launch.number in self._under_way:
            raise StripewiseError(f"run {launch.number} is under way already", "poll or cancel it first")
        if self._found is None:
            self.prepare()
        assert self._found is not None
        place = Scratch.of(self._folder, launch)
        defaults = defaults_of(self._experiment)
        target: Target | UserError
        try:
            target = look(words_of(self._experiment, launch, defaults, place), self._found.environment, self._cwd)
        except UserError as error:
            # The program was there at the preflight; it may be back for the next run.
            target = error
        if isinstance(target, Target):
            target = self._placed(launch, target)
        run = LocalRun(
            launch,
            place,
            target,
            values_of(launch, defaults, place),
            RunContext(
                self._experiment,
                self._found,
                self._environment,
                self._cwd,
                self._output_limit,
                self._guard,
                lambda: list(self._files),
                self._deletes_in,
                kept_input(self._experiment, self._folder),
            ),
            self._take,
        )
        run.start()
        self._under_way[launch.number] = run

    def poll(self, timeout: float) -> list[Outcome]:
        """Wait for ended runs; see :class:`Runner`."""
        outcomes: list[Outcome] = []
        deadline = time.monotonic() + max(0.0, timeout)
        while self._under_way:
            try:
                run, ended = self._ended.get(timeout=0 if outcomes else max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if self._under_way.get(run.launch.number) is not run:
                continue
            if isinstance(ended, StripewiseError) and outcomes:
                # The next poll raises it: the runs that have ended before must not be lost.
                self._ended.put((run, ended))
                break
            del self._under_way[run.launch.number]
            if isinstance(ended, StripewiseError):
                raise ended
            outcomes.append(ended)
        return outcomes

    def cancel(self, number: int) -> None:
        """End a run without an outcome; see :class:`Runner`."""
        run = self._under_way.pop(number, None)
        if run is not None:
            run.cancel(wait=True)

    def reap(self, launch: Launch) -> None:
        """End what an earlier process left of a planned run; see :class:`Runner`."""
        scratch.reap(self._folder, launch)

    def close(self) -> None:
        """End all runs under way."""
        for run in self._under_way.values():
            run.cancel(wait=False)
        for number in list(self._under_way):
            self.cancel(number)
        self._guard.close()

    def _placed(self, launch: Launch, target: Target) -> Target:
        """Say where a run takes place: here, by whatever launcher the command has."""
        return target

    def _take(self, run: LocalRun, ended: Outcome | StripewiseError) -> None:
        """Take the outcome of a run, from its thread."""
        if isinstance(ended, Outcome) and ended.report is not None:
            self._files |= dict.fromkeys(ended.report.paths)
        self._ended.put((run, ended))
