"""Several experiments side by side: what each found, what it cost, and whether they may be compared at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from stripewise.catalogue.workload import Workload
from stripewise.output.experiment_view import ExperimentView
from stripewise.output.markup import workload_text
from stripewise.output.plots.style import BLUE, ORANGE, counting_axis, escape_text, make_figure, number
from stripewise.result import Interval
from stripewise.sizes import format_value


def gain(view: ExperimentView) -> tuple[float, float | None, float | None, bool] | None:
    """Speed-up over the own default, ends of its interval, and whether it is proven; None before there is any."""
    result = view.result
    if result.confirmed:
        return result.speedup, *_ends(result.speedup_interval), True
    candidate = result.candidate
    if candidate is None or candidate.speedup is None:
        return None
    return candidate.speedup, *_ends(candidate.speedup_interval), False


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def settings(view: ExperimentView) -> dict[str, Any]:
    """What the best changes, or what looks best."""
    return view.result.changed(view.result.shown)


def parameters(views: Sequence[ExperimentView]) -> list[tuple[str, list[str]]]:
    """Each parameter that the best of one of them changes, with its value in each."""
    names = sorted({name for one in views for name in settings(one)})
    return [(name, [_setting(one, name) for one in views]) for name in names]


def _setting(one: ExperimentView, name: str) -> str:
    changed, unit = settings(one), one.units.get(name, "")
    if name in changed:
        return format_value(changed[name], unit)
    return f"default ({format_value(one.default[name], unit)})" if name in one.default else "not searched"


def figures(views: Mapping[str, ExperimentView]) -> dict[str, go.Figure]:
    """Draw speed-ups and the way to them; views by the names to be shown."""
    rows = {name: found for name, view in views.items() if (found := gain(view)) is not None}
    drawn: dict[str, go.Figure] = {}
    if rows:
        drawn["speedups"] = comparison(rows)
    curves: dict[str, list[tuple[int, float]]] = {}
    lasts: dict[str, int] = {}
    for name, view in views.items():
        base = view.result.default.value
        if not base:
            continue
        curves[name] = [
            (run, value / base if view.maximize else base / value) for run, value in view.incumbent() if value
        ]
        lasts[name] = max((run.number for run, _ in view.runs), default=0)
    if any(curves.values()):
        drawn["progress"] = progress(curves, lasts)
    return drawn


def differences(views: Sequence[ExperimentView]) -> list[str]:
    """Say what keeps experiments from being compared number by number."""
    notes = []
    for what, values in (
        ("objectives", {f"{r.quantity} ({r.result.objective.direction})" for r in views}),
        ("workloads", {_write_workload(r.result.workload) for r in views}),
        ("MPI libraries", {str(r.result.environment.get("mpi") or "unknown") for r in views}),
        ("hosts", {str(r.result.environment.get("host") or "unknown") for r in views}),
        ("kinds of figures", {"simulated" if r.result.simulated else "measured" for r in views}),
    ):
        if len(values) > 1:
            notes.append(f"different {what}: {'; '.join(sorted(values))}")
    return notes


def _write_workload(workload: Workload) -> str:
    keys = {"operation", "nodes", "processes_per_node", "file_size", "transfer_size", "layout"}
    known = workload.model_dump(include=keys, exclude_none=True)
    return " ".join(f"{key}={workload_text(key, value)}" for key, value in known.items()) or "unknown"


_ROW = 32


def comparison(rows: Mapping[str, tuple[float, float | None, float | None, bool]]) -> go.Figure:
    """Draw the speed-ups of several experiments with their intervals.

    Parameters
    ----------
    rows : mapping
        Name to speed-up, the ends of its interval (None where unknown) and whether it is proven.
    """
    names = list(rows)[::-1]
    figure = make_figure("Speed-up over each experiment's own default", 120 + _ROW * max(len(names), 2))
    for proven, name, colour, symbol in (
        (True, "proven", BLUE, "square"),
        (False, "not proven", ORANGE, "square-open"),
    ):
        own = [(index, key) for index, key in enumerate(names) if rows[key][3] is proven]
        if not own:
            continue
        figure.add_scatter(
            x=[rows[key][0] for _, key in own],
            y=[index for index, _ in own],
            mode="markers",
            name=name,
            marker={"color": colour, "symbol": symbol, "size": 11},
            error_x={
                "type": "data", "symmetric": False, "color": colour, "thickness": 2.5, "width": 6,
                "array": [_choose_finite(rows[key][2], rows[key][0]) - rows[key][0] for _, key in own],
                "arrayminus": [rows[key][0] - _choose_finite(rows[key][1], rows[key][0]) for _, key in own],
            },
            text=[f"<b>{escape_text(key)}</b>: {number(rows[key][0])} times" for _, key in own],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    figure.add_vline(x=1, line={"color": ORANGE, "width": 2, "dash": "dash"})
    figure.update_xaxes(title_text="times the default", rangemode="tozero")
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[escape_text(name) for name in names], range=[-0.5, len(names) - 0.5]
    )
    return figure


def progress(curves: Mapping[str, Sequence[tuple[int, float]]], lasts: Mapping[str, int]) -> go.Figure:
    """Draw the best of each experiment over its runs, relative to its own default.

    Parameters
    ----------
    curves : mapping
        Name to run numbers and the speed-up of the best known after them.
    lasts : mapping
        Name to the number of its last run.
    """
    figure = make_figure("Best so far in the search", 380)
    dashes = ("solid", "dash", "dot", "dashdot", "longdash")
    for index, (name, steps) in enumerate(curves.items()):
        if steps:
            ends = [*steps, (max(lasts.get(name, 0), steps[-1][0]), steps[-1][1])]
            figure.add_scatter(
                x=[run for run, _ in ends], y=[value for _, value in ends], mode="lines", name=escape_text(name),
                line={"shape": "hv", "width": 2.5, "dash": dashes[index % len(dashes)]},
                hovertemplate="run %{x}: %{y:.3g}<extra>" + escape_text(name) + "</extra>",
            )  # fmt: skip
    figure.add_hline(y=1, line={"color": ORANGE, "width": 2, "dash": "dash"})
    counting_axis(figure, "run", max(lasts.values(), default=0))
    figure.update_yaxes(title_text="best so far (times the default)", rangemode="tozero")
    return figure


def _choose_finite(value: float | None, other: float) -> float:
    return other if value is None else value
