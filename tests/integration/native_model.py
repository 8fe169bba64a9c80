"""The runtime's evaluator of artifacts, compiled alone and called through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_ERROR = 256


class Column(ctypes.Structure):
    """``struct sw_column``."""

    _fields_ = (("data", ctypes.POINTER(ctypes.c_double)), ("uniform", ctypes.c_bool))


class Choice(ctypes.Structure):
    """``struct sw_choice``."""

    _fields_ = (
        ("combinations", ctypes.c_size_t),
        ("current", ctypes.c_double),
        ("best", ctypes.c_double),
        ("margin", ctypes.c_double),
        ("unlike", ctypes.c_bool),
        ("changed", ctypes.c_bool),
        ("values", ctypes.c_double * 64),
        ("gain", ctypes.c_double),
        ("alternatives", ctypes.c_size_t),
    )


def open_library(path: Path) -> ctypes.CDLL:
    """Open the library of the core."""
    opened = ctypes.CDLL(str(path))
    for name in ("sw_model_parse", "sw_model_read", "sw_model_predict", "sw_model_choose"):
        getattr(opened, name).restype = ctypes.c_bool
    return opened


def _pointer(array: Any) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


class NativeModel:
    """An artifact as the runtime holds it."""

    def __init__(self, library: ctypes.CDLL, data: bytes) -> None:
        self._library = library
        self._model = ctypes.create_string_buffer(4096)
        error = ctypes.create_string_buffer(_ERROR)
        if not library.sw_model_parse(data, ctypes.c_size_t(len(data)), self._model, error, ctypes.c_size_t(_ERROR)):
            raise ValueError(error.value.decode())

    def close(self) -> None:
        """Release its memory."""
        self._library.sw_model_free(self._model)

    def _columns(self, inputs: Sequence[Any], n: int) -> Any:
        self._kept = [np.ascontiguousarray(np.atleast_1d(np.asarray(i, dtype=np.float64))) for i in inputs]
        return (Column * len(inputs))(*(Column(_pointer(k), len(k) == 1 and n > 1) for k in self._kept))

    def predict(self, inputs: Sequence[Any], n: int) -> Any:
        """``sw_model_predict``."""
        values = np.empty(n)
        columns = self._columns(inputs, n)
        assert self._library.sw_model_predict(self._model, ctypes.c_size_t(n), columns, _pointer(values))
        return values

    def encode(self, member: int, count: int, inputs: Sequence[Any], n: int) -> list[Any]:
        """``sw_model_encode``: the features of a member, each as a column."""
        data, scratch = np.empty((max(count, 1), n)), np.empty(32 * n)
        encoded = (Column * max(count, 1))()
        self._library.sw_model_encode(
            self._model,
            ctypes.c_uint32(member),
            ctypes.c_size_t(n),
            self._columns(inputs, n),
            _pointer(data),
            encoded,
            _pointer(scratch),
        )
        return [np.full(n, data[i, 0]) if encoded[i].uniform else data[i].copy() for i in range(count)]

    def choose(self, inputs: Sequence[float]) -> Choice:
        """``sw_model_choose``."""
        choice, error = Choice(), ctypes.create_string_buffer(_ERROR)
        row = np.asarray(inputs, dtype=np.float64)
        made = self._library.sw_model_choose(
            self._model, _pointer(row), ctypes.byref(choice), error, ctypes.c_size_t(_ERROR)
        )
        if not made:
            raise ValueError(error.value.decode())
        return choice
