"""Turn the episodes of a race into a page: a table, curves, and whether the aims were reached."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import median

COLOURS = {
    "auto": "#d62728",
    "auto-prior": "#ff9896",
    "random": "#999999",
    "optuna-tpe": "#1f77b4",
    "optuna-gp": "#17becf",
    "smac3": "#2ca02c",
    "nevergrad": "#9467bd",
    "opentuner": "#e39b22",
    "kernel-tuner-vndx": "#8c564b",
    "kernel-tuner-greywolf": "#e377c2",
    "hebo": "#2b4f8c",
    "baco": "#6b7d2a",
}
MOMENTS = (10, 20, 40)
INFORMED = "auto-prior"
PEERS = (
    "optuna-tpe", "optuna-gp", "smac3", "nevergrad", "opentuner", "kernel-tuner-vndx", "kernel-tuner-greywolf",
    "hebo", "baco",
)  # fmt: skip
EXHAUSTED = 2.0
"""A search that never came within 5% counts as twice the budget."""

Results = dict[tuple[str, str], dict[str, list[dict]]]


def better(result: dict, a: float, b: float) -> bool:
    return a > b if result["direction"] == "maximize" else a < b


def regret(result: dict, value: float) -> float:
    """Share of the gap between the table's median and its optimum that is left open."""
    if not better(result, result["optimum"], value):
        return 0.0
    if not better(result, result["optimum"], result["median"]):
        return 1.0
    return (result["optimum"] - value) / (result["optimum"] - result["median"])


def curve(result: dict, budget: int) -> list[float]:
    values = [regret(result, value) for value in result["trajectory"]]
    return values + values[-1:] * (budget - len(values))


def far_off(result: dict) -> bool:
    """Whether the final choice is more than 5% worse than the best."""
    final, best = result["trajectory"][-1], result["optimum"]
    return better(result, best, final) and abs(final / best - 1) > 0.05


def group(results: list[dict]) -> Results:
    """By table and context, then by sampler; only seeds that every sampler has played."""
    grouped: Results = defaultdict(lambda: defaultdict(list))
    for result in results:
        context = " ".join(f"{k}={v}" for k, v in result["context"].items())
        grouped[result["table"], context][result["sampler"]].append(result)
    for samplers in grouped.values():
        common = set.intersection(*({r["seed"] for r in played} for played in samplers.values()))
        for name in samplers:
            samplers[name] = sorted((r for r in samplers[name] if r["seed"] in common), key=lambda r: r["seed"])
    return grouped


def figures(played: list[dict], budget: int) -> dict:
    curves = [curve(result, budget) for result in played]
    return {
        "regret": [median(c[moment - 1] for c in curves) for moment in MOMENTS if moment <= budget],
        "within": median(result["runs_to_within_5_percent"] or EXHAUSTED * budget for result in played),
        "off": sum(map(far_off, played)) / len(played),
        "ask": median(result["ask_seconds"] / len(result["evaluations"]) for result in played),
        "curve": [median(c[k] for c in curves) for k in range(budget)],
    }


