"""The local runner: launches runs on this machine, each as a session of its own in a scratch folder of its own."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stripewise.errors import RunFailed, StripewiseError, UserError
from stripewise.runner import hooks, scratch
from stripewise.runner.assemble import Assembled, assemble, defaults_of, values_of, words_of
from stripewise.runner.base import Preflight, Runner
from stripewise.runner.command import substitute
from stripewise.runner.judge import Evidence, judge
from stripewise.runner.local_preflight import Found, find
from stripewise.runner.output import DEFAULT_LIMIT
from stripewise.runner.preflight import Target, look
from stripewise.runner.scratch import Scratch
from stripewise.runner.setup import script, shell
from stripewise.runner.supervise import Cause, Command, Ended, Limits
from stripewise.spec.experiment import Experiment
from stripewise.spec.launch import Launch, Outcome
from stripewise.spec.trial import State


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
    ) -> None:
        self._experiment = experiment
        self._folder = folder.absolute()
        self._runtime = runtime
        self._cwd = cwd or Path.cwd()
        self._environment = dict(os.environ if environment is None else environment)
        self._output_limit = output_limit
        self._found: Found | None = None
        self._ended: queue.Queue[tuple[_Task, Outcome | StripewiseError]] = queue.Queue()
        self._under_way: dict[int, _Task] = {}
        self._files: dict[Path, None] = {}

    def prepare(self) -> Preflight:
        """Check the command, find its MPI, build or find the runtime; see :class:`Runner`."""
        self._found = find(self._experiment, self._environment, self._cwd, self._runtime)
        return self._found.preflight

    def start(self, launch: Launch) -> None:
        """Begin a run; see :class:`Runner`."""
        if self._found is None:
            self.prepare()
        assert self._found is not None
        if launch.number in self._under_way:
            raise StripewiseError(f"run {launch.number} is under way already", "poll or cancel it first")
        place = Scratch.of(self._folder, launch)
        values = defaults_of(self._experiment)
        words = words_of(self._experiment, launch, values, place)
        try:
            target: Target | UserError = look(words, self._found.environment, self._cwd)
        except UserError as error:
            # The program was there at the preflight; it may be back for the next run.
            target = error
        task = _Task(self, launch, place, target, values_of(launch, values, place))
        place.create(task.files(), {"command": list(task.words)})
        self._under_way[launch.number] = task
        task.thread.start()

    def poll(self, timeout: float) -> list[Outcome]:
        """Wait for ended runs; see :class:`Runner`."""
        outcomes: list[Outcome] = []
        deadline = time.monotonic() + max(0.0, timeout)
        while self._under_way:
            try:
                task, ended = self._ended.get(timeout=0 if outcomes else max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            if self._under_way.get(task.launch.number) is not task:
                continue
            del self._under_way[task.launch.number]
            if isinstance(ended, StripewiseError):
                raise ended
            outcomes.append(ended)
        return outcomes

    def cancel(self, number: int) -> None:
        """End a run without an outcome; see :class:`Runner`."""
        task = self._under_way.pop(number, None)
        if task is not None:
            task.cancel()
            task.thread.join()

    def reap(self, launch: Launch) -> None:
        """End what an earlier process left of a planned run; see :class:`Runner`."""
        scratch.reap(self._folder, launch)

    def close(self) -> None:
        """End all runs under way."""
        for task in self._under_way.values():
            task.cancel()
        for number in list(self._under_way):
            self.cancel(number)

    # -- for the tasks ---------------------------------------------------------------------------------------

    @property
    def found(self) -> Found:
        """What the preflight found."""
        assert self._found is not None
        return self._found

    @property
    def experiment(self) -> Experiment:
        """The experiment."""
        return self._experiment

    @property
    def cwd(self) -> Path:
        """Where the program runs."""
        return self._cwd

    @property
    def base_environment(self) -> dict[str, str]:
        """What the setup lines start from."""
        return self._environment

    @property
    def output_limit(self) -> int:
        """Bytes kept of each output."""
        return self._output_limit

    @property
    def files(self) -> list[Path]:
        """Files that runs were seen to use."""
        return list(self._files)

    def ended(self, task: _Task, outcome: Outcome | StripewiseError) -> None:
        """Take a task's outcome."""
        if isinstance(outcome, Outcome) and outcome.report is not None:
            for entry in outcome.report.get("files", []):
                if isinstance(entry, dict) and str(entry.get("path", "")).startswith("/"):
                    self._files[Path(entry["path"])] = None
        self._ended.put((task, outcome))


