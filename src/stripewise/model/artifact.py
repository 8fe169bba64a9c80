"""The artifact: a performance model with its encoder, its tunables and their rules, as the runtime reads it.

The bytes are described in ``native/include/stripewise_format.h``. Python writes and reads them and evaluates an
artifact just as the runtime does: programs to the bit, values to rounding.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.model.program import MAX_STACK, OUTPUT, Numbers, Op, Program, depth, run

MAGIC = b"SWMODEL\n"
VERSION = 1
MAX_BYTES = 32 << 20
MAX_INPUTS = 64
MAX_TUNABLES = 32
MAX_FEATURES = 512
MAX_LAYER = 4096
MAX_DEPTH = 256
NONE = 0xFFFFFFFF
_MAXIMIZE, _SIMULATED = 1, 2
_FLOAT32 = 1
_HEADER = struct.Struct("<8sIIQQ13I5Id")
_INPUT = struct.Struct("<16I2d")
_VALUE = struct.Struct("<dII")
_DERIVED = struct.Struct("<8I")
_MEMBER = struct.Struct("<8I3d")
_NODE = np.dtype([("value", "<f4"), ("feature", "<u4"), ("right", "<u4")])

CONTEXT, WORD, TUNABLE = 0, 1, 2
"""Kinds of inputs: trained on and given; used by rules alone; to be chosen."""

CARRIERS = ("hint", "layout", "hdf5", "env", "mca", "argument", "advice")
"""How a tunable is set, by its number in the file; ``advice`` is for the program's author."""


@dataclass(frozen=True)
class Setting:
    """A value of an input.

    Attributes
    ----------
    number : float
        What programs see; for a category its text's code (:meth:`Texts.code`).
    spelling : str
        As its carrier spells it.
    """

    number: float
    spelling: str


@dataclass(frozen=True)
class Input:
    """A quantity that the model or a rule looks at.

    Attributes
    ----------
    name, role, unit : str
        As in the table.
    kind : int
        :data:`CONTEXT`, :data:`WORD` or :data:`TUNABLE`.
    categorical : bool
    values : tuple of Setting
        What may be chosen, or was seen in training.
    default : int
        Place among the values.
    carrier : str
        One of :data:`CARRIERS`.
    layer, key : str
        As in a plan.
    factor : float
        What turns the unit into bytes; 1 where it is no size.
    cost : float
        Among equals the cheaper value wins.
    free, active, same : Program or None
        Whether it may be chosen for a workload; whether it means anything; whether it acts as its default does.
    """

    name: str
    kind: int
    role: str = "other"
    unit: str = ""
    categorical: bool = False
    values: tuple[Setting, ...] = ()
    default: int = 0
    carrier: str = "advice"
    layer: str = ""
    key: str = ""
    factor: float = 1.0
    cost: float = 0.0
    free: Program | None = None
    active: Program | None = None
    same: Program | None = None


@dataclass(frozen=True)
class DerivedSetting:
    """A setting that follows from others; ``needs`` are the inputs one of which must differ from its default."""

    carrier: str
    layer: str
    key: str
    template: str
    value: Program
    active: Program | None = None
    needs: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """A tree in preorder.

    Attributes
    ----------
    value : ndarray of float32
        Threshold of an inner node, value of a leaf.
    feature : ndarray of uint32
        :data:`NONE` for a leaf.
    right : ndarray of uint32
        Place of the right child; the left one follows its parent.
    """

    value: NDArray[np.float32]
    feature: NDArray[np.uint32]
    right: NDArray[np.uint32]

    def predict(self, features: Sequence[Numbers], n: int) -> Numbers:
        """Value of the leaf that each of ``n`` rows falls into."""
        node = np.zeros(n, dtype=np.int64)
        inner = self.feature[node] != NONE
        columns = np.stack([np.broadcast_to(f, (n,)) for f in features], axis=1) if len(features) else np.zeros((n, 1))
        columns = np.where(np.isnan(columns), np.inf, columns)
        values = self.value.astype(np.float64)
        while inner.any():
            rows = np.flatnonzero(inner)
            at = node[rows]
            left = columns[rows, self.feature[at]] <= values[at]
            node[rows] = np.where(left, at + 1, self.right[at])
            inner[rows] = self.feature[node[rows]] != NONE
        return values[node]


