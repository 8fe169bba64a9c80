"""Live progress of a tuning session: one line per run, and on a terminal a bar with the best seen below them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from stripewise.catalogue.configuration import Configuration, find_changes
from stripewise.desk.cli.output import duration, number, prose
from stripewise.desk.cli.plain import fold
from stripewise.desk.cli.result import left_out_lines, worst_case_line
from stripewise.engine.events import Event
from stripewise.observe.objectives import timing
from stripewise.output.markup import write_setting
from stripewise.requests.objective import Objective
from stripewise.sizes import format_factor
from stripewise.trial import Phase, Role, Run, State, Trial

_ROLES = {
    Role.DEFAULT: "default",
    Role.REFERENCE: "reference (without the component)",
    Role.CEILING: "the bundled benchmark",
}


class Progress:
    """Listener that shows a session on a console; a terminal gets a live display."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._objective = Objective("", "maximize", "")
        self._widths = [0, 8, 11, 5]
        self._defaults = Configuration({})
        self._units: dict[str, str] = {}
        self._announced = ""
        self._default: float | None = None
        self._seconds: float | None = None
        self._replays = False
        self._best: float | None = None
        self._best_settings = Configuration({})
        self._best_text = ""
        self._phase = "preparing"
        self._budget = 0
        self._runs = 0
        self._begun = time.monotonic()
        # When this command launched its first run, and how many there were before, as in an experiment that is resumed.
        self._launched: tuple[float, int] | None = None
        self._live = Live(get_renderable=self._view, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        handler = getattr(self, f"_on_{event.kind}", None)
        if handler is not None:
            handler(**event.data)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal to a question."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()

    # -- events --------------------------------------------------------------------------------------------

    def _on_prepared(self, preflight: Any, objective: Objective, trials: Sequence[Trial]) -> None:
        self._replays = preflight.replayer is not None
        self._objective = objective
        self._follow(trials)
        for line in (
            *filter(None, [timing(objective)]),
            *preflight.summary,
            *(f"note: {warning}" for warning in preflight.warnings),
        ):
            self._say(line)

    def _on_space(self, bound: Any, distinct: int, exact: bool, workload: Any) -> None:
        about = "" if exact else "about "
        self._defaults = bound.space.default
        self._units = {parameter.name: parameter.unit for parameter in bound.space.parameters}
        names = ", ".join(bound.space.names)
        self._say(f"space: {about}{distinct:,} distinct configurations of {names}")
        for line in left_out_lines(bound.left_out):
            self._say(line)

    def _on_worst_case(self, runs: int, seconds: float | None, node_hours: float | None, bytes: int | None) -> None:
        line = worst_case_line(runs, seconds, node_hours, bytes)
        # Told again after the first run, which shows how long runs take; of a simulated one nothing new.
        if line != self._announced:
            self._say(line)
        self._announced = line

    def _on_started(self, run: Run, trial: Trial, spent: Any, budget: Any) -> None:
        self._budget, self._seconds, self._runs = budget.runs, budget.seconds, spent.runs
        self._launched = self._launched or (time.monotonic(), spent.runs)
        phases = {Phase.WARMUP: "warm-up", Phase.SEARCH: "searching", Phase.CONFIRMATION: "confirming"}
        self._phase = phases[run.phase]

    def _on_ended(self, run: Run, trial: Trial, trials: Sequence[Trial], spent: Any) -> None:
        self._runs = spent.runs
        what = _ROLES.get(trial.role, "")
        # Pairs of a proof have one candidate: only in the search must rows be told apart.
        what = what or self._describe(trial.configuration, self._best_settings if run.phase is Phase.SEARCH else None)
        self._follow(trials)
        shown = number(run.value, self._objective.unit) if run.value is not None else run.state.value
        if run.state is State.FAILED:
            shown = f"failed: {run.reason}"
        if run.state is State.PRUNED:
            shown = run.reason
        ratio = ""
        # The default was measured on replays, which the program's own runs cannot be compared with.
        other = self._replays and run.phase is Phase.CONFIRMATION
        if run.value and self._default and run.state is State.FINISHED and not other:
            ratio = f"x{format_factor(self._objective.speedup(run.value, self._default))}"
        phase = {Phase.WARMUP: "warm-up", Phase.SEARCH: "search", Phase.CONFIRMATION: "confirm"}[run.phase]
        phase = "ceiling" if trial.role is Role.CEILING else phase
        row = [str(run.number), phase, shown, ratio, what]
        if not self._console.is_terminal:
            self._say("  ".join(part for part in row if part))
            return
        if run.state is not State.FINISHED:
            last = f"{run.reason}: {what}" if run.state is State.FAILED else f"{what} ({run.reason})"
            row[2:] = [run.state.value, "", last]
        # Columns keep their width from line to line; the last one goes on below where the terminal is narrow, because
        # rows of a search often begin alike.
        self._widths = [max(pair) for pair in zip(self._widths, map(len, row), strict=False)]
        _, phases, values, ratios = self._widths
        # Numbered as in reports and pages.
        runs = len(str(self._budget))
        begins = f"{row[0]:>{runs}}  {phase:<{phases}}  {row[2]:>{values}}  {row[3]:>{ratios}}  "
        self._console.print(Text(fold(begins + row[4], self._console.width, len(begins))))

    def _on_note(self, text: str) -> None:
        self._say(text)

    def _follow(self, trials: Sequence[Trial]) -> None:
        """Find the default's value and the best seen among all trials, those of earlier sessions included."""
        self._best = None
        self._best_settings = self._defaults
        for trial in trials:
            if trial.value is None:
                continue
            if trial.role is Role.DEFAULT and self._default is None:
                # The base of all ratios, which later runs of the default do not move.
                self._default = trial.value
            if self._best is None or self._objective.better(trial.value, self._best):
                self._best = trial.value
                found = trial.role is Role.CANDIDATE
                self._best_settings = trial.configuration if found else self._defaults
                self._best_text = self._describe(trial.configuration) if found else trial.role.value

    def _describe(self, settings: Configuration, best: Configuration | None = None) -> str:
        """Write what some settings change: first what differs from the best so far, which tells rows apart."""
        changed = find_changes(settings, self._defaults)
        news = {} if best is None else find_changes(settings, {**self._defaults, **best})
        words = [write_setting(name, value, self._units) for name, value in {**news, **changed}.items()]
        return " ".join(words) or "(defaults)"

    # -- drawing -------------------------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        prose(line, on=self._console)

    def _view(self) -> RenderableType:
        unit = self._objective.unit
        now = time.monotonic()
        spent = now - self._begun
        launches = f"  {self._runs}/{self._budget} launches" if self._budget else ""
        line = f"{self._phase}{launches}  {duration(spent)}"
        since, before = self._launched or (now, self._runs)
        if before < self._runs < self._budget:
            left = (now - since) / (self._runs - before) * (self._budget - self._runs)
            most = left if self._seconds is None else min(left, max(0.0, self._seconds - spent))
            line += f", at most about {duration(most)} left"
        values = [] if self._default is None else [f"default {number(self._default, unit)}"]
        if self._best is not None and self._default is not None:
            values.append(f"best seen {number(self._best, unit)}")
            # A value of zero has no ratio to another.
            if self._best and self._default:
                values[-1] += f" (x{format_factor(self._objective.speedup(self._best, self._default))})"
        # The padding ends the bar's line.
        bar = Padding(ProgressBar(total=max(1, self._budget), completed=self._runs, width=40), 0)
        below = [Text(text, overflow="ellipsis", no_wrap=True) for text in (line, "  ".join(values)) if text]
        return Group(bar, *below, Text(self._best_text, style="dim", overflow="ellipsis", no_wrap=True))
