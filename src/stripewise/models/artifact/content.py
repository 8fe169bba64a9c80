"""The artifact: a performance model with its encoder, its tunables and their rules, as the runtime reads it.

It holds the parts that compute (trees, layers, the members of its blend) and the entries of its file, which
``native/include/formats.toml`` defines for both sides. The runtime evaluates it; ``tests/python_model.py`` does the
same in Python, for comparison.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stripewise.formats import ARTIFACT_HEADER, ARTIFACT_SECTIONS
from stripewise.models.artifact.program import OUTPUT, Program, constant


@dataclass(frozen=True, eq=False)
class TreeBlock:
    """A tree in preorder.

    Attributes
    ----------
    value : ndarray of float32
        Threshold of an inner node, value of a leaf.
    feature : ndarray of uint32
        :data:`~stripewise.formats.ARTIFACT_NONE` for a leaf.
    right : ndarray of uint32
        Place of the right child; the left one follows its parent.
    """

    value: NDArray[np.float32]
    feature: NDArray[np.uint32]
    right: NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Layer:
    """A fully connected layer; ``weights`` of shape (outputs, inputs) and ``bias`` are float32."""

    weights: NDArray[np.float32]
    bias: NDArray[np.float32]
    rectify: bool


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


_NO_MARGIN: Program = constant(0.0)


@dataclass(frozen=True)
class InputValue:
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
class ArtifactInput:
    """A quantity that the model or a rule looks at.

    Attributes
    ----------
    name, role, unit : str
        As in the table.
    kind : int
        ``CONTEXT``, ``WORD`` or ``TUNABLE`` of :mod:`stripewise.formats`.
    values : tuple of InputValue
        What may be chosen, or was seen in training.
    default : int
        Place among the values.
    carrier : str
        One of :data:`stripewise.formats.CARRIERS`.
    layer, key : str
        As in a plan.
    factor : float
        What turns the unit into bytes; 1 if it is not a size.
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
    values: tuple[InputValue, ...] = ()
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
    margin : Program
        Of a workload: natural logarithm of the gain below which the current settings are kept. What is unknown of the
        workload reads as not a number.
    reach : float
        That of the largest gain that the measurements support; 0 where unknown.
    inputs : tuple of ArtifactInput
        Tunables in an order in which rules need earlier ones only.
    measured : tuple of Program
        Constraints that leave out what was never measured together.
    expected : tuple of Program
        Constraints that leave out what is expected to harm; they bind only where today's settings keep them.
    result : Program
        From the blend (``OUTPUT``) to the objective.
    texts : Texts
        The codes of texts in programs and values; the same object that they were made with.
    """

    name: str
    objective: str
    unit: str
    maximize: bool
    inputs: tuple[ArtifactInput, ...]
    members: tuple[Member, ...]
    result: Program = OUTPUT
    identifier: str = ""
    simulated: bool = False
    margin: Program = _NO_MARGIN
    reach: float = 0.0
    constraints: tuple[Program, ...] = ()
    measured: tuple[Program, ...] = ()
    expected: tuple[Program, ...] = ()
    derived: tuple[DerivedSetting, ...] = ()
    texts: Texts = field(default_factory=Texts, repr=False)


HEADER = struct.Struct(ARTIFACT_HEADER)
ENTRIES = {name: struct.Struct(code) for name, code in ARTIFACT_SECTIONS.items()}
CUT = np.dtype([("threshold", "<f4"), ("feature", "<u4")])
NODE = np.dtype([("what", "<u4"), ("right", "<u4")])


def checksum(data: bytes) -> int:
    """Checksum over a file from byte 32 on."""
    words = np.frombuffer(data, dtype="<u8", offset=32)
    odd = 2 * np.arange(len(words), dtype=np.uint64) + np.uint64(1)
    return int(np.sum(words * odd, dtype=np.uint64))
