"""What the simulated cluster must do whatever its constants: ROMIO's rules, layouts, sieving, bounds, invariances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from maxmin import Flows, makespan

from stripewise.catalogue.workload import Workload
from stripewise.lab.batch import RunBatch
from stripewise.lab.engine import simulate
from stripewise.lab.site import Site, load_site, site_names

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True)
class Check:
    """A statement and whether it holds.

    Attributes
    ----------
    name : str
    holds : bool
    figure : str
        What was found, in a sentence.
    """

    name: str
    holds: bool
    figure: str


def lustre_sites() -> list[Site]:
    """Sites under ROMIO's Lustre driver with more than two OSTs."""
    sites = [load_site(name) for name in site_names()]
    return [site for site in sites if site.mpi.driver == "romio_lustre" and site.ost.count > 2]


def snapping() -> Check:
    """Aggregators of Lustre's collective writes are divisors or multiples of the stripe count."""
    site = load_site("frontier-like")
    workload = Workload(nodes=512, processes_per_node=8, file_size=1 << 40, layout="strided", collective=True)
    stripes, asked = (a.ravel() for a in np.meshgrid(np.arange(1, 97), np.arange(1, 513)))
    columns = {"aggregators": asked, "aggregators_per_node": np.full(len(asked), 8.0), "stripe_count": stripes}
    found = simulate(site, RunBatch.make(workload, "write", columns={**columns, "co_ratio": 4.0})).aggregators
    wrong = (found % stripes != 0) & (stripes % found != 0)
    over = found > np.maximum(asked, stripes)
    return Check(
        "collective write aggregators snap to divisors and multiples of the stripe count",
        not wrong.any() and not over.any(),
        f"{len(asked):,} pairs of stripe count and cb_nodes, {int(wrong.sum())} exceptions",
    )


def random_workloads(rng: np.random.Generator, count: int) -> list[tuple[Workload, dict[str, Any]]]:
    """Workloads with settings, for checks that must hold everywhere."""
    made = []
    for _ in range(count):
        piece = int(2 ** rng.integers(8, 23))
        workload = Workload(
            operation="write" if rng.random() < 0.5 else "read",
            nodes=int(2 ** rng.integers(0, 5)),
            processes_per_node=int(2 ** rng.integers(0, 5)),
            file_size=int(2 ** rng.integers(30, 38)),
            transfer_size=max(piece, int(2 ** rng.integers(16, 25))),
            piece_size=piece,
            layout=str(rng.choice(["segmented", "strided", "random", "tile"])),
            collective=bool(rng.random() < 0.5),
            file_per_process=bool(rng.random() < 0.2),
            api="mpiio",
        )
        settings = {"stripe_count": int(rng.integers(1, 17)), "stripe_size": int(2 ** rng.integers(18, 25))}
        made.append((workload, settings))
    return made


DEAD = (
    ("cb_buffer_size", "65536", lambda w: w.operation == "write"),
    ("ind_wr_buffer_size", "16777216", lambda w: True),
    ("ind_rd_buffer_size", "65536", lambda w: w.operation == "write"),
    ("romio_cb_read", "disable", lambda w: w.operation == "write"),
    ("romio_ds_read", "disable", lambda w: w.operation == "write"),
    ("romio_cb_write", "disable", lambda w: w.operation == "read"),
    ("romio_lustre_co_ratio", "8", lambda w: w.operation == "read"),
    ("romio_min_fdomain_size", "16777216", lambda w: w.operation == "write"),
    ("romio_cb_alltoall", "enable", lambda w: True),
    ("romio_cb_fr_type", "1048576", lambda w: True),
    ("cb_nodes", "2", lambda w: not w.collective),
)
"""Hint, a value, and the workloads under ROMIO's Lustre driver for which it must do nothing."""


def dead_knobs() -> Check:
    """Hints that the driver does not read change no run, to the last bit."""
    site, changed, tried = load_site("kay"), 0, 0
    for workload, settings in random_workloads(np.random.default_rng(1), 150):
        way = str(workload.operation)
        before = simulate(site, RunBatch.make(workload, way, settings)).seconds[0]
        for name, value, dead in DEAD:
            if dead(workload):
                tried += 1
                after = simulate(site, RunBatch.make(workload, way, {**settings, name: value})).seconds[0]
                changed += after != before
    return Check(
        "ROMIO's dead knobs have exactly no effect", changed == 0, f"{tried:,} pairs of runs, {changed} differ"
    )


