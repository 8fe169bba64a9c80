"""What general knowledge is worth: a model of relative performance by roles, asked about systems that it never saw.

    python benchmarks/search/general.py choice --out FILE   # the configuration that it likes best, without a run
    python benchmarks/search/general.py race --out FILE     # auto with it as the prior, and without
    python benchmarks/search/general.py report FILE...      # the tables of docs/benchmarks/search-notes.md

It learns the logarithm of performance, relative to the mean of a workload, from simulated sites and from the measured
tables of MPI-IO and striping. Of a configuration it sees the roles of its parameters, never their names. Whole systems
are left out, or everything that was measured with MPICH. Results are appended as they come.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import lightgbm
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from portfolio_sources import MEASURED, SITES, TABLES, by_role, facts_of, runs_at_random, settable

from stripewise.evaluation.race import contestant, play
from stripewise.model.landscape import Landscape, landscapes
from stripewise.model.table import read_table
from stripewise.search.portfolio.features import settings_by_role, sizes_and_roles
from stripewise.spec.space import Levels, Space

LEAST_POINTS = 200
NAMES = [name for name in MEASURED if name != "s3d_write_lustre_hints"]
"""The tables that there were when this was measured."""


@dataclass(frozen=True, eq=False)
class Source:
    """One workload of one system, with the features of its configurations and ln(performance) about its mean."""

    system: str
    library: str
    x: np.ndarray
    y: np.ndarray


def inputs(words: Mapping[str, Any], settings: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """Features of configurations of one workload, shape ``(count, f)``; what is not known is NaN."""
    fixed = [float(words["operation"] == "write"), float(words["collective"]), float(words.get("layout") == "strided")]
    return np.column_stack([np.tile(fixed, (count, 1)), sizes_and_roles(words, settings, count)])


def measured(landscape: Landscape) -> Source:
    system, library, _ = MEASURED[landscape.table.name]
    words, points = facts_of(landscape), landscape.space.points
    x = inputs(words, settings_by_role(landscape.space, points, words["operation"]), len(points))
    y = np.log(landscape.truth)
    return Source(system, library, x, y - y.mean())


def simulated(name: str, rng: np.random.Generator) -> list[Source]:
    """Workloads and configurations at random on one simulated site."""
    found = []
    for workload, settings, bandwidth in runs_at_random(name, (1, 4, 16), rng):
        words = workload.model_dump() | {"processes": workload.processes}
        y = np.log(bandwidth)
        found.append(Source(name, "simulated", inputs(words, by_role(settings), len(y)), y - y.mean()))
    return found


@dataclass(frozen=True, eq=False)
class General:
    """Models that each leave one system out: their mean is the knowledge, their disagreement its doubt."""

    boosters: tuple[lightgbm.Booster, ...]

    @classmethod
    def fit(cls, sources: list[Source]) -> General:
        systems = sorted({source.system for source in sources})
        real = [system for system in systems if system not in SITES]
        groups = [[system] for system in real] + [list(SITES[::2]), list(SITES[1::2])]
        return cls(tuple(_fit([s for s in sources if s.system not in group], n) for n, group in enumerate(groups)))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """What each model says, shape ``(models, n)``; rows that are alike are asked about once."""
        distinct, place = np.unique(x, axis=0, return_inverse=True)
        each = np.stack([booster.predict(distinct, num_threads=1) for booster in self.boosters])
        return each[:, place.reshape(-1)]


def _fit(sources: list[Source], seed: int) -> lightgbm.Booster:
    x, y = np.concatenate([s.x for s in sources]), np.concatenate([s.y for s in sources])
    # Measured workloads together count as much as simulated ones, and each workload as any other of its kind.
    kinds = [s.library == "simulated" for s in sources]
    weight = np.concatenate(
        [np.full(len(s.y), 1.0 / len(s.y) / kinds.count(k)) for s, k in zip(sources, kinds, strict=True)]
    )
    options = {
        "objective": "regression", "num_leaves": 15, "learning_rate": 0.08, "min_data_in_leaf": 20, "seed": seed,
        "feature_fraction": 0.7, "bagging_fraction": 0.7, "bagging_freq": 1, "deterministic": True,
        "force_col_wise": True, "num_threads": 1, "verbosity": -1,
    }  # fmt: skip
    data = lightgbm.Dataset(x, y, weight=weight * len(y), params=options)
    return lightgbm.train(options, data, 150, keep_training_booster=True)


class Prior:
    """The general knowledge as a ``PriorMean``: gains over the default, each shrunk by its doubt."""

    def __init__(self, general: General, words: Mapping[str, Any]) -> None:
        self._general, self._words = general, words

    def __call__(self, space: Space, levels: Levels) -> np.ndarray:
        rows = np.concatenate([space.levels([space.default]), levels])
        x = inputs(self._words, settings_by_role(space, rows, self._words["operation"]), len(rows))
        each = self._general.predict(x)
        gain = each[:, 1:] - each[:, :1]
        mean, doubt = gain.mean(axis=0), gain.std(axis=0, ddof=1)
        return mean**3 / np.maximum(mean**2 + doubt**2, 1e-12)


def folds(sources: list[Source], targets: list[Landscape]) -> list[tuple[str, list[Source], list[Landscape]]]:
    """What is left out, what is learned from, and what is judged."""
    systems = sorted({MEASURED[t.table.name][0] for t in targets})
    found = [("library MPICH", [s for s in sources if s.library != "MPICH"],
              [t for t in targets if MEASURED[t.table.name][1] == "MPICH"])]  # fmt: skip
    for system in systems:
        own = [t for t in targets if MEASURED[t.table.name][0] == system]
        found.append((f"system {system}", [s for s in sources if s.system != system], own))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["choice", "race", "report"])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budget", type=int, default=20)
    parser.add_argument("--keep-plan", action="store_true", help="the prior does not replace the plan of eight points")
    parser.add_argument("--out", type=Path, default=Path("general.jsonl"))
    options = parser.parse_args()
    if options.what == "report":
        report(options.files)
        return
    rng = np.random.default_rng(0)
    every = [one for name in NAMES for one in landscapes(read_table(TABLES / f"{name}.toml")) if settable(one)]
    sources = [measured(one) for one in every] + [s for name in SITES for s in simulated(name, rng)]
    print(f"{len(sources)} workloads, {sum(len(s.y) for s in sources)} configurations, {time.process_time():.0f} s")
    large = [one for one in every if len(one.space.points) >= LEAST_POINTS or options.what == "choice"]
    with options.out.open("a", encoding="utf-8") as stream:

        def keep(left_out: str | None, landscape: Landscape, found: list[dict[str, Any]]) -> None:
            context = " ".join(f"{name}={value}" for name, value in landscape.context.items())
            for entry in found:
                place = {"left_out": left_out, "table": landscape.table.name, "context": context}
                stream.write(json.dumps(place | entry) + "\n")
                stream.flush()

        for left_out, known, targets in folds(sources, large):
            general = General.fit(known)
            for landscape in targets:
                prior = Prior(general, facts_of(landscape))
                found = choice(landscape, prior) if options.what == "choice" else race(landscape, prior, options)
                keep(left_out, landscape, found)
        for landscape in large if options.what == "race" else []:
            keep(None, landscape, race(landscape, None, options))


def choice(landscape: Landscape, prior: Prior) -> list[dict[str, Any]]:
    """The configuration that the prior likes best, against the best true value and the default's."""
    space, truth = landscape.space, landscape.truth
    default = int(space.index(space.levels([space.default]))[0])
    expected = prior(space, space.points)
    chosen = int(np.argmax(expected))
    return [
        {
            "of_best": float(truth[chosen] / truth.max()),
            "of_default": float(truth[chosen] / truth[default]),
            "default_of_best": float(truth[default] / truth.max()),
            "expected_gain": float(np.exp(expected[chosen])),
        }
    ]


