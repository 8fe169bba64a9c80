# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""Writes the pages of the studies from their results: published figures beside ours, and why they differ."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.studies import chain, figures, io_search, published, shaman
from benchmarks.studies.sections import SECTIONS
from benchmarks.studies.sections.writing import result
from benchmarks.studies.steps import RESULTS, ROOT
from benchmarks.studies.study_pages import PAGES

DOCS, NOTES = ROOT / "docs" / "benchmarks", ROOT / "benchmarks" / "notes"
PAGE, CHAIN = DOCS / "studies.md", "studies-chain.md"
SHOWN = "studies-chain.svg"
"""The picture that stands on the page of the documents too."""
VERDICT = re.compile(r"- (Reached|Not reached|Open)[^(]* \((measured|simulated|fitted)\): ")
STUDIES = ("ann", "io-search", "shaman", "ai-for-io", "sctuner", "beyond")
HEAD = """# The five studies, repeated

**Question.** What do five published studies of I/O tuning report, and what does Stripewise reach with its own commands?

**Answer.** {answer} Published figures are from other machines, file systems and years: a yardstick, not a competition.

![Value of each stage of the whole chain: simulated at 10,000 nodes, and measured on the test bed](studies-chain.svg)

Each figure here is of one kind:

- **measured**: programs ran, on a machine of two cores, in memory, on a slow disk or on CephFS with four OSDs of 50 MB/s;
- **simulated**: computed by the [simulated cluster](../how-to/try-without-a-cluster.md#the-simulated-cluster) with its noise, on a site from hardware facts alone;
- **fitted**: simulated on a site that was fitted to figures of the study. That these come out is no success, so the table leaves them out.

## The twenty published figures
"""
TAIL = """## Run them

```
python -m benchmarks.studies all --simulated    # everything that launches nothing: 27 minutes on two cores
python -m benchmarks.studies all                # also programs on this machine, and on the test bed and a slow disk as root (hours)
python -m benchmarks.studies all --quick        # a small version, to see that it works; runs in CI
python -m benchmarks.studies page               # these pages from the results; a test compares them
```

Each step is stored in `benchmarks/studies/results` as soon as it is done, and an interrupted study goes on with the next one. All tables are there too, as `NAME.md`."""


def load(folder: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Steps of each study that has results."""
    found = {}
    for name in STUDIES:
        file = folder / f"{name}.json"
        found[name] = json.loads(file.read_text("utf-8"))["steps"] if file.exists() else {}
    return found


def cost(studies: Mapping[str, Mapping[str, Any]]) -> str:
    """Say what the simulated and computed steps took."""
    spent = [
        step["processor_seconds"] for steps in studies.values() for step in steps.values() if step["kind"] != "measured"
    ]
    return f"All simulated and computed steps together took {sum(spent) / 60:.0f} minutes of one core (aim: under 60)."


def verdicts(text: str) -> list[str]:
    """The aims of a study's tables, a line each."""
    return [line for line in text.splitlines() if VERDICT.match(line)]


def count_aims(lines: Iterable[str]) -> str:
    """Say how many aims were reached, by the kind of figure."""
    found: dict[str, list[bool]] = {}
    for line in lines:
        kind = VERDICT.match(line)
        assert kind
        found.setdefault(kind[2], []).append(kind[1] == "Reached")
    counts = [f"{sum(found[kind])} of {len(found[kind])} {kind}" for kind in ("measured", "simulated", "fitted") if kind in found]  # fmt: skip
    return "; ".join(counts) or "no aims"


def tables(studies: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """All tables of each study in Markdown, by the name of its results."""
    return {
        name: f"# {title}: all tables\n\n{_raised(_moved(section(studies[name]), RESULTS))}"
        for name, (title, section) in SECTIONS.items()
        if name != "beyond"
    }


def _raised(text: str) -> str:
    """Make the headings of a section those of a page."""
    return re.sub(r"^### ", "## ", text, flags=re.MULTILINE)


def _moved(text: str, folder: Path) -> str:
    """Lead addresses of a page in the documents, and of pictures beside the notes, from another folder."""

    def moved(found: re.Match[str]) -> str:
        base = NOTES if found[1].endswith(".svg") else DOCS
        return f"]({os.path.relpath(base / found[1], folder)}{found[2] or ''})"

    return re.sub(r"\]\((?!http|#)([^)#]+)(#[^)]*)?\)", moved, text)


def render(studies: Mapping[str, Mapping[str, Any]]) -> dict[Path, str]:
    """Give the texts of the page in docs/benchmarks and of the notes on each study, by file."""
    figures, facts = published.listed(studies), published.find_facts(studies)
    aims = {name: verdicts(text) for name, text in tables(studies).items()}
    rows = ["| study | figure | published | simulated | measured | verdict | why |", "|" + "---|" * 7]
    beside = os.path.relpath(NOTES, DOCS)
    files = {one.study: f"{beside}/{one.file}" for one in PAGES}
    rows += [
        f"| [{one.study}]({files[one.study]}) | {one.what} | {one.published} | {one.simulated or 'nothing'} | {one.measured} | {one.verdict} | {one.why} |"
        for one in figures
    ]
    pages = ["## A page for each", "| page | aims reached |\n|---|---|"]
    pages[1] += "".join(f"\n| [{one.title}]({beside}/{one.file}) | {count_aims(aims[one.name])} |" for one in PAGES)
    title, section = SECTIONS["beyond"]
    pages[1] += f"\n| [{title}]({beside}/{CHAIN}) | no aims |"
    command = "Command: `python -m benchmarks.studies beyond`."
    chained = f"# {title}\n\n{_raised(section(studies['beyond']))}\n{command}\n"
    head = HEAD.rstrip("\n").format(answer=published.count_verdicts(figures))
    index = [head, "\n".join(rows), *pages, TAIL, cost(studies)]
    notes = {CHAIN: chained} | {one.file: one.text(figures, aims[one.name], facts) for one in PAGES}
    found = {PAGE: "\n\n".join(index) + "\n"}
    return found | {NOTES / name: _moved(text, NOTES) for name, text in notes.items()}


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
    """Write the pages, their pictures, and the tables beside the results."""
    studies = load()
    drawn = pictures(studies)
    shown = {NOTES / name: picture for name, picture in drawn.items()} | {DOCS / SHOWN: drawn[SHOWN]}
    for file, text in (render(studies) | shown).items():
        file.write_text(text, "utf-8")
    for name, text in tables(studies).items():
        (RESULTS / f"{name}.md").write_text(text, "utf-8")
