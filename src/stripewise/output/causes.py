"""The page of causes from time alone: which layer answered the operations, and what that cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from stripewise.output.page import page
from stripewise.output.plots.causes import Points, repeated_times, times_by_size
from stripewise.output.plots.style import number
from stripewise.sizes import format_size


def causes_page(
    document: Mapping[str, Any],
    classes: Mapping[str, Mapping[str, Points]],
    models: Mapping[str, Mapping[str, Points]],
    often: tuple[str, int, Sequence[float]] | None,
) -> str:
    """Write the page.

    Parameters
    ----------
    document : mapping
        As ``stripewise diagnose TIMINGS.csv --json`` prints it.
    classes : mapping
        Direction to class to sizes and seconds of its operations.
    models : mapping
        Direction to condition to the ends of its calibrated line; empty without a calibration.
    often : (str, int, sequence of float), optional
        Direction, size and times of the operation that was repeated most.
    """
    figures = {f"{way}s": times_by_size(way, of, models.get(way, {})) for way, of in classes.items()}
    if often is not None:
        way, size, seconds = often
        own = [
            factor["cluster"]["seconds"]
            for factor in document["factors"]
            if (factor["operation"], factor["size"]) == (way, size)
        ]
        figures["often"] = repeated_times(way, size, seconds, own)
    headings = {"classes": "Who answered", "times": "Time by size", "anomalies": "What took longer than it should"}
    headings |= {"clusters": "Repeated operations", "rules": "What is slow"}
    return page(
        "causes.html",
        title=PurePath(document["source"]).name,
        subtitle=f"{document['operations']:,} operations",
        headings=headings,
        figures=figures,
        brand="Stripewise diagnosis",
        document=document,
        calibrated=bool(models),
        directions=list(classes),
        often="" if often is None else f"{len(often[2]):,} {often[0]}s of {format_size(often[1])}",
        classes=_classes(document),
        best=_best(document),
        anomalies=[
            (one["cause"], one["says"], f"{one['count']:,}", f"{one['ratio']:.1f}", number(one["seconds"], "s"))
            for one in document["anomalies"]
        ],
        clusters=[_cluster(factor) for factor in document["factors"]],
    )


def _classes(document: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Each class of each direction, the one with most time first."""
    rows: list[tuple[str, ...]] = []
    for way, counts in document["counts"].items():
        total, seconds = sum(counts.values()), document["seconds"][way]
        spent = sum(seconds.values())
        rows += [
            (
                f"{way}, {name}", f"{counts[name]:,}", f"{counts[name] / total:.1%}", number(seconds[name], "s"),
                f"{seconds[name] / spent:.1%}",
            )
            for name in sorted(counts, key=lambda name: -seconds[name])
        ]  # fmt: skip
    return rows


def _best(document: Mapping[str, Any]) -> list[str]:
    return [
        f"All {way}s answered by the page cache would take {number(best, 's')} instead of "
        f"{number(sum(document['seconds'][way].values()), 's')}: nothing that is done on the client can give more."
        for way, best in document["best_case_seconds"].items()
    ]


def _cluster(factor: Mapping[str, Any]) -> tuple[str, ...]:
    own = factor["cluster"]
    return (
        f"{factor['operation']} of {format_size(factor['size'])}",
        number(own["seconds"] * 1e6, "us"),
        f"{own['share']:.0%}",
        factor["condition"] or "not known",
        "" if own["peak"] else "a tail",
    )
