"""How an artifact lies in its file; ``native/include/stripewise_format.h`` says the same for the runtime."""

from __future__ import annotations

import struct

import numpy as np

MAGIC = b"SWMODEL\n"
VERSION = 2
MAX_BYTES = 32 << 20
MAX_INPUTS = 64
MAX_TUNABLES = 32
MAX_FEATURES = 512
MAX_LAYER = 4096
MAX_DEPTH = 256
MAXIMIZE, SIMULATED = 1, 2
FLOAT32 = 1
HEADER = struct.Struct("<8sIIQQ14I5I4xd")
INPUT = struct.Struct("<16I2d")
VALUE = struct.Struct("<dII")
DERIVED = struct.Struct("<8I")
MEMBER = struct.Struct("<10I3d")
CUT = np.dtype([("threshold", "<f4"), ("feature", "<u4")])
NODE = np.dtype([("what", "<u4"), ("right", "<u4")])


def checksum(data: bytes) -> int:
    """Checksum over a file from byte 32 on."""
    words = np.frombuffer(data, dtype="<u8", offset=32)
    odd = 2 * np.arange(len(words), dtype=np.uint64) + np.uint64(1)
    return int(np.sum(words * odd, dtype=np.uint64))
