"""Who may do what: every route is tried with no token, a wrong one, a viewer's, and by the ways in that are known."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import re
import time
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi")

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.cli.main import main
from stripewise.desk.server.guard import PUBLIC, VIEWERS_MAY_POST, Turns, name_cookie
from stripewise.desk.server.policy import check_experiment
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resources.runs import experiment_events
from stripewise.desk.server.service import Proxies, Settings
from stripewise.facts import Facts, RunFacts
from stripewise.requests.experiment import Experiment
from stripewise.runners.allow_list import AllowList
from stripewise.store.schema import experiments
from stripewise.store.service import database_of
from stripewise.testing.runners import refused_starts
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.unit.service import SIMULATED, Running, running


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service")) as found:
        yield found


def routes(served: Running) -> list[tuple[str, str]]:
    """Every method and path of the application: resources and pages, from the application itself."""
    found = []
    for route in served.app.routes:
        for method in sorted(getattr(route, "methods", None) or ()):
            path = route.path.replace("{id}", "abcd1234").replace("{number}", "0").replace("{name}", "x")
            found.append((method, path))
    documented = {
        (method.upper(), path.replace("{id}", "abcd1234").replace("{number}", "0"))
        for path, item in served.app.openapi()["paths"].items()
        for method in item
    }
    found = sorted({*found, *documented})
    assert len(found) > 40
    found = [(method, path.replace("/api/v1/", "/api/")) for method, path in found]
    return [(method, path) for method, path in found if path not in PUBLIC and not path.startswith("/static")]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer sw_0123456789ab_" + "x" * 43},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic YWRhOmFkYQ=="},
        {"Authorization": "Bearer ' OR 1=1 --"},
        {"Authorization": "Bearer " + "A" * 5000},
        {"Cookie": "NAME=' OR 1=1 --"},
        {"Cookie": "NAME=" + "x" * 43},
    ],
    ids=["none", "wrong", "empty", "basic", "sql", "long", "cookie-sql", "cookie-wrong"],
)
def test_no_route_lets_anybody_in_without_a_valid_token(served: Running, headers: dict[str, str]) -> None:
    name = name_cookie(served.service, "")
    client = served.client(**{header: text.replace("NAME", name) for header, text in headers.items()})
    for method, path in routes(served):
        answer = client.request(method, path, json={})
        if path.startswith("/api") or method not in ("GET", "HEAD"):
            assert answer.status_code == 401, (method, path, answer.status_code)
            if method != "HEAD":
                assert answer.json()["error"]["code"] == "no_token"
        else:
            # A page sends its reader to the login, and says nothing else.
            assert answer.status_code == 303 and answer.headers["location"].startswith("/login"), (method, path)
            assert not answer.content


def test_a_viewer_changes_nothing(served: Running) -> None:
    before = served.service.store.count()
    for method, path in routes(served):
        if method in ("GET", "HEAD", "OPTIONS") or path in VIEWERS_MAY_POST:
            continue
        answer = served.viewer.request(method, path, json={"definition": SIMULATED, "name": "x", "toml": ""})
        assert answer.status_code == 403, (method, path, answer.status_code)
    for path in ("/api/tokens", "/api/audit"):
        assert served.viewer.get(path).status_code == 403
    assert served.service.store.count() == before
    assert served.viewer.get("/api/experiments").status_code == 200


def test_nobody_runs_setup_lines_by_looking(served: Running, tmp_path: Path) -> None:
    """The check whether a result still holds is a link: it reads files, and starts nothing."""
    ran = tmp_path / "ran"
    made = Experiment(command=["true"], setup=[f"touch {ran}"], stacks=["romio"])
    identifier = served.service.store.create(made, Facts(folder=str(served.service.settings.data)))
    assert served.viewer.get(f"/experiments/{identifier}?check=true").status_code == 403
    with refused_starts() as started:
        answer = served.operator.get(f"/experiments/{identifier}?check=true")
    assert answer.status_code == 200
    assert not ran.exists() and not started
    assert served.viewer.get(f"/experiments/{identifier}").status_code == 200


def test_a_revoked_or_expired_token_is_none(served: Running) -> None:
    tokens = served.service.tokens
    token, secret = tokens.create("eve", "operator")
    client = served.client(Authorization=f"Bearer {secret}")
    assert client.get("/api/me").json()["name"] == "eve"
    cookie, _ = tokens.begin_session(token)
    tokens.revoke(token.id)
    assert client.get("/api/me").status_code == 401
    assert served.client(Cookie=f"{name_cookie(served.service, '')}={cookie}").get("/api/me").status_code == 401
    _, brief = tokens.create("eve2", "operator", seconds=-1.0)
    assert served.client(Authorization=f"Bearer {brief}").get("/api/me").status_code == 401


def test_only_admins_make_tokens_which_expire_and_are_noted(served: Running) -> None:
    for path in ("/api/tokens", "/settings/tokens", "/settings/tokens/x/revoke"):
        assert served.operator.post(path, json={"name": "more", "role": "admin"}).status_code == 403, path
    assert served.operator.get("/api/tokens").status_code == 403
    assert served.operator.delete("/api/tokens/abcd").status_code == 403
    assert "Make a token" not in served.operator.get("/settings").text
    made = served.admin.post("/api/tokens", json={"name": "more", "role": "operator"}).json()
    assert made["expires"] - made["created"] == pytest.approx(90 * 86400)
    newest = served.service.audit.page(1)[0]
    assert (newest.actor, newest.subject) == ("root", f"{made['id']} more (operator)")


def test_a_token_in_the_address_is_no_token(served: Running) -> None:
    for name in ("token", "access_token", "Authorization", "api_key"):
        assert served.nobody.get("/api/experiments", params={name: served.secret}).status_code == 401


def test_secrets_are_kept_as_digests_and_never_logged(served: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    _, secret = served.service.tokens.create("mallory", "viewer")
    client = served.client(Authorization=f"Bearer {secret}")
    client.get("/api/experiments", params={"name": secret})
    client.get(f"/api/experiments/{secret}")
    client.get(f"/{secret}")
    client.delete(f"/api/models/{secret}")
    client.post("/login", data={"token": secret})
    made = served.admin.post("/api/tokens", json={"name": "new", "role": "viewer"}).json()["secret"]
    for kept in (secret, made):
        # What follows the identifier may hold underscores, too.
        tail = kept.split("_", 2)[2]
        # What the test's own HTTP client logs is not the service's.
        said = [record.getMessage() for record in caplog.records if not record.name.startswith("httpx")]
        assert said and not any(tail in line for line in said)
        for file in served.folder.glob("s.db*"):
            assert tail.encode() not in file.read_bytes()
    assert made not in served.admin.get("/api/tokens").text


# -- sessions and forgery ------------------------------------------------------------------------------------------


@pytest.fixture
def browser(served: Running) -> Any:
    client = served.client()
    answer = client.post("/login", data={"token": served.secret, "next": "/"})
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    client.csrf = csrf_of(client)  # type: ignore[attr-defined]
    return client


def csrf_of(client: Any) -> str:
    """What the pages of a session carry."""
    found = re.search(r'<meta name="csrf" content="(\w+)">', client.get("/settings").text)
    assert found
    return found[1]


def test_a_session_changes_nothing_without_its_csrf_token(served: Running, browser: Any) -> None:
    asked = {"definition": SIMULATED, "start": False}
    before = served.service.store.count()
    wrong: list[dict[str, Any]] = [
        {},
        {"X-CSRF-Token": "wrong"},
        {"X-CSRF-Token": browser.csrf, "Origin": "https://evil.example"},
        {"X-CSRF-Token": browser.csrf, "Sec-Fetch-Site": "cross-site"},
        {"X-CSRF-Token": browser.csrf, "Origin": "null"},
        {"X-CSRF-Token": b"\xc3\xa4"},
    ]
    for headers in wrong:
        assert browser.post("/api/experiments", json=asked, headers=headers).status_code == 403, headers
    assert browser.post("/logout", data={"csrf_token": "wrong"}).status_code == 403
    assert browser.post("/logout", data={}).status_code == 403
    assert served.service.store.count() == before
    right = {"X-CSRF-Token": browser.csrf, "Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}
    assert browser.post("/api/experiments", json=asked, headers=right).status_code == 201
    assert browser.post("/logout", data={"csrf_token": browser.csrf}).status_code == 303
    assert browser.get("/api/me").status_code == 401


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "/\r\nX: y",
        "javascript:1",
        "/a/../../evil",
        "/a/%2e%2E/evil",
        "/a/.%2e",
    ],
)
def test_the_login_leads_nowhere_else(served: Running, target: str) -> None:
    for token in (served.secret, "wrong"):
        answer = served.client().post("/login", data={"token": token, "next": target})
        assert answer.status_code == 303
        location = answer.headers["location"]
        assert location in {"/", "/login?wrong=1&next=/"}, location
        assert "x" not in answer.headers


def test_a_cookie_belongs_to_one_service(tmp_path: Path) -> None:
    def service(data: str, store: str, secure_cookies: bool = False) -> Any:
        settings = Settings(data=tmp_path / data, roots=(tmp_path,), secure_cookies=secure_cookies)
        return SimpleNamespace(settings=settings, store=SimpleNamespace(url=f"sqlite:///{store}.db"))

    one = service("one", "a")
    assert name_cookie(one, "") == name_cookie(one, "/node/n1") != name_cookie(service("other", "a"), "")
    assert name_cookie(one, "") != name_cookie(service("one", "b"), ""), "sessions are in the store"
    # Browsers take it only over TLS, for one host, and for all its paths.
    behind = service("one", "a", secure_cookies=True)
    assert name_cookie(behind, "") == "__Host-stripewise" != name_cookie(behind, "/node/n1")


def test_a_strangers_headers_take_no_seconds(served: Running) -> None:
    """Python's reader of cookies takes time that grows with the square of quoted characters."""
    begun = time.process_time()
    answer = served.nobody.get("/api/experiments", headers={"Cookie": 'a="' + '\\"' * 15_000 + '"'})
    assert answer.status_code == 401
    assert time.process_time() - begun < 1


