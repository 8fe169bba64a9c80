"""``stripewise serve``, ``worker`` and ``token``; what serves is loaded when it is needed."""

from __future__ import annotations

import datetime
import json
import logging
import os
import re
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stripewise.desk.client.transport import default_socket, token_file
from stripewise.engine.folders import state_folder
from stripewise.engine.process import terminated_as_interrupted, user_name
from stripewise.errors import UserError, import_optional
from stripewise.ownership import make_folder, make_own_folder
from stripewise.requests.policy import load_policy
from stripewise.store.opening import open_store
from stripewise.store.service import database_of
from stripewise.store.service.keeping import Audit
from stripewise.store.service.tokens import DAYS, SESSION_SECONDS, Token, Tokens

if TYPE_CHECKING:
    from stripewise.desk.server.service import Service

StoreOption = Annotated[
    str | None,
    typer.Option("--store", envvar="STRIPEWISE_STORE", help="sqlite:///FILE or postgresql://...", metavar="URL"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
DataOption = Annotated[Path | None, typer.Option(help="Folder for uploads, models and campaigns.", metavar="FOLDER")]

_PORT = 8437


def serve(
    socket: Annotated[Path | None, typer.Option(help="UNIX socket to listen on.", metavar="PATH")] = None,
    host: Annotated[str | None, typer.Option(help="Listen on this address instead of a UNIX socket.")] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Port to listen on, with --host or --open; 8437 by default.", min=0, max=65535),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Listen on an address that other machines can reach.")] = False,
    name: Annotated[
        list[str] | None, typer.Option(help="A name under which the service is reached; repeatable.")
    ] = None,
    root: Annotated[
        list[Path] | None,
        typer.Option(help="A folder in which programs may be started and files named; repeatable.", metavar="FOLDER"),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="Start only commands like this one, as in 'mpiexec -n * /opt/app ...'; repeatable. "
            "By default the site file's applications."
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address or network of a proxy that says in X-Forwarded-For whose request it passes on; repeatable. "
            "'socket' believes all that can connect to --socket.",
            metavar="ADDRESS",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Workers to start beside the service.", min=0)] = 1,
    base_path: Annotated[
        str,
        typer.Option(
            "--base-path",
            help="Path under which a proxy shows the service, as in /node/n1/8437; a --proxy may also send it "
            "in X-Forwarded-Prefix.",
            metavar="PATH",
        ),
    ] = "",
    show: Annotated[
        bool,
        typer.Option("--open", help="Print an address that logs in once, and open it in the browser of this machine."),
    ] = False,
    tls: Annotated[bool, typer.Option("--behind-tls", help="A proxy speaks TLS: send cookies over TLS only.")] = False,
    data: DataOption = None,
    store: StoreOption = None,
) -> None:
    """Serve experiments to many: REST, live events and pages.

    Programs run as the user who starts this.
    """
    from stripewise.runners.allow_list import AllowList  # noqa: PLC0415

    with import_optional("server"):
        from stripewise.desk.server.app import serve as listen  # noqa: PLC0415
        from stripewise.desk.server.app import tcp_socket, unix_socket  # noqa: PLC0415
        from stripewise.desk.server.service import (  # noqa: PLC0415
            BASE_PATH,
            Proxies,
            Settings,
        )
    if host is not None and socket is not None:
        raise UserError("both --socket and --host are given", "leave one of them out")
    base_path = base_path.rstrip("/")
    if not re.fullmatch(BASE_PATH, base_path):
        raise UserError(f"--base-path {base_path} is not a path", "write it as in /node/n1/8437")
    if show and socket is not None:
        raise UserError("--open needs an address, not a socket", "leave --socket out, or name --host")
    if port is not None and host is None and not show:
        raise UserError(
            f"--port {port} needs an address: without one, the service listens on a UNIX socket",
            "add --host 127.0.0.1, or leave --port out",
        )
    port = _PORT if port is None else port
    # A browser cannot open a UNIX socket.
    host = host or ("127.0.0.1" if show else None)
    shown_host = f"[{host}]" if host and ":" in host else host
    log_to_stderr()
    patterns = tuple(allow) if allow else load_policy().applications
    # A wrong pattern or address is reported now, not with the first request.
    AllowList(patterns or ())
    if Proxies(proxy or ()).local and host is not None:
        typer.echo(
            "every user of this machine can ask through its loopback address, which --proxy names, and claim any "
            "address in X-Forwarded-For. Unless all users are trusted, give the proxy a --socket and --proxy socket",
            err=True,
        )
    settings = Settings(
        store=store,
        data=data_folder(data),
        roots=tuple(folder.absolute() for folder in (root or [Path.cwd()])),
        allow=patterns,
        proxies=tuple(proxy or ()),
        hosts=tuple(name or ()) + ((shown_host,) if shown_host else ()),
        secure_cookies=tls,
        base_path=base_path,
    )
    with open_store(store) as opened:
        known = [token for token in Tokens(database_of(opened)).all() if token.revoked is None]
    if not known and not show:
        typer.echo(
            "the service has no token yet; make one: stripewise service token create NAME --role admin --save", err=True
        )
    path = None if host is not None else (socket or default_socket()).absolute()
    listener = tcp_socket(host or "", port, force=force) if path is None else unix_socket(path)
    where = f"unix:{path}" if path is not None else f"http://{shown_host}:{listener.getsockname()[1]}"
    typer.echo(f"listening on {where}. Every program runs as {user_name()}.", err=True)
    listen(
        settings,
        listener,
        workers,
        path,
        lambda service: _print_invitation(service, f"{where}{base_path}") if show else None,
    )


def _print_invitation(service: Service, where: str) -> None:
    """Print an address that logs in once, and open it where this machine has a screen."""
    token, _ = service.tokens.create(f"{user_name()}, serve --open", "admin", SESSION_SECONDS)
    address = f"{where}/login?ticket={service.tickets.add(token)}"
    typer.echo(f"open {address} (it logs in once, within ten minutes)")
    screen = sys.platform == "darwin" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if screen and "SSH_CONNECTION" not in os.environ:
        # Through a file of this user: other users of the machine see the arguments of a browser.
        page = service.settings.data / "open.html"
        _write_secret(page, f'<meta http-equiv="refresh" content="0; url={address}">')
        webbrowser.open(page.as_uri())


def worker(
    until_idle: Annotated[bool, typer.Option("--until-idle", help="End as soon as the queue is empty.")] = False,
    until_closed: Annotated[bool, typer.Option("--until-closed", help="End once standard input is closed.")] = False,
    lease: Annotated[
        float, typer.Option(help="Seconds without a sign of life after which another worker takes over.", min=2)
    ] = 60.0,
    stuck: Annotated[
        float,
        typer.Option(
            "--stuck-after",
            help="Seconds without a step of a job after which the worker gives it back and ends.",
            min=2,
        ),
    ] = 3600.0,
    data: DataOption = None,
    store: StoreOption = None,
) -> None:
    """Carry out the experiments and campaigns of the service, on any number of hosts."""
    from stripewise.desk.server.job_worker import Worker, attend  # noqa: PLC0415  loads all that tunes

    log_to_stderr()
    if until_closed:
        attend(0)
    with terminated_as_interrupted(), open_store(store) as opened:
        Worker(opened, data_folder(data), lease, stuck).run(until_idle=until_idle)


def create_token(
    name: Annotated[str, typer.Argument(help="Whose it is.", metavar="NAME")],
    role: Annotated[str, typer.Option(help="viewer, operator or admin.")] = "viewer",
    days: Annotated[float, typer.Option(help="Days until it expires.")] = DAYS,
    save: Annotated[bool, typer.Option("--save", help="Write it to this user's token file, and not here.")] = False,
    store: StoreOption = None,
    json_output: JsonOption = False,
) -> None:
    """Make a token; its secret is shown once and not stored."""
    if not 0 < days <= 3650:
        raise UserError(f"--days {days:g} is not within 0 and 3650", f"leave it out for {DAYS:g} days")
    with open_store(store) as opened:
        database = database_of(opened)
        token, secret = Tokens(database).create(name, role, days * 86400)
        Audit(database).add(user_name(), "", "command line", "stripewise service token create", token.label, 201)
    if save:
        path = token_file()
        _write_secret(path, secret)
        document: dict[str, Any] = {**_describe_token(token), "file": str(path)}
    else:
        document = {**_describe_token(token), "secret": secret}
    if json_output:
        typer.echo(json.dumps(document, indent=2))
    else:
        typer.echo(document.get("secret") or f"written to {document['file']}")


def list_tokens(store: StoreOption = None, json_output: JsonOption = False) -> None:
    """List tokens, without their secrets."""
    with open_store(store) as opened:
        found = Tokens(database_of(opened)).all()
    if json_output:
        typer.echo(json.dumps([_describe_token(token) for token in found], indent=2))
        return
    if not found:
        typer.echo("no tokens; make one: stripewise service token create NAME --role admin")
    for token in found:
        state = (
            "revoked" if token.revoked else f"last used {_format_moment(token.used)}" if token.used else "never used"
        )
        until = f", until {_format_moment(token.expires)}" if token.expires else ""
        typer.echo(f"{token.id}  {token.role:8}  {token.name}  ({state}{until})")


def revoke_token(
    token: Annotated[str, typer.Argument(help="Identifier or name of the token.", metavar="TOKEN")],
    store: StoreOption = None,
    json_output: JsonOption = False,
) -> None:
    """End a token and its sessions."""
    with open_store(store) as opened:
        database = database_of(opened)
        revoked = Tokens(database).revoke(token)
        Audit(database).add(user_name(), "", "command line", "stripewise service token revoke", revoked.label, 200)
    typer.echo(json.dumps(_describe_token(revoked), indent=2) if json_output else f"token {revoked.id} is revoked")


def log_to_stderr() -> None:
    """Write our own lines to standard error, and each line once."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
    ours = logging.getLogger("stripewise")
    ours.handlers, ours.propagate = [handler], False
    ours.setLevel(logging.INFO)


def _write_secret(path: Path, secret: str) -> None:
    try:
        make_folder(path.parent)
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(secret + "\n")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", "set STRIPEWISE_TOKEN_FILE") from error


def data_folder(given: Path | None) -> Path:
    """Make the folder for uploads, models and campaigns, and give its path."""
    folder = (given or state_folder() / "server").absolute()
    try:
        # Stacks and campaigns lie there, which name settings and commands of programs.
        make_own_folder(folder, "the data folder", "name another folder with --data")
    except OSError as error:
        raise UserError(f"cannot make {folder}: {error.strerror}", "name another folder with --data") from error
    return folder


def _describe_token(token: Token) -> dict[str, Any]:
    return vars(token)


def _format_moment(seconds: float | None) -> str:
    return "" if seconds is None else datetime.datetime.fromtimestamp(seconds).isoformat(" ", "minutes")
