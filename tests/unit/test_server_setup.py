"""The service before its first request: what it needs, and what it makes of a filled form."""

import csv
import math
import re
import sqlite3
import sys
from pathlib import Path

import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.server import commands
from stripewise.desk.server.problems import hide_store
from stripewise.desk.server.resources.prescriptions import make_question
from stripewise.errors import UserError
from stripewise.requests.experiment import Experiment
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.system.pages_service import put
from tests.unit.finished_experiment import finished
from tests.unit.service import SIMULATED, running


def test_serving_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "stripewise.desk.server.app", raising=False)
    with pytest.raises(UserError, match=r"the package fastapi is not installed.*pip install '\.\[server\]'"):
        commands.serve()


@pytest.mark.parametrize("port", [0, 8437])
def test_a_port_without_an_address_is_refused(port: int) -> None:
    """Before, the service listened on its socket, and nobody on the port."""
    with pytest.raises(UserError, match=rf"--port {port} needs an address.*add --host 127.0.0.1"):
        commands.serve(port=port)


def test_an_infinite_setting_of_a_form_is_a_value_to_be_refused_not_a_crash() -> None:
    asked = make_question({"id": "m"}, {"current.cb_nodes": "inf", "current.stripes": "4.0"}, ())
    assert asked.current == {"cb_nodes": math.inf, "stripes": 4}


def test_answers_keep_the_rules_of_http(tmp_path: Path) -> None:
    with running(tmp_path) as found:
        made = found.operator.post("/api/v1/experiments", json={"definition": SIMULATED, "start": False})
        address = made.headers["location"]
        assert address == f"/api/v1/experiments/{made.json()['id']}"
        first = found.viewer.get(address)
        assert first.status_code == 200 and first.headers["content-encoding"] == "gzip"
        again = found.viewer.get(address, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        head = found.viewer.head(address)
        assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", first.headers["etag"])
        assert found.viewer.head("/api/v1/nowhere").status_code == 404
        wrong = found.operator.post("/api/v1/experiments", content=b"{", headers={"Content-Type": "application/json"})
        assert wrong.status_code == 400
        missing = found.viewer.get("/api/v1/experiments/0123")
        assert missing.headers["content-type"] == "application/problem+json"
        assert missing.json()["title"] == "Not Found" and "stripewise " not in missing.text
        assert found.operator.put(address).headers["allow"] == "DELETE, GET, HEAD, PATCH"
        operations = [one for item in found.app.openapi()["paths"].values() for one in item.values()]
        names = [one["operationId"] for one in operations]
        assert len(set(names)) == len(names) and "list_experiments" in names


def test_runs_report_and_notebook_come_as_files(tmp_path: Path) -> None:
    with running(tmp_path) as found:
        record, trials = finished()
        identifier = put(found.service.store, record.experiment, {}, trials, "finished", record.result)
        base = f"/experiments/{identifier}"
        rows = list(csv.DictReader(found.viewer.get(f"{base}/runs.csv").text.splitlines()))
        assert len(rows) == sum(len(trial.runs) for trial in trials) and rows[3]["cb_nodes"]
        assert len(found.viewer.get(f"{base}/runs.json").json()) == len(trials)
        results = found.viewer.get(f"{base}/runs.t4.json").json()["results"]
        assert [one["invalidity"] for one in results].count("correct") == sum(
            any(run.state is State.FINISHED for run in trial.runs) for trial in trials
        )
        assert len(results) == len(trials) and all(one["configuration"]["cb_nodes"] for one in results)
        for one in results:
            measured = one["measurements"]
            assert not measured or (measured[0]["unit"] and one["times"]["runtimes"] and one["correctness"] == 1.0)
        assert "Gain proven" in found.viewer.get(f"{base}/report.html").text
        book = found.viewer.get(f"{base}/notebook.ipynb").json()
        for cell in book["cells"][1:]:
            exec(compile(cell["source"], "cell", "exec"), {})
        assert len(book["cells"]) > 5


def test_the_output_of_a_run_is_shown_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path / "state"))
    with running(tmp_path) as found:
        store = found.service.store
        identifier = store.create(Experiment(command=["./app"], budget=5), {})
        claim = store.claim(identifier, "ada@node1:1")
        store.update(identifier, claim=claim, state="running")
        store.plan(identifier, claim, Trial(0, Configuration({}), Role.DEFAULT), Run(0, 0, Phase.WARMUP))
        store.begin(identifier, claim, 0)
        folder = tmp_path / "state" / "runs" / identifier / "0"
        folder.mkdir(parents=True)
        (folder / "stdout").write_text("step 17 of 40\n")
        found.service.messages.add(identifier, "space", {"names": ["a"], "distinct": 3, "left_out": {"b": "no effect"}})
        page = found.viewer.get(f"/experiments/{identifier}").text
        assert "step 17 of 40" in page and "Left out: b: no effect." in page and 'aria-current="step"' in page
        assert "step 17 of 40" in found.viewer.get(f"/experiments/{identifier}/runs/0").text
        assert found.viewer.get(f"/api/v1/experiments/{identifier}/runs/0/log").json()["text"] == "step 17 of 40\n"


