"""The bytes of an artifact, and its file."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.formats import (
    ARTIFACT_FLOAT32,
    ARTIFACT_MAGIC,
    ARTIFACT_MAXIMIZE,
    ARTIFACT_NONE,
    ARTIFACT_SIMULATED,
    ARTIFACT_STACK,
    ARTIFACT_VERSION,
    CARRIERS,
    MAX_ARTIFACT_BYTES,
    MAX_FEATURES,
    MAX_INPUTS,
    MAX_LAYER,
    MAX_TUNABLES,
    NETWORK,
    TREES,
    TUNABLE,
    Op,
)
from stripewise.models.artifact import content as form
from stripewise.models.artifact.content import Artifact, DerivedSetting, TreeBlock
from stripewise.models.artifact.program import Program, depth
from stripewise.models.files import write_whole

_MOST_RULES = 0xFFFF


def artifact_bytes(artifact: Artifact) -> bytes:
    """Write an artifact.

    Raises
    ------
    UserError
        If it exceeds what the runtime takes.
    """
    _check_limits(artifact)
    return _Writer(artifact).write()


def save_artifact(artifact: Artifact, path: str | Path) -> int:
    """Write an artifact to a file, whole or not at all, and give its size in bytes.

    Raises
    ------
    UserError
        If it exceeds what the runtime takes, or cannot be written.
    """
    data = artifact_bytes(artifact)
    write_whole(path, lambda part: part.write_bytes(data), what="artifact")
    return len(data)


def _check_limits(artifact: Artifact) -> None:
    tunables = sum(entry.kind == TUNABLE for entry in artifact.inputs)
    widest = max((len(member.features) for member in artifact.members), default=0)
    outputs = max((len(layer.bias) for member in artifact.members for layer in member.layers), default=0)
    for what, count, limit in (
        ("inputs", len(artifact.inputs), MAX_INPUTS),
        ("tunables", tunables, MAX_TUNABLES),
        ("features", widest, MAX_FEATURES),
        ("pairs of values that were never measured together", len(artifact.measured), _MOST_RULES),
        ("neurons in a layer", outputs, MAX_LAYER),
    ):
        if count > limit:
            raise UserError(f"the model has {count} {what}, the runtime takes {limit}", "train a smaller model")


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _packed(trees: Sequence[TreeBlock]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The distinct cuts of trees, by feature and threshold, and all their nodes."""
    value = np.concatenate([tree.value for tree in trees] or [np.empty(0, np.float32)])
    feature = np.concatenate([tree.feature for tree in trees] or [np.empty(0, np.uint32)])
    right = np.concatenate([tree.right for tree in trees] or [np.empty(0, np.uint32)])
    inner = feature != ARTIFACT_NONE
    order = np.column_stack([feature[inner], value[inner]]).astype(np.float64)
    distinct, places = np.unique(order, axis=0, return_inverse=True)
    cuts = np.empty(len(distinct), dtype=form.CUT)
    cuts["threshold"], cuts["feature"] = distinct[:, 1], distinct[:, 0]
    nodes = np.empty(len(value), dtype=form.NODE)
    nodes["what"], nodes["right"] = value.astype("<f4").view("<u4"), right
    nodes["what"][inner] = places.ravel()
    return cuts, nodes


