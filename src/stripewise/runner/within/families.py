"""File families: phases that can be compared with one another, and which of them are worth tuning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stripewise.spec.journal import JournalPhase

REPEATED = 3
"""Phases of a family after which a choice is made."""


def choose_kind(phases: Iterable[JournalPhase], operation: str = "") -> tuple[str, str, bool, bool] | None:
    """Choose which phases to tune: as soon as some have come three times, of those that came twice the costliest.

    Parameters
    ----------
    phases : iterable of JournalPhase
        Of one launch, in order.
    operation : str
        ``write`` or ``read`` where only these count.

    Returns
    -------
    tuple or None
        As :attr:`~stripewise.spec.journal.JournalPhase.kind`; None where it is too early to tell.
    """
    count: Counter[tuple[str, str, bool, bool]] = Counter()
    seconds: Counter[tuple[str, str, bool, bool]] = Counter()
    for phase in phases:
        if operation and phase.operation != operation:
            continue
        count[phase.kind] += 1
        seconds[phase.kind] += phase.seconds  # type: ignore[assignment]
        if count[phase.kind] == REPEATED:
            return max((kind for kind in count if count[kind] > 1), key=lambda kind: seconds[kind])
    return None
