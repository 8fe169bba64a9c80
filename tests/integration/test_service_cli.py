"""The same commands give the same output through a service; it listens for its user alone and ends in good order."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("fastapi")

from stripewise.desk.cli.main import main
from stripewise.desk.client import Client, ServiceError
from stripewise.desk.client.transport import Address
from stripewise.desk.server.app import tcp_socket, unix_socket
from stripewise.errors import TransientError, UserError
from stripewise.testing.stores import refused
from tests.unit.reports import example_log, recorded

EXPERIMENT = """
runner = "sim:kay"
stacks = ["lustre"]
objective = "write_bandwidth"
[workload]
operation = "write"
nodes = 2
processes_per_node = 4
file_size = "1 GiB"
"""

SITE = """
name = "tests"
runner = "sim:kay"
stacks = ["lustre"]
operations = ["write"]
repeats = 3
[[workload]]
name = "nodes"
values = [2, 4]
[[workload]]
name = "file_size"
values = ["4 GiB", "8 GiB"]
[[tunable]]
name = "stripe_count"
values = [1, 4, 16]
operations = ["write"]
[[tunable]]
name = "transfer_size"
values = ["16 MiB", "64 MiB"]
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class Terminal:
    """Runs commands with a home, a store and a socket of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "s"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STRIPEWISE_")},
            "STRIPEWISE_HOME": str(folder / "home"),
            "STRIPEWISE_STORE": f"sqlite:///{folder}/s.db",
        }

    def __call__(self, *words: str, far: bool = False, code: int = 0) -> Told:
        """Run a command in this process, which has loaded everything already."""
        environment = {**self.environment, **({"STRIPEWISE_SERVER": f"unix:{self.socket}"} if far else {})}
        told = Told()
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(told.out),
            contextlib.redirect_stderr(told.err),
        ):
            assert main(list(words)) == code, told.stderr
        return told

    def both(self, *words: str, code: int = 0) -> tuple[Told, Told]:
        """Run a command here, and then through the service."""
        return self(*words, code=code), self(*words, far=True, code=code)


@dataclass
class Told:
    """What a command has written."""

    out: io.StringIO = field(default_factory=io.StringIO)
    err: io.StringIO = field(default_factory=io.StringIO)

    @property
    def stdout(self) -> str:
        return self.out.getvalue()

    @property
    def stderr(self) -> str:
        return self.err.getvalue()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    made = Terminal(tmp_path_factory.mktemp("service"))
    (made.folder / "e.toml").write_text(EXPERIMENT)
    made("service", "token", "create", "ada", "--role", "operator", "--save")
    with (made.folder / "log").open("w") as log:
        command = [sys.executable, "-m", "stripewise", "serve", "--socket", str(made.socket)]
        process = subprocess.Popen(command, env=made.environment, cwd=made.folder, stderr=log)
        try:
            until(made.socket.exists, "the socket")
            yield made
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert not made.socket.exists()
    assert "worker" in (made.folder / "log").read_text()
    left = subprocess.run(["pgrep", "-f", str(made.folder)], capture_output=True, text=True, check=False).stdout.split()
    assert left == [], "workers outlive the service"


def same(text: str) -> str:
    """Without what differs from one experiment to the next."""
    return re.sub(r"\b[0-9a-f]{8}\b", "ID", text)


def test_tune_list_show_export_and_delete_say_the_same(terminal: Terminal) -> None:
    words = ("tune", "e.toml", "--budget", "12", "--name", "a")
    near, far = terminal(*words), terminal(*words, far=True)
    assert same(near.stdout) == same(far.stdout)
    assert sorted(same(near.stderr).splitlines()) == sorted(same(far.stderr).splitlines())
    listed = json.loads(terminal("list", "--json").stdout)
    assert terminal("list", far=True).stdout == terminal("list").stdout
    assert json.loads(terminal("list", "--json", far=True).stdout) == listed
    for one in listed:
        for options in ((), ("--runs",), ("--json",)):
            words = ("show", one["id"], *options)
            assert terminal(*words).stdout == terminal(*words, far=True).stdout
        words = ("export", one["id"], "--to", "lfs")
        assert terminal(*words).stdout == terminal(*words, far=True).stdout
    dry = ("tune", "e.toml", "--budget", "5", "--dry-run", "--json")
    assert terminal(*dry).stdout == terminal(*dry, far=True).stdout
    identifier = listed[0]["id"]
    (terminal.folder / "job.sh").write_text("export ROMIO_HINTS=none\nlfs setstripe -c 4 out\n")
    near, far_knobs = terminal.both("knobs", "job.sh", "--evidence", identifier)
    assert near.stdout == far_knobs.stdout
    for there in (False, True):
        terminal("experiment", "bundle", identifier, "-o", f"{there}.zip", far=there)
    names = [zipfile.ZipFile(terminal.folder / f"{there}.zip").namelist() for there in (False, True)]
    assert names[0] == names[1]
    small = ("tune", "--small", "./small", "--dry-run", "--", "mpiexec", "-n", "2", "true")
    assert "--server does not take --small" in terminal(*small, far=True, code=2).stderr
    assert same(terminal("resume", identifier, far=True).stdout) == same(far.stdout)
    for words in (("experiment", "stop", identifier), ("show", "zzz"), ("tune", "e.toml", "--sampler", "nonsense")):
        wrong = [terminal(*words, far=there, code=2).stderr for there in (False, True)]
        assert wrong[0].replace(f"sqlite:///{terminal.folder}/s.db", "HERE") == wrong[1].replace(
            f"unix:{terminal.socket}", "HERE"
        )
    terminal("experiment", "annotate", identifier, "--tag", "far", "--remark", "seen", far=True)
    assert json.loads(terminal("experiment", "annotate", identifier, "--json").stdout)["tags"] == ["far"]
    terminal("experiment", "delete", identifier, "--yes", far=True)
    assert identifier not in terminal("list").stdout


def test_a_failing_experiment_ends_alike(terminal: Terminal) -> None:
    stack = terminal.folder / "own.toml"
    stack.write_text(
        'name = "own"\n[[parameter]]\nname = "depth"\nkind = "ordinal"\nvalues = [1, 2]\ndefault = 1\ncarrier = "env"\n'
    )
    words = ("tune", "--budget", "5", "--name", "fails", "--stack", str(stack), "--", "/bin/false")
    near, far = terminal(*words, code=1), terminal(*words, far=True, code=1)
    assert "the program fails as it is" in far.stderr
    last = [re.sub(r"/runs/\S+", "FOLDER", same(done.stderr).splitlines()[-1]) for done in (near, far)]
    assert last[0] == last[1]


def test_measuring_learning_judging_and_prescribing_say_the_same(terminal: Terminal) -> None:
    both = terminal.both
    (terminal.folder / "campaign.toml").write_text(SITE)
    words = ("site", "profile", "campaign.toml", "--out", "site", "--seed", "3")
    near, far = both(*words)
    assert near.stdout == far.stdout and "72 of 72 simulated runs" in far.stdout
    assert all(line in far.stderr for line in near.stderr.splitlines() if line.startswith("design"))
    near, far = both(*words, "--dry-run")
    assert near.stdout == far.stdout
    near, far = both("site", "train", "./site", "--model", "tree", "--out", "site.model", "--explain")
    assert _untimed(near.stdout) == _untimed(far.stdout) and "slow, average, fast:" in far.stdout
    for options in (("--leave-out", "contexts", "--depths", "1-2"), ("--inverse", "4", "--json")):
        near, far = both("site", "validate", "./site", "--model", "tree", *options)
        assert near.stdout == far.stdout
    near, far = both("site", "evaluate", "campaign.toml", "--model", "site.model", "--eager", "--report", "page.html")
    assert near.stdout == far.stdout and "cases improved" in far.stdout
    assert far.stderr.splitlines()[-1] == near.stderr.splitlines()[0], "how many cases and points"
    (terminal.folder / "w.toml").write_text("[workload]\noperation = 'write'\nnodes = 2\nfile_size = '4 GiB'\n")
    near, far = both("prescribe", "site.model", "--workload", "w.toml", "--table", "./site")
    assert near.stdout == far.stdout and "stripe_count" in far.stdout
    places = ("--place", "/home=site.model", "--place", "/scratch=./site", "--place-by", "env:OUT_DIR")
    near, far = both("prescribe", "--workload", "w.toml", *places)
    assert near.stdout == far.stdout and "/scratch" in far.stdout
    both("site", "train", "./site", "--out", "x.model", "--model-option", "nonsense=1", code=2)
    both("site", "validate", "./site", "--folds", "100000", code=2)


def _untimed(text: str) -> str:
    return re.sub(r" in [0-9.]+ s:", " in TIME:", text)


def test_logs_are_diagnosed_the_same(terminal: Terminal) -> None:
    both = terminal.both
    (terminal.folder / "logs").mkdir()
    log = terminal.folder / "logs" / "job.darshan"
    log.write_bytes(example_log().read_bytes())
    (log.parent / "report.json").write_text(json.dumps(recorded("romio_strided_write")["default"]))
    for words in (("logs/job.darshan",), ("logs/report.json", "--json"), ("logs", "--json", "--table", "t.csv")):
        near, far = both("diagnose", *words)
        assert near.stdout == far.stdout and near.stdout, words
    pages = []
    for there in (False, True):
        terminal("diagnose", "logs/job.darshan", "--report", "job.html", "--threshold", "small_share=0.9", far=there)
        pages.append((terminal.folder / "job.html").read_text())
    assert pages[0] == pages[1]
    log.write_bytes(log.read_bytes()[:700])
    for words in (("logs/job.darshan",), ("nowhere.darshan",)):
        near, far = both("diagnose", *words, code=2)
        assert near.stderr.splitlines()[-1] == far.stderr.splitlines()[-1]


def test_workers_end_with_a_service_that_is_killed(tmp_path: Path) -> None:
    alone = Terminal(tmp_path)
    command = [sys.executable, "-m", "stripewise", "serve", "--socket", str(alone.socket)]
    with (tmp_path / "log").open("w") as log:
        service = subprocess.Popen(command, env=alone.environment, cwd=tmp_path, stderr=log)
    try:
        until(lambda: "waits for jobs" in (tmp_path / "log").read_text(), "a worker")
        until(lambda: len(children(service.pid)) == 2, "a worker, and a child that reads what requests bring")
        begun = children(service.pid)
    finally:
        service.kill()
        service.wait()
    until(lambda: not any(Path(f"/proc/{child}").exists() for child in begun), "the end of both")
    assert "the service is gone" in (tmp_path / "log").read_text()


def children(pid: int) -> list[str]:
    """Children of all threads of a process."""
    return [word for path in Path(f"/proc/{pid}/task").glob("*/children") for word in path.read_text().split()]


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.1)


def test_the_client(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPEWISE_HOME", terminal.environment["STRIPEWISE_HOME"])
    client = Client(f"unix:{terminal.socket}")
    definition: dict[str, Any] = {
        **{"runner": "sim:kay", "stacks": ["lustre"], "objective": "write_bandwidth", "budget": 6},
        "workload": {"operation": "write", "nodes": 2, "processes_per_node": 4, "file_size": "1 GiB"},
    }
    made = client.create(definition, key="once")
    assert client.create(definition, key="once")["id"] == made["id"]
    for event, data in client.events(made["id"], after=0):
        if event == "experiment" and data["state"] == "finished":
            break
    made_runs = [run["number"] for trial in client.trials(made["id"]) for run in trial["runs"]]
    assert sorted(made_runs) == list(range(6))
    assert client.experiment(made["id"])["result"]["simulated"]
    with pytest.raises(ServiceError) as caught:
        client.experiment("nothing0")
    assert caught.value.status == 404
    with pytest.raises(ServiceError) as caught:
        client.create({**definition, "budget": 7}, key="once")
    assert caught.value.status == 409
    with pytest.raises(ServiceError) as caught:
        Client(f"unix:{terminal.socket}", token="sw_wrong").experiments()
    assert caught.value.status == 401
    with refused(TransientError, "cannot be reached", "stripewise serve"):
        Client(f"unix:{terminal.folder}/nowhere", token="x").experiments()
    token = terminal.folder / "home" / "token"
    token.chmod(0o644)
    with refused(UserError, "others may read", "chmod 600"):
        Client(f"unix:{terminal.socket}")
    token.chmod(0o600)


def test_addresses() -> None:
    assert Address.parse("unix:/run/s").socket == Path("/run/s")
    assert (Address.parse("https://tuner.example/x/").port, Address.parse("https://tuner.example/x/").prefix) == (
        443,
        "/x",
    )
    assert Address.parse("http://127.0.0.1:8437").port == 8437
    with refused(UserError, "in the clear", "https"):
        Address.parse("http://tuner.example")
    for wrong in ("ftp://x", "tuner", "http://", "https://ada:secret@x", "https://x?token=1", "http://localhost:x"):
        with pytest.raises(UserError) as caught:
            Address.parse(wrong)
        assert "secret" not in str(caught.value)


def test_sockets_are_for_their_user_and_this_machine(tmp_path: Path) -> None:
    made = unix_socket(tmp_path / "s")
    mode = (tmp_path / "s").stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600
    with refused(UserError, "listening on", "already"):
        unix_socket(tmp_path / "s")
    made.close()
    unix_socket(tmp_path / "s").close()
    (tmp_path / "file").write_text("mine")
    with refused(UserError, "not a socket"):
        unix_socket(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    with refused(UserError, "longer than"):
        unix_socket(tmp_path / ("x" * 120))
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with refused(UserError, "other machines", "--force"):
            tcp_socket(host, 0, force=False)
    for host in ("127.0.0.1", "localhost"):
        opened = tcp_socket(host, 0, force=False)
        assert opened.family is socket.AF_INET
        opened.close()
