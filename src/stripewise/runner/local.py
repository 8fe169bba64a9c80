"""The local runner: launches runs on this machine, each as a session of its own in a scratch folder of its own."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stripewise.errors import StripewiseError
from stripewise.runner import processes, scratch
from stripewise.runner.base import Preflight, Runner
from stripewise.runner.output import DEFAULT_LIMIT
from stripewise.runner.reasons import exit_reason
from stripewise.runner.scratch import Scratch
from stripewise.runner.supervise import Cause, Command, Ended, Limits
from stripewise.spec.experiment import Experiment
from stripewise.spec.launch import Launch, Outcome
from stripewise.spec.trial import State


class LocalRunner(Runner):
    """Runs the experiment's command on this machine.

    Parameters
    ----------
    experiment : Experiment
    folder : Path
        Where the runs' scratch folders are made.
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
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._experiment = experiment
        self._folder = Path(experiment.scratch) if experiment.scratch else folder
        self._cwd = cwd or Path.cwd()
        self._environment = dict(os.environ if environment is None else environment)
        self._output_limit = output_limit
        self._ended: queue.Queue[Outcome | StripewiseError] = queue.Queue()
        self._under_way: dict[int, tuple[Command, threading.Thread]] = {}

    def prepare(self) -> Preflight:
        """Check the command; see :class:`Runner`."""
        return Preflight({"command": list(self._experiment.command)})

    def start(self, launch: Launch) -> None:
        """Begin a run; see :class:`Runner`."""
        place = Scratch.of(self._folder, launch)
        words = list(self._experiment.command)
        place.create({"plan": launch.plan.text()}, {"command": words})
        environment = {
            **self._environment,
            **self._experiment.env,
            "STRIPEWISE_RUN": str(launch.number),
            "STRIPEWISE_RUN_FOLDER": str(place.path),
        }
        limits = Limits(timeout=launch.timeout, bound=launch.bound, output=self._output_limit)
        command = Command(words, environment, run_id=place.run_id, folder=place.path, cwd=self._cwd, limits=limits)
        thread = threading.Thread(target=self._perform, args=(launch, place, command, words), daemon=True)
        self._under_way[launch.number] = (command, thread)
        thread.start()

    def poll(self, timeout: float) -> list[Outcome]:
        """Wait for ended runs; see :class:`Runner`."""
        outcomes: list[Outcome] = []
        while self._under_way:
            try:
                ended = self._ended.get(timeout=0 if outcomes else max(0.0, timeout))
            except queue.Empty:
                break
            if isinstance(ended, StripewiseError):
                raise ended
            if self._under_way.pop(ended.number, None):
                outcomes.append(ended)
        return outcomes

    def cancel(self, number: int) -> None:
        """End a run without an outcome; see :class:`Runner`."""
        found = self._under_way.pop(number, None)
        if found:
            found[0].cancel()
            found[1].join()

    def reap(self, launch: Launch) -> None:
        """End what an earlier process left of a planned run; see :class:`Runner`."""
        reap(self._folder, launch)

    def close(self) -> None:
        """End all runs under way."""
        for command, _ in self._under_way.values():
            command.cancel()
        for number in list(self._under_way):
            self.cancel(number)

    # -- one run ---------------------------------------------------------------------------------------------

    def _perform(self, launch: Launch, place: Scratch, command: Command, words: list[str]) -> None:
        try:
            ended = command.run(lambda pid: place.note({"command": words}, pid))
            if ended.cause is not Cause.CANCELLED:
                self._ended.put(self._outcome(launch, place, ended))
        except OSError as error:
            self._ended.put(
                StripewiseError(f"run {launch.number}: {error}", "mend the folder of the runs, then resume")
            )

    def _outcome(self, launch: Launch, place: Scratch, ended: Ended) -> Outcome:
        report, missing = place.read_report()
        state, reason = State.FINISHED, ""
        if ended.cause is Cause.NOT_STARTED:
            state, reason = State.FAILED, f"cannot start the command: {ended.error}"
        elif ended.cause is Cause.TIMEOUT:
            state, reason = State.FAILED, f"still running after its time limit of {launch.timeout:g} s"
        elif ended.cause is Cause.BOUND:
            state, reason = State.PRUNED, f"stopped after {launch.bound:g} s: it could not become interesting any more"
        elif ended.exit_code:
            state, reason = State.FAILED, exit_reason(ended.exit_code, place.stdout, place.stderr)
        facts: dict[str, Any] = {"notes": list(ended.notes)} if ended.notes else {}
        if report is None:
            facts["no_report"] = missing
        return Outcome(
            number=launch.number,
            state=state,
            elapsed=ended.elapsed,
            started=ended.started,
            reason=reason,
            exit_code=ended.exit_code,
            report=report,
            folder=place.path,
            facts=facts,
        )


def reap(folder: Path, launch: Launch) -> None:
    """Make sure that no process of a planned run is left on this host.

    Raises
    ------
    StripewiseError
        If it was started on another host, or its processes cannot be ended.
    """
    session = None
    for data in scratch.earlier(folder, launch):
        host, boot = data.get("host"), data.get("boot")
        if host != processes.host_name():
            raise StripewiseError(
                f"run {launch.number} was started on host {host}, out of reach of {processes.host_name()}",
                f"resume on {host}, or make sure that the run is over there and delete its folder under {folder}",
            )
        if boot == processes.boot_id() and "pid" in data:
            try:
                identity = processes.Identity.read(data)
            except ValueError:
                continue
            session = identity.pid if identity.alive else session
    left = processes.end(scratch.run_id(folder, launch), session)
    if left:
        numbers = ", ".join(str(line.pid) for line in left)
        raise StripewiseError(
            f"run {launch.number}: its process(es) {numbers} of an earlier attempt cannot be ended",
            "end them by hand, then resume",
        )
