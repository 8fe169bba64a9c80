"""The space of configurations: parameters, constraints, activity conditions and derived settings.

Inside, a configuration is a row of *levels*, the index of each parameter's value, so that millions can be folded,
checked and enumerated as one integer array of shape ``(n, d)``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.carriers import Carrier
from stripewise.catalogue.configuration import Configuration, Value
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.grid import CHUNK, Grid, Levels, levels_at
from stripewise.catalogue.parameter import Parameter, Safety
from stripewise.errors import UserError


@dataclass(frozen=True)
class Derived:
    """A setting computed from others, as ``cb_config_list`` from ``cb_nodes``.

    Attributes
    ----------
    name : str
        The carrier's name of the setting.
    carrier, layer : Carrier, str
        As in :class:`Parameter`.
    template : str
        The value with ``{value}`` in place of the computed number.
    value : Expression
        The number.
    active_if : Expression or None
        When to emit it; it is also left out while every parameter that it needs is at its default.
    """

    name: str
    carrier: Carrier
    layer: str
    template: str
    value: Expression
    active_if: Expression | None = None


@dataclass(frozen=True)
class Knowledge:
    """A piece of expert knowledge: under a condition, performance is expected to change by a factor.

    Attributes
    ----------
    condition : Expression
        Over parameters and workload words.
    gain : float
        Expected ratio of performance to that without the condition; above 1 is faster.
    source : str
        Where it is known from.
    doubt : float or None
        Standard deviation of the natural logarithm of the gain between other workloads and systems, where it was
        measured on some; None for an expectation.
    """

    condition: Expression
    gain: float
    source: str
    doubt: float | None = None


__all__ = ["Derived", "Knowledge", "Levels", "Space"]

_LONG = 64
_LARGEST_TABLE = 1 << 12
"""Combinations for which the outcome of a rule is kept."""


def _array(values: Sequence[Value]) -> NDArray[Any]:
    """Give values as an array.

    Long texts are objects, because each text of an array takes the room of the longest; and so are values of several
    types, which NumPy would make one: 3 beside a text becomes a text, true beside a number becomes 1.
    """
    if isinstance(values, range):
        return np.asarray(values)
    kinds = {"text" if isinstance(v, str) else "truth" if isinstance(v, bool) else "number" for v in values}
    long = any(isinstance(value, str) and len(value) > _LONG for value in values)
    apart = len(kinds) > 1 or len(set(values)) < len(values)
    return np.asarray(values, dtype=object) if long or apart else np.asarray(values)


@dataclass(frozen=True)
class Space(Grid):
    """Parameters bound to a workload, with their constraints.

    Attributes
    ----------
    parameters : tuple of Parameter
        Bound (see :meth:`bind`).
    constraints : tuple of Expression
        All must hold.
    derived : tuple of Derived
        Settings computed from the parameters.
    context : mapping
        The words of the workload, as used by expressions.
    knowledge : tuple of Knowledge
        Expert expectations, for samplers that start from a prior.
    """

    parameters: tuple[Parameter, ...]
    constraints: tuple[Expression, ...] = ()
    derived: tuple[Derived, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)
    knowledge: tuple[Knowledge, ...] = ()
    listed: ClassVar[bool] = False
    """Whether all feasible configurations are listed, so that there are few of them however large the grid is."""

    @classmethod
    def bind(
        cls,
        parameters: Sequence[Parameter],
        constraints: Sequence[Expression] = (),
        derived: Sequence[Derived] = (),
        context: Mapping[str, Any] | None = None,
        knowledge: Sequence[Knowledge] = (),
    ) -> Space:
        """Bind parameters to a workload and check that the default is feasible.

        Raises
        ------
        UserError
            Duplicate names, corrupting parameters, cyclic activity, unknown names in an expression, a default that a
            constraint forbids.
        """
        words = dict(context or {})
        names = [parameter.name for parameter in parameters]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"two parameters are called {name}", "rename one under [parameters]")
            if name in words:
                raise UserError(f"parameter {name} has the name of a word of the workload", "rename it")
        for parameter in parameters:
            if parameter.safety is Safety.CORRUPTING:
                raise UserError(f"{parameter.name} can corrupt data and is never searched", "remove it")
        bound = tuple(parameter.bind(words) for parameter in parameters)
        space = cls(bound, tuple(constraints), tuple(derived), words, tuple(knowledge))
        space._order  # noqa: B018  raises on cycles
        default = space._encode(space.default)
        for constraint in space.constraints:
            if not bool(np.all(constraint(space.columns(default)))):
                raise UserError(
                    f"the default configuration breaks the constraint '{constraint.text}'",
                    "the default is the baseline: change the constraint or the default",
                )
        return space

    # -- shape ---------------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Parameter names in order."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each parameter."""
        return tuple(len(parameter.values) for parameter in self.parameters)

    @cached_property
    def default(self) -> Configuration:
        """The configuration in which nothing is set."""
        return Configuration({parameter.name: parameter.default for parameter in self.parameters})

    def __getitem__(self, name: str) -> Parameter:
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        raise UserError(f"no parameter is called {name}", f"known: {', '.join(self.names)}")

    # -- levels and values ---------------------------------------------------------------------------------

    @cached_property
    def _values(self) -> tuple[NDArray[Any], ...]:
        return tuple(_array(parameter.values) for parameter in self.parameters)

    @cached_property
    def _default_levels(self) -> Levels:
        levels: Levels = self._encode(self.default)[0]
        return levels

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """Indices of conditional parameters, each after those that its condition needs."""
        remaining = {p.name: frozenset().union(*(c.names for c in p.rules)) for p in self.parameters if p.rules}
        order: list[int] = []
        while remaining:
            ready = [name for name, needs in remaining.items() if not (needs - {name}) & remaining.keys()]
            if not ready:
                raise UserError(
                    f"activity conditions of {', '.join(sorted(remaining))} need one another",
                    "break the cycle",
                )
            for name in ready:
                order.append(self.names.index(name))
                del remaining[name]
        return tuple(order)

    def _encode(self, configuration: Mapping[str, Value]) -> Levels:
        unknown = configuration.keys() - set(self.names)
        if unknown:
            raise UserError(f"no parameter is called {sorted(unknown)[0]}", f"known: {', '.join(self.names)}")
        missing = set(self.names) - configuration.keys()
        if missing:
            raise UserError(f"configuration gives no value for {sorted(missing)[0]}")
        return np.array([[p.level(configuration[p.name]) for p in self.parameters]], dtype=np.int64)

    def levels(self, configurations: Sequence[Mapping[str, Value]]) -> Levels:
        """Encode configurations, shape ``(n, d)``, folded."""
        if not configurations:
            return np.empty((0, len(self.parameters)), dtype=np.int64)
        return self.fold(np.concatenate([self._encode(configuration) for configuration in configurations]))

    def configuration(self, levels: NDArray[np.int64]) -> Configuration:
        """Decode one row of levels, as it is."""
        return Configuration({p.name: p.values[int(level)] for p, level in zip(self.parameters, levels, strict=True)})

    def columns(self, levels: Levels) -> dict[str, Any]:
        """Values by name as arrays of length ``n``, with the workload's words as scalars."""
        columns: dict[str, Any] = dict(self.context)
        for index, values in enumerate(self._values):
            columns[self.names[index]] = values[levels[:, index]]
        return columns

    # -- rules ---------------------------------------------------------------------------------------------

    @cached_property
    def _tables(self) -> dict[Expression, tuple[tuple[int, ...], NDArray[np.bool_]] | None]:
        return {}

    def _holds(self, rule: Expression, levels: Levels) -> NDArray[np.bool_]:
        """Say in which rows a rule holds, shape ``(n,)``: evaluated once for each combination of what it names."""
        if rule not in self._tables:
            self._tables[rule] = self._tabulate(rule)
        table = self._tables[rule]
        if table is not None and table[0]:
            indices, outcomes = table
            found: NDArray[np.bool_] = outcomes[tuple(levels[:, index] for index in indices)]
            return found
        outcome = np.asarray(rule(self.columns(levels)), dtype=bool) if table is None else table[1]
        return np.broadcast_to(outcome, (len(levels),))

    def _tabulate(self, rule: Expression) -> tuple[tuple[int, ...], NDArray[np.bool_]] | None:
        """Give the parameters that a rule names, and its outcome for their levels; None where a table does not serve.

        A rule may be impossible to compute for combinations that no row has.
        """
        indices = tuple(index for index, name in enumerate(self.names) if name in rule.names)
        shape = tuple(self.shape[index] for index in indices)
        if math.prod(shape) > _LARGEST_TABLE:
            return None
        levels = np.tile(self._default_levels, (math.prod(shape), 1))
        levels[:, indices] = levels_at(np.arange(len(levels)), shape)
        try:
            outcome = np.asarray(rule(self.columns(levels)), dtype=bool)
        except UserError:
            return None
        return indices, np.broadcast_to(outcome, (len(levels),)).reshape(shape)

    def _acts(self, index: int, levels: Levels) -> NDArray[np.bool_]:
        """Say in which rows the value of a parameter means something and is not what the default does."""
        active, same = self.parameters[index].active_if, self.parameters[index].same_as_default
        acts = np.ones(len(levels), dtype=bool) if active is None else self._holds(active, levels)
        return acts if same is None else acts & ~self._holds(same, levels)

    def fold(self, levels: Levels) -> Levels:
        """Set inactive parameters, and those that act as their default does, to it: equal behaviour has one form.

        Parameters
        ----------
        levels : ndarray, shape (n, d)

        Returns
        -------
        ndarray, shape (n, d)
            A new array.
        """
        return self._fold(levels, self._order)

    def _fold(self, levels: Levels, order: Iterable[int]) -> Levels:
        folded = np.array(levels, dtype=np.int64, copy=True)
        # Most parameters of a row have their default, which needs no fold.
        changed = np.any(folded != self._default_levels, axis=0)
        for index in order:
            if changed[index]:
                folded[~self._acts(index, folded), index] = self._default_levels[index]
        return folded

    def active(self, levels: Levels) -> NDArray[np.bool_]:
        """Say which parameters mean something in each configuration, shape ``(n, d)``; ``levels`` are folded first."""
        folded = self.fold(levels)
        result = np.ones(folded.shape, dtype=bool)
        for index in self._order:
            condition = self.parameters[index].active_if
            if condition is not None:
                result[:, index] = self._holds(condition, folded)
        return result

    @cached_property
    def live(self) -> frozenset[str]:
        """Names of the parameters that can differ from their default after folding, in some configuration."""
        return frozenset(name for index, name in enumerate(self.names) if self._can_act(index))

    def _can_act(self, index: int) -> bool:
        involved = {index}
        while True:
            conditions = [rule for i in involved for rule in self.parameters[i].rules]
            needed = {self.names.index(name) for c in conditions for name in c.names & set(self.names)}
            if needed <= involved:
                break
            involved |= needed
        order = sorted(involved)
        shape = tuple(self.shape[i] for i in order)
        if math.prod(shape) > CHUNK:
            return True
        levels = np.tile(self._default_levels, (math.prod(shape), 1))
        levels[:, order] = levels_at(np.arange(len(levels)), shape)
        folded = self._fold(levels, (i for i in self._order if i in involved))
        return bool(np.any(folded[:, index] != self._default_levels[index]))

    def feasible(self, levels: Levels) -> NDArray[np.bool_]:
        """Say which configurations satisfy every constraint, shape ``(n,)``."""
        result = np.ones(len(levels), dtype=bool)
        for constraint in self.constraints:
            result &= self._holds(constraint, levels)
        return result

    def canonical(self, configuration: Mapping[str, Value]) -> Configuration:
        """Fold one configuration.

        Raises
        ------
        UserError
            If a name or value is unknown, or a constraint is broken.
        """
        levels = self.fold(self._encode(configuration))
        if not self.feasible(levels)[0]:
            broken = next(c for c in self.constraints if not self._holds(c, levels)[0])
            raise UserError(broken.reason or f"configuration breaks the constraint '{broken.text}'")
        return self.configuration(levels[0])
