"""PyTorch's files (``.pt``) without PyTorch, and weights of somebody's own network of the study's shape in one.

Such a file is a ZIP with a pickle. A reader of our own takes tensors, numbers and texts from it, and nothing else. It
imports and calls nothing that the file names, and takes as long as the file is.
"""

from __future__ import annotations

import math
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from stripewise.errors import UserError
from stripewise.models.files import check_unpacked
from stripewise.models.network import HIDDEN

_LARGEST = 64 << 20
_MOST_PICKLED = 4 << 20
_MOST_DIMENSIONS = 4
_MOST_PARTS = 1000
_STORAGES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "LongStorage": "<i8"}
_MODULES = re.compile(r"__torch__\.(torch\.nn\.modules\.(\w+)(\.___torch_mangle_\d+)?|.*)")
_FIX = "save it with torch.save(model.state_dict(), FILE) or torch.jit.script(model).save(FILE)"
_BETWEEN = ("Linear", "ReLU", "Dropout", "Sequential", "Identity", "Flatten")

Layers = tuple[tuple[NDArray[np.float32], ...], tuple[NDArray[np.float32], ...]]


class _Refused(Exception):  # noqa: N818  it becomes a UserError with the file's name
    """The file holds something else."""


class _Table(dict[Any, Any]):
    """Stands in for an OrderedDict, which may have attributes."""

    def __init__(self) -> None:
        super().__init__()


class _Storage:
    """The type of the numbers of a tensor."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class _Module:
    """A part of a TorchScript module: its attributes, no code."""

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, dict):
            raise _Refused("a module of it has a state that is not a dictionary")
        self.__dict__.update(state)


_Unpickler: Any = vars(pickle)["_Unpickler"]  # the reader in Python
_STEPS = b"".join(
    (
        *(pickle.PROTO, pickle.STOP, pickle.MARK, pickle.BINPUT, pickle.LONG_BINPUT, pickle.BINGET, pickle.LONG_BINGET),
        *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1),
        *(pickle.BINFLOAT, pickle.BINUNICODE, pickle.SHORT_BINSTRING, pickle.EMPTY_DICT, pickle.EMPTY_LIST),
        *(pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.APPEND, pickle.APPENDS),
        *(pickle.GLOBAL, pickle.NEWOBJ, pickle.REDUCE, pickle.BINPERSID),
    )
)
"""What PyTorch writes, besides what :class:`_Reader` does itself."""


class _Reader(_Unpickler):  # type: ignore[misc]
    """Reads tensors, and dictionaries of them.

    The reader in C makes a list of up to 32 GiB where a file of ten bytes remembers an object under a large number.
    """

    def __init__(self, stream: BinaryIO, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(stream, encoding="utf-8")
        self._archive, self._folder = archive, folder
        self._read: dict[tuple[str, str], NDArray[Any]] = {}
        self.kinds: set[str] = set()

    def _build(self) -> None:
        """Give attributes to parts of a file alone: those of a class or function here would outlast it."""
        state = self.stack.pop()
        if type(self.stack[-1]) is _Module:
            self.stack[-1].__setstate__(state)
        elif type(self.stack[-1]) is not _Table:
            raise _Refused("it sets attributes of an unknown object")

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set(self.stack[-1], [key, value])

    def _set_items(self) -> None:
        items = self.pop_mark()
        self._set(self.stack[-1], items)

    def _set(self, table: Any, items: list[Any]) -> None:
        # Numbers and tuples that share a hash would make a small file take hours.
        if not isinstance(table, dict) or not all(type(key) is str for key in items[::2]):
            raise _Refused("a dictionary of it has a key that is not a text")
        table.update(zip(items[::2], items[1::2], strict=True))

    dispatch: ClassVar[dict[int, Any]] = {
        **{step: _Unpickler.dispatch[step] for step in _STEPS},
        **{pickle.BUILD[0]: _build, pickle.SETITEM[0]: _set_item, pickle.SETITEMS[0]: _set_items},
    }

    def find_class(self, module: str, name: str) -> Any:
        """Give stand-ins of our own for the few names that such files need."""
        if (module, name) == ("collections", "OrderedDict"):
            return _Table
        if module == "torch" and name in _STORAGES:
            return _Storage(name)
        if module == "torch._utils" and name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
            return _make_tensor if name == "_rebuild_tensor_v2" else _make_parameter
        if module.startswith("__torch__"):
            self.kinds.add(name if _MODULES.fullmatch(module) and ".nn.modules." in module else "")
            return _Module
        raise _Refused(
            f"it holds an object of {module}.{name}: a whole Python module rather than its state_dict or TorchScript"
        )

    def persistent_load(self, pid: Any) -> NDArray[Any]:
        """Read the numbers of a tensor."""
        _, kind, key, _, count = pid
        if not isinstance(kind, _Storage) or not re.fullmatch(r"\d+", str(key)):
            raise _Refused("a tensor of it has numbers of an unknown kind")
        # Tensors share their numbers: reading them for each would let a small file fill the memory.
        if (kind.kind, key) not in self._read:
            raw = self._archive.read(f"{self._folder}/data/{key}")
            self._read[kind.kind, key] = np.frombuffer(raw, _STORAGES[kind.kind])
        return self._read[kind.kind, key][: int(count)]


def _make_tensor(storage: Any, offset: int, shape: Sequence[int], stride: Sequence[int], *rest: Any) -> Any:
    if len(shape) > _MOST_DIMENSIONS or not all(type(n) is int and 0 <= n <= _LARGEST for n in (*shape, offset)):
        raise _Refused("a tensor of it has an unknown shape")
    size = math.prod(shape)
    contiguous = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    if not isinstance(storage, np.ndarray) or list(stride) != contiguous:
        raise _Refused("a tensor of it is not stored in one piece")
    return storage[offset : offset + size].reshape(tuple(shape))


def _make_parameter(data: Any, *rest: Any) -> Any:
    return data


def read_weights(path: str | Path, inputs: int) -> Layers:
    """Read the weights and biases of a network of the study's shape: inputs - 256 - 128 - 1, with ReLU between.

    Parameters
    ----------
    inputs : int
        That the network must have.

    Returns
    -------
    tuple of tuple of ndarray
        The weights of the layers, shape ``(outputs, inputs)``, and their biases.

    Raises
    ------
    UserError
        If the file is something else, with the reason.
    """
    tensors, kinds = read_pickled(path, _read_tensors, _FIX)
    foreign = sorted(kind for kind in kinds if kind and kind not in _BETWEEN)
    if foreign:
        raise UserError(
            f"{path} cannot be used as a model: it has {foreign[0]} layers, and only linear ones with ReLU are known",
            "train a network of the study's shape",
        )
    return _check_shape(path, tensors, inputs)


T = TypeVar("T")


def read_pickled(path: str | Path, take: Callable[[Any, set[str]], T], fix: str) -> T:
    """Read a file of PyTorch.

    Parameters
    ----------
    take : callable
        Makes of what was pickled, and of the kinds of TorchScript modules in it, what is asked for.
    fix : str
        What to do where the file is not such a one.

    Raises
    ------
    UserError
        If the file is something else, with the reason.
    """
    try:
        return take(*_unpickle(Path(path)))
    except _Refused as error:
        raise UserError(f"{path} cannot be used as a model: {error}", fix) from error
    except OSError as error:
        raise UserError(f"cannot read the model {path}: {error.strerror}", "check the path") from error
    except (zipfile.BadZipFile, zlib.error, struct.error, pickle.UnpicklingError, EOFError) as error:
        raise UserError(f"{path} is not a .pt file of PyTorch 1.6 or newer, or is damaged: {error}", fix) from error
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError, MemoryError) as error:
        # RuntimeError: also of an archive that is encrypted, or packed in an unknown way, or nested too deeply.
        raise UserError(f"{path} is damaged: {type(error).__name__}: {error}", fix) from error


def _unpickle(path: Path) -> tuple[Any, set[str]]:
    """Read what was pickled, and the kinds of TorchScript modules in it."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        check_unpacked(archive, path)
        pickled = next((name for name in entries if name.endswith("/data.pkl")), None)
        if pickled is None or entries[pickled].file_size > _MOST_PICKLED:
            raise _Refused("it has no data.pkl of tensors")
        folder = pickled.removesuffix("/data.pkl")
        order = entries.get(f"{folder}/byteorder")
        if order is not None and archive.read(order).strip() != b"little":
            raise _Refused("its numbers are big-endian")
        with archive.open(pickled) as stream:
            reader = _Reader(stream, archive, folder)  # type: ignore[arg-type]  # it has what a pickle needs of a file
            return reader.load(), reader.kinds