def test_an_origin_that_is_no_address_is_refused(served: Running) -> None:
    answer = served.nobody.post("/login", headers={"Origin": "http://["}, data={"token": "x"})
    assert answer.status_code == 403


def test_an_address_logs_in_once_and_is_noted(served: Running) -> None:
    token, _ = served.service.tokens.create("opener", "admin", 3600.0)
    address = f"/login?ticket={served.service.tickets.add(token)}"
    earlier = served.service.tokens.begin_session(token)[0]
    first = served.client(Cookie=f"{name_cookie(served.service, '')}={earlier}").get(address)
    assert first.status_code == 200 and "HttpOnly" in first.headers["set-cookie"]
    assert first.headers["cache-control"] == "no-store" and first.headers["referrer-policy"] == "same-origin"
    assert served.service.tokens.session(earlier) is None, "a cookie that somebody planted ends"
    assert "set-cookie" not in served.client().get(address).headers
    newest = served.service.audit.page(1)[0]
    assert (newest.actor, newest.role, newest.action) == ("opener", "admin", "GET /login")
    assert "serve --open" in newest.subject and "ticket" not in newest.action + newest.subject
    late = served.service.tickets.add(token)
    served.service.tokens.revoke(token.id)
    cookie = served.client().get(f"/login?ticket={late}").cookies.get(name_cookie(served.service, ""))
    assert served.service.tokens.session(cookie or "") is None


