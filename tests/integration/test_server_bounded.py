"""What requests bring takes bounded time and memory, in a process that is replaced when it takes too much."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("fastapi")

from stripewise.desk.server import child as bounded
from stripewise.desk.server.child import Child
from stripewise.desk.server.job_worker import Worker
from stripewise.desk.server.model_jobs import Helper, end_kept
from stripewise.desk.server.resources import campaigns
from stripewise.errors import NothingWorks, UserError
from stripewise.models.features import Encoder, Feature
from stripewise.models.registry import make_model
from stripewise.models.table import write_table
from stripewise.testing.models import sample_table
from tests.unit.service import SIMULATED, Running, running

CASES = """name = "cases"
runner = "sim:kay"
stacks = ["lustre"]
operations = ["write"]
repeats = 3
workload = [
    {name = "nodes", values = [2]},
    {name = "file_size", values = ["1 GiB"]},
    {name = "chunk", role = "transfer_size", values = ["16 MiB"]},
]
[[tunable]]
name = "stripes"
role = "stripe_count"
values = [1, 4]
"""


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    made = Child(64 << 20)
    yield made
    made.end()


def greedy_model(path: Path) -> Path:
    """A model of a few KiB whose head takes hundreds of MiB as objects."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "model.json", '{"format": "stripewise-model", "version": 1, "x": [' + "{}," * 2_000_000 + "{}]}"
        )
    return path


def thirsty_model(path: Path, features: int) -> Path:
    """A model of a few KiB that takes as many numbers of memory for each configuration as it has features."""
    model = make_model("tree").fit(sample_table(repeats=1), seed=0)
    model._encoder = Encoder((*model.encoder.features, *[Feature("", "value", (0,))] * features))
    model.save(path)
    return path