def verdicts(table: dict[tuple[str, str], dict[str, dict]]) -> list[str]:
    """Judge the aims: lower regret on 80% of the tables, at most half the runs, at most half as often far off.

    Where no other tool has played, only what a prior gains is judged.
    """
    informed = [samplers for samplers in table.values() if INFORMED in samplers]
    lines = []
    if informed:
        with_it = [samplers[INFORMED]["within"] for samplers in informed]
        without = [samplers["auto"]["within"] for samplers in informed]
        worse = sum(a > b for a, b in zip(with_it, without, strict=True))
        lines = [
            "`auto` with a prior learned from the table's other contexts (`auto-prior`) is within 5% after "
            f"{median(with_it):g} runs, as the median over {len(informed)} contexts (aim: 5 or less); without the "
            f"prior, after {median(without):g}. The prior costs runs in {worse} of the contexts (aim: none)."
        ]
    if not any(name in samplers for samplers in table.values() for name in PEERS):
        return lines
    lower = worst = moments = 0
    ratios, ours_off, best_off = [], [], []
    names: set[str] = set()
    for samplers in table.values():
        mine, peers = samplers["auto"], {name: f for name, f in samplers.items() if name not in ("auto", INFORMED)}
        names |= set(peers)
        for k, value in enumerate(mine["regret"]):
            best = min(f["regret"][k] for f in peers.values())
            moments += 1
            lower += value < best or value == best == 0
            worst += value > 1.2 * best
        ratios.append(mine["within"] / min(f["within"] for f in peers.values()))
        ours_off.append(mine["off"])
    for name in sorted(names):
        best_off.append((sum(s[name]["off"] for s in table.values()) / len(table), name))
    rate, peer = min(best_off)
    mine_rate = sum(ours_off) / len(ours_off)
    return [
        f"The median regret after {', '.join(map(str, MOMENTS))} runs is below that of every other method (or both are "
        f"zero) in {lower} of {moments} cases (aim: 80%), and more than 1.2 times that of the best other method in "
        f"{worst} of {moments} (aim: none).",
        "The ratio of the runs to within 5% to those of the best other method on that table is "
        f"{median(ratios):.2f}, as the median over tables (aim: 0.5 or less).",
        f"The final choice is more than 5% off in {mine_rate:.0%} of the searches; for the best other method over all "
        f"tables ({peer}), in {rate:.0%} (aim: at most half of that).",
        *lines,
    ]


KEPT = "## On the planner that ships"
"""Begins the part of the page that compares two races of our own samplers; :func:`compare` makes its table."""


def compare(before: list[dict], now: list[dict]) -> str:
    """The figures of two races of the same samplers, seeds and tables, as a table with both in each cell."""
    old, new = group(before), group(now)
    heads = [*(f"regret, {m} runs" for m in MOMENTS), "runs to within 5%", "final choice > 5% off"]
    lines = [f"| table | method | {' | '.join(heads)} |", "|---|---|" + "---:|" * len(heads)]
    for name, context in sorted(old):
        for sampler in sorted(old[name, context]):
            both = []
            for grouped in (old, new):
                played = grouped[name, context][sampler]
                budget = max(len(result["trajectory"]) for result in played)
                f = figures(played, budget)
                within = f"{f['within']:g}" if f["within"] <= budget else f"over {budget}"
                both.append([*(f"{value:.3f}" for value in f["regret"]), within, f"{f['off']:.0%}"])
            cells = " | ".join(f"{a} → {b}" for a, b in zip(*both, strict=True))
            lines.append(f"| {f'{name} {context}'.strip()} | {sampler} | {cells} |")
    return "\n".join(lines)


def kept_part(page: Path) -> list[str]:
    """The lines of a page that no race of all methods makes anew."""
    lines = page.read_text("utf-8").splitlines() if page.exists() else []
    return ["", *lines[lines.index(KEPT) : -2]] if KEPT in lines else []


