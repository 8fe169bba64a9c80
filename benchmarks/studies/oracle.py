"""Study 000's test cases, and an oracle that knows what every setting of theirs is truly worth."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.studies.steps import stripewise, write_toml

SITE = "sim:kay"
MIB, GIB = 1 << 20, 1 << 30
STRIPES, STRIPE_SIZES = [1, 4, 8, 16], [MIB, 4 * MIB, 64 * MIB, 512 * MIB, 2 * GIB]
"""What the study's models choose from (listing 3; the values in between are assumed)."""
CHUNKS = [256 * MIB, 512 * MIB, GIB, 2 * GIB]
CASES: dict[str, list[Any]] = {
    "nodes": [4, 8, 16],
    "processes_per_node": [1, 4, 8],
    "file_size": [64 * GIB, 128 * GIB, 256 * GIB],
    "stripe_count": [1, 4, 8],
    "stripe_size": [MIB, 64 * MIB, GIB],
    "transfer_size": [512 * MIB, 2 * GIB, 4 * GIB],
    "collective": [False, True],
}
"""Six parameters with three values and two patterns: the 1,458 cases of table 5, whose values are assumed."""


class Oracle:
    """The best of all settings that a model could have chosen, without noise.

    Parameters
    ----------
    work : Path
        For the files of workloads.
    """

    def __init__(self, work: Path) -> None:
        self._file = work / "workload.toml"
        self._known: dict[tuple[Any, ...], dict[tuple[Any, ...], float]] = {}

    def judge(self, pairs: list[Mapping[str, Any]]) -> dict[str, Any]:
        """Compare true values of defaults, choices and the oracle's choices.

        Parameters
        ----------
        pairs : list of mapping
            The document's ``pairs`` of one operation.
        """
        default, tuned, best = [], [], []
        for pair in pairs:
            before, after = pair["default_settings"], pair["tuned_settings"]
            default.append(self._value(pair["operation"], before))
            tuned.append(self._value(pair["operation"], after))
            # A program's own settings are a choice, too.
            best.append(max(self._best(pair["operation"], before), default[-1]))
        d, t, b = (np.array(values) for values in (default, tuned, best))
        worth = b > 1.05 * d
        possible = float(b.mean() - d.mean())
        return {
            "default_mean": float(d.mean()),
            "tuned_mean": float(t.mean()),
            "oracle_mean": float(b.mean()),
            "improvable": int(worth.sum()),
            "improvable_improved_percent": 100.0 * float(np.mean(t[worth] > d[worth])) if worth.any() else None,
            "share_of_oracle_gain": float(t.mean() - d.mean()) / possible if possible > 0 else None,
            "of_oracle_percent": 100.0 * float(np.mean(t / b)),
        }

    def _value(self, operation: str, settings: Mapping[str, Any]) -> float:
        chunk = (settings["transfer_size"], settings["collective"])
        return self._values(operation, settings, chunk)[settings["stripe_count"], settings["stripe_size"]]

    def _best(self, operation: str, settings: Mapping[str, Any]) -> float:
        layout = (settings["stripe_count"], settings["stripe_size"])
        found = 0.0
        for chunk in itertools.product(CHUNKS, (False, True)):
            values = self._values(operation, settings, chunk)
            # The layout of a file that is read is not the reader's to choose.
            chosen = [layout] if operation == "read" else list(itertools.product(STRIPES, STRIPE_SIZES))
            found = max(found, *(values[each] for each in chosen))
        return found

    def _values(
        self, operation: str, settings: Mapping[str, Any], chunk: tuple[int, bool]
    ) -> dict[tuple[Any, ...], float]:
        """Bandwidths of all layouts, as ``simulate run`` gives them."""
        nodes, each, size = (settings[name] for name in ("nodes", "processes_per_node", "file_size"))
        transfer = min(chunk[0], size // (nodes * each))
        key = (operation, nodes, each, size, transfer, chunk[1])
        if key not in self._known:
            workload = {
                "operation": operation, "nodes": nodes, "processes_per_node": each, "file_size": size,
                "transfer_size": transfer, "piece_size": transfer, "collective": chunk[1], "layout": "segmented",
                "api": "mpiio",
            }  # fmt: skip
            layouts = {
                "stripe_count": sorted({*STRIPES, *CASES["stripe_count"]}),
                "stripe_size": sorted({*STRIPE_SIZES, *CASES["stripe_size"]}),
            }
            write_toml(self._file, {"workload": workload, "settings": layouts})
            told = stripewise("simulate", "run", SITE.removeprefix("sim:"), self._file)["runs"]
            self._known[key] = {
                (run["settings"]["stripe_count"], run["settings"]["stripe_size"]): run["bandwidth"] for run in told
            }
        return self._known[key]