def test_a_model_that_takes_too_much_memory_is_refused(child: Child, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs more memory than"):
        child.ask("describe_model", 60.0, path=str(greedy_model(tmp_path / "greedy")))
    make_model("tree").fit(sample_table(repeats=1), seed=0).save(tmp_path / "good")
    assert child.ask("describe_model", 60.0, path=str(tmp_path / "good"))["kind"] == "tree"


def test_what_takes_too_long_is_stopped(child: Child, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "endless", 0o600)
    with pytest.raises(UserError, match=r"it takes more than 0\.3 s"):
        child.ask("describe_model", 0.3, path=str(tmp_path / "endless"))
    assert child.ask("describe_table", 60.0, path=_table(tmp_path))["rows"] > 0

    def stop() -> None:
        raise NothingWorks("stopped")

    with pytest.raises(NothingWorks, match="stopped"):
        child.ask("describe_model", 60.0, stop, path=str(tmp_path / "endless"))


def _table(folder: Path) -> str:
    write_table(sample_table(repeats=1), folder / "table")
    return str(folder / "table")


def test_the_first_request_finds_a_child_that_loads_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    children = bounded._Children()
    monkeypatch.setattr(bounded, "_children", children)
    bounded.warm_up(0.01)
    begun = time.monotonic()
    while children._idle.qsize() < bounded._CHILDREN or children._idle.queue[-1]._process is None:
        assert time.monotonic() < begun + 120
        time.sleep(0.01)
    used = children._idle.get()
    assert used._process is not None and used._process.poll() is None
    used.end()


def test_those_who_wait_for_a_child_leave_threads_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = threading.Event()
    monkeypatch.setattr(Child, "ask", lambda *_, **__: held.wait(60) and {})

    async def many(found: Running) -> set[int]:
        transport = httpx.ASGITransport(found.app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://testserver", headers=found.viewer.headers, timeout=60
        ) as client:
            body = {"workload": {"operation": "write"}}
            secrets = [found.service.tokens.create(f"one of many {place}", "viewer")[1] for place in range(20)]
            asked = [
                asyncio.create_task(
                    client.post("/api/prescriptions", json=body, headers={"Authorization": f"Bearer {secret}"})
                )
                for secret in secrets * 3
            ]
            await asyncio.sleep(0.1)
            try:
                # Before, the others took all threads.
                answer = await asyncio.wait_for(client.get("/api/experiments"), 20.0)
            finally:
                held.set()
            assert answer.status_code == 200
            return {(await one).status_code for one in asked}

    with running(tmp_path) as found:
        assert asyncio.run(many(found)) == {200, 503}


def test_the_service_survives_what_is_uploaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few: queue.LifoQueue[Child] = queue.LifoQueue()
    few.put(Child(64 << 20))
    monkeypatch.setattr(bounded._children, "_idle", few)
    make_model("tree").fit(sample_table(repeats=1), seed=0).save(tmp_path / "good")
    kind = {"Content-Type": "application/octet-stream"}
    with running(tmp_path) as found:
        greedy = greedy_model(tmp_path / "greedy").read_bytes()
        refused = found.operator.post("/api/models?name=greedy", content=greedy, headers=kind)
        assert refused.status_code == 422 and "model the upload needs more memory" in refused.text, refused.text
        good = (tmp_path / "good").read_bytes()
        assert found.operator.post("/api/models?name=good", content=good, headers=kind).json()["kind"] == "tree"
        asked = {"model": "good", "workload": {"operation": "write", "nodes": 4, "transfer_size": "1 MiB"}}
        chosen = found.viewer.post("/api/prescriptions", json=asked)
        assert chosen.status_code == 200 and chosen.json()["changes"], chosen.text
        nothing = found.viewer.post("/api/prescriptions", json={"model": "good", "workload": {}})
        assert nothing.status_code == 422 and "the workload is unknown" in nothing.text
        empty = found.viewer.get("/models/good?workload.operation=&workload.nodes=&current.cb_nodes=").text
        assert "the workload is unknown" in empty and "operation" in empty and "times as fast" not in empty
        partly = found.viewer.get("/models/good?workload.operation=write&workload.nodes=").text
        assert "times as fast" in partly and "nodes is unknown" in partly
        _table(tmp_path)
        table = {"csv": (tmp_path / "table.csv").read_text(), "toml": (tmp_path / "table.toml").read_text()}
        (found.folder / "data" / "greedy").write_bytes(greedy)
        definition = {**SIMULATED, "sampler": "auto", "model": str(found.folder / "data" / "greedy")}
        named = found.operator.post("/api/experiments", json={"definition": definition, "start": False})
        assert named.status_code == 422 and "memory" in named.text, named.text
        monkeypatch.setattr(campaigns, "_COUNT_SECONDS", 0.5)
        tunable = '[[tunable]]\nname = "t{0}"\ncarrier = "hint"\nkey = "t{0}"\nvalues = ["a", "b"]\n'
        many = CASES + "".join(tunable.format(number) for number in range(19))
        for more in {}, {"resume": True}:
            grown = found.operator.post("/api/campaigns", json={"toml": many, **more})
            assert grown.status_code == 422 and "use a smaller one" in grown.text, grown.text
        few.put(Child(512 << 20))  # what reads tables is larger than that by itself
        kept = found.operator.post("/api/tables", json={"name": "one", **table})
        assert kept.status_code == 201 and kept.json()["rows"] > 0, kept.text


def test_a_worker_survives_what_a_model_takes_when_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stripewise.desk.server.model_jobs._MEMORY", 8 << 20)
    with running(tmp_path) as found:
        thirsty = thirsty_model(tmp_path / "data" / "thirsty", 40_000)
        kind = {"Content-Type": "application/octet-stream"}
        kept = found.operator.post("/api/models?name=thirsty", content=thirsty.read_bytes(), headers=kind)
        assert kept.status_code == 201, kept.text
        definition = {**SIMULATED, "sampler": "auto", "model": str(thirsty)}
        made = found.operator.post("/api/experiments", json={"definition": definition})
        assert made.status_code == 201, made.text
        asked = found.operator.post("/api/evaluations", json={"toml": CASES, "model": "thirsty"})
        assert asked.status_code == 202, asked.text
        service = found.service
        Worker(service.store, service.settings.data).run(until_idle=True)
        for job in service.jobs.of(made.json()["id"]), service.jobs.get(asked.json()["id"]):
            assert job is not None and job.state == "failed" and "memory" in job.error, job


def test_the_next_job_gets_the_child_of_work_that_ended_well(monkeypatch: pytest.MonkeyPatch) -> None:
    processes = []

    def count(toml: str) -> None:
        with Helper(lambda: False) as helper:
            processes.append(helper._child.started())
            assert helper.ask("count_points", toml=toml, changes={}) == 2

    for _ in range(2):
        count(CASES)
    assert processes[0] is processes[1] and processes[0].poll() is None
    with pytest.raises(UserError, match="campaign"):
        count("")
    assert processes[0].returncode is not None, "it waits for no other job after work that failed"
    monkeypatch.setattr("stripewise.desk.server.model_jobs._MOST_KEPT", 1)
    count(CASES)
    assert processes[3].returncode is not None, "it had more memory than a child that waits may have"
    monkeypatch.undo()
    count(CASES)
    assert processes[4].poll() is None
    end_kept()
    assert processes[4].returncode is not None


def test_a_script_is_judged_outside_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The child is another process, which does not see this.
    for module in ("diagnose.knobs", "desk.server.child_tasks"):
        monkeypatch.setattr(f"stripewise.{module}.review_script", None)
    script = "".join(f"export OMPI_MCA_io_x{i}=1\n" for i in range(999)) + "unset A\n" * 13_500
    with running(tmp_path) as found:
        answer = found.viewer.post("/api/knobs", json={"script": script, "mpi": "openmpi"})
        assert answer.status_code == 200 and len(answer.json()["settings"]) == 999
        asked = {"script": "export OMPI_MCA_fcoll=vulcan\nmpirun ./a\n"}
        assert found.viewer.post("/api/knobs", json=asked).json()["mpi"] == "openmpi"
        assert found.viewer.post("/api/knobs", json={**asked, "mpi": "lam"}).status_code == 422


def test_a_token_has_few_such_requests_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on, held = threading.Semaphore(0), threading.Event()

    def waiting(work: str, seconds: float, **given: object) -> dict[str, object]:
        going_on.release()
        held.wait(30)
        return {"settings": [], "dead": 0, "mpi": "mpich"}

    monkeypatch.setattr(bounded._children, "_ask", waiting)
    with running(tmp_path) as found:
        statuses: list[int] = []

        def ask() -> None:
            statuses.append(found.viewer.post("/api/knobs", json={"script": "x"}).status_code)

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
            assert going_on.acquire(timeout=30)
        refused = found.viewer.post("/api/knobs", json={"script": "x"})
        assert refused.status_code == 429 and refused.headers["Retry-After"]
        assert "already has 3 requests" in refused.text and "wait for an answer" in refused.text
        other = threading.Thread(target=lambda: found.operator.post("/api/knobs", json={"script": "x"}))
        other.start()
        assert going_on.acquire(timeout=30), "another token has a limit of its own"
        held.set()
        for thread in (*threads, other):
            thread.join()
        assert statuses == [200] * 3
        assert found.viewer.post("/api/knobs", json={"script": "x"}).status_code == 200
