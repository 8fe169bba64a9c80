# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""Study 003, data sieving."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.studies import hard_patterns, sieved
from benchmarks.studies.sections.writing import Aim, Section, Steps, result, settings

PUBLISHED = {"2": (6.80, 1.59), "4": (6.25, 1.34), "8": (5.66, 1.19)}
"""Error in MiB/s and class error of the study's tree, by k."""
BASELINE, LINEAR = 28.5, 12.7
NEARLY_OPTIMAL = 95.0
"""Percent of the best in the arithmetic mean, for the study's "nearly optimal"."""
WORST = (9, 16)
"""Harmonic means of the study's static choices, percent."""


def section(steps: Steps) -> str:
    """Give its text."""
    page = Section(
        "J. Kunkel, *The importance of AI for high-performance I/O* (2019): one process accesses blocks with holes on the porting system of DKRZ. What do data sieving and "
        "the layout gain, and which settings should be chosen?",
        ("system", "porting system of DKRZ", "site `dkrz-porting`, and `dkrz-porting-hardware`, which was not fitted; real ROMIO below", "simulated, the first *fitted to* the table of static choices; measured below"),
        ("patterns", "block and hole sizes, not printed", "17 blocks of 256 B to 16 MiB, 12 holes of 512 B to 1 MiB, reads and writes", "assumed"),
        ("settings", "1 or 2 stripes of 128 KiB or 2 MiB, sieving off or on", "the same", "as printed"),
        ("\"408 configurations\"", "the study calls them configurations; its table of defaults counts 408 best ones", "both: 51 patterns x 8 settings to predict, 408 patterns x 8 settings to choose", "assumed"),
        ("its two data sets", "prediction: 387 + 387 instances with a mean of 54.7 MiB/s; choices: 408 configurations with a mean of 245 MiB/s", "also two, with other means: see below", "simulated"),
        ("size, repeats", "up to 10 repeats", "64 MiB per run; 10 repeats to predict (medians), 3 to choose", "assumed"),
    )  # fmt: skip
    baseline, found = result(steps, "baseline"), result(steps, "errors")
    if baseline and found:
        page.heading("Errors of prediction")
        _errors(page, baseline, found)
        page.aims(*_error_aims(baseline, found, "fitted"))
        page.say(
            "The simulated system is faster and its performance varies more (mean "
            f"{baseline['mean']:.0f} MiB/s, compared with 54.7), so errors in MiB/s cannot be compared, but ratios can. "
            "Class errors cannot be compared either: classes are shares of the largest performance, and the spread of the others below it differs. The study does not print the class error of the mean."
        )
        apart = result(steps, "class distances")
        if apart:
            page.say(
                f"Why the tree misses the published class errors: it can only repeat values that it learned from, and configurations that differ in one step of the block size alone are {apart['mean']:.2f} classes apart in the mean "
                f"(up to {apart['most']}; {apart['pairs']} pairs). With a half of the rows held out, the nearest that it has seen may be such a neighbour, or one further away. `auto` interpolates between them and does not miss."
            )
    curve = result(steps, "learning curve")
    if curve:
        page.heading("Learning curves (inverse k-fold)")
        page.table(
            ("training rows", *(f"{model}: error MiB/s" for model in curve)),
            [
                (points[0]["training_rows"], *(f"{point['mae']:.1f}" for point in points))
                for points in zip(*curve.values(), strict=True)
            ],
        )
        pairs = zip(curve["tree"], curve["linear"], strict=True)
        crossed = [tree["training_rows"] for tree, linear in pairs if tree["mae"] < linear["mae"]]
        if crossed:
            page.say(f"The tree is better than the linear model from {crossed[0]} rows on (published: 96).")
    choices = result(steps, "choices")
    if choices:
        mean = f"Mean of all runs: {choices['mean']:.0f} MiB/s (published: 245)." if "mean" in choices else ""
        page.heading("Value of each choice", mean)
        _choices(page, choices)
        page.aims(*_depth_aims(choices, "fitted"))
    _unfitted(page, steps)
    _real(page, steps)
    _sieved(page, steps)
    page.missing(
        steps,
        {
            "real choices": "the same with real ROMIO",
            "bed sieving choices": "the same on the test bed",
            "causes": "causes from time alone",
        },
    )
    return page.text()


