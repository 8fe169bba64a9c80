"""Data for loaders that others wrote: ``python loader_data.py KIND ...``, whose kinds are the functions below."""

import io
import pickle
import sys
import tarfile
from pathlib import Path

import numpy as np

RANDOM = np.random.default_rng(7)


def picture(side: int) -> bytes:
    """A JPEG of noise."""
    from PIL import Image  # noqa: PLC0415  each kind needs its own library

    out = io.BytesIO()
    Image.fromarray(RANDOM.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(out, "JPEG", quality=90)
    return out.getvalue()


def images() -> None:
    """A folder a class, as ``ImageFolder`` of torchvision reads them."""
    for number in range(400):
        folder = Path("images") / f"class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(picture(256))


def text() -> None:
    """Tokens as nanoGPT keeps them."""
    Path("data/tokens").mkdir(parents=True)
    for name, count in (("train", 24 << 20), ("val", 4 << 20)):
        RANDOM.integers(0, 64, count, dtype=np.uint16).tofile(f"data/tokens/{name}.bin")
    Path("data/tokens/meta.pkl").write_bytes(pickle.dumps({"vocab_size": 64}))


def patches() -> None:
    """Pairs of patches as SRCNN keeps them."""
    import h5py  # noqa: PLC0415

    Path("patches").mkdir()
    with h5py.File("patches/train.h5", "w") as file:
        for name in ("lr", "hr"):
            file[name] = RANDOM.integers(0, 256, (1200, 33, 33)).astype("f4")
    with h5py.File("patches/eval.h5", "w") as file:
        for name in ("lr", "hr"):
            for number in range(40):
                file[f"{name}/{number}"] = RANDOM.integers(0, 256, (96, 96)).astype("f4")


def columns() -> None:
    """A table of which a program reads four columns."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    rows = 400_000
    table = {"id": np.arange(rows), "label": RANDOM.integers(0, 2, rows)}
    table |= {f"c{number}": RANDOM.random(rows) for number in range(8)}
    table |= {"verified": RANDOM.integers(0, 2, rows)}
    table |= {f"d{number}": RANDOM.random(rows) for number in range(8)}
    table |= {"vote": RANDOM.random(rows)}
    Path("table").mkdir()
    pq.write_table(pa.table(table), "table/train.parquet", row_group_size=5_000)


def chunks() -> None:
    """Images along the last dimension, in compressed chunks that hold parts of all of them."""
    import h5py  # noqa: PLC0415

    Path("chunks").mkdir()
    with h5py.File("chunks/images.h5", "w") as file:
        content = RANDOM.integers(0, 4, (512, 512, 4, 32), dtype=np.uint8)
        file.create_dataset("data", data=content, chunks=(128, 128, 4, 32), compression="gzip", compression_opts=1)


def shards() -> None:
    """Shards as webdataset reads them."""
    Path("webdataset").mkdir()
    for shard in range(4):
        with tarfile.open(f"webdataset/{shard:05}.tar", "w") as tar:
            for number in range(400):
                for ending, data in (("image.jpg", picture(128)), ("label.id", b"1")):
                    entry = tarfile.TarInfo(f"{shard}{number:05}.{ending}")
                    entry.size = len(data)
                    tar.addfile(entry, io.BytesIO(data))


def stations() -> None:
    """A table of 24 files, as the One Billion Row Challenge has in one."""
    import pandas as pd  # noqa: PLC0415

    Path("table").mkdir()
    for number in range(24):
        names = [f"station{one:03}" for one in RANDOM.integers(0, 200, 2000)]
        pd.DataFrame({"station": names, "measure": RANDOM.random(2000)}).to_parquet(f"table/{number:02}.parquet")


def remote() -> None:
    """A table of a few large values, so that reading takes longer than looking at each."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = {f"c{number}": [RANDOM.bytes(16_384) for _ in range(128)] for number in range(16)}
    Path("served").mkdir()
    pq.write_table(pa.table(table), "served/table.parquet", row_group_size=16, compression="none", use_dictionary=False)


def beams() -> None:
    """A file of HDF5 whose variables grew together, so that the chunks of each lie apart."""
    import h5py  # noqa: PLC0415

    Path("served").mkdir()
    with h5py.File("served/beams.h5", "w") as file:
        sets = [
            file.create_dataset(f"gt{track}{side}/heights/{name}", (100_000,), "f8", chunks=(10_000,))
            for track in (1, 2, 3)
            for side in "lr"
            for name in ("h_ph", "lat_ph", "lon_ph", "delta_time")
        ]
        for start in range(0, 100_000, 10_000):
            for one in sets:
                one[start : start + 10_000] = RANDOM.random(10_000)


def volume() -> None:
    """An array of 256 chunks of 64 KiB, each an object or file of its own."""
    import zarr  # noqa: PLC0415

    shape = (128, 256, 256)
    array = zarr.create_array("served/volume.zarr", shape=shape, chunks=(32,) * 3, dtype="u2", compressors=None)
    array[:] = RANDOM.integers(0, 1 << 16, shape, dtype="u2")


if __name__ == "__main__":
    for kind in sys.argv[1:]:
        globals()[kind]()