@dataclass(frozen=True, eq=False)
class Layer:
    """A fully connected layer; ``weights`` of shape (outputs, inputs) and ``bias`` are float32."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    rectify: bool

    def predict(self, x: Numbers) -> Numbers:
        """Outputs for rows ``x`` of shape (n, inputs)."""
        result = x @ self.weights.astype(np.float64).T + self.bias.astype(np.float64)
        return np.where(result < 0, 0.0, result) if self.rectify else result


@dataclass(frozen=True, eq=False)
class Member:
    """One of the models that are blended: either trees or layers.

    Its value is ``weight * gate * post(base + scale * raw)``, where raw is the sum of the trees or the output of the
    network.
    """

    features: tuple[Program, ...]
    trees: tuple[TreeBlock, ...] = ()
    layers: tuple[Layer, ...] = ()
    weight: float = 1.0
    base: float = 0.0
    scale: float = 1.0
    gate: Program | None = None
    post: Program = OUTPUT
    float32: bool = False

    def encode(self, inputs: Sequence[Any]) -> list[Numbers]:
        """The features of rows: one column for each input."""
        found = [run(program, inputs) for program in self.features]
        if self.float32:
            with np.errstate(all="ignore"):
                found = [feature.astype(np.float32).astype(np.float64) for feature in found]
        return found

    def predict(self, inputs: Sequence[Any], n: int) -> Numbers:
        """What the member adds to the blend for ``n`` rows."""
        encoded = self.encode(inputs)
        if self.layers:
            x = np.stack([np.broadcast_to(f, (n,)) for f in encoded], axis=1)
            for layer in self.layers:
                x = layer.predict(x)
            raw = x[:, 0]
        else:
            raw = np.zeros(n)
            for tree in self.trees:
                raw = raw + tree.predict(encoded, n)
        value = run(self.post, inputs, self.base + self.scale * raw)
        gate = np.float64(1.0) if self.gate is None else run(self.gate, inputs)
        return np.where(np.broadcast_to(gate, (n,)) != 0, self.weight * gate * value, 0.0)


class Texts:
    """The strings of an artifact: each is stored once, and its place is the number that stands for it."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {"": 0}
        self._size = 1

    def code(self, text: str) -> int:
        """The number of a text; added if it is new."""
        if text not in self._places:
            self._places[text] = self._size
            self._size += len(text.encode()) + 1
        return self._places[text]

    def find(self, text: str) -> int:
        """The number of a text; -1 if it is unknown."""
        return self._places.get(text, -1)

    def data(self) -> bytes:
        """All texts, each with a NUL."""
        return b"".join(text.encode() + b"\0" for text in self._places)

    @classmethod
    def of(cls, data: bytes) -> Texts:
        """Read what :meth:`data` gave."""
        texts = cls()
        texts._places, texts._size = {}, 0
        for piece in data[:-1].split(b"\0"):
            texts._places[piece.decode()] = texts._size
            texts._size += len(piece) + 1
        return texts

    def at(self, place: int) -> str:
        """The text of a number.

        Raises
        ------
        ValueError
            If no text begins there.
        """
        for text, begin in self._places.items():
            if begin == place:
                return text
        raise ValueError(f"no text at {place}")


