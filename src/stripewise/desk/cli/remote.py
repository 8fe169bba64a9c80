"""Commands whose experiments are those of a service: ``--server URL``, or the environment."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from stripewise import __version__
from stripewise.desk.cli import hints
from stripewise.desk.cli.output import notes, remark
from stripewise.errors import StripewiseError, UserError
from stripewise.models.files import write_whole
from stripewise.ownership import check_model, names_file
from stripewise.store.base import Store
from stripewise.store.opening import open_store

if TYPE_CHECKING:
    from stripewise.desk.cli.progress import Progress
    from stripewise.desk.client.client import Client
    from stripewise.desk.client.store import RemoteStore
    from stripewise.observe.activity import Activity
    from stripewise.result import Result


def server_of(store: str | None, server: str | None) -> str | None:
    """Say which service is meant, if any: what stands on the command line wins over the environment.

    Raises
    ------
    UserError
        If both a store and a service stand there.
    """
    if server is None or (hints.given("store") and not hints.given("server")):
        return None
    if hints.given("store"):
        raise UserError("both --store and --server are given", "leave one of them out: a service has its own store")
    return server


def open_experiments(store: str | None, server: str | None) -> Store:
    """Open a store, or the experiments of a service."""
    url = server_of(store, server)
    return open_store(store) if url is None else experiments_of(url)


def experiments_of(url: str) -> RemoteStore:
    """Get ready to read the experiments of a service."""
    from stripewise.desk.client.store import RemoteStore  # noqa: PLC0415  not needed without a service

    return RemoteStore(connect(url))


def connect(url: str) -> Client:
    """Get ready to speak to a service."""
    from stripewise.desk.client.client import Client  # noqa: PLC0415  only with a service

    return Client(url)


def follow(client: Client, identifier: str, progress: Progress, after: int = 0) -> Result:
    """Show an experiment of a service as it runs, and give its result."""
    from stripewise.desk.client.follow import Follower  # noqa: PLC0415  only with a service
    from stripewise.engine.events import Event  # noqa: PLC0415  only with a service

    return Follower(client, identifier, lambda kind, data: progress(Event(kind, data))).run(after)


# -- tables, models, campaigns and logs ----------------------------------------------------------------------------


def _table_here(table: str) -> tuple[Path, Path] | None:
    """Give the two files of a table, if a word is theirs and they lie here."""
    from stripewise.models.table import table_files  # noqa: PLC0415  only with a service

    files = table_files(table)
    return files if _is_here(table, files, "table") else None


def _is_here(word: str, files: Sequence[Path], noun: str) -> bool:
    """Whether a word is that of files that lie here; a remark says so where the service's are taken instead."""
    here = all(file.is_file() for file in files)
    if here and not names_file(word):
        remark(f"{noun} {word} is the service's; write ./{word} for the one in this folder")
    return here and names_file(word)


def table_there(client: Client, table: str) -> str:
    """Give the name that a table has on the service: one that lies here is sent, under a name made of its content."""
    files = _table_here(table)
    if files is None:
        return table
    try:
        toml, csv = (file.read_bytes().decode() for file in files)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {table}: {error}", "check its two files") from error
    name = _name_of(csv, toml)
    with _known_already():
        client.keep_table(name, csv, toml)
    return name


def model_there(client: Client, model: str) -> str:
    """Give the name that a model has on the service: one that lies here is sent, as a table is."""
    path = Path(model)
    if not _is_here(model, [path], "model"):
        return model
    check_model(path)
    name = _name_of(path.read_bytes())
    with _known_already():
        client.upload("/models", path, name=name)
    return name


def learned_there(client: Client, given: str) -> str:
    """Give the name of a model on the service: a table that lies here is sent, and a model is trained on it there."""
    if _table_here(given) is None:
        return model_there(client, given)
    name = table_there(client, given)
    with _known_already():
        wait(client, client.train(name, name, "auto"))
    return name


