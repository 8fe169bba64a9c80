"""What a campaign may measure: each combination of workload and tunables that means something, by operation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from stripewise.catalogue.carriers import ARGUMENT, ENVIRONMENT, LAYOUT, Setting
from stripewise.catalogue.configuration import Configuration, Value
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.factor import WORKLOAD_ROLES, Factor, Tunable
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.plan import settings_of, spell
from stripewise.catalogue.space import Derived, Space
from stripewise.catalogue.stack import OffEntry, Stack, all_off, load_stack
from stripewise.catalogue.workload import Workload
from stripewise.documents import explain_validation
from stripewise.errors import UserError
from stripewise.requests.campaign import Campaign

_MOST = 2_000_000
_MOST_WORKLOADS = 20_000
"""Each has a space of its own, which takes most of the time."""


@dataclass(frozen=True)
class Point:
    """One combination, measured by one kind of run.

    Attributes
    ----------
    operation : {"read", "write"}
    values : Configuration
        Of every factor, by name.
    workload : Workload
        What the program does, tunable words (the transfer size, collective or not) included.
    """

    operation: str
    values: Configuration
    workload: Workload

    @property
    def processes(self) -> int:
        """All ranks; 1 where nothing is said."""
        return self.workload.processes or 1

    @property
    def share(self) -> int | None:
        """Bytes of a rank, if the file's size is known."""
        return None if self.workload.file_size is None else self.workload.file_size // self.processes

    @property
    def transfer(self) -> int | None:
        """Bytes of one call; a rank's share is the most that one call can move."""
        size = self.workload.transfer_size
        if self.share is None or size is None:
            return size if self.share is None else None
        return min(size, self.share)


