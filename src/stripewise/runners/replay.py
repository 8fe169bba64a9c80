"""Runner that answers from a measured table: searches can be studied without the machine that was measured."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from typing import ClassVar

import numpy as np

from stripewise.catalogue.configuration import Configuration, Value
from stripewise.errors import UserError
from stripewise.facts import RunFacts
from stripewise.launch import Launch, Outcome
from stripewise.models.landscape import Landscape, TableSpace, describe_workload
from stripewise.models.table import Table, read_table
from stripewise.models.tunables import bytes_of, list_derived_settings, tunable_columns
from stripewise.requests.objective import Objective
from stripewise.runners.base import AnsweringRunner, Preflight
from stripewise.trial import State

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}


class ReplayRunner(AnsweringRunner):
    """Answers a run with one of the values that were measured for its configuration.

    Which one is drawn depends on the seed, the number of the run and the configuration alone; so an experiment that
    was interrupted goes on as it would have gone on. Figures are measurements of another day, or simulated where the
    table's description says so.

    Parameters
    ----------
    table : str or Landscape
        A table's path, followed by ``@NAME=VALUE,...`` to pick one of several contexts; or a landscape in memory.
    seed : int
    """

    name = "replay"
    kind: ClassVar[str] = "replayed"

    def __init__(self, table: str | Landscape, seed: int = 0) -> None:
        super().__init__()
        self._table = table
        self._seed = seed
        self._landscape = table if isinstance(table, Landscape) else None

    @property
    def landscape(self) -> Landscape:
        """The measurements, read when they are first needed.

        Raises
        ------
        UserError
            If they cannot be read, or there are several contexts and none is picked.
        """
        if self._landscape is None:
            assert isinstance(self._table, str)
            self._landscape = open_landscape(self._table)
        return self._landscape

    def prepare(self) -> Preflight:
        """Read the table; it brings its own space and objective."""
        land = self.landscape
        schema = land.table.schema
        self.simulated = "simulated" in schema.description.lower()
        context = ", ".join(f"{name}={value}" for name, value in land.context.items())
        about = {"table": schema.name, "context": dict(land.context), "source": schema.source}
        return Preflight(
            summary=(
                f"replay    {len(land.table)} measurements of {len(land.space.points)} configurations, table "
                f"{schema.name}{f' ({context})' if context else ''}; nothing is launched",
            ),
            fingerprint={"the table": _digest(land.table)},
            environment=about,
            workload=describe_workload(land.table, land.context),
            space=_carry_table(land),
            objective=land.table.objective,
        )

    def answer(self, launch: Launch) -> Outcome:
        """Draw one of the values that were measured."""
        land, started = self.landscape, time.time()
        facts = RunFacts(nodes=describe_workload(land.table, land.context).nodes or 1, replayed=land.table.name)
        configuration = launch.configuration or land.space.default
        point = int(land.space.index(land.space.levels([configuration]))[0])
        if point < 0:
            return Outcome(
                launch.number,
                State.FAILED,
                0.0,
                started,
                "the table has no measurement of this configuration",
                facts=facts,
            )
        measured = land.runs(point)
        value = float(measured[_draw(self._seed, launch.number, configuration, len(measured))])
        elapsed = _elapsed(land.table.objective, value)
        for limit, state, what in (
            (launch.bound, State.PRUNED, launch.cut_after),
            (launch.timeout, State.FAILED, "longer than its time limit of {:g} s".format),
        ):
            if limit is not None and elapsed > limit:
                return Outcome(launch.number, state, limit, started, what(limit), facts=facts)
        metrics = {land.table.objective.name: value}
        return Outcome(launch.number, State.FINISHED, elapsed, started, exit_code=0, metrics=metrics, facts=facts)


def open_landscape(text: str) -> Landscape:
    """Read the table, and pick the context, that a runner's name asks for.

    Parameters
    ----------
    text : str
        ``PATH`` or ``PATH@NAME=VALUE,NAME=VALUE``.

    Raises
    ------
    UserError
        If the table cannot be read, or it has several such contexts.
    """
    path, _, rest = text.partition("@")
    table = read_table(path)
    wanted: dict[str, Value] = {}
    names = [column.name for column in table.schema.context]
    for word in rest.split(",") if rest else []:
        name, equals, value = word.partition("=")
        if not equals or name not in names:
            choices = f"contexts are picked by {', '.join(names)}" if names else "this table has no contexts"
            raise UserError(f"replay:{text}: '{word}' picks no context of table {table.name}", choices)
        wanted[name] = value
    found = table.take(table.of(wanted)).contexts() if wanted else table.contexts()
    if len(found) != 1:
        shown = "; ".join(",".join(f"{k}={v}" for k, v in context.items()) for context in found[:3])
        raise UserError(
            f"table {table.name} has {len(found)} such contexts{f' ({shown}, ...)' if found else ''}",
            f"pick one: replay:{path}@"
            + (",".join(f"{k}={v}" for k, v in found[0].items()) if found else "NAME=VALUE"),
        )
    return Landscape.of(table, found[0])


def _carry_table(land: Landscape) -> TableSpace:
    """Say by which hint or layout parameters are set that a stack knows, so that what is found can be applied."""
    space = land.space
    set_by = {tunable.name: tunable for tunable in tunable_columns(land.table.schema) if bytes_of(tunable.column) == 1}
    parameters = tuple(
        replace(p, carrier=tunable.parameter.carrier, key=tunable.parameter.setting, layer=tunable.parameter.layer)
        if (tunable := set_by.get(p.name)) is not None and tunable.parameter is not None
        else p
        for p in space.parameters
    )
    # The space's context has a word for everything; what follows from settings needs what the table does say.
    words = {*space.names, *describe_workload(land.table, land.context).model_dump(exclude_none=True)}
    derived = tuple(entry for entry in list_derived_settings(list(set_by.values())) if entry.value.names <= words)
    return replace(space, parameters=parameters, derived=derived)


def _draw(seed: int, number: int, configuration: Configuration, count: int) -> int:
    key = int.from_bytes(hashlib.sha256(f"{seed} {number} {configuration.key}".encode()).digest()[:16])
    return int(np.random.Generator(np.random.Philox(key=key)).integers(count))


def _elapsed(objective: Objective, value: float) -> float:
    """Seconds that the run took where the objective is a time; nothing is known otherwise."""
    return value * _SECONDS[objective.unit] if not objective.maximize and objective.unit in _SECONDS else 0.0


def _digest(table: Table) -> str:
    digest = hashlib.sha256(table.schema.model_dump_json().encode())
    for part in (table.levels, table.context_levels, table.repeats, table.values):
        digest.update(np.ascontiguousarray(part).tobytes())
    return f"{table.name} ({digest.hexdigest()[:12]})"
