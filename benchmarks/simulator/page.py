"""The validation page, from the results."""

from __future__ import annotations

from typing import Any

from mechanisms import PUBLISHED

EXPLAINED = {
    ("Cori Haswell", "BD-CATS-IO read, late"): """
    Darshan's counters say that, without read-ahead, a process waited 26 ms for each MiB, and 35 ms on KNL nodes. A
    process on Haswell then reads 38 MiB/s, whatever node and OSTs could do. The model's wait of 2 ms, fitted to
    collective reads, is far shorter for a process that reads alone, so the node's link remains the bound.""",
    ("Edison scratch1", "collective read, late"): """
    Without read-ahead, collective reads wait for the disks. Their access time is fitted to the other systems, and is
    longer than Edison's own cells would give.""",
    ("Edison scratch3", "collective read, late"): """
    Without read-ahead, collective reads wait for the disks. Their access time is fitted to the other systems, and is
    longer than Edison's own cells would give.""",
    ("Edison scratch1", "BD-CATS-IO read, early"): """
    The cost of a request is fitted to the other systems, where larger bounds hide it. With a lower cost, reads of one
    shared file become as fast as reads of one file per process.""",
    ("Edison scratch3", "BD-CATS-IO read, early"): """
    The cost of a request is fitted to the other systems, where larger bounds hide it. With a lower cost, reads of one
    shared file become as fast as reads of one file per process.""",
    ("Edison scratch3", "VPIC-IO write"): """
    As with the reads of BD-CATS-IO, the cost of a request is fitted to systems where larger bounds hide it.""",
    ("Cori KNL", "collective write"): """
    The speed of a KNL core relative to a Haswell core is taken from clock and width (0.30), not fitted. Slow cores
    delay the exchange between processes more than that.""",
    ("ARCHER2 flash", "FPP write, cached"): """
    Written without fsync into the clients' memory, on the same nodes as the disks' cell (90 GiB/s): the model gives
    the same result for both. It does not include what flash already accepts while the rest is copied.""",
    ("ARCHER2 disks", "FPP write, cached"): """
    The bandwidth of memory under the page cache is a guess for all systems.""",
}
"""Why a cell is missed; a miss that is not here is shown as unexplained."""


def _cell_rows(cells: list[dict[str, Any]]) -> list[str]:
    rows = ["| system | cell | measured | simulated | ratio | bound |", "|---|---|---|---|---|---|"]
    for cell in cells:
        mark = "" if cell["hit"] else " **miss**"
        rows.append(
            f"| {cell['system']} | {cell['kind']} | {cell['measured']:g} | {cell['predicted']:.1f} "
            f"| {cell['ratio']:.2f}{mark} | {cell['bound']} |"
        )
    return rows


def _misses(cells: list[dict[str, Any]]) -> list[str]:
    lines = []
    for cell in cells:
        if not cell["hit"]:
            why = EXPLAINED.get((cell["system"], cell["kind"]), "Not explained.")
            lines.append(f"- **{cell['system']}, {cell['kind']}** ({cell['ratio']:.2f}). {' '.join(why.split())}")
    return lines or ["None."]


def _orders(orders: list[list[Any]]) -> list[str]:
    rows = ["| system | direction | measured | simulated | order right |", "|---|---|---|---|---|"]
    for system, direction, right, measured, simulated in orders:
        answer = "yes" if right else "**no**"
        rows.append(f"| {system} | {direction} | {measured:.2f} | {simulated:.2f} | {answer} |")
    return rows


def _constants(constants: dict[str, dict[str, float]]) -> list[str]:
    rows = ["| left out | request, ms | access, ms | lock, ms | aggregator, GiB/s |", "|---|---|---|---|---|"]
    for unit, values in constants.items():
        request, access, lock, aggregator = (
            values[key]
            for key in ("ost.request_seconds", "ost.access_seconds", "locks.seconds", "mpi.aggregator_bandwidth")
        )
        rows.append(
            f"| {unit} | {1e3 * request:.2f} | {1e3 * access:.2f} | {1e3 * lock:.2f} | {aggregator / 2**30:.2f} |"
        )
    return rows


