"""A worker: takes jobs from the store and carries them on, one at a time.

Another worker replaces one that dies: the lease of its job runs out, or its process is found dead on this host. The
other worker goes on from what the store holds. A worker that was replaced without knowing gets an error with its next
call, and its results no longer count.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stripewise.desk.carrying import make_session
from stripewise.desk.desk import Interrupted
from stripewise.desk.server.model_jobs import WORK, HelpedModel, Helper, end_kept
from stripewise.engine.consent import agree_always, agree_never
from stripewise.engine.events import Event
from stripewise.engine.folders import make_runs_folder
from stripewise.engine.process import owner_name
from stripewise.engine.session import Given
from stripewise.errors import NothingWorks, Stopped, StoreError, StripewiseError, TransientError, UserError
from stripewise.interpreter import for_others
from stripewise.requests.policy import load_policy
from stripewise.store.base import Claim, Record, Store
from stripewise.store.service import database_of
from stripewise.store.service.jobs import MOST_IDLE, Jobs, ServiceJob
from stripewise.store.service.keeping import Items, Messages

LEASE_SECONDS = 60.0
STUCK_SECONDS = 3600.0
STUCK_CODE = 70
"""With which a worker ends that is stuck."""
_SIGN_SECONDS = 1.0
_LONGEST_BEAT = 5.0
_POLL_SECONDS = 0.5
_LATER_SECONDS = 5.0
_BUSY_SECONDS = 1.0
_KEEP_SECONDS = 60.0
"""How long the child of a job waits for the next job."""

log = logging.getLogger("stripewise.worker")


class Worker:
    """Carries jobs on.

    Parameters
    ----------
    store : Store
        A database.
    data : Path
        The service's folder, where models and campaigns are.
    lease_seconds : float
        After so long without a sign of life another worker takes the job over.
    stuck_seconds : float
        After so long without a step of its job the worker gives the job back and ends: it may be in an endless loop, or
        in a file system that does not answer. Waiting for runs counts as steps, and so does waiting for a child, which
        has limits of its own.
    """

    def __init__(
        self, store: Store, data: Path, lease_seconds: float = LEASE_SECONDS, stuck_seconds: float = STUCK_SECONDS
    ) -> None:
        database = database_of(store)
        self._store = store
        self._data = data
        self._jobs = Jobs(database)
        self._messages = Messages(database)
        self._items = Items(database)
        self._lease = lease_seconds
        self._stuck = stuck_seconds
        self._ending = False
        self._owner = owner_name()

    def run(self, *, until_idle: bool = False) -> int:
        """Work until told to end by a signal; gives how many jobs were carried on.

        Parameters
        ----------
        until_idle : bool
            End as soon as no job waits.
        """
        done, ended = 0, time.monotonic()
        log.info("worker %s waits for jobs", self._owner)
        try:
            while not self._ending:
                try:
                    job = self._jobs.take(self._owner, self._lease)
                except TransientError as error:
                    log.warning("%s", error)
                    time.sleep(_LATER_SECONDS)
                    continue
                if job is not None:
                    self.carry_on(job)
                    done, ended = done + 1, time.monotonic()
                elif until_idle and not self._jobs.waiting():
                    break
                else:
                    if time.monotonic() > ended + _KEEP_SECONDS:
                        end_kept()
                    time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            log.info("worker %s ends", self._owner)
        finally:
            end_kept()
        return done

    def carry_on(self, job: ServiceJob) -> None:
        """Carry a job on to its end, and say how it ended; what happens inside never ends the worker."""
        log.info("job %s: %s %s", job.id, job.kind, job.subject)
        beat = _Heartbeat(self._jobs, job, self._lease, self._stuck, lambda: self._ask_to_stop(job))
        try:
            with beat, for_others():
                result = self._experiment(job, beat) if job.kind == "experiment" else self._other(job, beat)
        except (KeyboardInterrupt, Interrupted):
            # This worker is to end, not the job: another one continues it.
            self._ending = True
            self._report(job, lambda: self._jobs.put_back(job, 0.0, counted=False))
            raise KeyboardInterrupt from None
        except _Busy:
            self._report(job, lambda: self._jobs.put_back(job, _BUSY_SECONDS, counted=False))
        except Stopped:
            self._report(job, lambda: self._jobs.finish(job, "stopped"))
        except (TransientError, StoreError) as error:
            log.warning("job %s: %s; a worker tries again by itself", job.id, error.what)
            self._report(job, lambda: self._jobs.put_back(job, _LATER_SECONDS))
        except StripewiseError as error:
            self._fail(job, error.what, error.fix, type(error).__name__)
        except Exception as error:  # a fault of ours ends the job, not the worker
            log.exception("job %s", job.id)
            self._fail(job, f"unexpected {type(error).__name__}: {error}", "the worker's log has its place; report it")
        else:
            self._report(job, lambda: self._jobs.finish(job, "done", result))

    # -- kinds of jobs -------------------------------------------------------------------------------------

    def _experiment(self, job: ServiceJob, beat: _Heartbeat) -> dict[str, Any]:
        record = self._store.record(job.subject)
        if record.state == "finished":
            return {"experiment": record.id}
        claim = self._claim(record.id)
        try:
            return self._tune(job, record, beat)
        finally:
            # Does nothing where the session has claimed anew, and given that back.
            self._store.release(claim)

    def _claim(self, identifier: str) -> Claim:
        try:
            return self._store.claim(identifier, self._owner, self._lease)
        except StoreError as error:
            raise _Busy(error.what) from error

    def _tune(self, job: ServiceJob, record: Record, beat: _Heartbeat) -> dict[str, Any]:
        self._note_try(job, record.ended)
        make_runs_folder(record.experiment)
        try:
            # A worker cannot ask: the request says whether its sender agrees to a high cost.
            consent = agree_always if job.request.get("agreed") else agree_never
            listener = self._listener(record.id, beat)
            with Helper(beat.stopping) as helper:
                given = Given(consent, load_policy(), lambda path: HelpedModel(helper, path))
                folders = [Path(folder) for folder in job.request.get("folders", [])]
                make_session(self._store, record.id, self._owner, listener, given, folders).run()
        except (NothingWorks, UserError) as error:
            kind = "NothingWorks" if isinstance(error, NothingWorks) else "UserError"
            self._messages.add(record.id, "failed", {"error": kind, "what": error.what, "fix": error.fix})
            raise
        return {"experiment": record.id}

    def _other(self, job: ServiceJob, beat: _Heartbeat) -> dict[str, Any]:
        self._note_try(job, 0)
        return WORK[job.kind](job, self._data, self._items, beat.stopping)

    def _note_try(self, job: ServiceJob, progress: int) -> None:
        if not self._jobs.note_progress(job, progress):
            why = job.error or "it may be ending its workers"
            raise NothingWorks(
                f"{job.kind} {job.subject} was begun {MOST_IDLE} times without getting further: {why}",
                "look at the worker's log, then start it again",
            )

    def _listener(self, identifier: str, beat: _Heartbeat) -> Callable[[Event], None]:
        def listen(event: Event) -> None:
            beat.step()
            data = message_of(event)
            if data is not None:
                self._messages.add(identifier, event.kind, data)

        return listen

    def _ask_to_stop(self, job: ServiceJob) -> None:
        if job.kind == "experiment":
            self._store.request_stop(job.subject)

    def _fail(self, job: ServiceJob, what: str, fix: str, kind: str = "") -> None:
        log.warning("job %s: %s", job.id, what)
        said = f"{what}; {fix}" if fix else what
        self._report(job, lambda: self._jobs.finish(job, "failed", {"error": kind}, said))
        if job.kind == "experiment":
            self._report(job, lambda: self._mark_failed(job.subject))

    def _mark_failed(self, identifier: str) -> None:
        """Say so with the experiment itself, unless somebody else has it or it got further than that."""
        if self._store.record(identifier).state not in ("created", "stopped"):
            return
        claim = self._store.claim(identifier, self._owner)
        self._store.update(identifier, claim=claim, state="failed")
        self._store.release(claim)

    def _report(self, job: ServiceJob, call: Callable[[], None]) -> None:
        try:
            call()
        except StripewiseError as error:
            # Taken over, or the store is away: then the lease runs out, and another worker looks at it.
            log.warning("job %s: %s", job.id, error)


class _Busy(StripewiseError):  # noqa: N818
    """Somebody else still has the experiment."""


class _Heartbeat:
    """Renews a job's lease from a thread of its own, passes on that a stop was asked for, and ends a stuck worker."""

    def __init__(self, jobs: Jobs, job: ServiceJob, lease: float, stuck: float, stop: Callable[[], None]) -> None:
        self._jobs, self._job, self._lease, self._stuck, self._stop = jobs, job, lease, stuck, stop
        self._quiet = 0.0
        self._end = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def stopping(self) -> bool:
        """Whether the job is to stop: on request, or because another worker has it. Asking is a step of the job."""
        self.step()
        return self._stopping

    def step(self) -> None:
        """Note that the job gets on."""
        self._quiet = 0.0

    def _beat(self) -> None:
        pause, told = min(1.0, self._lease / 6), False
        renewed = looked = time.monotonic()
        while not self._end.wait(pause):
            now = time.monotonic()
            # A process that was held up as a whole has not been stuck.
            self._quiet += min(now - looked, _LONGEST_BEAT)
            looked = now
            if self._quiet > self._stuck:
                self._give_up()
            try:
                asked = self._jobs.renew(self._job, self._lease)
                renewed = time.monotonic()
                if asked and not told:
                    self._stopping = told = True
                    self._stop()
            except TransientError as error:
                log.warning("job %s: %s", self._job.id, error)
            except StripewiseError as error:
                log.warning("job %s: %s", self._job.id, error)
                self._stopping = True
                return
            pause = min(1.0, self._lease / 6) if time.monotonic() - renewed < self._lease else 0.2

    def _give_up(self) -> None:
        """End this process, whatever its other threads do, and let another worker try the job."""
        why = f"its worker made no step for {self._stuck:g} s and was ended"
        log.error("job %s: %s", self._job.id, why)
        try:
            self._jobs.put_back(self._job, 0.0, error=why)
        except StripewiseError as error:
            log.error("job %s: %s", self._job.id, error)
        os._exit(STUCK_CODE)

    def __enter__(self) -> _Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def message_of(event: Event) -> dict[str, Any] | None:
    """Give what remote listeners hear of an event; None where the runs say it already."""
    data = event.data
    if event.kind == "prepared":
        objective = data["objective"]
        return {
            "summary": list(data["preflight"].summary),
            "warnings": list(data["preflight"].warnings),
            "objective": objective.as_json(),
        }
    if event.kind == "space":
        bound = data["bound"]
        return {
            "names": list(bound.space.names),
            "units": {parameter.name: parameter.unit for parameter in bound.space.parameters},
            "default": dict(bound.space.default),
            "left_out": dict(bound.left_out),
            "distinct": data["distinct"],
            "exact": data["exact"],
        }
    if event.kind in ("worst_case", "note"):
        return dict(data)
    if event.kind == "finished":
        return {"verdict": data["result"].verdict}
    return None


def attend(stream: int) -> None:
    """End as on SIGTERM once nobody holds the other end of a stream any longer, and show it that this process lives.

    Parameters
    ----------
    stream : int
        File descriptor of a socket; on anything else nothing is shown.
    """

    def show() -> None:
        with contextlib.suppress(OSError):
            while stat.S_ISSOCK(os.fstat(stream).st_mode) and os.write(stream, b"."):
                time.sleep(_SIGN_SECONDS)

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(stream, 4096):
                pass
        log.info("the service is gone")
        os.kill(os.getpid(), signal.SIGTERM)

    for work in (watch, show):
        threading.Thread(target=work, name="parent", daemon=True).start()
