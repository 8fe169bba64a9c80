"""Objectives by name: built in, and those that other packages bring."""

from __future__ import annotations

import contextlib
from collections.abc import MutableMapping
from dataclasses import replace

from stripewise.errors import RunFailed, UserError, choose
from stripewise.facts import RunFacts
from stripewise.launch import Outcome
from stripewise.observe.objectives.base import ObjectiveKind
from stripewise.observe.objectives.number import convert
from stripewise.plugins import Plugins
from stripewise.requests.experiment import ObjectiveEntry
from stripewise.requests.objective import Bound, Objective
from stripewise.trial import MOST, Run, State

ENTRY_POINTS = "stripewise.observe.objectives"

_KINDS = Plugins(
    "objective",
    ENTRY_POINTS,
    ObjectiveKind,
    {
        "elapsed": "stripewise.observe.objectives.plain:Elapsed",
        "io_time": "stripewise.observe.objectives.reported:IoTime",
        "write_bandwidth": "stripewise.observe.objectives.reported:WriteBandwidth",
        "read_bandwidth": "stripewise.observe.objectives.reported:ReadBandwidth",
        "bandwidth": "stripewise.observe.objectives.reported:Bandwidth",
        "write_rate": "stripewise.observe.objectives.reported:WriteRate",
        "read_rate": "stripewise.observe.objectives.reported:ReadRate",
        "metadata_rate": "stripewise.observe.objectives.reported:MetadataRate",
        "sample_rate": "stripewise.observe.objectives.loaders:SampleRate",
        "busy_share": "stripewise.observe.objectives.loaders:BusyShare",
        "phase_bandwidth": "stripewise.observe.objectives.reported:PhaseBandwidth",
        "darshan_bandwidth": "stripewise.observe.objectives.darshan:DarshanBandwidth",
        "energy": "stripewise.observe.objectives.energy:Energy",
        "regex": "stripewise.observe.objectives.plain:Printed",
    },
)


class _OfRunner(ObjectiveKind):
    """What only the runner knows: the column of a replayed table, the value of a function."""

    name = about = "value"
    direction = None

    def value(self, outcome: Outcome) -> float:
        """See :meth:`ObjectiveKind.value`."""
        raise RunFailed("the runner gave no value of the objective")


def kinds() -> list[type[ObjectiveKind]]:
    """List all kinds that can be loaded; a broken one of another package is reported when its name is used."""
    found = []
    for name in _KINDS.names():
        with contextlib.suppress(UserError):
            found.append(_KINDS.load(name))
    return found


def usages() -> list[str]:
    """List all objectives as they are written, such as ``regex:PATTERN``."""
    return [kind.usage() for kind in kinds()]


def kind_of(name: str) -> ObjectiveKind:
    """Make the kind of a checked objective from its name.

    Names that are not registered are columns of a replayed table, or the value of a function.

    Raises
    ------
    UserError
        If the name is of a kind, but wrong.
    """
    kind, _, given = name.partition(":")
    found: ObjectiveKind = _KINDS.load(kind)(given) if kind in _KINDS.names() else _OfRunner()
    return found


def parse_objective(name: str, direction: str | None = None, unit: str | None = None) -> Objective:
    """Make an objective from what a user wrote.

    Raises
    ------
    UserError
        Unknown name, a wrong text behind its colon, or a missing or wrong direction.
    """
    kind = kind_of(name)
    if isinstance(kind, _OfRunner):
        raise UserError(f"objective '{name}' is unknown", choose(name, usages()))
    if direction not in (None, "minimize", "maximize"):
        raise UserError(f"direction '{direction}' is unknown", "use minimize or maximize")
    if kind.direction is None and direction is None:
        raise UserError(f"objective {name} has no direction", "add --direction minimize or maximize")
    if kind.direction is not None and direction not in (None, kind.direction):
        raise UserError(f"objective {name} is to be {kind.direction}d, not {direction}d", "leave --direction out")
    chosen = kind.direction or ("minimize" if direction == "minimize" else "maximize")
    return Objective(name, chosen, unit or kind.unit)


