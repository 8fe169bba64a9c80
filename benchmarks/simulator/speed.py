"""How fast the simulated cluster is: medians of repeats, wall time and processor time."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from maxmin import Flows, rates

from stripewise.catalogue.workload import Workload
from stripewise.lab.batch import RunBatch
from stripewise.lab.engine import add_noise, simulate
from stripewise.lab.site import Site, load_site

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Timing:
    """A duration.

    Attributes
    ----------
    name : str
    limit, wall, processor : float
        Milliseconds; the limit is the project's own. Medians of ``repeats``.
    repeats : int
    """

    name: str
    limit: float
    wall: float
    processor: float
    repeats: int


def timed(name: str, limit: float, action: Callable[[], object], repeats: int) -> Timing:
    """Repeat something and take medians."""
    action()
    walls, processor = [], []
    for _ in range(repeats):
        wall, own = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - wall)
        processor.append(time.process_time() - own)
    return Timing(name, limit, 1e3 * statistics.median(walls), 1e3 * statistics.median(processor), repeats)


def many(count: int) -> RunBatch:
    """Configurations of a mixture of workloads."""
    rng = np.random.default_rng(0)
    workload = Workload(nodes=16, processes_per_node=16, file_size=32 * GIB, transfer_size=MIB, layout="strided")
    columns = {
        "nodes": rng.choice([1, 2, 4, 8, 16], count),
        "processes_per_node": rng.choice([1, 2, 4, 8], count),
        "stripe_count": rng.choice([1, 2, 4, 8, 16], count),
        "stripe_size": rng.choice([1, 2, 4, 8, 16], count) * MIB,
        "piece_size": rng.choice([64, 256, 1024], count) * 1024,
        "aggregators": rng.choice([1, 2, 4, 8, 16], count),
        "collective": rng.random(count) < 0.5,
        "write": rng.random(count) < 0.5,
    }
    return RunBatch.make(workload, "write", columns=columns)


def large_site() -> Site:
    """A site of 10,000 clients and 1,000 OSTs."""
    site = load_site("frontier-like")
    return site.model_copy(
        update={"nodes": 10_000, "ost": site.ost.model_copy(update={"count": 1000}),
                "oss": site.oss.model_copy(update={"count": 250})}
    )  # fmt: skip


def timings(repeats: int) -> list[Timing]:
    """Measure all."""
    kay, batch = load_site("kay"), many(30_720)
    numbers = np.arange(len(batch))
    one = batch[5:6]
    site = large_site()
    workload = Workload(
        nodes=10_000, processes_per_node=1, file_size=1 << 45, transfer_size=4 * MIB, layout="segmented"
    )
    big = RunBatch.make(workload, "write", {"stripe_count": -1})
    rng = np.random.default_rng(1)
    routes = np.stack([np.repeat(np.arange(10_000), 16), 10_000 + rng.integers(1000, size=160_000)], axis=1)
    flows = Flows.of(routes, np.concatenate([np.full(10_000, 5e9), np.full(1000, 1e9)]))
    return [
        timed(
            "30,720 configurations with noise",
            50,
            lambda: add_noise(kay, batch, simulate(kay, batch), numbers, 0),
            repeats,
        ),
        timed("one run", 1, lambda: simulate(kay, one), 10 * repeats),
        timed("one run of 10,000 clients on 1,000 OSTs", 20, lambda: simulate(site, big), repeats),
        timed("max-min rates of 160,000 flows, 10,000 clients on 1,000 OSTs", 20, lambda: rates(flows), repeats),
    ]


def memory(count: int = 1_000_000) -> tuple[float, float]:
    """MiB of a process that simulates so many configurations with noise, and its seconds."""
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import speed; speed.print_memory({count})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak, seconds = done.stdout.split()
    return float(peak), float(seconds)


def print_memory(count: int) -> None:
    """In a process of its own: peak memory in MiB, and seconds."""
    kay, batch = load_site("kay"), many(count)
    begin = time.perf_counter()
    add_noise(kay, batch, simulate(kay, batch), np.arange(count), 0)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.perf_counter() - begin)
