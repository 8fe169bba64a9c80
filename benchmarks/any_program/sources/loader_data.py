"""Data for loaders that others wrote: ``python loader_data.py images|text|patches|columns|chunks|shards``."""

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


if __name__ == "__main__":
    for kind in sys.argv[1:]:
        globals()[kind]()
