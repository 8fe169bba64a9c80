"""File families: phases that can be compared with one another, and which of them are tuned."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from stripewise.file_glob import names_file
from stripewise.observe.journal import JournalPhase
from stripewise.runners.base import Family

Kind = Family
"""What the phases of a family have in common; see :attr:`~stripewise.observe.journal.JournalPhase.kind`."""

MIXED = {"": "mixed"}
"""Settings of a round whose phases had different ones, which nobody asks for."""
REPEATED = 3
"""Phases of a family after which a choice is made."""


def choose_kinds(
    phases: Iterable[JournalPhase], operation: str = "", files: str = "*", *, together: bool = False
) -> tuple[Kind, ...]:
    """Choose which phases to tune: as soon as some have come three times, of those that came twice the costliest.

    Parameters
    ----------
    phases : iterable of JournalPhase
        Of one launch, in order.
    operation : str
        ``write`` or ``read`` where only these count.
    files : str
        Glob of the only files that count.
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
        if (operation and phase.operation != operation) or not matches_site(files, phase.site):
            continue
        count[phase.kind] += 1
        seconds[phase.kind] += phase.seconds  # type: ignore[assignment]
        if count[phase.kind] == REPEATED:
            found = sorted((kind for kind in count if count[kind] > 1), key=lambda kind: seconds[kind], reverse=True)
            return tuple(found if together else found[:1])
    return ()


def leave_out_alike(kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """Leave out families that orders cannot tell from one before them: of the same files and operation."""
    first: dict[tuple[str, str], Kind] = {}
    for kind in kinds:
        first.setdefault(kind[:2], kind)
    return tuple(first.values())


def rounds_of(phases: Iterable[JournalPhase], kinds: Sequence[Kind]) -> list[JournalPhase]:
    """Give what counts as a phase of the families that are tuned: for several, all phases until each has come.

    A round takes the time of its phases and moves their bytes. Where their settings differ, because an order came late
    for one of them, it is :data:`MIXED`.
    """
    rounds, _ = _cut_rounds(phases, kinds)
    return [one[0] if len(kinds) == 1 else _join_phases(one, kinds) for one in rounds]


def _cut_rounds(
    phases: Iterable[JournalPhase], kinds: Sequence[Kind]
) -> tuple[list[list[JournalPhase]], list[JournalPhase]]:
    """Cut phases into rounds, and give those of the round that has not ended as well."""
    rounds: list[list[JournalPhase]] = []
    current: list[JournalPhase] = []
    missing = set(kinds)
    for phase in phases:
        if phase.kind not in kinds:
            continue
        current.append(phase)
        missing.discard(phase.kind)
        if not missing:
            rounds.append(current)
            current, missing = [], set(kinds)
    return rounds, current


def round_with(rounds: Sequence[JournalPhase], phase: JournalPhase) -> JournalPhase | None:
    """Give the round that a phase belongs to; None while phases of other families are still to come."""
    return next((one for one in rounds if one is phase or one.time >= phase.time), None)


def members_of(phases: Iterable[JournalPhase], kinds: Sequence[Kind], whole: JournalPhase) -> list[JournalPhase]:
    """Give what each family did last in a round."""
    if len(kinds) == 1:
        return [whole]
    rounds, _ = _cut_rounds(phases, kinds)
    found = next(one for one in rounds if max(phase.time for phase in one) == whole.time)
    return list({phase.kind: phase for phase in found}.values())


def orders_for(
    phases: Sequence[JournalPhase], kinds: Sequence[Kind], waiting: Counter[tuple[str, str]], count: int
) -> list[Kind]:
    """Say which families the next orders are for, so that all have the same settings for so many rounds.

    A family that comes more often than another takes more orders in a round, as many as in the last one. One that came
    more often than expected has used up orders that were meant for later; it is given as many more, or it would be
    ahead of the others from then on.

    Parameters
    ----------
    phases : sequence of JournalPhase
        Of the launch so far.
    kinds : sequence
    waiting : Counter
        Orders by site and operation that no phase has carried out yet.
    count : int
        Rounds.
    """
    if len(kinds) == 1:
        return list(kinds) * count
    rounds, current = _cut_rounds(phases, kinds)
    each = Counter(phase.kind for phase in rounds[-1]) if rounds else Counter(kinds)
    came = Counter(phase.kind for phase in current)
    # Beyond what a round that is under way still needs.
    ahead = {kind: waiting[kind[:2]] - (max(0, each[kind] - came[kind]) if current else 0) for kind in kinds}
    most = max(0, *(-(-ahead[kind] // each[kind]) for kind in kinds))
    needed = {kind: (most + count) * each[kind] - ahead[kind] for kind in kinds}
    turns = max(needed.values())
    return [kind for turn in range(turns) for kind in kinds if turn < needed[kind]]


def _join_phases(phases: Sequence[JournalPhase], kinds: Sequence[Kind]) -> JournalPhase:
    of_each = [next(phase for phase in phases if phase.kind == kind) for kind in kinds]
    first, *others = of_each
    return replace(
        first,
        site=", ".join((first.site, *(family_of(phase) for phase in others))),
        moved=sum(phase.moved for phase in phases),
        seconds=sum(phase.seconds for phase in phases),
        time=max(phase.time for phase in phases),
        settings=first.settings if all(one.settings == first.settings for one in phases) else MIXED,
        order=max(phase.order for phase in phases),
        missed=max(phase.missed for phase in phases),
    )


def pattern_of(site: str) -> str:
    """Give the glob that names the files of a site."""
    return glob.escape(site.replace("\\", "\\\\")).replace("#", "[0-9]*")


def matches_site(files: str, site: str) -> bool:
    """Whether a glob names files of a site."""
    # Any number stands for the others.
    return names_file(files, site.replace("#", "0"))


def family_of(phase: JournalPhase) -> str:
    """Say what a phase does to which files, for people."""
    return said_of(phase.kind)


def said_of(kind: Kind) -> str:
    """Say what the phases of a family do to which files, for people."""
    return f"{'writing' if kind[1] == 'write' else 'reading'} {kind[0]}"
