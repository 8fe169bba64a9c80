"""Live events, as server-sent events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from stripewise.desk.server.problems import Refused
from stripewise.desk.server.resource import Resource
from stripewise.desk.server.resources.experiments import Id
from stripewise.desk.server.service import Here, Service, Session, User
from stripewise.store.service.tokens import LoginSession, Token

resource = Resource("", "events")

_LAST = 2**53
"""No message has a larger number."""
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "events: experiment, run, message, deleted, lost; the data are JSON",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'event: experiment\ndata: {"id": "51e11ec7", "state": "running", "ended": 3}\n\n',
            }
        },
    }
}


@resource.file("/events", kind=StreamingResponse, responses=_STREAM)
async def all_events(service: Here, user: User, session: Session) -> StreamingResponse:
    """Stream a message for every experiment that changes, from now on."""
    return _stream(service, user, session, None, None)


@resource.file("/experiments/{id}/events", 404, kind=StreamingResponse, responses=_STREAM)
async def experiment_events(
    service: Here,
    user: User,
    session: Session,
    id: Id,
    after: Annotated[int | None, Query(ge=0, le=_LAST, description="messages after this number come first")] = None,
    last: Annotated[str | None, Header(alias="Last-Event-ID", max_length=30)] = None,
) -> StreamingResponse:
    """Stream the events of one experiment: its state, its runs, and the messages of its session.

    It begins with the state as it is; runs come as they change. Read the trials once the first event is there.
    """
    record = await run_in_threadpool(service.store.record, id)
    if last is not None and last.isascii() and last.isdigit():
        after = min(int(last), _LAST)
    return _stream(service, user, session, record.id, after)


def _stream(
    service: Service, user: Token, session: LoginSession | None, experiment: str | None, after: int | None
) -> StreamingResponse:
    if service.hub.full(user.id):
        raise Refused(503, "as many event streams are open as the service or this token may have", "close some")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    stream = service.hub.listen(experiment, after, user.id, session.id if session else "")
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)
