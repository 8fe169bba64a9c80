"""Reads artifacts, and leaves of their tunables what a site's policy allows."""

from __future__ import annotations

import struct
from collections.abc import Callable
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
    ARTIFACT_VERSION,
    CARRIERS,
    NETWORK,
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
from stripewise.models.artifact.program import Program
from stripewise.ownership import check_model
from stripewise.requests.policy import Policy


def within(policy: Policy, artifact: Artifact) -> Artifact:
    """Leave out values of layouts that the site does not allow; the default stays, as it is what a file has anyway.

    Returns
    -------
    Artifact
        The same object if nothing is left out.
    """
    inputs = tuple(_allowed(policy, entry) if entry.kind == TUNABLE else entry for entry in artifact.inputs)
    same = all(new is old for new, old in zip(inputs, artifact.inputs, strict=True))
    return artifact if same else replace(artifact, inputs=inputs)


def _allowed(policy: Policy, entry: ArtifactInput) -> ArtifactInput:
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
        check_model(Path(path))
        data = Path(path).read_bytes()
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