class Points:
    """The combinations of a campaign.

    Raises
    ------
    UserError
        If a tunable cannot be set in any known way, or an expression is wrong.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        varied = {tunable.name for tunable in campaign.tunable if tunable.carrier is None}
        self._stacks = [load_stack(name).with_switch(varied) for name in campaign.stacks]
        self._constraints = [Expression.parse(text) for text in campaign.constraints]
        self._known = {parameter.name: parameter for stack in self._stacks for parameter in stack.parameters}
        for tunable in campaign.tunable:
            self._parameter(tunable)
        self._cache: dict[str, tuple[Point, ...]] = {}
        self._spaces: dict[tuple[Value, ...], Space] = {}
        self.left_out = 0
        """Combinations that the program cannot run: a rank's share is not a whole number of transfers or pieces."""

    def of(self, operation: str) -> tuple[Point, ...]:
        """Give all combinations of an operation, each behaviour once, in grid order.

        Raises
        ------
        UserError
            If there are none, or more than two million.
        """
        if operation not in self._cache:
            found = tuple(self._points(operation))
            if not found:
                raise UserError(
                    f"campaign {self.campaign.name} has no combination for {operation}",
                    "loosen the constraints; a rank's share of file_size must be a whole number of transfers",
                )
            self._cache[operation] = found
        return self._cache[operation]

    @cached_property
    def all(self) -> tuple[Point, ...]:
        """All combinations of all operations, one operation after the other."""
        return tuple(point for operation in self.campaign.operations for point in self.of(operation))

    def point(self, operation: str, values: Mapping[str, Value]) -> Point | None:
        """Give the point of some values, folded; None where a constraint or the program forbids it.

        Raises
        ------
        UserError
            If a tunable has no such value.
        """
        given, tuned, space = self._bound(operation, values)
        chosen: Mapping[str, Value] = {}
        if tuned:
            levels = space.levels([{factor.name: values[factor.name] for factor in tuned}])
            if not space.feasible(levels)[0]:
                return None
            chosen = space.configuration(levels[0])
        every = {**given, **chosen}
        folded = Configuration({factor.name: every[factor.name] for factor in self.campaign.factors})
        point = Point(operation, folded, self._workload(operation, folded))
        return point if self._possible(point) else None

    def settings(self, point: Point) -> tuple[Setting, ...]:
        """Give what brings a point's tunables to the program that are not words of its command line.

        Hints and variables are left out where they are at their default, which the program has by itself; file layouts
        are always given.
        """
        values = point.values
        _, tuned, space = self._bound(point.operation, values)
        chosen = Configuration({f.name: values[f.name] for f in tuned})
        found = [s for s in settings_of(space, chosen) if s.carrier is not ARGUMENT] if tuned else []
        found += [
            Setting(ENVIRONMENT, key, value)
            for stack in self._switches()
            for key, value in stack.exports(_is_on(stack, point)).items()
        ]
        named = {(s.carrier, s.key) for s in found}
        for factor in self.campaign.tunable:
            parameter = self._stacked(factor)
            carrier = parameter.carrier if parameter is not None else factor.carrier
            if carrier is None or carrier is ARGUMENT:
                continue
            name = parameter.setting if parameter is not None else factor.key or factor.name
            always = carrier is LAYOUT or (parameter is None and factor.default is None)
            if always and (carrier, name) not in named:
                layer = parameter.layer if parameter is not None else ""
                found.append(Setting(carrier, name, spell(values[factor.name]), layer))
        return tuple(found)

    def off(self, point: Point) -> OffEntry:
        """Give how a point's runs are made without the components that are off in it."""
        entries = [stack.off for stack in self._switches() if stack.off is not None and not _is_on(stack, point)]
        return all_off(entries)

    def _switches(self) -> list[Stack]:
        """The stacks whose components are switched on and off."""
        return [stack for stack in self._stacks if stack.switch is not None and stack.switch in stack.parameters]

    def levels(self, operation: str) -> NDArray[np.float64]:
        """Place each point of :meth:`of` on the unit cube, shape ``(n, d)``: ranks of values on every factor's axis."""
        points = self.of(operation)
        columns = []
        for factor in self.campaign.factors:
            values = _order({point.values[factor.name] for point in points}, factor)
            place = {repr(value): index / max(1, len(values) - 1) for index, value in enumerate(values)}
            columns.append([place[repr(point.values[factor.name])] for point in points])
        return np.array(columns, dtype=np.float64).T.reshape(len(points), len(columns))

    # -- building ------------------------------------------------------------------------------------------

    def _points(self, operation: str) -> Iterator[Point]:
        campaign = self.campaign
        grid = math.prod(len(factor.values) for factor in campaign.factors)
        if grid > _MOST:
            raise UserError(
                f"campaign {campaign.name} has {grid:,} combinations, more than the {_MOST:,} that can be listed",
                "give fewer values",
            )
        fixed, tuned = self._apart(operation)
        if (workloads := math.prod(len(factor.values) for factor in fixed)) > _MOST_WORKLOADS:
            raise UserError(
                f"campaign {campaign.name} has {workloads:,} workloads, more than the {_MOST_WORKLOADS:,} that can be "
                "looked at",
                "give fewer values",
            )
        seen: set[Configuration] = set()
        for row in itertools.product(*(factor.values for factor in fixed)):
            given = {factor.name: value for factor, value in zip(fixed, row, strict=True)}
            space = self._space(operation, given, tuned)
            for levels in space.enumerate(_MOST) if tuned else [None]:
                chosen = {} if levels is None else space.configuration(levels)
                every = {**given, **chosen}
                values = Configuration({factor.name: every[factor.name] for factor in campaign.factors})
                if values in seen:
                    continue
                seen.add(values)
                point = Point(operation, values, self._workload(operation, values))
                if self._possible(point):
                    yield point
                else:
                    self.left_out += 1

    def _stacked(self, factor: Factor) -> Parameter | None:
        """The stack's parameter that a tunable is, if any."""
        own = not isinstance(factor, Tunable) or factor.carrier is not None
        return None if own else self._known.get(factor.name)

    def _apart(self, operation: str) -> tuple[list[Factor], list[Tunable]]:
        """Factors that are the operation's workload, and those that are tuned or mean nothing to it."""

        def tuned(factor: Tunable) -> bool:
            parameter = self._stacked(factor)
            # What cannot influence the operation (a hint for writes, to a reader) folds to its default with the others.
            return operation in factor.operations or (parameter is not None and operation not in parameter.operations)

        chosen = [factor for factor in self.campaign.tunable if tuned(factor)]
        return [factor for factor in self.campaign.factors if factor not in chosen], chosen

    def _bound(self, operation: str, values: Mapping[str, Value]) -> tuple[dict[str, Value], list[Tunable], Space]:
        """Give the values of what is not tuned, what is, and its space, which is made once for these values."""
        fixed, tuned = self._apart(operation)
        given = {factor.name: values[factor.name] for factor in fixed}
        key = (operation, *given.values())
        if key not in self._spaces:
            self._spaces[key] = self._space(operation, given, tuned)
        return given, tuned, self._spaces[key]

    def _space(self, operation: str, given: Mapping[str, Value], tuned: list[Tunable]) -> Space:
        workload = self._workload(operation, given)
        words = workload.words()
        names = {factor.name for factor in tuned}
        # A parameter that the campaign does not vary acts at its default, and conditions on it see just that.
        still = {p.name: p.bind(words).default for p in self._known.values() if p.name not in names | given.keys()}
        context = {**still, **{k: v for k, v in words.items() if k not in names}, **given}
        parameters = tuple(self._parameter(factor).bind(words) for factor in tuned)
        parameters = tuple(p if p.meets(workload.api) else _fix_parameter(p) for p in parameters)
        known = names | context.keys()
        derived = [d for s in self._stacks for d in s.derived if d.value.names <= known and d.value.names & names]
        own = [c for s in self._stacks for c in s.constraints if c.names <= known]
        for constraint in self._constraints:
            unknown = constraint.names - known
            if unknown:
                raise UserError(
                    f"constraint '{constraint.text}' names {sorted(unknown)[0]}, which is neither a factor nor a word",
                    f"known: {', '.join(sorted(known))}",
                )
        return Space(parameters, (*own, *self._constraints), tuple(_list_usable(derived, known)), context)

    def _parameter(self, factor: Tunable) -> Parameter:
        kind = Kind.ORDINAL if factor.ordered else Kind.CATEGORICAL
        values = list(factor.values)
        stack = self._stacked(factor)
        if stack is None:
            self._check_way(factor)
            default = factor.values[0] if factor.default is None else factor.default
            return Parameter(
                name=factor.name,
                kind=kind,
                values=tuple(_order({*values, default}, factor)),
                default=default,
                unit=factor.unit or "",
                scale=Scale(factor.axis),
                role=factor.role,
                carrier=factor.carrier or ARGUMENT,
                key=factor.key,
                active_if=None if factor.active_if is None else Expression.parse(factor.active_if),
            )
        changed = replace(stack, values=tuple(values), default=values[0], role=factor.role, scale=Scale(factor.axis))
        if stack.carrier is LAYOUT:
            # A layout is always made explicitly, whatever the directory says; none stands for "not set".
            return replace(
                changed,
                default=factor.values[0] if factor.default is None else factor.default,
                values=tuple(values),
                active_if=None,
                same_as_default=None,
                default_from=None,
            )
        # The program as it is run today is always measured: elsewhere the default is what happens if nothing is set.
        wanted = _order({*values, stack.default}, factor) if stack.default_from is None else values
        return replace(
            changed, values=tuple(wanted), default=stack.default if stack.default_from is None else values[0]
        )

    def _check_way(self, factor: Tunable) -> None:
        if factor.carrier is not None or factor.role in WORKLOAD_ROLES:
            return
        campaign = self.campaign
        if not campaign.launches:
            return
        if any("{" + (factor.key or factor.name) + "}" in word for word in campaign.command):
            return
        raise UserError(
            f"[[tunable]] {factor.name}: nothing says how it is set",
            "name a stack that has it, give carrier, or put {" + factor.name + "} into the command",
        )

    def _workload(self, operation: str, values: Mapping[str, Value]) -> Workload:
        words: dict[str, Any] = {"operation": operation}
        for factor in self.campaign.factors:
            if factor.role in WORKLOAD_ROLES and factor.name in values:
                words[factor.role] = values[factor.name]
        processes = words.pop("processes", None)
        nodes = words.setdefault("nodes", 1)
        if processes is not None:
            if processes % nodes:
                raise UserError(
                    f"{processes} processes do not spread evenly over {nodes} nodes", "give processes_per_node"
                )
            words["processes_per_node"] = processes // nodes
        words.setdefault("processes_per_node", 1)
        try:
            return Workload.model_validate(words)
        except ValidationError as error:
            raise explain_validation(error, f"campaign {self.campaign.name}: workload") from error

    def _possible(self, point: Point) -> bool:
        workload, share = point.workload, point.share
        if workload.api == "posix" and workload.collective:
            # POSIX has no collective calls: the same as without, where that is measured anyway.
            asked = next(factor for factor in self.campaign.factors if factor.role == "collective")
            if False in asked.values:
                return False
        if share is None or self.campaign.program == "command":
            return True
        if share == 0 or (workload.file_size or 0) % point.processes:
            return False
        transfer, piece = point.transfer or share, workload.piece_size
        if workload.layout == "tile":
            return True
        if share % transfer:
            return False
        return piece is None or workload.layout != "strided" or (piece <= transfer and transfer % piece == 0)


def _is_on(stack: Stack, point: Point) -> bool:
    return stack.switch is None or point.values[stack.switch.name] is True


def _fix_parameter(parameter: Parameter) -> Parameter:
    return replace(parameter, values=(parameter.default,), active_if=None, same_as_default=None)


def _list_usable(derived: list[Derived], known: set[str]) -> Iterator[Derived]:
    for entry in derived:
        if entry.active_if is None or entry.active_if.names <= known:
            yield entry


def _order(values: set[Any], factor: Factor) -> list[Any]:
    if factor.ordered and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return sorted(values, key=float)
    first = [value for value in factor.values if value in values]
    return [*first, *sorted((value for value in values if value not in factor.values), key=str)]
