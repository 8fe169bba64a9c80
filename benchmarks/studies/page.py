# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""Writes docs/benchmarks/studies.md from the results: published figures beside ours, and every difference explained."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.studies import chain, figures, io_search, shaman
from benchmarks.studies.sections import SECTIONS, audit
from benchmarks.studies.sections.writing import result
from benchmarks.studies.steps import RESULTS, ROOT

PAGE = ROOT / "docs" / "benchmarks" / "studies.md"
VERDICT = re.compile(r"- (Reached|Not reached|Open)")
STUDIES = ("ann", "io-search", "shaman", "ai-for-io", "sctuner", "beyond")
HEAD = """# The five studies, repeated

Compare Stripewise with five published studies of I/O tuning. `benchmarks/studies` repeats each study with Stripewise's own commands and loops. `python -m benchmarks.studies page` makes this page from its results, and a test compares the two. Published figures are from other machines, other file systems and other years: they are the aim, not a competition. Each figure has a label:

- **measured**: programs ran, on the machine named;
- **simulated**: computed by the [simulated cluster](../explanation/simulated-cluster.md), with its noise;
- **assumed**: a value that the study does not print and that we chose;
- **fitted to this figure**: a site or a value was chosen so that the published figure comes out. That it comes out is then no success. Such a site has a second form from hardware facts alone, and both are shown;
- **computed**: arithmetic.

Each aim says who set it, how far the result is above or below it, and what random choices get. A test refuses an aim that random choices reach too. [What an audit found](#what-an-audit-found-and-what-became-of-it) lists what was mended on this page, and what is still missing.

```
python -m benchmarks.studies all --simulated                # everything that launches nothing
python -m benchmarks.studies all --simulated --minutes 10   # the same for ten minutes; the next call continues
python -m benchmarks.studies all                            # also programs on this machine, on the test bed if it runs, and on a slow disk if you are root (hours)
python -m benchmarks.studies all --quick                    # a small version, to see that it works; runs in CI
```

Each section ends with its own command. `--simulated`, `--measured`, `--bed` and `--disk` do one part of it: what is computed, programs on this machine, what needs the test bed, and what needs a disk with few requests per second, as root.

Seeds are fixed. Every step is stored in `benchmarks/studies/results` as soon as it is done, and an interrupted study continues with the next step. Measured tables that took long are in its folder `tables`.
"""


