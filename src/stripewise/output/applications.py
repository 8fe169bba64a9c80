"""Experiments by application: what each has found over time, how soon, and whether the best still holds.

Gains by class, and the launches until the best was found, are the figures 4 and 5 of SHAMan (Robert, Zertal and Goret,
SITA 2020).
"""

from __future__ import annotations

import datetime
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import plotly.graph_objects as go

from stripewise.output.plots.style import BLUE, GREEN, GREY, ORANGE, escape_text, make_figure, marks, number
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.result import Result
from stripewise.runners.program.command import split_command
from stripewise.store.base import Record
from stripewise.trial import Phase, Trial

_INTERPRETER = re.compile(r"(python|pypy|bash|sh|ksh|zsh|perl|julia|ruby|Rscript)[\d.]*")
_ALONE = "best over the default"
_WITHOUT = " over the program without the component"
_HALF_A_DAY = 43200.0
_COLOURS = {_ALONE: BLUE, f"default{_WITHOUT}": ORANGE, f"best{_WITHOUT}": GREEN}
_CONFIRMING = re.compile(r" \(confirm \w+\)$")


def application_of(experiment: Experiment) -> str:
    """Name the application of an experiment: its program past launchers and wrappers, or the script that it runs.

    An experiment without a command has no program: there its own name stands for it.
    """
    program = split_command(experiment.command).program if experiment.command else ()
    if not program:
        return _CONFIRMING.sub("", experiment.name) or experiment.runner
    name = PurePath(program[0]).name
    script = next((word for word in program[1:2] if not word.startswith("-")), "")
    return PurePath(script).name if script and _INTERPRETER.fullmatch(name) else name


@dataclass(frozen=True)
class Attempt:
    """One experiment of an application.

    Attributes
    ----------
    created : float
        Epoch seconds.
    again : str
        Identifier of the experiment whose result it confirms; empty for a search.
    default, best, reference : float or None
        Values of the objective; ``best`` is what is proven, or what looked best.
    gain : float or None
        Over the default; None before there is any.
    ends : (float or None, float or None)
        Of its interval.
    launches : int or None
        Of the search until the best had run; None where nothing better was found.
    """

    id: str
    name: str
    application: str
    tags: tuple[str, ...]
    state: str
    simulated: bool
    created: float
    again: str
    objective: Objective
    default: float | None = None
    best: float | None = None
    reference: float | None = None
    gain: float | None = None
    ends: tuple[float | None, float | None] = (None, None)
    proven: bool = False
    verdict: str = ""
    launches: int | None = None

    def beside_reference(self, value: float | None) -> float | None:
        """Say how many times better a value is than the program without the component; None where one is unknown."""
        if not value or not self.reference:
            return None
        return self.objective.speedup(value, self.reference)

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        ends = [None if end is None or not math.isfinite(end) else end for end in self.ends]
        return {**vars(self), "objective": self.objective.as_json(), "tags": list(self.tags), "ends": ends}


def attempt_of(record: Record, trials: Sequence[Trial]) -> Attempt:
    """Sum up an experiment."""
    experiment, result = record.experiment, record.result
    again = experiment.confirmation.again or ""
    own: dict[str, Any] = {
        "id": record.id,
        "name": experiment.name or record.id,
        "application": application_of(experiment),
        "tags": record.tags,
        "state": record.state,
        "simulated": result.simulated if result else experiment.runner.startswith("sim:"),
        "created": record.created,
        "again": again,
    }
    if result is None:
        given = experiment.objective
        return Attempt(**own, objective=Objective(given.name, given.direction or "minimize", given.unit or ""))
    shown = result.best if result.confirmed else result.candidate
    interval = result.speedup_interval if result.confirmed else None
    if not result.confirmed and result.candidate is not None:
        interval = result.candidate.speedup_interval
    return Attempt(
        **own,
        objective=result.objective,
        default=result.default.value,
        best=result.default.value if shown is None else shown.value,
        reference=result.reference.value if result.reference else None,
        gain=_gain(result),
        ends=(None, None) if interval is None else (interval.low, interval.high),
        proven=result.confirmed,
        verdict=result.verdict,
        launches=None if shown is None or again else _launches_until(trials, shown.trial),
    )


