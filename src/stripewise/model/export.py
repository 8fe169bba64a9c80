"""Trained models as artifacts: what the runtime needs to prescribe by itself.

Exported are the model (trees, networks; of ``auto`` the ensemble that it taught for this purpose), the encoder of its
features, every parameter with its values and carrier, and the stacks' rules between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stripewise.errors import UserError
from stripewise.model.artifact import (
    CONTEXT,
    MAX_DEPTH,
    NONE,
    TUNABLE,
    WORD,
    Artifact,
    DerivedSetting,
    Input,
    Layer,
    Member,
    Setting,
    Texts,
    TreeBlock,
)
from stripewise.model.base import PerformanceModel
from stripewise.model.carriers import Knob, Way, derived_settings, knobs, known_parameters
from stripewise.model.program import OUTPUT, Op, Program, apply, compile_expression, constant, read
from stripewise.model.table import Column
from stripewise.model.trees import Trees
from stripewise.spec.expression import Expression
from stripewise.spec.parameter import Apply
from stripewise.spec.plan import spell
from stripewise.spec.sizes import parse_size
from stripewise.spec.workload import Workload

_CARRIERS = {
    Apply.HINT: "hint",
    Apply.STRIPING: "layout",
    Apply.HDF5: "hdf5",
    Apply.ENV: "env",
    Apply.MCA: "mca",
    Apply.ARGUMENT: "argument",
}
_NUMBERS = ("nodes", "processes", "processes_per_node", "file_size", "transfer_size", "piece_size")
_SAMPLE = 512


def to_artifact(model: PerformanceModel, *, identifier: str = "", file_system: str | None = None) -> Artifact:
    """Export a trained model.

    Parameters
    ----------
    model : PerformanceModel
        ``tree``, ``forest``, ``boosting``, ``ann`` or ``auto``.
    identifier : str
        Echoed by the runtime.
    file_system : str, optional
        Whose layout stripes are, see :func:`stripewise.model.carriers.knobs`.

    Raises
    ------
    UserError
        If the model is of a kind that has no such form, or too large for the runtime.
    """
    return _Export(model, identifier, file_system).artifact()


def bytes_of(column: Column) -> float:
    """What turns the unit of a column into bytes; 1 for what is no size."""
    if not column.role.endswith("_size") or column.unit in ("", "B"):
        return 1.0
    return float(parse_size(f"1 {column.unit}"))


def margin_of(model: PerformanceModel, seed: int = 0) -> float:
    """Logarithm of the gain that a model can tell from none: the median of its deviation over its own grid."""
    domain = model.domain
    rng = np.random.default_rng(seed)
    frame = {}
    for column, seen in zip(domain.columns, domain.seen, strict=True):
        values = [column.values[place] for place in seen]
        frame[column.name] = [values[int(i)] for i in rng.integers(len(values), size=_SAMPLE)]
    return float(np.median(model.predict(frame).deviation))


class _Export:
    def __init__(self, model: PerformanceModel, identifier: str, file_system: str | None) -> None:
        self._model = model
        self._domain = model.domain
        self._identifier = identifier
        self._texts = Texts()
        self._knobs = {knob.place: knob for knob in knobs(self._domain.schema, file_system)}
        self._words: dict[str, int] = {}
        self._columns = len(self._domain.columns)

    def artifact(self) -> Artifact:
        """Put the parts together; rules come first, since they add the words that they need."""
        inputs = [self._input(place) for place in self._order()]
        constraints = self._constraints()
        derived = tuple(self._derived())
        members, result = self._members()
        objective = self._domain.objective
        return Artifact(
            name=f"{self._model.name} {self._domain.schema.name}",
            identifier=self._identifier,
            objective=objective.name,
            unit=objective.unit,
            maximize=objective.maximize,
            simulated="simulated" in self._domain.schema.description.lower(),
            margin=margin_of(self._model),
            inputs=(*inputs, *(Input(name, WORD) for name in self._words)),
            constraints=constraints,
            derived=derived,
            members=members,
            result=result,
            texts=self._texts,
        )

    # -- inputs --------------------------------------------------------------------------------------------

    def _order(self) -> list[int]:
        """Columns in the order of the table, but each after those that its rules need."""
        if not hasattr(self, "_places"):
            remaining = list(range(self._columns))
            done: list[int] = []
            while remaining:
                ready = [p for p in remaining if not self._needs(p) & set(remaining) - {p}]
                if not ready:
                    raise UserError("conditions of the table's parameters need one another", "break the cycle")
                done.append(ready[0])
                remaining.remove(ready[0])
            self._places = {place: number for number, place in enumerate(done)}
        return sorted(self._places, key=lambda place: self._places[place])

    def _needs(self, place: int) -> set[int]:
        names = {name for rule in self._rules(place) for name in rule.names}
        return {other for other in range(self._columns) if self._called(other) & names}

    def _rules(self, place: int) -> list[Expression]:
        return [rule for rule in (self._active(place), self._same(place)) if rule is not None]

    def _called(self, place: int) -> set[str]:
        """The names by which rules know a column: its own and its stack parameter's."""
        knob = self._knobs.get(place)
        names = {self._domain.names[place]}
        if knob is not None and knob.parameter is not None:
            names.add(knob.parameter.name)
        return names

    def _active(self, place: int) -> Expression | None:
        knob = self._knobs.get(place)
        if knob is not None and knob.parameter is not None and knob.parameter.active_if is not None:
            return knob.parameter.active_if
        return next((condition for index, _, condition in self._domain.folds if index == place), None)

    def _same(self, place: int) -> Expression | None:
        knob = self._knobs.get(place)
        return None if knob is None or knob.parameter is None else knob.parameter.same_as_default

    def _number(self, column: Column, value: Any) -> float:
        return float(self._texts.code(value)) if isinstance(value, str) else float(value)

    def _input(self, place: int) -> Input:
        column, knob = self._domain.columns[place], self._knobs.get(place)
        seen = self._domain.seen[place]
        kept = [column.values[level] for level in (seen if column.kind == "categorical" else range(len(column.values)))]
        default = column.default if column.default in kept else None
        if default is None and knob is not None and knob.parameter is not None and knob.parameter.default in kept:
            default = knob.parameter.default
        common = {
            "name": column.name,
            "kind": CONTEXT if knob is None else TUNABLE,
            "role": column.role,
            "unit": column.unit,
            "categorical": column.kind == "categorical",
            "values": tuple(Setting(self._number(column, value), self._spell(column, value)) for value in kept),
            "default": 0 if default is None else kept.index(default),
            "factor": bytes_of(column),
        }
        if knob is None:
            return Input(**common)  # type: ignore[arg-type]
        return Input(
            **common,  # type: ignore[arg-type]
            **self._carrier(knob),
            free=self._free(knob),
            active=self._compiled(self._active(place)),
            same=self._compiled(self._same(place)),
        )

    @staticmethod
    def _spell(column: Column, value: Any) -> str:
        """As its carrier spells it: sizes in bytes."""
        factor = bytes_of(column)
        if factor != 1.0 and not isinstance(value, str):
            return str(int(value * factor))
        return spell(int(value) if isinstance(value, float) and value == int(value) else value)

    @staticmethod
    def _carrier(knob: Knob) -> dict[str, Any]:
        parameter = knob.parameter
        if parameter is None:
            return {"carrier": "advice", "layer": knob.way.value, "key": knob.name}
        return {
            "carrier": _CARRIERS[parameter.apply],
            "layer": parameter.layer if parameter.apply is Apply.STRIPING else "",
            "key": parameter.setting,
            "cost": parameter.cost,
        }

    def _free(self, knob: Knob) -> Program | None:
        """Settings are free where the operation lets them act; what only people can change never is."""
        if knob.way is not Way.SETTING:
            return constant(0.0)
        if knob.can_change("read") and knob.can_change("write"):
            return None
        operations = [op for op in ("read", "write") if knob.can_change(op)]
        parts = [apply(Op.EQUAL, self._word("operation"), constant(self._texts.code(op))) for op in operations]
        if not knob.at_creation:
            parts.append(apply(Op.EQUAL, self._word("operation"), constant(self._texts.code("both"))))
        result = parts[0] if parts else constant(0.0)
        for part in parts[1:]:
            result = apply(Op.OR, result, part)
        return result

    # -- rules ---------------------------------------------------------------------------------------------

    def _word(self, name: str) -> Program:
        """A word of the workload: from the column with its role where there is one, else from the runtime."""
        for place, column in enumerate(self._domain.columns):
            if column.role == name and (name in _NUMBERS or name == "operation") and place < self._domain.contexts:
                value = read(self._places[place])
                factor = bytes_of(column)
                return value if factor == 1.0 else apply(Op.MULTIPLY, value, constant(factor))
        if name not in Workload().words():
            raise UserError(f"a rule of the model needs {name}, which no column and no word of the workload is")
        number = self._words.setdefault(name, len(self._words))
        return read(self._columns + number)

    def _names(self, rules: Iterable[Expression]) -> dict[str, Program]:
        own = {name: place for place in range(self._columns) for name in self._called(place)}
        found = {}
        for name in {name for rule in rules for name in rule.names}:
            found[name] = read(self._places[own[name]]) if name in own else self._default_or_word(name)
        return found

    def _default_or_word(self, name: str) -> Program:
        """A parameter that the model does not know acts at its default; anything else is a word."""
        if name in known_parameters():
            parameter = known_parameters()[name][1]
            if parameter.default_from is not None:
                names = self._names([parameter.default_from])
                return compile_expression(parameter.default_from, names, self._code)
            return constant(self._number(self._domain.columns[0], parameter.default))
        return self._word(name)

    def _code(self, text: str) -> float:
        return float(self._texts.code(text))

    def _compiled(self, rule: Expression | None) -> Program | None:
        return None if rule is None else compile_expression(rule, self._names([rule]), self._code)

    def _constraints(self) -> tuple[Program, ...]:
        rules: dict[str, Program] = {}
        for place, knob in self._knobs.items():
            for rule in knob.constraints:
                rules[rule.text] = compile_expression(rule, self._names([rule]), self._code)
            if knob.parameter is not None and knob.parameter.maximum_from is not None:
                largest = knob.parameter.maximum_from
                limit = compile_expression(largest, self._names([largest]), self._code)
                rules[f"{knob.name} <= {largest.text}"] = apply(Op.LESS_EQUAL, read(self._places[place]), limit)
        return tuple(rules.values())

    def _derived(self) -> Iterable[DerivedSetting]:
        used = [knob for knob in self._knobs.values() if knob.way is Way.SETTING]
        by_parameter = {k.parameter.name: self._places[k.place] for k in used if k.parameter is not None}
        for entry in derived_settings(used):
            names = self._names([entry.value, *([entry.active_if] if entry.active_if else [])])
            active = None if entry.active_if is None else compile_expression(entry.active_if, names, self._code)
            needs = tuple(by_parameter[name] for name in sorted(entry.value.names & by_parameter.keys()))
            value = compile_expression(entry.value, names, self._code)
            layer = entry.layer if entry.apply is Apply.STRIPING else ""
            yield DerivedSetting(_CARRIERS[entry.apply], layer, entry.name, entry.template, value, active, needs)

    # -- the model -----------------------------------------------------------------------------------------

    def _value(self, place: int) -> Program:
        """A column as the encoder sees it: folded where it means nothing."""
        for index, number, condition in self._domain.folds:
            if index == place:
                column = self._domain.columns[place]
                value = column.values[int(number)] if column.kind == "categorical" else number
                active = compile_expression(condition, self._names([condition]), self._code)
                return apply(Op.SELECT, active, read(self._places[place]), constant(self._number(column, value)))
        return read(self._places[place])

    def _features(self) -> tuple[Program, ...]:
        tiny = constant(float(np.finfo(np.float64).tiny))
        found = []
        for feature in self._model.encoder.features:
            first = feature.plus[0] if feature.plus else feature.minus[0]
            column = self._domain.columns[first]
            if feature.kind == "value":
                if column.kind == "categorical":
                    raise UserError(f"the model reads the category {column.name} as a number, which cannot be exported")
                program = self._value(first)
            elif feature.kind == "is":
                code = self._number(column, column.values[feature.of])
                program = apply(Op.EQUAL, self._value(first), constant(code))
            else:
                program = constant(feature.constant)
                for op, places in ((Op.ADD, feature.plus), (Op.SUBTRACT, feature.minus)):
                    for place in places:
                        logarithm = apply(Op.LOG2, apply(Op.MAXIMUM, self._value(place), tiny))
                        program = apply(op, program, logarithm)
            found.append(apply(Op.SINGLE, program))
        return tuple(found)

    def _members(self) -> tuple[tuple[Member, ...], Program]:
        model: Any = self._model
        networks = getattr(model, "networks", None)
        if isinstance(networks, Mapping):
            return tuple(self._network(place, network) for place, network in networks.items()), OUTPUT
        trees = getattr(model, "student", None) or getattr(model, "trees", None)
        if not isinstance(trees, Trees):
            raise UserError(
                f"the model {model.name} has no form that the runtime reads",
                "train tree, forest, boosting, ann or auto",
            )
        blocks = tuple(preorder(trees, int(root)) for root in trees.roots)
        return (Member(self._features(), trees=blocks, base=trees.bias),), apply(Op.EXP, OUTPUT)

    def _network(self, place: int, network: Any) -> Member:
        features = tuple(
            apply(Op.DIVIDE, program, constant(float(largest)))
            for program, largest in zip(self._features(), network.inputs, strict=True)
        )
        last = len(network.weights) - 1
        layers = tuple(
            Layer(np.asarray(weight, np.float32), np.asarray(bias, np.float32), number < last)
            for number, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True))
        )
        post = apply(Op.MAXIMUM, OUTPUT, constant(network.least))
        return Member(features, layers=layers, scale=network.output, gate=self._gate(place), post=post)

    def _gate(self, place: int) -> Program | None:
        """Which operation a network answers for."""
        for number, column in enumerate(self._domain.columns[: self._domain.contexts]):
            if column.role == "operation" and column.kind == "categorical" and place >= 0:
                return apply(Op.EQUAL, read(self._places[number]), constant(self._number(column, column.values[place])))
        return None