def objective_of(entry: ObjectiveEntry) -> Objective:
    """Make the objective of an experiment file; see :func:`parse_objective`."""
    objective = parse_objective(entry.name, entry.direction, entry.unit)
    if entry.program and not kind_of(entry.name).reported:
        known = ", ".join(kind.name for kind in kinds() if kind.reported)
        raise UserError(
            f"objective {entry.name} is of the whole command, not of its program {entry.program} alone",
            f"leave the program out, or choose from {known}",
        )
    for text in entry.subject_to:
        name = Bound.parse(text).name
        if isinstance(kind_of(name), _OfRunner):
            raise UserError(f"subject to '{text}': '{name}' is unknown", choose(name, usages()))
    return replace(objective, program=entry.program, subject_to=tuple(entry.subject_to))


def kinds_of(entry: ObjectiveEntry) -> tuple[ObjectiveKind, ...]:
    """Make the kinds of all that is measured in each run of an experiment: its objective first, then its limits."""
    return (kind_of(entry.name), *(kind_of(Bound.parse(text).name) for text in entry.subject_to))


def timing(objective: Objective) -> str:
    """Say in one sentence what is measured where people may expect something else; empty where nothing is to say."""
    kind = kind_of(objective.name)
    said = [f"of {objective.program} alone"] if objective.program else []
    said += [f"timed {kind.timed}"] if kind.timed else []
    about = "; ".join([", ".join(said), *([kind.leaves_room] if kind.leaves_room else [])])
    return f"objective {objective.name}: {about}" if about else ""


def measure(objective: Objective, outcome: Outcome, units: MutableMapping[str, str] | None = None) -> float:
    """Give the objective's value of a finished run.

    Values that the runner knows by itself (replayed and simulated runs) win over anything else.

    Parameters
    ----------
    units : mapping, optional
        By objective, the unit that the first run printed: values are given in it. What is not known yet is added.

    Raises
    ------
    RunFailed
        If the run did not finish or has no value, with the reason and what to do.
    """
    if outcome.state is not State.FINISHED:
        raise RunFailed(outcome.reason or f"the run {outcome.state.value}")
    value = _read(objective.name, outcome, units)
    if value <= 0:
        raise RunFailed(
            f"the objective {objective.name} is {value:g}, but must be above zero, because gains are ratios"
        )
    return value


def _read(name: str, outcome: Outcome, units: MutableMapping[str, str] | None) -> float:
    if name in outcome.metrics:
        value = float(outcome.metrics[name])
    else:
        value, unit = kind_of(name).read(outcome)
        # A program that prints 950 MB/s may print 1.1 GB/s with other settings.
        try:
            value = value if units is None else convert(value, unit, units.setdefault(name, unit))
        except ValueError as error:
            raise RunFailed(str(error), "let the pattern match numbers in one kind of unit") from error
    if value and not 1 / MOST < abs(value) < MOST:
        raise RunFailed(f"the objective {name} is {value}, which is not a measurement")
    return value


def ended_run(
    planned: Run,
    outcome: Outcome,
    objective: Objective,
    facts: RunFacts,
    censored: float | None = None,
    units: MutableMapping[str, str] | None = None,
) -> Run:
    """Give a planned run with what came of it: its value, or the reason why it has none.

    ``censored`` is the value that a run which was cut is known to be worse than, where its wall time is not that value.
    ``units`` is as for :func:`measure`.
    """
    state, value, reason = outcome.state, None, outcome.reason
    if state is State.FINISHED:
        try:
            value = measure(objective, outcome, units)
            if objective.subject_to:
                facts = facts.with_(
                    subject_to={text: _read(Bound.parse(text).name, outcome, units) for text in objective.subject_to}
                )
            if broken := facts.broken:
                raise RunFailed(f"broke {broken}: it was {facts.subject_to[broken]:.6g}")
        except RunFailed as failure:
            state, value, reason = State.FAILED, None, str(failure)
    elif state is State.PRUNED:
        value = outcome.elapsed if kind_of(objective.name).wall_time else censored
    elapsed, started = outcome.elapsed, outcome.started
    return replace(planned, state=state, value=value, elapsed=elapsed, started=started, reason=reason, facts=facts)
