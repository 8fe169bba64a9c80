"""Requests that create something and may be sent twice: with an idempotency key they do it once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from stripewise.errors import UserError
from stripewise.server.problems import Refused
from stripewise.server.service import Here, User

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="a text of your own; a request sent again with the same key does nothing twice, for a day",
        min_length=1,
        max_length=200,
    ),
]
Doing = Callable[[str, BaseModel, Callable[[], Any], int], Response]


def _doing(service: Here, user: User, key: Key = None) -> Doing:
    """Give what does a creation, or gives the answer of the same request before.

    It takes the creation's name, the request, the function that makes the answer's document, and the answer's status,
    and raises ``Refused`` with status 409 if the key was used for something else.
    """

    def once(what: str, asked: BaseModel, work: Callable[[], Any], status: int) -> Response:
        if key is None:
            return JSONResponse(work(), status)
        name = hashlib.sha256(f"{user.id}\n{key}".encode("utf-8", "surrogateescape")).hexdigest()
        digest = hashlib.sha256(f"{what} {asked.model_dump_json()}".encode("utf-8", "surrogatepass")).hexdigest()
        try:
            before = service.answers.begin(name, digest)
        except UserError as error:
            raise Refused(409, error.what, error.fix) from error
        if before is not None:
            return Response(before[1], before[0], {"Idempotent-Replay": "true"}, "application/json")
        try:
            body = json.dumps(work())
        except BaseException:
            service.answers.drop(name)
            raise
        service.answers.end(name, status, body)
        return Response(body, status, media_type="application/json")

    return once


Once = Annotated[Doing, Depends(_doing)]