def _unfitted(page: Section, steps: Steps) -> None:
    errors = result(steps, f"errors on {hard_patterns.UNFITTED}")
    choices = result(steps, f"choices on {hard_patterns.UNFITTED}")
    if errors and choices:
        page.heading(
            "On the site that was not fitted (simulated)",
            f"The same on `{hard_patterns.UNFITTED}`, with a mean of {errors['baseline']['mean']:.0f} MiB/s over the 408 configurations to predict and of {choices['mean']:.0f} over all runs of the choices.",
        )
        _errors(page, errors["baseline"], errors["models"])
        page.aims(*_error_aims(errors["baseline"], errors["models"], "simulated"))
        _choices(page, choices)
        page.aims(*_depth_aims(choices, "simulated"))
    hard = result(steps, "hard patterns")
    if hard:
        page.heading(
            "Patterns on which static choices are as bad as published (simulated)",
            f"On `{hard_patterns.UNFITTED}`: blocks of {hard_patterns.BLOCKS[0]} B to {hard_patterns.BLOCKS[-1] >> 20} MiB, holes of 1 KiB to {hard_patterns.HOLES[-1] >> 30} GiB in steps of four. These patterns were chosen because the study's "
            f"eight static choices are nearly as bad on them (*fitted to this figure*; the site is not). Mean of all runs: {hard['mean']:.0f} MiB/s (published: 245).",
        )
        _choices(page, hard)
        page.say(
            "The tree of depth 4 that knows all patterns, as the study prints it: in each leaf the setting that it prescribes, and of how many patterns the two most frequent best settings are the best "
            "(sieving, stripes, stripe size):"
        )
        page.say("\n".join(_node(node) for node in hard["tree"] if node["if"]))
    two = result(steps, "two components")
    if two:
        page.heading(
            "Times of two components (simulated)",
            "As the study simulates it: every operation takes a gamma-distributed time in a fast component, 30% of them (assumed) another one in a slow component, and a normal part is added; 1,000 operations, scale 1. "
            "The clusters are those of `calibrate` and `diagnose`: a mixture of normal distributions of the time's logarithm.",
        )
        page.table(
            ("shapes of fast and slow", "clusters", "typical times and shares", "operations told right", "by always guessing the more frequent"),
            [
                (f"{one['fast']} and {one['slow']}", len(one["clusters"]), "; ".join(f"{at:.2f} ({100 * share:.0f}%)" for at, share, _ in one["clusters"]), f"{100 * one['right']:.1f}%", f"{100 * one['most_frequent']:.1f}%")
                for one in two
            ],
        )  # fmt: skip
        page.say(
            "The slow component is one cluster each time, and what belongs to it is told from the rest. The fast component, whose logarithm is skewed, is split into several clusters: their number is not the number of components."
        )


def _node(node: Mapping[str, Any]) -> str:
    indent = "  " * (node["depth"] - 1)
    if "chosen" not in node:
        return f"{indent}- {node['if']}"
    best = "; ".join(f"{_short(setting)}: {count}" for setting, count in node["best"])
    return f"{indent}- {node['if']}: **{_short(node['chosen'])}** ({node['patterns']} patterns; best: {best})"


def _short(setting: Mapping[str, Any]) -> str:
    sieving = "on" if setting["sieving"] == "enable" else "off"
    return f"({sieving}, {setting['stripe_count']}, {int(setting['stripe_size']) >> 10} KiB)"


def _real(page: Section, steps: Steps) -> None:
    campaign = result(steps, "real ROMIO")
    if campaign:
        page.heading("Holes on real ROMIO (measured)", campaign["text"])
    real = result(steps, "real errors")
    if real:
        _errors(page, real["baseline"], real["models"])
    choices = result(steps, "real choices")
    if choices:
        _choices(page, choices)
    causes = result(steps, "causes")
    if causes:
        page.heading(
            "Causes from time alone (measured)",
            "Reads on this machine's disk are classified by their time after a calibration on other sizes and patterns; `mincore` gives the truth: "
            f"{causes['operations']:,} reads, balanced accuracy {100 * causes['balanced_accuracy']:.1f}%; with `O_DIRECT` "
            f"{100 * causes['direct']['recall']:.1f}% of {causes['direct']['reads']} are classified as uncached. The study shows such tables without a known truth.",
        )
        _causes(page, causes["page"])