def test_pages_carry_the_csrf_token_differently_each_time(browser: Any) -> None:
    # Compressed beside what an address asks for, one that stays the same could be found by the lengths of answers.
    other = csrf_of(browser)
    assert other != browser.csrf
    for bad in ("", "0", "zz", other[:-2], other + "00", "0" * len(other)):
        assert browser.post("/knobs", headers={"X-CSRF-Token": bad}).status_code == 403
    for good in (other, browser.csrf):
        assert browser.post("/knobs", headers={"X-CSRF-Token": good}).status_code != 403


def test_what_is_ticked_are_identifiers(served: Running, browser: Any) -> None:
    for ids in (["x" * 33], ["a"] * 51):
        chosen = {"action": "stop", "id": ids, "csrf_token": browser.csrf}
        assert browser.post("/experiments/chosen", data=chosen).status_code == 422


def test_a_foreign_name_is_refused(served: Running) -> None:
    assert served.operator.get("/api/health", headers={"Host": "evil.example"}).status_code == 400
    assert served.operator.get("/api/health", headers={"Host": "localhost:8437"}).status_code == 200


def test_guessing_is_slowed_down(tmp_path: Path) -> None:
    with running(tmp_path, failures_a_minute=5) as found:
        statuses = [found.nobody.get("/api/experiments").status_code for _ in range(7)]
        assert statuses == [401] * 5 + [429] * 2
        assert found.client().post("/login", data={"token": "x"}).status_code == 429
        # Whoever has a token is not locked out by those who guess from the same address.
        assert found.client().post("/login", data={"token": found.secret}).headers["location"] == "/"
        assert found.operator.get("/api/me").status_code == 200


def test_behind_a_named_proxy_each_client_has_its_own_limits(tmp_path: Path) -> None:
    with running(tmp_path, failures_a_minute=5, proxies=("10.0.0.1", "192.0.2.0/28")) as found:

        def statuses(times: int, peer: str, forwarded: str) -> list[int]:
            client = found.client(peer, **{"X-Forwarded-For": forwarded})
            return [client.get("/api/me").status_code for _ in range(times)]

        # The client's own entries come first, and change nothing.
        guessed = statuses(3, "10.0.0.1", "203.0.113.5") + statuses(3, "10.0.0.1", "9.9.9.9, 203.0.113.5")
        assert guessed == [401] * 5 + [429]
        assert statuses(1, "10.0.0.1", "203.0.113.6, 192.0.2.7") == [401], "others behind the proxies may still ask"
        assert statuses(1, "10.0.0.1", "203.0.113.5, ::ffff:192.0.2.7") == [429]
        # Who is no proxy is not believed.
        assert statuses(6, "203.0.113.9", "203.0.113.6") == [401] * 5 + [429]
        assert statuses(1, "10.0.0.1", "nonsense") == [401]
        key = {"Authorization": f"Bearer {found.secret}", "X-Forwarded-For": "203.0.113.7"}
        found.client("10.0.0.1", **key).delete("/api/models/none")
        assert found.service.audit.page(1)[0].address == "203.0.113.7"


