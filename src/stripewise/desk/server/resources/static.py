"""Static files, each named here: nothing else of the disk can be asked for."""

from __future__ import annotations

import functools
import gzip

from fastapi import Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from stripewise.desk.server.html import static_content
from stripewise.desk.server.resource import Resource

resource = Resource()

_TYPES = {
    "report.css": "text/css; charset=utf-8",
    "app.css": "text/css; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "drawing.js": "text/javascript; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "figures.js": "text/javascript; charset=utf-8",
    "brush.js": "text/javascript; charset=utf-8",
    "form.js": "text/javascript; charset=utf-8",
    "plotly.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_YEAR = "public, max-age=31536000, immutable"


@resource.page("/static/{name}")
def static_file(request: Request, name: str) -> Response:
    """Give a file; compressed where the browser takes that."""
    if name not in _TYPES:
        raise HTTPException(404, "this file does not exist")
    headers = {"Cache-Control": _YEAR if request.url.query.startswith("v=") else "public, max-age=300"}
    accepted = request.headers.get("accept-encoding", "")
    if "br" in accepted and name == "plotly.min.js":
        content = static_content(f"{name}.br")
        headers |= {"Content-Encoding": "br", "Vary": "Accept-Encoding"}
    elif "gzip" in accepted:
        content = _compressed(name)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    else:
        content = static_content(name)
    return Response(content, media_type=_TYPES[name], headers=headers)


@resource.page("/favicon.ico")
def icon() -> Response:
    """Give the icon."""
    return Response(
        static_content("icon.svg"), media_type=_TYPES["icon.svg"], headers={"Cache-Control": "max-age=86400"}
    )


@functools.cache
def _compressed(name: str) -> bytes:
    return gzip.compress(static_content(name), 6, mtime=0)
