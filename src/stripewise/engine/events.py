"""What a tuning session tells its listeners (progress bars, logs, the server's event stream)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """One thing that happened.

    Attributes
    ----------
    kind : str
        ``prepared`` (preflight, objective, and the trials of earlier sessions), ``worst_case`` (the most it can cost:
        before the first run, and again once that has shown more), ``space`` (what is searched), ``started`` (a run),
        ``waiting`` (for runs, about twice a second), ``ended`` (a run), ``note`` (a sentence worth reading),
        ``finished`` (the result).
    data : dict
        Depends on the kind; plain JSON values, or the objects named in the session's code.
    """

    kind: str
    data: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], None]


def ignore_event(event: Event) -> None:
    """Ignore the event."""
