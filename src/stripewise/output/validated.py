"""The page of a validation: predicted over measured values, and what the model's prescriptions are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stripewise.output.markup import changes
from stripewise.output.page import page
from stripewise.output.plots.accuracy import predicted_measured
from stripewise.output.plots.style import number

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
        As ``stripewise validate --json`` prints it.
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
        choices=_choices(document),
    )


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


def _choices(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
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
        (f"{'default' if one['default'] else 'static'}: {' '.join(changes(one['configuration']))}", one, one)
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
