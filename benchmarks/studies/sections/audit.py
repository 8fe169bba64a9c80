# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""What an audit of the page against the studies' texts asked for, and what each point became."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.studies import shaman
from benchmarks.studies.sections.ann import MEANS
from benchmarks.studies.sections.io_search import easy
from benchmarks.studies.sections.writing import Section, Steps, result, results

TITLE = "What an audit found, and what became of it"
DONE, PART = "done", "in part"


@dataclass(frozen=True)
class Point:
    """One point of the audit.

    Attributes
    ----------
    study : str
        Its number, or empty for all of them.
    asked : str
        What was to be mended or added.
    status : str
        :data:`DONE` or :data:`PART`.
    became : str
        What it became, or why not more.
    where : str
        Heading of the page, or address of another page.
    """

    study: str
    asked: str
    status: str
    became: str
    where: str


def anchor(heading: str) -> str:
    """Name of a heading in addresses of the page."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def section(studies: Mapping[str, Steps]) -> str:
    """Give its text; points whose results are missing are left out."""
    page = Section(
        "An audit compared an earlier form of this page with the studies' texts. It found repetitions that made a study easier, reasons that were wrong, and a circle: figures that came out because a site had been fitted to them."
    )
    listed = points(studies)
    page.table(
        ("study", "point, and where it stands", "now", "what it became"),
        [(point.study or "all", _linked(point), point.status, point.became) for point in listed],
        text=True,
    )  # fmt: skip
    open_still = sum(point.status == PART for point in listed)
    page.say(f"{len(listed) - open_still} of {len(listed)} points are done, {open_still} in part.")
    return page.text()


def _linked(point: Point) -> str:
    return f"[{point.asked}]({point.where if point.where.endswith('.md') else f'#{anchor(point.where)}'})"


def _of(study: str, where: str, *rows: tuple[str, str, str]) -> list[Point]:
    """Points of one study that stand at one place: what was asked, its status and what it became."""
    return [Point(study, *row, where) for row in rows]


def points(studies: Mapping[str, Steps]) -> list[Point]:
    """Every point, with figures from the results."""
    return [
        *_labels(),
        *_ann(studies["ann"]),
        *_io_search(studies["io-search"]),
        *_shaman(studies["shaman"]),
        *_ai_for_io(studies["ai-for-io"]),
        *_sctuner(studies["sctuner"]),
        Point("003", "IO500, the context of the study: its phases tuned within its rules", PART, "a how-to for all phases; `ior-easy`, `ior-hard` and `mdtest-hard` were tried on the test bed, in small, and no gain was proven", "../how-to/io500.md"),
    ]  # fmt: skip


def _labels() -> list[Point]:
    return [
        Point("", "a label for what was fitted to the very figure", DONE, "*fitted to this figure*, beside measured, simulated and assumed, in the first table of each study", "The five studies, repeated"),
        Point("", "fitted sites get a form from hardware facts alone, and both are shown", DONE, "`kay-hardware` (with `auto` alone), `vulcan-hardware` and `dkrz-porting-hardware`", "On the site that was not fitted (simulated)"),
        Point("", "a result that follows from a fit is no success", DONE, "no aim is a figure that a site was fitted to: gains of the mean (000), bandwidths and speed-ups (001) and static choices (003) are shown without a verdict; the noise of writes (000) was chosen so that an oracle passes the published accuracy, which a model still has to reach", "The best prediction as setting"),
        Point("", "every aim with its source and headroom, and none that random choices reach", DONE, "each aim says all three; this page cannot be made with an aim that random choices reach", "The five studies, repeated"),
    ]  # fmt: skip


def _ann(steps: Steps) -> list[Point]:
    cases = results(steps, "cases of ")
    found = []
    if "ann" in cases:
        told = cases["ann"]["operations"]
        true = told["read"]["true"]
        gain = 100 * (true["oracle_mean"] / true["default_mean"] - 1)
        near = {way: 100 * told[way]["default"]["mean"] / MEANS[way][0] for way in MEANS}
        found += [
            *_of("000", "The best prediction as setting",
                ("a collective call is not contiguous, as in the study", DONE, f"layout follows collective, everything ran again: an oracle gains {gain:.0f}% for reads, where the earlier form had nothing to gain"),
                ("means of the default near the published ones, and printed", PART, f"writes have {near['write']:.0f}% of the published mean, reads {near['read']:.0f}%"),
                ("no share of a gain that is nothing", DONE, "shares are of cases that an oracle improves by more than 5%"),
            ),
        ]  # fmt: skip
    trained = result(steps, "training of ann")
    if trained:
        found += [
            Point("000", "scores against single runs, with noise that lets an oracle pass the published ones", DONE, "single runs, with medians beside them; for that, the delays of writes were made shorter, which is a fit and labelled so", "Prediction accuracy on a fifth of the rows"),
            Point("000", "the printed dropout of 0.05% is read as 5%: say so", DONE, "said, with the reason", "Neural networks (study 000)"),
            *_of("000", "Prediction accuracy on a fifth of the rows",
                ("training on a GPU where there is one, with its time", DONE, f"PyTorch chooses the device; there was none here but `{trained['device']}`, so the time on a GPU is not known"),
                ("figures 3 to 6", DONE, "drawn here; `summarize --report` and `validate --report` draw 3 and 4 for any table"),
            ),
            Point("000", "operations and memory as in its tables 6 and 7", DONE, "derived from the shape of the networks, and equal to the printed sums", "Operations and memory of a decision"),
            Point("000", "CI runs the contract of the model `ann` with PyTorch", DONE, "`make ann`, a job of its own in CI, for PyTorch is 3 GB", "../explanation/models.md"),
        ]  # fmt: skip
    return found


def _io_search(steps: Steps) -> list[Point]:
    found = []
    if "ends on vulcan-like" in steps:
        where = "Bandwidths and not only ratios (simulated)"
        found += [
            *_of("001", where,
                ("bandwidths beside the printed ones; which side differs, and why", DONE, "a row for each case and site, with the part of the system that limits it"),
                ("not reached where it is not", DONE, "named by case, for bandwidths and for speed-ups"),
                ("other figures of the OSTs", DONE, "half and twice the speed: none gives both cases of 1,200 cores"),
            ),
            Point("001", "\"40 hours\" from the space as it is", DONE, "computed: it fits IOR and not MPI-Tile-IO", "Genetic search (study 001)"),
        ]  # fmt: skip
    space, race = result(steps, "wide space on real ROMIO"), result(steps, "race over the wide space")
    if space and race:
        gain, lost = race["exhaustive"]["over_default"], easy(race)
        found_by_chance = "but few random choices find as much" if lost else "and few random choices find less"
        found.append(
            Point("001", "real ROMIO in a space in which tuning matters, with the genetic search's 310 runs", PART if lost else DONE, f"{space['configurations']} configurations, {space['runs']:,} runs: tuning gains {gain:.1f} times, {found_by_chance}", "In a space in which tuning matters, on real ROMIO (measured)")
        )  # fmt: skip
    return found


def _shaman(steps: Steps) -> list[Point]:
    found = []
    classes = shaman.by_class(steps)
    if classes:
        found.append(
            Point("002", "the published improvement by class, figures 4 and 5, and what corresponds to 97.83%", DONE, "the text prints one class and the medians of all; both figures are drawn with ours", "By class")
        )  # fmt: skip
    slow = results(steps, "slow disk ")
    if slow:
        found.append(
            Point("002", "all ninety programs for real, by both searches", PART if len(slow) < 90 else DONE, f"{len(slow)} of 90 tuned by both with {shaman.SLOW_BUDGET} launches each; 86 ran with fixed settings", "With the product's accelerator, on slow storage (measured)")
        )  # fmt: skip
    served = sum(len(own) for own in results(steps, f"service {shaman.SERVED}").values())
    if served:
        found.append(
            Point("002", "one class whole through the service and Slurm", DONE if served == 10 else PART, f"{served} of 10 programs of `{shaman.SERVED}`", "Through the service, as jobs of Slurm (measured)")
        )  # fmt: skip
    return found


def _ai_for_io(steps: Steps) -> list[Point]:
    hard = result(steps, "hard patterns")
    if not hard:
        return []
    low, high = (f(static["harmonic"] for static in hard["static"]) for f in (min, max))
    return [
        Point("003", "its two data sets told apart", DONE, "one to predict (387 + 387 instances, there) and one to choose (408); their means differ from the published ones", "AI for I/O (study 003)"),
        *_of("003", "Patterns on which static choices are as bad as published (simulated)",
            ("patterns on which static choices are as bad as published", PART, f"the harmonic means are {low:.0f} to {high:.0f}% (published: 9 to 16%), on patterns chosen for that"),
            ("the tree printed, with the counts in its leaves", DONE, "of depth 4, with the two most frequent best settings of each leaf"),
        ),
        Point("003", "the simulation of two gamma components, and its clusters", DONE, "4 or 5 clusters, of which one is the slow component", "Times of two components (simulated)"),
        Point("003", "timings and causes, with a page", DONE, "`site causes --report`, with the truth from `mincore` beside it", "Causes from time alone (measured)"),
        Point("003", "class errors at or below the published ones, or the reason, measured", DONE, "`auto` is below them; the tree is not, and why was measured", "Errors of prediction"),
        Point("003", "sieving on storage where it matters", DONE, "on the test bed's CephFS, where neither choice is good everywhere", "Where sieving matters: on the test bed's CephFS (measured)"),
    ]  # fmt: skip


def _sctuner(steps: Steps) -> list[Point]:
    found = []
    if "3,328 configurations" in steps:
        where = "3,328 configurations of each interface (simulated)"
        found += [
            *_of("004", where,
                ("3,328 configurations, 100 runs of each by each interface, at several scales", DONE, "aggregators, buffers, alignment and collective metadata vary; chunks are not simulated, and vary on the test bed"),
                ("clusters compared with the published 5 and 6 by a stated criterion", DONE, "the largest mean silhouette, which finds 2 and 2: the published numbers are not reached"),
                ("dependable settings only where they act", DONE, "others are not named"),
            ),
        ]  # fmt: skip
    bed, here = steps.get("bed hdf5 runs"), steps.get("real campaign")
    if bed and here:
        minutes = (bed["seconds"] + here["seconds"]) / 60
        runs = bed["result"]["runs"] + here["result"]["rows"]
        found += [
            *_of("004", "What each setting brings to HDF5 on the test bed (measured)",
                ("as much for real as four hours hold", PART, f"{runs:,} runs in {minutes:.0f} minutes, {bed['result']['runs']} of them by parallel HDF5 on the test bed"),
                ("1.1 to 12 times split into striping, alignment, chunking and metadata", DONE, "simulated without chunks, and measured with them"),
            ),
        ]  # fmt: skip
    if "hdf5 sweeps, memory" in steps:
        where = "Tuned while it runs, where settings of HDF5 matter (measured)"
        found.append(
            Point("004", "the extractor's prescriptions, and the online tuner with settings of HDF5 where the best is clearly not the default", DONE, "chunk cache and metadata, for programs that the model does not know", where)
        )  # fmt: skip
    return found


def headings(text: str) -> set[str]:
    """Anchors of a page in Markdown."""
    return {anchor(line.lstrip("#")) for line in text.splitlines() if line.startswith("#")}


def shown(studies: Mapping[str, Any]) -> str:
    """The section with its heading."""
    return f"## {TITLE}\n\n{section(studies)}"