def _read_tensors(content: Any, kinds: set[str]) -> tuple[dict[str, NDArray[Any]], set[str]]:
    """Find all tensors by their names, in the file's order."""
    found: dict[str, NDArray[Any]] = {}
    seen = 0
    waiting: list[tuple[str, Any]] = [("", content)]
    while waiting:
        name, part = waiting.pop()
        seen += 1
        if seen > _MOST_PARTS:
            raise _Refused(f"it has more than {_MOST_PARTS:,} parts")
        if isinstance(part, np.ndarray):
            found[name] = part
        elif isinstance(part, _Module | Mapping):
            parts = part.__dict__ if isinstance(part, _Module) else part
            waiting += [(f"{name}.{key}" if name else str(key), one) for key, one in reversed(list(parts.items()))]
    return found, kinds


def _check_shape(path: str | Path, tensors: Mapping[str, NDArray[Any]], inputs: int) -> Layers:
    names = [name for name in tensors if name.rpartition(".")[2] == "weight"]
    sizes = [inputs, *HIDDEN, 1]
    wanted = " - ".join(map(str, sizes))
    shapes = [tensors[name].shape for name in names]
    if shapes != list(zip(sizes[1:], sizes[:-1], strict=True)):
        layers = [shape for shape in shapes if len(shape) == 2]
        linked = all(before[0] == after[1] for before, after in zip(layers, layers[1:], strict=False))
        has = " - ".join(map(str, [layers[0][1], *(shape[0] for shape in layers)])) if layers and linked else shapes
        raise UserError(
            f"{path} is a network {has or 'without layers'}, and this table needs {wanted}",
            "give it an input for each column but the operation, in the table's order. A category has one for each "
            "value, or one alone for two values",
        )
    biases = [tensors.get(f"{name.removesuffix('weight')}bias") for name in names]
    if any(bias is None or bias.shape != shape[:1] for bias, shape in zip(biases, shapes, strict=True)):
        raise UserError(f"{path} has layers without a bias", "train a network whose layers have one")
    left = len(tensors) - 2 * len(names)
    numbers = [np.asarray(one, np.float32) for one in (*(tensors[name] for name in names), *biases)]
    if left or not all(np.isfinite(one).all() for one in numbers):
        what = "other tensors than weights and biases" if left else "numbers that are not finite"
        raise UserError(f"{path} cannot be used as a model: it has {what}", "train a network of the study's shape")
    return tuple(numbers[: len(names)]), tuple(numbers[len(names) :])
