"""Where a service is, and the token for it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from stripewise.errors import UserError

_KINDS = "write unix:PATH, http://HOST:PORT or https://HOST[:PORT]"


def _state_folder() -> Path:
    home = os.environ.get("STRIPEWISE_HOME")
    if home:
        return Path(home)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "stripewise"


def default_socket() -> Path:
    """Give the socket that a service listens on when none is named."""
    return _state_folder() / "server.sock"


def token_file() -> Path:
    """Give the file in which a user's token is kept; ``STRIPEWISE_TOKEN_FILE`` names another."""
    named = os.environ.get("STRIPEWISE_TOKEN_FILE")
    return Path(named) if named else _state_folder() / "token"


def find_token() -> str:
    """Give the token from ``STRIPEWISE_TOKEN``, or from the token file.

    Raises
    ------
    UserError
        If there is none, or others can read the file.
    """
    given = os.environ.get("STRIPEWISE_TOKEN", "").strip()
    if given:
        return given
    path = token_file()
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UserError(f"others may read the token in {path}", f"chmod 600 {path}")
        return path.read_text("utf-8").strip()
    except FileNotFoundError:
        raise UserError(
            "the token for the service is missing",
            f"put it into {path} (mode 0600), or ask for one: stripewise token create NAME --save",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the token in {path}: {error}", "check the file") from error


@dataclass(frozen=True)
class Address:
    """A parsed address.

    Attributes
    ----------
    url : str
        As it may be shown.
    socket : Path or None
        Of a UNIX socket.
    host, port, tls
        Otherwise.
    prefix : str
        Path before ``/api``, where a proxy adds one.
    """

    url: str
    socket: Path | None = None
    host: str = "localhost"
    port: int = 80
    tls: bool = False
    prefix: str = ""

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read an address.

        Raises
        ------
        UserError
            If it is none, or holds a user or a token.
        """
        if url.startswith("unix:"):
            path = url.removeprefix("unix:").removeprefix("//")
            return cls(f"unix:{path or default_socket()}", Path(path).expanduser() if path else default_socket())
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UserError(f"the service's address cannot be read: {error}", _KINDS) from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError("the service's address is of no known kind", _KINDS)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UserError("the service's address holds more than an address", "tokens belong into the token file")
        tls = parts.scheme == "https"
        if not tls and not _here(parts.hostname):
            raise UserError(
                f"http://{parts.hostname} would carry the token over the network in the clear",
                "use https://, or an SSH tunnel to localhost",
            )
        return cls(url.rstrip("/"), None, parts.hostname, port or (443 if tls else 80), tls, parts.path.rstrip("/"))


def _here(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
