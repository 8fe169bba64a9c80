"""Jobs are taken once, move on when their worker dies, and what a replaced worker says does not count."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from stripewise.desk.server.app import Workers
from stripewise.desk.server.job_worker import STUCK_CODE, Worker, _Heartbeat
from stripewise.desk.server.model_jobs import WORK
from stripewise.errors import StoreError, UserError
from stripewise.store import schema
from stripewise.store.base import Store
from stripewise.store.holder import Holder
from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.jobs import MOST_IDLE, Jobs
from stripewise.store.service.keeping import Answers, Items, Messages
from stripewise.testing.stores import refused


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "s.db")) as opened:
        yield opened


@pytest.fixture
def jobs(store: Store) -> Jobs:
    return Jobs(database_of(store))


def test_a_damaged_job_fails_and_keeps_no_other_waiting(store: Store, jobs: Jobs) -> None:
    damaged, whole = jobs.submit("experiment", "a", "ada"), jobs.submit("experiment", "b", "ada")
    damage = schema.jobs.update().where(schema.jobs.c.id == damaged.id).values(request="{")
    database_of(store).write(lambda connection, _: connection.execute(damage))
    taken = jobs.take("w1")
    assert taken is not None and taken.id == whole.id
    failed = jobs.get(damaged.id)
    assert failed.state == "failed" and "damaged" in failed.error


def test_jobs_are_taken_in_order_and_once(jobs: Jobs) -> None:
    first = jobs.submit("experiment", "a", "ada", {"agreed": True})
    second = jobs.submit("campaign", "b", "ada")
    assert jobs.submit("experiment", "a", "bob") == first, "one waits already"
    taken = jobs.take("w1")
    assert taken is not None
    assert (taken.id, taken.state, taken.token, taken.request) == (first.id, "running", 1, {"agreed": True})
    assert jobs.take("w2", kinds=("experiment",)) is None
    assert jobs.submit("experiment", "a", "ada").id != first.id, "the first one is at work"
    again = jobs.take("w2", kinds=("campaign",))
    assert again is not None and again.id == second.id
    jobs.finish(again, "done", {"x": 1})
    assert jobs.get(second.id).result == {"x": 1}
    assert jobs.waiting() == {"a": "queued"} or jobs.waiting() == {"a": "running"}
    assert jobs.counts() == {"queued": 1, "running": 1, "done": 1, "failed": 0, "stopped": 0}
    with pytest.raises(UserError, match="does not exist"):
        jobs.get("nothing")


def test_a_clock_that_was_ahead_holds_no_job_up(store: Store, jobs: Jobs) -> None:
    later, tomorrow = jobs.submit("experiment", "a", "ada"), jobs.submit("campaign", "b", "ada")
    for job, seconds in ((later, 60), (tomorrow, 86400)):
        where = schema.jobs.update().where(schema.jobs.c.id == job.id)
        database_of(store).execute(where.values(due=time.time() + seconds))
    taken = jobs.take("w1")
    assert taken is not None and taken.id == tomorrow.id
    assert jobs.take("w1") is None


def _take(path: str, queue: multiprocessing.Queue[str]) -> None:
    with open_store(path) as opened:
        taken = Jobs(database_of(opened)).take(f"worker {os.getpid()}")
        queue.put("" if taken is None else taken.subject)
        signal.pause()


def test_the_job_of_a_killed_worker_moves_on_at_once(store: Store, jobs: Jobs, tmp_path: Path) -> None:
    jobs.submit("experiment", "a", "ada")
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[str] = context.Queue()
    process = context.Process(target=_take, args=(str(tmp_path / "s.db"), queue))
    process.start()
    assert queue.get(timeout=120) == "a"
    assert jobs.take("w2") is None, "its worker lives"
    process.kill()
    process.join()
    taken = jobs.take("w2")
    assert taken is not None and (taken.subject, taken.token, taken.owner) == ("a", 2, "w2")


def test_a_replaced_worker_is_told_so(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.submit("experiment", "a", "ada")
    elsewhere = Holder("other", "other", "boot", "", 1, 1)
    with monkeypatch.context() as patch:
        patch.setattr(Holder, "current", classmethod(lambda cls: elsewhere))
        late = jobs.take("w1", lease_seconds=-1.0)
    assert late is not None
    now = jobs.take("w2")
    assert now is not None and now.token == late.token + 1
    for call in (
        lambda: jobs.renew(late),
        lambda: jobs.finish(late, "done"),
        lambda: jobs.put_back(late, 0.0),
        lambda: jobs.note_progress(late, 1),
    ):
        with refused(StoreError, "taken over", "w2"):
            call()
    assert jobs.renew(now) is False
    jobs.finish(now, "done")
    assert jobs.get(now.id).state == "done"


def test_a_job_that_gets_nowhere_is_given_up(jobs: Jobs) -> None:
    jobs.submit("experiment", "a", "ada")
    said = []
    for _ in range(MOST_IDLE + 1):
        taken = jobs.take("w")
        assert taken is not None
        said.append(jobs.note_progress(taken, 3))
        jobs.put_back(taken, 0.0)
    assert said == [True] * MOST_IDLE + [False]
    taken = jobs.take("w")
    assert taken is not None and not jobs.note_progress(taken, 3)
    assert jobs.note_progress(taken, 4), "it got further"


def _work(path: str, data: Path) -> None:
    WORK["training"] = lambda *_: time.sleep(600)  # type: ignore[return-value, misc]
    with open_store(path) as opened:
        Worker(opened, data, 60.0, stuck_seconds=0.3).run(until_idle=True)


def test_a_stuck_worker_ends_and_its_job_fails_after_three_tries(jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.submit("training", "a", "ada")
    context = multiprocessing.get_context("fork")
    codes = []
    for _ in range(MOST_IDLE + 1):
        process = context.Process(target=_work, args=(str(tmp_path / "s.db"), tmp_path))
        process.start()
        process.join(120)
        codes.append(process.exitcode)
    assert codes == [STUCK_CODE] * MOST_IDLE + [0]
    assert (jobs.get(job.id).state, jobs.get(job.id).error.partition(";")[0]) == (
        "failed",
        "training a was begun 3 times without getting further: its worker made no step for 0.3 s and was ended",
    )


def test_a_job_that_makes_steps_is_not_stuck(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(job: Any, data: Path, items: Items, stopping: Callable[[], bool]) -> dict[str, Any]:
        for _ in range(12):
            stopping()
            time.sleep(0.2)
        return {}

    monkeypatch.setitem(WORK, "training", work)
    monkeypatch.setattr(_Heartbeat, "_give_up", lambda self: pytest.fail("was ended"))
    jobs = Jobs(database_of(store))
    job = jobs.submit("training", "a", "ada")
    Worker(store, tmp_path, 1.0, stuck_seconds=2.0).run(until_idle=True)
    assert jobs.get(job.id).state == "done"


def test_a_worker_without_a_sign_of_life_is_replaced(tmp_path: Path) -> None:
    workers = Workers(1, None, tmp_path, silent_seconds=0.5)
    silent = "import os, sys, time; open(f'{sys.argv[1]}/begun-{os.getpid()}', 'w'); time.sleep(600)"
    workers._command = [sys.executable, "-S", "-c", silent, str(tmp_path)]
    with workers:
        until = time.monotonic() + 60
        while len(list(tmp_path.glob("begun-*"))) < 2:
            assert time.monotonic() < until, "no second worker was started"
            time.sleep(0.05)


def test_a_stop_reaches_who_waits_and_who_works(jobs: Jobs) -> None:
    jobs.submit("experiment", "a", "ada")
    assert jobs.stop("a")
    assert jobs.take("w") is None
    assert not jobs.stop("a")
    jobs.submit("experiment", "a", "ada")
    taken = jobs.take("w")
    assert taken is not None and not jobs.renew(taken)
    assert jobs.stop("a")
    assert jobs.renew(taken)
    jobs.finish(taken, "stopped")
    jobs.forget("a")
    assert jobs.of("a") is None


def test_a_journal_is_no_place_for_the_service(tmp_path: Path) -> None:
    with open_store(f"journal:{tmp_path}/j") as journal, refused(UserError, "not a database", "sqlite"):
        database_of(journal)


def test_items_messages_and_answers(store: Store) -> None:
    from stripewise.requests.experiment import Experiment

    items, messages, answers = (kind(database_of(store)) for kind in (Items, Messages, Answers))
    items.put("model", "m", "m", "ada", {"x": 1})
    items.put("model", "m", "m", "ada", {"x": 2})
    assert items.get("model", "m").document == {"x": 2}
    assert items.count("model") == 1 and items.count("campaign") == 0
    assert items.delete("model", "m") and not items.delete("model", "m")
    identifier = store.create(Experiment())
    for number in range(3):
        messages.add(identifier, "note", {"text": str(number)})
    first, *rest = messages.after(0, identifier)
    assert [message.data["text"] for message in messages.after(first.number, identifier)] == ["1", "2"]
    assert messages.last() == rest[-1].number
    store.delete(identifier)
    assert messages.after(0) == []
    assert answers.begin("k", "d") is None
    with refused(UserError, "still at work"):
        answers.begin("k", "d")
    database_of(store).execute(schema.answers.update().values(created=schema.answers.c.created - 700))
    with refused(UserError, "ended without an answer"):
        answers.begin("k", "d")
    answers.end("k", 201, "{}")
    assert answers.begin("k", "d") == (201, "{}")
    with refused(UserError, "another request"):
        answers.begin("k", "e")
    answers.drop("k")
    assert answers.begin("k", "e") is None