def _name_of(*contents: str | bytes) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content.encode() if isinstance(content, str) else content)
        digest.update(b"\0")
    return f"sent-{digest.hexdigest()[:16]}"


@contextlib.contextmanager
def _known_already() -> Iterator[None]:
    """Pass over the refusal of what has the same name, and so the same content."""
    from stripewise.desk.client.transport import ServiceError  # noqa: PLC0415  only with a service

    try:
        yield
    except ServiceError as error:
        if error.status != 409:
            raise


def whole(client: Client, answer: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Give the answer of a service back if it has all that this version expects in it.

    Raises
    ------
    StripewiseError
        If something is missing: then the service is of another version.
    """
    missing = [name for name in names if name not in answer]
    if missing:
        raise StripewiseError(
            f"the service's answer has no '{missing[0]}': the service is version {client.get('/health')['version']}, "
            f"this program is version {__version__}",
            "use the same Stripewise on both sides",
        )
    return dict(answer)


def fetch(client: Client, address: str, path: Path) -> None:
    """Write a file of the service here, whole or not at all."""
    content = client.download(address)
    write_whole(path, lambda part: part.write_bytes(content), "file")


def wait(client: Client, job: Mapping[str, Any]) -> dict[str, Any]:
    """Wait for a job, and give its result; an interruption ends the waiting alone."""
    said = ""

    def tell(found: Mapping[str, Any]) -> None:
        nonlocal said
        if found["state"] != said and found["state"] == "queued":
            notes.print("waits for a worker of the service")
        said = found["state"]

    with unwatched(f"job {job['id']}"):
        return client.wait(job, tell)


@contextlib.contextmanager
def unwatched(what: str) -> Iterator[None]:
    """Say on an interruption that the service goes on, and end the command."""
    try:
        yield
    except KeyboardInterrupt:
        remark(f"no longer watched; the service continues {what}")
        raise typer.Exit(130) from None


def profile(
    url: str,
    text: str,
    changes: Mapping[str, Any],
    runs: int,
    out: Path,
    show: Callable[[int, int], None],
    *,
    retry: bool,
) -> dict[str, Any]:
    """Let a service measure a campaign, and give its summary; the table is written here.

    Parameters
    ----------
    url : str
    text : str
        Of the campaign's file.
    changes : mapping
        ``folder``, ``runner``, ``repeats``, ``seed`` in place of the file's.
    runs : int
        Planned, as far as is known.
    out : Path
        Stem of the table.
    show : callable
        Is told how many runs are made and left.
    retry : bool

    Raises
    ------
    StripewiseError
        As the worker has met it.
    """
    client = connect(url)
    found = client.run_campaign(text, changes, resume=True, retry=retry)
    place = f"/campaigns/{found['id']}"
    with unwatched(f"campaign {found['id']}"):
        while found["state"] in ("queued", "running"):
            if found["ended"]:
                show(found["ended"], max(0, runs - found["ended"]))
            time.sleep(0.5)
            found = client.get(place)
    if found["state"] != "done":
        what, _, fix = str(found["error"] or f"campaign {found['id']} was stopped").partition("; ")
        raise StripewiseError(what, fix or "the same command goes on")
    for ending in (".csv", ".toml"):
        fetch(client, f"{place}/table{ending}", out.with_name(out.name + ending))
    return {**found["result"], "table": str(out.with_name(out.name + ".csv"))}


def activity(client: Client, log: Path) -> tuple[str, Activity]:
    """Send a log, and give the identifier of its diagnosis and what was read of it."""
    from stripewise.desk.client.transport import ServiceError  # noqa: PLC0415  only with a service
    from stripewise.observe.activity import Activity  # noqa: PLC0415  only with a service

    try:
        identifier = str(client.upload("/diagnoses", log)["id"])
    except ServiceError as error:
        raise ServiceError(error.status, error.what.replace("the upload", str(log)), error.fix) from error
    found = Activity.model_validate(client.get(f"/diagnoses/{identifier}/activity"))
    return identifier, found.model_copy(update={"source": str(log)})
