# ruff: noqa: E501  texts of the page
"""The tile pattern of the genetic search's study with real ROMIO on this machine: measure all, then search what was measured."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.studies.steps import Study, in_memory, stripewise, write_toml

BIN = Path(sys.executable).parent
MIB = 1 << 20


def campaign(repeats: int, *, quick: bool) -> dict[str, Any]:
    """Four ranks write tiles collectively; every combination of five hints."""
    ranks = 2 if quick else 4
    return {
        "name": "tiles-real",
        "launcher": [str(BIN / "mpiexec"), "-n", str(ranks)],
        "stacks": ["romio"],
        "operations": ["write"],
        # Ranks that wait for one another sleep: they share two cores.
        "env": {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "8"},
        "repeats": repeats,
        "workload": [
            {"name": "processes_per_node", "values": [ranks]},
            {"name": "file_size", "values": [8 * MIB]},
            {"name": "layout", "values": ["tile"]},
            {"name": "collective", "values": [True]},
        ],
        "tunable": [
            {"name": "romio_cb_write", "values": ["automatic", "disable"]},
            {"name": "cb_nodes", "values": [1, 2] if quick else [1, 2, 3, 4]},
            {"name": "cb_buffer_size", "values": [MIB] if quick else [64 << 10, 512 << 10, 2 * MIB, 16 * MIB]},
            {"name": "romio_ds_write", "values": ["automatic", "disable"]},
        ],
    }


def real(study: Study) -> None:
    """Measure and race."""
    repeats, budget, seeds = study.size(8, 1), study.size(16, 4), study.size(10, 2)
    table = study.work / "tiles"
    study.step(
        "real ROMIO",
        lambda: _measured(study, table, repeats, budget, seeds),
        "measured",
        campaign=campaign(repeats, quick=study.quick), budget=budget, seeds=seeds,
    )  # fmt: skip


def _measured(study: Study, table: Path, repeats: int, budget: int, seeds: int) -> dict[str, Any]:
    plan = write_toml(study.work / "tiles-campaign.toml", campaign(repeats, quick=study.quick))
    with in_memory(study) as folder:
        told = stripewise(
            "site", "profile", plan, "--folder", folder, "--journal", study.work / "tiles-journal", "--out", table
        )
    episodes = stripewise(
        "lab",
        "race",
        table.with_suffix(".csv"),
        "--samplers",
        "auto,io-search,random",
        "--budget",
        budget,
        "--seeds",
        seeds,
    )
    race = {}
    for name in ("auto", "io-search", "random"):
        own = [episode for episode in episodes if episode["sampler"] == name]
        close = sorted(episode["runs_to_within_5_percent"] or 10**9 for episode in own)[(len(own) - 1) // 2]
        race[name] = {
            "searches": len(own),
            "final": statistics.median(episode["trajectory"][-1] for episode in own),
            "close": close if close < 10**9 else None,
        }
    return {
        "configurations": told["configurations"],
        "runs": told["runs"],
        "optimum": episodes[0]["optimum"],
        "race": race,
        "text": (
            f"Four ranks of MPICH write 8 MiB in tiles collectively to files in memory: all {told['configurations']} configurations, {repeats} repeats. Searches of "
            f"{budget} runs are answered by the measured runs; the best configuration has {episodes[0]['optimum']:.1f} MiB/s. Medians over seeds."
        ),
    }
