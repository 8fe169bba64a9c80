"""``stripewise service mcp``: the service's resources as tools of an assistant, by the Model Context Protocol.

Every tool is a request to a service, so the limits, the folders and the allow-list are the service's. Without
``--server`` this process is a service for one assistant: it listens on a socket of its own, with a token that ends with
it.
"""

# Annotations are values here: the protocol's package reads those of functions within a function.
import asyncio
import functools
import json
import os
import shlex
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stripewise import __version__
from stripewise.desk.client.client import Client
from stripewise.desk.server.commands import DataOption, StoreOption, data_folder, log_to_stderr
from stripewise.engine.process import user_name
from stripewise.errors import StripewiseError, UserError, import_optional
from stripewise.requests.policy import load_policy
from stripewise.runners.allow_list import AllowList
from stripewise.sizes import format_size
from stripewise.store.service.tokens import SESSION_SECONDS

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from stripewise.desk.server.service import Service

_LONGEST_WAIT = 50.0
_LONGEST_PAUSE = 2.0
_LONGEST_PART = 1500
"""Characters of the command, and of what else is asked about, in a question that a person reads."""
_INSTRUCTIONS = """Stripewise tunes the parallel I/O of MPI programs and proves each gain by measurement.
Claim a gain only if `confirmed` is true, and give it with `speedup_ci95`. Say that it is simulated if `simulated` is
true. Begin with `diagnose` or `knobs`, which start nothing. Call `dry_run` before `tune`: it says what `tune` may cost.
`tune` starts the user's program many times; it returns at once, and `show` says how far it is."""


def serve_assistant(
    root: Annotated[
        list[Path] | None,
        typer.Option(
            help="A folder in which programs may be started and files named; repeatable. By default the current one.",
            metavar="FOLDER",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="A command that may be started, as in 'mpiexec -n * /opt/app ...'; repeatable. By default the site "
            "file's applications, and without them none."
        ),
    ] = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Start programs without asking you, within the costs that need no consent."),
    ] = False,
    server: Annotated[
        str | None,
        typer.Option(
            envvar="STRIPEWISE_SERVER",
            help="Use this service, with its limits: unix:PATH or https://HOST.",
            metavar="URL",
        ),
    ] = None,
    skill: Annotated[
        bool,
        typer.Option("--skill", help="Print SKILL.md, instructions for an assistant that runs commands, and end."),
    ] = False,
    data: DataOption = None,
    store: StoreOption = None,
) -> None:
    """Let an assistant tune, diagnose and prescribe, by the Model Context Protocol.

    The protocol runs over standard input and output.
    """
    if skill:
        typer.echo((resources.files("stripewise.desk.server") / "SKILL.md").read_text("utf-8"), nl=False)
        return
    with import_optional("mcp"):
        import mcp.server.mcpserver  # noqa: F401, PLC0415  an extra: what is missing is said before anything starts

        from stripewise.desk.server.app import serve, unix_socket  # noqa: PLC0415
        from stripewise.desk.server.service import Settings  # noqa: PLC0415
    log_to_stderr()
    roots = tuple(folder.absolute() for folder in (root or [Path.cwd()]))
    if server is not None:
        if allow or data or store:
            raise UserError(
                "--allow, --data and --store belong to the service", "leave them out, or leave out --server"
            )
        made = assistant(Client(server), Settings(data=roots[0], roots=roots), ask=not yes)
        made.run("stdio")
        return
    patterns = tuple(allow or load_policy().applications or ())
    AllowList(patterns)
    settings = Settings(store=store, data=data_folder(data), roots=roots, allow=patterns)
    folder = Path(tempfile.mkdtemp(prefix="stripewise-mcp-"))
    path = folder / "socket"
    try:
        serve(settings, unix_socket(path), 1, path, lambda service: _begin(service, path, ask=not yes))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _begin(service: "Service", path: Path, *, ask: bool) -> None:
    """Start to answer the assistant beside the service; both end when the assistant closes its end."""
    token, secret = service.tokens.create(f"{user_name()}, mcp", "operator", 14 * SESSION_SECONDS)
    made = assistant(Client(f"unix:{path}", secret), service.settings, ask=ask)

    def answer() -> None:
        try:
            made.run("stdio")
        finally:
            service.tokens.revoke(token.id)
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=answer, daemon=True).start()


