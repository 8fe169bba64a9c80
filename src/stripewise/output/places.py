"""Which storage targets and nodes runs used, and whether a slow one rather than a setting explains a slow run."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from stripewise.facts import RunFacts
from stripewise.output.experiment_view import ExperimentView
from stripewise.output.plots.parameters import WORST_TO_BEST
from stripewise.output.plots.style import ORANGE, escape_text, make_figure, number
from stripewise.trial import Phase, Run, State

_MOST_TEXTS = 96
_SURE = 0.01
_LEAST_RUNS = 4
_WORTH = 0.95
_MOST_NODES = 10_000


@dataclass(frozen=True)
class Place:
    """A storage target or a node.

    Attributes
    ----------
    values : sequence of float
        Of the objective, relative to the median of the same configuration: 1 is as usual, larger is better.
    slow : bool
        Whether runs on it are slower than chance allows.
    """

    name: str
    values: Sequence[float]
    slow: bool = False


@dataclass(frozen=True)
class Placement:
    """Targets and nodes of an experiment's runs.

    Attributes
    ----------
    osts, nodes : tuple of Place
        Empty where the runs do not tell.
    """

    osts: tuple[Place, ...] = ()
    nodes: tuple[Place, ...] = ()


def collect_placement(view: ExperimentView) -> Placement:
    """Collect the places of all finished runs, each run relative to the median of its own configuration.

    A place is called slow if its runs lie at least 5% below those elsewhere (medians), and chance would show as much in
    less than 1% of experiments: a one-sided rank-sum test, corrected for the number of places.
    """
    relative: list[tuple[Run, float]] = []
    for trial in view.trials:
        own = [
            run
            for run in trial.runs
            if run.state is State.FINISHED and run.phase is not Phase.WARMUP and run.value is not None and run.value > 0
        ]
        if len(own) < 2:
            # A configuration that ran once is its own usual, and says nothing of the place.
            relative += [(run, 1.0) for run in own]
            continue
        usual = statistics.median(float(run.value or 0.0) for run in own)
        for run in own:
            ratio = float(run.value or 0.0) / usual
            relative.append((run, ratio if view.maximize else 1 / ratio))
    return Placement(
        _places(relative, {run.number: osts_of(run.facts) for run, _ in relative}),
        _places(relative, {run.number: nodes_of(run.facts) for run, _ in relative}),
    )


def osts_of(facts: RunFacts) -> tuple[str, ...]:
    """Storage targets that a run's files lie on, where its facts tell."""
    found: set[int] = set(facts.targets)
    for file in (facts.report or {}).get("files", ()):
        layout = file.get("layout") or {}
        if layout.get("osts"):
            found |= {int(target) for target in layout["osts"]}
        elif layout.get("stripe_count") == 1 and layout.get("start_ost", -1) >= 0:
            # Of a wider file only the first target is known.
            found.add(int(layout["start_ost"]))
    return tuple(str(target) for target in sorted(found))


def nodes_of(facts: RunFacts) -> tuple[str, ...]:
    """Nodes that a run occupied, where its facts tell their names."""
    named = facts.hosts
    return node_names(named) if isinstance(named, str) else tuple(str(name) for name in named)


def node_names(text: str) -> tuple[str, ...]:
    """Read a scheduler's list of nodes.

    Examples
    --------
    >>> node_names("n1,gpu[08-10,12],r[1-2]n[3-4]")
    ('n1', 'gpu08', 'gpu09', 'gpu10', 'gpu12', 'r1n3', 'r1n4', 'r2n3', 'r2n4')
    """
    names: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        # Every other piece stood in brackets.
        pieces = re.split(r"\[([^\]]*)\]", part)
        choices = [_read_spans(piece) if at % 2 else [piece] for at, piece in enumerate(pieces)]
        many = math.prod(map(len, choices)) > _MOST_NODES
        names += [part] if many else map("".join, itertools.product(*choices))
    return tuple(names)


def _read_spans(text: str) -> list[str]:
    """Read what stands in brackets: numbers, and spans of numbers with as many digits as the first."""
    found = []
    for span in text.split(","):
        low, dash, high = span.partition("-")
        if dash and low.isdigit() and high.isdigit() and 0 <= int(high) - int(low) < _MOST_NODES:
            found += [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1)]
        else:
            found.append(span)
    return found


def _places(relative: Sequence[tuple[Run, float]], used: Mapping[int, Sequence[str]]) -> tuple[Place, ...]:
    names = sorted({name for places in used.values() for name in places}, key=lambda name: (len(name), name))
    found = []
    for name in names:
        here = [value for run, value in relative if name in used[run.number]]
        elsewhere = [value for run, value in relative if used[run.number] and name not in used[run.number]]
        found.append(Place(name, here, _is_slow(here, elsewhere, len(names))))
    return tuple(found)


def _is_slow(here: Sequence[float], elsewhere: Sequence[float], tests: int) -> bool:
    if len(here) < _LEAST_RUNS or len(elsewhere) < _LEAST_RUNS:
        return False
    if statistics.median(here) > _WORTH * statistics.median(elsewhere):
        return False
    from scipy.stats import mannwhitneyu  # noqa: PLC0415  slow to load

    chance = float(mannwhitneyu(here, elsewhere, alternative="less").pvalue)
    return math.isfinite(chance) and chance < _SURE / tests


def place_map(places: Sequence[Place], *, kind: str) -> go.Figure:
    """Draw one cell a storage target or node, coloured by what the runs that used it reached.

    Parameters
    ----------
    kind : str
        What they are, as a word: ``OST`` or ``node``.
    """
    width = min(max(len(places), 1), 16)
    rows = -(-len(places) // width) or 1
    figure = make_figure(f"{kind[:1].upper()}{kind[1:]}s used", 130 + 52 * rows)
    medians = [statistics.median(place.values) for place in places]
    grid: list[list[float | None]] = [[None] * width for _ in range(rows)]
    words: list[list[str]] = [[""] * width for _ in range(rows)]
    hover: list[list[str]] = [[""] * width for _ in range(rows)]
    for index, (place, median) in enumerate(zip(places, medians, strict=True)):
        row, column = divmod(index, width)
        grid[row][column] = median
        if len(places) <= _MOST_TEXTS:
            words[row][column] = f"{escape_text(place.name)}{'<br>slow' if place.slow else ''}"
        told = "; slower than chance allows" if place.slow else ""
        runs = f"{len(place.values)} run{'' if len(place.values) == 1 else 's'}"
        hover[row][column] = f"<b>{kind} {escape_text(place.name)}</b><br>{number(median)} of the usual, {runs}{told}"
    figure.add_heatmap(
        z=grid, text=words, texttemplate="%{text}", customdata=hover, hovertemplate="%{customdata}<extra></extra>",
        colorscale=[list(stop) for stop in WORST_TO_BEST], zmin=min([0.8, *medians]), zmax=max([1.2, *medians]),
        xgap=3, ygap=3, hoverongaps=False, textfont={"color": "#ffffff", "size": 11},
        colorbar={"title": {"text": "of the usual", "side": "right"}, "thickness": 12, "outlinewidth": 0},
    )  # fmt: skip
    for index, place in enumerate(places):
        if place.slow:
            row, column = divmod(index, width)
            figure.add_shape(
                type="rect", x0=column - 0.48, x1=column + 0.48, y0=row - 0.48, y1=row + 0.48,
                line={"color": ORANGE, "width": 3},
            )  # fmt: skip
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False, autorange="reversed")
    return figure
