"""The local runner: launches runs on this machine, each as a session of its own in a scratch folder of its own.

A run has a thread of its own, because hooks and program may take long.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from stripewise.errors import RunFailed, StripewiseError, UserError
from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import kinds_of
from stripewise.ownership import written_whole
from stripewise.requests.experiment import Experiment
from stripewise.runners import hooks
from stripewise.runners.judge import Evidence, judge
from stripewise.runners.local.scratch import Scratch, own_sessions, quote_output, reap
from stripewise.runners.local.supervision import (
    DEFAULT_LIMIT,
    Cause,
    Command,
    CommandLimits,
    Ended,
    OrphanGuard,
)
from stripewise.runners.program.command import shell_line, substitute
from stripewise.runners.program.target import Target
from stripewise.runners.program_runner import Assembled, ProgramRunner, Surroundings
from stripewise.runners.setup_lines import find_shell, write_script
from stripewise.trial import State

_MOST_AGAIN = 2
"""How often a run during which this process was stopped is made again."""


class LocalRun:
    """A planned run, from its folder to its outcome.

    Parameters
    ----------
    launch : Launch
    assembled : Assembled or UserError
        Its command, or why it can no longer be started.
    runner : LocalRunner
    """

    def __init__(self, launch: Launch, assembled: Assembled | UserError, runner: LocalRunner) -> None:
        self.launch = launch
        self._assembled = assembled
        self._runner = runner
        self._place = Scratch.of(runner.folder, launch)
        self._cancelled = False
        self._current: Command | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name=f"stripewise-run-{launch.number}", daemon=True)
        self._sessions: dict[str, str] = {}
        self.late = 0.0
        """Seconds for which this process was stopped meanwhile."""

    def start(self) -> None:
        """Write the run's folder and begin.

        Raises
        ------
        StripewiseError
            If the folder cannot be written.
        """
        if isinstance(self._assembled, Assembled):
            self._place.create(self._assembled.injection.files, {"command": list(self._assembled.words)})
        else:
            self._place.create({}, {"command": []})
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
            self._runner.take(self, outcome)

    def _carry_out(self) -> Outcome:
        ready = self._assembled
        if isinstance(ready, UserError):
            raise RunFailed(str(ready))
        with own_sessions(ready.target.mpi, ready.words, self._runner.found.environment) as self._sessions:
            return self._between_hooks(ready)

    def _between_hooks(self, assembled: Assembled) -> Outcome:
        around = self._runner.experiment.hooks
        patterns = [substitute(pattern, assembled.values) for pattern in around.delete]
        hooks.delete(patterns, self._runner.cwd, self._runner.deletes_in)
        for number, line in enumerate((*around.before, *self.launch.before), start=1):
            self._hook(assembled, "before", number, line)
        caches = hooks.empty_caches(around.drop_caches, self._runner.known_files)
        objectives = kinds_of(self._runner.experiment.objective)
        with ExitStack() as meters:
            metrics = [meters.enter_context(one.metered()) for one in objectives]
            ended = self._program(assembled)
        self.late = ended.late
        report, missing = self._place.read_report(self.launch.program)
        failure = ""
        for number, line in enumerate((*self.launch.after, *around.after), start=1):
            try:
                self._hook(assembled, "after", number, line)
            except RunFailed as failed:
                failure = failure or failed.what
        facts = RunFacts(cache=caches.state)
        if nodes := assembled.target.line.nodes:
            facts = facts.with_(nodes=nodes)
        if ended.behind:
            facts = facts.with_(behind=ended.behind)
        return judge(
            Evidence(
                launch=self.launch,
                place=self._place,
                ended=ended,
                report=report,
                missing=missing,
                injection=assembled.injection,
                objectives=objectives,
                metrics={name: value for measured in metrics for name, value in measured.items()},
                after=failure,
                notes=(*([caches.note] if caches.note else []), *ended.notes),
                facts=facts,
            )
        )

    def _run(self, command: Command, on_start: Callable[[int], None]) -> Ended:
        with self._lock:
            self._current = command
            if self._cancelled:
                command.cancel()
            else:
                self._runner.guard.start()
        try:
            return command.run(on_start)
        finally:
            self._runner.guard.over(self._place.run_id)

    def _guarded(self, pid: int) -> None:
        self._runner.guard.began(self._place.run_id, pid)

    def _command(
        self,
        assembled: Assembled,
        words: Sequence[str],
        base: Mapping[str, str],
        limits: CommandLimits,
        name: str = "",
        stdin: Path | None = None,
    ) -> Command:
        """Make the command of a hook, whose output has its name, or of the program."""
        environment = {
            **{name: value for name, value in base.items() if name not in self.launch.unset},
            **self._sessions,
            **assembled.exports,
            "STRIPEWISE_RUN": str(self.launch.number),
            "STRIPEWISE_RUN_FOLDER": str(self._place.path),
        }
        place = self._place
        outputs = (
            (place.path / f"{name}.stdout", place.path / f"{name}.stderr") if name else (place.stdout, place.stderr)
        )
        return Command(
            words,
            environment,
            run_id=place.run_id,
            outputs=outputs,
            cwd=self._runner.cwd,
            limits=limits,
            stdin=stdin,
        )

    def _hook(self, assembled: Assembled, when: str, number: int, line: str) -> None:
        name, limit = f"{when}.{number}", self._runner.experiment.hooks.timeout
        words = [find_shell(), "-c", shell_line(line, assembled.values)]
        limits = CommandLimits(timeout=limit, output=self._runner.output_limit)
        command = self._command(assembled, words, self._runner.found.environment, limits, name)
        ended = self._run(command, self._guarded)
        if ended.cause is Cause.TIMEOUT:
            raise RunFailed(f"the {when} hook '{line}' did not end within {limit:g} s")
        if ended.exit_code or ended.error:
            words_of_it = quote_output(self._place.path / f"{name}.stderr", self._place.path / f"{name}.stdout")
            how = ended.error or f"exit code {ended.exit_code}"
            raise RunFailed(f"the {when} hook '{line}' ended with {how}{words_of_it}")

    def _program(self, assembled: Assembled) -> Ended:
        setup, words = self._runner.experiment.setup, assembled.words
        limits = CommandLimits(
            timeout=self.launch.timeout,
            bound=self.launch.bound,
            setup=self._runner.experiment.hooks.timeout,
            output=self._runner.output_limit,
        )

        def started(pid: int) -> None:
            self._guarded(pid)
            with contextlib.suppress(OSError):
                # The record that was written before lacks the process number, but its marker is enough to reap by.
                self._place.note({"command": list(words)}, pid)

        if not setup:
            environment = self._runner.found.environment
            return self._run(self._command(assembled, words, environment, limits, stdin=assembled.stdin), started)
        ready = os.pipe()
        path = self._place.path / "run.sh"
        with written_whole(path) as part:
            part.write_text(write_script(setup, assembled.exports, words, ready[1], assembled.stdin), "utf-8")
        command = self._command(assembled, [find_shell(), str(path)], self._runner.environment, limits)
        command.time_from(ready)
        return self._run(command, started)


class LocalRunner(ProgramRunner):
    """Runs the experiment's command on this machine.

    The program keeps its user's working folder; its run's own folder is ``STRIPEWISE_RUN_FOLDER`` in its environment
    and ``{run_folder}`` in its command.
    """

    name = "local"
    output_limit: int = DEFAULT_LIMIT
    """Bytes kept of each run's standard output and of its standard error."""

    def __init__(self, experiment: Experiment, folder: Path, surroundings: Surroundings | None = None) -> None:
        super().__init__(experiment, folder, surroundings)
        self.guard = OrphanGuard()
        self._ended: queue.Queue[tuple[LocalRun, Outcome | StripewiseError]] = queue.Queue()
        self._under_way: dict[int, LocalRun] = {}
        self._made_again: dict[int, tuple[str, ...]] = {}

    def start(self, launch: Launch) -> None:
        """Begin a run; see :class:`Runner`."""
        if launch.number in self._under_way:
            raise StripewiseError(f"run {launch.number} is under way already", "poll or cancel it first")
        self.found  # noqa: B018  what is wrong with the command as such is raised
        assembled: Assembled | UserError
        try:
            target = self.target_of(launch)
        except UserError as error:
            # The program was there at the preflight; it may be back for the next run.
            assembled = error
        else:
            assembled = self.assemble(launch, self._placed(launch, target))
        run = LocalRun(launch, assembled, self)
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
            again = self._made_again.pop(run.launch.number, ())
            if (seconds := run.late) and len(again) < _MOST_AGAIN:
                said = f"stripewise was stopped for {seconds:.1f} s while it ran, so its time said nothing: made again"
                LocalRunner.start(self, run.launch)  # a subclass has placed it
                self._made_again[run.launch.number] = (*again, said)
                continue
            if seconds:
                reason = f"stripewise was stopped while it ran, each of {len(again) + 1} times"
                ended = replace(ended, state=State.FAILED, reason=reason)
            if again:
                ended = replace(ended, facts=ended.facts.with_(notes=[*again, *ended.facts.notes]))
            outcomes.append(ended)
        return outcomes

    def cancel(self, number: int) -> None:
        """End a run without an outcome; see :class:`Runner`."""
        run = self._under_way.pop(number, None)
        if run is not None:
            run.cancel(wait=True)

    def reap(self, launch: Launch) -> None:
        """End what an earlier process left of a planned run; see :class:`Runner`."""
        reap(self.folder, launch)

    def close(self) -> None:
        """End all runs under way."""
        for run in self._under_way.values():
            run.cancel(wait=False)
        for number in list(self._under_way):
            self.cancel(number)
        self.guard.close()

    def _placed(self, launch: Launch, target: Target) -> Target:
        """Say where a run takes place: here, by whatever launcher the command has."""
        return target

    def take(self, run: LocalRun, ended: Outcome | StripewiseError) -> None:
        """Take the outcome of a run, from its thread."""
        if isinstance(ended, Outcome):
            self._remember_files(ended)
        self._ended.put((run, ended))
