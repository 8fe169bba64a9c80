"""The page of an evaluation: tables and figures of its document."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stripewise.output.markup import changes
from stripewise.output.page import page
from stripewise.output.plots.accuracy import cases, speedups
from stripewise.requests.objective import Objective

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
    own = {
        operation: [pair for pair in document["pairs"] if pair["operation"] == operation]
        for operation in document["operations"]
    }
    figures: dict[str, Any] = {}
    for operation, pairs in own.items():
        figures |= _figures(operation, pairs, objective)
    return page(
        "evaluation.html",
        title=f"Evaluation of {document['model']['name']} on {document['campaign']}",
        subtitle=f"{document['cases']:,} test cases, {document['repeats']} repeats of each point, in random order",
        headings={**{name: name.capitalize() for name in own}, "method": "How it was done"},
        figures=figures,
        simulated=bool(document["simulated"]),
        document=document,
        unit=objective["unit"],
        shown=shown,
        counts=_counts,
        values=_values,
        common=_common,
        cases=lambda operation: [_case(number, pair) for number, pair in enumerate(own[operation], start=1)],
        most=_MOST_ROWS,
    )


def _figures(operation: str, own: Sequence[Mapping[str, Any]], objective: Mapping[str, Any]) -> dict[str, Any]:
    judge = Objective(**objective)
    default, tuned, oracle = ([float(pair[key]) for pair in own] for key in ("default", "tuned", "oracle"))
    ratios = [judge.speedup(a, b) for a, b in zip(tuned, default, strict=True)]
    possible = [judge.speedup(a, b) for a, b in zip(oracle, default, strict=True)]
    return {
        f"cases-{operation}": cases(default, tuned, oracle, quantity=judge.name, unit=judge.unit),
        f"speedups-{operation}": speedups(ratios, possible),
    }


def _counts(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    names = (("improved", "improved"), ("not improved", "not_improved"), ("unchanged", "unchanged"))
    return [(name, f"{found[key]:,}", f"{100 * found[key] / found['cases']:.1f}%") for name, key in names]


def _values(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (name.replace("_", " "), *(_number(found[which][name]) for which in ("default", "tuned", "oracle")))
        for name in _STATISTICS
    ]


def _common(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            " ".join(changes(entry["settings"])),
            *(f"{entry[key]:,}" for key in ("selected", "improved", "not_improved")),
            f"{entry['improved_percent']:.1f}",
        )
        for entry in found["common"]
    ]


def _case(number: int, pair: Mapping[str, Any]) -> tuple[str, ...]:
    before, after = pair["default_settings"], pair["tuned_settings"]
    return (
        str(number),
        " ".join(changes(before)),
        " ".join(changes(after, before)) or "unchanged",
        *(_number(pair[which]) for which in ("default", "tuned", "oracle")),
    )


def shown(value: float | None, form: str) -> str:
    """Write a figure in a form of :func:`format`; a dash where a value of 0 left it without a finite one."""
    return "-" if value is None or not math.isfinite(value) else format(value, form)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