class _Writer:
    """The sections of a file, as they grow."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact
        self._constants: dict[bytes, int] = {}
        self._code: list[int] = []
        self._programs: dict[Program, int] = {}
        self._program_table: list[tuple[int, int]] = []

    def write(self) -> bytes:
        a, code = self._artifact, self._artifact.texts.code
        inputs, values = self._inputs()
        constraints = [self._program(program) for program in (*a.constraints, *a.measured, *a.expected)]
        derived = [self._derived(entry) for entry in a.derived]
        members, features, blocks, cuts, nodes, weights = self._members()
        result, margin = self._program(a.result), self._program(a.margin)
        names = (code(a.name), code(a.identifier), code(a.objective), code(a.unit))
        sections: list[tuple[int, bytes]] = [
            (len(a.texts.data()), a.texts.data()),
            (len(self._constants), b"".join(self._constants)),
            (len(self._code), np.asarray(self._code, dtype="<u4").tobytes()),
            (len(self._program_table), np.asarray(self._program_table, dtype="<u4").tobytes()),
            (len(a.inputs), b"".join(inputs)),
            (len(values), b"".join(values)),
            (len(constraints), np.asarray(constraints, dtype="<u4").tobytes()),
            (len(derived), b"".join(derived)),
            (len(members), b"".join(members)),
            (len(features), np.asarray(features, dtype="<u4").tobytes()),
            (len(blocks), np.asarray(blocks, dtype="<u4").tobytes()),
            (sum(len(part) for part in cuts), b"".join(part.tobytes() for part in cuts)),
            (sum(len(part) for part in nodes), b"".join(part.tobytes() for part in nodes)),
            (sum(len(part) for part in weights), b"".join(part.tobytes() for part in weights)),
        ]
        body = b"".join(_padded(data) for _, data in sections)
        size = form.HEADER.size + len(body)
        if size > MAX_ARTIFACT_BYTES:
            raise UserError(
                f"the artifact would have {size >> 20} MiB, the runtime takes {MAX_ARTIFACT_BYTES >> 20}",
                "train a model with fewer or smaller trees",
            )
        flags = ARTIFACT_MAXIMIZE * a.maximize + ARTIFACT_SIMULATED * a.simulated
        counts = [count for count, _ in sections]

        def header(total: int) -> bytes:
            return form.HEADER.pack(
                *(ARTIFACT_MAGIC, ARTIFACT_VERSION, flags, size, total, *counts, *names, result, margin, a.reach),
                *(len(a.measured), len(a.expected)),
            )

        return header(form.checksum(header(0) + body)) + body

    def _program(self, program: Program) -> int:
        if program not in self._programs:
            if depth(program) > ARTIFACT_STACK:
                raise UserError("a rule or feature of the model is nested too deeply for the runtime")
            start = len(self._code)
            for op, operand in program:
                number = int(operand)
                if op is Op.CONSTANT:
                    number = self._constants.setdefault(struct.pack("<d", operand), len(self._constants))
                self._code.append((int(op) << 24) | number)
            self._programs[program] = len(self._program_table)
            self._program_table.append((start, len(program)))
        return self._programs[program]

    def _optional(self, program: Program | None) -> int:
        return ARTIFACT_NONE if program is None else self._program(program)

    def _inputs(self) -> tuple[list[bytes], list[bytes]]:
        code = self._artifact.texts.code
        inputs: list[bytes] = []
        values: list[bytes] = []
        for entry in self._artifact.inputs:
            first = len(values)
            values += [form.ENTRIES["values"].pack(value.number, code(value.spelling)) for value in entry.values]
            inputs.append(
                form.ENTRIES["inputs"].pack(
                    entry.kind,
                    *(code(entry.name), code(entry.role), code(entry.unit), int(entry.categorical)),
                    *(first, len(entry.values), entry.default, CARRIERS.index(entry.carrier)),
                    *(code(entry.layer), code(entry.key)),
                    *(self._optional(p) for p in (entry.free, entry.active, entry.same)),
                    *(entry.factor, entry.cost),
                )
            )
        return inputs, values

    def _derived(self, entry: DerivedSetting) -> bytes:
        code = self._artifact.texts.code
        tunables = [n for n, known in enumerate(self._artifact.inputs) if known.kind == TUNABLE]
        mask = sum(1 << tunables.index(number) for number in entry.needs)
        return form.ENTRIES["derived"].pack(
            CARRIERS.index(entry.carrier),
            *(code(entry.layer), code(entry.key), code(entry.template)),
            *(self._program(entry.value), self._optional(entry.active), mask),
        )

    def _members(
        self,
    ) -> tuple[list[bytes], list[int], list[tuple[int, int, int, int]], list[Any], list[Any], list[Any]]:
        members: list[bytes] = []
        features: list[int] = []
        blocks: list[tuple[int, int, int, int]] = []
        cuts: list[NDArray[Any]] = []
        nodes: list[NDArray[Any]] = []
        weights: list[NDArray[Any]] = []
        cut_count = node_count = weight_count = 0
        for member in self._artifact.members:
            first_feature, first_block = len(features), len(blocks)
            features += [self._program(program) for program in member.features]
            own_cuts, own_nodes = _packed(member.trees)
            cuts.append(own_cuts)
            nodes.append(own_nodes)
            for tree in member.trees:
                blocks.append((node_count, len(tree.value), 0, 0))
                node_count += len(tree.value)
            for layer in member.layers:
                flat = np.concatenate([layer.weights.ravel(), layer.bias]).astype("<f4")
                outputs, width = layer.weights.shape
                blocks.append((weight_count, int(layer.rectify), width, outputs))
                weights.append(flat)
                weight_count += len(flat)
            members.append(
                form.ENTRIES["members"].pack(
                    NETWORK if member.layers else TREES,
                    *(self._optional(member.gate), self._program(member.post)),
                    *(first_feature, len(member.features), first_block, len(blocks) - first_block),
                    *(cut_count, len(own_cuts)),
                    ARTIFACT_FLOAT32 * member.float32,
                    *(member.weight, member.base, member.scale),
                )
            )
            cut_count += len(own_cuts)
        return members, features, blocks, cuts, nodes, weights