def _sieved(page: Section, steps: Steps) -> None:
    told = result(steps, "bed sieving")
    if not told:
        return
    static = (result(steps, "real choices") or {}).get("static", [])
    wins = next((one["best"] for one in static if one["configuration"] == {"sieving": "enable"}), None)
    memory = "" if wins is None else f", and sieving on wins {wins} patterns only"
    page.heading(
        "Where sieving matters: on the test bed's CephFS (measured)",
        f"In memory a request costs next to nothing{memory}. Here each request passes through the client's file system, and the file is made by another client before each run, so that what is read comes from the OSDs: "
        f"{sieved.PIECES} blocks of the same sizes and holes, {told['patterns']} patterns, {told['repeats']} repeats in turn, {told['runs']:,} runs in one launch a round. The machine was shared with other work.",
    )
    page.table(
        ("operation", "patterns", "sieving is faster in", "sieving on over off: least", "median", "most"),
        [
            (way, own["of"], own["better"], *(f"{own[key]:.2f}" for key in ("least", "median", "most")))
            for way, own in told["gains"].items()
        ],
    )
    found = result(steps, "bed sieving errors")
    if found:
        _errors(page, found["baseline"], found["models"])
        page.aims(*_error_aims(found["baseline"], found["models"], "measured"))
        noise, ideal = result(steps, "bed sieving scatter"), result(steps, "bed sieving oracle")
        if noise:
            page.say(
                f"Runs of the same configuration scatter by {100 * noise['spread']:.0f}% (median standard deviation over mean): an oracle that predicts each run by the median of the "
                f"others of its configuration is {noise['class_error']:.2f} classes off. An oracle that knows the true medians is {ideal['class_error']:.2f} classes off where it is judged by medians of {told['repeats']} runs, as the models are (with the measured scatter drawn anew {ideal['draws']} times). So with this scatter no model reaches 1.34 and 1.19 but by luck; `auto` is nearest to the oracle."
            )
    choices = result(steps, "bed sieving choices")
    if choices:
        _choices(page, choices)
        page.aims(*_depth_aims(choices, "measured"))
        page.say(
            f"Neither static choice is good everywhere: the better one loses in {min(one['best'] for one in choices['static'])} of {choices['workloads']} patterns. {_clear(steps)}"
        )


def _clear(steps: Steps) -> str:
    """How many patterns have a winner beyond the scatter of the runs."""
    found = result(steps, "bed sieving clear")
    if not found:
        return ""
    of, on, off = (sum(own[key] for own in found.values()) for key in ("of", "enable", "disable"))
    return (
        f"Every run with sieving beats every run without it in {on} patterns, and the reverse holds in {off}; in the other {of - on - off} of {of} the runs of both overlap, so there a tree learns little but luck. "
        "The trees gain little over the better static choice."
    )


def _error_aims(baseline: Mapping[str, float], models: Mapping[str, Any], kind: str) -> list[Aim]:
    """The published errors of the tree as aims: by the ratio to the error of the mean, and in classes."""
    tree, mean = models["tree"], baseline["mae"]
    both = [k for k in PUBLISHED if k in tree]
    worst = max((tree[k]["mae"] / mean) / (PUBLISHED[k][0] / BASELINE) for k in both)
    ks = ", ".join(both)
    return [
        Aim(
            f"the ratio of the tree's error to that of the baseline is at most the published one for k = {ks}", worst <= 1,
            "published, 6.80, 6.25 and 5.66 over 28.5 (table of prediction errors)", f"{100 * (1 - worst):.0f}% of the aim where it is smallest",
            "the mean of all as every prediction has the ratio 1", all(PUBLISHED[k][0] >= BASELINE for k in both), kind,
        ),
        *(
            Aim(
                f"the class error of {who} is at most the published one of the tree for k = {ks}", all(_right_class(told, k) for k in both),
                "published, 1.59, 1.34 and 1.19 (the same table)", ", ".join(f"{PUBLISHED[k][1] - told[k]['class_error']:+.2f}" for k in both) + " classes",
                f"the mean of all is {baseline['class_error']:.2f} classes off", baseline["class_error"] <= min(PUBLISHED[k][1] for k in both), kind,
            )
            for who, told in (("the tree", tree), ("`auto`", models.get("auto")))
            if told
        ),
    ]  # fmt: skip


def _depth_aims(choices: Mapping[str, Any], kind: str) -> list[Aim]:
    """The study's tree of depth 4 as an aim."""
    depth = choices["by_depth"].get("4")
    if not depth:
        return []
    average = statistics.mean(static["arithmetic"] for static in choices["static"])
    return [
        Aim(
            f"a tree of depth 4 reaches {depth['arithmetic']:.1f}% in the arithmetic mean", depth["arithmetic"] >= NEARLY_OPTIMAL,
            f'ours, {NEARLY_OPTIMAL:.0f}%, for the study\'s "nearly optimal"', f"{depth['arithmetic'] - NEARLY_OPTIMAL:+.1f} points",
            f"a static choice at random gets {average:.1f}%", average >= NEARLY_OPTIMAL, kind,
        )
    ]  # fmt: skip


