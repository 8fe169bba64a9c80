"""Trained models as artifacts: what the runtime needs to prescribe by itself.

Exported are the model (trees, networks; of ``auto`` the ensemble that it taught for this purpose), the encoder of its
features, every parameter with its values and carrier, and the stacks' rules between them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stripewise.errors import UserError
from stripewise.formats import ARTIFACT_DEPTH, ARTIFACT_NONE, WORD, Op
from stripewise.models.artifact.content import Artifact, ArtifactInput, Layer, Member, TreeBlock
from stripewise.models.artifact.inputs import Inputs
from stripewise.models.artifact.program import OUTPUT, Program, apply, constant, read
from stripewise.models.base import PerformanceModel
from stripewise.models.network import NeuralNetwork
from stripewise.models.trees.ensemble import Trees


def to_artifact(model: PerformanceModel) -> Artifact:
    """Export a trained model.

    Parameters
    ----------
    model : PerformanceModel
        ``tree``, ``forest``, ``boosting``, ``ann`` or ``auto``.

    Raises
    ------
    UserError
        If the model is of a kind that has no such form, or too large for the runtime.
    """
    return _Export(model).artifact()


class _Export:
    def __init__(self, model: PerformanceModel) -> None:
        self._model = model
        self._domain = model.domain
        self._inputs = Inputs(model.domain, None)

    def artifact(self) -> Artifact:
        """Put the parts together; rules come first, since they add the words that they need."""
        inputs = self._inputs.every()
        constraints = self._inputs.constraints()
        measured, expected = self._inputs.measured(), self._inputs.expected()
        derived = tuple(self._inputs.derived())
        members, result = self._members()
        objective = self._domain.objective
        return Artifact(
            name=f"{self._model.name} {self._domain.schema.name}",
            objective=objective.name,
            unit=objective.unit,
            maximize=objective.maximize,
            simulated="simulated" in self._domain.schema.description.lower(),
            margin=self._margin(),
            reach=self._model.reach,
            inputs=(*inputs, *(ArtifactInput(name, WORD) for name in self._inputs.words)),
            constraints=constraints,
            measured=measured,
            expected=expected,
            derived=derived,
            members=members,
            result=result,
            texts=self._inputs.texts,
        )

    def _features(self) -> tuple[Program, ...]:
        found = []
        for feature in self._model.encoder.features:
            first = feature.plus[0] if feature.plus else feature.minus[0]
            column = self._domain.columns[first]
            if feature.kind == "value":
                if column.kind == "categorical":
                    raise UserError(f"the model reads the category {column.name} as a number, which cannot be exported")
                program = self._inputs.value(first)
            elif feature.kind == "is":
                code = self._inputs.number(column.values[feature.of])
                program = apply(Op.EQUAL, self._inputs.value(first), constant(code))
            else:
                program, least = constant(feature.constant), constant(feature.least)
                for op, places in ((Op.ADD, feature.plus), (Op.SUBTRACT, feature.minus)):
                    for place in places:
                        logarithm = apply(Op.LOG2, apply(Op.MAXIMUM, self._inputs.value(place), least))
                        program = apply(op, program, logarithm)
            found.append(apply(Op.SINGLE, program))
        return tuple(found)

    def _margin(self) -> Program:
        """Choose the margin by the operation; the widest where that is unknown."""
        margins, number = self._model.margins(), self._domain.operation
        program = constant(float(max(margins)))
        if number is None:
            return program
        column = self._domain.columns[number]
        for value, margin in zip(column.values, margins, strict=True):
            here = apply(Op.EQUAL, read(self._inputs.places[number]), constant(self._inputs.number(value)))
            program = apply(Op.SELECT, here, constant(float(margin)), program)
        return program

    def _members(self) -> tuple[tuple[Member, ...], Program]:
        members = self._model.runtime_form()
        if members is None:
            raise UserError(
                f"the model {self._model.name} has no form that the runtime reads",
                "train tree, forest, boosting, ann or auto",
            )
        if isinstance(members, Mapping):
            return tuple(self._network(place, network) for place, network in members.items()), OUTPUT
        blocks = tuple(preorder(members, int(root)) for root in members.roots)
        return (Member(self._features(), trees=blocks, base=members.bias),), apply(Op.EXP, OUTPUT)

    def _network(self, place: int, network: NeuralNetwork) -> Member:
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
        number = self._domain.operation
        if number is None or place < 0:
            return None
        code = self._inputs.number(self._domain.columns[number].values[place])
        return apply(Op.EQUAL, read(self._inputs.places[number]), constant(code))


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
        if depth >= ARTIFACT_DEPTH:
            raise UserError(f"a tree of the model is deeper than {ARTIFACT_DEPTH}", "train it with a limit of depth")
        if parent >= 0:
            right[parent] = len(value)
        leaf = trees.feature[node] < 0
        value.append(float(trees.value[node] if leaf else trees.threshold[node]))
        feature.append(ARTIFACT_NONE if leaf else int(trees.feature[node]))
        right.append(0)
        if not leaf:
            waiting.append((int(trees.right[node]), len(value) - 1, depth + 1))
            waiting.append((int(trees.left[node]), -1, depth + 1))
    return TreeBlock(np.asarray(value, np.float32), np.asarray(feature, np.uint32), np.asarray(right, np.uint32))
