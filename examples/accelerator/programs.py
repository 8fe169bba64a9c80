"""Ninety synthetic programs in nine classes, from a seed: read ratios of 0.5, 0.7 and 0.9, operations small to large.

    python examples/accelerator/programs.py             # prints a name and the arguments of `synthetic`, a line each
    python examples/accelerator/programs.py --seed 3 --each 2

Classes are a study's (Robert, Zertal and Goret, 2020); the random laws of everything else are ours.
"""

from __future__ import annotations

import argparse
from dataclasses import astuple, dataclass

import numpy as np

READ_RATIOS = (0.5, 0.7, 0.9)
SIZES = {"small": (1 << 10, 8 << 10), "medium": (16 << 10, 64 << 10), "large": (128 << 10, 768 << 10)}
"""Smallest and largest operation of a class in bytes; log-uniform between."""
MIB = 1 << 20


@dataclass(frozen=True)
class Program:
    """The arguments of ``synthetic`` after the file's name, see ``pattern.h``."""

    seed: int
    operations: int
    read_ratio: float
    size: int
    file_size: int
    spread: int
    burst: int
    stray: float

    @property
    def arguments(self) -> list[str]:
        """As the command line takes them."""
        return [str(value) for value in astuple(self)]


def programs(seed: int = 0, each: int = 10) -> dict[str, list[Program]]:
    """Give ``each`` programs of every class, by the class's name as ``read05_small``."""
    return {
        f"read{round(10 * ratio):02d}_{name}": [
            _program(np.random.default_rng([seed, round(10 * ratio), place, number]), ratio, low, high)
            for number in range(each)
        ]
        for ratio in READ_RATIOS
        for place, (name, (low, high)) in enumerate(SIZES.items())
    }


def _program(rng: np.random.Generator, ratio: float, low: int, high: int) -> Program:
    def between(least: float, most: float) -> float:
        return float(np.exp(rng.uniform(np.log(least), np.log(most))))

    return Program(
        seed=int(rng.integers(1, 2**31)),
        operations=round(between(500, 5_000)),
        read_ratio=ratio,
        size=round(between(low, high)),
        file_size=MIB * round(between(128, 1024)),
        spread=round(between(0.5 * MIB, 48 * MIB)),
        burst=round(between(20, 1_000)),
        stray=float(np.round(rng.uniform(0.0, 0.3), 3)),
    )


def main() -> None:
    """Print the programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--each", type=int, default=10)
    given = parser.parse_args()
    for name, members in programs(given.seed, given.each).items():
        for number, program in enumerate(members):
            print(f"{name}_{number:02d}", *program.arguments)


if __name__ == "__main__":
    main()
