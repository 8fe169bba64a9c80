"""The application: the guard, the resources, the pages."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from stripewise import __version__
from stripewise.server.guard import Guard
from stripewise.server.html import error_page
from stripewise.server.metrics import Metrics
from stripewise.server.problems import add_handlers
from stripewise.server.resources import RESOURCES
from stripewise.server.service import Service
from stripewise.server.settings import Settings
from stripewise.store.base import Store


def create_app(settings: Settings, store: Store | None = None) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    settings : Settings
    store : Store, optional
        An open store in place of the one that the settings name.

    Raises
    ------
    UserError, StoreError
        If the store cannot be used.
    """
    service = Service.open(settings, store)
    metrics = Metrics()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await service.hub.close()

    app = FastAPI(
        title="Stripewise",
        version=__version__,
        description="Tunes the parallel I/O of MPI programs. Programs run as the user of the service.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        # Validators of definitions may raise errors of ours, which have an envelope of their own.
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.metrics = metrics
    add_handlers(app, error_page)
    for resource in RESOURCES:
        app.include_router(resource.api)
        app.include_router(resource.pages)
    app.add_middleware(Guard, service=service, metrics=metrics)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schema["components"].setdefault("securitySchemes", {})["bearer"] = {
            "type": "http",
            "scheme": "bearer",
            "description": "a token that stripewise token create has made",
        }
        schema["security"] = [{"bearer": []}]
        schema["paths"].get("/api/health", {}).get("get", {})["security"] = []
        # Every error has our envelope; FastAPI's own is never sent.
        for name in ("HTTPValidationError", "ValidationError"):
            schema["components"]["schemas"].pop(name, None)
        for item in schema["paths"].values():
            for operation in item.values():
                for status, answer in operation["responses"].items():
                    if status >= "4" and "content" in answer:
                        # Errors are JSON, also where what was asked for is not.
                        answer["content"] = {"application/json": next(iter(answer["content"].values()))}
        app.openapi_schema = schema
    return app.openapi_schema
