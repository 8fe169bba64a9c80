"""The one envelope in which every error is answered, and which status an error of ours has."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from stripewise.desk.server.child import TooMany
from stripewise.errors import NotFound, StoreError, StripewiseError, TransientError, long_name


class Problem(BaseModel):
    """What was wrong, and what to do about it."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"code": "not_found", "what": "experiment '51e11ec7' does not exist", "fix": "see the list"}]
        }
    )
    code: str = Field(description="for machines; belongs to the status")
    what: str = Field(description="what was wrong and where, in one line")
    fix: str = Field(default="", description="what to do about it, in one line")


class Envelope(BaseModel):
    """How every error is answered: a problem of RFC 9457, and the same in parts."""

    type: str = Field(default="about:blank", description="always about:blank: the status says what kind of problem")
    title: str = Field(description="the status in words", examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(description="what was wrong, and what to do", examples=["experiment '51e11ec7' does not exist"])
    error: Problem


CODES = {
    400: "bad_request",
    401: "no_token",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    429: "too_many_requests",
    500: "internal",
    503: "unavailable",
}


PROBLEM = "application/problem+json"


class Refused(StripewiseError):  # noqa: N818  it is an answer, not a fault
    """A request that is answered with a status of its own."""

    def __init__(self, status: int, what: str, fix: str = "") -> None:
        super().__init__(what, fix)
        self.status = status


def for_web(fix: str) -> str:
    """Leave out of an advice the commands of a terminal, which whoever speaks HTTP does not have before them."""
    return "; ".join(part for part in fix.split("; ") if "stripewise " not in part)


def envelope(status: int, what: str, fix: str = "") -> dict[str, Any]:
    """Write the body of an error."""
    fix = for_web(fix)
    parts = {"code": CODES.get(status, "error"), "what": what, "fix": fix}
    detail = f"{what}; {fix}" if fix else what
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "error": parts,
    }


class _ProblemResponse(JSONResponse):
    media_type = PROBLEM


def problem(status: int, what: str, fix: str = "", headers: dict[str, str] | None = None) -> JSONResponse:
    """Answer with an error."""
    return _ProblemResponse(envelope(status, what, fix), status_code=status, headers=headers)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Document the errors that a route can answer with, besides those of every route."""
    said = {
        400: "the request cannot be read",
        401: "no token, or one that is not valid",
        403: "the token's role does not allow it, or the request may be forged",
        404: "this does not exist",
        406: "an answer of no kind that is accepted",
        408: "the body came too slowly",
        409: "it is not in a state in which this can be done, or the idempotency key was used for another request",
        413: "the body is too large",
        415: "the body is of another type",
        422: "something in the request is wrong",
        429: "too many requests; the header Retry-After says when to try again",
        503: "the store is away, or the service is at its limit",
    }
    common = (400, 401, 403, 408, 413, 422, 429, 503)
    return {status: {"model": Envelope, "description": said[status]} for status in sorted({*common, *statuses})}


def status_of(error: StripewiseError) -> int:
    """Give the HTTP status that answers an error."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, TooMany):
        return 429
    if isinstance(error, TransientError):
        return 503
    if isinstance(error, NotFound):
        return 404
    return 503 if isinstance(error, StoreError) else 422


def hide_store(what: str, url: str) -> str:
    """Leave out of a message where the store is: that is for those who run the service."""
    return what.replace(f"store {url}", url).replace(url, "the store")


def add_handlers(app: FastAPI, page: Callable[[Request, int, str, str], Response]) -> None:
    """Make every error an envelope; errors that are not ours say nothing about our insides.

    Parameters
    ----------
    page : callable
        Makes a page of what a browser cannot be given: of the request, the status, what was wrong, what to do.
    """

    @app.exception_handler(StripewiseError)
    async def _ours(request: Request, error: StripewiseError) -> JSONResponse:
        what = hide_store(error.what, request.app.state.service.store.url)
        status = status_of(error)
        return problem(status, what, error.fix, {"Retry-After": "1"} if status == 429 else None)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return problem(400, f"the body is not valid JSON: {first['ctx']['error']}", "correct it")
        place = ".".join(str(part) for part in first["loc"])
        return problem(422, f"{place}: {first['msg']}", "see /openapi.json for what is expected")

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        if error.status_code in (404, 405) and _for_people(request):
            return page(request, error.status_code, "there is nothing at this address", "start from the experiments")
        fix = "see /openapi.json for all resources" if error.status_code in (404, 405) else ""
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_methods(request))
        return problem(error.status_code, str(error.detail), fix, headers)

    @app.exception_handler(OSError)
    async def _system(request: Request, error: OSError) -> JSONResponse:
        if explained := long_name(error):
            return problem(422, explained.what, explained.fix)
        raise error

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> JSONResponse:
        return problem(500, "an unexpected error happened", "the service's log has its place; report it")


def _methods(request: Request) -> list[str]:
    """List the methods of all routes of an address; the router names those of the first one only."""
    found = {
        method
        for route in request.app.state.routes
        if route.matches({**request.scope, "method": "OPTIONS"})[0] is not Match.NONE
        for method in route.methods or ()
    }
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def _for_people(request: Request) -> bool:
    """Whether a browser asks for a page, and neither for a resource nor for a file of a page."""
    path = request.url.path
    return "text/html" in request.headers.get("accept", "") and not path.startswith(("/api", "/static", "/openapi"))