def widest_is_best() -> Check:
    """All OSTs are best for large shared writes."""
    found = {}
    for site in lustre_sites():
        nodes = min(site.nodes, max(16, site.ost.count))
        workload = Workload(
            nodes=nodes, processes_per_node=min(site.cores, 16), file_size=4 << 40, transfer_size=16 * MIB,
            piece_size=16 * MIB, layout="strided", collective=True,
        )  # fmt: skip
        counts = np.unique(np.geomspace(1, site.ost.count, 24).astype(int))
        columns = {"stripe_count": counts.astype(float), "stripe_size": 4.0 * MIB}
        speeds = simulate(site, RunBatch.make(workload, "write", columns=columns)).bandwidth
        found[site.name] = float(speeds[-1] / speeds.max())
    worst = min(found, key=lambda name: found[name])
    return Check(
        "the maximum stripe count is best for large shared writes",
        found[worst] >= 0.999,
        f"{len(found)} sites, 4 TiB collective: all OSTs reach at least {found[worst]:.3f} of the best ({worst})",
    )


def sieving_flips() -> Check:
    """Sieving wins while a hole takes less time than a request, and loses beyond."""
    site = load_site("dkrz-porting")
    workload = Workload(nodes=1, processes_per_node=1, file_size=256 * MIB, transfer_size=16 * MIB, layout="strided")
    holes = 2.0 ** np.arange(12, 25)  # below a page nothing can be left out
    told, holds = [], True
    for way in ("read", "write"):
        for piece in (4, 16):
            columns = {"piece_size": float(piece * KIB), "hole_size": holes}
            on, off = (
                simulate(site, RunBatch.make(workload, way, {f"romio_ds_{way}": switch}, columns=columns)).bandwidth
                for switch in ("enable", "disable")
            )
            wins = on > off
            flips = int(np.sum(wins[1:] != wins[:-1]))
            holds &= flips == 1 and bool(wins[0])
            edge = holes[np.argmin(wins)] / KIB if not wins.all() else np.inf
            told.append(f"{way}s of {piece} KiB below {edge:g} KiB")
    return Check("data sieving flips with the size of holes", holds, "sieving wins for " + "; ".join(told))


BLOCKS, HOLES = np.rint(np.geomspace(16, 24 * KIB, 17)), 2.0 ** np.arange(4, 28)
PUBLISHED = {
    (1, 128, "disable"): (58.4, 9.0), (1, 2048, "disable"): (60.7, 9.0),
    (2, 128, "disable"): (69.8, 8.8), (2, 2048, "disable"): (72.1, 8.9),
    (1, 128, "enable"): (64.1, 15.2), (1, 2048, "enable"): (59.4, 14.4),
    (2, 128, "enable"): (68.7, 16.2), (2, 2048, "enable"): (62.9, 14.9),
}  # fmt: skip
"""Servers, stripe in KiB, sieving: arithmetic and harmonic mean in percent of the best choice (Kunkel et al. 2015)."""


def static_defaults() -> tuple[list[tuple[tuple[int, int, str], float, float]], Check]:
    """Relative performance of the eight static choices of the data-sieving study on its porting system."""
    site = load_site("dkrz-porting")
    blocks, holes = (a.ravel() for a in np.meshgrid(BLOCKS, HOLES, indexing="ij"))
    keys = list(PUBLISHED)
    workload = Workload(
        operation="read", nodes=1, processes_per_node=1, file_size=256 * MIB, transfer_size=16 * MIB, layout="strided",
        collective=False, api="mpiio",
    )  # fmt: skip
    columns = {"piece_size": blocks, "hole_size": holes}
    speeds = [
        simulate(
            site,
            RunBatch.make(
                workload,
                "read",
                {"stripe_count": count, "stripe_size": stripe * KIB, "romio_ds_read": switch},
                columns=columns,
            ),
        ).bandwidth
        for count, stripe, switch in keys
    ]
    relative = np.array(speeds) / np.max(speeds, axis=0)
    made = [
        (key, 100 * float(row.mean()), 100 / float(np.mean(1 / row))) for key, row in zip(keys, relative, strict=True)
    ]
    inside = sum(57.5 <= mean <= 72.5 and 8.5 <= harmonic <= 16.5 for _, mean, harmonic in made)
    means = [mean for _, mean, _ in made]
    harmonics = [harmonic for *_, harmonic in made]
    return made, Check(
        "the eight static defaults of the data-sieving study lie within its ranges (58-72% and 9-16%)",
        inside == len(made),
        f"{inside} of 8 in both; arithmetic {min(means):.0f}-{max(means):.0f}%, "
        f"harmonic {min(harmonics):.0f}-{max(harmonics):.0f}%",
    )


