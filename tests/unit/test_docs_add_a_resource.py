"""The guide to a resource of one's own works as written: its module and its page are served."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from jinja2 import ChoiceLoader, DictLoader

from stripewise.desk.server import app, html
from stripewise.desk.server.resource import Resource
from stripewise.desk.server.resources import RESOURCES
from tests.unit.service import running

pytestmark = pytest.mark.slow
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-resource.md"


def block(language):
    return re.search(rf"```{language}\n(.*?)```", GUIDE.read_text("utf-8"), flags=re.DOTALL)[1]


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A service with the guide's resource."""
    module = types.ModuleType("notes")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(block("python"), str(GUIDE), "exec"), module.__dict__)
    monkeypatch.setattr(app, "RESOURCES", [*RESOURCES, module.resource])
    pages = html._environment()
    monkeypatch.setattr(pages, "loader", ChoiceLoader([DictLoader({"notes.html": block("html")}), pages.loader]))
    with running(tmp_path) as found:
        yield found


def test_a_note_is_kept_listed_shown_and_deleted(served):
    text = "OST 14 <b> is being repaired"
    key = {"Idempotency-Key": "one"}
    made = [served.operator.post("/api/notes", json={"text": text}, headers=key).json() for _ in range(2)]
    assert made[0] == made[1] and made[0]["owner"] == "ada"
    assert served.viewer.get("/api/notes").json()["items"] == [made[0]]
    page = served.operator.get("/notes").text
    assert "OST 14 &lt;b&gt; is being repaired" in page and "/delete" in page
    assert "/delete" not in served.viewer.get("/notes").text
    assert served.operator.delete(f"/api/notes/{made[0]['id']}").json() == made[0]
    assert "No notes yet." in served.viewer.get("/notes").text


def test_errors_and_rights_are_those_of_every_resource(served):
    assert served.nobody.get("/api/notes").status_code == 401
    assert served.viewer.post("/api/notes", json={"text": "x"}).status_code == 403
    assert served.operator.post("/api/notes", json={"text": ""}).json()["error"]["code"] == "invalid"
    assert served.operator.delete("/api/notes/none").status_code == 404
    assert "/api/v1/notes/{id}" in served.operator.get("/openapi.json").json()["paths"]


def test_the_guide_names_what_is_there():
    text = GUIDE.read_text("utf-8")
    root = GUIDE.parents[2]
    for path in re.findall(r"`((?:src|tests)/[\w/.]+)`", text):
        assert (root / path).exists() or "notes" in path, path
    named = re.search(r"`get`, `post`, `file` and `delete`.*?`page` and `form`", text)[0]
    assert all(callable(getattr(Resource, name)) for name in re.findall(r"`(\w+)`", named))