class _Task:
    """One run: hooks, the program, hooks; in a thread of its own, since each of them may take its time."""

    def __init__(
        self, runner: LocalRunner, launch: Launch, place: Scratch, target: Target | UserError, values: dict[str, str]
    ) -> None:
        self.launch = launch
        self.thread = threading.Thread(target=self._work, name=f"stripewise-run-{launch.number}", daemon=True)
        self._runner = runner
        self._place = place
        self._values = values
        self._target = target
        self._notes: list[str] = []
        self._cancelled = False
        self._current: Command | None = None
        self._lock = threading.Lock()
        self._assembled: Assembled | None = None
        if isinstance(target, Target):
            library = runner.found.library_for(target)
            self._assembled = assemble(launch, target.line, target.program, library, place)

    @property
    def words(self) -> tuple[str, ...]:
        """The command as it is started."""
        return self._assembled.words if self._assembled else ()

    def files(self) -> dict[str, str]:
        """What must be in the run's folder beforehand."""
        return dict(self._assembled.injection.files) if self._assembled else {}

    def cancel(self) -> None:
        """End whatever is going on."""
        with self._lock:
            self._cancelled = True
            if self._current is not None:
                self._current.cancel()

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
            outcome = StripewiseError(what, "make room or mend the folder of the runs, then resume")
        if not self._cancelled:
            self._runner.ended(self, outcome)

    def _carry_out(self) -> Outcome:
        experiment = self._runner.experiment
        if isinstance(self._target, UserError) or self._assembled is None:
            raise RunFailed(str(self._target))
        hooks.delete([self._fill(pattern) for pattern in experiment.hooks.delete], self._runner.cwd)
        for number, line in enumerate(experiment.hooks.before, start=1):
            self._hook("before", number, line)
        caches = hooks.empty_caches(experiment.hooks.drop_caches, self._runner.files)
        self._notes += [caches.note] if caches.note else []
        ended = self._program(self._assembled)
        report, missing = self._place.read_report()
        failure = ""
        for number, line in enumerate(experiment.hooks.after, start=1):
            try:
                self._hook("after", number, line)
            except RunFailed as failed:
                failure = failure or failed.what
        nodes = self._target.line.nodes
        return judge(
            Evidence(
                launch=self.launch,
                place=self._place,
                ended=ended,
                report=report,
                missing=missing,
                injection=self._assembled.injection,
                objective=experiment.objective.name,
                after=failure,
                notes=(*self._notes, *ended.notes),
                facts={"cache": caches.state, **({"nodes": nodes} if nodes else {})},
            )
        )

    def _fill(self, text: str) -> str:
        return substitute(text, self._values)

    def _run(self, command: Command, **options: Any) -> Ended:
        with self._lock:
            self._current = command
            if self._cancelled:
                command.cancel()
        return command.run(**options)

    def _environment(self, base: Mapping[str, str]) -> dict[str, str]:
        return {
            **{name: value for name, value in base.items() if name not in self.launch.unset},
            "STRIPEWISE_RUN": str(self.launch.number),
            "STRIPEWISE_RUN_FOLDER": str(self._place.path),
        }

    def _hook(self, when: str, number: int, line: str) -> None:
        name = f"{when}.{number}"
        command = Command(
            [shell(), "-c", self._fill(line)],
            self._environment(self._runner.found.environment),
            run_id=self._place.run_id,
            folder=self._place.path,
            cwd=self._runner.cwd,
            limits=Limits(timeout=self._runner.experiment.hooks.timeout, output=self._runner.output_limit),
            name=name,
        )
        ended = self._run(command)
        if ended.cause is Cause.TIMEOUT:
            raise RunFailed(f"the {when} hook '{line}' did not end within {self._runner.experiment.hooks.timeout:g} s")
        if ended.exit_code or ended.error:
            said = scratch.said(self._place.path / f"{name}.stderr", self._place.path / f"{name}.stdout")
            raise RunFailed(
                f"the {when} hook '{line}' ended with {ended.error or f'exit code {ended.exit_code}'}{said}"
            )

    def _program(self, assembled: Assembled) -> Ended:
        experiment = self._runner.experiment
        limits = Limits(
            timeout=self.launch.timeout,
            bound=self.launch.bound,
            setup=experiment.hooks.timeout,
            output=self._runner.output_limit,
        )
        words, environment, ready = list(assembled.words), self._runner.found.environment, None
        if experiment.setup:
            ready = os.pipe()
            text = script(experiment.setup, experiment.env, words, ready[1])
            scratch.write_atomically(self._place.path / "run.sh", text)
            words, environment = [shell(), str(self._place.path / "run.sh")], self._runner.base_environment
        command = Command(
            words,
            self._environment(environment),
            run_id=self._place.run_id,
            folder=self._place.path,
            cwd=self._runner.cwd,
            limits=limits,
            ready=ready,
        )
        about = {"command": list(assembled.words)}
        return self._run(command, on_start=lambda pid: self._place.note(about, pid))
