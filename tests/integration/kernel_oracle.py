"""What the kernel's file must hold and which rank owns which byte, computed independently of the C code."""

import numpy as np

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(value: np.ndarray) -> np.ndarray:
    """SplitMix64's output function, elementwise on uint64."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def content(size: int, seed: int = 0, file_index: int = 0) -> bytes:
    """The first `size` bytes of the test file."""
    key = mix(np.array([seed], dtype=np.uint64) + np.array([file_index + 1], dtype=np.uint64) * GOLDEN)
    words = mix(key + (np.arange(size // 8 + 1, dtype=np.uint64) + np.uint64(1)) * GOLDEN)
    return words.astype("<u8").tobytes()[:size]


def segmented_owner(offset: int, ranks: int, block: int) -> int:
    """The rank whose block holds the byte."""
    return offset // block % ranks


def strided_owner(offset: int, ranks: int, piece: int) -> int:
    """The rank whose piece holds the byte."""
    return offset // piece % ranks


def tile_owners(tiles: tuple[int, int], size: tuple[int, int], overlap: tuple[int, int]) -> np.ndarray:
    """The owners of every element of the array of tiles, all (x, y).

    Returns
    -------
    ndarray of bool, shape (ranks, height, width)
    """
    width, height = (n * (s - o) + o for n, s, o in zip(tiles, size, overlap, strict=True))
    owners = np.zeros((tiles[0] * tiles[1], height, width), dtype=bool)
    for rank in range(tiles[0] * tiles[1]):
        y, x = divmod(rank, tiles[0])
        top, left = y * (size[1] - overlap[1]), x * (size[0] - overlap[0])
        owners[rank, top : top + size[1], left : left + size[0]] = True
    return owners
