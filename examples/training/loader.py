"""A training job without the training: workers read samples, the trainer adds them up, and writes checkpoints.

    python loader.py make data.npy              writes the samples (.npy, .h5 or a .zarr folder)
    python loader.py train data.npy             reads all of them once, in shuffled batches
    python loader.py checkpoint state.bin       writes a state in parts, with several threads

What can be tuned are variables, so that one stack file fits programs of all kinds: NUM_WORKERS, PREFETCH_FACTOR,
READ_BATCH (samples that one read takes), CHECKPOINT_THREADS, CHECKPOINT_CHUNK (bytes), CHECKPOINT_FILES. The samples,
their order and what is written do not depend on them.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

SAMPLES, VALUES, BATCH = 4096, 2048, 64
STATE = 64 << 20


def number(name: str, default: int) -> int:
    """Give a setting from its variable."""
    return int(os.environ.get(name, default))


class Plain:
    """Samples in a file of numpy, read without mapping it."""

    def __init__(self, path: Path) -> None:
        self._start = path.stat().st_size - SAMPLES * VALUES * 4
        self._file = os.open(path, os.O_RDONLY)

    def __getitem__(self, wanted: slice) -> np.ndarray[Any, Any]:
        size = VALUES * 4
        raw = os.pread(self._file, (wanted.stop - wanted.start) * size, self._start + wanted.start * size)
        return np.frombuffer(raw, np.float32).reshape(-1, VALUES)


def opened(path: Path) -> Any:
    """Open the samples; each worker does so itself, since handles of HDF5 do not survive a fork."""
    if path.suffix == ".h5":
        import h5py  # noqa: PLC0415  only this form needs it

        return h5py.File(path)["samples"]
    if path.suffix == ".zarr":
        import zarr  # noqa: PLC0415  only this form needs it

        return zarr.open(str(path), mode="r")["samples"]
    return Plain(path)


def make(path: Path) -> None:
    """Write the samples."""
    data = np.random.default_rng(1).random((SAMPLES, VALUES), np.float32)
    if path.suffix == ".h5":
        import h5py  # noqa: PLC0415

        with h5py.File(path, "w") as file:
            file.create_dataset("samples", data=data, chunks=(BATCH, VALUES))
    elif path.suffix == ".zarr":
        import zarr  # noqa: PLC0415

        zarr.open(str(path), mode="w").create_array("samples", data=data, chunks=(BATCH, VALUES))
    else:
        np.save(path, data)


def forget(path: Path) -> None:
    """Drop what memory holds of the samples: a job reads more than fits."""
    for part in [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]:
        file = os.open(part, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def batch_of(samples: Any, first: int, at_once: int) -> np.ndarray[Any, Any]:
    """Read one batch, so many samples at once."""
    return np.concatenate([samples[at : at + at_once] for at in range(first, first + BATCH, at_once)])


def work(path: Path, asked: Any, answers: Any, at_once: int) -> None:
    """Read batches until there are no more."""
    samples = opened(path)
    for first in iter(asked.get, None):
        answers.put((first, batch_of(samples, first, at_once)))


def batches(path: Path, order: list[int], start: str) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
    """Give all batches, in the order in which they are ready."""
    workers, at_once = number("NUM_WORKERS", 0), min(BATCH, number("READ_BATCH", 1))
    if not workers:
        samples = opened(path)
        yield from ((first, batch_of(samples, first, at_once)) for first in order)
        return
    context = multiprocessing.get_context(start)
    asked, answers = context.Queue(), context.Queue(workers * number("PREFETCH_FACTOR", 2))
    running = [context.Process(target=work, args=(path, asked, answers, at_once)) for _ in range(workers)]
    for one in running:
        one.start()
    for first in [*order, *[None] * workers]:
        asked.put(first)
    for _ in order:
        yield answers.get()
    for one in running:
        one.join()


def train(path: Path, start: str, compute: float) -> None:
    """Read everything once; sums are kept by batch, so that they do not depend on which one came first."""
    order = list(range(0, SAMPLES, BATCH))
    random.Random(1).shuffle(order)
    forget(path)
    began, sums = time.monotonic(), {}
    for first, batch in batches(path, order, start):
        sums[first] = batch.sum(dtype=np.float64)
        time.sleep(compute)
    spent = time.monotonic() - began
    told = hashlib.sha256(np.array([sums[first] for first in sorted(sums)]).tobytes()).hexdigest()[:16]
    print(f"{SAMPLES / spent:.1f} samples/s, digest {told}")


def checkpoint(path: Path) -> None:
    """Write a state: the files one after the other are the same bytes whatever the settings."""
    threads, chunk = number("CHECKPOINT_THREADS", 1), number("CHECKPOINT_CHUNK", 1 << 20)
    files = number("CHECKPOINT_FILES", 1)
    state = np.random.default_rng(2).bytes(STATE)
    each = STATE // files
    began = time.monotonic()

    def part(worker: int) -> None:
        for number_ in range(worker, files, threads):
            with closing(path.with_suffix(f".{number_}").open("wb", 0)) as out:
                for at in range(number_ * each, (number_ + 1) * each, chunk):
                    out.write(state[at : min(at + chunk, (number_ + 1) * each)])
                os.fsync(out.fileno())

    running = [threading.Thread(target=part, args=(worker,)) for worker in range(threads)]
    for one in running:
        one.start()
    for one in running:
        one.join()
    spent = time.monotonic() - began
    written = hashlib.sha256(b"".join(path.with_suffix(f".{i}").read_bytes() for i in range(files))).hexdigest()[:16]
    print(f"{STATE / 2**20 / spent:.1f} MiB/s, digest {written}")


def main() -> None:
    """Make, train or write a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "train", "checkpoint"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--start", choices=["fork", "spawn"], default="fork", help="how workers begin")
    parser.add_argument("--compute", type=float, default=0.0, help="seconds that the trainer takes for a batch")
    given = parser.parse_args()
    if given.what == "make":
        make(given.path)
    elif given.what == "train":
        train(given.path, given.start, given.compute)
    else:
        checkpoint(given.path)


if __name__ == "__main__":
    main()
