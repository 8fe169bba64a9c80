"""Bearer tokens and the sessions that browsers get for them; only digests are kept."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from stripewise.errors import NotFound, UserError
from stripewise.store.schema import sessions, tokens
from stripewise.store.transactions import Transactions

ROLES = ("viewer", "operator", "admin")
"""What a token may do: look; start programs as well; and make and revoke tokens as well."""

DAYS = 90.0
"""How long a token lasts where nobody says."""

SESSION_SECONDS = 12 * 3600.0

_MOST_SESSIONS = 100
"""Of one token; the oldest end when more are begun."""

_SHAPE = re.compile(r"sw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})\Z")
_USED_EVERY = 60.0


@dataclass(frozen=True)
class Token:
    """A token as it may be shown.

    Attributes
    ----------
    role : str
        One of :data:`ROLES`.
    created : float
        Epoch seconds, as all times here.
    """

    id: str
    name: str
    role: str
    created: float
    expires: float | None = None
    used: float | None = None
    revoked: float | None = None

    @property
    def operator(self) -> bool:
        """Whether it may change things and start programs."""
        return self.role in ("operator", "admin")

    @property
    def label(self) -> str:
        """What the audit log says of it."""
        return f"{self.id} {self.name} ({self.role})"

    @property
    def admin(self) -> bool:
        """Whether it may make and revoke tokens."""
        return self.role == "admin"


@dataclass(frozen=True)
class LoginSession:
    """A browser's session.

    Attributes
    ----------
    token : Token
        With which it was begun.
    csrf : str
        Must come back with every request that changes something.
    id : str
        The digest of its cookie.
    """

    token: Token
    csrf: str
    id: str


def _digest(secret: str) -> str:
    # The secret has 256 bits of its own: a slow hash would protect nothing more.
    return hashlib.sha256(secret.encode()).hexdigest()


def _token(row: sa.Row[Any]) -> Token:
    return Token(row.id, row.name, row.role, row.created, row.expires, row.used, row.revoked)


class Tokens:
    """Makes, checks and revokes tokens."""

    def __init__(self, database: Transactions) -> None:
        self._database = database
        self._noted: dict[str, float] = {}

    def create(self, name: str, role: str, seconds: float | None = None) -> tuple[Token, str]:
        """Make a token and give it with its secret text, which is shown once and never kept.

        Raises
        ------
        UserError
            Unknown role, or a name that cannot be shown.
        """
        if role not in ROLES:
            raise UserError(f"'{role}' is not a role", f"choose from {', '.join(ROLES)}")
        if not name.strip() or len(name) > 100 or not name.isprintable():
            raise UserError("a token's name must be 1 to 100 printable characters", "say whose it is, as in ada")
        identifier, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        digest = _digest(secret)

        def work(connection: sa.Connection, again: bool) -> Token:
            now = self._database.now(connection)
            expires = None if seconds is None else now + seconds
            if not again or not connection.execute(sa.select(tokens.c.id).where(tokens.c.id == identifier)).first():
                values = {"id": identifier, "name": name, "role": role, "digest": digest}
                connection.execute(tokens.insert().values(**values, created=now, expires=expires))
            return Token(identifier, name, role, now, expires)

        return self._database.write(work), f"sw_{identifier}_{secret}"

    def all(self) -> list[Token]:
        """Give all tokens, the newest first, revoked ones included."""
        query = sa.select(tokens).order_by(tokens.c.created.desc(), tokens.c.id)
        return [_token(row) for row in self._database.all(query)]

    def revoke(self, identifier: str) -> Token:
        """End a token and its sessions.

        Raises
        ------
        UserError
            If there is none of that identifier or name.
        """

        def work(connection: sa.Connection, again: bool) -> Token:
            either = sa.or_(tokens.c.id == identifier, tokens.c.name == identifier)
            found = connection.execute(sa.select(tokens).where(either)).all()
            # A name may be the identifier of another token.
            found = [row for row in found if row.id == identifier] or found
            found = [row for row in found if row.revoked is None] or found
            if not found:
                raise NotFound(f"token '{identifier[:100]}' does not exist", "see: stripewise service token list")
            if len(found) > 1:
                raise UserError(f"several tokens are called '{identifier[:100]}'", "give the identifier instead")
            now = self._database.now(connection)
            connection.execute(tokens.update().where(tokens.c.id == found[0].id).values(revoked=now))
            connection.execute(sessions.delete().where(sessions.c.token == found[0].id))
            return replace(_token(found[0]), revoked=now)

        return self._database.write(work)

    def check(self, text: str) -> Token | None:
        """Give the token of a secret text; None if there is none, or it is over."""
        shape = _SHAPE.match(text)
        if shape is None:
            return None

        def work(connection: sa.Connection) -> Token | None:
            row = connection.execute(sa.select(tokens).where(tokens.c.id == shape[1])).first()
            if row is None or not hmac.compare_digest(row.digest, _digest(shape[2])):
                return None
            return self._valid(_token(row), self._database.now(connection))

        return self._database.read(work)

    def valid(self, identifiers: Collection[str]) -> set[str]:
        """Give those identifiers whose tokens are neither revoked nor expired, or whose sessions go on."""

        def work(connection: sa.Connection) -> set[str]:
            now = self._database.now(connection)
            named = connection.execute(sa.select(tokens).where(tokens.c.id.in_(identifiers)))
            going_on = sessions.c.digest.in_(identifiers), sessions.c.expires > now
            begun = connection.execute(sa.select(sessions.c.digest).where(*going_on)).scalars()
            return {row.id for row in named if self._valid(_token(row), now) is not None} | set(begun)

        return self._database.read(work)

    def _valid(self, token: Token, now: float) -> Token | None:
        over = token.revoked is not None or (token.expires is not None and token.expires <= now)
        return None if over else token

    def note_use(self, identifier: str) -> None:
        """Keep that a token was used just now, at most once a minute: nobody waits for the store because of this."""
        if time.monotonic() - self._noted.get(identifier, -math.inf) < _USED_EVERY:
            return
        self._noted[identifier] = time.monotonic()

        def work(connection: sa.Connection, again: bool) -> None:
            now = self._database.now(connection)
            connection.execute(tokens.update().where(tokens.c.id == identifier).values(used=now))

        self._database.write(work)

    # -- sessions ------------------------------------------------------------------------------------------

    def begin_session(self, token: Token) -> tuple[str, LoginSession]:
        """Begin a session and give the text of its cookie with it."""
        cookie, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)

        def work(connection: sa.Connection, again: bool) -> None:
            now = self._database.now(connection)
            connection.execute(
                sessions.delete().where(sa.or_(sessions.c.expires <= now, sessions.c.digest == _digest(cookie)))
            )
            own = sa.select(sessions.c.digest).where(sessions.c.token == token.id)
            kept = own.order_by(sessions.c.created.desc(), sessions.c.digest).limit(_MOST_SESSIONS - 1)
            connection.execute(sessions.delete().where(sessions.c.token == token.id, sessions.c.digest.not_in(kept)))
            values = {"digest": _digest(cookie), "token": token.id, "csrf": csrf, "created": now}
            connection.execute(sessions.insert().values(**values, expires=now + SESSION_SECONDS))

        self._database.write(work)
        return cookie, LoginSession(token, csrf, _digest(cookie))

    def session(self, cookie: str) -> LoginSession | None:
        """Give the session of a cookie; None if there is none, or it is over."""

        def work(connection: sa.Connection) -> LoginSession | None:
            columns = [*tokens.c, sessions.c.csrf, sessions.c.expires.label("until")]
            query = sa.select(*columns).join(sessions, sessions.c.token == tokens.c.id)
            row = connection.execute(query.where(sessions.c.digest == _digest(cookie))).first()
            now = self._database.now(connection)
            if row is None or row.until <= now:
                return None
            token = self._valid(_token(row), now)
            return None if token is None else LoginSession(token, row.csrf, _digest(cookie))

        return self._database.read(work)

    def end_session(self, cookie: str) -> None:
        """End a session; nothing happens if there is none."""
        self._database.execute(sessions.delete().where(sessions.c.digest == _digest(cookie)))