def race(landscape: Landscape, prior: Prior | None, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Searches of ``auto`` with the prior or without."""
    name = "auto" if prior is None else "auto-general"
    make = contestant("auto", prior=None if prior is None else lambda _: prior)
    found = []
    for seed in range(options.seeds):
        with mock.patch("stripewise.search.auto._CONVINCING", np.inf) if options.keep_plan else nullcontext():
            episode = play(landscape, name, make, budget=options.budget, seed=seed)
        regret = 1.0 - landscape.closed(episode.trajectory[min(4, len(episode.trajectory) - 1)])
        found.append({"method": name, "seed": seed, "runs": episode.runs_to_within_5_percent, "regret_5": regret})
    return found


def report(paths: list[Path]) -> None:
    """Print a row for each table and what was left out."""
    entries = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for entry in entries:
        if "of_best" in entry:
            rows.setdefault((entry["left_out"], entry["table"]), []).append(entry)
    print(
        "| left out | table | workloads | of the default, geometric mean | worst | of the best | default, of the best |"
    )
    print("|---|---|---:|---:|---:|---:|---:|")
    for (left_out, table), found in rows.items():
        gains = np.array([entry["of_default"] for entry in found])
        best, default = (np.mean([entry[key] for entry in found]) for key in ("of_best", "default_of_best"))
        mean = np.exp(np.mean(np.log(gains)))
        print(f"| {left_out} | {table} | {len(found)} | {mean:.2f} | {gains.min():.2f} | {best:.2f} | {default:.2f} |")
    runs: dict[tuple[str, str, str], dict[str, list[dict[str, Any]]]] = {}
    for entry in entries:
        if "method" in entry:
            place = (entry["left_out"] or "", entry["table"], entry["context"])
            runs.setdefault(place, {}).setdefault(entry["method"], []).append(entry)
    print("\n| left out | table | runs to within 5%, without | with | regret after 5, without | with |")
    print("|---|---|---:|---:|---:|---:|")
    for (left_out, table, context), found_by in runs.items():
        if not left_out:
            continue
        cells = []
        for key in ("runs", "regret_5"):
            for entries_of in (runs.get(("", table, context), found_by).get("auto", []), found_by["auto-general"]):
                values = [np.inf if entry[key] is None else entry[key] for entry in entries_of]
                cells.append(f"{np.median(values):.3g}" if values else "")
        print(f"| {left_out} | {table} {context} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