def load(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Steps of each study that has results."""
    found = {}
    for name in STUDIES:
        file = folder / f"{name}.json"
        found[name] = json.loads(file.read_text("utf-8"))["steps"] if file.exists() else {}
    return found


def cost(studies: Mapping[str, Mapping[str, Any]]) -> str:
    """What the steps took."""
    lines = [
        "## What it cost",
        "",
        "The table shows the processor time of the steps, on two cores shared with other work, done in several sessions. A second run that finds all results takes none.",
        "",
        "| study | simulated and computed | measured |",
        "|---|---:|---:|",
    ]
    total = 0.0
    for name, steps in studies.items():
        spent = {True: 0.0, False: 0.0}
        for step in steps.values():
            spent[step["kind"] == "measured"] += step["processor_seconds"]
        total += spent[False]
        lines.append(f"| {name} | {spent[False] / 60:.1f} min | {spent[True] / 60:.1f} min |")
    lines += [
        "",
        f"All simulated and computed steps together took {total / 60:.0f} minutes of one core (aim: under 60). Command: `python -m benchmarks.studies all --simulated`.",
    ]
    return "\n".join(lines) + "\n"


def glance(sections: Mapping[str, str]) -> str:
    """How many aims of each section were reached, and which were not."""
    lines = ["## At a glance", "", "| section | aims reached | not reached |", "| --- | ---: | --- |"]
    for title, text in sections.items():
        verdicts = [line for line in text.splitlines() if VERDICT.match(line)]
        missed = [
            line.removeprefix("- ").partition(". Aim: ")[0].removeprefix("Not reached: ")
            for line in verdicts
            if not line.startswith("- Reached")
        ]
        count = f"{len(verdicts) - len(missed)} of {len(verdicts)}" if verdicts else "no aims"
        lines.append(f"| [{title}](#{audit.anchor(title)}) | {count} | {'; '.join(missed)} |")
    lines += [
        "",
        "Published figures that are no aim here, because a site was fitted to them or because only their order can be compared, are beside ours in the sections.",
    ]
    return "\n".join(lines) + "\n"


def render(studies: Mapping[str, Mapping[str, Any]]) -> str:
    """Give the page's text."""
    sections = {SECTIONS[name][0]: SECTIONS[name][1](studies[name]) for name in STUDIES}
    parts = [HEAD, glance(sections)]
    for name, (title, text) in zip(STUDIES, sections.items(), strict=True):
        command = f"Command of these figures: `python -m benchmarks.studies {name}`."
        parts.append(f"## {title}\n\n{text}\n{command}\n")
    parts += [audit.shown(studies), cost(studies)]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def pictures(studies: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Pictures of what is there, by file name."""
    found = {}
    ann = studies["ann"]
    for way in ("read", "write"):
        sampled = result(ann, f"parallel coordinates, {way}")
        if sampled:
            found[f"studies-kay-{way}.svg"] = figures.parallel(
                f"Simulated campaign on Kay: {len(sampled['rows'])} {way}s", sampled["axes"], sampled["rows"]
            )
    scored = result(ann, "accuracy of ann")
    if scored:
        shown = {f"{way}s": scored[way]["shown"] for way in ("read", "write")}
        found["studies-kay-predicted.svg"] = figures.scatter(
            "Fifty configurations each: measured once (across) and predicted (up), MiB/s", shown
        )
    chosen = result(ann, "cases of ann")
    for way in ("read", "write") if chosen else ():
        shown = chosen["operations"][way]["shown"]
        pairs = sorted(zip(*(map(int, shown[end].split()) for end in ("default", "tuned")), strict=True))
        found[f"studies-kay-cases-{way}.svg"] = figures.levels(
            f"The {len(pairs):,} {way}s by their default: default and tuned, MiB/s (simulated, `ann`)",
            {"tuned": [pair[1] for pair in pairs], "default": [pair[0] for pair in pairs]},
        )
    classes = {name: told for name, told in shaman.by_class(studies["shaman"]).items() if name != "all"}
    if classes:
        found["studies-accelerator-saved.svg"] = figures.pairs(
            "Median time saved by class, percent of the time without accelerator (simulated)",
            {which: {name: told[which] for name, told in classes.items()} for which in ("default", "genetic", "auto")},
        )
        found["studies-accelerator-runs.svg"] = figures.pairs(
            "Median number of runs to the best by class (simulated)",
            {
                which: {name: told[f"runs to the best, {which}"] for name, told in classes.items()}
                for which in ("genetic", "auto")
            },
        )
    lines: dict[str, list[float]] = {}
    searches = [found for case in io_search.CASES for found in io_search.results(studies["io-search"], case)]
    for name in ("genetic", "auto", "auto with model") if searches else ():
        shares = [[value / one["best"] for value in one[name]["curve"]] for one in searches]
        runs = min(map(len, shares))
        lines[name] = [sum(share[run] for share in shares) / len(shares) for run in range(runs)]
    if lines:
        found["studies-search.svg"] = figures.curves(
            f"Best configuration so far over the best of all, mean of {len(searches)} simulated searches each", lines
        )
    stages = {}
    told = result(studies["beyond"], "simulated chain")
    if told:
        rows = [(row["stage"], row["value"]) for row in told["rows"]]
        stages["10,000 nodes (simulated), MiB/s"] = [*rows, ("best of all configurations", told["best"])]
    told = result(studies["beyond"], "bed comparison")
    if told:
        # Minutes differ: each stage by what it gains over the default beside it.
        stages["test bed (measured), times the default"] = [
            (name, value / base) for name, value, base in chain.stages(told)
        ]
    if stages:
        found["studies-chain.svg"] = figures.bars("Value of each stage of the chain", stages)
    return found


def write() -> None:
    """Write the page and its pictures."""
    studies = load()
    PAGE.write_text(render(studies), "utf-8")
    for name, picture in pictures(studies).items():
        (PAGE.parent / name).write_text(picture, "utf-8")
