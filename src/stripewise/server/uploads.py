"""Files that requests bring: written to the service's folder, under names that the service chooses."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from stripewise.server.problems import Refused

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")

BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}, "example": "..."}},
    }
}
"""For routes whose body is a file."""


async def received(request: Request, folder: Path) -> Path:
    """Write the body of a request to a new file, and give its path.

    Raises
    ------
    Refused
        If the body is of another type, or empty.
    """
    if not request.headers.get("content-type", "").startswith("application/octet-stream"):
        raise Refused(415, "the body is no application/octet-stream", "send the file's bytes as they are")
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
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    return path


def checked_name(name: str, what: str) -> str:
    """Give a name that may become one of a folder.

    Raises
    ------
    Refused
        If it may not.
    """
    if not _NAME.match(name):
        raise Refused(422, f"the name of the {what} is not made of letters, digits, - and _", "as in site-2026")
    return name


def new_identifier() -> str:
    """Choose an identifier."""
    return secrets.token_hex(6)
