"""One local run: hooks, the program, hooks. It has a thread of its own, because each of them may take long.

The local runner: launches runs on this machine, each as a session of its own in a scratch folder of its own.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from stripewise.errors import RunFailed, StripewiseError, UserError
from stripewise.facts import RunFacts
from stripewise.interpreter import inherited
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import kind_of
from stripewise.ownership import written_whole
from stripewise.requests.experiment import Experiment
from stripewise.runners import hooks
from stripewise.runners.base import Preflight, Runner
from stripewise.runners.inject.injection import Assembled, assemble, defaults_of, exports_of, values_of, words_of
from stripewise.runners.judge import Evidence, judge
from stripewise.runners.local import scratch
from stripewise.runners.local.preflight import Found, find, inspect
from stripewise.runners.local.scratch import Scratch, kept_input, own_sessions, said
from stripewise.runners.local.supervise import DEFAULT_LIMIT, Cause, Command, CommandLimits, Ended, OrphanGuard
from stripewise.runners.program.command import shell_line, substitute
from stripewise.runners.program.preflight import Target, look
from stripewise.runners.setup import script, shell
from stripewise.trial import State


@dataclass(frozen=True)
class RunContext:
    """What all runs of a runner share.

    Attributes
    ----------
    experiment : Experiment
    found : Found
        What the preflight found.
    environment : mapping
        What setup lines start from.
    cwd : Path
    output_limit : int
    guard : OrphanGuard
    known_files : callable
        Gives the files that earlier runs used.
    deletes_in : sequence of Path or None
        See :func:`~stripewise.runners.hooks.delete`.
    stdin : Path or None
        The file that the program reads; replays read none.
    """

    experiment: Experiment
    found: Found
    environment: Mapping[str, str]
    cwd: Path
    output_limit: int
    guard: OrphanGuard
    known_files: Callable[[], list[Path]]
    deletes_in: Sequence[Path] | None
    stdin: Path | None


class LocalRun:
    """A planned run, from its folder to its outcome.

    Parameters
    ----------
    launch : Launch
    place : Scratch
    target : Target or UserError
        The command, or why it can no longer be started.
    values : mapping
        What placeholders stand for.
    surroundings : RunContext
    on_end : callable
        Called from the run's thread with its outcome or an error, unless the run was cancelled.
    """

    def __init__(
        self,
        launch: Launch,
        place: Scratch,
        target: Target | UserError,
        values: Mapping[str, str],
        surroundings: RunContext,
        on_end: Callable[[LocalRun, Outcome | StripewiseError], None],
    ) -> None:
        self.launch = launch
        self._place = place
        self._target = target
        self._values = values
        self._all = surroundings
        self._on_end = on_end
        self._cancelled = False
        self._current: Command | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name=f"stripewise-run-{launch.number}", daemon=True)
        self._assembled: Assembled | None = None
        self._sessions: dict[str, str] = {}
        if isinstance(target, Target):
            library = surroundings.found.library_for(target)
            self._assembled = assemble(
                launch, target.line, target.program, library, place, surroundings.cwd, surroundings.found.observer
            )

    def start(self) -> None:
        """Write the run's folder and begin.

        Raises
        ------
        StripewiseError
            If the folder cannot be written.
        """
        files = self._assembled.injection.files if self._assembled else {}
        self._place.create(files, {"command": list(self._assembled.words) if self._assembled else []})
        self._thread.start()

    def cancel(self, wait: bool) -> None:
        """End whatever is going on.

        Parameters
        ----------
        wait : bool
            Whether to return only when nothing of it is left.
        """
        with self._lock:
            self._cancelled = True
            if self._current is not None:
                self._current.cancel()
        if wait:
            self._thread.join()

    # -- in the thread ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        outcome: Outcome | StripewiseError
        try:
            outcome = self._carry_out()
        except RunFailed as failure:
            outcome = Outcome(self.launch.number, State.FAILED, 0.0, time.time(), str(failure), folder=self._place.path)
        except StripewiseError as error:
            outcome = error
        except OSError as error:
            what = f"run {self.launch.number}: {error.strerror or error} ({error.filename or self._place.path})"
            outcome = StripewiseError(
                what, "make room or fix the folder of the runs, then continue with: stripewise resume ID"
            )
        except Exception as error:
            # The session waits for this thread, so a bug of ours must not end it without an outcome.
            what = f"run {self.launch.number}: unexpected {type(error).__name__}: {error}"
            outcome = StripewiseError(
                what, "this is a bug in stripewise: report it; continue with: stripewise resume ID"
            )
        if not self._cancelled:
            self._on_end(self, outcome)

    def _carry_out(self) -> Outcome:
        if isinstance(self._target, UserError) or self._assembled is None:
            raise RunFailed(str(self._target))
        with own_sessions(self._target.mpi, self._assembled.words, self._all.found.environment) as self._sessions:
            return self._between_hooks(self._target, self._assembled)

    def _between_hooks(self, target: Target, assembled: Assembled) -> Outcome:
        around = self._all.experiment.hooks
        patterns = [substitute(pattern, self._values) for pattern in around.delete]
        hooks.delete(patterns, self._all.cwd, self._all.deletes_in)
        for number, line in enumerate((*around.before, *self.launch.before), start=1):
            self._hook("before", number, line)
        caches = hooks.empty_caches(around.drop_caches, self._all.known_files())
        objective = kind_of(self._all.experiment.objective.name)
        with objective.metered() as metrics:
            ended = self._program(assembled)
        report, missing = self._place.read_report(self.launch.program)
        failure = ""
        for number, line in enumerate((*self.launch.after, *around.after), start=1):
            try:
                self._hook("after", number, line)
            except RunFailed as failed:
                failure = failure or failed.what
        nodes = target.line.nodes
        return judge(
            Evidence(
                launch=self.launch,
                place=self._place,
                ended=ended,
                report=report,
                missing=missing,
                injection=assembled.injection,
                objective=objective,
                metrics=metrics,
                after=failure,
                notes=(*([caches.note] if caches.note else []), *ended.notes),
                facts=RunFacts(cache=caches.state, nodes=nodes) if nodes else RunFacts(cache=caches.state),
            )
        )

    def _run(self, command: Command, on_start: Callable[[int], None]) -> Ended:
        with self._lock:
            self._current = command
            if self._cancelled:
                command.cancel()
        try:
            return command.run(on_start)
        finally:
            self._all.guard.over(self._place.run_id)

    def _guarded(self, pid: int) -> None:
        self._all.guard.began(self._place.run_id, pid)

    def _exports(self) -> dict[str, str]:
        return exports_of(self._all.experiment, self.launch, self._values, self._place)

    def _environment(self, base: Mapping[str, str]) -> dict[str, str]:
        return {
            **{name: value for name, value in base.items() if name not in self.launch.unset},
            **self._sessions,
            **self._exports(),
            "STRIPEWISE_RUN": str(self.launch.number),
            "STRIPEWISE_RUN_FOLDER": str(self._place.path),
        }

    def _command(
        self,
        words: list[str],
        base: Mapping[str, str],
        limits: CommandLimits,
        name: str = "",
        stdin: Path | None = None,
    ) -> Command:
        return Command(
            words,
            self._environment(base),
            run_id=self._place.run_id,
            folder=self._place.path,
            cwd=self._all.cwd,
            limits=limits,
            name=name,
            stdin=stdin,
        )

    def _hook(self, when: str, number: int, line: str) -> None:
        name, limit = f"{when}.{number}", self._all.experiment.hooks.timeout
        words = [shell(), "-c", shell_line(line, self._values)]
        limits = CommandLimits(timeout=limit, output=self._all.output_limit)
        ended = self._run(self._command(words, self._all.found.environment, limits, name), self._guarded)
        if ended.cause is Cause.TIMEOUT:
            raise RunFailed(f"the {when} hook '{line}' did not end within {limit:g} s")
        if ended.exit_code or ended.error:
            words_of_it = said(self._place.path / f"{name}.stderr", self._place.path / f"{name}.stdout")
            how = ended.error or f"exit code {ended.exit_code}"
            raise RunFailed(f"the {when} hook '{line}' ended with {how}{words_of_it}")

    def _program(self, assembled: Assembled) -> Ended:
        experiment = self._all.experiment
        words = list(assembled.words)
        limits = CommandLimits(
            timeout=self.launch.timeout,
            bound=self.launch.bound,
            setup=experiment.hooks.timeout,
            output=self._all.output_limit,
        )

        def started(pid: int) -> None:
            self._guarded(pid)
            with contextlib.suppress(OSError):
                # The record that was written before lacks the process number, but its marker is enough to reap by.
                self._place.note({"command": words}, pid)

        stdin = None if self.launch.replays else self._all.stdin
        if not experiment.setup:
            return self._run(self._command(words, self._all.found.environment, limits, stdin=stdin), started)
        ready = os.pipe()
        path = self._place.path / "run.sh"
        with written_whole(path) as part:
            part.write_text(script(experiment.setup, self._exports(), words, ready[1], stdin), "utf-8")
        command = self._command([shell(), str(path)], self._all.environment, limits)
        command.time_from(ready)
        return self._run(command, started)


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
        if isinstance(ended, Outcome) and ended.activity is not None:
            self._files |= dict.fromkeys(ended.activity.paths)
        self._ended.put((run, ended))
