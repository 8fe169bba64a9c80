"""What was made of a history is made once for all who ask, and anew when the history changes."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from stripewise.desk.server.service import Remembered, version
from tests.unit.service import running


def test_many_who_ask_at_once_have_it_made_once() -> None:
    made: list[int] = []
    began, go = threading.Event(), threading.Event()

    def make() -> str:
        made.append(1)
        began.set()
        go.wait(60)
        return "drawn"

    kept: Remembered[str] = Remembered(2)
    told: list[str] = []
    threads = [threading.Thread(target=lambda: told.append(kept.get("a", make))) for _ in range(4)]
    threads[0].start()
    assert began.wait(60)
    for thread in threads[1:]:
        thread.start()
    assert kept.get("b", lambda: "other") == "other", "another key waits for nobody"
    go.set()
    for thread in threads:
        thread.join(60)
    assert told == ["drawn"] * 4 and made == [1]


def test_what_failed_is_tried_again_and_the_oldest_goes_first() -> None:
    kept: Remembered[int] = Remembered(2)
    with pytest.raises(ZeroDivisionError):
        kept.get("a", lambda: 1 // 0)
    assert kept.get("a", lambda: 1) == 1
    kept.get("b", lambda: 2)
    assert kept.get("a", lambda: 3) == 1
    kept.get("c", lambda: 4)
    assert kept.get("a", lambda: 5) == 1, "asked for since"
    assert kept.get("b", lambda: 6) == 6, "forgotten"
    assert (kept.known("a"), kept.known("z")) == (1, None)
    kept.keep("b", 7)
    assert kept.known("b") == 6


def test_whatever_pages_show_of_an_experiment_gives_another_version(tmp_path: Path) -> None:
    with running(tmp_path) as served:
        identifier = served.create()
        record = served.service.store.record(identifier)
        assert version(record) == version(served.service.store.record(identifier))
        for name, value in (("state", "running"), ("updated", 1.0), ("trials", 9), ("runs", 9), ("ended", 9)):
            assert version(replace(record, **{name: value})) != version(record)  # type: ignore[arg-type]
        claim = served.service.store.claim(identifier, "ada")
        served.service.store.update(identifier, claim=claim, state="running")
        assert version(served.service.store.record(identifier)) != version(record)
