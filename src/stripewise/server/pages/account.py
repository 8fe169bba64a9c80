"""Logging in, and the settings: tokens, the service, what was changed by whom."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from stripewise.server.pages.view import PageRoute, render
from stripewise.server.problems import Refused
from stripewise.server.service import Here, Service, User
from stripewise.store.service.tokens import ROLES, Token

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_AUDIT = 30


@router.get("/login")
def login(
    request: Request,
    next: Annotated[str, Query(max_length=1000)] = "/",
    wrong: Annotated[str, Query(max_length=1)] = "",
) -> HTMLResponse:
    """Ask for a token."""
    return render(request, "login.html", title="Log in", next=next, wrong=bool(wrong))


def settings_page(service: Service, user: Token, page: int = 1) -> dict[str, Any]:
    """Collect what the page shows; tokens and the audit log for operators alone."""
    own = service.settings
    told = [
        ("Store", service.store.url),
        ("Data folder", str(own.data)),
        ("Folders that may be used", ", ".join(str(root) for root in (*own.roots, own.data))),
        ("Commands that may be started", "any" if own.allow is None else ", ".join(own.allow) or "none"),
        ("Largest upload", f"{own.upload_bytes >> 20} MiB"),
        ("Open event streams at most", f"{own.listeners}"),
    ]
    return {
        "told": told,
        "tokens": service.tokens.all() if user.operator else [],
        "roles": ROLES,
        "audit": service.audit.page(_AUDIT, (page - 1) * _AUDIT) if user.operator else [],
        "page": page,
        "full": _AUDIT,
    }


@router.get("/settings")
def show(
    request: Request, service: Here, user: User, page: Annotated[int, Query(ge=1, le=100_000)] = 1
) -> HTMLResponse:
    """Show the settings."""
    return render(request, "settings.html", title="Settings", **settings_page(service, user, page), made=None)


@router.post("/settings/tokens")
def make_token(
    request: Request,
    service: Here,
    user: User,
    name: Annotated[str, Form(min_length=1, max_length=100)],
    role: Annotated[str, Form(max_length=20)] = "viewer",
    days: Annotated[str, Form(max_length=10)] = "",
) -> HTMLResponse:
    """Make a token, and show its secret once."""
    if role not in ROLES:
        raise Refused(422, f"role '{role}' is unknown", f"choose from {', '.join(ROLES)}")
    seconds = None
    if days.strip():
        try:
            seconds = float(days) * 86400
        except ValueError:
            seconds = 0.0
        if not 0 < seconds <= 3650 * 86400:
            raise Refused(422, f"'{days}' is no number of days from 0 to 3650", "correct it, or leave it empty")
    token, secret = service.tokens.create(name.strip(), role, seconds)
    request.state.subject = token.id
    shown = settings_page(service, user)
    return render(request, "settings.html", 201, title="Settings", **shown, made=(token, secret))


@router.post("/settings/tokens/{id}/revoke")
def revoke(request: Request, service: Here, id: Annotated[str, Path(max_length=64)]) -> Response:
    """End a token and its sessions."""
    service.tokens.revoke(id)
    request.state.subject = id
    return RedirectResponse("/settings#tokens", 303)
