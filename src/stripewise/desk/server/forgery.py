"""The cookie of a session, and the token that shows that a form comes from the service's own page."""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers

COOKIE = "stripewise_session"
CSRF_HEADER = "x-csrf-token"
CSRF_FIELD = "csrf_token"


def masked_csrf(csrf: str) -> str:
    """Write a session's CSRF token as pages carry it: differently each time.

    Pages are compressed, and hold what their address asks for. Whoever sees how long they become could otherwise find
    the token letter by letter.
    """
    mask = secrets.token_bytes(len(csrf))
    return (mask + bytes(a ^ b for a, b in zip(mask, csrf.encode(), strict=True))).hex()


def is_csrf(given: str, csrf: str) -> bool:
    """Whether a text is the CSRF token of a session, as :func:`masked_csrf` writes it."""
    try:
        both = bytes.fromhex(given)
    except ValueError:
        return False
    mask, rest = both[: len(csrf)], both[len(csrf) :]
    return len(both) == 2 * len(csrf) and hmac.compare_digest(
        bytes(a ^ b for a, b in zip(mask, rest, strict=True)), csrf.encode()
    )


def cookie_of(headers: Headers) -> str:
    """Give the text of the session's cookie, empty if there is none."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""
