"""How long `auto` takes to answer, how good a screened answer is, and that large spaces and histories work.

    python benchmarks/search/asking.py [--histories 200]

Times are of the processor (a shared machine does not change them much); the least of several is given, and the first of
the process apart.
"""

from __future__ import annotations

import argparse
import os
import resource
import time

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402

from stripewise.catalogue.parameter import Kind, Parameter  # noqa: E402
from stripewise.catalogue.space import Space  # noqa: E402
from stripewise.observe.objectives import parse_objective  # noqa: E402
from stripewise.search.base import Seen, sampler_rng  # noqa: E402
from stripewise.search.belief.belief import believe  # noqa: E402
from stripewise.search.samplers.auto import AutoOptions, AutoSampler  # noqa: E402
from stripewise.search.samplers.surrogate import Pool, score_configurations, screen_space  # noqa: E402
from stripewise.trial import History, Phase, Run, State, Trial  # noqa: E402

ELAPSED = parse_objective("elapsed")


def grid(axes: int) -> Space:
    """A space of 10 to the number of axes: half of them ordered, half categories."""
    values = [str(k) for k in range(10)]
    return Space.bind(
        [
            Parameter(f"p{k}", Kind.INTEGER, range(10), 0)
            if k % 2
            else Parameter(f"p{k}", Kind.CATEGORICAL, values, "0")
            for k in range(axes)
        ]
    )


def history(space: Space, count: int, seed: int) -> History:
    """Random configurations of a landscape with main effects, an interaction and 5% noise."""
    rng = np.random.default_rng(seed)
    effects = rng.normal(0, 0.3, size=(len(space.shape), 10))
    rows = np.unique(space.sample(rng, count + count // 10), axis=0)
    rows = rng.permutation(rows)[:count]
    cost = effects[np.arange(len(space.shape)), rows].sum(axis=1) + 0.03 * rows[:, 0] * rows[:, 1] / 9
    values = np.exp(cost + 0.05 * rng.standard_normal(len(rows)))
    return History(
        ELAPSED,
        tuple(
            Trial(k, space.configuration(row), runs=(Run(k, k, Phase.SEARCH, State.FINISHED, float(value)),))
            for k, (row, value) in enumerate(zip(rows, values, strict=True))
        ),
    )


def seconds(space: Space, past: History, search: str, repeats: int) -> tuple[float, float]:
    """Processor seconds of the first question, and of the quickest of those after it."""
    sampler = AutoSampler(AutoOptions(search=search))
    times = []
    for number in range(1 + repeats):
        part = History(past.objective, past.trials[: len(past.trials) - number])
        start = time.process_time()
        sampler.ask(space, part, sampler_rng(0, number), 1)
        times.append(time.process_time() - start)
    return times[0], min(times[1:])


def quality(space: Space, pool: Pool, seed: int) -> float:
    """Expected improvement of the screened pick as a share of the best of all."""
    past = history(space, 100, seed)
    belief = believe(space, past, None, trust=0.5, most=400)
    assert belief is not None
    seen = Seen.of(space, past)
    best = np.where(pool.unseen(seen), score_configurations(belief, pool.levels, pool.knots), 0.0).max()
    return float(score_configurations(belief, screen_space(space, seen, belief, sampler_rng(seed, 1)))[0] / best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--histories", type=int, default=200, help="how many to judge the screened answer by, at least 1"
    )
    options = parser.parse_args()
    million, past = grid(6), history(grid(6), 100, 0)
    for search in ("exhaustive", "screened"):
        first, later = seconds(million, past, search, 5)
        print(f"10^6 configurations, 100 observations, {search}: {first:.2f} s first, {later:.3f} s later", flush=True)
    large = grid(7)
    for count in (100, 10_000):
        first, later = seconds(large, history(large, count, 0), "auto", 2)
        print(f"10^7 configurations, {count} observations: {first:.2f} s first, {later:.3f} s later", flush=True)
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB at most", flush=True)
    pool = Pool(million)
    shares = [quality(million, pool, seed) for seed in range(options.histories)]
    good = sum(share >= 0.99 for share in shares)
    print(f"screened pick at least 99% of the best in {good} of {len(shares)} histories, least {min(shares):.3f}")


if __name__ == "__main__":
    main()
