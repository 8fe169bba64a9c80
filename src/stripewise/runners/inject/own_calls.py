"""Whether the calls of the C library that a program with MPI makes itself are counted beside MPI-IO."""

from __future__ import annotations

_MOST_RANKS = 1024
"""Each process leaves a file in the run's folder, and one process merges them."""

TOO_MANY = (
    f"with more than {_MOST_RANKS} ranks only MPI-IO is counted, and not the program's own calls of the C library: run "
    "fewer ranks, or name a stack that acts on these calls (posix), to have them counted"
)


def few_enough(ranks: int | None) -> bool:
    """Whether a job of so many ranks is counted without being asked; None where the launcher does not say."""
    return ranks is None or ranks <= _MOST_RANKS
