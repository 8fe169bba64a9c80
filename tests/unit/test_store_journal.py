"""Journals: what a crash leaves behind, what a late writer does, what damage looks like."""

from __future__ import annotations

import errno
import itertools
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stripewise.errors import StoreError
from stripewise.requests.experiment import Experiment
from stripewise.store import holder, journal_files
from stripewise.store.base import Claim
from stripewise.store.codec import read_result
from stripewise.store.holder import Holder
from stripewise.store.journal import JournalStore
from stripewise.store.journal_files import Writer, create_file, prepare_folder, read_lines, write_line
from stripewise.testing.stores import refused, result_of, run_of, trial_of
from stripewise.trial import State
from tests.unit.finished_experiment import finished


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path: Path, clock: Clock) -> Callable[[], JournalStore]:
    """Open the journal as another process or host would."""
    prepare_folder(tmp_path)
    return lambda: JournalStore(tmp_path, clock)


def journal(tmp_path: Path, identifier: str, token: int) -> Path:
    return tmp_path / "experiments" / identifier / "events" / f"{token:08d}.jsonl"


def start(store: JournalStore, runs: int = 3) -> tuple[str, Claim]:
    """Make an experiment with some runs, the last without a result."""
    identifier = store.create(Experiment())
    claim = store.claim(identifier, "ada", 60.0)
    for number in range(runs):
        store.plan(identifier, claim, trial_of(0) if number == 0 else None, run_of(number))
        if number < runs - 1:
            store.accept(identifier, claim, result_of(number, value=float(number)))
    return identifier, claim


def test_every_line_has_a_checksum_and_a_sequence(tmp_path: Path, opened: Callable[[], JournalStore]) -> None:
    identifier, _ = start(opened())
    lines = journal(tmp_path, identifier, 1).read_text("ascii").splitlines()
    events = [json.loads(line) for line in lines]
    assert [event["sequence"] for event in events] == list(range(len(lines)))
    assert [event["kind"] for event in events] == ["seal", "plan", "accept", "plan", "accept", "plan"]
    assert all(len(event["checksum"]) == 16 for event in events)


@pytest.mark.slow
def test_every_cut_of_the_last_line_is_tolerated_and_told(tmp_path: Path, opened: Callable[[], JournalStore]) -> None:
    store = opened()
    identifier, claim = start(store)
    store.release(claim)
    path = journal(tmp_path, identifier, 1)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    assert opened().record(identifier).notes == ()
    for end in range(last + 1, len(whole)):
        path.write_bytes(whole[:end])
        record = opened().record(identifier)
        assert (record.runs, record.ended) == (2, 2), end
        assert len(record.notes) == 1
        assert str(path) in record.notes[0]
        assert "never accepted" in record.notes[0]
    # Some file systems give what was not written before the power failed as zeros, or as what was there before.
    for rest in (b"\0" * 5000, b"\0\0\n\0\n", os.urandom(3000), b"{}\n", whole[:50] + b"\n"):
        path.write_bytes(whole[:last] + rest)
        assert opened().record(identifier).runs == 2
    path.write_bytes(whole[: last + 20])
    again = opened()
    claim = again.claim(identifier, "bob")
    again.plan(identifier, claim, None, run_of(2))
    again.accept(identifier, claim, result_of(2, value=9.0))
    again.release(claim)
    assert [run.value for run in opened().trials(identifier)[0].runs] == [0.0, 1.0, 9.0]
    assert len(opened().record(identifier).notes) == 1


def test_half_a_line_of_a_live_writer_is_not_worth_a_note(tmp_path: Path, opened: Callable[[], JournalStore]) -> None:
    store = opened()
    identifier, claim = start(store)
    with journal(tmp_path, identifier, 1).open("ab") as file:
        file.write(b'{"checksum":"00')
    assert opened().record(identifier).notes == ()
    store.release(claim)
    assert len(opened().record(identifier).notes) == 1


@pytest.mark.parametrize("byte", [0, 20, 60, -2])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_damage_before_the_end_is_an_error(
    byte: int, number: int, tmp_path: Path, opened: Callable[[], JournalStore]
) -> None:
    store = opened()
    identifier, claim = start(store)
    store.release(claim)
    path = journal(tmp_path, identifier, 1)
    lines = path.read_bytes().splitlines(keepends=True)
    line = bytearray(lines[number])
    line[byte] ^= 1
    path.write_bytes(b"".join([*lines[:number], bytes(line), *lines[number + 1 :]]))
    for call in (opened().trials, opened().record, lambda i: opened().claim(i, "bob")):
        with refused(StoreError, str(path), f"line {number + 1}", "restore"):
            call(identifier)


