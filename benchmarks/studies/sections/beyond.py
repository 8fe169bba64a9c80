# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""The chain that none of the studies has."""

from __future__ import annotations

from benchmarks.studies import chain
from benchmarks.studies.sections.writing import Section, Steps, result, settings


def section(steps: Steps) -> str:
    """Give its text."""
    page = Section(
        "See what the parts bring one after another. This chain is in none of the five studies: a site is profiled and a model is trained; a program that was never tuned gets settings without a run; a search of five runs refines them; the runtime "
        "applies them; and the program continues to learn by itself."
    )
    told = result(steps, "simulated chain")
    if told:
        page.heading("At ten thousand nodes (simulated)", told["text"])
        page.table(
            ("stage", "runs of the program", "true bandwidth, MiB/s", "over the default", "of the best"),
            [
                (row["stage"], row["runs"], f"{row['value']:,.0f}", f"{row['value'] / told['default']:.2f}", f"{100 * row['value'] / told['best']:.1f}%")
                for row in told["rows"]
            ],
        )  # fmt: skip
    _bed(page, steps)
    if told or "bed comparison" in steps:
        page.say("![Value of each stage](studies-chain.svg)")
    page.missing(
        steps,
        {"simulated chain": "the chain at ten thousand nodes", "bed comparison": "the chain on one real program on the test bed, with the runtime and its online learning at its end"},
    )  # fmt: skip
    return page.text()


def _bed(page: Section, steps: Steps) -> None:
    campaign, chosen, told = (result(steps, f"bed {name}") for name in ("campaign", "settings", "comparison"))
    if not told:
        return
    page.heading(
        "A real program on the test bed (measured)",
        f"Two processes of one node write checkpoints of 64 MiB collectively in interleaved pieces of 64 KiB to CephFS (four OSDs of 50 MB/s, one stripe by default; files are placed so that their stripes are on different OSDs). The campaign used the benchmark program with "
        f"{campaign['configurations']} configurations of other sizes, {campaign['repeats']} repeats. The settings of every stage then ran under the runtime in {told['rounds']} rounds. Other work ran on the machine. "
        "A trial with four nodes gave 10 to 16 MiB/s whatever the layout: if several clients write one file, CephFS revokes their caches, and then the two cores for all nodes and OSDs are the limit.",
    )
    page.table(
        ("stage", "settings", "checkpoints, MiB/s, median", "over the default"),
        [
            (name, settings(chosen["of"].get(name, {})) if name in chosen["of"] or name == "default" else "the runtime's",
             f"{value:.1f}", f"{value / default:.2f}")
            for name, value, default in chain.stages(told)
        ],
    )  # fmt: skip
    page.say(
        f"The prescription predicted {chosen['predicted_speedup']:.2f} times the default. Online began with the default and had {len(told['phases']['online'])} checkpoints; "
        "it is compared with runs of the default immediately before and after it. Five single runs beyond the default can improve on a good prescription only by luck, and may also make it worse, because runs scatter."
    )
