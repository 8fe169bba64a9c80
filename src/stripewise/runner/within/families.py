"""File families: phases that can be compared with one another, and which of them are tuned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stripewise.spec.journal import JournalPhase

Kind = tuple[str, str, bool, bool]
"""What the phases of a family have in common; see :attr:`~stripewise.spec.journal.JournalPhase.kind`."""

MIXED = {"": "mixed"}
"""Settings of a round whose phases had different ones, which nobody asks for."""
REPEATED = 3
"""Phases of a family after which a choice is made."""


def choose_kinds(phases: Iterable[JournalPhase], operation: str = "", *, together: bool = False) -> tuple[Kind, ...]:
    """Choose which phases to tune: as soon as some have come three times, of those that came twice the costliest.

    Parameters
    ----------
    phases : iterable of JournalPhase
        Of one launch, in order.
    operation : str
        ``write`` or ``read`` where only these count.
    together : bool
        Choose all that came twice, the costliest first.

    Returns
    -------
    tuple
        Empty where it is too early to tell.
    """
    count: Counter[Kind] = Counter()
    seconds: Counter[Kind] = Counter()
    for phase in phases:
        if operation and phase.operation != operation:
            continue
        count[phase.kind] += 1
        seconds[phase.kind] += phase.seconds  # type: ignore[assignment]
        if count[phase.kind] == REPEATED:
            found = sorted((kind for kind in count if count[kind] > 1), key=lambda kind: seconds[kind], reverse=True)
            return tuple(found if together else found[:1])
    return ()


def rounds_of(phases: Iterable[JournalPhase], kinds: Sequence[Kind]) -> list[JournalPhase]:
    """Give what counts as a phase of the families that are tuned: for several, one phase of each.

    A round takes the time of its phases and moves their bytes. Where the settings of its phases differ, because an
    order came late for one of them, it is :data:`MIXED`.
    """
    known = list(phases)
    streams = [[phase for phase in known if phase.kind == kind] for kind in kinds]
    return [one[0] if len(one) == 1 else _together(one) for one in zip(*streams, strict=False)]


def _together(phases: Sequence[JournalPhase]) -> JournalPhase:
    first, *others = phases
    return replace(
        first,
        site=", ".join((first.site, *(family_of(phase) for phase in others))),
        moved=sum(phase.moved for phase in phases),
        seconds=sum(phase.seconds for phase in phases),
        time=max(phase.time for phase in phases),
        settings=first.settings if all(one.settings == first.settings for one in others) else MIXED,
        order=max(phase.order for phase in phases),
        missed=max(phase.missed for phase in phases),
    )


def family_of(phase: JournalPhase) -> str:
    """Say what a phase does to which files, for people."""
    return f"{'writing' if phase.operation == 'write' else 'reading'} {phase.site}"
