"""What the evidence calls without effect is not varied any more: the space of the search shrinks as it goes on.

What the first report shows to take hardly any time is not varied at first, or ends the search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from stripewise.catalogue.carriers import LAYOUT
from stripewise.catalogue.configuration import Value, find_changes, is_same
from stripewise.catalogue.expression import LONGEST, Expression
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.space import Space
from stripewise.engine.effects import activities_of, effects_of
from stripewise.observe.activity import Activity
from stripewise.observe.evidence import NO_EFFECT
from stripewise.result import Effect
from stripewise.sizes import format_value
from stripewise.trial import Role, State, Trial

MATTERS = 0.04
"""Part of a run that calls must take, so that it is worth a search what acts on nothing else."""
_LEAST = 2
"""Configurations in which a parameter must have done nothing: one may be an accident of the others' values."""
_ALL = 8
"""Runs of a trial that are all judged."""


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
    unit : str
        Of the values.
    """

    name: str
    where: tuple[tuple[str, Value], ...]
    values: tuple[Value, ...]
    configurations: int
    evidence: str
    ends: tuple[Value, Value] | None = None
    unit: str = ""

    @property
    def sentence(self) -> str:
        """Say it to people."""
        given = " and ".join(f"{name} is {value if value != '' else 'empty'}" for name, value in self.where)
        tried = ", ".join(format_value(value, self.unit) for value in self.values)
        between = " and ".join(format_value(value, self.unit) for value in self.ends or ())
        ends = f" between {between}" if between else ""
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


def io_too_short(space: Space, default: Trial) -> str:
    """Say why nothing that can be set matters to the whole run, by the default's first report; empty if it may.

    Only where all that may be set changes nothing but the calls whose time the report counts.
    """
    activity = _first_activity(default)
    share = None if activity is None else activity.io_share
    if share is None or share >= MATTERS or not all(one.carrier.within_calls for one in space.parameters):
        return ""
    return f"I/O takes {share:.1%} of the run, and nothing that can be set here acts on the rest"


def list_waiting(space: Space, default: Trial) -> tuple[str, ...]:
    """List the parameters that act on a direction alone whose data calls take hardly any of the run.

    They are varied once nothing else is left to try.
    """
    activity = _first_activity(default)
    if activity is None or activity.io_share is None:
        return ()
    taken: dict[str, float] = {
        name: moved.seconds / activity.job.elapsed for name, moved in activity.directions.items()
    }
    found = tuple(
        one.name
        for one in space.parameters
        if one.carrier.within_calls and all(taken.get(name, 1.0) < MATTERS for name in one.operations)
    )
    return () if len(found) == len(space.parameters) else found


def list_kept(space: Space, trials: Sequence[Trial]) -> tuple[str, ...]:
    """List the parameters of layouts where the last files that were to have one were there already, and kept theirs.

    Within one launch each try costs a phase, so none is tried again, although the program may still make files.
    """
    laid = tuple(one.name for one in space.parameters if one.carrier is LAYOUT)
    tried = [run for trial in trials if sets_any(space, trial, laid) for run in trial.runs if run.state.ended]
    last = sorted(tried, key=lambda run: run.number)[-_LEAST:]
    return laid if len(last) == _LEAST and all(run.facts.kept_layout for run in last) else ()


def sets_any(space: Space, trial: Trial, names: Sequence[str]) -> bool:
    """Whether a trial sets one of some parameters to something else than its default."""
    return trial.role is Role.CANDIDATE and not find_changes(trial.configuration, space.default).keys().isdisjoint(
        names
    )


def _first_activity(default: Trial) -> Activity | None:
    """What the first run did; None where its report does not tell how long calls took of the run that is measured."""
    activity = next(iter(activities_of(default)), None)
    return activity if activity is not None and activity.timed and not activity.programs else None


class Narrowing:
    """Leaves out of a space what did nothing.

    It keeps the results of pure functions, because samplers know a space again by its identity.
    """

    def __init__(self) -> None:
        self._judged: dict[tuple[int, int], dict[str, Effect]] = {}
        self._made: dict[tuple[str, ...], tuple[Space, tuple[Idle, ...], Space]] = {}

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

    def of(self, space: Space, trials: Sequence[Trial], waiting: tuple[str, ...] = ()) -> Space:
        """Give the space in which values that do nothing fold to the default; the space itself if there are none.

        So do all values of parameters that are ``waiting``.
        """
        idle = self.idle(space, trials)
        if not idle and not waiting:
            return space
        made = self._made.get(waiting)
        if made is None or made[0] is not space or made[1] != idle:
            parameters = tuple(
                replace(p, same_as_default=Expression.parse("True"))
                if p.name in waiting
                else _narrow_parameter(p, [one for one in idle if one.name == p.name])
                for p in space.parameters
            )
            made = self._made[waiting] = (space, idle, replace(space, parameters=parameters))
        return made[2]

    def _effects(self, space: Space, trial: Trial, default: Trial) -> dict[str, Effect]:
        """What became of a trial's settings, by name; empty without a report of one of its runs."""
        if trial.role is not Role.CANDIDATE:
            return {}
        seen, usual = _cut_runs(trial), _cut_runs(default)
        if not seen.runs:
            return {}
        key = (trial.number, len(seen.runs) + len(usual.runs))
        if key not in self._judged:
            self._judged[key] = {effect.name: effect for effect in effects_of(space, seen, usual)}
        return self._judged[key]


def _cut_runs(trial: Trial) -> Trial:
    """Give the trial with its finished runs, of many the first: phases of a launch are judged anew as they double."""
    runs = [run for run in trial.runs if run.state is State.FINISHED and run.activity is not None]
    return replace(trial, runs=tuple(runs[: max(_ALL, 1 << len(runs).bit_length() - 1)] if runs else ()))


def _depends_on(space: Space, parameter: Parameter) -> list[str]:
    needed: Iterable[str] = frozenset().union(*(rule.names for rule in parameter.rules)) - {parameter.name}
    return [one.name for one in space.parameters if one is not parameter and (one.name in needed or one.chosen_word)]


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
    evidence = next(effect.evidence for _, effect in seen if effect)
    return Idle(parameter.name, where, values, len(seen), evidence, ends, parameter.unit)


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