def _right_class(folds: Mapping[str, Any], k: str) -> bool:
    return bool(folds[k]["class_error"] <= PUBLISHED[k][1])


def _errors(page: Section, baseline: Mapping[str, float], models: Mapping[str, Any]) -> None:
    mean = baseline["mae"]
    rows = [
        (
            "mean of all",
            "",
            f"{BASELINE}",
            f"{mean:.0f}",
            "1.00",
            "1.00",
            "",
            f"{baseline['class_error']:.2f}" if "class_error" in baseline else "",
        )
    ]
    for model, folds in models.items():
        for k, told in folds.items():
            mae, classes = PUBLISHED.get(k, (None, None)) if model == "tree" else (None, None)
            mae = LINEAR if model == "linear" else mae
            rows.append(
                (
                    model, k, "" if mae is None else f"at least {mae}" if model == "linear" else f"{mae:.2f}", f"{told['mae']:.1f}",
                    "" if mae is None else f"{mae / BASELINE:.3f}", f"{told['mae'] / mean:.3f}",
                    "" if classes is None else f"{classes:.2f}", f"{told['class_error']:.2f}",
                )
            )  # fmt: skip
    page.table(
        ("model", "k", "published", "ours MiB/s", "published / mean's", "ours / mean's", "published class error", "ours"),
        rows,
    )  # fmt: skip


def _choices(page: Section, choices: Mapping[str, Any]) -> None:
    def means(told: Mapping[str, float]) -> tuple[str, str]:
        return f"{told['arithmetic']:.1f}%", f"{told['harmonic']:.1f}%"

    rows: list[tuple[Any, ...]] = [
        (f"always {settings(static['configuration'])}", *means(static), static["best"], static["worst_of_all"])
        for static in choices["static"]
    ]
    rows += [(f"tree of depth {depth}", *means(told), "", "") for depth, told in choices["by_depth"].items()]
    rows.append(("model `tree`", *means(choices), "", ""))
    page.table(("choice", "arithmetic mean", "harmonic mean", "best for", "worst for"), rows)
    static = {which: [one[which] for one in choices["static"]] for which in ("arithmetic", "harmonic")}
    ranges = " and ".join(f"{min(values):.0f} to {max(values):.0f}%" for values in static.values())
    published = "as bad as published" if max(static["harmonic"]) <= WORST[1] else "not as bad as published"
    page.say(
        f"The table shows the performance over the best for {choices['workloads']} patterns, each held out when the choice is made. Published for the eight static choices: 58 to 72% and {WORST[0]} to {WORST[1]}%. Here: {ranges}, {'some of them ' if min(static['harmonic']) <= WORST[1] < max(static['harmonic']) else ''}{published}."
    )


def _causes(page: Section, told: Mapping[str, Any]) -> None:
    """What the page of timings and causes holds."""
    counts, seconds = told["counts"]["read"], told["seconds"]["read"]
    spent = sum(seconds.values())
    page.say(
        "The same times as a page with figures (time by size and class, clusters of repeated reads, anomalies, rules), as the study shows them: `stripewise site causes timings.csv --calibration calibration.json --report causes.html`. "
        f"It holds {told['operations']:,} reads without `O_DIRECT`:"
    )
    page.table(
        ("class", "reads", "of the reads", "seconds", "of the time"),
        [
            (name, f"{counts[name]:,}", f"{100 * counts[name] / told['operations']:.1f}%", f"{seconds[name]:.3f}", f"{100 * seconds[name] / spent:.1f}%")
            for name in sorted(counts, key=lambda name: -seconds[name])
        ],
    )  # fmt: skip
    odd = ", ".join(f"{cause} {count}" for cause, count in told["anomalies"].items()) or "none"
    sizes = len(told["clusters"])
    page.say(
        f"From the page cache alone they would take {told['best_case_seconds']['read']:.3f} s. Anomalies: {odd}. Reads of the {sizes} sizes fall into {min(told['clusters'])} to {max(told['clusters'])} clusters each. The rules for slow, average and fast, "
        f"which know only the size, are right in {100 * told['rules']:.0f}% (balanced; a third is chance)."
    )
