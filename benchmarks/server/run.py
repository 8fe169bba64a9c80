"""How a service answers over a large store: pages, resources, events to many listeners, and the memory of its process.

::

    python benchmarks/server/run.py [--store ADDRESS] [--experiments 1000] [--runs 1000] [--listeners 200]

fills a new store (a temporary SQLite file if no address is given), starts ``stripewise serve`` on a socket, and prints
JSON: medians and maxima in milliseconds, the latest arrival of an event in seconds, and the server's peak memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.client.transport import Address, Transport
from stripewise.requests.experiment import Experiment
from stripewise.store import codec
from stripewise.store import schema as rows
from stripewise.store.base import Claim, Store
from stripewise.store.opening import open_store
from stripewise.store.schema import experiments, runs, trials
from stripewise.store.service import database_of
from stripewise.store.service.tokens import Tokens
from stripewise.trial import Phase, Role, Run, State, Trial

FIXTURE = Path(__file__).parents[2] / "tests" / "fixtures" / "result.json"
RESULT = json.loads(FIXTURE.read_text("utf-8"))["record"]["result"]
STATES = ("finished", "finished", "finished", "stopped", "failed", "created")
FACTS = {"folder": "/scratch/user/experiment/1", "exit_code": 0, "metrics": {}, "node_hours": 0.01, "bytes": 1 << 30}


def fill(store: Store, count: int, each: int) -> list[str]:
    """Insert in bulk what would take the store's own, durable calls hours."""
    default, best = (RESULT[name]["configuration"] for name in ("default", "best"))
    experiment = Experiment(command=["mpiexec", "-n", "64", "./application"], objective="write_bandwidth")
    definition, made = codec.dump(codec.experiment_json(experiment)), []
    facts = codec.dump({"seconds": 10.0 * each, "submitter": "ada"})
    roles = [Role.DEFAULT, *[Role.CANDIDATE] * (each // 2 - 1)]
    tried = [
        rows.trial_values("", Trial(n, Configuration(best if n % 2 else default), role)) for n, role in enumerate(roles)
    ]
    ended = [
        rows.run_values(
            "",
            Claim("", 1, "ada"),
            Run(n, n // 2, Phase.SEARCH, State.FINISHED, 100.0 + n % 97, 10.0, 1.7e9 + n, facts=FACTS),
        )
        for n in range(each)
    ]
    for number in range(count):
        identifier, state = secrets.token_hex(4), STATES[number % len(STATES)]
        made.append(identifier)
        row = {
            **{"id": identifier, "name": f"experiment {number % 50}", "state": state, "created": 1.7e9 + number},
            **{"updated": 1.7e9 + number, "owner": "ada", "token": 1, "stop": -1, "trials": each // 2, "runs": each},
            **{"ended": each, "definition": definition, "facts": facts},
            "result": codec.dump({**RESULT, "experiment": identifier}) if state == "finished" else None,
        }

        def work(connection: sa.Connection, again: bool) -> None:
            own = {"experiment": identifier}  # noqa: B023  called at once
            connection.execute(experiments.insert().values(row))  # noqa: B023
            insert(connection, trials, [{**values, **own} for values in tried])
            insert(connection, runs, [{**values, **own} for values in ended])

        database_of(store).write(work)
    return made


def insert(connection: sa.Connection, table: sa.Table, values: list[dict[str, Any]]) -> None:
    """Insert rows by the quickest way that the database has."""
    if connection.dialect.name != "postgresql":
        connection.execute(table.insert(), values)
        return
    names = list(values[0])
    columns = ", ".join(f'"{name}"' for name in names)
    with connection.connection.cursor() as cursor, cursor.copy(f"COPY {table.name} ({columns}) FROM STDIN") as copy:
        for row in values:
            copy.write_row([row[name] for name in names])


@contextlib.contextmanager
def served(address: str, folder: Path) -> Iterator[tuple[Path, int]]:
    """Start a service and give its socket and process number."""
    socket = folder / "s"
    command = [sys.executable, "-m", "stripewise", "serve", "--socket", str(socket), "--workers", "0"]
    environment = {**os.environ, "STRIPEWISE_STORE": address, "STRIPEWISE_HOME": str(folder)}
    process = subprocess.Popen(command, env=environment, cwd=folder, stderr=subprocess.DEVNULL)
    try:
        while not socket.exists():
            time.sleep(0.1)
        yield socket, process.pid
    finally:
        process.terminate()
        process.wait()


def timed(transport: Transport, address: str, repeats: int) -> dict[str, float]:
    """Ask for a resource once, and then again and again; the first answer may load modules, or fill what is kept."""
    path, _, text = address.partition("?")
    query = dict(pair.split("=") for pair in text.split("&") if pair)
    milliseconds = []
    for _ in range(repeats + 1):
        begun = time.perf_counter()
        data, _ = transport.send("GET", path, query=query)
        milliseconds.append(round(1e3 * (time.perf_counter() - begun), 1))
    found = {"first_ms": milliseconds[0], "bytes": len(data)}
    if repeats:
        found |= {"median_ms": statistics.median(milliseconds[1:]), "max_ms": max(milliseconds[1:])}
    return found


def first_looks(transport: Transport, identifiers: list[str]) -> dict[str, float]:
    """Ask for the pages of experiments of which the server remembers nothing."""
    answers = [timed(transport, f"/experiments/{identifier}", 0) for identifier in identifiers]
    return {
        "median_ms": statistics.median(answer["first_ms"] for answer in answers),
        "max_ms": max(answer["first_ms"] for answer in answers),
    }


async def events(socket: Path, readers: list[str], identifier: str, listeners: int, change: Any) -> list[float]:
    """Open streams, change something, and give the seconds until each listener knew."""
    ready = 0

    async def one(secret: str) -> float:
        nonlocal ready
        reader, writer = await asyncio.open_unix_connection(str(socket))
        request = f"GET /api/experiments/{identifier}/events HTTP/1.1\r\nHost: localhost\r\n"
        writer.write(f"{request}Authorization: Bearer {secret}\r\n\r\n".encode())
        await writer.drain()
        first = True
        while line := await reader.readline():
            if line.startswith(b"data:"):
                if first:
                    ready += 1
                    first = False
                if b'"state": "running"' in line:
                    writer.close()
                    return time.monotonic()
        raise RuntimeError("a stream has ended")

    streams = [asyncio.create_task(one(readers[number % len(readers)])) for number in range(listeners)]
    while ready < listeners:
        await asyncio.sleep(0.05)
    await asyncio.sleep(2.0)
    changed = await asyncio.to_thread(change)
    return [seen - changed for seen in await asyncio.gather(*streams)]


def memory(pid: int, name: str) -> float:
    """Memory of a process in MiB: ``VmRSS`` now, ``VmHWM`` at most."""
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def main() -> None:
    """Fill, serve, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store")
    parser.add_argument("--experiments", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--listeners", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--filled", action="store_true", help="the store is full already")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sws") as text:
        folder = Path(text)
        address = given.store or f"sqlite:///{folder}/s.db"
        with open_store(address) as store:
            if not given.filled:
                fill(store, given.experiments, given.runs)
            tokens = Tokens(database_of(store))
            _, secret = tokens.create("benchmark", "operator")
            # One token may hold few streams.
            readers = [tokens.create("reader", "viewer")[1] for _ in range(0, given.listeners, 10)]
            finished = store.records("finished", limit=1)[0].id
            stopped = store.records("stopped", limit=1)[0].id

            def change() -> float:
                claim = store.claim(stopped, "benchmark")
                store.update(stopped, claim=claim, state="running")
                return time.monotonic()

            with served(address, folder) as (socket, pid):
                transport = Transport(Address.parse(f"unix:{socket}"), secret, timeout=120)
                transport.send("GET", "/api/health")
                idle = memory(pid, "VmRSS")
                paths = {
                    "overview resource": "/api/experiments?limit=50",
                    "overview, last page": "/api/experiments?limit=50&offset=900&sort=name",
                    "experiment resource": f"/api/experiments/{finished}",
                    "experiment without result": f"/api/experiments/{stopped}",
                    "trials": f"/api/experiments/{finished}/trials?limit=50",
                    "runs": f"/api/experiments/{finished}/runs?limit=50&offset=500",
                    "overview page": "/",
                    "experiment page": f"/experiments/{finished}",
                    "its figures": f"/experiments/{finished}/figures.json",
                    "page of one that is not finished": f"/experiments/{stopped}",
                }
                answers = {name: timed(transport, path, given.repeats) for name, path in paths.items()}
                others = [record.id for record in store.records("finished", limit=given.repeats + 1)[1:]]
                answers["experiment page, first look"] = first_looks(transport, others)
                delays = asyncio.run(events(socket, readers, stopped, given.listeners, change))
                document = {
                    "store": address.partition(":")[0],
                    "experiments": given.experiments,
                    "runs": given.experiments * given.runs,
                    "answers": answers,
                    "listeners": given.listeners,
                    "event_seconds": {"median": round(statistics.median(delays), 3), "latest": round(max(delays), 3)},
                    "memory_mib": {"idle": round(idle), "peak": round(memory(pid, "VmHWM"))},
                }
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
