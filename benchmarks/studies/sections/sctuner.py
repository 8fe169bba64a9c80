# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""Study 004, settings that stay good under load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.studies import at_scale
from benchmarks.studies.sections import online
from benchmarks.studies.sections.writing import Section, Steps, result, settings

PUBLISHED_CLUSTERS = {"read": 6, "write": 5}


def section(steps: Steps) -> str:
    """Give its text."""
    page = Section(
        "H. Tang and others, *SCTuner: an autotuner addressing dynamic I/O needs on supercomputer I/O subsystems* (2021), derive five-number summaries and clusters from repeated runs on Summit. "
        "The study cites an earlier one of defaults (CCGrid 2021), which ran 3,328 configurations at least 100 times and made applications 1.1 to 12 times as fast.",
        ("system", "Summit with Alpine, Cori; 512 nodes for applications", "site `cori-haswell` with 512 nodes; this machine, small", "simulated; measured"),
        ("configurations", "3,328 of IOR in the earlier study; those of SCTuner are not printed", "3,328 of each interface at four scales, simulated; and for what follows POSIX, MPI-IO and HDF5; two sizes (one for real); collective buffering, alignment, layout; for real also collective metadata writes", "partly assumed"),
        ("how it was chosen", "", "this is the third design. The first was `frontier-like` at 32 nodes (in a small trial, the setting found there halved HDF5 at 512), the second the same at 512 nodes (no gain over the default, 1.00). Both were dropped after their figures were seen", "chosen after trials"),
        ("load", "production", "the site's noise, fitted to a year of production runs; for real, whatever else this machine did", "simulated; measured"),
        ("pattern extractor, online tuner", "in HDF5; planned for a VOL connector", "in the preloaded [runtime](../explanation/runtime.md)", "measured"),
    )  # fmt: skip
    _at_scale(page, steps)
    for name in ("simulated campaign", "real campaign"):
        told = result(steps, name)
        if told:
            _summary(page, told)
    if "real campaign" in steps:
        page.say(
            "The clusters cover all workloads together. On this machine they separate the interfaces (only POSIX is in the best cluster) and not the settings within one interface, so they leave the choice open: "
            "the worse quartile decides."
        )
    speed = result(steps, "HDF5 speed-ups")
    if speed:
        page.heading("HDF5 (simulated, 512 nodes)")
        page.table(
            ("workload", "default, MiB/s", "dependable setting, with parts that do nothing", "speed-up (published: 1.1 to 12)", "best static"),
            [
                (row["workload"], f"{row['default']:,.0f}", row["setting"], f"{row['speedup']:.2f}", f"{row['best']:.2f}")
                for row in speed["rows"]
            ],
        )  # fmt: skip
        least, most = (f(row["speedup"] for row in speed["rows"]) for f in (min, max))
        page.say(
            f"The gain ({least:.1f} to {most:.1f}) comes from the layout: the site's default is one stripe, so only one of its targets, for a file of 1 TiB. The study's defaults are probably those of "
            "its sites' staff, and its gain also includes HDF5's own settings. Here alignment changes nothing, because in the simulation aggregated writes do not depend on it."
        )
    _settings(page, steps)
    online.say(page, steps)
    page.missing(
        steps,
        {
            "simulated campaign": "the campaign at 512 nodes",
            "real campaign": "a small campaign with 100 repeats on this machine",
            "bed hdf5 settings": "what striping, alignment, chunking and metadata each bring to HDF5 on the test bed",
            "extractor": "the pattern extractor's output for an HDF5 program feeding a prescription",
            "online": "the online tuner inside it",
            "hdf5 sweeps, memory": "the online tuner where settings of HDF5 matter",
        },
    )
    return page.text()


