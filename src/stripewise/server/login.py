"""Sessions of browsers: a token is exchanged for a cookie that scripts cannot read."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from stripewise.server.guard import COOKIE, cookie_of
from stripewise.server.service import Here
from stripewise.store.service.tokens import SESSION_SECONDS

router = APIRouter(include_in_schema=False)


@router.post("/login")
async def login(
    request: Request,
    service: Here,
    token: Annotated[str, Form(max_length=200)] = "",
    next: Annotated[str, Form(max_length=1000)] = "/",
) -> RedirectResponse:
    """Begin a session for a token, and go where the reader wanted to go."""
    target = _local(next)
    found = await run_in_threadpool(service.tokens.check, token.strip())
    if found is None:
        return RedirectResponse(f"/login?wrong=1&next={quote(target)}", 303)
    request.state.user = found
    # A cookie that was there before is never kept: nobody can have given it to the browser beforehand.
    await run_in_threadpool(service.tokens.end_session, cookie_of(request.headers))
    cookie, _ = await run_in_threadpool(service.tokens.begin_session, found)
    answer = RedirectResponse(target, 303)
    secure = service.settings.secure_cookies
    answer.set_cookie(
        COOKIE, cookie, max_age=int(SESSION_SECONDS), httponly=True, samesite="strict", secure=secure, path="/"
    )
    return answer


@router.post("/logout")
async def logout(request: Request, service: Here) -> RedirectResponse:
    """End the session."""
    await run_in_threadpool(service.tokens.end_session, cookie_of(request.headers))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE, path="/")
    return answer


def _local(target: str) -> str:
    """Give a path of ours, whatever a link may have asked for."""
    plain = target.startswith("/") and not target.startswith("//") and "\\" not in target and target.isprintable()
    return target if plain else "/"
