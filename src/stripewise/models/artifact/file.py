"""An artifact's file: its bytes written and read, and of its tunables what a site's policy allows."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.carriers import Carrier
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
from stripewise.models.artifact.content import (
    Artifact,
    ArtifactInput,
    DerivedSetting,
    InputValue,
    Layer,
    Member,
    Texts,
    TreeBlock,
)
from stripewise.models.artifact.program import Program, depth
from stripewise.models.files import write_whole
from stripewise.ownership import checked_model
from stripewise.requests.policy import Policy


def restrict_artifact(policy: Policy, artifact: Artifact) -> Artifact:
    """Leave out values of layouts that the site does not allow; the default stays, as it is what a file has anyway.

    Returns
    -------
    Artifact
        The same object if nothing is left out.
    """
    inputs = tuple(_limit_input(policy, entry) if entry.kind == TUNABLE else entry for entry in artifact.inputs)
    same = all(new is old for new, old in zip(inputs, artifact.inputs, strict=True))
    return artifact if same else replace(artifact, inputs=inputs)


def _limit_input(policy: Policy, entry: ArtifactInput) -> ArtifactInput:
    lays_out = any(c.of_file_system for c in Carrier.known.values() if c.in_artifact == entry.carrier)
    if not lays_out and entry.role != "stripe_count":
        return entry
    name = entry.role if entry.role == "stripe_count" else entry.key
    default = entry.values[entry.default]
    kept = tuple(
        value
        for value in entry.values
        if value is default or policy.allowed_values(name, [value.spelling if entry.categorical else value.number])
    )
    return entry if len(kept) == len(entry.values) else replace(entry, values=kept, default=kept.index(default))


def read_artifact(path: str | Path) -> Artifact:
    """Read an artifact from a file.

    Raises
    ------
    UserError
        If it cannot be read or is damaged, or others could have changed it.
    """
    try:
        with checked_model(Path(path)) as place:
            data = place.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read the artifact {path}: {error.strerror}", "check the path") from error
    return parse_artifact(data, str(path))


def parse_artifact(data: bytes, origin: str = "artifact") -> Artifact:
    """Read an artifact from bytes.

    Raises
    ------
    UserError
        If it is damaged.
    """
    fix = "make it again with stripewise prescribe --artifact"
    if len(data) < form.HEADER.size or data[:8] != ARTIFACT_MAGIC:
        raise UserError(f"{origin} is not a model artifact", fix)
    _, version, flags, size, total, *rest = form.HEADER.unpack_from(data)
    if version != ARTIFACT_VERSION:
        raise UserError(f"{origin} has version {version}, this Stripewise reads {ARTIFACT_VERSION}", fix)
    if (
        size != len(data)
        or size % 8
        or form.checksum(data) != total
        or flags & ~(ARTIFACT_MAXIMIZE | ARTIFACT_SIMULATED)
    ):
        raise UserError(f"{origin} is cut off or damaged", fix)
    try:
        return _ArtifactReader(data, flags, rest[:14], rest[14:20], rest[20], rest[21:]).artifact()
    except (ValueError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise UserError(f"{origin} is damaged: {error}", fix) from error


def _tree(nodes: NDArray[Any], cuts: NDArray[Any]) -> TreeBlock:
    inner = nodes["right"] != 0
    value, feature = nodes["what"].view("<f4").copy(), np.full(len(nodes), ARTIFACT_NONE, np.uint32)
    places = nodes["what"][inner]
    value[inner], feature[inner] = cuts["threshold"][places], cuts["feature"][places]
    return TreeBlock(value, feature, nodes["right"].copy())


class _ArtifactReader:
    def __init__(
        self, data: bytes, flags: int, counts: list[int], names: list[int], reach: float, ruled: list[int]
    ) -> None:
        self._flags, self._names, self._reach = flags, names, reach
        if sum(ruled) > counts[6]:
            raise ValueError("it has fewer constraints than its header says")
        self._ends = (counts[6] - sum(ruled), counts[6] - ruled[1])
        parts, at = [], form.HEADER.size
        for count, entry in zip(counts, (entry.size for entry in form.ENTRIES.values()), strict=True):
            parts.append(data[at : at + count * entry])
            if len(parts[-1]) != count * entry:
                raise ValueError("a section is missing")
            at += -(-count * entry // 8) * 8
        self._parts = parts
        self._texts = Texts.of(parts[0])
        self._constants = np.frombuffer(parts[1], dtype="<f8")
        self._code = np.frombuffer(parts[2], dtype="<u4")
        table = np.frombuffer(parts[3], dtype="<u4").reshape(-1, 2)
        self._programs = [self._decode(int(first), int(length)) for first, length in table]

    def _decode(self, first: int, length: int) -> Program:
        found = []
        for word in self._code[first : first + length]:
            op, operand = Op(int(word) >> 24), int(word) & 0xFFFFFF
            found.append((op, float(self._constants[operand]) if op is Op.CONSTANT else float(operand)))
        return tuple(found)

    def _optional(self, number: int) -> Program | None:
        return None if number == ARTIFACT_NONE else self._programs[number]

    def artifact(self) -> Artifact:
        text = self._texts.at
        constraints = tuple(self._programs[int(n)] for n in np.frombuffer(self._parts[6], dtype="<u4"))
        return Artifact(
            name=text(self._names[0]),
            identifier=text(self._names[1]),
            objective=text(self._names[2]),
            unit=text(self._names[3]),
            maximize=bool(self._flags & ARTIFACT_MAXIMIZE),
            simulated=bool(self._flags & ARTIFACT_SIMULATED),
            margin=self._programs[self._names[5]],
            reach=self._reach,
            inputs=(inputs := self._inputs(text)),
            constraints=constraints[: self._ends[0]],
            measured=constraints[self._ends[0] : self._ends[1]],
            expected=constraints[self._ends[1] :],
            derived=self._derived(text, inputs),
            members=self._members(),
            result=self._programs[self._names[4]],
            texts=self._texts,
        )

    def _inputs(self, text: Callable[[int], str]) -> tuple[ArtifactInput, ...]:
        values = [
            InputValue(number, text(place)) for number, place in form.ENTRIES["values"].iter_unpack(self._parts[5])
        ]
        found = []
        for row in form.ENTRIES["inputs"].iter_unpack(self._parts[4]):
            kind, name, role, unit, categorical, first, count, default, carrier, layer, key = row[:11]
            free, active, same, factor, cost = row[11:]
            found.append(
                ArtifactInput(
                    *(text(name), kind, text(role), text(unit), bool(categorical)),
                    *(tuple(values[first : first + count]), default, CARRIERS[carrier], text(layer), text(key)),
                    *(factor, cost, self._optional(free), self._optional(active), self._optional(same)),
                )
            )
        return tuple(found)

    def _derived(self, text: Callable[[int], str], inputs: tuple[ArtifactInput, ...]) -> tuple[DerivedSetting, ...]:
        tunables = [number for number, entry in enumerate(inputs) if entry.kind == TUNABLE]
        found = []
        for carrier, layer, key, template, value, active, mask in form.ENTRIES["derived"].iter_unpack(self._parts[7]):
            needs = tuple(number for bit, number in enumerate(tunables) if mask >> bit & 1)
            programs = self._programs[value], self._optional(active)
            found.append(DerivedSetting(CARRIERS[carrier], text(layer), text(key), text(template), *programs, needs))
        return tuple(found)

    def _members(self) -> tuple[Member, ...]:
        features = [self._programs[int(n)] for n in np.frombuffer(self._parts[9], dtype="<u4")]
        blocks = np.frombuffer(self._parts[10], dtype="<u4").reshape(-1, 4)
        cuts = np.frombuffer(self._parts[11], dtype=form.CUT)
        nodes = np.frombuffer(self._parts[12], dtype=form.NODE)
        weights = np.frombuffer(self._parts[13], dtype="<f4")
        found = []
        for row in form.ENTRIES["members"].iter_unpack(self._parts[8]):
            kind, gate, post, first_feature, count, first_block, used, *more = row
            first_cut, own_cuts, flags, weight, base, scale = more
            own = blocks[first_block : first_block + used].tolist()
            trees, layers = [], []
            for first, size, inputs, outputs in own:
                if kind == NETWORK:
                    end = first + inputs * outputs
                    matrix = weights[first:end].reshape(outputs, inputs)
                    layers.append(Layer(matrix, weights[end : end + outputs], bool(size)))
                else:
                    trees.append(_tree(nodes[first : first + size], cuts[first_cut : first_cut + own_cuts]))
            found.append(
                Member(
                    tuple(features[first_feature : first_feature + count]),
                    *(tuple(trees), tuple(layers), weight, base, scale),
                    *(self._optional(gate), self._programs[post], bool(flags & ARTIFACT_FLOAT32)),
                )
            )
        return tuple(found)


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


def _pad_bytes(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _pack_trees(trees: Sequence[TreeBlock]) -> tuple[NDArray[Any], NDArray[Any]]:
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
        body = b"".join(_pad_bytes(data) for _, data in sections)
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
            own_cuts, own_nodes = _pack_trees(member.trees)
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
