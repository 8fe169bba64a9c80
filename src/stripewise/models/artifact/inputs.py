"""The inputs of an artifact: a model's columns with their values, carriers and the stacks' rules between them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from stripewise.catalogue.configuration import place_of, plain_number
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Parameter
from stripewise.catalogue.plan import spell
from stripewise.catalogue.stack import Stack
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.formats import CONTEXT, TUNABLE, Op
from stripewise.models.artifact.content import ArtifactInput, DerivedSetting, InputValue, Texts
from stripewise.models.artifact.program import Program, apply, compile_expression, constant, read
from stripewise.models.domain import Apart, Domain
from stripewise.models.measured import NUMBER_ROLES, find_harms, is_true
from stripewise.models.table import Column
from stripewise.models.tunables import (
    SetBy,
    TunableColumn,
    bytes_of,
    find_stand_in,
    known_parameters,
    list_derived_settings,
    tunable_columns,
)


class Inputs:
    """Inputs of the artifact of a domain.

    Parameters
    ----------
    file_system : str, optional
        Whose layout stripes are.

    Attributes
    ----------
    words : dict of str to int
        Words of the workload that rules look at and no column is, in the order in which rules named them: they follow
        the columns.
    columns : int
        How many the domain has.
    """

    def __init__(self, domain: Domain, file_system: str | None) -> None:
        self._domain = domain
        self._tunables = {tunable.place: tunable for tunable in tunable_columns(domain.schema, file_system)}
        self.texts = Texts()
        self.words: dict[str, int] = {}
        self.columns = len(domain.columns)

    @cached_property
    def _known(self) -> dict[str, tuple[Stack, Parameter]]:
        return known_parameters(self._domain.schema)

    @cached_property
    def places(self) -> dict[int, int]:
        """Number of each column's input: in the order of the table, but each after those that its rules need."""
        remaining = list(range(self.columns))
        done: list[int] = []
        while remaining:
            ready = [p for p in remaining if not self._needs(p) & set(remaining) - {p}]
            if not ready:
                raise UserError("conditions of the table's parameters need one another", "break the cycle")
            done.append(ready[0])
            remaining.remove(ready[0])
        return {place: number for number, place in enumerate(done)}

    def every(self) -> list[ArtifactInput]:
        """All columns' inputs."""
        return [self.input(place) for place in self.places]

    def _needs(self, place: int) -> set[int]:
        names = {name for rule in self._rules(place) for name in rule.names}
        return {other for other in range(self.columns) if self._called(other) & names}

    def _rules(self, place: int) -> list[Expression]:
        return [rule for rule in (self._active(place), self._same(place)) if rule is not None]

    def _called(self, place: int) -> set[str]:
        """The names by which rules know a column: its own and its stack parameter's."""
        tunable = self._tunables.get(place)
        names = {self._domain.names[place]}
        if tunable is not None and tunable.parameter is not None:
            names.add(tunable.parameter.name)
        return names

    def _active(self, place: int) -> Expression | None:
        tunable = self._tunables.get(place)
        if tunable is not None and tunable.parameter is not None and tunable.parameter.active_if is not None:
            return tunable.parameter.active_if
        return next((condition for index, _, condition in self._domain.folds if index == place), None)

    def _same(self, place: int) -> Expression | None:
        tunable = self._tunables.get(place)
        return None if tunable is None or tunable.parameter is None else tunable.parameter.same_as_default

    def number(self, value: Any) -> float:
        """A value as programs see it: texts by their code."""
        return float(self.texts.code(value)) if isinstance(value, str) else float(value)

    def input(self, place: int) -> ArtifactInput:
        """The input of a column, with its values, carrier and rules."""
        column, tunable = self._domain.columns[place], self._tunables.get(place)
        seen = self._domain.seen[place]
        kept = [
            column.values[position]
            for position in (seen if column.kind == "categorical" else range(len(column.values)))
        ]
        default = place_of(column.default, kept)
        if default is None and tunable is not None and tunable.parameter is not None:
            default = place_of(tunable.parameter.default, kept)
        common = {
            "name": column.name,
            "kind": CONTEXT if tunable is None else TUNABLE,
            "role": column.role,
            "unit": column.unit,
            "categorical": column.kind == "categorical",
            "values": tuple(InputValue(self.number(value), self._spell(column, value)) for value in kept),
            "default": default or 0,
            "factor": bytes_of(column),
        }
        if tunable is None:
            return ArtifactInput(**common)  # type: ignore[arg-type]
        return ArtifactInput(
            **common,  # type: ignore[arg-type]
            **self._carrier(tunable),
            free=self._free(tunable),
            active=self._compiled(self._active(place)),
            same=self._compiled(self._same(place)),
        )

    @staticmethod
    def _spell(column: Column, value: Any) -> str:
        """As its carrier spells it: sizes in bytes."""
        factor = bytes_of(column)
        if factor != 1.0 and not isinstance(value, str):
            return str(int(value * factor))
        return spell(plain_number(value))

    @staticmethod
    def _carrier(tunable: TunableColumn) -> dict[str, Any]:
        parameter = tunable.parameter
        if parameter is None:
            return {"carrier": "advice", "layer": tunable.set_by.value, "key": tunable.name}
        return {
            "carrier": parameter.carrier.in_artifact,
            "layer": parameter.layer if parameter.carrier.of_file_system else "",
            "key": parameter.setting,
            "cost": parameter.cost,
        }

    def _free(self, tunable: TunableColumn) -> Program | None:
        """Settings are free where the operation lets them act and the runtime can apply them; others never are."""
        if tunable.parameter is None or not tunable.parameter.carrier.decided:
            return constant(0.0)
        if tunable.can_change("read") and tunable.can_change("write"):
            return None
        operations = [op for op in ("read", "write") if tunable.can_change(op)]
        parts = [apply(Op.EQUAL, self._word("operation"), constant(self.texts.code(op))) for op in operations]
        if not tunable.at_creation:
            parts.append(apply(Op.EQUAL, self._word("operation"), constant(self.texts.code("both"))))
        result = parts[0] if parts else constant(0.0)
        for part in parts[1:]:
            result = apply(Op.OR, result, part)
        return result

    # -- rules ---------------------------------------------------------------------------------------------

    def _word(self, name: str) -> Program:
        """A word of the workload: from the column with its role where there is one, else from the runtime."""
        for place, column in enumerate(self._domain.columns):
            if column.role == name and (name in NUMBER_ROLES or name == "operation") and place < self._domain.contexts:
                value = read(self.places[place])
                factor = bytes_of(column)
                return value if factor == 1.0 else apply(Op.MULTIPLY, value, constant(factor))
        if name not in Workload().words():
            raise UserError(f"a rule of the model needs {name}, which no column and no word of the workload is")
        number = self.words.setdefault(name, len(self.words))
        return read(self.columns + number)

    def _names(self, rules: Iterable[Expression]) -> dict[str, Program]:
        own = {name: place for place in range(self.columns) for name in self._called(place)}
        found = {}
        for name in {name for rule in rules for name in rule.names}:
            found[name] = read(self.places[own[name]]) if name in own else self._default_or_word(name)
        return found

    def _default_or_word(self, name: str) -> Program:
        """A parameter that the model does not know acts at its default; anything else is a word."""
        if name in self._known:
            parameter = self._known[name][1]
            if parameter.default_from is not None:
                return self._compile(parameter.default_from)
            return constant(self.number(parameter.default))
        return self._word(name)

    def _code(self, text: str) -> float:
        return float(self.texts.code(text))

    def _compile(self, rule: Expression) -> Program:
        return compile_expression(rule, self._names([rule]), self._code)

    def _compiled(self, rule: Expression | None) -> Program | None:
        return None if rule is None else self._compile(rule)

    def constraints(self) -> tuple[Program, ...]:
        """What must hold of every choice."""
        rules: dict[str, Program] = {}
        for place, tunable in self._tunables.items():
            for rule in tunable.constraints:
                rules[rule.text] = self._compile(rule)
            if tunable.parameter is not None and tunable.parameter.maximum_from is not None:
                largest = tunable.parameter.maximum_from
                limit = apply(Op.LESS_EQUAL, read(self.places[place]), self._compile(largest))
                rules[f"{tunable.name} <= {largest.text}"] = limit
        return tuple(rules.values())

    def measured(self) -> tuple[Program, ...]:
        """What leaves out combinations that were never measured: the table's constraints, and pairs of values."""
        found = [self._compile(rule) for rule in self._domain.schema.rules]
        known = self._domain.measured
        return (*found, *(self._kept_apart(apart) for apart in (() if known is None else known.apart)))

    def _kept_apart(self, apart: Apart) -> Program:
        """Compile "not this value, or the other column as it was measured with it"."""
        other, column = self.value(apart.other), self._domain.columns[apart.other]
        if column.kind == "categorical":
            kept = [apply(Op.EQUAL, other, self._number_of(apart.other, number)) for number in apart.allowed]
        else:
            low, high = apart.allowed
            kept = [constant(1.0)]
            if math.isfinite(low):
                kept = [apply(Op.GREATER_EQUAL, other, constant(low))]
            if math.isfinite(high):
                kept = [apply(Op.AND, kept[0], apply(Op.LESS_EQUAL, other, constant(high)))]
        result = apply(Op.NOT_EQUAL, self.value(apart.place), self._number_of(apart.place, apart.number))
        for program in kept:
            result = apply(Op.OR, result, program)
        return result

    def _number_of(self, place: int, number: float) -> Program:
        """A number of points as programs see it."""
        column = self._domain.columns[place]
        return constant(self.number(column.values[int(number)]) if column.kind == "categorical" else number)

    def expected(self) -> tuple[Program, ...]:
        """What leaves out settings that the stacks expect to harm."""
        tunables = tuple(self._tunables.values())
        known = {t.parameter.name: read(self.places[t.place]) for t in tunables if t.parameter is not None}
        if (standin := find_stand_in(tunables)) is not None:
            collective = constant(0.0)
            for value in standin.column.values:
                if is_true(value):
                    equal = apply(Op.EQUAL, read(self.places[standin.place]), constant(self.number(value)))
                    collective = apply(Op.OR, collective, equal)
            word = apply(Op.SELECT, collective, *(constant(self._code(text)) for text in ("automatic", "disable")))
            known |= {"romio_cb_write": word, "romio_cb_read": word}
        found = []
        for piece in find_harms(self._domain, tunables):
            names = {
                name: known[name] if name in known else self._workload_word(name) for name in piece.condition.names
            }
            found.append(apply(Op.NOT, compile_expression(piece.condition, names, self._code)))
        return tuple(found)

    def _workload_word(self, name: str) -> Program:
        """A word of the workload, else a parameter that the model does not know."""
        return self._word(name) if name in Workload().words() else self._default_or_word(name)

    def derived(self) -> Iterable[DerivedSetting]:
        """Settings that follow from others."""
        used = [tunable for tunable in self._tunables.values() if tunable.set_by is SetBy.SETTING]
        by_parameter = {k.parameter.name: self.places[k.place] for k in used if k.parameter is not None}
        for entry in list_derived_settings(used):
            active, value = self._compiled(entry.active_if), self._compile(entry.value)
            needs = tuple(by_parameter[name] for name in sorted(entry.value.names & by_parameter.keys()))
            layer = entry.layer if entry.carrier.of_file_system else ""
            yield DerivedSetting(entry.carrier.in_artifact, layer, entry.name, entry.template, value, active, needs)

    def value(self, place: int) -> Program:
        """A column as the encoder sees it: folded where it means nothing."""
        for index, number, condition in self._domain.folds:
            if index == place:
                column = self._domain.columns[place]
                value = column.values[int(number)] if column.kind == "categorical" else number
                return apply(
                    Op.SELECT, self._compile(condition), read(self.places[place]), constant(self.number(value))
                )
        return read(self.places[place])
