"""The queue of a scheduler as the runner sees it: jobs go in, and it says where they stand.

It writes scripts to disk, submits them and asks for the states of all jobs together. The scheduler's class says how.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from stripewise.errors import StripewiseError, TransientError, UserError
from stripewise.interpreter import ask, inherit_environment
from stripewise.requests.experiment import Batch
from stripewise.runners.schedulers.job import UNKNOWN, JobPhase, JobRequest, Standing, Ticket
from stripewise.runners.schedulers.registry import make_scheduler
from stripewise.shell import job_identifier

COMMAND_SECONDS = 60.0
"""A command that takes longer has failed: the scheduler's daemon may be restarting."""
_OPTIONAL_SECONDS = 300.0
_AWAY_SECONDS = 5.0
"""A command that takes longer waited for the daemon; otherwise it takes a fraction of this."""


class JobQueue:
    """The queue of one scheduler.

    Parameters
    ----------
    batch : Batch
    folder : Path
        Where job scripts are kept; the scheduler's daemon must see it.
    environment : mapping
        For finding the scheduler's commands.
    """

    def __init__(self, batch: Batch, folder: Path, environment: Mapping[str, str]) -> None:
        self.batch = batch
        self.scheduler = make_scheduler(batch.scheduler)
        self._folder = folder
        left_out = self.scheduler.misleading
        inherited = inherit_environment(environment)
        self._environment = {name: value for name, value in inherited.items() if not name.startswith(left_out)}
        self._standings: dict[Ticket, Standing] = {}
        self._submitting: set[str] = set()
        self._interrupted: dict[Ticket, str] = {}
        self._watching: threading.Event | None = None
        self._broken: Exception | None = None
        self._lock = threading.Lock()
        self._skip_optional = 0.0
        self._asking: list[tuple[float, float]] = []
        self._absences: list[tuple[float, float]] = []

    def check(self) -> None:
        """Refuse, before the first run, a scheduler that is not here.

        Raises
        ------
        UserError
            With the command that is missing.
        """
        command = self.scheduler.programs[0]
        if shutil.which(command, path=self._environment.get("PATH")) is None:
            raise UserError(
                f"runner batch submits to {self.batch.scheduler}, but there is no {command} here",
                "run on a login node, load the scheduler's module, or set scheduler under [batch]",
            )

    def submit(self, request: JobRequest) -> Ticket:
        """Submit a job.

        Raises
        ------
        StripewiseError
            If the scheduler refuses the job, or does not answer: then the job may be in its queue or not.
        """
        with self._lock:
            self._submitting.add(request.name)
        try:
            return self._watched(Ticket(self._submitted(request), request.name))
        finally:
            with self._lock:
                self._submitting.discard(request.name)

    def _submitted(self, request: JobRequest) -> str:
        script = self._script(request.name).absolute()
        try:
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_text(self.scheduler.script(request), "utf-8")
        except OSError as error:
            raise StripewiseError(
                f"cannot write the job script of {request.name}: {error.strerror}",
                "make room, then continue with: stripewise resume ID",
            ) from error
        done = self.call([*self.scheduler.submit_words, str(script)])
        identifier = "" if done.returncode else self.scheduler.identifier(done.stdout)
        if not identifier:
            said = _first_line(f"{done.stdout}\n{done.stderr}") or "it printed nothing"
            why = said if done.returncode else f"it did not name the job: {said}"
            raise StripewiseError(
                f"the scheduler refused the job: {why}", "correct the directives, the [batch] table or the limits"
            )
        return identifier

    def attach(self, identifier: str, name: str) -> Ticket:
        """Take up a job that an earlier process submitted."""
        job_identifier(identifier)
        return self._watched(Ticket(identifier, name))

    def standing(self, ticket: Ticket) -> Standing:
        """Say where a job stands.

        Raises
        ------
        TransientError
            If the scheduler does not answer.
        """
        with self._lock:
            standing, broken = self._standings[ticket], self._broken
        if broken is not None:
            raise broken
        # A job that has left the list is over, and only some schedulers say how it ended.
        if standing.phase is JobPhase.OVER and self.scheduler.lookups(ticket.identifier):
            return self._looked_up(ticket.identifier)
        return standing

    def cancel(self, ticket: Ticket) -> None:
        """Ask for the end of a job, which may take a while.

        Raises
        ------
        TransientError
            If the scheduler does not answer.
        """
        done = self.call([*self.scheduler.cancel_words, ticket.identifier])
        said = f"{done.stdout}\n{done.stderr}"
        if done.returncode and not self.scheduler.gone.search(said):
            why = _first_line(said) or f"{done.args[0]} failed"
            raise TransientError(f"cannot cancel job {ticket.identifier}: {why}")

    def gone(self, ticket: Ticket) -> bool | None:
        """Whether nothing of a job runs or will run; None if the scheduler does not say."""
        if not self.scheduler.lookups(ticket.identifier):
            with self._lock:
                return True if self._standings[ticket].phase is JobPhase.OVER else None
        try:
            return self._looked_up(ticket.identifier).phase is JobPhase.OVER
        except TransientError:
            return None

    def named(self, name: str) -> list[str] | None:
        """List the jobs with a name that are not over; None if the scheduler cannot tell.

        Raises
        ------
        TransientError
            If the scheduler does not answer.
        """
        words = self.scheduler.find(name)
        if not words:
            return None
        done = self.call(words)
        found = self.scheduler.found(done)
        if found is None:
            raise TransientError(
                f"{words[0]} failed: {done.stderr.strip()}", f"{self.scheduler.title} may be restarting"
            )
        return found

    def away(self, since: float, until: float) -> bool:
        """Whether a launcher may have waited for the scheduler's daemon between two times (epoch seconds)."""
        now = time.monotonic()
        with self._lock:
            waiting = [(at, at + now - mark) for at, mark in self._asking if now - mark > _AWAY_SECONDS]
            return any(began <= until and ended >= since for began, ended in (*self._absences, *waiting))

    def interrupted(self, ticket: Ticket) -> str:
        """Say how a job was interrupted at some time; see :class:`Standing`. Empty if it was not, or nobody knows."""
        with self._lock:
            seen = self._interrupted.get(ticket, "")
        try:
            return seen or self._looked_up(ticket.identifier).interrupted
        except TransientError:
            return ""

    def call(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run one of the scheduler's commands for a limited time, and remember when the daemon did not answer."""
        if words[0] not in self.scheduler.waits:
            return self._run(words)
        asked = time.time(), time.monotonic()
        with self._lock:
            self._asking.append(asked)
        done = self._run(words)
        took = time.monotonic() - asked[1]
        with self._lock:
            self._asking.remove(asked)
            if took > _AWAY_SECONDS or self.scheduler.silent(done):
                self._absences.append((asked[0], asked[0] + took))
        return done

    def close(self) -> None:
        """Stop watching; jobs go on."""
        with self._lock:
            watching, self._watching = self._watching, None
        if watching is not None:
            watching.set()

    # -- parts -----------------------------------------------------------------------------------------------------

    def _run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return ask(words, COMMAND_SECONDS, self._environment)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(
                list(words), 1, "", f"{words[0]} did not answer in {COMMAND_SECONDS:g} s"
            )
        except OSError as error:
            return subprocess.CompletedProcess(list(words), 1, "", f"cannot run {words[0]}: {error.strerror}")

    def _looked_up(self, identifier: str) -> Standing:
        for lookup in self.scheduler.lookups(identifier):
            if lookup.optional and time.monotonic() < self._skip_optional:
                continue
            done = self.call(lookup.words)
            found = lookup.read(done)
            if found is not None:
                return found
            if lookup.optional and done.returncode:
                self._skip_optional = time.monotonic() + _OPTIONAL_SECONDS
        return UNKNOWN

    def _script(self, name: str) -> Path:
        return self._folder / f"{name}.job"

    def _watched(self, ticket: Ticket) -> Ticket:
        """Ask for the state of a job from now on, in a thread of its own: a command may wait for the daemon."""
        with self._lock:
            self._standings[ticket] = Standing(JobPhase.QUEUED)
            if self._watching is None:
                self._watching = threading.Event()
                threading.Thread(target=self._watch, args=(self._watching,), name="job queue", daemon=True).start()
        return ticket

    def _watch(self, closed: threading.Event) -> None:
        while not closed.is_set():
            try:
                self._update()
            except Exception as error:
                # Raised to whoever asks for a job: otherwise nobody would know that no job is watched any more.
                self._broken = error
                return
            closed.wait(self.batch.poll)

    def _update(self) -> None:
        """Ask the scheduler where all jobs stand that are not over; if it does not answer, they stand as before."""
        with self._lock:
            open_ = [ticket for ticket, found in self._standings.items() if found.phase is not JobPhase.OVER]
        if not open_:
            return
        done = self.call(self.scheduler.status(list(dict.fromkeys(ticket.identifier for ticket in open_))))
        if done.returncode:
            return
        try:
            found = self.scheduler.standings(done.stdout)
        except ValueError:
            return
        for ticket in open_:
            standing = found.get(ticket.identifier, Standing(JobPhase.OVER))
            with self._lock:
                self._standings[ticket] = standing
                if standing.interrupted:
                    self._interrupted[ticket] = standing.interrupted
                self._drop_script(ticket.name)

    def _drop_script(self, name: str) -> None:
        """Delete the script of jobs that are over, unless one that is submitted again has taken its place."""
        live = {ticket.name for ticket, found in self._standings.items() if found.phase is not JobPhase.OVER}
        if name not in live | self._submitting:
            with contextlib.suppress(OSError):
                self._script(name).unlink(missing_ok=True)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
