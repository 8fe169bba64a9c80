"""What searching a small case first saves at full size: searches on simulated and on recorded tables.

    python benchmarks/search/small.py [--seeds 20] [--small 15] [--large 15] [--pairs STEM:SMALL:LARGE ...]

A search of the small case comes first. The search at full size starts from its runs, as `tune --small` does, or from
nothing. Without ``--pairs``, both are contexts of the simulated sites of ``simulated.py`` (2 and 8 nodes): nothing
there is measured. ``mirrored`` reverses what the small case says, so that a start from it must cost next to nothing.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from scipy.stats import spearmanr  # noqa: E402
from simulated import SITES, table  # noqa: E402

from stripewise.catalogue.workload import Workload  # noqa: E402
from stripewise.engine.race import Recorded, Search, contestant, moves, play  # noqa: E402
from stripewise.models.landscape import Landscape, list_landscapes  # noqa: E402
from stripewise.models.table import read_table  # noqa: E402
from stripewise.search.base import PriorMean, make_sampler  # noqa: E402
from stripewise.search.belief.belief import Earlier, EarlierPrior  # noqa: E402
from stripewise.trial import History, Trial  # noqa: E402


def searched(landscape: Landscape, runs: int, seed: int) -> History:
    """The runs of a search of the small case."""
    search = Search(landscape.space, landscape.table.objective, make_sampler("auto"), seed)
    for _ in moves(search, Recorded(landscape, seed).run, landscape.space.default, runs):
        pass
    return search.history


def mirrored(history: History) -> History:
    """The same runs with their values in reverse order of size."""
    values = sorted(run.value for trial in history.trials for run in trial.runs if run.value is not None)
    other = dict(zip(values, reversed(values), strict=True))

    def turned(trial: Trial) -> Trial:
        return replace(trial, runs=tuple(replace(r, value=other[r.value]) for r in trial.runs if r.value is not None))

    return replace(history, trials=tuple(turned(trial) for trial in history.trials))


def prior_from(history: History, apart: Workload) -> Callable[[Landscape], PriorMean]:
    """What the full size is expected to be, from the small case's runs."""

    def prior(landscape: Landscape) -> PriorMean:
        space = landscape.space
        return EarlierPrior(space, Workload(nodes=8), [Earlier(apart, dict(space.default), history)])

    return prior


def pairs(options: argparse.Namespace) -> list[tuple[str, Landscape, Landscape]]:
    found = []
    for given in options.pairs:
        stem, small, large = given.rsplit(":", 2)
        every = list_landscapes(read_table(Path(stem + ".toml")))
        found.append((Path(stem).name, every[int(small)], every[int(large)]))
    if not options.pairs:
        for name in SITES:
            every = list_landscapes(table(name))
            for large in every:
                context = dict(large.context)
                if context["nodes"] == 8:
                    small = next(one for one in every if dict(one.context) == context | {"nodes": 2})
                    found.append((f"{name}, pieces of {context['piece_size']} B", small, large))
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--small", type=int, default=15)
    parser.add_argument("--large", type=int, default=15)
    parser.add_argument("--pairs", nargs="*", default=[])
    options = parser.parse_args()
    for name, small, large in pairs(options):
        common = small.space.index(large.space.points)
        agreement = spearmanr(small.truth[common], large.truth)[0] if np.all(common >= 0) else float("nan")
        print(f"{name}: rank correlation {agreement:.2f}")
        for label in ("nothing", "small", "mirrored"):
            hits, regrets = [], []
            for seed in range(options.seeds):
                prior = None
                if label != "nothing":
                    history = searched(small, options.small, seed + 1000)
                    history = mirrored(history) if label == "mirrored" else history
                    prior = prior_from(history, Workload(nodes=2))
                found = play(large, label, contestant("auto", prior=prior), budget=options.large, seed=seed)
                hits.append(found.runs_to_within_5_percent or 2 * options.large)
                regrets.append(
                    [1 - large.closed(found.trajectory[min(n, len(found.trajectory)) - 1]) for n in (3, 5, 10)]
                )
            regret = " ".join(f"{value:.3f}" for value in np.median(regrets, axis=0))
            print(f"  from {label:18} runs to within 5%: median {np.median(hits):4.1f}, mean {np.mean(hits):4.1f}; "
                  f"median regret after 3, 5, 10 runs: {regret}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
