"""The entries of an artifact's file; ``native/include/formats.toml`` defines them for both sides."""

from __future__ import annotations

import struct

import numpy as np

from stripewise.formats import ARTIFACT_HEADER, ARTIFACT_SECTIONS

HEADER = struct.Struct(ARTIFACT_HEADER)
ENTRIES = {name: struct.Struct(code) for name, code in ARTIFACT_SECTIONS.items()}
CUT = np.dtype([("threshold", "<f4"), ("feature", "<u4")])
NODE = np.dtype([("what", "<u4"), ("right", "<u4")])


def checksum(data: bytes) -> int:
    """Checksum over a file from byte 32 on."""
    words = np.frombuffer(data, dtype="<u8", offset=32)
    odd = 2 * np.arange(len(words), dtype=np.uint64) + np.uint64(1)
    return int(np.sum(words * odd, dtype=np.uint64))