def test_a_socket_is_believed_only_where_it_is_named(tmp_path: Path) -> None:
    """Every user of the machine can come from 127.0.0.1, but only who may open it through the socket."""
    assert Proxies(["127.0.0.1"]).local and Proxies(["::/0"]).local and not Proxies(["10.0.0.0/8", "socket"]).local
    for proxies, allowed in (((), [401] * 5 + [429]), (("socket",), [401] * 6)):
        folder = tmp_path / "-".join(["s", *proxies])
        folder.mkdir()
        with running(folder, failures_a_minute=5, proxies=proxies) as found:
            clients = [found.client("", **{"X-Forwarded-For": f"203.0.113.{at}"}) for at in range(6)]
            assert [client.get("/api/me").status_code for client in clients] == allowed


def test_a_proxy_without_an_address_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--proxy", "proxy.example"]) == 2
    assert "write an address or a network" in capfd.readouterr().err


def test_a_token_asks_at_a_limited_rate(tmp_path: Path) -> None:
    with running(tmp_path, requests_a_second=0.001, burst=3) as found:
        answers = [found.operator.get("/api/me") for _ in range(5)]
        assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 2
        assert answers[-1].headers["retry-after"] == "1"
        assert found.viewer.get("/api/me").status_code == 200


# -- what answers carry --------------------------------------------------------------------------------------------