def test_a_lost_or_doubled_line_is_an_error(tmp_path: Path, opened: Callable[[], JournalStore]) -> None:
    store = opened()
    identifier, claim = start(store)
    store.release(claim)
    path = journal(tmp_path, identifier, 1)
    lines = path.read_bytes().splitlines(keepends=True)
    for changed in (lines[:2] + lines[3:], [*lines[:2], lines[1], *lines[2:]], [lines[1], lines[0], *lines[2:]]):
        path.write_bytes(b"".join(changed))
        with refused(StoreError, str(path), "damaged"):
            opened().trials(identifier)
    # Accepted, counted by the next claim, and then gone.
    path.write_bytes(b"".join(lines))
    other = opened()
    other.release(other.claim(identifier, "bob"))
    path.write_bytes(b"".join(lines[:-1]))
    with refused(StoreError, str(path), f"line {len(lines)}"):
        opened().trials(identifier)


def test_a_writer_that_wakes_up_late_changes_nothing(
    tmp_path: Path, opened: Callable[[], JournalStore], clock: Clock
) -> None:
    late = opened()
    identifier, claim = start(late)
    clock.now += 61
    other = opened()
    second = other.claim(identifier, "bob", 60.0)
    before = other.trials(identifier)
    # The check before the append is passed over, as by a process that slept between the check and the write.
    held = late._open[identifier, claim.token]
    held.writer.append({"kind": "accept", "time": clock.now, "run": {**_json(result_of(2, value=666.0))}})
    with refused(StoreError, "ada", "bob"):
        late.accept(identifier, claim, result_of(2, value=666.0))
    assert opened().trials(identifier) == before
    other.accept(identifier, second, result_of(2, value=2.0))
    assert [run.value for run in opened().trials(identifier)[0].runs] == [0.0, 1.0, 2.0]
    (note,) = opened().record(identifier).notes
    assert "after the claim was lost" in note
    # The next claim seals in the same way what the one before has sealed.
    clock.now += 61
    third = opened()
    third.claim(identifier, "eve", 60.0)
    assert [run.value for run in third.trials(identifier)[0].runs] == [0.0, 1.0, 2.0]


