"""The thresholds of the findings, in one table; a rule may bring more (:func:`stripewise.diagnose.finding.rule`).

The values were chosen on some seeds of the labelled set in ``benchmarks/diagnosis`` and scored on others; its README
says which on which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stripewise.errors import UserError, choose


@dataclass(frozen=True)
class Limit:
    """One threshold.

    Attributes
    ----------
    value : float
    unit : str
        ``B``, ``s``, ``share`` (0 to 1), ``ratio`` or ``count``.
    meaning : str
    """

    value: float
    unit: str
    meaning: str


LIMITS: dict[str, Limit] = {
    "small_share": Limit(0.1, "share", "of the bytes of a direction, moved by requests of at most 100 KiB"),
    "small_calls": Limit(50, "count", "small requests of a direction"),
    "unaligned_share": Limit(0.1, "share", "of the requests that begin or lie off the alignment"),
    "unaligned_calls": Limit(50, "count", "requests off the alignment"),
    "random_share": Limit(0.2, "share", "of a direction's requests that go backwards in the file"),
    "random_calls": Limit(50, "count", "requests that go backwards"),
    "redundant_ratio": Limit(1.5, "ratio", "bytes moved to bytes of the file that were touched"),
    "redundant_bytes": Limit(1 << 20, "B", "moved again"),
    "independent_share": Limit(0.5, "share", "of a file's MPI-IO data calls that are independent"),
    "independent_calls": Limit(50, "count", "independent calls on shared files"),
    "merge_below": Limit(1 << 20, "B", "mean independent call that a collective one would merge"),
    "piece_ratio": Limit(
        0.5, "ratio", "mean request to the file system to mean collective call, below it is piecewise"
    ),
    "piece_below": Limit(256 << 10, "B", "mean request of a piecewise access"),
    "piece_calls": Limit(50, "count", "piecewise requests"),
    "aggregate_above": Limit(1 << 20, "B", "mean contiguous collective call whose exchange saves nothing"),
    "rewrite_share": Limit(0.1, "share", "bytes read in order to write, of the bytes written"),
    "posix_shared_share": Limit(0.5, "share", "of the bytes in files that several ranks share without MPI-IO"),
    "blocking_calls": Limit(100, "count", "blocking MPI-IO calls of a direction, and no other"),
    "one_stripe_writers": Limit(4, "count", "ranks that write one file on one stripe"),
    "one_stripe_bytes": Limit(256 << 20, "B", "of a file on one stripe"),
    "wide_stripe_bytes": Limit(1 << 20, "B", "of a file for each of its stripes"),
    "wide_stripe_files": Limit(8, "count", "small files that are striped widely"),
    "stripe_share": Limit(0.1, "share", "of the requests that cross or miss the stripes' boundaries"),
    "ost_ratio": Limit(1.5, "ratio", "bytes of the fullest OST to the mean of those used"),
    "ost_time_ratio": Limit(2.0, "ratio", "seconds per byte of the slowest OST to the median"),
    "own_files": Limit(16, "count", "ranks that each write a file of their own"),
    "own_share": Limit(0.5, "share", "of the ranks that write a file of their own"),
    "meta_share": Limit(0.15, "share", "of the I/O time in calls that move no data"),
    "meta_calls": Limit(100, "count", "opens, stats and syncs"),
    "meta_bytes": Limit(4096, "B", "moved for each open, stat or sync, below it they are what the job does"),
    "meta_seconds": Limit(30.0, "s", "of one rank in calls that move no data"),
    "reopens": Limit(4.0, "ratio", "opens of a file by each of its ranks"),
    "reopened_opens": Limit(8, "count", "opens of files that were open before"),
    "small_files": Limit(64, "count", "files below 1 MiB with data"),
    "small_files_share": Limit(0.5, "share", "of all files that are below 1 MiB"),
    "writes_a_sync": Limit(8.0, "ratio", "writes for each flush, below it each flush waits for little"),
    "syncs": Limit(16, "count", "flushes of one file beyond one per rank"),
    "balance": Limit(0.3, "share", "of the busiest rank's bytes that the mean rank lacks"),
    "balance_bytes": Limit(1 << 20, "B", "of the busiest rank"),
    "straggler": Limit(0.6, "share", "of the slowest rank's time that the fastest one lacks with like bytes"),
    "straggler_seconds": Limit(0.2, "s", "between slowest and fastest rank"),
    "funnel_share": Limit(0.9, "share", "of the bytes that one rank moves"),
    "funnel_ranks": Limit(3, "count", "ranks of a job with a funnel"),
    "stdio_share": Limit(0.1, "share", "of the bytes through buffered streams"),
    "stdio_bytes": Limit(1 << 20, "B", "through buffered streams"),
    "reread_share": Limit(0.5, "share", "of the bytes read that the same job wrote shortly before"),
    "io_matters": Limit(0.05, "share", "of the run time in I/O; below it findings weigh less"),
}


class Thresholds:
    """Thresholds with some of them replaced.

    Parameters
    ----------
    changed : mapping, optional
        Name to value.

    Raises
    ------
    UserError
        For a name that does not exist.
    """

    def __init__(self, changed: Mapping[str, float] | None = None) -> None:
        unknown = sorted(set(changed or {}) - set(LIMITS))
        if unknown:
            raise UserError(f"threshold '{unknown[0]}' does not exist", choose(unknown[0], LIMITS))
        self._values = {name: limit.value for name, limit in LIMITS.items()} | dict(changed or {})

    def __getitem__(self, name: str) -> float:
        return self._values[name]
