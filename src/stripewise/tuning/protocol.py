"""Which points of the measurement protocol a confirmation kept, and which it could not.

The points are those for shared production file systems; see ``docs/explanation/when-a-gain-is-real.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stripewise.measure.confirmation import SameAgainstSame
from stripewise.measure.statistics import SpeedupInterval
from stripewise.spec.experiment import Experiment
from stripewise.spec.workload import Workload

_LEAST_SECONDS = 10.0
_FEW_PAIRS = 12
_MANY_PAIRS = 24
_SMALL_GAIN = 1.2
_MEMORY_FILE_SYSTEMS = frozenset({"tmpfs", "ramfs"})


def protocol_points(
    experiment: Experiment,
    pairs: int,
    speedup: SpeedupInterval | None,
    same: SameAgainstSame | None,
    facts: Mapping[str, Any],
    workload: Workload,
    simulated: bool,
) -> tuple[list[str], list[str]]:
    """Say what was kept and what was not, each as a sentence.

    Returns
    -------
    (list of str, list of str)
        Kept, not kept.
    """
    if not pairs:
        return [], ["no confirmation was run"]
    kept = [
        "objective, budget and minimum effect were fixed before the first run; the search's runs prove nothing",
        "pairs in random order, default and candidate side by side in time",
        "the interval is corrected for repeated looks and for the number of candidates",
        "failed runs count against their side",
    ]
    missed: list[str] = []

    def point(holds: bool, text: str, otherwise: str) -> None:
        (kept if holds else missed).append(text if holds else otherwise)

    if same is not None:
        point(
            same.passed,
            "the default against itself shows no gain",
            "the default against itself shows a gain: the machine changed during the confirmation",
        )
    else:
        missed.append("too few pairs to test the default against itself")
    wanted = _MANY_PAIRS if speedup is not None and speedup.estimate < _SMALL_GAIN else _FEW_PAIRS
    point(pairs >= wanted, f"{pairs} pairs", f"{pairs} pairs where {wanted} are advised")
    seconds = facts.get("environment", {}).get("typical_seconds")
    if seconds is not None:
        point(
            seconds >= _LEAST_SECONDS,
            f"runs of {seconds:.1f} s",
            f"runs of {seconds:.1f} s where {_LEAST_SECONDS:g} s of I/O are advised on a cluster",
        )
    point(
        bool(experiment.hooks.delete),
        "the files were new in each run",
        "whether the program writes new files in each run is unknown (name them under [hooks] delete)",
    )
    if workload.operation in ("read", "both"):
        point(
            experiment.hooks.drop_caches != "none",
            f"caches: {experiment.hooks.drop_caches} before each run",
            "cache state unknown: read figures may come from memory",
        )
    if workload.file_system in _MEMORY_FILE_SYSTEMS:
        missed.append("the files lay in memory: this proves the gain of the settings in the software, not on a disk")
    elif not simulated and workload.operation in ("write", "both"):
        missed.append("whether the data exceeded the page cache is unknown: figures may be cached")
    missed.append("one session on one allocation: no spread over days or other nodes")
    return kept, missed
