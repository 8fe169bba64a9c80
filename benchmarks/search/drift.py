"""What a machine that changes costs a search, from races with and without planted drift: condensed, and as a page."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean, median

from report import EXHAUSTED, far_off, regret

QUIET = "quiet"
KINDS = {
    QUIET: "the recorded runs as they are",
    "steps": "other work comes or goes after a third of the runs or more",
    "ramp": "the machine becomes slower, or faster, all the time",
    "bursts": "other work comes for three to eight runs at once, again and again",
}
CLOSE = 0.05
OURS = ("auto", "random")
MEASURES = {"first": "first good run", "settled": "settled choice"}
AIM_OF_QUIET = 1.3
AIM_OF_PEERS = 0.5


def settled(result: dict) -> int | None:
    """The run from which on the choice leaves at most 5% of the gap open, until the end; None if the last one does."""
    close = [regret(result, value) <= CLOSE for value in result["trajectory"]]
    if not close[-1]:
        return None
    return 1 + max((number for number, good in enumerate(close, 1) if not good), default=0)


def condense(results: Iterable[dict]) -> list[dict]:
    """One small row for each episode."""
    rows = [
        {
            "drift": result["drift"] or QUIET,
            "table": " ".join([result["table"], *(f"{k}={v}" for k, v in result["context"].items())]),
            "sampler": result["sampler"],
            "seed": result["seed"],
            "budget": len(result["trajectory"]),
            "first": result["runs_to_within_5_percent"],
            "settled": settled(result),
            "off": far_off(result),
            "regret": round(regret(result, result["trajectory"][-1]), 4),
        }
        for result in results
    ]
    return sorted(rows, key=lambda row: (list(KINDS).index(row["drift"]), row["table"], row["sampler"], row["seed"]))


def shared(rows: list[dict]) -> list[dict]:
    """Only the seeds of a table that every method has played, quiet and under every kind of drift."""
    players: dict[tuple, set] = {}
    for row in rows:
        players.setdefault((row["table"], row["seed"]), set()).add((row["drift"], row["sampler"]))
    everyone = {(drift, name) for drift in KINDS for name in {row["sampler"] for row in rows}}
    return [row for row in rows if players[row["table"], row["seed"]] == everyone]


class Race:
    """The rows by kind of drift, table and method."""

    def __init__(self, rows: list[dict]) -> None:
        self.rows = shared(rows)
        self.tables = sorted({row["table"] for row in self.rows})
        self.names = sorted({row["sampler"] for row in self.rows}, key=lambda name: (name != "auto", name))
        self.budget = max(row["budget"] for row in self.rows)
        self.seeds = sorted({row["seed"] for row in self.rows})

    def of(self, drift: str, name: str, table: str | None = None) -> list[dict]:
        return [
            row
            for row in self.rows
            if row["drift"] == drift and row["sampler"] == name and table in (None, row["table"])
        ]

    def runs(self, measure: str, drift: str, name: str, table: str | None = None) -> list[float]:
        """Runs that each search needed; twice the budget where it never came as far."""
        return [row[measure] or EXHAUSTED * self.budget for row in self.of(drift, name, table)]

    def ratio(self, measure: str, drift: str) -> tuple[float, float]:
        """Runs of ``auto`` under drift over those without: median over tables of its medians, and of all runs."""
        pairs = [
            (median(self.runs(measure, drift, "auto", table)), median(self.runs(measure, QUIET, "auto", table)))
            for table in self.tables
        ]
        everywhere = fmean(self.runs(measure, drift, "auto")) / fmean(self.runs(measure, QUIET, "auto"))
        return median(a / b for a, b in pairs), everywhere

    def best(self, measure: str, drift: str, names: Iterable[str]) -> tuple[float, str]:
        """The other method that needs the fewest runs, in the mean over all searches."""
        return min((fmean(self.runs(measure, drift, name)), name) for name in names)

    def against(self, measure: str, drift: str, names: list[str]) -> float:
        """Runs of ``auto`` over those of the best other method on each table: median over tables."""
        return median(
            median(self.runs(measure, drift, "auto", table))
            / min(median(self.runs(measure, drift, name, table)) for name in names)
            for table in self.tables
        )


def verdicts(race: Race) -> list[str]:
    """A row for each kind of drift and measure: the aims, and what was reached."""
    peers = [name for name in race.names if name not in OURS]
    others = [name for name in race.names if name != "auto"]
    lines = [
        "| drift | runs until | of `auto` quiet, by table | of `auto` quiet, all searches | of the best other tool, by "
        "table | of the best other tool, all searches | of the best other method, `random` included |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for drift in KINDS:
        for measure, label in MEASURES.items():
            own = ["", ""] if drift == QUIET else [f"{value:.2f}" for value in race.ratio(measure, drift)]
            mine = fmean(race.runs(measure, drift, "auto"))
            tool, tool_name = race.best(measure, drift, peers)
            method, method_name = race.best(measure, drift, others)
            cells = [
                *own,
                f"{race.against(measure, drift, peers):.2f}",
                f"{mine / tool:.2f} ({tool_name})",
                f"{mine / method:.2f} ({method_name})",
            ]
            lines.append(f"| {drift} | {label} | " + " | ".join(cells) + " |")
    return lines


def summary(race: Race) -> list[str]:
    lines = [
        "| drift | method | runs to the first good run, median | mean | runs to the settled choice, median | mean | "
        "never settled | final choice > 5% off | regret of the final choice, mean |",
        "|---|---|" + "---:|" * 7,
    ]
    for drift in KINDS:
        for name in race.names:
            played = race.of(drift, name)
            first, kept = (race.runs(measure, drift, name) for measure in MEASURES)
            shown = [
                f"{value:g}" if value <= race.budget else f"over {race.budget}" for value in map(median, (first, kept))
            ]
            lines.append(
                f"| {drift if name == 'auto' else ''} | {name} | {shown[0]} | {fmean(first):.1f} | {shown[1]} | "
                f"{fmean(kept):.1f} | {fmean(row['settled'] is None for row in played):.0%} | "
                f"{fmean(row['off'] for row in played):.0%} | {fmean(row['regret'] for row in played):.3f} |"
            )
    return lines


def by_table(race: Race) -> list[str]:
    peers = [name for name in race.names if name not in OURS]
    lines = [
        "| table | drift | `auto`, first good run | best other tool | `auto`, settled choice | best other tool | "
        "`auto` > 5% off |",
        "|---|---|" + "---:|" * 5,
    ]

    def shown(value: float) -> str:
        return f"{value:g}" if value <= race.budget else f"over {race.budget}"

    for table in race.tables:
        for drift in KINDS:
            cells = []
            for measure in MEASURES:
                mine = median(race.runs(measure, drift, "auto", table))
                best, name = min((median(race.runs(measure, drift, peer, table)), peer) for peer in peers)
                cells += [shown(mine), f"{shown(best)} ({name})" if best <= race.budget else shown(best)]
            off = fmean(row["off"] for row in race.of(drift, "auto", table))
            lines.append(f"| {table if drift == QUIET else ''} | {drift} | " + " | ".join(cells) + f" | {off:.0%} |")
    return lines


WAYS = {"replay": "whole experiments", "proof": "the proof alone"}


def honesty(parts: list[dict]) -> list[str]:
    """Claims with and without drift, from the outputs of ``benchmarks/honesty/run.py``."""
    counts: dict[tuple[str, str, str], list[int]] = {}
    budgets = {
        part["options"]["way"]: f"{part['options']['budget']} runs, up to {part['options']['pairs']} pairs"
        for part in parts
    }
    for part in parts:
        for name, row in part["rows"].items():
            place = part["options"]["way"], part["options"]["drift"] or QUIET, name
            count = counts.setdefault(place, [0, 0])
            count[0] += row["claims"]
            count[1] += row["experiments"]
    names = list(dict.fromkeys(name for *_, name in counts))
    lines = ["| what ran | drift | " + " | ".join(names) + " |", "|---|---|" + "---:|" * len(names)]
    for way, label in WAYS.items():
        for drift in KINDS:
            cells = ["{} of {}".format(*counts[way, drift, name]) for name in names if (way, drift, name) in counts]
            lines += [f"| {label} ({budgets.get(way)}) | {drift} | " + " | ".join(cells) + " |"] if cells else []
    return lines


def write_page(data: dict) -> str:
    """Give the page of condensed rows (``race``) and of outputs of the benchmark of honesty (``honesty``)."""
    race = Race(data["race"])
    options = [part["options"] for part in data["honesty"]]
    seeds = f"{len(race.seeds)} seeds ({race.seeds[0]} to {race.seeds[-1]})"
    kinds = "; ".join(f"*{kind}*: {text}" for kind, text in KINDS.items())
    names = ", ".join(f"`{name}`" for name in race.names if name not in OURS)
    lines = [
        "# The search on a machine that changes",
        "",
        "See what drift of a factor of two costs `auto`, other tools, and the honesty of `tune`. "
        "`benchmarks/search/run.py` generates this page from `benchmarks/search/drift.json`.",
        "",
        "## How to run it",
        "",
        "```",
        "python benchmarks/search/run.py race --out RACE.jsonl --jobs 1 --drift steps",
        "python benchmarks/honesty/run.py --way proof --drift steps --out HONESTY.json",
        "python benchmarks/honesty/run.py --way replay --budget 140 --pairs 40 --drift steps --out HONESTY.json",
        "python benchmarks/search/run.py report --out RACE.jsonl --honesty HONESTY.json",
        "```",
        "",
        "`race` appends to its file: run it without `--drift` and once for each kind. `--first` is the first seed.",
        "",
        "## How runs are answered",
        "",
        f"Searches of {race.budget} runs on {len(race.tables)} measured tables, {seeds} for each table, method and "
        "kind of drift. Each run is answered by a recorded one, with its noise, and made up to two times slower: "
        f"{kinds}. A seed has the same drift and the same recorded luck for every method. The truth of a "
        f"configuration stays what it is. Other tools: {names}, each with its defaults. They do not repeat runs, and "
        "choose the best value that they saw. `random` draws configurations at random, but repeats, learns the level "
        "and chooses as `auto` does.",
        "",
        "Two counts say how fast a search is. The *first good run* is the first one whose configuration leaves at most "
        "5% of the gap between the table's median and its optimum open; the search may not know that it is good. The "
        "*settled choice* is the run from which on the current choice is that good until the end: this is what users "
        f"feel. A search that never gets there counts as {EXHAUSTED * race.budget:g} runs.",
        "",
        "## Against the aims",
        "",
        f"Ratios of runs. The aims are at most {AIM_OF_QUIET} of the runs of `auto` on the quiet tables, and at most "
        f"{AIM_OF_PEERS} of those of the best other tool under the same drift. *By table* is the median over the "
        "tables of the ratio of medians; *all searches* is the ratio of the means over all searches.",
        "",
        *verdicts(race),
        "",
        "## By method",
        "",
        *summary(race),
        "",
        "## By table",
        "",
        "Medians over the seeds.",
        "",
        *by_table(race),
    ]
    if options:
        lines += [
            "",
            "## Claims",
            "",
            "Experiments of `benchmarks/honesty/run.py` that claim a gain: 10% noise, drift over all runs, the pairs "
            "at the end. At most 5% of the experiments with nothing to gain may claim one. *Whole experiments* "
            "(`--way replay`) search 24 configurations first; a clock on which only the runs take time tells `tune` "
            "when they ran. *The proof alone* (`--way proof`) compares the default with one given candidate, without "
            "a search before; only the pairs can claim a gain.",
            "",
            *honesty(data["honesty"]),
        ]
    lines += ["", "The [notes](search-notes.md) say what was tried for `auto`."]
    return "\n".join(lines) + "\n"
