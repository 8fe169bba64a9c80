"""What the evidence calls without effect is not varied any more: the space of the search shrinks as it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stripewise.catalogue.configuration import Value, is_same
from stripewise.catalogue.expression import LONGEST, Expression
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.space import Space
from stripewise.engine.effects import activities_of, effects_of
from stripewise.observe.evidence import NO_EFFECT
from stripewise.result import Effect
from stripewise.trial import Role, Trial

_LEAST = 2
"""Configurations in which a parameter must have done nothing: one may be an accident of the others' values."""


@dataclass(frozen=True)
class Idle:
    """A parameter that did nothing wherever it was set.

    Attributes
    ----------
    where : tuple of (str, Value)
        Values that the parameters had which its activity depends on: elsewhere it may still act.
    values : tuple of Value
        What it was set to, in the order of its values.
    configurations : int
        In how many it did nothing.
    evidence : str
        Of the first of them.
    ends : tuple of (Value, Value) or None
        Between which an ordered parameter did nothing, where it has values beyond them; None where it has not.
    """

    name: str
    where: tuple[tuple[str, Value], ...]
    values: tuple[Value, ...]
    configurations: int
    evidence: str
    ends: tuple[Value, Value] | None = None

    @property
    def sentence(self) -> str:
        """Say it to people."""
        given = " and ".join(f"{name} is {value}" for name, value in self.where)
        tried = ", ".join(map(str, self.values))
        ends = "" if self.ends is None else f" between {self.ends[0]} and {self.ends[1]}"
        return (
            f"{self.name} is no longer varied{ends}{f' where {given}' if given else ''}: set to {tried} in "
            f"{self.configurations} configurations, it did nothing ({self.evidence})"
        )

    def region(self, parameter: Parameter) -> str:
        """Where its values act as the default does, as an expression.

        Between values that did nothing an ordered parameter does nothing; beyond them nobody has looked.
        """
        parts = [f"{name} == {value!r}" for name, value in self.where]
        if parameter.ordered:
            known = sorted(float(value) for value in (*self.values, parameter.default))
            parts += [f"{self.name} >= {known[0]!r}", f"{self.name} <= {known[-1]!r}"]
        return " and ".join(parts) or "True"


class Narrowing:
    """Leaves out of a space what did nothing.

    It keeps the results of pure functions, because samplers know a space again by its identity.
    """

    def __init__(self) -> None:
        self._judged: dict[tuple[int, int], dict[str, Effect]] = {}
        self._made: tuple[Space, tuple[Idle, ...], Space] | None = None

    def idle(self, space: Space, trials: Sequence[Trial]) -> tuple[Idle, ...]:
        """Find the parameters that did nothing in at least two configurations, and something in none.

        A parameter without order must also have shown two of its values, where it has as many besides its default.

        Parameters
        ----------
        space : Space
            The whole one.
        trials : sequence of Trial
            With the default's.
        """
        default = next((trial for trial in trials if trial.role is Role.DEFAULT), None)
        if default is None or not activities_of(default):
            # Nothing is known of what the program does by itself, nor, with most runners, of any run.
            return ()
        found: dict[tuple[str, tuple[tuple[str, Value], ...]], list[tuple[Value, Effect | None]]] = {}
        for trial in trials:
            effects = self._effects(space, trial, default)
            for parameter in space.parameters if effects else ():
                value = trial.configuration[parameter.name]
                if not is_same(value, parameter.default):
                    where = tuple((name, trial.configuration[name]) for name in _depends_on(space, parameter))
                    found.setdefault((parameter.name, where), []).append((value, effects.get(parameter.name)))
        judged = [
            _judge_parameter(space[name], where, seen)
            for (name, where), seen in found.items()
            if _did_nothing(space[name], seen)
        ]
        return tuple(one for name in space.names for one in _keep_expressible(space[name], judged, name))

    def of(self, space: Space, trials: Sequence[Trial]) -> Space:
        """Give the space in which values that do nothing fold to the default; the space itself if there are none."""
        idle = self.idle(space, trials)
        if not idle:
            return space
        if self._made is None or self._made[0] is not space or self._made[1] != idle:
            parameters = tuple(
                _narrow_parameter(p, [one for one in idle if one.name == p.name]) for p in space.parameters
            )
            self._made = (space, idle, replace(space, parameters=parameters))
        return self._made[2]

    def _effects(self, space: Space, trial: Trial, default: Trial) -> dict[str, Effect]:
        """What became of a trial's settings, by name; empty without a report of one of its runs."""
        if trial.role is not Role.CANDIDATE:
            return {}
        seen = len(activities_of(trial))
        if not seen:
            return {}
        key = (trial.number, seen + len(activities_of(default)))
        if key not in self._judged:
            self._judged[key] = {effect.name: effect for effect in effects_of(space, trial, default)}
        return self._judged[key]


def _depends_on(space: Space, parameter: Parameter) -> list[str]:
    needed: Iterable[str] = frozenset().union(*(rule.names for rule in parameter.rules)) - {parameter.name}
    return [name for name in space.names if name in needed]


def _did_nothing(parameter: Parameter, seen: Sequence[tuple[Value, Effect | None]]) -> bool:
    if len(seen) < _LEAST or any(effect is None or effect.status not in (NO_EFFECT, "refused") for _, effect in seen):
        return False
    return parameter.ordered or len({value for value, _ in seen}) >= min(_LEAST, len(parameter.values) - 1)


def _judge_parameter(
    parameter: Parameter, where: tuple[tuple[str, Value], ...], seen: Sequence[tuple[Value, Effect | None]]
) -> Idle:
    values = tuple(sorted({value for value, _ in seen}, key=parameter.level))
    ends = None
    if parameter.ordered:
        places = [parameter.level(value) for value in (*values, parameter.default)]
        low, high = parameter.values[min(places)], parameter.values[max(places)]
        ends = None if (low, high) == (parameter.values[0], parameter.values[-1]) else (low, high)
    return Idle(parameter.name, where, values, len(seen), next(effect.evidence for _, effect in seen if effect), ends)


def _keep_expressible(parameter: Parameter, judged: Sequence[Idle], name: str) -> list[Idle]:
    """Leave out the last regions of a parameter that its expression cannot hold: these stay in the space."""
    found = [one for one in judged if one.name == name]
    while found and len(_describe_regions(parameter, found)) > LONGEST:
        found.pop()
    return found


def _describe_regions(parameter: Parameter, idle: Sequence[Idle]) -> str:
    known = [] if parameter.same_as_default is None else [parameter.same_as_default.text]
    return " or ".join(f"({part})" for part in [*known, *(one.region(parameter) for one in idle)])


def _narrow_parameter(parameter: Parameter, idle: Sequence[Idle]) -> Parameter:
    if not idle:
        return parameter
    return replace(parameter, same_as_default=Expression.parse(_describe_regions(parameter, idle)))