def _gain(result: Result) -> float | None:
    if result.confirmed:
        return result.speedup
    return 1.0 if result.candidate is None else result.candidate.speedup


def _launches_until(trials: Sequence[Trial], best: int | None) -> int | None:
    """Count the launches of the search up to the first of the best trial."""
    search = sorted((run.number, trial.number) for trial in trials for run in trial.runs if run.phase is Phase.SEARCH)
    return next((place for place, (_, number) in enumerate(search, 1) if number == best), None)


@dataclass(frozen=True)
class Application:
    """An application, or a class of them, with its experiments, the oldest first; measured or simulated, never both."""

    name: str
    simulated: bool
    attempts: tuple[Attempt, ...]

    @property
    def searches(self) -> list[Attempt]:
        """Finished experiments that searched, rather than confirmed."""
        return [one for one in self.attempts if not one.again and one.gain is not None]

    @property
    def best(self) -> Attempt | None:
        """The search with the largest proven gain; None where nothing is proven."""
        return max((one for one in self.searches if one.proven), key=lambda one: one.gain or 0.0, default=None)

    @property
    def latest(self) -> Attempt:
        """The newest of the experiments."""
        return self.attempts[-1]

    @property
    def launches(self) -> float | None:
        """Launches until the best was found, as the median of the searches; None where none found anything."""
        known = [one.launches for one in self.searches if one.launches is not None]
        return statistics.median(known) if known else None

    @property
    def again(self) -> Attempt | None:
        """The newest finished experiment that has confirmed the best once more; None where there is none."""
        best = self.best
        known = {best.id} if best else set()
        found = None
        for one in self.attempts:
            if one.again in known:
                # A confirmation can be confirmed in turn.
                known.add(one.id)
                found = one if one.state == "finished" else found
        return found

    @property
    def holds(self) -> str:
        """Say whether the best still held when it was last confirmed."""
        if self.best is None:
            return "nothing is proven"
        again = self.again
        if again is None:
            return f"not confirmed again since {_day(self.best.created)}"
        if again.proven:
            return f"it held on {_day(again.created)}: {again.gain:.2f} times"
        return f"it was not proven again on {_day(again.created)}"

    def as_json(self) -> dict[str, Any]:
        """Give all for machines."""
        best = self.best
        return {
            "name": self.name,
            "simulated": self.simulated,
            "experiments": len(self.attempts),
            "best": None if best is None else best.as_json(),
            "holds": self.holds,
            "launches": self.launches,
        }


def group_attempts(attempts: Iterable[Attempt], *, by_tag: bool = False) -> list[Application]:
    """Group experiments by application, or by tag; the group with the newest experiment comes first."""
    found: dict[tuple[str, bool], list[Attempt]] = {}
    for one in attempts:
        for name in one.tags if by_tag else (one.application,):
            found.setdefault((name, one.simulated), []).append(one)
    groups = [
        Application(name, simulated, tuple(sorted(own, key=lambda one: one.created)))
        for (name, simulated), own in found.items()
    ]
    return sorted(groups, key=lambda group: -group.latest.created)


def _day(epoch: float) -> str:
    return datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%d")


# -- figures -----------------------------------------------------------------------------------------------------------


def figures(groups: Sequence[Application]) -> dict[str, go.Figure]:
    """Draw what was gained in each group, and how soon; groups without a finished search are left out."""
    shown = {_title(group): group for group in groups if group.searches}
    drawn = {}
    if shown:
        drawn["gains"] = gains(shown)
    soon = {name: [one.launches for one in group.searches if one.launches] for name, group in shown.items()}
    if any(soon.values()):
        drawn["launches"] = launches({name: own for name, own in soon.items() if own})
    return drawn


def _title(group: Application) -> str:
    return f"{group.name} (simulated)" if group.simulated else group.name


