"""The service before its first request: what it needs, and what it makes of a filled form."""

import math
import sys

import pytest

from stripewise.errors import UserError
from stripewise.server import commands
from stripewise.server.resources.prescriptions import asked_of


def test_serving_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    monkeypatch.delitem(sys.modules, "stripewise.server.app", raising=False)
    with pytest.raises(UserError, match=r"the package fastapi is not installed.*stripewise\[server\]"):
        commands.serve()


def test_an_infinite_setting_of_a_form_is_a_value_to_be_refused_not_a_crash() -> None:
    asked = asked_of({"id": "m"}, {"current.cb_nodes": "inf", "current.stripes": "4.0"}, ())
    assert asked.current == {"cb_nodes": math.inf, "stripes": 4}
