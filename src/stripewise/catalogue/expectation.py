"""What settings are expected to bring a workload: the stacks' knowledge, asked by findings and policies alike.

What is not known of the workload (the nodes of a Darshan log, the size of the pieces) is asked for every value that it
may have, so that nothing is proposed that only helps if a guess is right.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stripewise.catalogue.carriers import Setting
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.filesystems import FILE_SYSTEMS, GENERIC, type_names
from stripewise.catalogue.meaning import (
    Situation,
    acting,
    evaluate_rule,
    explain_unread,
    find_parameter,
    parameters,
    value_of,
)
from stripewise.catalogue.space import Knowledge
from stripewise.catalogue.stack import Stack, every_stack
from stripewise.catalogue.workload import Workload
from stripewise.sizes import format_value

_WORTH = 1.05
HARMS = 1 / _WORTH
"""A gain up to this is a loss that counts."""
_MANY_NODES = 16
_NETWORK = (*(system.types[0] for system in FILE_SYSTEMS), "nfs")
"""Types of mounts whose files are behind a network."""
_PIECES = (64, 512, 4096, 32768, 262144)
_SHAPE = {"layout", "piece_size", "pieces", "interleaved"}


@dataclass(frozen=True)
class Expected:
    """What settings are expected to bring.

    Attributes
    ----------
    low, high : float
        Speed-up of the I/O over the current settings, over all that the workload may be; both 1 where no stack knows
        anything.
    reasons : tuple of str
        Where that is known from.
    doubt : float
        Standard deviation of the natural logarithm of the speed-up, as far as it was measured.
    """

    low: float = 1.0
    high: float = 1.0
    reasons: tuple[str, ...] = ()
    doubt: float = 0.0

    @property
    def gains(self) -> bool:
        """Whether a gain is expected whatever is unknown of the workload."""
        return self.low >= _WORTH

    @property
    def loses(self) -> bool:
        """Whether a loss is expected whatever is unknown."""
        return self.high <= HARMS

    @property
    def says(self) -> str:
        """The factor, as a phrase."""
        factor = f"{self.low:.2g}" if self.high / self.low < _WORTH else f"{self.low:.2g} to {self.high:.2g}"
        return f"{factor} times as fast"


@dataclass(frozen=True)
class Proposal:
    """Settings that are expected to bring something; none at first."""

    settings: tuple[Setting, ...] = ()
    expected: Expected = field(default_factory=Expected)


def propose(
    candidates: Sequence[Sequence[Setting]],
    workload: Workload,
    now: Mapping[str, str],
    processes: int | None = None,
    io: str | None = None,
    mpi: str = "",
) -> Proposal:
    """Choose among candidates; none where no gain is expected of any.

    Parameters
    ----------
    candidates : sequence of sequence of Setting
        Each is applied as a whole.
    workload, now, processes, io, mpi
        As in :func:`expect`.
    """
    best = Proposal()
    for settings in candidates:
        expected = expect(settings, workload, now, processes, io, mpi)
        if expected.gains and expected.low > best.expected.low:
            best = Proposal(tuple(settings), expected)
    return best


def expect(
    settings: Sequence[Setting],
    workload: Workload,
    now: Mapping[str, str],
    processes: int | None = None,
    io: str | None = None,
    mpi: str = "",
    *,
    measured: bool = False,
) -> Expected:
    """Say what settings are expected to bring.

    Parameters
    ----------
    now : mapping
        Settings in effect by key; all others are at their defaults.
    processes : int or None
        Ranks, where they are known and the nodes are not.
    io : str or None
        The MPI-IO implementation, ``romio`` or ``ompio``.
    mpi : str
        The MPI library with its version, as it names itself.
    measured : bool
        Whether only knowledge counts that was measured on other systems.
    """
    situation = Situation(workload, io=io, mpi=mpi)
    changed: dict[str, Value] = {}
    for setting in settings:
        parameter = find_parameter(setting)
        if parameter is not None and not explain_unread(parameter, situation) and parameter.meets(workload.api):
            changed[parameter.name] = value_of(parameter, setting.value)
    pieces = [piece for piece in pieces_about(changed, every_stack()) if not (measured and piece.doubt is None)]
    if not pieces:
        return Expected()
    known = parameters()
    current = {p.name: value_of(p, now[p.setting]) for p in known.values() if p.setting in now}
    names = {name for piece in pieces for name in piece.condition.names}
    names |= {name for own in changed for rule in known[own].rules for name in rule.names}
    logs: list[float] = []
    doubt = 0.0
    reasons: dict[str, None] = {}
    for words in _list_worlds(workload, processes, names):
        before = acting(words, current)
        after = acting(words, {**current, **changed})
        total = variance = 0.0
        for piece in pieces:
            held, held_then = (evaluate_rule(piece.condition, words, values) for values in (before, after))
            if held != held_then:
                total += math.log(piece.gain) * (held_then - held)
                variance += (piece.doubt or 0.0) ** 2
                reasons[piece.source] = None
        logs.append(total)
        doubt = max(doubt, math.sqrt(variance))
    return Expected(math.exp(min(logs)), math.exp(max(logs)), tuple(reasons), doubt)


def list_cautions(
    settings: Sequence[Setting], workload: Workload, io: str | None = None, mpi: str = ""
) -> tuple[str, ...]:
    """Say which settings are expected to harm on storage behind a network, where a run on local files hid it.

    Each setting is judged beside all others, for the file systems that the stacks know something of; on a single node,
    also for several nodes. Empty where the files of the run were not on the node itself.

    Parameters
    ----------
    workload, io, mpi
        As in :func:`expect`.
    """
    if workload.file_system not in GENERIC.local:
        return ()
    places = {"On network storage": workload.nodes}
    if workload.nodes == 1:
        places["On network storage and several nodes"] = _MANY_NODES
    found = []
    for setting in settings:
        rest = {other.key: other.value for other in settings if other.target != setting.target}
        for place, nodes in places.items():
            there = [workload.model_copy(update={"file_system": name, "nodes": nodes}) for name in _NETWORK]
            expected = [expect([setting], one, rest, io=io, mpi=mpi) for one in there]
            losing = [one for one in expected if one.loses]
            if losing:
                factor = max(one.high for one in losing)
                parameter = find_parameter(setting)
                value = format_value(setting.value, parameter.unit if parameter is not None else "")
                found.append(
                    f"{place}, {setting.key}={value} is expected to reach at most {factor:.2g} times the "
                    "speed; this was not measured here."
                )
                break
    return tuple(found)


def pieces_about(names: Collection[str], stacks: Iterable[Stack]) -> tuple[Knowledge, ...]:
    """Give what stacks know of parameters of some names."""
    return tuple(piece for stack in stacks for piece in stack.knowledge if not piece.condition.names.isdisjoint(names))


def _list_worlds(workload: Workload, processes: int | None, names: set[str]) -> Iterator[dict[str, Any]]:
    """Give the words of each workload that agrees with what is known, as far as they matter for some names."""
    choices: list[list[dict[str, Any]]] = []
    if workload.nodes is None:
        ranks = processes or _MANY_NODES
        choices.append([{"nodes": 1, "processes_per_node": ranks}])
        if ranks > 1:
            choices[-1].append({"nodes": ranks, "processes_per_node": 1})
    if workload.file_system is None and "file_system" in names:
        choices.append([{"file_system": name} for name in type_names()])
    if names & _SHAPE:
        choices.append(list(_shapes(workload)))
    for made in itertools.product(*choices):
        update = {name: value for part in made for name, value in part.items()}
        words = workload.model_copy(update=update).words()
        for interleaved in ("yes", "no") if words["interleaved"] == "unknown" else (words["interleaved"],):
            for pieces in ("yes", "no") if words["pieces"] == "unknown" else (words["pieces"],):
                yield {**words, "interleaved": interleaved, "pieces": pieces}


def _shapes(workload: Workload) -> Iterator[dict[str, Any]]:
    if workload.layout == "segmented" or (workload.layout is None and workload.piece_size is None):
        yield {"layout": "segmented"}
    if workload.layout == "segmented":
        return
    if workload.piece_size is not None:
        yield {}
        return
    most = workload.transfer_size or math.inf
    sizes = {size for size in _PIECES if size < most} | ({workload.transfer_size} if workload.transfer_size else set())
    for size in sorted(sizes):
        yield {"layout": workload.layout or "strided", "piece_size": size}