def test_the_requests_of_a_token_hold_up_no_others() -> None:
    """A viewer who asked for 100 long lists at once let all others wait for 20 s."""
    looked_at: Counter[str] = Counter()
    answered: list[int] = []

    async def ask_all() -> None:
        go_on, ended = asyncio.Event(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            looked_at[scope["state"]["user"].id] += 1
            await go_on.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            answered.append(1)
            await ended.wait()  # as a stream of events does

        turns = Turns(app, most=30)

        async def send(message: Any) -> None:
            """Throw away."""

        def ask(token: str) -> asyncio.Task[None]:
            scope = {"type": "http", "method": "GET", "state": {"user": SimpleNamespace(id=token)}}
            return asyncio.create_task(turns(scope, send, send))

        tasks = [ask("many") for _ in range(20)]
        await asyncio.sleep(0)
        tasks.append(ask("one"))
        await asyncio.sleep(0.01)
        assert looked_at == {"many": 4, "one": 1}
        more = [ask("many") for _ in range(20)]
        refused = await asyncio.wait_for(asyncio.gather(*more[-6:], return_exceptions=True), 10)
        assert all(isinstance(one, Exception) for one in refused)
        go_on.set()
        await asyncio.sleep(0.1)
        assert len(answered) == 21 + 14, "an answer that has begun holds up nobody"
        ended.set()
        await asyncio.gather(*tasks, *more, return_exceptions=True)

    asyncio.run(ask_all())


def test_strangers_let_the_description_be_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked for it without end, and without a token, made all others wait for seconds."""
    written: list[object] = []
    monkeypatch.setattr("stripewise.desk.server.app._openapi", lambda app: written.append(app) or {"paths": {}})
    with running(tmp_path) as found:
        for packed in ("gzip", "identity"):
            for _ in range(3):
                answer = found.nobody.get("/openapi.json", headers={"Accept-Encoding": packed})
                assert answer.json() == {"paths": {}} and answer.headers["vary"] == "Accept-Encoding"
    assert len(written) <= 2


def test_every_answer_has_the_security_headers(served: Running) -> None:
    for client in (served.operator, served.nobody):
        for path in ("/api/experiments", "/api/health", "/nowhere", "/login", "/openapi.json", "/api/events/x"):
            headers = client.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
            scripts = next(part for part in policy.split("; ") if part.startswith("script-src"))
            assert "unsafe" not in scripts and "http" not in scripts
            assert headers["cache-control"] == "no-store"
            assert "server" not in headers


SCRIPTS = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "javascript:alert(1)"]


@pytest.mark.parametrize("text", SCRIPTS)
def test_scripts_come_back_as_text(served: Running, text: str) -> None:
    identifier = served.create(name=text)
    for client in (served.operator, served.viewer):
        for path in (f"/api/experiments/{identifier}", "/api/experiments"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "application/json"
        page = client.get("/")
        assert "<script>alert(1)" not in page.text and "<img src=x onerror" not in page.text
        assert client.get(f"/{text}").headers["content-type"].startswith(("application/problem+json", "text/html"))
        assert "<script>alert(1)" not in client.get("/login", params={"next": text, "wrong": text}).text


# -- what requests name --------------------------------------------------------------------------------------------

INJECTIONS = [
    "' OR '1'='1",
    "1; DROP TABLE experiments; --",
    "$(touch /tmp/pwned)",
    "`id`",
    "| cat /etc/passwd",
    "%00",
    "a%00b",
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "....//....//etc/passwd",
    "\u202e",
]


@pytest.mark.parametrize("text", INJECTIONS)
def test_metacharacters_and_paths_in_identifiers_find_nothing(served: Running, text: str) -> None:
    templates = [
        "/api/experiments/{}",
        "/api/experiments/{}/trials",
        "/api/experiments/{}/runs/0/log",
        "/api/experiments/{}/events",
        "/api/models/{}",
        "/api/models/{}/file",
        "/api/campaigns/{}",
        "/api/campaigns/{}/table.csv",
        "/api/diagnoses/{}",
        "/api/jobs/{}",
        "/static/{}",
        "/{}",
    ]
    for template in templates:
        answer = served.operator.get(template.format(text))
        assert answer.status_code in (303, 307, 400, 404, 405, 422), (template, answer.status_code)
        assert "root:" not in answer.text
    for query in ({"name": text}, {"state": text}, {"sort": text}):
        answer = served.operator.get("/api/experiments", params=query)
        assert answer.status_code in (200, 422)
        if answer.status_code == 200:
            assert answer.json()["items"] == []
    assert served.service.store.count() >= 0
    assert not Path("/tmp/pwned").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"stacks": ["/etc/passwd.toml"]},
        {"stacks": ["../../etc/x.toml"]},
        {"model": "/etc/passwd"},
        {"ceiling": "/etc/passwd.json"},
        {"scratch": "/root/elsewhere"},
        {"runner": "replay:/etc/passwd"},
        {"runner": "sim:/etc/passwd.toml"},
        {"hooks": {"delete": ["/etc/passwd"]}},
        {"command": ["./app", "{file:/etc/x.toml}"]},
        {"command": ["./app", "--in={adios2:../../../../../../../../etc/x.xml}"]},
        {
            "command": ["./app", "--config=/etc/x.toml"],
            "parameters": {"b": {"carrier": "file", "key": "/etc/x.toml:io.b", "values": [1, 2]}},
        },
        {"hooks": {"delete": ["../../../../../etc/passwd"]}},
        {"hooks": {"delete": ["{fcoll}"]}, "stacks": ["ompio"], "parameters": {"fcoll": {"values": ["../../../x"]}}},
    ],
    ids="-".join,
)
def test_paths_outside_the_services_folders_are_refused(served: Running, change: dict[str, Any]) -> None:
    answer = served.operator.post("/api/experiments", json={"definition": {**SIMULATED, **change}})
    assert answer.status_code in (403, 422), answer.text
    for folder in ("/etc", "/", "relative", "/proc/self/root/etc", str(served.folder / "data" / ".." / "..")):
        answer = served.operator.post("/api/experiments", json={"definition": SIMULATED, "folder": folder})
        assert answer.status_code in (403, 422), folder


@pytest.mark.parametrize(
    ("sampler", "option", "arguments"),
    [
        ("surrogate", "regressor", "regressor_options"),
        ("optuna:tpe", "sampler", "arguments"),
        ("optuna:subprocess.Popen", "sampler", "arguments"),
    ],
)
@pytest.mark.parametrize("path", ["/api/experiments/dry-run", "/api/experiments"])
def test_options_start_no_program(
    served: Running, tmp_path: Path, path: str, sampler: str, option: str, arguments: str
) -> None:
    pytest.importorskip("optuna")
    mark = tmp_path / "started"
    options = {option: "subprocess.Popen", arguments: {"args": ["touch", str(mark)]}}
    definition = {**SIMULATED, "sampler": sampler, "sampler_options": options}
    answer = served.operator.post(path, json={"definition": definition, "start": False})
    assert answer.status_code == 422, answer.text
    time.sleep(0.2)
    assert not mark.exists()


def own_parameters(values: list[Any], count: int = 1) -> dict[str, Any]:
    one = {"kind": "categorical", "values": values, "default": values[0], "carrier": "env"}
    return {"parameters": {f"p{number}": {**one, "key": f"P{number}"} for number in range(count)}}


@pytest.mark.parametrize(
    "change",
    [
        {"constraints": ["stripe_count > 0"] * 30_000},
        {"stacks": ["lustre"] * 100_000},
        {"name": "x" * 900_000},
        {"objective": "regex:" + "(" * 490 + ")" * 490},
        {"objective": "regex:" + "|".join(f"{number}x*" for number in range(60_000))},
        {"parameters": {"stripe_count": {"values": list(range(1, 100_000))}}},
        own_parameters([0, 10**300]),
        own_parameters(["y", "x" * 100_000]),
        own_parameters(list(range(50)), 400),
        own_parameters(list(range(1500)), 98),
    ],
    ids=["rules", "stacks", "name", "nested", "choices", "values", "number", "text", "parameters", "grid"],
)
def test_a_dry_run_takes_no_minutes(served: Running, change: dict[str, Any]) -> None:
    begun = time.process_time()
    answer = served.operator.post("/api/experiments/dry-run", json={"definition": {**SIMULATED, **change}})
    assert answer.status_code in (200, 422) and time.process_time() - begun < 20.0, answer.text[:300]


def test_nobody_waits_for_a_pipe(served: Running) -> None:
    """Whoever can write to a folder of the service can make one there; each took a thread of the service for ever."""
    pipe = served.folder / "data" / "pipe.toml"
    os.mkfifo(pipe)
    for change in ({"stacks": [str(pipe)]}, {"model": str(pipe)}, {"runner": f"sim:{pipe}"}):
        answer = served.operator.post("/api/experiments/dry-run", json={"definition": {**SIMULATED, **change}})
        assert answer.status_code == 403 and "neither a file nor a folder" in answer.text


def test_events_after_a_number_that_no_store_holds(served: Running) -> None:
    identifier, (token, _) = served.create(), served.service.tokens.create("eve", "viewer")

    async def first() -> str:
        stream = await experiment_events(served.service, token, None, identifier, None, "9" * 29)
        found = await anext(aiter(stream.body_iterator))
        await served.service.hub.close()
        return str(found)

    assert asyncio.run(first()).startswith("event: experiment")


def test_files_to_delete_may_hold_the_runs_number(tmp_path: Path) -> None:
    experiment = Experiment.model_validate({"command": ["./app"], "hooks": {"delete": ["out.{run}"]}})
    check_experiment(experiment, tmp_path, Settings(data=tmp_path))


def test_a_search_takes_text_for_text(tmp_path: Path) -> None:
    with running(tmp_path) as own:
        one, bad = own.create(name="needle_1"), own.create(name="needle_2")
        database = database_of(own.service.store)
        broken = experiments.update().where(experiments.c.id == bad).values(definition="{needle_2")
        database.write(lambda connection, again: connection.execute(broken))
        for text, hit in (
            ("needle_1", True),
            ("EEDLE", True),
            ("n%1", False),
            ("needle.1", False),
            ("needle_1\0", True),
        ):
            answer = own.viewer.get("/", params={"text": text})
            assert answer.status_code == 200 and (f"/experiments/{one}" in answer.text) is hit, text
            assert f"/experiments/{bad}" not in answer.text, "one that cannot be read hides no others"


def test_a_link_does_not_lead_out(served: Running) -> None:
    link = served.folder / "data" / "link"
    link.symlink_to("/etc")
    answer = served.operator.post("/api/experiments", json={"definition": SIMULATED, "folder": str(link)})
    assert answer.status_code == 403
    campaign = 'name="x"\nstacks=["/etc/x.toml"]\n[[tunable]]\nname="a"\nvalues=[1]\n'
    assert served.operator.post("/api/campaigns", json={"toml": campaign}).status_code == 403


def test_a_runs_output_is_read_from_its_own_folder_only(served: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from stripewise.desk.server.resources.runs import output_folder, read_log

    monkeypatch.setenv("STRIPEWISE_HOME", str(served.folder / "home"))
    record = served.service.store.record(served.create())
    own = served.folder / "home" / "runs" / record.id / "0"
    own.mkdir(parents=True)
    (own / "stdout").symlink_to("/etc/passwd")
    os.mkfifo(own / "stderr")
    for folder in (own, Path("/etc"), own / ".." / ".." / ".." / ".."):
        for stream in ("stdout", "stderr"):
            with pytest.raises(Refused):
                read_log(record, {"number": 0, "folder": str(folder)}, stream, None, 100)
    (own / "stdout").unlink()
    (own / "stdout").write_bytes(b"wrote \xff 32 MiB\n")
    # The page of a run and the bundle ask the same function.
    assert output_folder(record, {"number": 0, "folder": "/etc", "state": "finished"}) is None
    assert output_folder(record, {"number": 0, "folder": "", "state": "running"}) == own.resolve()
    piece = read_log(record, {"number": 0, "folder": str(own)}, "stdout", 6, 100)
    assert piece == {"stream": "stdout", "offset": 6, "size": 15, "text": "\ufffd 32 MiB\n"}


def test_a_shared_store_does_not_choose_what_pages_read(served: Running) -> None:
    place = served.folder / "elsewhere"
    place.mkdir()
    (place / "stdout").write_text("not for you")
    store, identifier = served.service.store, served.create()
    claim = store.claim(identifier, "mallory", 60.0)
    run = Run(0, 0, Phase.SEARCH)
    store.plan(identifier, claim, Trial(0, Configuration({}), Role.DEFAULT), run)
    store.begin(identifier, claim, 0)
    failed = replace(run, state=State.FAILED, reason="=HYPERLINK(1)", facts=RunFacts(folder=str(place)))
    store.accept(identifier, claim, failed)
    assert ",'=HYPERLINK(1)" in served.viewer.get(f"/experiments/{identifier}/runs.csv").text, "no formula"
    assert "not for you" not in served.viewer.get(f"/experiments/{identifier}/runs/0").text
    with zipfile.ZipFile(io.BytesIO(served.viewer.get(f"/experiments/{identifier}/bundle.zip").content)) as archive:
        assert not [name for name in archive.namelist() if "output" in name]


def test_the_allow_list_is_strict(tmp_path: Path) -> None:
    patterns = ["mpiexec -n * ./app ...", "./solver"]
    listed = AllowList(patterns)
    assert listed.allows(["mpiexec", "-n", "4", "./app"], tmp_path, {})
    assert listed.allows(["mpiexec", "-n", "4", "./app", "input", "-v"], tmp_path, {})
    assert listed.allows(["./solver"], tmp_path, {})
    wrong: list[list[str]] = [
        [],
        ["./solver", "-c"],
        ["mpiexec", "-n", "4", "sh", "-c", "id"],
        ["mpiexec", "-n", "4"],
        ["mpiexec", "-n", "4", ":", "./app"],
        ["sh", "-c", "mpiexec -n 4 ./app"],
        ["/tmp/mpiexec", "-n", "4", "./app"],
        ["mpiexec -n 4 ./app"],
    ]
    assert not any(listed.allows(command, tmp_path, {}) for command in wrong)
    settings = Settings(data=tmp_path, allow=tuple(patterns))
    good = Experiment(command=["./solver"])
    check_experiment(good, tmp_path, settings)
    ways: list[dict[str, Any]] = [
        {"command": ["sh", "-c", "id"]},
        {"setup": ["id"]},
        {"env": {"LD_PRELOAD": "/tmp/x.so"}},
        {"hooks": {"before": ["id"]}},
        {"hooks": {"after": ["id"]}},
        {"parameters": {"x": {"kind": "categorical", "values": ["a"], "carrier": "env", "key": "LD_PRELOAD"}}},
        {"stacks": [str(tmp_path / "own.toml")]},
    ]
    for way in ways:
        changed = Experiment.model_validate({"command": ["./solver"], **way})
        with pytest.raises(Refused, match="allow"):
            check_experiment(changed, tmp_path, settings)


# -- bodies --------------------------------------------------------------------------------------------------------


async def talk(app: Any, chunks: list[tuple[float, bytes]], headers: dict[str, str], path: str) -> tuple[int, int]:
    """Send a body piece by piece, each after some seconds; gives the status, and how many pieces were asked for."""
    pieces, read, status = iter(chunks), 0, 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        pause, data = next(pieces)
        await asyncio.sleep(pause)
        read += 1
        return {"type": "http.request", "body": data, "more_body": read < len(chunks)}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    given = [(name.lower().encode(), value.encode()) for name, value in {"Host": "testserver", **headers}.items()]
    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http"},
        **{"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": given},
        **{"client": ("127.0.0.1", 1), "server": ("testserver", 80)},
    }
    await app(scope, receive, send)
    return status, read


def test_a_body_is_not_read_before_the_token_is_known(served: Running) -> None:
    status, read = asyncio.run(talk(served.app, [(0.0, b"{}")] * 3, {}, "/api/experiments"))
    assert (status, read) == (401, 0)


def test_two_lengths_of_a_body_are_refused(served: Running) -> None:
    headers = {"Authorization": f"Bearer {served.secret}", "Content-Type": "application/json"}
    headers |= {"Content-Length": "2", "Transfer-Encoding": "chunked"}
    assert asyncio.run(talk(served.app, [(0.0, b"{}")] * 3, headers, "/api/experiments")) == (400, 0)


@pytest.mark.parametrize("declared", [True, False])
def test_large_bodies_are_cut_off(served: Running, declared: bool) -> None:
    headers = {"Authorization": f"Bearer {served.secret}", "Content-Type": "application/json"}
    if declared:
        headers["Content-Length"] = str(10**9)
    status, read = asyncio.run(talk(served.app, [(0.0, b" " * 400_000)] * 50, headers, "/api/experiments"))
    assert status == 413
    assert read == (0 if declared else 3)


def test_slow_bodies_are_cut_off(tmp_path: Path) -> None:
    with running(tmp_path, body_seconds=0.3) as found:
        headers = {"Authorization": f"Bearer {found.secret}", "Content-Type": "application/json"}
        status, read = asyncio.run(talk(found.app, [(0.1, b" ")] * 100, headers, "/api/experiments"))
        assert status == 408
        assert read <= 4
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        status, _ = asyncio.run(talk(found.app, [(60.0, b"token=x")], form, "/login"))
        assert status == 408


def test_deep_and_broken_bodies_are_told_so(served: Running) -> None:
    for body in (b"[" * 100_000, b"{", b"\xff\xfe", b'{"definition": ' * 1000, b'{"definition": 1e999}', b"null"):
        answer = served.operator.post("/api/experiments", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code in (400, 422), answer.text
        assert set(answer.json()["error"]) == {"code", "what", "fix"}
    for kind in ("text/plain", "application/xml", "multipart/form-data; boundary=x"):
        answer = served.operator.post("/api/experiments", content=b"<x/>", headers={"Content-Type": kind})
        assert answer.status_code in (400, 415, 422)


def test_text_that_no_file_can_hold_is_refused(served: Running) -> None:
    for path, body in (
        ("tables", r'{"name": "t", "csv": "\ud800", "toml": "x"}'),
        ("tables", r'{"name": "t", "csv": "x", "toml": "\ud800"}'),
        ("stacks", r'{"name": "t", "toml": "\ud800"}'),
    ):
        answer = served.operator.post(f"/api/{path}", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422 and "unicode" in answer.json()["error"]["what"], answer.text


def test_the_service_reads_no_campaign_longer_than_it_may(served: Running) -> None:
    for path, more in (("campaigns", {}), ("evaluations", {"model": "m"})):
        answer = served.operator.post(f"/api/{path}", json={"toml": "x = 0\n" * 60_000, **more})
        assert answer.status_code == 422 and "at most 262144 characters" in answer.json()["error"]["what"], answer.text


def test_no_line_of_the_log_is_forged(served: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    served.nobody.get("/%0d%0aDELETE%20/api/experiments/x%20200%1b%5d0;x%07%c2%85")
    said = [record.getMessage() for record in caplog.records if record.name == "stripewise.desk.server"]
    assert any("DELETE" in line for line in said) and all(line.isprintable() for line in said)


def test_refusals_do_not_fill_the_audit_log(served: Running) -> None:
    served.create(name="audited")
    for _ in range(20):
        served.nobody.delete("/api/experiments/abcd1234")
        served.client().post("/login", data={"token": "x"})
    for _ in range(100):
        served.viewer.delete("/api/experiments/abcd1234")
    items = served.service.audit.page(200)
    assert all(item.actor for item in items)
    assert any(item.action == "POST /api/experiments" for item in items)
    assert 1 <= sum(item.actor == "bob" for item in items) < 60
    assert 'status="401"' in served.operator.get("/api/metrics").text, "what is not listed is counted"


def test_a_viewer_does_not_fill_the_audit_log(tmp_path: Path) -> None:
    with running(tmp_path) as found:
        _, secret = found.service.tokens.create("eve", "viewer")
        bearer, browser = found.client(Authorization=f"Bearer {secret}"), found.client()
        for _ in range(40):
            assert browser.post("/login", data={"token": secret}).status_code == 303
            assert bearer.post("/logout").status_code == 303
            assert bearer.post("/knobs", data={"script": "x"}).status_code == 200
        assert sum(item.actor == "eve" for item in found.service.audit.page(200)) < 60


def test_a_token_logs_in_at_a_limited_rate_and_holds_few_sessions(tmp_path: Path) -> None:
    with running(tmp_path, requests_a_second=0.001, burst=3) as found:
        statuses = [found.client().post("/login", data={"token": found.secret}).status_code for _ in range(5)]
        assert statuses == [303] * 3 + [429] * 2
        token, _ = found.service.tokens.create("eve", "viewer")
        cookies = [found.service.tokens.begin_session(token)[0] for _ in range(102)]
        going_on = [found.service.tokens.session(cookie) is not None for cookie in cookies]
        assert going_on[-1] and sum(going_on) == 100


def test_a_tokens_name_does_not_shield_another_from_being_revoked(served: Running) -> None:
    tokens = served.service.tokens
    stolen, _ = tokens.create("mallory", "viewer")
    tokens.create(stolen.id, "viewer")
    assert tokens.revoke(stolen.id).name == "mallory"


def test_the_audit_log_names_who_did_what_and_who_was_refused(served: Running) -> None:
    served.viewer.delete("/api/experiments/abcd1234")
    identifier = served.create(name="audited")
    served.operator.delete(f"/api/experiments/{identifier}")
    items = served.operator.get("/api/audit").json()["items"]
    said = [(item["actor"], item["role"], item["action"], item["status"]) for item in items[:3]]
    assert said == [
        ("ada", "operator", f"DELETE /api/experiments/{identifier}", 200),
        ("ada", "operator", "POST /api/experiments", 201),
        ("bob", "viewer", "DELETE /api/experiments/abcd1234", 403),
    ]


def test_what_is_not_there_is_a_page_for_people_and_json_for_programs(served: Running, browser: Any) -> None:
    people = {"Accept": "text/html,application/xhtml+xml"}
    answer = browser.get("/nowhere/<b>", headers=people)
    assert answer.status_code == 404 and answer.headers["content-type"].startswith("text/html")
    assert "Not found" in answer.text and "<b>" not in answer.text and 'href="/"' in answer.text
    for path, headers in (("/api/nowhere", people), ("/nowhere", {"Accept": "application/json"})):
        answer = browser.get(path, headers=headers)
        assert answer.status_code == 404 and answer.json()["error"]["code"] == "not_found"
    assert served.nobody.get("/nowhere", headers=people).status_code == 303, "strangers learn nothing"