@pytest.mark.parametrize("kept", ["null", "[]", "{"])
def test_a_damaged_message_hides_neither_its_experiment_nor_others(kept: str, tmp_path: Path) -> None:
    with running(tmp_path) as found:
        identifier = found.create()
        messages = found.service.messages
        messages.add(identifier, "prepared", {})
        messages.add(identifier, "note", {"text": "the machine became slower"})
        with sqlite3.connect(tmp_path / "s.db") as connection:
            connection.execute("UPDATE service_messages SET data = ? WHERE kind = 'prepared'", (kept,))
        page = found.viewer.get(f"/experiments/{identifier}")
        assert page.status_code == 200 and "the machine became slower" in page.text
        assert "message 1 is damaged and cannot be read" in page.text


def test_a_ticket_logs_in_once(tmp_path: Path) -> None:
    with running(tmp_path) as found:
        token, _ = found.service.tokens.create("me", "admin")
        address = f"/login?ticket={found.service.tickets.add(token)}"
        browser = found.client()
        assert "Welcome" in browser.get(address).text
        assert browser.get("/").status_code == 200
        other = found.client()
        assert "That token is not valid" in other.get(address).text
        assert other.get("/").status_code == 303


def test_behind_a_path_every_address_has_it(tmp_path: Path) -> None:
    with running(tmp_path, base_path="/node/n1", proxies=("10.0.0.1",)) as found:
        identifier = found.create()
        bearer = {"Authorization": f"Bearer {found.secret}"}
        for client, prefix in (
            (found.client(**bearer), "/node/n1"),
            (found.client("10.0.0.1", **bearer, **{"X-Forwarded-Prefix": "/rnode/n2/8437"}), "/rnode/n2/8437"),
            (found.client("10.0.0.2", **bearer, **{"X-Forwarded-Prefix": "//evil.example"}), "/node/n1"),
        ):
            for path in (f"{prefix}/experiments/{identifier}", f"/experiments/{identifier}"):
                page = client.get(path)
                assert page.status_code == 200
                addresses = re.findall(r'(?:href|src|action|data-live|data-figures)="(/[^"]*)"', page.text)
                assert len(addresses) > 20
                assert all(one.startswith(f"{prefix}/") for text in addresses for one in text.split(" ")), addresses
            assert client.get(f"{prefix}/api/v1/health").status_code == 200
        lost = found.client().get("/node/n1/experiments")
        assert lost.headers["location"].startswith("/node/n1/login?next=/experiments")


def test_experiments_are_searched_stopped_and_deleted_together(tmp_path: Path) -> None:
    with running(tmp_path) as found:
        made = [found.create(name=name) for name in ("100% mine", "1000 mine", "other")]
        assert found.viewer.get("/?text=0%25 MINE").text.count('name="id"') == 1
        assert found.viewer.get("/?text=write_bandwidth&state=created").text.count('name="id"') == 3
        assert "in its name, owner, definition, tags or remark" in found.viewer.get("/?text=nowhere").text
        said = {"tags": ["firmware"], "remark": "<i>slow</i>"}
        assert found.viewer.patch(f"/api/v1/experiments/{made[0]}", json=said).status_code == 403
        told = found.operator.patch(f"/api/v1/experiments/{made[0]}", json=said).json()
        assert (told["tags"], told["remark"]) == (["firmware"], "<i>slow</i>")
        assert "&lt;i&gt;slow" in found.viewer.get("/?text=FIRMWARE&sort=gain").text
        form = {"tags": "a, b,", "remark": ""}
        assert found.operator.post(f"/experiments/{made[0]}/labels", data=form).status_code == 303
        assert found.service.store.record(made[0]).tags == ("a", "b")
        assert found.operator.patch(f"/api/v1/experiments/{made[0]}", json={"tags": ["a,b"]}).status_code == 422
        chosen = {"id": made[:2], "action": "delete"}
        assert found.viewer.post("/experiments/chosen", data=chosen).status_code == 403
        assert found.operator.post("/experiments/chosen", data=chosen).headers["location"] == "/"
        assert [record.id for record in found.service.store.records()] == [made[2]]
        again = found.operator.post("/experiments/chosen", data={"id": made[1:], "action": "stop"})
        assert again.status_code == 409 and "2 of 2 were left as they are" in again.text


STACK = """
name = "cache"
description = "A cache of the site"

[[parameter]]
name = "buffers"
key = "CACHE_BUFFERS"
kind = "ordinal"
values = [1, 4, 16]
carrier = "env"
"""


CAMPAIGN = """
name = "caches"  # a ] and a [ in a remark
stacks = ["cache"]  # ours
operations = ["write"]
files = { folder = "FOLDER", name = "data" }
[[workload]]
name = "file_size"
values = ["1 MiB"]
[[tunable]]
name = "buffers"
values = [1, 4]
"""