RATES = (
    "network.node_write_bandwidth", "network.node_read_bandwidth", "oss.bandwidth", "ost.write_bandwidth",
    "ost.read_bandwidth", "client.process_bandwidth", "client.memory_bandwidth", "mpi.aggregator_bandwidth",
)  # fmt: skip


def scaled(site: Site, factors: dict[str, float]) -> Site:
    """The site with some numbers multiplied."""
    tables: dict[str, dict[str, float]] = {}
    for key, factor in factors.items():
        table, name = key.split(".")
        tables.setdefault(table, {})[name] = getattr(getattr(site, table), name) * factor
    return site.model_copy(
        update={name: getattr(site, name).model_copy(update=values) for name, values in tables.items()}
    )


def invariances() -> list[Check]:
    """More bandwidth never hurts; faster by c is faster by c."""
    times = {
        f"{table}.{name}": 1.0
        for table in ("network", "client", "ost", "mds", "locks")
        for name, value in load_site("kay").model_dump()[table].items()
        if name.endswith("seconds") or (table, name) in (("network", "latency"), ("locks", "seconds"))
        if isinstance(value, float)
    }
    lowered, off, tried = 0, 0.0, 0
    for site in (load_site("kay"), load_site("edison")):
        for workload, settings in random_workloads(np.random.default_rng(2), 100):
            batch = RunBatch.make(workload, str(workload.operation), settings)
            before = simulate(site, batch).bandwidth[0]
            for key in RATES:
                tried += 1
                lowered += simulate(scaled(site, {key: 1.7}), batch).bandwidth[0] < before * (1 - 1e-12)
            factors = dict.fromkeys(RATES, 4.0) | dict.fromkeys(times, 0.25) | {"mds.rate": 4.0}
            off = max(off, abs(simulate(scaled(site, factors), batch).bandwidth[0] / before / 4 - 1))
    return [
        Check(
            "more bandwidth anywhere never lowers throughput",
            lowered == 0,
            f"{tried:,} runs with one bandwidth raised by 70%, {lowered} slower",
        ),
        Check("scaling all rates by c scales throughput by c", off < 1e-9, f"c = 4: off by at most {off:.1e}"),
    ]


def against_max_min() -> Check:
    """The engine's bound for a file a process, against sharing computed flow by flow."""
    rng = np.random.default_rng(3)
    ratios = []
    for _ in range(200):
        site = scaled(load_site("kay"), {"network.latency": 1e-6, "ost.request_seconds": 0.0, "mds.open_seconds": 0.0})
        servers = int(rng.integers(1, 5))
        osts = servers * int(rng.integers(1, 9))
        changes = {
            "ost": {"count": osts, "streams": 1e9, "write_bandwidth": float(rng.uniform(0.2, 2)) * 1e9},
            "oss": {"count": servers, "bandwidth": float(rng.uniform(1, 10)) * 1e9},
            "network": {"node_write_bandwidth": float(rng.uniform(0.5, 10)) * 1e9},
            "client": {
                "process_bandwidth": float(rng.uniform(0.2, 2)) * 1e9,
                "rpcs_in_flight": 1000,
                "call_seconds": 0.0,
            },
            "mds": {"rate": 1e12},
        }
        site = site.model_copy(update={k: getattr(site, k).model_copy(update=v) for k, v in changes.items()})
        nodes, each = int(rng.integers(1, 17)), int(rng.integers(1, 17))
        size = 64 * MIB
        workload = Workload(
            nodes=nodes, processes_per_node=each, file_size=size, transfer_size=4 * MIB, layout="segmented",
            file_per_process=True, api="posix",
        )  # fmt: skip
        bound = float(simulate(site, RunBatch.make(workload, "write", {"stripe_count": 1})).data_seconds[0])
        process = np.arange(nodes * each)
        target = process % osts
        server = target % site.oss.count
        routes = np.stack([process // each, nodes + target, nodes + osts + server], axis=1)
        room = [site.network.node_write_bandwidth] * nodes + [site.ost.write_bandwidth] * osts
        room += [site.oss.bandwidth] * site.oss.count
        flows = Flows.of(routes, room, np.full(len(process), site.client.process_bandwidth))
        ratios.append(bound / makespan(flows, np.full(len(process), float(size))))
    low = min(ratios)
    return Check(
        "the engine is never optimistic by more than 15% against max-min fairness",
        low >= 0.85,
        f"200 random clusters, a file a process: engine over max-min {low:.3f} to {max(ratios):.3f}, "
        f"mean {np.mean(ratios):.3f}",
    )