def gains(groups: Mapping[str, Application]) -> go.Figure:
    """Draw the gain of each search by group: over the default, or over the program without the component."""
    figure = make_figure("Gain of each experiment", 420)
    rows: dict[str, list[tuple[str, float, str]]] = {}
    for name, group in groups.items():
        for one in group.searches:
            best = one.best if one.proven else one.default
            told = f"{escape_text(one.name)} {one.id}"
            if one.reference is None:
                rows.setdefault(_ALONE, []).append((name, (one.proven and one.gain) or 1.0, told))
                continue
            for what, value in (("default", one.default), ("best", best)):
                if (factor := one.beside_reference(value)) is not None:
                    rows.setdefault(f"{what}{_WITHOUT}", []).append((name, factor, told))
    places = {name: place for place, name in enumerate(groups)}
    for index, (what, points) in enumerate(rows.items()):
        # Traces stand beside each other at each group.
        beside = 0.22 * (index - (len(rows) - 1) / 2)
        shown = [(places[name] + beside, factor, f"{number(factor)} times: {told}") for name, factor, told in points]
        marks(figure, shown, what, _COLOURS[what], opacity=0.7)
        own: dict[str, list[float]] = {}
        for name, factor, _ in points:
            own.setdefault(name, []).append(factor)
        middle = {name: statistics.median(factors) for name, factors in own.items()}
        lined = [(places[name] + beside, value, f"median {number(value)} times") for name, value in middle.items()]
        marks(
            figure, lined, what, _COLOURS[what], "line-ew", 26, showlegend=False,
            marker_line={"width": 3, "color": _COLOURS[what]},
        )  # fmt: skip
    names = [escape_text(name) for name in groups]
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=names, range=[-0.6, len(names) - 0.4])
    figure.add_hline(y=1, line={"color": GREY, "width": 2, "dash": "dash"})
    figure.update_yaxes(title_text="times as good", rangemode="tozero")
    return figure


def launches(groups: Mapping[str, Sequence[int]]) -> go.Figure:
    """Draw how many launches the searches of each group took until they had tried what turned out best."""
    figure = make_figure("Launches until the best was found", 360)
    figure.add_bar(
        x=[escape_text(name) for name in groups],
        y=[statistics.median(own) for own in groups.values()],
        text=[f"{statistics.median(own):g} ({len(own)})" for own in groups.values()],
        hovertemplate="%{x}: median %{text} searches<extra></extra>", marker={"color": BLUE}, textposition="outside",
        cliponaxis=False,
    )  # fmt: skip
    figure.update_yaxes(title_text="launches, median (searches)", rangemode="tozero")
    return figure


def _reach(gain: float, end: float | None) -> float:
    """How far an end of an interval is from its middle; 0 where it has no end."""
    return 0.0 if end is None or not math.isfinite(end) else abs(end - gain)


def history(group: Application) -> go.Figure:
    """Draw the gain of each experiment of an application over time, with its interval."""
    figure = make_figure("Gain over time", 380)
    for proven, name, colour, symbol in (
        (True, "proven", GREEN, "circle"),
        (False, "not proven", ORANGE, "circle-open"),
    ):
        own = [one for one in group.attempts if one.gain is not None and one.proven is proven]
        if not own:
            continue
        reach = [[_reach(one.gain or 0.0, end) for end in one.ends] for one in own]
        figure.add_scatter(
            x=[datetime.datetime.fromtimestamp(one.created, datetime.UTC).isoformat() for one in own],
            y=[one.gain for one in own],
            mode="markers", name=name, marker={"color": colour, "symbol": symbol, "size": 11, "line": {"width": 2}},
            error_y={
                "type": "data", "symmetric": False, "color": colour, "thickness": 2, "width": 5,
                "array": [high for _, high in reach], "arrayminus": [low for low, _ in reach],
            },
            text=[
                f"<b>{escape_text(one.name)}</b> {one.id}<br>{number(one.gain)} times"
                + (", confirms again" if one.again else "")
                for one in own
            ],
            hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    figure.add_hline(y=1, line={"color": GREY, "width": 2, "dash": "dash"})
    made = [one.created for one in group.attempts]
    # A day at least: of a single experiment the axis would show parts of a second.
    ends = min(made) - _HALF_A_DAY, max(made) + _HALF_A_DAY
    shown = [datetime.datetime.fromtimestamp(end, datetime.UTC).isoformat() for end in ends]
    figure.update_xaxes(title_text="when the experiment was made", type="date", range=shown)
    figure.update_yaxes(title_text="times the default", rangemode="tozero")
    return figure