def assistant(client: Client, settings: Any, *, ask: bool) -> "MCPServer[Any]":
    """Make the tools.

    Parameters
    ----------
    client : Client
        Of the service that does the work.
    settings : Settings
        Its folders are those from which logs are read.
    ask : bool
        Ask the person before a program is started; the assistant cannot answer in their place.
    """
    from mcp.server.elicitation import AcceptedElicitation, ElicitationResult  # noqa: PLC0415  an extra
    from mcp.server.mcpserver import Context, MCPServer  # noqa: PLC0415
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415
    from mcp.server.mcpserver.resolve import Elicit, Resolve  # noqa: PLC0415
    from mcp.types import ToolAnnotations  # noqa: PLC0415
    from pydantic import BaseModel, Field  # noqa: PLC0415

    from stripewise.desk.server.policy import confine_path  # noqa: PLC0415  needs the server's packages

    class Consent(BaseModel):
        """What the person is asked."""

        start: bool = Field(title="Start it", description="start the program as often as said")
        any_cost: bool = Field(default=False, description="agree to a worst case above the site's limits")

    server = MCPServer("stripewise", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING")

    explained = _explain_errors(ToolError)
    looks = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    keeps = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
    starts = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)

    def definition_of(
        command: list[str], stacks: list[str], objective: str, budget: int, more: dict[str, Any]
    ) -> dict[str, Any]:
        given = {"command": command, "stacks": stacks, "objective": objective, "budget": budget}
        if both := sorted(given.keys() & more):
            # What the person is asked about is what starts.
            raise UserError(f"more holds what has an argument of its own: {', '.join(both)}", "leave it out of more")
        return {**given, **more}

    @explained
    def consent(
        command: list[str],
        folder: str,
        stacks: list[str],
        objective: str,
        budget: int,
        more: dict[str, Any],
        context: Context[Any, Any],
    ) -> Any:
        definition = definition_of(command, stacks, objective, budget, more)
        # What the service refuses is refused before anybody is asked.
        dry = client.dry_run(definition, folder or None)
        if dry["simulated"] or not ask:
            return Consent(start=True)
        if context.client_capabilities is None or context.client_capabilities.elicitation is None:
            raise UserError(
                "this assistant's program cannot ask the person whether to start something",
                "the person can run stripewise tune, or restart stripewise service mcp with --yes",
            )
        return Elicit(_question(definition, folder, dry), Consent)

    @server.tool(annotations=looks)
    @explained
    def knobs(
        script: str, mpi: str = "", file_system: str = "", operation: str = "", experiment: str = ""
    ) -> dict[str, Any]:
        """Find I/O settings in the text of a job script that do nothing, and say why. Starts nothing.

        mpi: mpich, openmpi, openmpi-romio, cray or intel; without it, the one that the script uses. file_system:
        lustre, gpfs, nfs, ext4 ... operation: read, write or both. experiment: identifier of an experiment with the
        same program, whose evidence is used.
        """
        asked = {"script": script, "mpi": mpi, "file_system": file_system, "operation": operation}
        return dict(client.post("/knobs", {**asked, "experiment": experiment}))

    @server.tool(annotations=keeps)
    @explained
    def diagnose(log: str) -> dict[str, Any]:
        """Say why a job's I/O was slow and how to fix it. Starts nothing; the service keeps a copy of the log.

        log: absolute path of a Darshan log, a report of the Stripewise runtime, a record, or a benchmark's output. The
        answer's `id` is for `prescribe`.
        """
        return dict(client.upload("/diagnoses", confine_path(Path(log), settings, "log")))

    @server.tool(annotations=looks)
    @explained
    def dry_run(
        command: list[str],
        folder: str = "",
        stacks: list[str] = [],  # noqa: B006  never changed
        objective: str = "elapsed",
        budget: int = 40,
        more: dict[str, Any] = {},  # noqa: B006
    ) -> dict[str, Any]:
        """Show what `tune` with the same arguments would try, and its worst-case cost. Starts nothing.

        command: the program with its launcher, word by word; empty with a simulated runner. folder: absolute folder in
        which it starts. stacks: what to tune, such as lustre, romio, ompio, hdf5; empty: all that can act. objective:
        elapsed, io_time, write_bandwidth, read_bandwidth, bandwidth ... budget: launches in all. more: further keys of
        an experiment file, such as runner (local, batch, steps, or sim:NAME for a simulated cluster), workload, batch,
        timeout, hooks.
        """
        return client.dry_run(definition_of(command, stacks, objective, budget, more), folder or None)

    @server.tool(annotations=starts)
    @explained
    def tune(
        agreed: Annotated[ElicitationResult[Consent], Resolve(consent)],
        command: list[str],
        folder: str = "",
        stacks: list[str] = [],  # noqa: B006
        objective: str = "elapsed",
        budget: int = 40,
        more: dict[str, Any] = {},  # noqa: B006
    ) -> dict[str, Any]:
        """Search for better settings and prove the gain, by starting the program `budget` times.

        Arguments as of `dry_run`. The person is asked first. Returns at once; `show` says how far it is.
        """
        if not isinstance(agreed, AcceptedElicitation) or not agreed.data.start:
            raise UserError("the person did not agree to start the program", "nothing was started")
        definition = definition_of(command, stacks, objective, budget, more)
        made = client.create(definition, folder or None, agreed=agreed.data.any_cost)
        return {name: made[name] for name in ("id", "name", "state", "queued", "budget", "simulated")}

    @server.tool(annotations=looks)
    async def show(experiment: str, wait: float = 0.0) -> dict[str, Any]:
        """Show the state of an experiment, and its result once it has finished.

        experiment: its identifier. wait: seconds to wait for its end, at most 50.
        """
        return await _wait_for_end(explained(lambda: client.experiment(experiment)), bounded_wait(wait))

    @server.tool(annotations=looks)
    @explained
    def prescribe(
        workload: dict[str, Any] = {},  # noqa: B006
        diagnosis: str = "",
        model: str = "",
        policy: str = "",
        osts: int = 0,
        to: str = "",
    ) -> dict[str, Any]:
        """Choose settings without a run, from a model of the service or without one. Nothing is proven by this.

        workload: operation, nodes, processes_per_node, file_size, transfer_size, layout ... or diagnosis: the id that
        `diagnose` gave. model: a model of the service; without one, policy: knowledge (what helped on
        other systems) or a rule of thumb (mpi-io-study), and osts: how many OSTs the file system has. to:
        also as one of the targets of `export`.
        """
        given = {"workload": workload, "diagnosis": diagnosis, "model": model, "policy": policy, "osts": osts, "to": to}
        return dict(client.post("/prescriptions", {name: value for name, value in given.items() if value}))

    @server.tool(annotations=looks)
    @explained
    def export(experiment: str, to: str = "plan", directory: str = "", program: str = "") -> dict[str, Any]:
        """Write the settings found for another tool, with their undo and what it cannot express.

        to: plan, hints, shell, sbatch, cray, intel, openmpi, lfs, toml, h5repack or nccopy. directory: for lfs.
        program: for sbatch.
        """
        query = {"to": to, "directory": directory or None, "program": program or None}
        return dict(client.get(client.experiment_path(experiment, "/export"), **query))

    return server