def test_a_component_is_uploaded_and_chosen_by_name(tmp_path: Path) -> None:
    with running(tmp_path, roots=(tmp_path,)) as found:
        post = found.operator.post
        made = post("/api/stacks", json={"name": "cache", "toml": STACK})
        assert made.status_code == 201, made.text
        assert made.headers["location"] == "/api/v1/stacks/cache"
        assert [one["name"] for one in made.json()["parameters"]] == ["buffers"]
        assert found.viewer.get("/api/stacks").json()["total"] == 1
        assert found.viewer.get("/api/stacks/cache/file").text == STACK
        program = tmp_path / "app"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        definition = {"command": [str(program)], "stacks": ["cache"], "budget": 4}
        asked = {"definition": definition, "folder": str(tmp_path), "start": False}
        dry = post("/api/experiments/dry-run", json=asked)
        assert dry.status_code == 200, dry.text
        assert [one["name"] for one in dry.json()["space"]["parameters"]] == ["buffers"]
        identifier = post("/api/experiments", json=asked).json()["id"]
        path = str(tmp_path / "data" / "stack" / "cache" / "stack.toml")
        assert found.service.store.record(identifier).experiment.stacks == [path]
        # A clone has the name again, and a form that names it starts the same.
        page = found.operator.get(f"/new?like={identifier}").text
        assert 'name="stacks" value="cache" checked' in page and path not in page
        refused = found.operator.delete("/api/stacks/cache")
        assert refused.status_code == 409 and identifier in refused.json()["error"]["what"]
        found.operator.delete(f"/api/experiments/{identifier}")
        campaign = CAMPAIGN.replace("FOLDER", str(tmp_path))
        made = post("/api/campaigns", json={"toml": campaign, "start": False})
        assert made.status_code == 201, made.text
        kept = (tmp_path / "data" / "campaign" / made.json()["id"] / "campaign.toml").read_text()
        assert kept == campaign.replace('"cache"', f'"{path}"')
        assert found.operator.delete("/api/stacks/cache").status_code == 200
        gone = post("/api/experiments/dry-run", json=asked)
        assert gone.status_code == 422 and "there is no stack 'cache'" in gone.json()["error"]["what"]


@pytest.mark.parametrize(
    ("name", "toml", "status", "words"),
    [
        ("../x", STACK, 422, "letters, digits"),
        ("lustre", STACK, 409, "comes with Stripewise"),
        ("cache", "name = 1", 422, "the stack file"),
        ("cache", STACK.replace("env", "shell"), 422, "the stack file"),
        ("cache", STACK + "#" * (1 << 18), 422, ""),
    ],
)
def test_what_is_no_component_is_refused(tmp_path: Path, name: str, toml: str, status: int, words: str) -> None:
    with running(tmp_path) as found:
        answer = found.operator.post("/api/stacks", json={"name": name, "toml": toml})
        assert answer.status_code == status and words in answer.text, answer.text
        assert str(tmp_path) not in answer.text
        assert found.viewer.post("/api/stacks", json={"name": "cache", "toml": STACK}).status_code == 403
        assert not list((tmp_path / "data").glob("stack/*"))


def test_a_service_with_an_allow_list_takes_no_component(tmp_path: Path) -> None:
    (tmp_path / "data" / "stack" / "cache").mkdir(parents=True)
    (tmp_path / "data" / "stack" / "cache" / "stack.toml").write_text(STACK)
    (tmp_path / "data").rename(tmp_path / "kept")
    with running(tmp_path, allow=("./app",)) as found:
        answer = found.admin.post("/api/stacks", json={"name": "cache", "toml": STACK})
        assert answer.status_code == 403 and "allow-list" in answer.text
        # Nor does one count that was uploaded before the service had the list.
        (tmp_path / "kept" / "stack").rename(tmp_path / "data" / "stack")
        asked = {"definition": {"command": ["./app"], "stacks": ["cache"]}, "start": False}
        answer = found.operator.post("/api/experiments", json=asked)
        assert answer.status_code == 403 and "stack files" in answer.text


def test_applications_have_a_page_and_a_resource(tmp_path: Path) -> None:
    with running(tmp_path) as found:
        found.create(name="one")
        found.create(name="two")
        answer = found.viewer.get("/api/applications").json()
        assert {one["name"] for one in answer["items"]} == {"one", "two"} and answer["experiments"] == 2
        assert found.viewer.get("/applications/one?name=two&simulated=true").status_code == 200
        assert found.viewer.get("/applications/one?name=three").status_code == 404
        assert found.viewer.get("/applications/one?name=two&simulated=true&check=true").status_code == 403


@pytest.mark.parametrize("what", ["{}: its disk is full", "run 3 is not in {}"])
def test_a_message_does_not_say_where_the_store_is(what: str) -> None:
    url = "sqlite:////srv/s.db"
    for named in (url, f"store {url}"):
        assert hide_store(what.format(named), url) == what.format("the store")
