"""Tools of ``stripewise service mcp`` are requests to a service with its limits; the person is asked before a start."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types
import pytest
from mcp import Client as Assistant
from typer.testing import CliRunner

from stripewise.desk.cli.commands import app
from stripewise.desk.client.client import Client
from stripewise.desk.client.transport import _make_refusal
from stripewise.desk.server.assistant import assistant, bounded_wait
from stripewise.desk.server.service import Settings
from tests.unit.service import SIMULATED, Running, running

PROGRAM: dict[str, Any] = {
    "command": ["/bin/sleep", "{t}"],
    "budget": 3,
    "more": {"parameters": {"t": {"kind": "ordinal", "values": [0, 1], "default": 1, "carrier": "argument"}}},
}
SIMULATION = {name: SIMULATED[name] for name in ("stacks", "objective", "budget")} | {
    "command": [],
    "more": {name: SIMULATED[name] for name in ("runner", "workload")},
}


class Near:
    """Carries requests to a service in this process."""

    def __init__(self, served: Running) -> None:
        self._client = served.operator

    def send(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, document: Any = None, **given: Any
    ) -> tuple[bytes, str]:
        query = {name: value for name, value in (query or {}).items() if value is not None}
        more = {"content": given["body"]} if given.get("body") is not None else {"json": document} if document else {}
        answer = self._client.request(method, path, params=query, headers=given.get("headers"), **more)
        if answer.status_code >= 400:
            raise _make_refusal(answer.status_code, answer.content)
        return answer.content, answer.headers["content-type"].partition(";")[0]


class Person:
    """Answers what a tool asks, and keeps the questions."""

    def __init__(self, **answer: bool) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def __call__(self, context: Any, question: Any) -> Any:
        self.asked.append(question.message)
        if not self.answer:
            return mcp_types.ElicitResult(action="decline")
        return mcp_types.ElicitResult(action="accept", content=dict(self.answer))


def call(server: Any, person: Person | None, name: str, **given: Any) -> Any:
    """Call a tool as an assistant does; gives the document, or the words of the error."""

    async def called() -> Any:
        async with Assistant(server, elicitation_callback=person) as speaker:
            answer = await speaker.call_tool(name, given)
            return answer.content[0].text if answer.is_error else answer.structured_content

    return asyncio.run(called())


def tools(served: Running, *, ask: bool = True) -> Any:
    client = Client("http://localhost", token="unused")
    client._transport = Near(served)  # type: ignore[assignment]
    return assistant(client, served.service.settings, ask=ask)


def test_a_program_starts_only_after_the_person_agreed(tmp_path: Path) -> None:
    with running(tmp_path) as served:
        server, no, yes = tools(served), Person(), Person(start=True)
        assert "did not agree" in call(server, no, "tune", **PROGRAM)
        assert "cannot ask the person" in call(server, None, "tune", **PROGRAM)
        assert served.service.store.count() == 0
        made = call(server, yes, "tune", **PROGRAM)
        assert made["queued"]
        (question,) = yes.asked
        assert no.asked == [question] and question.startswith("Start /bin/sleep '{t}' in the data folder, at most 3")
        agreed = Person(start=True, any_cost=True)
        above = call(server, agreed, "tune", **PROGRAM)
        # Without a question nobody agrees to a cost above the site's limits.
        unasked = call(tools(served, ask=False), None, "tune", **PROGRAM)
        found = [served.service.jobs.of(one["id"]) for one in (made, above, unasked)]
        assert [job is not None and job.request["agreed"] for job in found] == [False, True, False]


def test_the_person_is_asked_about_all_that_starts(tmp_path: Path) -> None:
    with running(tmp_path) as served:
        server, person = tools(served), Person(start=True)
        hooks = {"hooks": {"before": ["touch x"]}}
        call(server, person, "tune", **{**PROGRAM, "more": {**PROGRAM["more"], **hooks}})
        assert '"before": ["touch x"]' in person.asked.pop()
        call(server, person, "tune", **{**PROGRAM, "objective": "energy:touch x"})
        assert '"objective": "energy:touch x"' in person.asked.pop(), "its command runs after each run"
        given = {**PROGRAM, "more": {**PROGRAM["more"], "command": ["/bin/sh"]}}
        assert "more holds" in call(server, person, "tune", **given)
        assert person.asked == [] and served.service.store.count() == 2


def test_the_question_hides_nothing_at_its_end_and_no_letter_in_another(tmp_path: Path) -> None:
    """A Cyrillic letter, a mark that reverses the text, a new line, and a command that is long."""
    with running(tmp_path) as served:
        server, person = tools(served), Person(start=True)
        long = [f"word{number}" for number in range(900)]
        command = ["/bin/sleep", "\u0455leep", "\u202e\n\x1b[2J", "{t}", *long, "; id"]
        more = {**PROGRAM["more"], "hooks": {"before": ["echo " + "x" * 4000 + " && id"]}}
        call(server, person, "tune", **{**PROGRAM, "command": command, "more": more})
        (question,) = person.asked
        assert question.isascii() and question.isprintable() and len(question) < 4000
        assert question.startswith("Start /bin/sleep '\\u0455leep' '\\u202e\\n\\x1b[2J' '{t}' word0 word1 ")
        assert "characters left out ...] " in question
        assert "word899 '; id' in the data folder, at most 3" in question and ' && id"]}' in question


def test_what_the_service_refuses_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    with running(tmp_path, allow=("/bin/echo ...",)) as served:
        server, person = tools(served), Person(start=True, any_cost=True)
        for name in ("dry_run", "tune"):
            assert "allow-list" in call(server, person, name, command=["/bin/sleep", "1"])
            assert "outside the folders" in call(server, person, name, command=["/bin/echo", "1"], folder="/etc")
            assert "'parameters of one's own' is not allowed" in call(
                server, person, name, **{**PROGRAM, "command": ["/bin/echo", "{t}"]}
            )
        assert "outside the folders" in call(server, person, "diagnose", log="/etc/passwd")
        assert "cannot be followed" in call(server, person, "diagnose", log=f"{tmp_path}/{'long' * 99}")
        assert person.asked == []


def test_tools_that_change_nothing_say_so_and_answer_as_the_service(tmp_path: Path) -> None:
    with running(tmp_path) as served:
        server = tools(served)

        async def listed() -> dict[str, bool]:
            async with Assistant(server) as speaker:
                return {tool.name: tool.annotations.read_only_hint for tool in (await speaker.list_tools()).tools}

        assert asyncio.run(listed()) == {
            **dict.fromkeys(("knobs", "dry_run", "show", "prescribe", "export"), True),
            **dict.fromkeys(("diagnose", "tune"), False),
        }
        script = "export ROMIO_HINTS=h\nexport MPICH_MPIIO_HINTS='*:cb_nodes=4'\n"
        judged = call(server, None, "knobs", script=script, mpi="mpich")
        assert judged == served.viewer.post("/api/knobs", json={"script": script, "mpi": "mpich"}).json()
        assert call(server, None, "knobs", script=script)["mpi"] == "cray", "the one that the script uses"
        assert [one["verdict"] for one in judged["settings"]] == ["dead"]
        assert call(server, None, "dry_run", **SIMULATION)["worst_case"]["runs"] == 4
        # Simulated runs start no program: nobody is asked.
        made = call(server, None, "tune", **SIMULATION)
        assert call(server, None, "show", experiment=made["id"])["queued"]
        assert "has no result yet" in call(server, None, "export", experiment=made["id"])
        # The client asks no service for it: a proxy would lead it elsewhere.
        assert "does not exist in http://localhost" in call(server, None, "export", experiment="../models/a?x=")


def _commands_of_the_skill() -> list[list[str]]:
    """The commands of SKILL.md's blocks, in order."""
    text = (resources.files("stripewise.desk.server") / "SKILL.md").read_text("utf-8")
    blocks = re.findall(r"^ *```\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [shlex.split(line) for block in blocks for line in block.splitlines() if line.strip()]


def test_an_assistant_waits_at_most_50_seconds() -> None:
    assert [bounded_wait(seconds) for seconds in (0.0, 12.0, 1e9, float("inf"), float("nan"))] == [0, 12, 50, 50, 50]


def test_calls_that_wait_hold_no_others_up(tmp_path: Path) -> None:
    """Each had a thread until its time was over, and there are 40."""
    waits = {"id": "51e11ec7", "state": "running", "queued": False, "facts": {}}
    service = SimpleNamespace(experiment=lambda identifier: waits, post=lambda path, document: {"issues": []})

    async def asked() -> Any:
        async with Assistant(assistant(service, Settings(data=tmp_path), ask=True)) as speaker:  # type: ignore[arg-type]
            calls = [speaker.call_tool("show", {"experiment": "51e11ec7", "wait": 50}) for _ in range(60)]
            waiting = [asyncio.create_task(one) for one in calls]
            await asyncio.sleep(1)
            answer = await asyncio.wait_for(speaker.call_tool("knobs", {"script": "mpiexec ./a"}), 20)
            for one in waiting:
                one.cancel()
            return answer.structured_content

    assert asyncio.run(asked()) == {"issues": []}


def test_every_command_of_the_skill_works(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "logs").mkdir()
    shutil.copy(root / "tests" / "fixtures" / "darshan" / "netcdf-merged.darshan", tmp_path / "job.darshan")
    shutil.copy(tmp_path / "job.darshan", tmp_path / "logs" / "job.darshan")
    shutil.copy(root / "tests" / "fixtures" / "scripts" / "plain.sh", tmp_path / "job.sh")
    shutil.copy(root / "examples" / "simulated-kay.toml", tmp_path / "experiment.toml")
    environment = {**os.environ, "STRIPEWISE_HOME": str(tmp_path / "home")}
    found: dict[str, Any] = {}
    commands = _commands_of_the_skill()
    assert [words[1] for words in commands] == ["knobs", "diagnose", "diagnose", "tune", "tune", "show", "export"]
    for words in commands:
        assert words[0] == "stripewise"
        given = [found["experiment"] if word == "ID" else word for word in words[1:]]
        done = subprocess.run(
            [sys.executable, "-m", "stripewise", *given],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr)
        found = {**found, **json.loads(done.stdout)}
    assert found["worst_case"]["runs"] == 60
    assert found["confirmed"] in (True, False) and "speedup_ci95" in found and found["simulated"] is True
    assert found["over_time"]["files"] and "undo" in found


def test_the_skill_is_printed_where_the_protocol_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    printed = CliRunner().invoke(app, ["service", "mcp", "--skill"])
    assert printed.exit_code == 0 and printed.stdout.startswith("---\nname: stripewise\n")
