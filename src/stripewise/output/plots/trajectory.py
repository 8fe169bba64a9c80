"""The experiment from its first run to its last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import plotly.graph_objects as go

from stripewise.output.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    clock_of,
    counting_axis,
    curve,
    escape_text,
    lines,
    make_figure,
    marks,
    medians,
    number,
    value_axis,
)

_KINDS: dict[str, tuple[str, str, str]] = {
    "warmup": ("warm-up (not counted)", GREY, "circle-open"),
    "search": ("search", BLUE, "circle"),
    "default": ("default", ORANGE, "diamond"),
    "reference": ("without the component", PURPLE, "square"),
    "confirmation": ("candidate, confirmation", GREEN, "triangle-up"),
    "pruned": ("cut (bound)", GREY, "triangle-right-open"),
}


@dataclass(frozen=True)
class RunPoint:
    """A run in a figure.

    Attributes
    ----------
    value : float or None
        The objective; the bound reached where pruned.
    kind : str
        ``warmup``, ``default``, ``reference``, ``search``, ``confirmation``, ``failed`` or ``pruned``.
    label : str
        What to say about it: its configuration, why it failed; plain text, as everywhere in this package.
    start, seconds : float or None
        Since the first run, and how long it took.
    """

    run: int
    value: float | None
    kind: str
    label: str = ""
    start: float | None = None
    seconds: float | None = None


def timeline(points: Sequence[RunPoint]) -> go.Figure:
    """Draw when each run was made and how long it took, where both are known: a row for each kind of run."""
    figure = make_figure("When each run was made", 300)
    runs = [(point, point.start, point.seconds) for point in points if point.start is not None and point.seconds]
    clock, step = clock_of(max((start + seconds for _, start, seconds in runs), default=0.0))
    for kind, (name, colour) in {**{key: row[:2] for key, row in _KINDS.items()}, "failed": ("failed", ORANGE)}.items():
        own = [run for run in runs if run[0].kind == kind]
        if own:
            figure.add_bar(
                orientation="h", base=[start / step for _, start, _ in own], x=[took / step for _, _, took in own],
                y=[name] * len(own),
                text=[f"{number(took, 's')}<br>run {run.run}: {lines(run.label)}" for run, _, took in own],
                textposition="none", hovertemplate="%{text}<extra></extra>", showlegend=False, opacity=0.85,
                marker={"color": colour, "line": {"color": GREY, "width": 0.5}},
            )  # fmt: skip
    figure.update_layout(barmode="overlay")
    figure.update_xaxes(title_text=f"{clock} since the first run")
    figure.update_yaxes(autorange="reversed")
    return figure


@dataclass(frozen=True)
class GuideLines:
    """Lines to compare runs with.

    Attributes
    ----------
    incumbent : sequence of (int, float)
        Run number and value of the best known after it, where it changed.
    default, reference : float or None
        Horizontal lines.
    level : sequence of (int, float)
        Run number and what the default would have shown in its place, where the machine changed.
    """

    incumbent: Sequence[tuple[int, float]] = ()
    default: float | None = None
    reference: float | None = None
    level: Sequence[tuple[int, float]] = ()


def trajectory(
    points: Sequence[RunPoint],
    *,
    quantity: str,
    unit: str,
    maximize: bool,
    guides: GuideLines = GuideLines(),
) -> go.Figure:
    """Draw each run's value over the experiment.

    Parameters
    ----------
    quantity, unit : str
        The objective.
    maximize : bool
        Whether larger is better; failures are marked at the worse edge.
    """
    better = "higher" if maximize else "lower"
    figure = make_figure(f"Each run ({better} is better)", 420)
    for kind, (name, colour, symbol) in _KINDS.items():
        own = [p for p in points if p.kind == kind and p.value is not None]
        if own:
            told = [f"<b>run {p.run}</b>: {number(p.value, escape_text(unit))}<br>{lines(p.label)}" for p in own]
            marks(figure, [(p.run, p.value, text) for p, text in zip(own, told, strict=True)], name, colour, symbol)
    last = max((p.run for p in points), default=0)
    if guides.incumbent:
        steps = [*guides.incumbent, (last, guides.incumbent[-1][1])]
        curve(figure, steps, "best so far (search)", colour=BLUE, line_shape="hv")
    medians(figure, last, unit, guides.default, guides.reference)
    if guides.level:
        curve(figure, guides.level, "default at the machine's level", colour=GREY, dash="dashdot")
    _mark_failures(figure, points, maximize)
    start = confirmation_start(points)
    if start is not None:
        figure.add_vrect(
            x0=start, x1=last + 0.5, fillcolor=GREEN, opacity=0.07, line_width=0, layer="below",
            annotation={"text": "confirmation", "font": {"size": 12}}, annotation_position="bottom left",
        )  # fmt: skip
    counting_axis(figure, "run", last)
    shown = [p.value for p in points if p.value is not None]
    value_axis(figure, quantity, unit, shown, selector={"overlaying": None})
    return figure


@dataclass(frozen=True)
class GenerationPoint:
    """A trial in the figure of generations.

    Attributes
    ----------
    value : float
        The median of its runs.
    label : str
        Its configuration.
    """

    generation: int
    value: float
    label: str = ""


def generations(points: Sequence[GenerationPoint], *, quantity: str, unit: str, maximize: bool) -> go.Figure:
    """Draw the trials of each generation, with the best of it and of all until then."""
    choose = max if maximize else min
    figure = make_figure("Generations of the search", 360)
    own: dict[int, list[float]] = {}
    for point in points:
        own.setdefault(point.generation, []).append(point.value)
    best = [(number, choose(values)) for number, values in sorted(own.items())]
    so_far = list(accumulate((value for _, value in best), choose))
    told = [f"{number(p.value, escape_text(unit))}<br>{lines(p.label)}" for p in points]
    drawn = [(p.generation, p.value, text) for p, text in zip(points, told, strict=True)]
    marks(figure, drawn, "trial, median of its runs", BLUE, opacity=0.6)
    curve(figure, best, "best of the generation", colour=GREEN)
    held = list(zip((place for place, _ in best), so_far, strict=True))
    curve(figure, held, "best until then", colour=GREY, dash="dash", line_shape="hv")
    counting_axis(figure, "generation", max(own, default=0))
    value_axis(figure, quantity, unit, [p.value for p in points])
    return figure


def _mark_failures(figure: go.Figure, points: Sequence[RunPoint], maximize: bool) -> None:
    """Put failed runs, which have no value, on the worse edge of the figure."""
    failed = [p for p in points if p.kind == "failed"]
    if not failed:
        return
    height = 0.02 if maximize else 0.98
    points_of = [(p.run, height, f"<b>run {p.run} failed</b><br>{lines(p.label)}") for p in failed]
    marks(figure, points_of, "failed", ORANGE, "x-thin", 10, marker_line={"width": 3, "color": ORANGE}, yaxis="y2")
    # Where every run failed, the legend alone says what the marks are.
    figure.update_layout(
        showlegend=True, yaxis2={"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    )


def confirmation_start(points: Sequence[RunPoint]) -> float | None:
    """Where the confirmation begins on the axis of runs: between two runs, the candidate's or the default's first.

    Returns
    -------
    float or None
        Half a run before the first pair; None without a confirmation.
    """
    proof = [point.run for point in points if point.kind == "confirmation"]
    if not proof:
        return None
    default_first = any(point.run == min(proof) - 1 and point.kind == "default" for point in points)
    return min(proof) - (1.5 if default_first else 0.5)