@dataclass(frozen=True, eq=False)
class Artifact:
    """A model as the runtime evaluates it.

    Attributes
    ----------
    name, identifier, objective, unit : str
    maximize, simulated : bool
    margin : float
        Natural logarithm of the gain below which the current setting is kept.
    inputs : tuple of Input
        Tunables in an order in which rules need earlier ones only.
    constraints : tuple of Program
    derived : tuple of DerivedSetting
    members : tuple of Member
    result : Program
        From the blend (``OUTPUT``) to the objective.
    texts : Texts
        The codes of texts in programs and values; the same object that they were made with.
    """

    name: str
    objective: str
    unit: str
    maximize: bool
    inputs: tuple[Input, ...]
    members: tuple[Member, ...]
    result: Program = OUTPUT
    identifier: str = ""
    simulated: bool = False
    margin: float = 0.0
    constraints: tuple[Program, ...] = ()
    derived: tuple[DerivedSetting, ...] = ()
    texts: Texts = field(default_factory=Texts, repr=False)

    def place(self, name: str) -> int:
        """Number of the input of a name.

        Raises
        ------
        UserError
            If there is none.
        """
        for number, entry in enumerate(self.inputs):
            if entry.name == name:
                return number
        raise UserError(f"the artifact has no input {name}", f"it has {', '.join(entry.name for entry in self.inputs)}")

    def predict(self, inputs: Sequence[Any], n: int) -> Numbers:
        """Predict the objective for ``n`` rows; ``inputs`` has a number or a column for each input."""
        blend = np.zeros(n)
        for member in self.members:
            blend = blend + member.predict(inputs, n)
        return np.broadcast_to(run(self.result, inputs, blend), (n,))

    # -- writing -------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Write the artifact.

        Raises
        ------
        UserError
            If it exceeds what the runtime takes.
        """
        _check_limits(self)
        return _Writer(self).write()

    def save(self, path: str | Path) -> int:
        """Write the artifact to a file, whole or not at all, and give its size in bytes.

        Raises
        ------
        UserError
            If it exceeds what the runtime takes, or cannot be written.
        """
        data = self.to_bytes()
        target = Path(path)
        part = target.with_name(target.name + ".part")
        try:
            part.write_bytes(data)
            part.replace(target)
        except OSError as error:
            raise UserError(f"cannot write the artifact {path}: {error.strerror}", "check the folder") from error
        return len(data)


def _check_limits(artifact: Artifact) -> None:
    tunables = sum(entry.kind == TUNABLE for entry in artifact.inputs)
    widest = max((len(member.features) for member in artifact.members), default=0)
    outputs = max((len(layer.bias) for member in artifact.members for layer in member.layers), default=0)
    for what, count, limit in (
        ("inputs", len(artifact.inputs), MAX_INPUTS),
        ("tunables", tunables, MAX_TUNABLES),
        ("features", widest, MAX_FEATURES),
        ("neurons in a layer", outputs, MAX_LAYER),
    ):
        if count > limit:
            raise UserError(f"the model has {count} {what}, the runtime takes {limit}", "train a smaller model")


def checksum(data: bytes) -> int:
    """Checksum over a file from byte 32 on."""
    words = np.frombuffer(data, dtype="<u8", offset=32)
    odd = 2 * np.arange(len(words), dtype=np.uint64) + np.uint64(1)
    return int(np.sum(words * odd, dtype=np.uint64))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


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
        constraints = [self._program(program) for program in a.constraints]
        derived = [self._derived(entry) for entry in a.derived]
        members, features, blocks, nodes, weights = self._members()
        result = self._program(a.result)
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
            (sum(len(part) for part in nodes), b"".join(part.tobytes() for part in nodes)),
            (sum(len(part) for part in weights), b"".join(part.tobytes() for part in weights)),
        ]
        body = b"".join(_padded(data) for _, data in sections)
        size = _HEADER.size + len(body)
        if size > MAX_BYTES:
            raise UserError(
                f"the artifact would have {size >> 20} MiB, the runtime takes {MAX_BYTES >> 20}",
                "train a model with fewer or smaller trees",
            )
        flags = _MAXIMIZE * a.maximize + _SIMULATED * a.simulated
        counts = [count for count, _ in sections]

        def header(total: int) -> bytes:
            return _HEADER.pack(MAGIC, VERSION, flags, size, total, *counts, *names, result, a.margin)

        return header(checksum(header(0) + body)) + body

    def _program(self, program: Program) -> int:
        if program not in self._programs:
            if depth(program) > MAX_STACK:
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
        return NONE if program is None else self._program(program)

    def _inputs(self) -> tuple[list[bytes], list[bytes]]:
        code = self._artifact.texts.code
        inputs: list[bytes] = []
        values: list[bytes] = []
        for entry in self._artifact.inputs:
            first = len(values)
            values += [_VALUE.pack(value.number, code(value.spelling), 0) for value in entry.values]
            inputs.append(
                _INPUT.pack(
                    entry.kind,
                    *(code(entry.name), code(entry.role), code(entry.unit), int(entry.categorical)),
                    *(first, len(entry.values), entry.default, CARRIERS.index(entry.carrier)),
                    *(code(entry.layer), code(entry.key)),
                    *(self._optional(p) for p in (entry.free, entry.active, entry.same)),
                    *(0, 0, entry.factor, entry.cost),
                )
            )
        return inputs, values

    def _derived(self, entry: DerivedSetting) -> bytes:
        code = self._artifact.texts.code
        tunables = [n for n, known in enumerate(self._artifact.inputs) if known.kind == TUNABLE]
        mask = sum(1 << tunables.index(number) for number in entry.needs)
        return _DERIVED.pack(
            CARRIERS.index(entry.carrier),
            *(code(entry.layer), code(entry.key), code(entry.template)),
            *(self._program(entry.value), self._optional(entry.active), mask, 0),
        )

    def _members(self) -> tuple[list[bytes], list[int], list[tuple[int, int, int, int]], list[Any], list[Any]]:
        members: list[bytes] = []
        features: list[int] = []
        blocks: list[tuple[int, int, int, int]] = []
        nodes: list[NDArray[Any]] = []
        weights: list[NDArray[Any]] = []
        node_count = weight_count = 0
        for member in self._artifact.members:
            first_feature, first_block = len(features), len(blocks)
            features += [self._program(program) for program in member.features]
            for tree in member.trees:
                packed = np.empty(len(tree.value), dtype=_NODE)
                packed["value"], packed["feature"], packed["right"] = tree.value, tree.feature, tree.right
                blocks.append((node_count, len(packed), 0, 0))
                nodes.append(packed)
                node_count += len(packed)
            for layer in member.layers:
                flat = np.concatenate([layer.weights.ravel(), layer.bias]).astype("<f4")
                outputs, width = layer.weights.shape
                blocks.append((weight_count, int(layer.rectify), width, outputs))
                weights.append(flat)
                weight_count += len(flat)
            members.append(
                _MEMBER.pack(
                    int(bool(member.layers)),
                    *(self._optional(member.gate), self._program(member.post)),
                    *(first_feature, len(member.features), first_block, len(blocks) - first_block),
                    _FLOAT32 * member.float32,
                    *(member.weight, member.base, member.scale),
                )
            )
        return members, features, blocks, nodes, weights


# -- reading -----------------------------------------------------------------------------------------------------


def read_artifact(path: str | Path) -> Artifact:
    """Read an artifact from a file.

    Raises
    ------
    UserError
        If it cannot be read or is damaged.
    """
    try:
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
    mend = "make it again with stripewise prescribe --artifact"
    if len(data) < _HEADER.size or data[:8] != MAGIC:
        raise UserError(f"{origin} is no model artifact", mend)
    _, version, flags, size, total, *rest = _HEADER.unpack_from(data)
    if version != VERSION:
        raise UserError(f"{origin} has version {version}, this Stripewise reads {VERSION}", mend)
    if size != len(data) or size % 8 or checksum(data) != total or flags & ~(_MAXIMIZE | _SIMULATED):
        raise UserError(f"{origin} is cut off or damaged", mend)
    try:
        return _Reader(data, flags, rest[:13], rest[13:18], rest[18]).artifact()
    except (ValueError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise UserError(f"{origin} is damaged: {error}", mend) from error


class _Reader:
    def __init__(self, data: bytes, flags: int, counts: list[int], names: list[int], margin: float) -> None:
        self._flags, self._names, self._margin = flags, names, margin
        sizes = (1, 8, 4, 8, _INPUT.size, _VALUE.size, 4, _DERIVED.size, _MEMBER.size, 4, 16, _NODE.itemsize, 4)
        parts, at = [], _HEADER.size
        for count, entry in zip(counts, sizes, strict=True):
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
        return None if number == NONE else self._programs[number]

    def artifact(self) -> Artifact:
        text = self._texts.at
        return Artifact(
            name=text(self._names[0]),
            identifier=text(self._names[1]),
            objective=text(self._names[2]),
            unit=text(self._names[3]),
            maximize=bool(self._flags & _MAXIMIZE),
            simulated=bool(self._flags & _SIMULATED),
            margin=self._margin,
            inputs=(inputs := self._inputs(text)),
            constraints=tuple(self._programs[int(n)] for n in np.frombuffer(self._parts[6], dtype="<u4")),
            derived=self._derived(text, inputs),
            members=self._members(),
            result=self._programs[self._names[4]],
            texts=self._texts,
        )

    def _inputs(self, text: Callable[[int], str]) -> tuple[Input, ...]:
        values = [Setting(number, text(place)) for number, place, _ in _VALUE.iter_unpack(self._parts[5])]
        found = []
        for row in _INPUT.iter_unpack(self._parts[4]):
            kind, name, role, unit, categorical, first, count, default, carrier, layer, key = row[:11]
            free, active, same, _, _, factor, cost = row[11:]
            found.append(
                Input(
                    *(text(name), kind, text(role), text(unit), bool(categorical)),
                    *(tuple(values[first : first + count]), default, CARRIERS[carrier], text(layer), text(key)),
                    *(factor, cost, self._optional(free), self._optional(active), self._optional(same)),
                )
            )
        return tuple(found)

    def _derived(self, text: Callable[[int], str], inputs: tuple[Input, ...]) -> tuple[DerivedSetting, ...]:
        tunables = [number for number, entry in enumerate(inputs) if entry.kind == TUNABLE]
        found = []
        for carrier, layer, key, template, value, active, mask, _ in _DERIVED.iter_unpack(self._parts[7]):
            needs = tuple(number for bit, number in enumerate(tunables) if mask >> bit & 1)
            programs = self._programs[value], self._optional(active)
            found.append(DerivedSetting(CARRIERS[carrier], text(layer), text(key), text(template), *programs, needs))
        return tuple(found)

    def _members(self) -> tuple[Member, ...]:
        features = [self._programs[int(n)] for n in np.frombuffer(self._parts[9], dtype="<u4")]
        blocks = np.frombuffer(self._parts[10], dtype="<u4").reshape(-1, 4)
        nodes = np.frombuffer(self._parts[11], dtype=_NODE)
        weights = np.frombuffer(self._parts[12], dtype="<f4")
        found = []
        for row in _MEMBER.iter_unpack(self._parts[8]):
            kind, gate, post, first_feature, count, first_block, used, flags, weight, base, scale = row
            own = blocks[first_block : first_block + used].tolist()
            trees, layers = [], []
            for first, size, inputs, outputs in own:
                if kind:
                    end = first + inputs * outputs
                    matrix = weights[first:end].reshape(outputs, inputs)
                    layers.append(Layer(matrix, weights[end : end + outputs], bool(size)))
                else:
                    part = nodes[first : first + size]
                    trees.append(TreeBlock(part["value"].copy(), part["feature"].copy(), part["right"].copy()))
            found.append(
                Member(
                    tuple(features[first_feature : first_feature + count]),
                    *(tuple(trees), tuple(layers), weight, base, scale),
                    *(self._optional(gate), self._programs[post], bool(flags & _FLOAT32)),
                )
            )
        return tuple(found)
