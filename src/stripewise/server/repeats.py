"""Requests that create something and may be sent twice: with an idempotency key they do it once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Header
from fastapi.responses import JSONResponse, Response

from stripewise.errors import UserError
from stripewise.server.problems import Refused
from stripewise.server.service import Service
from stripewise.store.service.tokens import Token

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="a text of your own; a request sent again with the same key does nothing twice, for a day",
        min_length=1,
        max_length=200,
    ),
]


def once(service: Service, user: Token, key: str | None, asked: str, work: Callable[[], Any], status: int) -> Response:
    """Do a creation, or give the answer of the same request before.

    Parameters
    ----------
    service, user : Service, Token
    key : str or None
        None: do it.
    asked : str
        All of the request that matters.
    work : callable
        Gives the answer's document.
    status : int
        Of the answer.

    Raises
    ------
    Refused
        With status 409, if the key was used for something else.
    """
    if key is None:
        return JSONResponse(work(), status)
    name = hashlib.sha256(f"{user.id}\n{key}".encode("utf-8", "surrogateescape")).hexdigest()
    digest = hashlib.sha256(asked.encode("utf-8", "surrogatepass")).hexdigest()
    try:
        before = service.answers.begin(name, digest)
    except UserError as error:
        raise Refused(409, error.what, error.mend) from error
    if before is not None:
        return Response(before[1], before[0], {"Idempotent-Replay": "true"}, "application/json")
    try:
        body = json.dumps(work())
    except BaseException:
        service.answers.drop(name)
        raise
    service.answers.end(name, status, body)
    return Response(body, status, media_type="application/json")
