"""A service for tests, in this process, with clients of both roles."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient

from stripewise.desk.server.app import create_app
from stripewise.desk.server.service import Service, Settings

SIMULATED: dict[str, Any] = {
    "name": "simulated",
    "runner": "sim:kay",
    "stacks": ["lustre"],
    "objective": "write_bandwidth",
    "budget": 4,
    "workload": {"operation": "write", "nodes": 2, "processes_per_node": 4, "file_size": "1 GiB"},
}
"""A definition that runs in a moment."""


@dataclass
class Running:
    """A service and how to speak to it."""

    app: Any
    folder: Path
    operator: TestClient
    viewer: TestClient
    nobody: TestClient
    admin: TestClient
    secret: str

    @property
    def service(self) -> Service:
        service: Service = self.app.state.service
        return service

    def client(self, peer: str = "testclient", **headers: str) -> TestClient:
        return TestClient(
            self.app, headers=headers, raise_server_exceptions=False, follow_redirects=False, client=(peer, 50000)
        )

    def create(self, **changes: Any) -> str:
        made = self.operator.post("/api/experiments", json={"definition": {**SIMULATED, **changes}, "start": False})
        assert made.status_code == 201, made.text
        return str(made.json()["id"])


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Running]:
    """Start a service over an empty store."""
    data = folder / "data"
    data.mkdir()
    given = {"hosts": ("testserver",), "failures_a_minute": 100_000, "requests_a_second": 1e6, "burst": 10**6}
    app = create_app(Settings(store=f"sqlite:///{folder}/s.db", data=data, **{**given, **settings}))
    tokens = app.state.service.tokens
    (_, operator), (_, viewer) = tokens.create("ada", "operator"), tokens.create("bob", "viewer")
    _, admin = tokens.create("root", "admin")

    def client(secret: str | None) -> TestClient:
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        return TestClient(app, headers=headers, raise_server_exceptions=False, follow_redirects=False)

    try:
        yield Running(app, folder, client(operator), client(viewer), client(None), client(admin), operator)
    finally:
        app.state.service.store.close()
