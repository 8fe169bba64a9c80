# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""Study 001, genetic search."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.studies import io_search
from benchmarks.studies.sections.writing import Aim, Section, Steps, middle, result, settings


def section(steps: Steps) -> str:
    """Give its text."""
    page = Section(
        "A. Bagbaba and X. Wang, *Improving the MPI-IO performance of applications with genetic algorithm based auto-tuning* (2021), compare a genetic search of 10 individuals and 30 generations "
        "with trying every configuration, on Vulcan of HLRS.",
        ("system", "Vulcan of HLRS", "site `vulcan-like`, and `vulcan-hardware`, which was not fitted; real ROMIO below", "simulated, the first *fitted to* the bandwidths below; measured below"),
        ("programs", "IOR with 240 and 1,200 cores, MPI-Tile-IO with 64 and 256", "the same patterns; nodes of 24 and 16 processes", "assumed"),
        ("use cases", "two per program, not explained", "blocks of 32 and 64 MiB; elements of 8 and 16 MiB in tiles of 4 x 4", "assumed"),
        ("space", "aggregators and stripes 1 to 16, stripes of 1 to 16 MB, collective buffering in three ways", "every count from 1 to 16, five sizes", "steps assumed"),
        ("default", "not printed", "the sites': 8 stripes on `vulcan-like`, 1 on `vulcan-hardware`, of 1 MiB; one aggregator per node", "8 stripes *fitted to* the printed defaults; 1 is what Lustre gives"),
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
        _aims(page, told, done, planned, fifth, near)
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
        _hours(page, steps)
    _ends(page, steps)
    real = result(steps, "real ROMIO")
    if real:
        page.heading("Tiles on real ROMIO (measured)", real["text"])
        page.table(
            ("search", "searches", "final value, MiB/s", "runs to within 5% of the gap"),
            [
                (name, told["searches"], f"{told['final']:.1f}", told["close"] or "more than the budget")
                for name, told in real["race"].items()
            ],
        )
    _wide(page, steps)
    page.missing(
        steps,
        {"real ROMIO": "the tile pattern with real ROMIO", "race over the wide space": "searches of a wide space with real ROMIO"},
    )  # fmt: skip
    return page.text()


def _wide(page: Section, steps: Steps) -> None:
    """The space in which tuning matters."""
    space, race = result(steps, "wide space on real ROMIO"), result(steps, "race over the wide space")
    if not space:
        return
    page.heading(
        "In a space in which tuning matters, on real ROMIO (measured)",
        f"Four ranks write pieces of 4 KiB in turns, collectively or not, in calls of 32 KiB to 1 MiB, with and without collective buffering and data sieving, 1 to 4 aggregators and all sizes of both buffers: {space['configurations']} configurations that differ to "
        f"ROMIO, files in memory. All were run {space['runs'] // space['configurations']} times in turn ({space['runs']:,} runs). On a machine shared with other work, runs of a configuration scatter by {100 * space['spread']:.0f}% (median standard deviation over mean).",
    )
    page.table(
        ("of all configurations (exhaustive)", "MiB/s, median", "over the default"),
        [
            (name, f"{space[key]:.1f}", f"{space[key] / space['default']:.2f}")
            for name, key in (("worst", "worst"), ("median", "median"), ("default", "default"), ("best", "best"))
        ],
    )
    page.say(
        f"Best by its median: {settings(space['best_configuration'])}. {space['near']} of {space['configurations']} configurations come within 5% of it. With such scatter, the best of {space['configurations']} medians also is the luckiest. "
        "So searches are answered by the repeats of three rounds, and what they choose is judged by the median of the other three, which they have not seen; the halves change places from seed to seed."
    )
    if not race:
        return
    early, late = io_search.FEW_RUNS, io_search.GENETIC_RUNS
    named = [
        (f"{words}, {runs} runs", race[f"{name} {runs}"])
        for name, words in (("io-search", "genetic"), ("auto", "`auto`"), ("random", "random"))
        for runs in (io_search.FEW_RUNS, io_search.AUTO_RUNS, late)
        if f"{name} {runs}" in race
    ]
    page.table(
        ("search", "searches", "runs", "final, MiB/s", "over the default", "over exhaustive"),
        [
            (words, told["searches"], f"{told['runs']:g}", f"{told['final']:.1f}", f"{told['over_default']:.2f}", f"{told['over_exhaustive']:.2f}")
            for words, told in [("exhaustive, all three rounds", race["exhaustive"]), *named]
        ],
    )  # fmt: skip
    final, lucky = (race[f"{name} {early}"]["over_exhaustive"] for name in ("auto", "random"))
    genetic = race[f"io-search {late}"]["over_exhaustive"]
    page.say(
        "Medians over the seeds, which share two halves of the same rounds. Values above 1 are possible because the exhaustive choice believes its luckiest median. With so few seeds and such scatter, differences of a tenth mean little."
    )
    if easy(race):
        gains = [told["over_default"] for told in race.values()]
        page.say(
            f"Every search finds {min(gains):.1f} to {max(gains):.1f} times the default, with {early} runs as with the {race['exhaustive']['runs']:,.0f} of all configurations: the genetic search after {late} runs has {genetic:.2f} times the exhaustive choice, "
            f"`auto` after {early} has {final:.2f}, random choices after {early} have {lucky:.2f}. So there is no aim here that could be missed: tuning matters in this space, but enough configurations are good that the search does not."
        )
        return
    page.aims(
        Aim(
            f"`auto` after {early} runs is at least as good as the genetic search after {late} ({final:.2f} and {genetic:.2f} times the exhaustive choice)",
            final >= genetic,
            "ours",
            f"{final - genetic:+.2f}",
            f"{lucky:.2f} after as many runs",
            lucky >= genetic,
            "measured",
        )
    )


CLOSE = 0.9
"""Of another search's result: differences of a tenth are within the scatter of the measured runs."""


def easy(race: Mapping[str, Any]) -> bool:
    """Whether few random choices do as well as the whole genetic search."""
    lucky, genetic = race[f"random {io_search.FEW_RUNS}"], race[f"io-search {io_search.GENETIC_RUNS}"]
    return bool(lucky["over_exhaustive"] >= CLOSE * genetic["over_exhaustive"])


def _aims(page: Section, told: Mapping[str, Any], done: int, planned: int, fifth: int, near: int) -> None:
    of = told["random searches"]
    if not of:
        return
    lucky, close = (
        told[f"random: {what}"]
        for what in ("genetic value in a fifth of its runs", "98% of the best in 2% of the runs")
    )
    page.say(
        f"Two comparisons are no aims, because random choices reach them too, or nearly: `auto` has the final value of the genetic search within a fifth of its runs in {fifth} of {done} searches (random: {lucky} of {of}), and a "
        f"configuration within 98% of the exhaustive best in 2% of its runs in {near} of {done} (random: {close} of {of}). The space is easy on the simulated site: many configurations are nearly as good as the best."
    )
    ratio, half, chance = told["runs over random's"], 0.5, 1.0
    page.aims(
        Aim(
            f"to a configuration within 98% of the best `auto` needs at most half the runs that random choices need ({ratio:.2f} times, geometric mean of {of} searches)",
            ratio <= half, "ours", f"{half - ratio:+.2f}", f"{chance:.2f} times, by definition", chance <= half, "fitted", of, planned,
        )
    )  # fmt: skip


def _hours(page: Section, steps: Steps) -> None:
    distinct = io_search.results(steps, io_search.CASES[0])[0]["configurations"]
    count = 3 * len(io_search.COUNTS) ** 2 * len(io_search.SIZES)
    hours = []
    for case in io_search.CASES:
        for told in io_search.results(steps, case)[:1]:
            hours.append(told["genetic"]["seconds"] / told["genetic"]["runs"] * told["configurations"] / 3600)
    printed, runs = io_search.PUBLISHED_HOURS, io_search.GENETIC_RUNS
    each = 3600 * printed["all configurations"] / count
    page.say(
        f"The study prints about {printed['all configurations']:.0f} hours for all configurations. Our reading of the space has {count:,} combinations (three ways of collective buffering, every count of aggregators and "
        f"stripes, five sizes; twice as many with collective and individual calls), so that is {each:.1f} s for each, and {runs} runs of the genetic search take {each * runs / 3600:.1f} hours. For these, it prints "
        + ", ".join(
            f"{own:g} h ({name.removeprefix('genetic search, ')})"
            for name, own in printed.items()
            if name.startswith("genetic")
        )
        + f". The reading fits IOR; at the printed time of its own genetic search, MPI-Tile-IO would take {printed['genetic search, MPI-Tile-IO 64 cores'] * count / runs:.0f} to "
        f"{printed['genetic search, MPI-Tile-IO 256 cores'] * count / runs:.0f} hours for all (computed). Many combinations are the same to ROMIO: {distinct:,} differ for the first case. On the simulated site these would take "
        f"{min(hours):.0f} to {max(hours):.0f} hours per case, at the mean of the genetic search's runs."
    )


def _ends(page: Section, steps: Steps) -> None:
    """Both ends of the printed ranges beside ours."""
    sites = {
        name.removeprefix("ends on "): step["result"] for name, step in steps.items() if name.startswith("ends on ")
    }
    if not {io_search.SITE, io_search.UNFITTED} <= sites.keys():
        return
    page.heading(
        "Bandwidths and not only ratios (simulated)",
        "MB/s in the study (if these are 10^6 bytes, they are 4.6% fewer MiB/s), MiB/s here; ours is the best of all configurations (exact counts thinned out), without noise. *Limited by*: the slowest part of the simulated run.",
    )
    rows = []
    for case in io_search.CASES:
        for site in (io_search.SITE, io_search.UNFITTED):
            own = sites[site][case.name]
            first = site == io_search.SITE
            rows.append(
                (
                    case.name if first else "", f"`{site}`", f"{case.default:,.0f}" if first else "", f"{own['default']:,.0f}",
                    f"{case.tuned:,.0f}" if first else "", f"{own['best']:,.0f}", f"{case.speedup:.2f}" if first else "",
                    f"{own['best'] / own['default']:.2f}", _differs(case, own), own["best_bound"],
                )
            )  # fmt: skip
    page.table(
        ("case", "site", "published default", "our default", "published tuned", "our best", "published speed-up", "ours", "what differs by more than a quarter", "best limited by"),
        rows,
    )  # fmt: skip
    mega = (1 << 20) / 1e6
    ends = {case.name: sites[io_search.SITE][case.name]["best"] for case in io_search.CASES}
    short = [case.name for case in io_search.CASES if ends[case.name] * mega < 0.95 * case.tuned]
    unsure = [case.name for case in io_search.CASES if ends[case.name] < 0.95 * case.tuned <= ends[case.name] * mega]
    low = [
        case.name
        for case in io_search.CASES
        if sites[io_search.SITE][case.name]["best"] / sites[io_search.SITE][case.name]["default"] < 0.95 * case.speedup
    ]
    page.say(
        f"Not reached on the fitted site: the published bandwidth in {'; '.join(short) or 'no case'} (in {'; '.join(unsure) or 'no other case'} it depends on whether the study's MB are 10^6 bytes); the published speed-up in {'; '.join(low) or 'no case'}. With 1,200 cores, use case 2, the tuned side is short and not the default. "
        "With 240 cores, use case 2, and in use case 2 of MPI-Tile-IO, it is the default that differs: in the study twice the block lowers the default, in the simulation it does not. "
        "On the site from hardware alone, a default of one stripe is far slower than any printed one, so its speed-ups are larger than the published ones and confirm none; with two servers of 6.8 GB/s it cannot reach "
        "24 or 42 GB/s, which more than two such servers, or memory, must have taken."
    )
    others = [site for site in sites if "@" in site]
    fast = sites[others[-1]]
    page.table(
        ("case", *(f"{end}, OSTs of {_rate(site)}" for site in [others[0], io_search.SITE, *others[1:]] for end in ("default", "best"))),
        [
            (case.name, *(f"{sites[site][case.name][end]:,.0f}" for site in [others[0], io_search.SITE, *others[1:]] for end in ("default", "best")))
            for case in io_search.CASES
        ],
    )  # fmt: skip
    page.say(
        f"With OSTs of twice the speed the tuned side of the last IOR case comes to {fast['IOR 1200 cores, use case 2']['best']:,.0f} MiB/s (published 41,859), and that of the case before it to "
        f"{fast['IOR 1200 cores, use case 1']['best']:,.0f} (published 23,859): the study's two use cases differ by more than the size of a block explains here, so no speed of an OST gives both. "
        "The defaults do not change: the rounds of their few aggregators limit them."
    )
    page.table(
        (f"case on `{io_search.UNFITTED}`", *(f"{name}: final, of the best" for name in ("genetic", "auto", "random"))),
        [
            (case.name, *(f"{100 * told[name]['final'] / sites[io_search.UNFITTED][case.name]['best']:.1f}%" for name in ("genetic", "auto", "random")))
            for case in io_search.CASES
            for told in [result(steps, f"{case.name} on {io_search.UNFITTED}")]
            if told
        ],
    )  # fmt: skip
    page.table(
        (f"case on `{io_search.UNFITTED}`, with the pattern", "configurations", "best pattern", *(f"{name}: final, of the best (runs to 98%)" for name in ("genetic", "auto", "random"))),
        [
            (case.name, f"{told['grid']:,}", told["best_pattern"], *(f"{100 * told[name]['final'] / told['best']:.1f}% ({told[name]['runs_to_98_percent'] or 'never'})" for name in ("genetic", "auto", "random")))
            for case in io_search.PATTERNED
            for told in [result(steps, f"{case.name} on {io_search.UNFITTED}, with the pattern")]
            if told
        ],
    )  # fmt: skip


def _rate(site: str) -> str:
    return site.partition("=")[2] or "2.8 GB/s"


def _differs(case: io_search.Case, own: Mapping[str, Any]) -> str:
    told = []
    for end, printed in (("default", case.default), ("best", case.tuned)):
        ratio = own[end] / printed
        if not 0.8 <= ratio <= 1.25:
            told.append(f"the {'tuned side' if end == 'best' else end}, {ratio:.2f} times")
    return " and ".join(told) or "neither"


def _rows(case: io_search.Case, found: Sequence[Any]) -> list[tuple[Any, ...]]:
    rows = []
    for name in ("genetic", "auto", "auto with model") if found else ():
        own = [seed[name] for seed in found]
        speed = statistics.median(entry["final"] for entry in own) / found[0]["default"]
        first = name == "genetic"
        rows.append(
            (
                case.name if first else "", name, f"{case.speedup:.2f}" if first else "",
                f"{speed:.2f}", f"{found[0]['best'] / found[0]['default']:.2f}" if first else "",
                middle([entry["runs"] for entry in own]), middle([entry["runs_to_98_percent"] for entry in own]),
                middle([entry["runs_to_genetic"] for entry in own]),
                f"{statistics.median(entry['seconds'] for entry in own) / 60:.0f} min",
            )
        )  # fmt: skip
    return rows
