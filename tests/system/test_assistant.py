"""``stripewise service mcp`` over standard input and output: an assistant finds and proves settings, then leaves."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from mcp import Client as Assistant
from mcp import StdioServerParameters, stdio_client

from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.tokens import Tokens
from tests.unit.reports import example_log


def test_an_assistant_gets_advice_with_a_proof(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    shutil.copy(example_log(), tmp_path / "job.darshan")
    program = StdioServerParameters(
        command=sys.executable,
        args=["-m", "stripewise", "service", "mcp", "--root", str(tmp_path), "--store", store],
        env={**os.environ, "STRIPEWISE_HOME": str(tmp_path / "home")},
    )

    async def talk() -> None:
        async with Assistant(stdio_client(program)) as speaker:

            async def call(name: str, **given: Any) -> Any:
                answer = await speaker.call_tool(name, given)
                return answer.content[0].text if answer.is_error else answer.structured_content

            diagnosed = await call("diagnose", log=str(tmp_path / "job.darshan"))
            assert diagnosed["diagnosis"]["findings"]
            prescribed = await call(
                "prescribe", diagnosis=diagnosed["id"], workload={"nodes": 4}, policy="mpi-io-study", osts=16
            )
            assert "settings" in prescribed, prescribed
            # Without --allow and without a site file no program is allowed.
            assert "allow-list" in await call("tune", command=["/bin/true"])
            workload = {"operation": "write", "nodes": 8, "processes_per_node": 8, "file_size": "64 GiB"}
            simulation = {"command": [], "stacks": ["lustre"], "more": {"runner": "sim:kay", "workload": workload}}
            made = await call("tune", objective="write_bandwidth", budget=30, **simulation)
            shown = await call("show", experiment=made["id"], wait=50)
            assert shown["simulated"]
            assert shown["confirmed"]
            assert shown["speedup_ci95"][0] > 1
            exported = await call("export", experiment=made["id"], to="lfs", directory="/lustre/out")
            assert "lfs setstripe" in exported["text"]

    asyncio.run(asyncio.wait_for(talk(), 120))
    with open_store(store) as opened:
        assert [token.revoked is not None for token in Tokens(database_of(opened)).all()] == [True]