def write(results: list[dict], folder: Path, page: str = "search") -> None:
    """Write ``PAGE.md`` and ``PAGE.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    grouped = group(results)
    budget = max(len(result["trajectory"]) for result in results)
    table = {
        place: {name: figures(played, budget) for name, played in samplers.items() if played}
        for place, samplers in sorted(grouped.items())
    }
    seeds = {len(played) for samplers in grouped.values() for played in samplers.values()}
    names = {name for name, _ in table}
    players = {name for samplers in table.values() for name in samplers}
    told = "Only `auto-prior` has a prior." if INFORMED in players else "No method has a prior."
    lucky = (
        " If a table declares no default, `auto` starts in the middle of the axes, which is already good on "
        "`ior_write_lustre_hints`: the 1 there is a lucky start."
        if "ior_write_lustre_hints" in names
        else ""
    )
    simulated = (
        " Tables whose names begin with `simulated_` are not measured: `benchmarks/search/simulated.py` computes them, "
        "with noise."
        if any(name.startswith("simulated_") for name in names)
        else ""
    )
    purpose = (
        "See how many runs `auto` and other tools need to find good settings."
        if players & set(PEERS)
        else "See how many runs a prior from other contexts saves."
    )
    lines = [
        "# Search race" if players & set(PEERS) else "# What a prior saves a search",
        "",
        f"{purpose} Searches of {budget} runs on tables (and their contexts) with at least 200 points, answered by "
        "recorded runs and therefore with the recorded noise, "
        f"{'-'.join(str(n) for n in sorted({min(seeds), max(seeds)}))} seeds each. {told}{simulated}{lucky} Regret "
        "is the share of the gap between the table's median and its optimum that the true value of the current choice "
        "leaves open. The optimum is picked on odd repeats and scored on even ones. `benchmarks/search/run.py` "
        "generates this page; sources and licences of the tables are in `benchmarks/data/tables`.",
        "",
        f"![curves]({page}.svg)",
        "",
        "## Against the aims",
        "",
        *(f"- {line}" for line in verdicts(table)),
        "",
        "## By table",
        "",
        "| table | method | "
        + " | ".join(f"regret, {m} runs" for m in MOMENTS)
        + " | runs to within 5% | final choice > 5% off | asking, ms |",
        "|---|---|" + "---:|" * (len(MOMENTS) + 3),
    ]
    for (name, context), samplers in table.items():
        for sampler in sorted(samplers, key=lambda s: (s != "auto", s)):
            f = samplers[sampler]
            within = f"{f['within']:g}" if f["within"] <= budget else f"over {budget}"
            shown = " | ".join(f"{value:.3f}" for value in f["regret"])
            label = f"{name} {context}".strip() if sampler == "auto" else ""
            lines.append(f"| {label} | {sampler} | {shown} | {within} | {f['off']:.0%} | {1e3 * f['ask']:.0f} |")
    lines += kept_part(folder / f"{page}.md")
    notes = folder / "search-notes.md"
    if notes.exists():
        lines += ["", f"The [notes]({notes.name}) say what was tried and rejected, and how long asking takes."]
    (folder / f"{page}.md").write_text("\n".join(lines) + "\n", "utf-8")
    (folder / f"{page}.svg").write_text(draw(table, budget), "utf-8")
    print(json.dumps(verdicts(table), indent=1))


def draw(table: dict[tuple[str, str], dict[str, dict]], budget: int) -> str:
    """Draw median regret over runs, one panel a table."""
    wide, high, pad, columns = 300, 200, 36, 3
    rows = -(-len(table) // columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * wide} {rows * high + 30}" '
        'font-family="sans-serif" font-size="11" role="img" aria-label="Median regret over runs, by table">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, ((name, context), samplers) in enumerate(table.items()):
        left, top = number % columns * wide + pad, number // columns * high + 20
        w, h = wide - pad - 10, high - 50
        parts.append(f'<text x="{left}" y="{top - 6}" font-weight="bold">{name} {context}</text>')
        for level in (0.0, 0.25, 0.5, 0.75):
            y = top + h * (1 - level / 0.75)
            parts.append(f'<path d="M{left} {y:.1f}h{w}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 4}" y="{y + 4:.1f}" text-anchor="end">{level:g}</text>')
        for run in (1, 10, 20, 30, 40):
            if run <= budget:
                x = left + w * (run - 1) / (budget - 1)
                parts.append(f'<text x="{x:.1f}" y="{top + h + 14}" text-anchor="middle">{run}</text>')
        for sampler in sorted(samplers, key=lambda s: s == "auto"):
            points = " ".join(
                f"{left + w * k / (budget - 1):.1f},{top + h * (1 - min(0.75, value) / 0.75):.1f}"
                for k, value in enumerate(samplers[sampler]["curve"])
            )
            width = 2.5 if sampler == "auto" else 1.2
            colour = COLOURS.get(sampler, "#000")
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
    x = pad
    players = {sampler for samplers in table.values() for sampler in samplers}
    for sampler, colour in COLOURS.items():
        if sampler not in players:
            continue
        y = rows * high + 16
        parts.append(f'<path d="M{x} {y - 4}h18" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<text x="{x + 22}" y="{y}">{sampler}</text>')
        x += max(108, 40 + 7 * len(sampler))
    return "\n".join([*parts, "</svg>"]) + "\n"
