"""Planted load: processes that write and compute, switched on and off at fixed times.

python benchmarks/real_programs/load.py FOLDER ON OFF     until it is ended
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_BLOCK = bytes(4 << 20)
_BLOCKS = 16


@contextlib.contextmanager
def planted_load(folder: Path, on: float, off: float, writers: int) -> Iterator[None]:
    """Keep writers at work for `on` seconds, then let them rest for `off` seconds, and so on; none where `on` is 0."""
    with tempfile.TemporaryDirectory(prefix="load-", dir=folder) as place:
        command = [sys.executable, __file__, place, str(on), str(off)]
        processes = [subprocess.Popen(command) for _ in range(writers if on else 0)]
        try:
            yield
        finally:
            for process in processes:
                process.terminate()
                process.wait()


def write(folder: Path, on: float, off: float) -> None:
    """Write a file again and again, with a pause of `off` seconds after each `on` seconds."""
    with (folder / f"load.{os.getpid()}").open("wb", buffering=0) as stream:
        while True:
            end = time.monotonic() + on
            while time.monotonic() < end:
                stream.seek(0)
                for _ in range(_BLOCKS):
                    stream.write(_BLOCK)
                os.fsync(stream.fileno())
            time.sleep(off)


if __name__ == "__main__":
    write(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
