"""How a service is set up: where it keeps things, what it allows, and how much."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MIB = 1 << 20


class Settings(BaseModel):
    """All that can be set.

    Everything has a default that is safe for one user on a login node.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    store: str | None = Field(default=None, description="address of the store; the default store if null")
    data: Path = Field(description="folder for uploads, models and campaigns")
    roots: tuple[Path, ...] = Field(
        default=(),
        description="folders in which programs may be started and files named; the data folder is always one",
    )
    allow: tuple[str, ...] | None = Field(
        default=None, description="the only commands that may be started, as patterns; any command if null"
    )
    body_bytes: Annotated[int, Field(ge=1024)] = Field(default=MIB, description="largest body of a request")
    upload_bytes: Annotated[int, Field(ge=1024)] = Field(default=256 * MIB, description="largest uploaded file")
    body_seconds: Annotated[float, Field(gt=0)] = Field(
        default=20.0, description="longest that a body may take, and an upload for each 10 MiB"
    )
    requests_a_second: Annotated[float, Field(gt=0)] = Field(default=50.0, description="of one token or session")
    burst: Annotated[int, Field(ge=1)] = Field(default=200, description="requests at once, beyond that rate")
    failures_a_minute: Annotated[int, Field(ge=1)] = Field(
        default=30, description="requests with a wrong token or none, from one address, before it has to wait"
    )
    listeners: Annotated[int, Field(ge=1)] = Field(default=500, description="open event streams")
    poll_seconds: Annotated[float, Field(gt=0)] = Field(default=0.3, description="how often the store is looked at")
    secure_cookies: bool = Field(default=False, description="behind TLS: cookies are sent over it only")
    hosts: tuple[str, ...] = Field(
        default=(), description="names under which the service is reached, besides localhost; for TCP"
    )

    @property
    def folders(self) -> tuple[Path, ...]:
        """Folders in which paths of requests must lie, without links."""
        return tuple(folder.resolve() for folder in (*self.roots, self.data))