def test_a_claim_made_during_an_append_is_noticed(
    opened: Callable[[], JournalStore], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened()
    identifier, claim = start(first)
    append = Writer.append
    second = opened()
    tokens: list[Claim] = []

    def slowly(self: Writer, event: dict[str, object]) -> None:
        append(self, event)
        if event["kind"] == "accept" and not tokens:
            clock.now += 61
            tokens.append(second.claim(identifier, "bob", 60.0))

    monkeypatch.setattr(Writer, "append", slowly)
    with refused(StoreError, "ada", "bob"):
        first.accept(identifier, claim, result_of(2, value=3.0))
    # It was written before the seal, so everybody counts it; the new owner has read it and does not run it again.
    kept = [opened().trials(identifier), second.trials(identifier)]
    assert [trials[0].runs[2].value for trials in kept] == [3.0, 3.0]
    with refused(StoreError, "already has a result"):
        second.accept(identifier, tokens[0], result_of(2, value=4.0))


def test_a_claim_that_never_began_is_passed_over(
    tmp_path: Path, opened: Callable[[], JournalStore], clock: Clock
) -> None:
    identifier, _ = start(opened())
    # Claim 2 crashed before its seal, and where there are no links before its signature.
    (tmp_path / "experiments" / identifier / "claims" / "00000002.json").write_text("")
    os.utime(tmp_path / "experiments" / identifier / "claims" / "00000002.json", (clock.now, clock.now))
    with refused(StoreError, "unknown owner"):
        opened().claim(identifier, "bob")
    clock.now += 61
    third = opened()
    assert third.claim(identifier, "bob").token == 3
    assert [run.state for run in third.trials(identifier)[0].runs] == [State.FINISHED, State.FINISHED, State.PENDING]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_file_systems_without_links(
    number: int, tmp_path: Path, opened: Callable[[], JournalStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_: object) -> None:
        raise OSError(number, "no links here")

    monkeypatch.setattr(journal_files.os, "link", no_link)
    store = opened()
    identifier, claim = start(store)
    with refused(StoreError, "ada"):
        opened().claim(identifier, "bob")
    store.release(claim)
    assert opened().claim(identifier, "bob").token == 2
    assert not create_file(tmp_path / "experiments" / identifier / "claims" / "00000002.json", {})


def test_an_answer_about_our_own_link_that_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(journal_files.os, "link", twice)
    assert create_file(tmp_path / "a", {"who": 1})
    monkeypatch.undo()
    assert not create_file(tmp_path / "a", {"who": 2})
    assert json.loads((tmp_path / "a").read_text()) == {"who": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_client_that_remembers_old_files_loses_no_result(
    opened: Callable[[], JournalStore], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a mount with ``nocto``: what was read once stays as it was, that there was no such file included."""
    remembered: dict[Path, bytes | None] = {}
    read, link = journal_files._read_bytes, os.link

    def remember(path: Path) -> bytes:
        if path.suffix == ".jsonl" and path not in remembered:
            remembered[path] = read(path) if path.exists() else None
        if path.suffix != ".jsonl":
            return read(path)
        found = remembered[path]
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "remembered", str(path))
        return found

    def link_late(path: Path, name: Path) -> None:
        if remembered.get(path, b"") is None:
            del remembered[path]
            raise FileNotFoundError(errno.ENOENT, "remembered", str(path))
        link(path, name)

    with monkeypatch.context() as patch:
        patch.setattr(journal_files, "_PAUSE_SECONDS", 0.0)
        first = opened()
        identifier, claim = start(first, 3)
        patch.setattr(journal_files, "_read_bytes", remember)
        patch.setattr(journal_files.os, "link", link_late)
        second = opened()
        assert len(second.trials(identifier)[0].runs) == 3
        first.accept(identifier, claim, result_of(2, value=2.0))
        assert not second.trials(identifier)[0].runs[2].state.ended, "the client remembers"
        clock.now += 61
        taken = second.claim(identifier, "bob", 60.0)
        assert [run.value for run in second.trials(identifier)[0].runs] == [0.0, 1.0, 2.0]
        # Of the new journal, another client remembers that it does not exist.
        second.plan(identifier, taken, None, run_of(3))
        second.accept(identifier, taken, result_of(3, value=3.0))
        remembered[journal(first._folder, identifier, taken.token)] = None
        clock.now += 61
        third = opened()
        third.claim(identifier, "cy", 60.0)
    assert [run.value for run in opened().trials(identifier)[0].runs] == [0.0, 1.0, 2.0, 3.0]


def test_a_failed_append_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path / "j")
    writer.open()
    writer.append({"kind": "a"})
    fsync = os.fsync
    with monkeypatch.context() as patch:
        patch.setattr(journal_files.os, "fsync", _failing(errno.EIO, after=0, then=fsync))
        with pytest.raises(OSError, match="failed"):
            writer.append({"kind": "b"})
    writer.append({"kind": "c"})
    assert [event["kind"] for event in read_lines(tmp_path / "j").events] == ["a", "c"]
    with monkeypatch.context() as patch:
        patch.setattr(journal_files.os, "fsync", _failing(errno.EIO, after=0, times=2, then=fsync))
        with pytest.raises(OSError, match="failed"):
            writer.append({"kind": "d"})
    # What is on the disk is not known any more: better no line than half a line in the middle.
    with refused(StoreError, str(tmp_path), "resume"):
        writer.append({"kind": "e"})
    writer.close()


def test_records_are_read_again_only_where_something_changed(
    opened: Callable[[], JournalStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reader = opened(), opened()
    first, claim = start(store)
    second, _ = start(store)
    assert reader.count() == 2
    read: list[str] = []
    whole = JournalStore._read_record
    monkeypatch.setattr(JournalStore, "_read_record", lambda self, i, live: (read.append(i), whole(self, i, live))[1])
    assert reader.count() == 2
    assert read == []
    store.accept(first, claim, result_of(2))
    assert {record.id: record.ended for record in reader.records()} == {first: 3, second: 2}
    assert read == [first]


def test_lines_know_their_number(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(write_line(0, {"a": 1}) + write_line(2, {"a": 2}))
    lines = read_lines(path)
    assert (len(lines.events), lines.damaged, lines.torn) == (1, 2, False)
    assert read_lines(tmp_path / "nothing").events == []


def test_a_holder_is_only_dead_where_that_is_certain() -> None:
    me = Holder.current()
    assert not me.proven_dead()
    assert Holder.read(me.as_json()) == me
    assert replace(me, pid=2**22 + 1).proven_dead()
    assert replace(me, start=me.start + 1).proven_dead()
    assert replace(me, boot="an earlier boot", machine=me.machine).proven_dead() == bool(me.machine)
    for change in ({"host": "elsewhere"}, {"machine": "other"}, {"boot": ""}, {"namespace": "pid:[1]"}, {"start": 0}):
        assert not replace(me, pid=2**22 + 1, **change).proven_dead(), change
    for data in (None, [], {}, {**me.as_json(), "pid": "1"}, {**me.as_json(), "host": None}):
        assert Holder.read(data) is None


def test_a_process_that_is_hidden_from_other_users_is_not_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    me = Holder.current()
    seen = holder._start
    monkeypatch.setattr(holder, "_start", lambda pid: seen(pid) if pid == me.pid else None)

    def forbidden(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(holder.os, "kill", forbidden)
    assert not replace(me, pid=1).proven_dead()
    monkeypatch.undo()
    monkeypatch.setattr(holder, "_start", lambda pid: seen(pid) if pid == me.pid else -1)
    assert replace(me, pid=1).proven_dead()


def _json(run: object) -> dict[str, object]:
    from stripewise.store.codec import run_json

    return run_json(run)  # type: ignore[arg-type]


def _failing(number: int, after: int, then: Callable[[int], None], times: int = 1) -> Callable[[int], None]:
    calls = iter(range(10**6))

    def call(handle: int) -> None:
        if after <= next(calls) < after + times:
            raise OSError(number, "failed on purpose")
        then(handle)

    return call


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _deep(path: Path) -> None:
    path.write_text("[" * 100_000)


@pytest.mark.parametrize(
    ("planted", "place"),
    [
        (_deep, "experiment.json"),
        *itertools.product([_pipe, _endless], ["experiment.json", "events/00000001.jsonl", "claims/00000001.json"]),
    ],
)
def test_what_another_user_plants_hides_no_other_experiment(
    tmp_path: Path, opened: Callable[[], JournalStore], planted: Callable[[Path], None], place: str
) -> None:
    """A pipe would be waited for without an end, and a device would fill the memory, of a service too."""
    (bad, _), (good, _) = start(opened()), start(opened())
    file = tmp_path / "experiments" / bad / place
    file.unlink()
    planted(file)
    told: list[StoreError] = []
    assert [record.id for record in opened().records(on_unreadable=told.append)] == [good]
    assert len(told) == 1 and "damaged" in str(told[0])
    with pytest.raises(StoreError, match="damaged"):
        opened().trials(bad)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("accept", {"run": [1]}),
        ("accept", {"time": "soon"}),
        ("plan", {"run": None}),
        ("seal", {"counts": {"a": 1}}),
    ],
)
def test_a_line_of_another_form_is_damage_whoever_wrote_its_checksum(
    tmp_path: Path, opened: Callable[[], JournalStore], kind: str, change: dict[str, object]
) -> None:
    identifier, _ = start(opened())
    path = journal(tmp_path, identifier, 1)
    events = [json.loads(line) for line in path.read_text("ascii").splitlines()]
    place = next(number for number, event in enumerate(events) if event["kind"] == kind)
    events[place] |= change
    bare = [{name: value for name, value in event.items() if name not in ("checksum", "sequence")} for event in events]
    path.write_bytes(b"".join(write_line(number, event) for number, event in enumerate(bare)))
    for use in (opened().record, opened().trials):
        with pytest.raises(StoreError):
            use(identifier)


def test_an_interval_whose_end_is_no_number_makes_a_result_unreadable() -> None:
    document = finished()[0].result.as_json()
    for ends in (["x", 1.0], [1.0, []], [True, 1.0]):
        document["confirmation"]["ci95"] = ends
        with pytest.raises(StoreError, match=r"cannot be read: confirmation: .*not a number"):
            read_result(document, "ab12")
