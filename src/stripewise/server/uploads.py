"""Files that requests bring: written to the service's folder, under names that the service chooses."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from stripewise.server.problems import Refused
from stripewise.server.service import Here

BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}, "example": "..."}},
    }
}
"""For routes whose body is a file."""


async def _received(request: Request, service: Here) -> AsyncIterator[Path]:
    """Write the body of a request to a new file, which is deleted afterwards unless it was moved away.

    Raises
    ------
    Refused
        If the body is of another type, or empty.
    """
    if not request.headers.get("content-type", "").startswith("application/octet-stream"):
        raise Refused(415, "the body is not application/octet-stream", "send the file's bytes as they are")
    folder = service.settings.data / "uploads"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"upload-{secrets.token_hex(8)}"
    size = 0
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            async for chunk in request.stream():
                size += len(chunk)
                await run_in_threadpool(stream.write, chunk)
        if not size:
            raise Refused(422, "the body is empty", "send a file")
        yield path
    finally:
        path.unlink(missing_ok=True)


Upload = Annotated[Path, Depends(_received)]
