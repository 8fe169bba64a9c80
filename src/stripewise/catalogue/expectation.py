"""What settings are expected to bring a workload: the stacks' knowledge, asked by findings and policies alike.

What is not known of the workload (the nodes of a Darshan log, the size of the pieces) is asked for every value that it
may have, so that nothing is proposed that only helps if a guess is right.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from stripewise.catalogue.carriers import Carrier, Setting
from stripewise.catalogue.configuration import Value
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.filesystems import type_names
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Knowledge
from stripewise.catalogue.stack import every_stack
from stripewise.catalogue.workload import Workload

_WORTH = 1.05
_MANY_NODES = 16
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
        return self.high <= 1 / _WORTH

    @property
    def says(self) -> str:
        """The factor with its reasons, as a phrase."""
        factor = f"{self.low:.2g}" if self.high / self.low < _WORTH else f"{self.low:.2g} to {self.high:.2g}"
        return f"{factor} times as fast ({'; '.join(self.reasons)})" if self.reasons else f"{factor} times as fast"


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
) -> Proposal:
    """Choose among candidates; none where no gain is expected of any.

    Parameters
    ----------
    candidates : sequence of sequence of Setting
        Each is applied as a whole.
    workload, now, processes, io
        As in :func:`expect`.
    """
    best = Proposal()
    for settings in candidates:
        expected = expect(settings, workload, now, processes, io)
        if expected.gains and expected.low > best.expected.low:
            best = Proposal(tuple(settings), expected)
    return best


def expect(
    settings: Sequence[Setting],
    workload: Workload,
    now: Mapping[str, str],
    processes: int | None = None,
    io: str | None = None,
    *,
    measured: bool = False,
) -> Expected:
    """Say what settings are expected to bring.

    Parameters
    ----------
    settings : sequence of Setting
    workload : Workload
    now : mapping
        Settings in effect by key; all others are at their defaults.
    processes : int or None
        Ranks, where they are known and the nodes are not.
    io : str or None
        The MPI-IO implementation, ``romio`` or ``ompio``.
    measured : bool
        Whether only knowledge counts that was measured on other systems.
    """
    changed: dict[str, Value] = {}
    for setting in settings:
        parameter = _by_setting().get((setting.carrier, setting.key, setting.layer))
        if parameter is not None and _reaches(parameter, workload, io):
            changed[parameter.name] = value_of(parameter, setting.value)
    pieces = [
        piece
        for piece in _knowledge()
        if piece.condition.names & changed.keys() and not (measured and piece.doubt is None)
    ]
    if not pieces:
        return Expected()
    current = {
        parameter.name: value_of(parameter, now[parameter.setting])
        for parameter in _parameters().values()
        if parameter.setting in now
    }
    names = {name for piece in pieces for name in piece.condition.names}
    names |= {name for own in changed for name in _rule_names(_parameters()[own])}
    logs: list[float] = []
    doubt = 0.0
    reasons: dict[str, None] = {}
    for words in _worlds(workload, processes, names):
        before = _acting(words, current)
        after = _acting(words, {**current, **changed})
        total = variance = 0.0
        for piece in pieces:
            held, holds = (_holds(piece.condition, words, values) for values in (before, after))
            if held != holds:
                total += math.log(piece.gain) * (holds - held)
                variance += (piece.doubt or 0.0) ** 2
                reasons[piece.source] = None
        logs.append(total)
        doubt = max(doubt, math.sqrt(variance))
    return Expected(math.exp(min(logs)), math.exp(max(logs)), tuple(reasons), doubt)


@cache
def _parameters() -> dict[str, Parameter]:
    return {p.name: p for stack in every_stack() for p in stack.parameters}


@cache
def _by_setting() -> dict[tuple[Carrier, str, str], Parameter]:
    """Parameters by carrier, key and, for layouts, file system."""
    found = {}
    for parameter in _parameters().values():
        made = Setting(parameter.carrier, parameter.setting, "", parameter.layer)
        found[made.carrier, made.key, made.layer] = parameter
    return found


@cache
def _knowledge() -> tuple[Knowledge, ...]:
    return tuple(piece for stack in every_stack() for piece in stack.knowledge)


def _reaches(parameter: Parameter, workload: Workload, io: str | None) -> bool:
    """Whether the MPI library and the file's driver read it, for this direction."""
    driver = (workload.driver or "").upper()
    return (
        not (parameter.io_component and io and io not in parameter.io_component)
        and not (parameter.driver and driver and not driver.startswith(parameter.driver))
        and workload.operation in (None, "both", *parameter.operations)
    )


def value_of(parameter: Parameter, text: str) -> Value:
    """Give the value that a setting spells; the default where it spells none, as the library takes it."""
    if parameter.kind is Kind.BOOLEAN:
        return text.lower() in ("true", "1", "enable")
    if parameter.ordered:
        try:
            return int(text)
        except ValueError:
            return parameter.default
    return next((value for value in parameter.values if str(value).lower() == text.lower()), parameter.default)


def _rule_names(parameter: Parameter) -> set[str]:
    rules = (parameter.active_if, parameter.same_as_default)
    return {name for rule in rules if rule is not None for name in rule.names}


def _holds(rule: Expression, words: Mapping[str, Any], values: Mapping[str, Value]) -> bool:
    """Evaluate a rule; parameters without a value are at their defaults."""
    others = rule.names - words.keys() - values.keys()
    defaults = {name: _parameters()[name].bind(words).default for name in others}
    return bool(rule({**words, **defaults, **values}))


def _acting(words: Mapping[str, Any], values: Mapping[str, Value]) -> dict[str, Value]:
    """What acts of some values: those that mean nothing here, or the same as the default, are left out."""
    found = {}
    for name, value in values.items():
        active, same = _parameters()[name].active_if, _parameters()[name].same_as_default
        if (active is None or _holds(active, words, values)) and (same is None or not _holds(same, words, values)):
            found[name] = value
    return found


def _worlds(workload: Workload, processes: int | None, names: set[str]) -> Iterator[dict[str, Any]]:
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
    if workload.layout in (None, "segmented") and workload.piece_size is None:
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