async def _wait_for_end(look: Callable[[], dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Look at an experiment until it ends or the time is over.

    Between two looks this takes no thread: many calls that wait, or were withdrawn, hold no others up.
    """
    until, pause = time.monotonic() + seconds, 0.5
    while True:
        found = await asyncio.to_thread(look)
        over = found["state"] not in ("created", "running") or (found["state"] == "created" and not found["queued"])
        if over or time.monotonic() >= until:
            return {name: value for name, value in found.items() if name not in ("definition", "facts")}
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE, 1.5 * pause)


def bounded_wait(seconds: float) -> float:
    """Bound how long an assistant may wait, in seconds."""
    return min(_LONGEST_WAIT, seconds)  # in this order what is no number does not stay


def _explain_errors(kind: type[Exception]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Raise expected errors of a tool as the kind whose words the assistant sees."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def told(**given: Any) -> Any:
            try:
                return function(**given)
            except StripewiseError as error:
                raise kind(str(error)) from error

        return told

    return decorate


def _question(definition: dict[str, Any], folder: str, dry: dict[str, Any]) -> str:
    """Say what would start: hooks, setup lines, stack files and objectives start or preload programs, too."""
    command, budget = definition["command"], definition["budget"]
    plain = {"command": command, "budget": budget, "stacks": [], "objective": "elapsed"}
    besides = {name: value for name, value in definition.items() if name not in plain or value != plain[name]}
    told = f", with {_shorten(json.dumps(besides))}" if besides else ""
    where = _shorten(json.dumps(folder)) if folder else "the data folder"
    return f"Start {_shorten(_escape(shlex.join(command)))} in {where}, {_cost(dry)}{told}?"


def _escape(text: str) -> str:
    """Write characters outside of ASCII, and those that act on a terminal, as codes: some look like others or nothing.

    JSON does the same for what it holds.
    """
    return "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)


def _shorten(text: str) -> str:
    """Leave out the middle of a long text, and say how much that is: what starts, and what ends a line, is read."""
    if len(text) <= _LONGEST_PART:
        return text
    half = _LONGEST_PART // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters left out ...] {text[-half:]}"


def _cost(dry: dict[str, Any]) -> str:
    worst = dry["worst_case"]
    parts = [f"at most {worst['runs']:g} times"]
    if worst.get("node_hours"):
        parts.append(f"{worst['node_hours']:.3g} node-hours")
    if worst.get("bytes"):
        parts.append(f"{format_size(int(worst['bytes']))} of I/O")
    return ", ".join(parts)
