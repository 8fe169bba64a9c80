"""The page of an evaluation: tables and figures of its document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stripewise.plots.evaluated import cases, speedups
from stripewise.report.markup import Html, figure, fold, join, listing, paragraph, table, tag, value_text
from stripewise.report.page import page
from stripewise.spec.objective import Objective

_STATISTICS = ("mean", "max", "min", "median", "standard_deviation", "variance")
_MOST_ROWS = 2000


def evaluation_page(document: Mapping[str, Any]) -> str:
    """Write the page.

    Parameters
    ----------
    document : mapping
        As ``stripewise evaluate --json`` prints it.
    """
    objective = document["objective"]
    unit = objective["unit"]
    figures: dict[str, Any] = {}
    sections: dict[str, tuple[str, object]] = {}
    for operation, found in document["operations"].items():
        own = [pair for pair in document["pairs"] if pair["operation"] == operation]
        figures |= _figures(operation, own, objective)
        sections[operation] = (operation.capitalize(), _operation(operation, found, own, unit))
    sections["method"] = ("How it was done", _method(document))
    return page(
        title=f"Evaluation of {document['model']['name']} on {document['campaign']}",
        subtitle=f"{document['cases']:,} test cases, {document['repeats']} repeats of each point, in random order",
        headline=_headline(document["operations"]),
        sections=sections,
        figures=figures,
        simulated=bool(document["simulated"]),
    )


def _headline(operations: Mapping[str, Mapping[str, Any]]) -> Html:
    lines = [
        f"{operation}: {found['improved']:,} of {found['cases']:,} cases improved ({found['improved_percent']:.1f}%), "
        f"overall {found['overall_gain_percent']:+.1f}%; an oracle reaches {found['oracle_gain_percent']:+.1f}%"
        for operation, found in operations.items()
    ]
    return tag("div", listing(lines), class_="headline")


def _figures(operation: str, own: Sequence[Mapping[str, Any]], objective: Mapping[str, str]) -> dict[str, Any]:
    direction = "maximize" if objective["direction"] == "maximize" else "minimize"
    judge = Objective(objective["name"], direction, objective["unit"])  # type: ignore[arg-type]
    default, tuned, oracle = ([float(pair[key]) for pair in own] for key in ("default", "tuned", "oracle"))
    ratios = [judge.speedup(a, b) for a, b in zip(tuned, default, strict=True)]
    possible = [judge.speedup(a, b) for a, b in zip(oracle, default, strict=True)]
    return {
        f"cases-{operation}": cases(default, tuned, oracle, quantity=judge.name, unit=judge.unit),
        f"speedups-{operation}": speedups(ratios, possible),
    }


def _operation(operation: str, found: Mapping[str, Any], own: Sequence[Mapping[str, Any]], unit: str) -> Html:
    counts = table(
        "Cases",
        ("", "cases", "of all"),
        [
            (name, f"{found[key]:,}", f"{100 * found[key] / found['cases']:.1f}%")
            for name, key in (("improved", "improved"), ("not improved", "not_improved"), ("unchanged", "unchanged"))
        ],
        (1, 2),
    )
    values = table(
        f"Values over all cases{f' ({unit})' if unit else ''}",
        ("", "default", "prescribed", "oracle"),
        [
            (name.replace("_", " "), *(_number(found[which][name]) for which in ("default", "tuned", "oracle")))
            for name in _STATISTICS
        ],
        (1, 2, 3),
    )
    reached = found["of_oracle"]
    against = listing(
        [
            f"overall gain {found['overall_gain_percent']:+.1f}%, an oracle's {found['oracle_gain_percent']:+.1f}%",
            f"geometric mean of the speed-ups {found['geometric_speedup']:.3f}, an oracle's "
            f"{found['oracle_geometric_speedup']:.3f}",
            f"of the oracle's performance: {reached['arithmetic_percent']:.1f}% in the mean, "
            f"{reached['harmonic_percent']:.1f}% in the harmonic mean, {reached['worst_percent']:.1f}% at worst",
            f"of the {found['improvable']:,} cases that an oracle improves by more than 5%, "
            f"{found['improvable_improved']:,} improved",
        ]
    )
    common = table(
        "Commonest prescribed settings",
        ("settings", "selected", "improved", "not improved", "improved (%)"),
        [
            (
                " ".join(f"{name}={value_text(value)}" for name, value in entry["settings"].items()),
                *(f"{entry[key]:,}" for key in ("selected", "improved", "not_improved")),
                f"{entry['improved_percent']:.1f}",
            )
            for entry in found["common"]
        ],
        (1, 2, 3, 4),
    )
    return join(
        [
            counts,
            values,
            against,
            figure(f"cases-{operation}", f"Every {operation} case", "Every case with its default, its prescription and "
                   "the best that was measured for its workload."),
            figure(f"speedups-{operation}", f"Speed-ups of {operation}", "Share of the cases that reach a speed-up."),
            common,
            fold("All cases", _rows(own)),
        ]
    )  # fmt: skip


def _rows(own: Sequence[Mapping[str, Any]]) -> Html:
    rows = []
    for number, pair in enumerate(own[:_MOST_ROWS], start=1):
        before, after = pair["default_settings"], pair["tuned_settings"]
        changed = " ".join(f"{name}={value_text(value)}" for name, value in after.items() if before.get(name) != value)
        rows.append((str(number), " ".join(f"{n}={value_text(v)}" for n, v in before.items()), changed or "unchanged",
                     _number(pair["default"]), _number(pair["tuned"]), _number(pair["oracle"])))  # fmt: skip
    made = table(
        "Cases", ("", "default settings", "prescribed", "default", "prescribed value", "oracle"), rows, (3, 4, 5)
    )
    more = len(own) - _MOST_ROWS
    return join([made, paragraph(f"and {more:,} more: see --json")]) if more > 0 else made


def _method(document: Mapping[str, Any]) -> Html:
    model = document["model"]
    return listing(
        [
            f"model {model['name']}, trained on {model['rows']:,} rows of table {model['table']}",
            f"{document['points']:,} distinct points were measured {document['repeats']} times each, repeat by repeat "
            "in random order; a case's value is the mean of its repeats",
            f"{document['failed']:,} runs failed; {document['left_out']:,} cases without a result are left out",
            "the oracle is the best of all measured settings of a workload: each repeat scores what the others choose",
            f"all decisions together took {document['decision_seconds']:.3g} s",
        ]
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
