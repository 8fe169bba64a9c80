"""One run as a job: it is submitted, watched and judged, and submitted again if the machine lost it."""

from __future__ import annotations

import contextlib
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from stripewise.errors import StripewiseError, TransientError
from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.observe.objectives import ObjectiveKind
from stripewise.runners.batch.script import (
    EndRecord,
    StartRecord,
    clear_records,
    give_up_run,
    read_end,
    read_start,
)
from stripewise.runners.injection import Injection
from stripewise.runners.judge import Evidence, judge, refuse_full
from stripewise.runners.local.scratch import Scratch
from stripewise.runners.program_runner import Assembled
from stripewise.runners.schedulers.job import UNKNOWN, JobPhase, JobRequest, Standing, Ticket
from stripewise.runners.schedulers.queue import JobQueue
from stripewise.trial import State

_BUSY = re.compile(
    r"contact|timed out|did not answer|try again|temporar|connection|communication|unavailable|not respond|"
    r"submit limit|MaxSubmit|busy",
    re.IGNORECASE,
)
"""What schedulers print when they may accept a later submission."""
_RETRY_SECONDS = 5.0
_GRACE_CERTAIN = 5.0
GRACE = 60.0
"""On network file systems another host sees a new file after up to a minute."""


class BatchJob:
    """A planned run on its way through a scheduler.

    Parameters
    ----------
    assembled : Assembled
        With its script in its folder.
    request : JobRequest
    queue : JobQueue
    objectives : tuple of ObjectiveKind
        The objective, and what it is subject to.
    nodes : int
        Nodes that a run occupies, if the job does not say.
    grace : float
        Seconds to wait for the record of a job that seems to be over.
    """

    def __init__(
        self,
        assembled: Assembled,
        request: JobRequest,
        queue: JobQueue,
        objectives: tuple[ObjectiveKind, ...],
        nodes: int,
        grace: float,
    ) -> None:
        self.launch = assembled.launch
        self.place = assembled.place
        self._assembled = assembled
        self._request = request
        self._queue = queue
        self._objectives = objectives
        self._nodes = nodes
        self._grace = grace
        self._ticket: Ticket | None = None
        self._submitted = time.time()
        self._next_try = 0.0
        self._doubtful = False
        self._silent_since: float | None = None
        self._over_since: float | None = None
        self._tries = 0
        self._past: set[str] = set()
        self._notes: list[str] = []
        self._lost_hours = 0.0
        self._queued = 0.0

    @property
    def waiting(self) -> bool:
        """Whether the run has not started yet."""
        return read_start(self.place.path) is None

    def look(self) -> Outcome | None:
        """Take the run one step further; give its outcome once there is one.

        Raises
        ------
        TransientError
            If the scheduler has not answered for longer than the experiment's patience.
        StripewiseError
            If it refuses the job.
        """
        ended = read_end(self.place.path)
        if ended is not None:
            return self._judge(ended)
        try:
            if self._ticket is None:
                self._submit()
                return None
            standing = self._queue.standing(self._ticket)
        except TransientError as error:
            self._bear_silence(error)
            return None
        self._silent_since = None
        return self._conclude(standing) if standing.phase is JobPhase.OVER else None

    def cancel(self) -> None:
        """Ask for the end of the job; :meth:`gone` says whether it has ended."""
        owner = give_up_run(self.place.path)
        tickets = [self._ticket] if self._ticket is not None else []
        if owner and all(ticket.identifier != owner for ticket in tickets):
            tickets.append(self._queue.attach(owner, self._request.name))
        if self._doubtful and not tickets:
            tickets = [self._queue.attach(job, self._request.name) for job in self._named()]
        for ticket in tickets:
            self._ticket = ticket
            self._queue.cancel(ticket)

    def gone(self) -> bool | None:
        """Whether nothing of the job runs; None if the scheduler does not say."""
        return True if self._ticket is None else self._queue.gone(self._ticket)

    # -- parts ---------------------------------------------------------------------------------------------------

    def _named(self) -> list[str]:
        return self._queue.named(self._request.name) or []

    def _submit(self) -> None:
        now = time.monotonic()
        if now < self._next_try:
            return
        self._next_try = now + _RETRY_SECONDS
        if self._doubtful:
            # The scheduler may have accepted a submission without answering: a run must not have two jobs.
            found = [job for job in self._named() if job not in self._past]
            if found:
                self._note_job(self._queue.attach(found[0], self._request.name))
                return
        self._submitted = time.time()
        try:
            ticket = self._queue.submit(self._request)
        except TransientError:
            self._doubtful = True
            raise
        except StripewiseError as error:
            if not _BUSY.search(error.what):
                raise
            self._doubtful = True
            raise TransientError(
                error.what, "the scheduler may be restarting, or its limit of jobs is reached"
            ) from error
        self._note_job(ticket)

    def _note_job(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._silent_since = self._over_since = None
        with contextlib.suppress(OSError):
            # After a crash the job is found by its name, which was noted before.
            self.place.note(self.record())

    def record(self) -> dict[str, Any]:
        """Describe the job for the run's ``process.json``."""
        return {
            "command": list(self._assembled.words),
            "plan": self.launch.plan.text(),
            "scheduler": self._request.batch.scheduler,
            "name": self._request.name,
            "job": self._ticket.identifier if self._ticket else None,
        }

    def _bear_silence(self, error: TransientError) -> None:
        """Wait for a scheduler that does not answer, for as long as the experiment allows."""
        now = time.monotonic()
        if self._silent_since is None:
            self._silent_since = now
        if now - self._silent_since > self._request.batch.patience:
            raise TransientError(
                f"{error.what}, for {self._request.batch.patience:g} s", "resume when the scheduler answers again"
            ) from error

    def _conclude(self, standing: Standing) -> Outcome | None:
        """Decide on a job that left no record of its end, although the scheduler says that it is over."""
        now = time.monotonic()
        if self._over_since is None:
            self._over_since = now
        # A job that is not known to have failed may have finished, and its record may still be on its way.
        certain = standing.why and standing is not UNKNOWN
        if now - self._over_since < (min(_GRACE_CERTAIN, self._grace) if certain else self._grace):
            return None
        ended = read_end(self.place.path)
        if ended is not None:
            return self._judge(ended)
        assert self._ticket is not None
        if not standing.why:
            refuse_full(self.launch, self.place.path, "its job ended without leaving a result")
        began = read_start(self.place.path)
        seconds = max(0.0, time.time() - began.time) if began else 0.0
        self._charge(began, seconds)
        why = standing.why or "its job ended without leaving a result"
        if standing.lost and self._tries < self._request.batch.retries:
            self._submit_again(why)
            return None
        return Outcome(
            number=self.launch.number,
            state=State.FAILED,
            elapsed=seconds,
            started=began.time if began else time.time(),
            reason=f"{why} (job {self._ticket.identifier})",
            folder=self.place.path,
            facts=self._facts(began, 0.0),
        )

    def _judge(self, ended: EndRecord) -> Outcome | None:
        """Judge a run by its record, unless its job or its launcher may have waited for the scheduler.

        A step that srun (22.05) starts while the controller is away waits 130 s, which says nothing about the settings.
        """
        began = read_start(self.place.path)
        by_time = ended.cause in ("timeout", "bound") or self._objectives[0].wall_time
        silent = by_time and began is not None and self._queue.away(began.time, began.time + ended.seconds)
        interrupted = self._queue.interrupted(self._ticket) if self._ticket is not None else ""
        why = f"the scheduler {interrupted} its job, so its time says nothing"
        silence = "the scheduler did not answer while it ran, which its launcher may have waited for"
        doubt = why if interrupted else silence if silent else ""
        if doubt and self._tries < self._request.batch.retries:
            self._charge(began, ended.seconds)
            self._submit_again(doubt)
            return None
        if began is not None:
            self._queued += max(0.0, began.time - self._submitted)
        outcome = outcome_of(
            self.launch,
            self.place,
            ended,
            self._assembled.injection,
            self._objectives,
            self._facts(began, ended.seconds),
            tuple(self._notes),
        )
        if interrupted and outcome.state is State.FINISHED:
            return replace(outcome, state=State.FAILED, reason=why)
        return outcome

    def _submit_again(self, why: str) -> None:
        """Submit the run again. Its job is finished or lost, which the scheduler may not have noticed yet."""
        job = f" (job {self._ticket.identifier})" if self._ticket else ""
        if self._ticket is not None:
            self._past.add(self._ticket.identifier)
        self._tries += 1
        self._notes.append(f"{why}{job}: submitted again")
        clear_records(self.place.path)
        self._ticket, self._next_try, self._doubtful = None, 0.0, False
        self._over_since = None

    def _charge(self, began: StartRecord | None, seconds: float) -> None:
        """Count what a job without a result has used."""
        if began is not None:
            self._queued += max(0.0, began.time - self._submitted)
            self._lost_hours += (began.nodes or self._nodes) * seconds / 3600

    def _facts(self, began: StartRecord | None, seconds: float) -> RunFacts:
        nodes = (began.nodes if began else None) or self._nodes
        facts = RunFacts(
            nodes=nodes,
            node_hours=self._lost_hours + nodes * seconds / 3600,
            queue_seconds=self._queued,
            scheduler=self._request.batch.scheduler,
        )
        if self._ticket is not None:
            facts = facts.with_(job=self._ticket.identifier)
        if began is not None:
            facts = facts.with_(node_list=began.node_list)
        if began is not None and began.restart:
            facts = facts.with_(requeues=began.restart)
        if self._tries:
            facts = facts.with_(resubmissions=self._tries)
        return facts.with_(notes=list(self._notes)) if self._notes else facts


def outcome_of(
    launch: Launch,
    place: Scratch,
    record: EndRecord,
    injection: Injection,
    objectives: tuple[ObjectiveKind, ...],
    facts: RunFacts,
    notes: tuple[str, ...] = (),
) -> Outcome:
    """Judge a run by the records that its job left."""
    report, missing = place.read_report(launch.program)
    outcome = judge(
        Evidence(
            launch=launch,
            place=place,
            ended=record.ended,
            report=report,
            missing=missing,
            injection=injection,
            objectives=objectives,
            after=record.message,
            notes=(*notes, *([f"its output is not whole: {record.ended.lost}"] if record.ended.lost else [])),
            facts=RunFacts(cache=record.cache),
        )
    )
    # The scheduler counts the nodes; a report only has host names, which nodes may share.
    merged = outcome.facts.but(facts)
    if record.cause == "hook":
        return replace(outcome, state=State.FAILED, reason=record.message or "a hook failed", facts=merged)
    return replace(outcome, facts=merged)


def finished_before(base: Path, launch: Launch) -> Scratch | None:
    """Give the folder of an earlier attempt with the same plan whose job finished after its tuner was gone."""
    for attempt in range(launch.attempt - 1, -1, -1):
        place = Scratch.of(base, replace(launch, attempt=attempt))
        through = read_end(place.path)
        if through is None:
            continue
        if through.ended.lost:
            return None
        try:
            kept = json.loads(place.process.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        same = isinstance(kept, dict) and kept.get("plan") == launch.plan.text()
        return place if same else None
    return None