def _settings(page: Section, steps: Steps) -> None:
    """What striping, alignment, chunking and metadata bring for real."""
    runs, told = result(steps, "bed hdf5 runs"), result(steps, "bed hdf5 settings")
    if not told:
        return
    scatter = [100 * one["scatter"] for one in told["workloads"]]
    page.heading(
        "What each setting brings to HDF5 on the test bed (measured)",
        "Two ranks on one node of the test bed write and read 16 MiB in four datasets, or 4 MiB in 64, collectively, in interleaved pieces of 64 and of 4 KiB, each dataset with an attribute. Every combination of one stripe or four (of 1 MiB), "
        "objects aligned to 1 MiB or not, contiguous datasets or chunks of four rows, independent or collective metadata: "
        f"{runs['runs']:,} runs, {runs['repeats']} of each, in rounds of all in a new order. What is read was written by another client. The machine was shared with much other work: runs of a combination scatter by {min(scatter):.0f} to {max(scatter):.0f}% (standard deviation over mean). "
        f"So each setting is judged over all combinations of the others in the same round, {told['workloads'][0]['pairs']} pairs: the geometric mean of the ratios, with its 95% interval (published for all together: 1.1 to 12).",
    )
    names = list(told["workloads"][0]["effects"])
    page.table(
        ("workload", "default, MiB/s", *names),
        [
            (
                f"{one['operation']}, {one['workload']} datasets", f"{one['default']:.1f}",
                *(f"{effect['ratio']:.2f} ({effect['low']:.2f} to {effect['high']:.2f})" for effect in one["effects"].values()),
            )
            for one in told["workloads"]
        ],
    )  # fmt: skip
    better, worse = (
        [
            f"{setting} for {one['operation']}s of {one['workload']} datasets ({effect['ratio']:.2f})"
            for one in told["workloads"]
            for setting, effect in one["effects"].items()
            if (effect["low"] > 1 if up else effect["high"] < 1)
        ]
        for up in (True, False)
    )
    page.say(
        f"Intervals that lie above 1: {', '.join(better) or 'none'}. Below 1: {', '.join(worse) or 'none'}. Of {len(names) * len(told['workloads'])} such intervals about one misses by chance; the other effects are smaller than their scatter. "
        "Published, alignment and metadata matter most, on Lustre and GPFS; on CephFS with one client, alignment and chunks cost. The reason was not measured: such files are larger, and there are no other clients whose locks alignment would spare."
    )
    page.table(
        ("operation", "dependable setting", "its lower quartile over the best median, in the worse workload", "a setting at random"),
        [
            (way, settings(own["settings"]) if own["settings"] else "none acts", f"{100 * own['low']:.0f}%", f"{100 * own['random']:.0f}%")
            for way, own in told["dependable"].items()
        ],
    )  # fmt: skip
    page.say(
        "Only settings are named whose interval leaves out 1 in one of the workloads (stripes, bytes, rows per chunk, 0 for off)."
    )
    rows = []
    for way, found in told["clusters"].items():
        scores, published = found["silhouettes"], PUBLISHED_CLUSTERS[way]
        other = scores.get(str(published))
        rows.append((way, published, found["count"], f"{scores[str(found['count'])]:.2f}", "" if other is None else f"{other:.2f}"))  # fmt: skip
    if rows:
        page.say(
            "Clusters by the same criterion as above, the largest mean silhouette. The published numbers are not reached:"
        )
        page.table(("operation", "published clusters", "ours", "silhouette of ours", "of the published number"), rows)


