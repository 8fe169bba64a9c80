# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""Study 001, genetic search."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.studies import io_search
from benchmarks.studies.sections.writing import Section, Steps, middle, result


def section(steps: Steps) -> str:
    """Give its text."""
    page = Section(
        "A. Bagbaba and X. Wang, *Improving the MPI-IO performance of applications with genetic algorithm based auto-tuning* (2021), compare a genetic search of 10 individuals and 30 generations "
        "with trying every configuration, on Vulcan of HLRS.",
        ("system", "Vulcan of HLRS", "site `vulcan-like`; real ROMIO below", "simulated; measured below"),
        ("programs", "IOR with 240 and 1,200 cores, MPI-Tile-IO with 64 and 256", "the same patterns; nodes of 24 and 16 processes", "assumed"),
        ("use cases", "two per program, not explained", "blocks of 32 and 64 MiB; elements of 8 and 16 MiB in tiles of 4 x 4", "assumed"),
        ("space", "aggregators and stripes 1 to 16, stripes of 1 to 16 MB, collective buffering in three ways", "every count from 1 to 16, five sizes", "steps assumed"),
        ("default", "not printed", "the site's: 8 stripes of 1 MiB, one aggregator per node", "assumed"),
    )  # fmt: skip
    rows = [row for case in io_search.CASES for row in _rows(case, io_search.results(steps, case))]
    if rows:
        seeds = max(len(io_search.results(steps, case)) for case in io_search.CASES)
        page.say(
            f"The table shows medians of up to {seeds} seeds. *Exhaustive* is the best of all configurations without noise; each search sees the noise."
        )
        page.table(
            ("case", "search", "published speed-up", "ours", "exhaustive", "runs", "runs to 98% of the best", "runs to the genetic end", "simulated time"),
            rows,
        )  # fmt: skip
        page.say("![Progress of the searches](studies-search.svg)")
        told = io_search.summary(steps)
        done, planned = told["searches"], len(io_search.CASES) * len(io_search.SEEDS)
        fifth, near = told["genetic value in a fifth of its runs"], told["98% of the best in 2% of the runs"]
        page.aims(
            (f"`auto` reaches the final value of the genetic search within a fifth of its runs in {fifth} of {done} searches, and comes within 1% of it in {told['within 1% of it']}", fifth == done, done, planned),
            (f"`auto` tries a configuration within 98% of the exhaustive best in 2% of its runs in {near} of {done} searches", near == done, done, planned),
        )  # fmt: skip
        missed = [
            f"{case.name}: `auto` {100 * found['auto']['final'] / found['best']:.1f}%, genetic {100 * found['genetic']['final'] / found['best']:.1f}%"
            for case in io_search.CASES
            for found in io_search.results(steps, case)
            if found["auto"]["runs_to_genetic"] is None
        ]
        if missed:
            page.say(
                f"Where `auto` never reaches the value of the genetic search, the two end this close to the best of all: {'; '.join(missed)}. The scatter of the runs is larger than the difference."
            )
        page.say(
            "Published: 1.27 to 7.74 times, found in 1 to 4 hours, compared with about 40 for every configuration. The simulated time of all "
            f"configurations, at the mean of the genetic search's runs: {_all_hours(steps)}. Speed-ups depend on the default, which the slides do not "
            "state: the largest published ones are those of the largest jobs, where a default of few stripes would lose most."
        )
    real = result(steps, "real ROMIO")
    if real:
        page.heading("On real ROMIO (measured)", real["text"])
        page.table(
            ("search", "searches", "final value, MiB/s", "runs to within 5% of the gap"),
            [
                (name, told["searches"], f"{told['final']:.1f}", told["close"] or "more than the budget")
                for name, told in real["race"].items()
            ],
        )
    page.missing(steps, {"real ROMIO": "the tile pattern with real ROMIO"})
    return page.text()


def _all_hours(steps: Steps) -> str:
    hours = []
    for case in io_search.CASES:
        for found in io_search.results(steps, case)[:1]:
            hours.append(found["genetic"]["seconds"] / found["genetic"]["runs"] * found["configurations"] / 3600)
    return f"{min(hours):.0f} to {max(hours):.0f} hours per case"


def _rows(case: io_search.Case, found: Sequence[Any]) -> list[tuple[Any, ...]]:
    rows = []
    for name in ("genetic", "auto", "auto with model") if found else ():
        own = [seed[name] for seed in found]
        speed = statistics.median(entry["final"] for entry in own) / found[0]["default"]
        first = name == "genetic"
        rows.append(
            (
                case.name if first else "", name, f"{case.tuned / case.default:.2f}" if first else "",
                f"{speed:.2f}", f"{found[0]['best'] / found[0]['default']:.2f}" if first else "",
                middle([entry["runs"] for entry in own]), middle([entry["runs_to_98_percent"] for entry in own]),
                middle([entry["runs_to_genetic"] for entry in own]),
                f"{statistics.median(entry['seconds'] for entry in own) / 60:.0f} min",
            )
        )  # fmt: skip
    return rows
