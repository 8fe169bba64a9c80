# ruff: noqa: E501  prose of a page, one line a sentence or a row
"""Study 003, data sieving."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.studies.sections.writing import Section, Steps, result, settings

PUBLISHED = {"2": (6.80, 1.59), "4": (6.25, 1.34), "8": (5.66, 1.19)}
"""Error in MiB/s and class error of the study's tree, by k."""
BASELINE, LINEAR = 28.5, 12.7


def section(steps: Steps) -> str:
    """Give its text."""
    page = Section(
        "J. Kunkel, *The importance of AI for high-performance I/O* (2019): one process accesses blocks with holes on the porting system of DKRZ. What do data sieving and "
        "the layout gain, and which settings should be chosen?",
        ("system", "porting system of DKRZ", "site `dkrz-porting`; real ROMIO below", "simulated; measured below"),
        ("patterns", "block and hole sizes, not printed", "17 blocks of 256 B to 16 MiB, 12 holes of 512 B to 1 MiB, reads and writes", "assumed"),
        ("settings", "1 or 2 stripes of 128 KiB or 2 MiB, sieving off or on", "the same", "as printed"),
        ("\"408 configurations\"", "the study calls them configurations; its table of defaults counts 408 best ones", "both: 51 patterns x 8 settings to predict, 408 patterns x 8 settings to choose", "assumed"),
        ("size, repeats", "up to 10 repeats", "64 MiB per run; 10 repeats to predict (medians), 3 to choose", "assumed"),
    )  # fmt: skip
    baseline, found = result(steps, "baseline"), result(steps, "errors")
    if baseline and found:
        page.heading("Errors of prediction")
        _errors(page, baseline, found)
        tree, mean = found["tree"], baseline["mae"]
        both = [k for k in PUBLISHED if k in tree]
        page.aims(
            (
                "the ratio of the tree's error to that of the baseline is at most the published one for k = "
                + ", ".join(both),
                all(tree[k]["mae"] / mean <= PUBLISHED[k][0] / BASELINE for k in both),
            ),
            ("the tree's class error is at most the published one", all(_right_class(tree, k) for k in both)),
        )
        if "auto" in found:
            page.aims(
                (
                    "the class error of `auto` is at most the published one of the tree",
                    all(_right_class(found["auto"], k) for k in both),
                )
            )
        page.say(
            "The simulated system is faster and its performance varies more (mean "
            f"{baseline['mean']:.0f} MiB/s, compared with 54.7), so errors in MiB/s cannot be compared, but ratios can. "
            "Class errors cannot be compared either: classes are shares of the largest performance, and the spread of the others below it differs. The study does not print the class error of the mean."
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
        page.heading("Value of each choice")
        _choices(page, choices)
        depth = choices["by_depth"].get("4")
        if depth:
            words = f"a tree of depth 4 reaches {depth['arithmetic']:.1f}% in the arithmetic mean (aim 95%)"
            page.aims((words, depth["arithmetic"] >= 95.0))
    _real(page, steps)
    page.missing(steps, {"real choices": "the same with real ROMIO", "causes": "causes from time alone"})
    return page.text()


def _real(page: Section, steps: Steps) -> None:
    campaign = result(steps, "real ROMIO")
    if campaign:
        page.heading("On real ROMIO (measured)", campaign["text"])
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
                    model, k, "" if mae is None else f"{mae:.2f}", f"{told['mae']:.1f}",
                    "" if mae is None else f"{mae / BASELINE:.3f}", f"{told['mae'] / mean:.3f}",
                    "" if classes is None else f"{classes:.2f}", f"{told['class_error']:.2f}",
                )
            )  # fmt: skip
    page.table(
        ("model", "k", "published MiB/s", "ours MiB/s", "published / mean's", "ours / mean's", "published class error", "ours"),
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
    page.say(
        f"The table shows the performance over the best for {choices['workloads']} patterns, each held out when the choice is made. Published for the eight static choices: 58 to 72% and 9 to 16%."
    )
