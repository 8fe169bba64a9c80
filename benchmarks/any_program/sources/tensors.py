"""Write a state of 32 MiB as a file for each of eight arrays, each safe on storage before the next, as savers do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

for number in range(8):
    array = np.random.default_rng(number).integers(0, 255, 4 << 20, dtype=np.uint8)
    with Path(f"{sys.argv[1]}.{number}.npy").open("wb") as file:
        np.save(file, array)
        file.flush()
        os.fsync(file.fileno())