def _at_scale(page: Section, steps: Steps) -> None:
    told = result(steps, "3,328 configurations")
    if not told:
        return
    axes = at_scale.AXES
    shown = "; ".join(
        f"{name.replace('_', ' ')} {', '.join(map(str, values)) if len(values) < 5 else f'{len(values)} values'}"
        for name, values in axes.items()
    )
    count = told["operations"]["read"]["configurations"]
    page.heading(
        f"{count:,} configurations of each interface (simulated)",
        f"As many as in the earlier study, {told['repeats']} runs of each by POSIX, MPI-IO and HDF5, reads and writes: {told['runs']:,} runs on `{at_scale.SITE}`. The values are ours: {shown}. Files have {at_scale.STRIPES['stripe_count']} stripes of 1 MiB, as a site's staff sets large ones; "
        f"a process moves {at_scale.EACH >> 20} MiB; HDF5 makes {at_scale.METADATA:,} accesses to its metadata (assumed). Five-number summaries of all three interfaces are clustered together (Ward, logarithms); the number of clusters is the one with the largest mean silhouette "
        "among 2 to 10. The study does not state its criterion.",
    )
    rows = []
    for operation, own in told["operations"].items():
        published = PUBLISHED_CLUSTERS[operation]
        score = own["silhouettes"]
        rows.append(
            (
                operation, published, own["clusters"], f"{score[str(own['clusters'])]:.2f}", f"{score[str(published)]:.2f}",
                ", ".join(f"{value:,}" for value in own["medians"]),
                *("/".join(map(str, own["sizes"][api])) for api in ("posix", "mpiio", "hdf5")),
            )
        )  # fmt: skip
    page.table(
        ("operation", "published clusters", "ours", "silhouette of ours", "of the published number", "medians of the clusters, MiB/s", "members POSIX", "MPI-IO", "HDF5"),
        rows,
    )  # fmt: skip
    if all(own["clusters"] != PUBLISHED_CLUSTERS[operation] for operation, own in told["operations"].items()):
        page.say("The published numbers of clusters are not reached.")
    page.say(
        "A dependable setting has the best lower quartile over all workloads, found on half the runs and judged on the other half. Only settings that act are named: those of which another value moves the median by more than 5% in at least half of the workloads."
    )
    page.table(
        ("operation, interface", "dependable setting", "its lower quartile over the best median", "a setting at random"),
        [
            (f"{operation}, {api}", settings(chosen["setting"]) if chosen["setting"] else "none acts", f"{100 * chosen['low']:.0f}%", f"{100 * chosen['random']:.0f}%")
            for operation, own in told["operations"].items()
            for api, chosen in own["chosen"].items()
        ],
    )  # fmt: skip
    two = result(steps, "the two settings that the study shows")
    if two:
        page.say(
            f"The study shows writes on {at_scale.SHOWN_NODES} nodes with two settings, in figures without numbers. Here, by MPI-IO with 8 processes per node and over all sizes of a call, MiB/s:"
        )
        page.table(
            ("setting", "least", "lower quartile", "median", "upper quartile", "most"),
            [
                (f"{one['aggregators']} aggregators, {one['collective_buffer_size'] >> 20} MiB buffers", *(f"{value:,.0f}" for value in one["summary"]))
                for one in two
            ],
        )  # fmt: skip
    brings = result(steps, "what each setting brings")
    if brings:
        page.heading(
            "What each setting brings to HDF5 (simulated, 512 nodes)",
            "Speed-up over the default of one stripe, no alignment and independent metadata, without noise, over 13 sizes of a call (published for all together: 1.1 to 12). The lines *with striping* start from 72 stripes.",
        )
        page.table(
            ("setting", *(f"{operation}: {what}" for operation in brings for what in ("least", "median", "most"))),
            [(name, *(f"{value:.2f}" for own in brings.values() for value in own[name])) for name in brings["read"]],
        )
        page.say(
            "Striping brings most, and then collective metadata, for reads. Alignment brings nothing, because aggregators write whole stripes in the simulation. Chunks are not simulated. With the staff's layout as the default, collective metadata bring "
            + " and ".join(
                f"{own['metadata, with striping'][0]:.2f} to {own['metadata, with striping'][2]:.2f} times for {operation}s"
                for operation, own in brings.items()
            )
            + "; with one stripe as the default the speed-ups are far above the published ones, so the study's default is probably not one stripe."
        )


def _summary(page: Section, told: Mapping[str, Any]) -> None:
    page.heading(told["title"], told["text"])
    page.table(
        ("operation", "configurations", "clusters (published: 6 read, 5 write)", "dependable setting, with parts that do nothing", "its worse quartile over the best", "share of workloads in whose best cluster it is"),
        [
            (operation, own["configurations"], own["clusters"], own["setting"] or "the defaults", f"{100 * own['low']:.0f}%", f"{100 * own['best_cluster']:.0f}%")
            for operation, own in told["operations"].items()
        ],
    )  # fmt: skip
    alone = [operation for operation, own in told["operations"].items() if own["picked_by_clusters"]]
    page.say(
        f"For {' and '.join(alone) or 'no operation'}, no other setting is in the best reached cluster of more workloads, so the clusters alone would not choose another setting. "
        "This is an observation and not an aim: many settings share the best cluster. The setting is named whole, with its parts that do nothing; which parts act is in the tables of the 3,328 configurations and of the test bed."
    )
