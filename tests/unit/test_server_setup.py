"""The service before its first request: what it needs, and what it makes of a filled form."""

import math
import sys
from pathlib import Path

import pytest

from stripewise.errors import UserError
from stripewise.server import commands
from stripewise.server.resources.prescriptions import asked_of
from tests.unit.service import SIMULATED, running


def test_serving_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "stripewise.server.app", raising=False)
    with pytest.raises(UserError, match=r"the package fastapi is not installed.*stripewise\[server\]"):
        commands.serve()


def test_an_infinite_setting_of_a_form_is_a_value_to_be_refused_not_a_crash() -> None:
    asked = asked_of({"id": "m"}, {"current.cb_nodes": "inf", "current.stripes": "4.0"}, ())
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
        assert found.operator.put(address).headers["allow"] == "DELETE, GET, HEAD"
        operations = [one for item in found.app.openapi()["paths"].values() for one in item.values()]
        names = [one["operationId"] for one in operations]
        assert len(set(names)) == len(names) and "list_experiments" in names
