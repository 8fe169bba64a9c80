"""Does a screening design begin a search better than the Latin hypercube of ``auto``? Negative: see search-notes.md.

    python benchmarks/search/plans.py [--seeds 20] [--points 8] [--tables FOLDER | --synthetic 40]

The screening design takes the unseen configuration with the most leverage on the main effects, given those seen
(Bayesian D-optimality), where the space's activity conditions hold; strong switches come first, as in ``auto``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from run import LEAST_POINTS, TABLES  # noqa: E402
from synthetic import landscape  # noqa: E402

from stripewise.catalogue.space import Levels, Space  # noqa: E402
from stripewise.engine.race import contestant, play  # noqa: E402
from stripewise.models.landscape import Landscape, list_landscapes  # noqa: E402
from stripewise.models.table import read_table  # noqa: E402
from stripewise.search.base import PriorMean, Seen  # noqa: E402
from stripewise.search.samplers.initial import complete_plan, next_switch  # noqa: E402

BUDGET = 25
AFTER = (5, 10, 20, 25)
_CANDIDATES = 2000
_RIDGE = 0.1


def main_effects(space: Space, rows: Levels) -> np.ndarray:
    """One column an ordered parameter and one a category, zero where the parameter does not act."""
    active = space.active(rows)
    columns = [np.ones((len(rows), 1))]
    for axis, parameter in enumerate(space.parameters):
        count = len(parameter.values)
        if count < 2:
            continue
        if parameter.ordered:
            columns.append((2 * rows[:, [axis]] / (count - 1) - 1) * active[:, [axis]])
        else:
            columns.append(((rows[:, [axis]] == np.arange(count)) - 1 / count) * active[:, [axis]] * np.sqrt(2))
    return np.hstack(columns)


def screening(
    plan: str, space: Space, seen: Seen, rng: np.random.Generator, *, size: int, n: int, prior: PriorMean | None = None
) -> Levels:
    """The next point of a screening design, in place of :func:`stripewise.search.samplers.initial.complete_plan`."""
    switch = next_switch(space, seen, prior)
    rows = seen.draw(rng, _CANDIDATES)
    if len(switch) or len(rows) == 0:
        return switch if len(switch) else rows
    new, known = main_effects(space, rows), main_effects(space, seen.levels)
    information = _RIDGE * np.eye(new.shape[1]) + known.T @ known
    leverage = np.einsum("ij,ji->i", new, np.linalg.solve(information, new.T))
    best = np.flatnonzero(leverage >= leverage.max() - 1e-9)
    return rows[[best[rng.integers(len(best))]]]


def places(options: argparse.Namespace) -> Iterator[Landscape]:
    if options.synthetic:
        yield from (landscape(1000 + number) for number in range(options.synthetic))
        return
    for path in sorted(options.tables.glob("*.toml")):
        yield from (one for one in list_landscapes(read_table(path)) if len(one.space.points) >= LEAST_POINTS)


def main() -> None:
    """Print the differences of the screening design from the Latin hypercube."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--points", type=int, default=8)
    parser.add_argument("--tables", type=Path, default=TABLES)
    parser.add_argument("--synthetic", type=int, default=0)
    options = parser.parse_args()
    found = []
    for place in places(options):
        apart = []
        for seed in range(options.seeds):
            scores = []
            for plan, points in ((complete_plan, 8), (screening, options.points)):
                with mock.patch("stripewise.search.samplers.auto.complete", plan):
                    player = contestant("auto", {"initial": points})
                    episode = play(place, plan.__name__, player, budget=BUDGET, seed=seed)
                runs = episode.runs_to_within_5_percent or 2 * BUDGET
                closed = [place.closed(episode.trajectory[min(n, len(episode.trajectory)) - 1]) for n in AFTER]
                scores.append([np.log(runs), *np.log10(np.maximum(1 - np.array(closed), 0) + 0.02)])
            apart.append(np.subtract(scores[1], scores[0]))
        found.append(np.mean(apart, axis=0))
        print(place.table.name, dict(place.context), np.round(found[-1], 3), flush=True)
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    print(f"runs to within 5%: {np.exp(mean[0]):.2f} times as many (standard error {error[0]:.0%})")
    regrets = ", ".join(f"{m:+.3f} ({e:.3f})" for m, e in zip(mean[1:], error[1:], strict=True))
    print(f"log10(regret + 0.02) after {AFTER} runs: {regrets}")


if __name__ == "__main__":
    main()
