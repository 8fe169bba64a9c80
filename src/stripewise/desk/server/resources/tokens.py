"""Tokens, the sessions of browsers that they are exchanged for, and the page of the service's settings."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote

from fastapi import Form, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from stripewise.desk.server.documents import RequestDocument
from stripewise.desk.server.guard import cookie_of
from stripewise.desk.server.html import render
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import Resource
from stripewise.desk.server.service import Here, Service, User
from stripewise.store.service.tokens import DAYS, ROLES, SESSION_SECONDS, Token

resource = Resource("/tokens", "tokens")
pages = Resource()
own = Resource("", "service")

_AUDIT = 30
Id = Annotated[str, Path(min_length=1, max_length=100)]


class TokenDocument(BaseModel):
    """A token; its secret is not kept."""

    id: str = Field(examples=["0f3a9c2b1d4e"])
    name: str = Field(examples=["ada"])
    role: Literal["viewer", "operator", "admin"]
    created: float
    expires: float | None
    used: float | None
    revoked: float | None


class TokenList(BaseModel):
    """All tokens."""

    items: list[TokenDocument]


class NewToken(RequestDocument):
    """A request for a token."""

    name: str = Field(min_length=1, max_length=100)
    role: Literal["viewer", "operator", "admin"] = "viewer"
    days: Annotated[float, Field(gt=0, le=3650)] = Field(default=DAYS, description="until it expires")


class MadeToken(TokenDocument):
    """A token just made."""

    secret: str = Field(description="shown this once", examples=["sw_0f3a9c2b1d4e_..."])


@own.get("/me", model=TokenDocument)
def me(user: User) -> dict[str, Any]:
    """Return the name and the role of the token."""
    return vars(user)


@resource.get("", model=TokenList)
def list_tokens(service: Here) -> dict[str, Any]:
    """List all tokens; for admins."""
    return {"items": [vars(token) for token in service.tokens.all()]}


@resource.post("", status=201, model=MadeToken)
def create_token(request: Request, service: Here, asked: NewToken) -> dict[str, Any]:
    """Create a token, for admins; only this answer contains its secret."""
    token, secret = service.tokens.create(asked.name, asked.role, asked.days * 86400)
    request.state.subject = token.label
    return {**vars(token), "secret": secret}


@resource.delete("/{id}", 404, model=TokenDocument)
def revoke_token(request: Request, service: Here, id: Id) -> dict[str, Any]:
    """End a token and its sessions; for admins."""
    revoked = service.tokens.revoke(id)
    request.state.subject = revoked.label
    return vars(revoked)


# -- the page of the settings --------------------------------------------------------------------------------------


def settings_page(service: Service, user: Token, page: int = 1) -> dict[str, Any]:
    """Collect what the page shows; tokens for admins and the audit log for operators alone."""
    own = service.settings
    told = [
        ("Store", service.store.url),
        ("Data folder", str(own.data)),
        ("Folders that may be used", ", ".join(dict.fromkeys(str(root) for root in (*own.roots, own.data)))),
        ("Commands that may be started", "any" if own.allow is None else ", ".join(own.allow) or "none"),
        ("Largest upload", f"{own.upload_bytes >> 20} MiB"),
        ("Most open event streams", f"{own.listeners}"),
    ]
    return {
        "told": told,
        "tokens": service.tokens.all() if user.admin else [],
        "days": f"{DAYS:g}",
        "roles": ROLES,
        "audit": service.audit.page(_AUDIT, (page - 1) * _AUDIT) if user.operator else [],
        "page": page,
        "full": _AUDIT,
    }


@pages.page("/settings")
def show_settings(
    request: Request, service: Here, user: User, page: Annotated[int, Query(ge=1, le=100_000)] = 1
) -> HTMLResponse:
    """Show the settings."""
    return render(request, "settings.html", title="Settings", **settings_page(service, user, page), made=None)


@pages.form("/settings/tokens")
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
    try:
        lasting = float(days) if days.strip() else DAYS
    except ValueError:
        lasting = 0.0
    if not 0 < lasting <= 3650:
        raise Refused(422, f"'{days}' is not a number of days from 0 to 3650", "correct it, or leave it empty")
    token, secret = service.tokens.create(name.strip(), role, lasting * 86400)
    request.state.subject = token.label
    shown = settings_page(service, user)
    return render(request, "settings.html", 201, title="Settings", **shown, made=(token, secret))


@pages.form("/settings/tokens/{id}/revoke")
def revoke(request: Request, service: Here, id: Id) -> RedirectResponse:
    """End a token and its sessions."""
    request.state.subject = service.tokens.revoke(id).label
    return RedirectResponse("/settings#tokens", 303)


# -- sessions ------------------------------------------------------------------------------------------------------


@pages.page("/login")
def login_page(
    request: Request,
    service: Here,
    next: Annotated[str, Query(max_length=1000)] = "/",
    wrong: Annotated[str, Query(max_length=1)] = "",
    ticket: Annotated[str, Query(max_length=100)] = "",
) -> HTMLResponse:
    """Ask for a token, or log in with a text that ``serve --open`` has printed."""
    token = service.tickets.use(ticket) if ticket else None
    if token is not None:
        # A page that leads on, because a browser that came from elsewhere sends no cookie along with a redirection.
        answer = render(request, "opened.html", title="Welcome", prefix=request.state.prefix)
        _set_cookie(request, answer, service, _begin_session(request, service, token))
        request.state.subject = "with the address that serve --open printed"
        return answer
    return render(request, "login.html", title="Log in", next=next, wrong=bool(wrong or ticket))


@pages.form("/login")
async def login(
    request: Request,
    service: Here,
    token: Annotated[str, Form(max_length=200)] = "",
    next: Annotated[str, Form(max_length=1000)] = "/",
) -> RedirectResponse:
    """Begin a session for a token, and go where the reader wanted to go."""
    target = _keep_local(next)
    found = await run_in_threadpool(service.tokens.check, token.strip())
    if found is None:
        if not request.state.may_fail():
            raise Refused(429, "too many requests without a valid token", "wait a minute")
        return RedirectResponse(f"/login?wrong=1&next={quote(target)}", 303)
    if not request.state.may_ask(found.id):
        raise Refused(429, "too many requests", "wait a second")
    answer = RedirectResponse(target, 303)
    _set_cookie(request, answer, service, await run_in_threadpool(_begin_session, request, service, found))
    return answer


def _begin_session(request: Request, service: Service, token: Token) -> str:
    """Begin a session and give its cookie; the audit log names the token."""
    request.state.user = token
    # An earlier cookie ends here: somebody else may have planted it in the browser.
    service.tokens.end_session(cookie_of(request.headers, request.state.cookie))
    return service.tokens.begin_session(token)[0]


def _set_cookie(request: Request, answer: Response, service: Service, cookie: str) -> None:
    answer.set_cookie(
        request.state.cookie,
        cookie,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=service.settings.secure_cookies,
        path=request.state.prefix or "/",
    )


@pages.form("/logout")
async def logout(request: Request, service: Here) -> RedirectResponse:
    """End the session."""
    await run_in_threadpool(service.tokens.end_session, cookie_of(request.headers, request.state.cookie))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(request.state.cookie, path=request.state.prefix or "/", secure=service.settings.secure_cookies)
    return answer


def _keep_local(target: str) -> str:
    """Give a path of ours, whatever a link may have asked for.

    Browsers take ``..`` out of a path, also where it is written with %2e: it would lead above the proxy's prefix.
    """
    plain = target.startswith("/") and not target.startswith("//") and "\\" not in target and target.isprintable()
    above = ".." in unquote(target.partition("?")[0]).split("/")
    return target if plain and not above else "/"
