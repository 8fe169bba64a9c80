"""The client beside a service that answers otherwise than it expects."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.client.client import Client
from stripewise.desk.client.desk import RemoteDesk
from stripewise.desk.client.follow import Follower
from stripewise.desk.client.transport import _Answer
from stripewise.errors import StripewiseError, TransientError, UserError
from stripewise.requests.experiment import Experiment
from stripewise.trial import Phase, Role, Run, State, Trial

FACE: Any = None
"""Nothing is told and nobody is asked."""
ANSWERS: dict[str, Any] = {
    "/api/v1/models/large/file": "x" * 3000,
    "/api/v1/experiments/abc/events": b"data: [0]\n" * 200,
    "/api/v1/health": {"status": "ok", "version": "0.0.7"},
    "/api/v1/diagnoses//prediction": {"origin": "model", "expectations": [], "settings": [], "notes": []},
}


class Service(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = ANSWERS[self.path]
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815  the names that http.server looks for

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def client() -> Iterator[Client]:
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Client(f"http://127.0.0.1:{server.server_port}", "token")
        server.shutdown()
        thread.join()


def test_a_file_that_is_too_large_is_not_cut(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stripewise.desk.client.transport._MOST_BYTES", 2 << 10)
    with pytest.raises(UserError, match="answer to /api/v1/models/large/file is larger than"):
        client.download("/models/large/file")


def test_documents_and_events_of_a_hostile_service_do_not_fill_the_memory(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stripewise.desk.client.transport._MOST_JSON", 40)
    with pytest.raises(UserError, match="a document of more than"):
        client.get("/models/large/file")
    monkeypatch.setattr("stripewise.desk.client.transport._LARGEST_EVENT", 1000)
    with pytest.raises(UserError, match="an event of more than"):
        list(client._transport.events("/api/v1/experiments/abc/events"))


def test_a_model_that_others_can_change_is_not_sent(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.touch()
    path.chmod(0o666)
    with pytest.raises(UserError, match="others can write the model"):
        RemoteDesk(client, FACE).send_model(str(path))


def test_a_service_of_another_version_is_named(client: Client) -> None:
    activity: Any = None
    with pytest.raises(StripewiseError, match=r"has no 'decided': the service is version 0\.0\.7, this program"):
        RemoteDesk(client, FACE).expected(activity, Path("model"))


def test_a_run_that_is_told_late_is_compared_with_what_was_known_then(client: Client) -> None:
    def ended(number: int, value: float) -> Run:
        return Run(number, min(number, 1), Phase.SEARCH, State.FINISHED, value)

    default = Trial(0, Configuration({"a": 1}), Role.DEFAULT, (ended(0, 1.0), ended(2, 9.0)))
    other = Trial(1, Configuration({"a": 2}), runs=(ended(1, 2.0),))
    told: list[tuple[int, float | None]] = []

    def tell(kind: str, data: dict[str, Any]) -> None:
        if kind == "ended":
            told.append((data["run"].number, data["trials"][0].value))

    follower = Follower(client, "abc", tell)
    follower._prepared, follower._trials = True, {0: default, 1: other}
    for run in (*other.runs, default.runs[-1]):
        follower._ended(run)
    assert told == [(1, 1.0), (2, 5.0)]


@pytest.mark.parametrize(("told", "said"), [((), ["started", "ended"]), ((0,), [])])
def test_runs_that_end_before_anybody_listens_are_told(
    client: Client, told: tuple[int, ...], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(0, Configuration({"a": 1}), Role.DEFAULT, (Run(0, 0, Phase.SEARCH, State.FINISHED, 1.0),))
    record = SimpleNamespace(experiment=Experiment(name="a", command=["true"]))
    stopped = {"state": "stopped", "queued": False, "result": None, "error": ""}
    heard: list[str] = []
    follower = Follower(client, "abc", lambda kind, _: heard.append(kind))
    follower._prepared = True
    monkeypatch.setattr(follower._store, "trials", lambda *_, **__: (trial,))
    monkeypatch.setattr(follower._store, "record", lambda *_: record)
    monkeypatch.setattr(client, "messages", lambda *_: [])
    monkeypatch.setattr(client, "events", lambda *_: iter([("experiment", stopped)]))
    monkeypatch.setattr(client, "experiment", lambda *_: stopped)
    with pytest.raises(StripewiseError, match="was stopped"):
        follower.run(0, told)
    assert heard == said


@pytest.mark.parametrize("identifier", ["../audit", "a?facts=true", "a%2Fb", ""])
def test_what_is_no_identifier_leads_nowhere(client: Client, identifier: str) -> None:
    for ask in (client.experiment, client.stop, client.trials, client.resume):
        with pytest.raises(UserError, match="does not exist in http://127"):
            ask(identifier)
    with pytest.raises(UserError, match="does not exist"):
        list(client.events(identifier))


@pytest.mark.parametrize("sent", [b"[" * 200_000, b"\xff\xfe\x00", b"{"])
def test_an_answer_that_is_no_json_is_told_in_a_line(client: Client, sent: bytes, monkeypatch: Any) -> None:
    monkeypatch.setattr("stripewise.desk.client.transport.Transport.send", lambda *_, **__: (sent, "application/json"))
    with pytest.raises(UserError, match="not valid JSON"):
        client.get("/experiments")


def test_an_event_without_end_is_refused(client: Client, monkeypatch: Any) -> None:
    class Endless(io.RawIOBase):
        status = 200

        def wait_for_each(self) -> None:
            """Wait for nothing."""

        def readline(self, size: int | None = -1) -> bytes:
            return b"x" * min(size or 0, 1 << 25)

    monkeypatch.setattr(
        "stripewise.desk.client.transport.Transport._opened", lambda *_, **__: contextlib.nullcontext(Endless())
    )
    with pytest.raises(UserError, match="an event of more than 16 MiB"):
        next(client._transport.events("/events"))


HALF = {"id": "a1", "state": "done", "result": 5, "error": [], "items": [{}], "total": 1, "facts": 5, "queued": True}


@pytest.mark.parametrize("answer", [None, [], 5, "x", {}, {"items": 5, "total": "x"}, HALF, {**HALF, "items": [HALF]}])
def test_an_answer_of_another_form_is_told_in_a_line(client: Client, answer: Any, monkeypatch: Any) -> None:
    sent = (json.dumps(answer).encode(), "application/json")
    monkeypatch.setattr("stripewise.desk.client.transport.Transport.send", lambda *_, **__: sent)
    monkeypatch.setattr("stripewise.desk.client.transport.Transport.events", lambda *_: iter([("run", answer)]))
    desk, experiment = RemoteDesk(client, FACE), Experiment.model_validate({"name": "a", "command": "true"})
    for ask in (
        lambda: desk.experiments().trials("a1"),
        lambda: desk.experiments().records(),
        lambda: desk.experiments().record("a1"),
        lambda: desk.dry_run(experiment, None),
        lambda: Follower(client, "a1", lambda *_: None).run(),
        lambda: desk.wait(answer),
    ):
        with pytest.raises(
            UserError, match=r"answer cannot be used \(\w+ in \w+\.py:\d+\); is it Stripewise's, and of"
        ):
            ask()


def _served(sends: Callable[[socket.socket], object], ask: Callable[[Client], object]) -> str:
    """Ask a service that sends what it likes to its one client; gives what the client says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            made, _ = listener.accept()
            with made, contextlib.suppress(OSError):
                made.recv(1 << 16)
                sends(made)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(TransientError) as told:
            ask(Client(f"http://127.0.0.1:{listener.getsockname()[1]}", "token", timeout=0.3))
        thread.join(10.0)
        assert not thread.is_alive()
        return str(told.value)


