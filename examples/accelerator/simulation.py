"""The replay of a synthetic program over a modelled storage, from Python. Simulated: no file is touched."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from programs import Program

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Storage:
    """A file system behind a network. The figures are guesses of a busy one, the same for all programs.

    Attributes
    ----------
    latency, write_latency : float
        Seconds a request.
    bandwidth, copy_bandwidth : float
        Bytes a second from the servers, and from memory.
    noise : float
        Standard deviation of the logarithm of a run's time.
    """

    latency: float = 5.0e-4
    bandwidth: float = 1.0e9
    write_latency: float = 2.0e-4
    copy_bandwidth: float = 5.0e9
    noise: float = 0.03


class _Pattern(ctypes.Structure):
    _fields_ = (
        ("seed", ctypes.c_uint64),
        ("operations", ctypes.c_int64),
        ("read_ratio", ctypes.c_double),
        ("size", ctypes.c_int64),
        ("file_size", ctypes.c_int64),
        ("spread", ctypes.c_int64),
        ("burst", ctypes.c_int64),
        ("stray", ctypes.c_double),
    )


class _Settings(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("cluster_threshold", "binsize", "sequence_length", "prefetch_size")
    )


class _Storage(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_double) for name in ("latency", "bandwidth", "write_latency", "copy_bandwidth"))


def build(folder: Path) -> Path:
    """Compile everything of this folder into another; give that of the libraries.

    Raises
    ------
    RuntimeError
        With the compiler's words.
    """
    done = subprocess.run(["make", "-C", str(HERE), f"BUILD={folder}"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"make in {HERE} failed: {done.stderr.strip()}")
    return folder


class Replay:
    """Times of a program.

    Parameters
    ----------
    library : Path
        ``libreplay.so``.
    program : Program
    storage : Storage
    seed : int
        Of the noise.
    """

    def __init__(self, library: Path, program: Program, storage: Storage, seed: int = 0) -> None:
        self._call = ctypes.CDLL(str(library)).replay
        self._call.restype = ctypes.c_double
        self._pattern = _Pattern(*(getattr(program, name) for name, _ in _Pattern._fields_))
        self._storage = _Storage(*(getattr(storage, name) for name, _ in _Storage._fields_))
        self._noise, self._seed, self._runs = storage.noise, seed, 0

    def exact(self, configuration: Mapping[str, int] | None) -> float:
        """Seconds without noise; of None: without the accelerator."""
        settings = None
        if configuration is not None:
            settings = ctypes.byref(_Settings(*(configuration[name] for name, _ in _Settings._fields_)))
        seconds = float(self._call(ctypes.byref(self._pattern), settings, ctypes.byref(self._storage)))
        if seconds < 0:
            raise MemoryError("the replay has no memory")
        return seconds

    def __call__(self, configuration: Mapping[str, int]) -> float:
        """Seconds of a run."""
        self._runs += 1
        rng = np.random.default_rng([self._seed, self._pattern.seed, self._runs])
        return self.exact(configuration) * float(np.exp(rng.normal(0.0, self._noise)))
