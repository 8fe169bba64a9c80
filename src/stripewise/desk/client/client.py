"""The service's resources as methods."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from stripewise.desk.client.transport import NOT_OURS, Address, Transport, find_token, read_json, reads_answers
from stripewise.errors import NothingWorks, StripewiseError, TransientError, UserError
from stripewise.store.base import check_identifier

_PATIENCE_SECONDS = 120.0
_MOST_BYTES = 256 << 20
_LEAST_BYTES = 1 << 16
"""For which an answer counts: a service could send small ones for ever."""


def error_of(name: object) -> type[StripewiseError]:
    """Give the kind of error that a worker has met, by its name."""
    kinds: dict[object, type[StripewiseError]] = {"NothingWorks": NothingWorks, "UserError": UserError}
    return kinds.get(name, StripewiseError)


def _read_parts(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Give a file in parts: it may be larger than the memory, and the service refuse it by its size."""
    while size:
        try:
            part = stream.read(min(size, 1 << 20))
        except OSError as error:
            raise UserError(f"cannot read {stream.name}: {error.strerror}", "check the path") from error
        if not part:
            raise UserError(f"{stream.name} became shorter while it was read", "try again")
        size -= len(part)
        yield part


@reads_answers
class Client:
    """Speaks to a service; documents are those of REST.

    Parameters
    ----------
    url : str
        ``unix:PATH``, ``http://localhost:PORT`` or ``https://HOST``.
    token : str, optional
        By default from ``STRIPEWISE_TOKEN`` or the token file.
    timeout : float
        Seconds to wait for an answer.

    Raises
    ------
    UserError
        If the address cannot be read, or the token is missing. Methods raise
        :class:`~stripewise.desk.client.transport.ServiceError` where the service refuses, and
        :class:`~stripewise.errors.TransientError` where it cannot be reached.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 60.0) -> None:
        self.address = Address.parse(url)
        self._transport = Transport(self.address, token or find_token(), timeout)

    def experiment_path(self, identifier: str, rest: str = "") -> str:
        """Give the path of an experiment or, with ``rest``, of what lies below it.

        Raises
        ------
        UserError
            If it is no identifier: ``../audit`` would lead to another path.
        """
        check_identifier(identifier, self.address.url)
        return f"/experiments/{identifier}{rest}"

    # -- anything ------------------------------------------------------------------------------------------

    def get(self, path: str, **query: Any) -> Any:
        """Read a resource under ``/api``."""
        return self._json("GET", path, query=query)

    def post(self, path: str, document: Any = None, *, key: str | None = None) -> Any:
        """Create or do something; ``key`` makes sending it again harmless."""
        headers = {"Idempotency-Key": key} if key else None
        return self._json("POST", path, document={} if document is None else document, headers=headers)

    def delete(self, path: str) -> Any:
        """Delete a resource."""
        return self._json("DELETE", path)

    def upload(self, path: str, file: Path, **query: Any) -> Any:
        """Send a file as it is.

        Raises
        ------
        UserError
            If it cannot be read.
        """
        try:
            stream = file.open("rb")
        except OSError as error:
            raise UserError(f"cannot read {file}: {error.strerror}", "check the path") from error
        with stream:
            size = os.fstat(stream.fileno()).st_size
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            query = {"name": file.name, **query}
            return self._json("POST", path, query=query, body=_read_parts(stream, size), headers=headers)

    def download(self, path: str) -> bytes:
        """Read a file as it is."""
        return self._transport.send("GET", f"/api/v1{path}")[0]

    def _json(self, method: str, path: str, **given: Any) -> Any:
        data, kind = self._transport.send(method, f"/api/v1{path}", **given)
        return read_json(data) if kind == "application/json" else data.decode("utf-8", "replace")

    def wait(
        self, job: Mapping[str, Any], tell: Callable[[Mapping[str, Any]], None] = lambda job: None
    ) -> dict[str, Any]:
        """Wait for a job of the workers, and give its result; ``tell`` is told the job each time it is looked at.

        Raises
        ------
        StripewiseError
            If the job failed or was stopped: of the kind that the worker has met.
        TransientError
            If the service stays away for two minutes.
        """
        seen, seconds = time.monotonic(), 0.1
        while job["state"] in ("queued", "running"):
            tell(job)
            time.sleep(seconds)
            seconds = min(1.0, 1.5 * seconds)
            try:
                job = self.get(f"/jobs/{job['id']}")
                seen = time.monotonic()
            except TransientError:
                if time.monotonic() - seen > _PATIENCE_SECONDS:
                    raise
        if job["state"] == "done":
            return dict(job["result"])
        what, _, fix = str(job["error"] or f"job {job['id']} was stopped").partition("; ")
        raise error_of((job["result"] or {}).get("error"))(what, fix)

    # -- tables, models and campaigns ----------------------------------------------------------------------

    def keep_table(self, name: str, csv: str, toml: str) -> dict[str, Any]:
        """Keep a table of measurements."""
        return dict(self.post("/tables", {"name": name, "csv": csv, "toml": toml}))

    def train(self, name: str, table: str, model: str = "auto", **more: Any) -> dict[str, Any]:
        """Ask for a model of a table; gives the job, for :meth:`wait`.

        ``more``: ``options``, ``seed``, ``replace``, ``explain``.
        """
        return dict(self.post("/models/train", {"name": name, "table": table, "model": model, **more}))

    def validate(self, table: str, model: str = "auto", **more: Any) -> dict[str, Any]:
        """Ask how well a kind of model does on a table; gives the job.

        ``more``: ``options``, ``seed``, ``folds``, ``inverse``, ``leave_out``, ``depths``.
        """
        return dict(self.post("/models/validate", {"table": table, "model": model, **more}))

    def run_campaign(self, toml: str, changes: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Run a campaign, given as the text of its file; ``more``: ``start``, ``resume``, ``retry``."""
        return dict(self.post("/campaigns", {"toml": toml, "changes": dict(changes or {}), **more}))

    def evaluate(self, toml: str, model: str, changes: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Ask for an evaluation of a model of the service; gives the job; ``more``: ``eager``, ``retry``."""
        asked = {"toml": toml, "model": model, "changes": dict(changes or {}), **more}
        return dict(self.post("/evaluations", asked))

    # -- experiments ---------------------------------------------------------------------------------------

    def experiments(self, **query: Any) -> dict[str, Any]:
        """Give a page of experiments: ``state``, ``name``, ``sort``, ``order``, ``limit``, ``offset``."""
        return dict(self.get("/experiments", **query))

    def create(
        self,
        definition: Mapping[str, Any],
        folder: str | None = None,
        *,
        start: bool = True,
        agreed: bool = False,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Keep a new experiment, and start it; ``agreed``: also where it may cost more than the site's limits."""
        document = {"definition": dict(definition), "folder": folder, "start": start, "agreed": agreed}
        return dict(self.post("/experiments", document, key=key))

    def dry_run(self, definition: Mapping[str, Any], folder: str | None = None) -> dict[str, Any]:
        """Say what an experiment would do; nothing is kept or started."""
        return dict(self.post("/experiments/dry-run", {"definition": dict(definition), "folder": folder}))

    def experiment(self, identifier: str) -> dict[str, Any]:
        """Give an experiment with definition, facts and result."""
        return dict(self.get(self.experiment_path(identifier)))

    def trials(self, identifier: str, *, facts: bool = False) -> list[dict[str, Any]]:
        """Give all trials with their runs."""
        asked = {"facts": str(facts).lower(), "limit": 200}
        return self._pages(identifier, "/trials", lambda found: {**asked, "offset": len(found)})

    def messages(self, identifier: str, after: int = 0) -> list[dict[str, Any]]:
        """Give all that the session of an experiment had to say after a message's number."""
        return self._pages(
            identifier, "/messages", lambda found: {"after": int(found[-1]["number"]) if found else after}
        )

    def _pages(
        self, identifier: str, rest: str, asked: Callable[[list[dict[str, Any]]], dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Read pages up to an empty one or the total, from a service that need not end."""
        path, found, room = self.experiment_path(identifier, rest), list[dict[str, Any]](), _MOST_BYTES
        while True:
            data, _ = self._transport.send("GET", f"/api/v1{path}", query=asked(found))
            page = read_json(data)
            found += page["items"]
            if not page["items"] or len(found) >= page.get("total", math.inf):
                return found
            room -= max(len(data), _LEAST_BYTES)
            if room < 0:
                raise UserError(f"the service sent more than {_MOST_BYTES >> 20} MiB of {rest[1:]}", NOT_OURS)

    def stop(self, identifier: str) -> dict[str, Any]:
        """Ask an experiment to stop."""
        return dict(self.post(self.experiment_path(identifier, "/stop")))

    def annotate(
        self, identifier: str, *, tags: Sequence[str] | None = None, remark: str | None = None
    ) -> dict[str, Any]:
        """Replace the tags or the remark of an experiment; what is None stays."""
        given = {"tags": None if tags is None else list(tags), "remark": remark}
        return dict(self._json("PATCH", self.experiment_path(identifier), document=given))

    def bundle(self, identifier: str) -> bytes:
        """Give the helpdesk's bundle of an experiment, a ZIP file."""
        return self._transport.send("GET", self.experiment_path(identifier, "/bundle.zip"))[0]

    def resume(self, identifier: str, *, agreed: bool = False) -> dict[str, Any]:
        """Let a worker continue an experiment; ``agreed`` as for :meth:`create`."""
        return dict(self.post(self.experiment_path(identifier, "/resume"), {"agreed": agreed}))

    def events(self, identifier: str | None = None, after: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Give events of one experiment or of all, as they come."""
        path = "/events" if identifier is None else self.experiment_path(identifier, "/events")
        return self._transport.events(f"/api/v1{path}", {"after": after})
