"""From data to HTML: the templates, what all of them know, and errors as pages."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib import resources
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute
from jinja2 import ChoiceLoader, Environment, PackageLoader
from starlette.exceptions import HTTPException

from stripewise import __version__
from stripewise.desk.server.guard import masked_csrf
from stripewise.desk.server.problems import for_web, hide_store, status_of
from stripewise.desk.server.service import get_session
from stripewise.errors import StripewiseError
from stripewise.output import markup
from stripewise.output.page import environment
from stripewise.sizes import format_value
from stripewise.trial import Phase

NAVIGATION = (
    ("/", "Experiments"),
    ("/applications", "Applications"),
    ("/new", "New"),
    ("/stacks", "Components"),
    ("/models", "Models"),
    ("/campaigns", "Campaigns"),
    ("/diagnoses", "Diagnose"),
    ("/knobs", "Dead knobs"),
    ("/settings", "Settings"),
)
"""Address and name of the pages that every page links to."""

STATE_WORDS = {
    "created": ("◌", "not started"),
    "queued": ("◔", "waiting for a worker"),
    "running": ("▶", "running"),
    "finished": ("✓", "finished"),
    "stopped": ("■", "stopped"),
    "failed": ("✕", "failed"),
}
"""State to a symbol and words: what colour says, these say too."""


@functools.cache
def _environment() -> Environment:
    """The reports' environment with the service's own templates, which may include the reports'."""
    shared = environment()
    made = shared.overlay(
        loader=ChoiceLoader([PackageLoader("stripewise.desk.server"), PackageLoader("stripewise.output")])
    )
    made.filters = {
        **shared.filters,
        "minute": _format_minute,
        "factors": lambda pair: markup.factors(*pair),
        "plain": _make_plain,
        "indented": _indent_value,
        "phase": _phase,
        "defaults_of": _defaults,
    }
    made.globals |= {"navigation": NAVIGATION, "states": STATE_WORDS, "version": __version__, "static": static_address}
    return made


def load_templates() -> None:
    """Read the templates of all pages and sections, so that no page waits for it."""
    for made in (environment(), _environment()):
        for name in made.list_templates(extensions=("html",)):
            made.get_template(name)


def _format_minute(epoch: float | None) -> str:
    """A moment without its seconds, for columns."""
    text = markup.format_moment(epoch)
    return f"{text[:16]} UTC" if text else ""


def _indent_value(value: Any) -> str:
    # File names need not be UTF-8; bytes that are not appear in them as lone surrogates, which a page cannot hold.
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _phase(phase: str) -> str:
    return "warm-up" if phase == Phase.WARMUP else str(phase)


def _make_plain(value: Any) -> str:
    return "" if value is None else format_value(value)


def _defaults(parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {parameter["name"]: parameter["default"] for parameter in parameters}


@functools.cache
def static_address(name: str) -> str:
    """Give the address of a static file, which changes with its content so that it can be cached without a limit."""
    digest = hashlib.sha256(static_content(name)).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


@functools.cache
def static_content(name: str) -> bytes:
    """Read a static file of the pages; reports have some of them too."""
    if name in ("report.css", "drawing.js", "plotly.min.js", "plotly.min.js.br"):
        return (resources.files("stripewise.output") / "assets" / name).read_bytes()
    return (resources.files("stripewise.desk.server") / "static" / name).read_bytes()


def render(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """Fill a template.

    Parameters
    ----------
    template : str
        Name of the file.
    **context
        What the template needs, besides what all know: ``user``, ``csrf``, ``here`` (the path).
    """
    session = get_session(request)
    known: Mapping[str, Any] = {
        "user": getattr(request.state, "user", None),
        "csrf": masked_csrf(session.csrf) if session is not None else "",
        "here": request.url.path,
    }
    text = _environment().get_template(template).render(**{**known, **context})
    prefix = request.state.prefix
    if prefix:
        # Templates write addresses from the root of the service; no text of others has a plain quotation mark.
        text = _ADDRESSES.sub(lambda found: f'{found[1]}="{_move_addresses(found[2], prefix)}"', text)
    return HTMLResponse(text, status)


_ADDRESSES = re.compile(r'\b(href|src|action|formaction|data-(?:live|figures|upload|then))="(/[^"]*)"')


def _move_addresses(addresses: str, prefix: str) -> str:
    return " ".join(prefix + one for one in addresses.split(" "))


class PageRoute(APIRoute):
    """A route whose errors are pages too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await inner(request)
            except StripewiseError as error:
                what = hide_store(error.what, request.app.state.service.store.url)
                return error_page(request, status_of(error), what, for_web(error.fix))
            except RequestValidationError as error:
                first = error.errors()[0]
                place = ".".join(str(part) for part in first["loc"][1:])
                return error_page(request, 422, f"{place}: {first['msg']}", "go back and correct it")
            except HTTPException as error:
                return error_page(request, error.status_code, str(error.detail), "")

        return handler


def error_page(request: Request, status: int, what: str, fix: str) -> Response:
    """Say on a page what was wrong and what to do."""
    title = "Not found" if status == 404 else "That did not work"
    return render(request, "error.html", status, title=title, what=what, fix=fix)


def figures_text(drawn: dict[str, Any]) -> str:
    """Write figures in both looks."""
    from stripewise.output.figures import figures_json  # noqa: PLC0415  half a second to load, once

    return figures_json(drawn)


def as_json(drawn: dict[str, Any]) -> Response:
    """Answer with figures in both looks."""
    return Response(figures_text(drawn), media_type="application/json")


def answer_attachment(content: str | bytes, name: str, kind: str = "text/plain; charset=utf-8") -> Response:
    """Answer with a file to be saved under a name."""
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