def _percentiles(rows: list[list[Any]]) -> list[str]:
    lines = [
        "| percentile of bandwidth over its median | 1 | 5 | 10 | 25 | 75 | 95 | 99 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for operation, measured, simulated in rows:
        for title, values in (("measured", measured), ("simulated", simulated)):
            lines.append(f"| {operation}, {title} | " + " | ".join(f"{value:.2f}" for value in values) + " |")
    return lines


def _defaults(rows: list[list[Any]], published: dict[tuple[int, int, str], tuple[float, float]]) -> list[str]:
    lines = [
        "| servers | stripe | sieving | arithmetic, published | simulated | harmonic, published | simulated |",
        "|---|---|---|---|---|---|---|",
    ]
    for (servers, stripe, switch), mean, harmonic in rows:
        known = published[(servers, stripe, switch)]
        lines.append(
            f"| {servers} | {stripe} KiB | {switch} | {known[0]:.1f}% | {mean:.1f}% "
            f"| {known[1]:.1f}% | {harmonic:.1f}% |"
        )
    return lines


def _frontier(plateaus: list[dict[str, Any]]) -> list[str]:
    rows = [
        "| GB/s | measured | simulated, 64 nodes | 128 nodes | 256 nodes | bound on 128 |",
        "|---|---|---|---|---|---|",
    ]
    for plateau in plateaus:
        figures = " | ".join(f"{value:.0f}" for value in plateau["simulated"])
        rows.append(f"| {plateau['name']} | {plateau['measured']} | {figures} | {plateau['bound']} |")
    return rows


def _speed(speed: dict[str, Any]) -> list[str]:
    rows = ["| | limit | processor time | wall time | repeats |", "|---|---|---|---|---|"]
    for t in speed["timings"]:
        rows.append(
            f"| {t['name']} | {t['limit']:g} ms | {t['processor']:.2f} ms | {t['wall']:.2f} ms | {t['repeats']} |"
        )
    memory = speed["memory"]
    rows.append(
        f"| memory of {memory['configurations']:,} configurations with noise | 1,024 MiB "
        f"| {memory['peak_mib']:.0f} MiB | | 1 |"
    )
    return rows


def _section(title: str, text: str, rows: list[str]) -> list[str]:
    """A heading, a paragraph (its lines joined) and a table or list."""
    return [title, "", *([" ".join(text.split()), ""] if text else []), *rows, ""]


def write_page(document: dict[str, Any]) -> str:
    """Write the page as Markdown."""
    tables, by_system, by_machine = document["tables"], document["tables"]["system"], document["tables"]["machine"]
    cells, orders, checks = by_system["cells"], by_system["orders"], document["checks"]
    late = [order for order in orders if order[1] != "read, early"]
    machine = document["speed"]["machine"]
    shipped = tables["shipped"]
    lines = [
        *_section(
            "# How well the simulated cluster predicts", _INTRODUCTION, _summary(by_system, by_machine, late, checks)
        ),
        *_section("## Measured systems", _METHOD, _cell_rows(cells)),
        *_section("### The misses", "", _misses(cells)),
        *_section("### With whole machines left out", _MACHINES, _misses(by_machine["cells"])),
        *_section("### Collective or independent", _ORDER, _orders(orders)),
        *_section(
            "### The constants of each turn",
            f"""The sites ship with constants fitted to all systems. With these, {sum(c["hit"] for c in shipped)} of
            {len(shipped)} cells are within a factor of 1.5, but the fit has seen these cells.""",
            _constants(by_system["constants"]),
        ),
        *_section("## Statements", "", _statements(checks)),
        *_section("## Frontier", _FRONTIER, _frontier(document["frontier"])),
        *_section("## Noise", _NOISE, _percentiles(document["percentiles"])),
        *_section(
            "## The static choices of the data-sieving study",
            _STATIC,
            _defaults(document["static_defaults"], PUBLISHED),
        ),
        *_section(
            "## Speed",
            f"""Medians, one thread, Python {machine["python"]}. The machine had {machine["cpus"]} processors and a
            load of {machine["load"]:.1f} from other work, so only the processor time counts.""",
            _speed(document["speed"]),
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _summary(
    by_system: dict[str, Any], by_machine: dict[str, Any], late: list[list[Any]], checks: list[dict[str, Any]]
) -> list[str]:
    orders = by_system["orders"]
    return [
        f"- With each system left out in turn, **{by_system['hits']} of {len(by_system['cells'])} cells "
        f"({by_system['share']:.0%}) are within a factor of 1.5**; the aim is 70%.",
        f"- With whole machines left out, {by_machine['hits']} of {len(by_machine['cells'])} "
        f"({by_machine['share']:.0%}).",
        f"- The model predicts correctly whether collective or independent I/O is faster in "
        f"{sum(o[2] for o in late)} of {len(late)} comparisons at the end of the year, and in "
        f"{sum(o[2] for o in orders)} of {len(orders)} if its beginning is included.",
        f"- {sum(c['holds'] for c in checks)} of {len(checks)} statements about mechanisms, noise and fairness hold.",
    ]


def _statements(checks: list[dict[str, Any]]) -> list[str]:
    rows = [f"| {c['name']} | {'yes' if c['holds'] else '**no**'} | {c['figure']} |" for c in checks]
    return ["| statement | holds | found |", "|---|---|---|", *rows]


_INTRODUCTION = """
See how far you can trust the simulated cluster: this page compares it with measured systems.
`benchmarks/simulator/run.py` generates it. *Simulated* figures are computed; *measured* figures are from the named
systems. [How it is modelled](../../docs/how-to/try-without-a-cluster.md#the-simulated-cluster)."""
_METHOD = """
All figures are in GiB/s. Only the bandwidths of a system's OSTs and nodes are its own, fitted to its cells of one
file per process (FPP). One of the two limits such a cell; the other is that of the system with the same network or
file system. Four constants that no source fixes start from a guess made before any fit, and are fitted to the cells
of all *other* systems. A system has no further factor. Reads of shared files became slow within the year, when
read-ahead stopped working for them: *early* is the first fifth of the runs; *late* is the last fifth, simulated
without read-ahead. On every system, half of the early collective reads is assumed to come from the clients' memory,
because the same aggregators had just written those bytes. That half is a guess and nothing is fitted to it. Only on
Haswell does it change a figure by more than 1%; Darshan's counters of those runs bound it between 0.4 and 0.84
(`benchmarks/simulator/cells.py` says how). Table A: NERSC/tokio-abcutils; ARCHER2: project notes."""
_MACHINES = """
This turn is stricter: Edison's two file systems, and ARCHER2's two, are left out together. It misses these cells:"""
_ORDER = """
The table shows collective over independent bandwidth: above 1, collective I/O is faster. Each system is left out in
turn."""
_FRONTIER = """
No constant was fitted to these figures. The 54 stripes that stand for the progressive layout of that file system were
chosen so that collective writes level off where they did. For the same reason, its POSIX reads of one file are far too
slow: a large file reaches many more OSTs in its last component. With stripes over all OSTs, the simulated nodes are the
bound, so the measured figure lies between the two. If you plan POSIX reads there, set `stripe_count`."""
_NOISE = "12,701 production runs of a year on Cori and Edison, compared with 10^6 simulated runs."
_STATIC = """
The table shows the share of the best of the eight choices. The study ran 408 accesses with holes. The published summary
does not say which pieces and holes, and the shares depend on them. These are reads of 17 pieces from 16 B to 24 KiB by
24 holes from 16 B to 128 MiB, chosen because they reproduce the published shares. This shows that the model can behave
in this way; it does not predict anything."""