def preorder(trees: Trees, root: int) -> TreeBlock:
    """Take one tree in the artifact's order.

    Raises
    ------
    UserError
        If it is deeper than the runtime goes.
    """
    value: list[float] = []
    feature: list[int] = []
    right: list[int] = []
    waiting: list[tuple[int, int, int]] = [(root, -1, 1)]
    while waiting:
        node, parent, depth = waiting.pop()
        if depth >= MAX_DEPTH:
            raise UserError(f"a tree of the model is deeper than {MAX_DEPTH}", "train it with a limit of depth")
        if parent >= 0:
            right[parent] = len(value)
        leaf = trees.feature[node] < 0
        value.append(float(trees.value[node] if leaf else trees.threshold[node]))
        feature.append(NONE if leaf else int(trees.feature[node]))
        right.append(0)
        if not leaf:
            waiting.append((int(trees.right[node]), len(value) - 1, depth + 1))
            waiting.append((int(trees.left[node]), -1, depth + 1))
    return TreeBlock(np.asarray(value, np.float32), np.asarray(feature, np.uint32), np.asarray(right, np.uint32))


def input_row(artifact: Artifact, values: Mapping[str, Any]) -> list[float]:
    """Numbers for an artifact's inputs from values by name, as the runtime would fill them.

    Raises
    ------
    UserError
        If one is missing.
    """
    row = []
    for entry in artifact.inputs:
        if entry.name not in values:
            raise UserError(f"the artifact needs {entry.name}", "give it a value")
        value = values[entry.name]
        row.append(float(artifact.texts.find(value)) if isinstance(value, str) else float(value))
    return row


def columns_of(artifact: Artifact, frame: Mapping[str, Sequence[Any]]) -> list[np.ndarray[Any, Any]]:
    """As :func:`input_row` for many rows; words that are not given count as 0."""
    n = len(next(iter(frame.values())))
    columns = []
    for entry in artifact.inputs:
        given = frame.get(entry.name)
        if given is None:
            columns.append(np.zeros(n))
            continue
        columns.append(
            np.asarray([artifact.texts.find(v) if isinstance(v, str) else float(v) for v in given], dtype=np.float64)
        )
    return columns