@pytest.mark.parametrize(
    "begun", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"], ids=["head", "body"]
)
def test_an_answer_that_trickles_ends(begun: bytes) -> None:
    """Each byte comes within the limit of one wait, so that limit alone would never end it."""

    def trickle(made: socket.socket) -> None:
        made.sendall(begun)
        while True:
            made.sendall(b"a")
            time.sleep(0.05)

    assert "cannot be reached: timed out" in _served(trickle, lambda client: client.get("/experiments"))


def test_headers_without_end_are_refused() -> None:
    def go_on(made: socket.socket) -> None:
        while True:
            made.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)

    assert "its headers do not end" in _served(go_on, lambda client: client.get("/experiments"))


def test_events_may_come_slowly() -> None:
    def tell(made: socket.socket) -> None:
        made.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(5):
            time.sleep(0.1)
            made.sendall(b"event: run\ndata: 1\n\n")

    heard: list[Any] = []
    told = _served(tell, lambda client: heard.extend(client.events("abc")))
    assert "has ended the stream" in told


def test_the_first_event_has_its_whole_time_after_a_slow_head() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.6)
        answer = _Answer(ours)

        def tell() -> None:
            for wait, part in ((0.4, b"HTTP/1.1 200 OK\r\n"), (0.0, b"X: y\r\n\r\n"), (0.4, b"data: 1\n")):
                time.sleep(wait)
                theirs.sendall(part)

        thread = threading.Thread(target=tell)
        thread.start()
        answer.begin()
        answer.wait_for_each()
        assert answer.readline() == b"data: 1\n"
        thread.join()


def test_pages_without_end_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (json.dumps({"items": [{"number": 1}], "total": 10**12}).encode(), "application/json")
    asked: list[Any] = []

    def send(*_: object, **given: Any) -> tuple[bytes, str]:
        asked.append(given)
        return page

    monkeypatch.setattr("stripewise.desk.client.transport.Transport.send", send)
    for ask in (client.trials, client.messages):
        with pytest.raises(UserError, match=r"more than 256 MiB of (trials|messages)"):
            ask("abc")
    assert len(asked) < 10_000


def test_a_file_that_the_service_refuses_does_not_fill_the_memory(tmp_path: Path) -> None:
    """An assistant may name any file below its folders: all of it was read, and the service called away."""
    (tmp_path / "log").touch()
    os.truncate(tmp_path / "log", 3 << 30)
    problem = b"{}"

    def refuse(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1024)
            head = f"HTTP/1.1 413 Too large\r\nContent-Type: application/json\r\nContent-Length: {len(problem)}\r\n\r\n"
            connection.sendall(head.encode() + problem)

    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        thread = threading.Thread(target=refuse, args=(listening,))
        thread.start()
        tracemalloc.start()
        try:
            with pytest.raises(StripewiseError, match="413"):
                Client(f"unix:{tmp_path}/socket", "token").upload("/diagnoses", tmp_path / "log")
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()
            thread.join()
