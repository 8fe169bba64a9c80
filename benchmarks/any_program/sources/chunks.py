"""Read a dataset of HDF5 row by row, where its chunks hold many rows, with a chunk cache of so many bytes."""

import sys

import h5py
import numpy as np

ROWS, COLUMNS, CHUNK = 192, 8192, (96, 128)


def make(path: str) -> None:
    """Write the dataset, compressed."""
    data = (np.arange(ROWS * COLUMNS, dtype=np.int64) ** 2 % 1021).astype(np.float32).reshape(ROWS, COLUMNS)
    with h5py.File(path, "w") as file:
        file.create_dataset("data", data=data, chunks=CHUNK, compression="gzip", shuffle=True)


def read(path: str, cache: int) -> None:
    """Add up the rows."""
    with h5py.File(path, rdcc_nbytes=cache, rdcc_nslots=10007) as file:
        data = file["data"]
        print(sum(float(data[row].sum(dtype=np.float64)) for row in range(ROWS)))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        read(sys.argv[2], int(sys.argv[3]))
