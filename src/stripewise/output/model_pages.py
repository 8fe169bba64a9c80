"""The pages of a validation and of an evaluation: how well a model predicts and prescribes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from stripewise.output.markup import guess_units, list_changes, write_leaf
from stripewise.output.page import page
from stripewise.output.plots.accuracy import cases, predicted_measured, speedups
from stripewise.output.plots.style import number
from stripewise.requests.objective import Objective

_STATICS = 30


def validation_page(
    document: Mapping[str, Any],
    pairs: Sequence[Sequence[float]],
    *,
    table: str,
    description: str,
    quantity: str,
    unit: str,
) -> str:
    """Write the page.

    Parameters
    ----------
    document : mapping
        As ``stripewise site validate --json`` prints it.
    pairs : sequence of (float, float)
        Measured and predicted value of each row; none for inverse k-fold.
    table, description : str
        Its name, and what it says of itself.
    quantity, unit : str
        Its objective.
    """
    figures = {}
    if pairs:
        measured, predicted = zip(*pairs, strict=True)
        figures["accuracy"] = predicted_measured(
            measured, predicted, quantity=quantity, unit=unit, how=document["held_out"]
        )
    headings = {"accuracy": "Prediction", "prescription": "Prescription", "method": "How it was done"}
    return page(
        "validated.html",
        title=f"{document['model']} on {table}",
        subtitle=f"{document['rows']:,} rows, {document['folds']} folds, held out: {document['held_out']}",
        headings=headings,
        figures=figures,
        simulated="simulated" in description.lower(),
        brand="Stripewise validation",
        document=document,
        unit=unit,
        metrics=_metrics(document["metrics"], unit),
        curve=_curve(document["learning_curve"]),
        choices=_list_choices(document),
        tree=[write_leaf(leaf) for leaf in (document["prescription"] or {}).get("tree", ())],
    )


def _write_settings(settings: Mapping[str, Any]) -> str:
    return " ".join(list_changes(settings, units=guess_units(settings)))


def _metrics(found: Mapping[str, Any], unit: str) -> list[tuple[str, str, str]]:
    """Each figure of the prediction, and what a noise-free oracle has where one is known."""

    def told(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    return [
        (
            "prediction accuracy",
            f"{found['prediction_accuracy']:.2f}%",
            "" if found["oracle_accuracy"] is None else f"{found['oracle_accuracy']:.2f}%",
        ),
        ("R² of the logarithm", told(found["r2_log"], ".4f") or "-", told(found["oracle_r2_log"], ".4f")),
        ("mean absolute error", number(found["mae"], unit), ""),
        ("class error", f"{found['class_error']:.3f}", ""),
    ]


def _curve(points: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            f"{point['training_rows']:,}", f"{point['prediction_accuracy']:.2f}%", number(point["mae"]),
            f"{point['class_error']:.3f}",
        )
        for point in points
    ]  # fmt: skip


def _list_choices(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The model's choices, the oracle's, those of trees, and every static one, as shares of the best measured."""
    judged = document["prescription"]
    if judged is None:
        return []
    named = [(document["model"], judged, None)]
    if judged["oracle"] is not None:
        named.append(("an oracle of the true values", judged["oracle"], None))
    named += [(f"tree of depth {depth}", quality, None) for depth, quality in judged["by_depth"].items()]
    static = judged["static"]
    shown = [*static[:_STATICS], *(one for one in static[_STATICS:] if one["default"])]
    named += [
        (
            f"{'default' if one['default'] else 'static'}: {_write_settings(one['configuration'])}",
            one,
            one,
        )
        for one in shown
    ]
    return [
        (
            name,
            *(f"{quality[key]:.1f}%" for key in ("arithmetic", "harmonic", "worst")),
            *("" if one is None else str(one[key]) for key in ("best", "worst_of_all")),
        )
        for name, quality, one in named
    ]


_STATISTICS = ("mean", "max", "min", "median", "standard_deviation", "variance")
_MOST_ROWS = 2000


def evaluation_page(document: Mapping[str, Any]) -> str:
    """Write the page.

    Parameters
    ----------
    document : mapping
        As ``stripewise site evaluate --json`` prints it.
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
        shown=format_figure,
        counts=_counts,
        values=_values,
        common=_list_common,
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


def _list_common(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            _write_settings(entry["settings"]),
            *(f"{entry[key]:,}" for key in ("selected", "improved", "not_improved")),
            f"{entry['improved_percent']:.1f}",
        )
        for entry in found["common"]
    ]


def _case(number: int, pair: Mapping[str, Any]) -> tuple[str, ...]:
    before, after = pair["default_settings"], pair["tuned_settings"]
    return (
        str(number),
        _write_settings(before),
        " ".join(list_changes(after, before, guess_units(after))) or "unchanged",
        *(_number(pair[which]) for which in ("default", "tuned", "oracle")),
    )


def format_figure(value: float | None, form: str) -> str:
    """Write a figure in a form of :func:`format`; a dash where a value of 0 left it without a finite one."""
    return "-" if value is None or not math.isfinite(value) else format(value, form)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
