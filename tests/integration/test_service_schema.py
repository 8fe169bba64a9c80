"""What the service documents is what it answers: Schemathesis asks, from /openapi.json, what nobody would."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi")
schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402

from stripewise.desk.server.job_worker import Worker  # noqa: E402
from tests.unit.service import SIMULATED, Running, running  # noqa: E402

CASES = int(os.environ.get("STRIPEWISE_SERVICE_CASES", "200"))
"""In CI 500; `make soak` asks 10,000."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(max(600, CASES))]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("service")) as found:
        # Something to be found: a finished experiment whose name every generated identifier may hit.
        identifier = found.operator.post("/api/experiments", json={"definition": SIMULATED}).json()["id"]
        Worker(found.service.store, found.folder / "data").run(until_idle=True)
        assert found.service.store.record(identifier).state == "finished"
        yield found


def test_every_operation_has_examples_and_errors(served: Running) -> None:
    document = served.nobody.get("/openapi.json").json()
    operations = [(method, path, op) for path, item in document["paths"].items() for method, op in item.items()]
    assert len(operations) >= 40
    for method, path, operation in operations:
        about = f"{method} {path}"
        assert operation["summary"] and operation["description"], about
        for status in ("401", "403", "422", "429", "503"):
            assert operation["responses"][status]["content"]["application/problem+json"]["schema"]["$ref"].endswith(
                "Envelope"
            )
        good = next(status for status in operation["responses"] if status.startswith("2"))
        assert good in ("200", "201", "202", "204"), about
        if "requestBody" in operation:
            for kind, body in operation["requestBody"]["content"].items():
                assert kind in ("application/json", "application/octet-stream"), about
                assert "example" in body or _has_example(document, body["schema"]), about
    assert document["security"] == [{"bearer": []}]
    assert "HTTPValidationError" not in json.dumps(document)


def _has_example(document: dict[str, Any], schema: dict[str, Any]) -> bool:
    for one in (schema, *schema.get("anyOf", ())):
        name = one.get("$ref", "").rpartition("/")[2]
        found = document["components"]["schemas"][name] if name else one
        if found.get("examples") or (
            found.get("properties", {}) and any("examples" in p for p in found["properties"].values())
        ):
            return True
    return False


def test_no_case_breaks_the_service_or_its_promises(served: Running) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", served.app)
    operations = [found.ok() for found in schema.get_all_operations()]
    # Streams never end: what they answer to good requests is tested elsewhere.
    operations = [one for one in operations if "events" not in one.path]
    each = max(1, CASES // len(operations) + 1)
    asked = 0
    identifiers = [record.id for record in served.service.store.records()]
    headers = {"Authorization": f"Bearer {served.secret}", "Host": "testserver"}
    for operation in operations:

        @settings(
            max_examples=each,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def check(case: Any) -> None:
            nonlocal asked
            asked += 1
            if "id" in (case.path_parameters or {}) and asked % 2:
                case.path_parameters["id"] = identifiers[0]
            answer = case.call(headers=headers, timeout=300)
            declared = case.operation.definition.raw["responses"]
            assert answer.status_code < 500 or answer.status_code == 503, f"{case.as_curl_command()}\n{answer.text}"
            # A method or path that came out as another resource's is not this operation's answer.
            known = {int(status) for status in declared} | {404, 405, 307}
            assert answer.status_code in known, f"{case.as_curl_command()}\n{answer.status_code} {answer.text}"
            assert answer.status_code != 503, answer.text
            if answer.status_code >= 400:
                assert set(answer.json()["error"]) == {"code", "what", "fix"}, answer.text

        check()
    assert asked >= CASES * 0.9


def test_events_come_within_a_second(served: Running) -> None:
    hub = served.service.hub
    assert not hub.full("")
    seen: list[float] = []
    identifier = served.create(name="watched")

    async def listen() -> None:
        async for text in hub.listen(identifier):
            seen.append(time.monotonic())
            if '"state": "running"' in text:
                return

    import asyncio

    def touch() -> None:
        time.sleep(1.5)
        claim = served.service.store.claim(identifier, "test")
        touched.append(time.monotonic())
        served.service.store.update(identifier, claim=claim, state="running")

    touched: list[float] = []
    thread = threading.Thread(target=touch)
    thread.start()
    asyncio.run(asyncio.wait_for(listen(), 30))
    thread.join()
    assert seen[-1] - touched[0] < 5.0
