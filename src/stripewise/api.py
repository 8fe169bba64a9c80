"""Stripewise in Python: tune any callable, look at what was found, or ask and tell."""

from __future__ import annotations

import html
import math
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from pydantic import ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from stripewise.catalogue.configuration import Configuration, Value, find_changes
from stripewise.catalogue.space import Space
from stripewise.documents import explain_validation
from stripewise.engine.events import Event, Listener, ignore_event
from stripewise.engine.session import Given, Session
from stripewise.errors import UserError, import_optional
from stripewise.requests.experiment import Experiment
from stripewise.requests.from_python import space_of
from stripewise.requests.objective import Objective
from stripewise.runners.function import FunctionRunner
from stripewise.search.base import Sampler, make_sampler, sampler_rng
from stripewise.store.base import Record
from stripewise.store.opening import open_store
from stripewise.trial import History, Phase, Role, Run, State, Trial

if TYPE_CHECKING:
    import pandas
    from plotly.graph_objects import Figure

    from stripewise.output.experiment_view import ExperimentView


@runtime_checkable
class Computable(Protocol):
    """An object whose ``compute`` takes the values of a configuration, in the space's order, and gives a number."""

    def compute(self, values: list[Value]) -> float:
        """Measure a configuration."""


@dataclass(frozen=True)
class Tuned:
    """What a search in Python has found.

    Attributes
    ----------
    best : dict
        The best configuration proven; the default if no gain was proven.
    value, default : float or None
        Median values of the best and of the default; None where no run of them has a value.
    speedup, speedup_ci95 : float, tuple of float or None
        Of best over default.
    confirmed : bool
        Whether the gain was proven by interleaved runs.
    verdict : str
        The same in a sentence.
    experiment : str
        Identifier in the store.
    trials : tuple of Trial
        All that was tried.
    result : dict
        Everything, as ``stripewise tune --json`` prints it.
    record : Record
        The experiment as the store keeps it.
    """

    best: dict[str, Value]
    value: float | None
    default: float | None
    speedup: float
    speedup_ci95: tuple[float, float] | None
    confirmed: bool
    verdict: str
    experiment: str
    trials: tuple[Trial, ...] = field(repr=False)
    result: dict[str, Any] = field(repr=False)
    record: Record = field(repr=False)

    @property
    def best_found(self) -> dict[str, Value]:
        """The best configuration that the search found, whether its gain was proven or not."""
        return dict((self._view.result.shown or self._view.result.default).configuration)

    def to_dataframe(self) -> pandas.DataFrame:
        """Give a row per run: its numbers, phase, state, value and seconds, and the value of every parameter.

        Raises
        ------
        UserError
            If pandas is not installed.
        """
        with import_optional("pandas"):
            import pandas  # noqa: PLC0415  half a second, for this alone

        usual = self._view.default
        rows = [
            {
                "run": run.number,
                "trial": run.trial,
                "role": trial.role.value,
                "phase": run.phase.value,
                "state": run.state.value,
                "value": run.value,
                "seconds": run.elapsed,
                "reason": run.reason,
                **usual,
                **trial.configuration,
            }
            for run, trial in self._view.runs
        ]
        return pandas.DataFrame(rows).set_index("run")

    def plot_trajectory(self) -> Figure:
        """Draw the value of each run in order, with the best so far and the default."""
        return self._plot("trajectory")

    def plot_parallel(self) -> Figure:
        """Draw each configuration as a line over the parameters, coloured by its value."""
        return self._plot("parallel")

    def plot_contour(self) -> Figure:
        """Draw the best value at each pair of values of two parameters, those of the answer first."""
        return self._plot("contour")

    def plot_timeline(self) -> Figure:
        """Draw when each run was made and how long it took."""
        return self._plot("timeline")

    def plot_confirmation(self) -> Figure:
        """Draw the pairs of runs that compare the best with the default."""
        return self._plot("confirmation")

    @property
    def _view(self) -> ExperimentView:
        from stripewise.output.experiment_view import ExperimentView  # noqa: PLC0415  brings plotly, for looking at results alone

        return ExperimentView(self.record, self.trials)

    def _plot(self, name: str) -> Figure:
        from stripewise.output.figures import FIGURES  # noqa: PLC0415  as above

        there, draw = FIGURES[name]
        if not there(self._view):
            raise UserError(f"there is no {name} to draw: {self.verdict}", "tune with a larger budget, or draw another")
        return draw(self._view)

    def _repr_html_(self) -> str:
        """Show the verdict and what differs from the default, in a notebook."""
        usual, unit = self._view.default, self._view.unit
        cells = [(name, usual.get(name), value) for name, value in find_changes(self.best_found, usual).items()]
        rows = "".join(
            f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>"
            for row in (*cells, (f"value ({unit})" if unit else "value", self.default, self._found_value()))
        )
        head = f"<tr><th></th><th>default</th><th>{'best' if self.confirmed else 'best found, not proven'}</th></tr>"
        return f"<p><strong>{html.escape(self.verdict)}</strong></p><table>{head}{rows}</table>"

    def _found_value(self) -> float | None:
        shown = self._view.result.shown
        return self.default if shown is None else shown.value


def tune(
    objective: Callable[[Configuration], float] | Computable,
    space: Space | Mapping[str, Sequence[Value]] | str,
    *,
    budget: int = 40,
    spend_all: bool = False,
    direction: Literal["minimize", "maximize"] = "minimize",
    default: Mapping[str, Value] | None = None,
    constraints: Sequence[str] = (),
    sampler: str | Sampler = "auto",
    sampler_options: Mapping[str, Any] | None = None,
    pairs: int | None = None,
    warmup: int = 0,
    seed: int = 0,
    unit: str = "",
    name: str = "function",
    store: str | None = None,
    resume: str | None = None,
    progress: bool = False,
    listener: Listener = ignore_event,
) -> Tuned:
    """Find the configuration for which a function is best, and prove the gain over the default.

    Parameters
    ----------
    objective : callable or object with ``compute``
        A callable gets a mapping from parameter name to value; ``compute`` gets the values in the space's order. Values
        must be above zero, because gains are ratios: add a constant to what can reach zero.
    space : Space, mapping or str
        A space, a mapping from parameter name to its values (:func:`stripewise.integers`, :func:`stripewise.floats` or
        a list; the first is the default unless ``default`` says otherwise), or a stack's name or file.
    budget : int
        Most calls in all, those of the confirmation included.
    spend_all : bool
        Search on where another call is expected to gain little. Without a confirmation, the search always does.
    direction : {"minimize", "maximize"}
    default : mapping, optional
        Default values by name, for a space given as a mapping.
    constraints : sequence of str
        Expressions that must hold, for a space given as a mapping.
    sampler, sampler_options : str or Sampler, mapping
        A name (:func:`stripewise.search.base.sampler_names`) with its options, or a sampler of your own.
    pairs : int, optional
        Most pairs of calls in the confirmation; 0 for none, as suits a function without noise.
    warmup : int
        Calls of the default that are discarded.
    seed : int
    unit, name : str
        For reports.
    store : str, optional
        Where to keep the experiment; in memory if left out. ``stripewise list`` shows what is in a store.
    resume : str, optional
        Identifier of an interrupted experiment in the store, to continue: its budget, sampler and seed stay.
    progress : bool
        Show a bar on standard error, or in a notebook.
    listener : callable
        Is told what happens.

    Raises
    ------
    UserError
        If the space or an option is wrong.
    NothingWorks
        If the function fails with the default configuration.

    Examples
    --------
    >>> found = tune(lambda c: (c["x"] - 3) ** 2 + 1, {"x": range(10)}, budget=12, pairs=0)
    >>> found.best_found
    {'x': 3}
    """
    bound = space_of(space, default or {}, constraints)
    call = _callable(objective, bound)
    if direction not in ("minimize", "maximize"):
        raise UserError(f"direction '{direction}' is unknown", "use minimize or maximize")
    method = _sampler(sampler, sampler_options)
    fields = {
        "name": name,
        "runner": "function",
        "budget": {"runs": budget, "spend_all": spend_all},
        "sampler": sampler if isinstance(sampler, str) else sampler.name,
        "sampler_options": method.options.model_dump() if method is sampler else dict(sampler_options or {}),
        "seed": seed,
        "warmup": warmup,
        "confirmation": {"pairs": pairs},
    }
    try:
        experiment = Experiment.model_validate(fields)
    except ValidationError as error:
        raise explain_validation(error, "tune") from error
    if resume is not None and store is None:
        raise UserError(f"experiment {resume} is in no store", "give the store that it was begun in")
    with open_store(store if store is not None else "sqlite:///:memory:") as opened:
        identifier = opened.create(experiment) if resume is None else opened.record(resume).id
        runner = FunctionRunner(call, bound, Objective("value", direction, unit))
        owner = f"python@{socket.gethostname()}:{os.getpid()}"
        with _show_progress(progress, budget, listener) as told:
            result = Session(opened, identifier, runner, owner, told, given=Given(sampler=method)).run()
        trials, record = opened.trials(identifier), opened.record(identifier)
    ends = result.speedup_interval
    return Tuned(
        best=result.best.configuration,
        value=result.best.value,
        default=result.default.value,
        speedup=result.speedup,
        speedup_ci95=None if ends is None else (ends.low, ends.high),
        confirmed=result.confirmed,
        verdict=result.verdict,
        trials=trials,
        experiment=identifier,
        result=result.as_json(),
        record=record,
    )


class Search:
    """A search that asks you for the value of one configuration after the other: you run them where and how you like.

    Nothing is stored and nothing is proven: :func:`tune` does both.

    Parameters
    ----------
    space, direction, default, constraints, sampler, sampler_options, seed
        As for :func:`tune`.

    Examples
    --------
    >>> search = Search({"x": integers(0, 9)}, sampler="random")
    >>> for _ in range(10):
    ...     configuration = search.ask()
    ...     search.tell(configuration, (configuration["x"] - 3) ** 2 + 1)
    >>> search.best
    ({'x': 3}, 1.0)
    """

    def __init__(
        self,
        space: Space | Mapping[str, Sequence[Value]] | str,
        *,
        direction: Literal["minimize", "maximize"] = "minimize",
        default: Mapping[str, Value] | None = None,
        constraints: Sequence[str] = (),
        sampler: str | Sampler = "auto",
        sampler_options: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> None:
        self.space = space_of(space, default or {}, constraints)
        self._objective = Objective("value", direction, "")
        self._sampler = _sampler(sampler, sampler_options)
        self._seed = seed
        self._trials: list[Trial] = []

    @property
    def trials(self) -> tuple[Trial, ...]:
        """All that was asked, with what was told."""
        return tuple(self._trials)

    @property
    def best(self) -> tuple[dict[str, Value], float] | None:
        """The best configuration told of and its value; None before the first."""
        worth = [(dict(trial.configuration), trial.value) for trial in self._trials if trial.value is not None]
        pick = max if self._objective.maximize else min
        return pick(worth, key=lambda entry: entry[1]) if worth else None

    def ask(self) -> dict[str, Value]:
        """Give the configuration to run next, the default first; several may be under way at once.

        Raises
        ------
        UserError
            If every configuration was asked for.
        """
        number, tag, configuration = len(self._trials), "", self.space.default
        if number:
            history = History(self._objective, self.trials)
            suggestions = self._sampler.ask(self.space, history, sampler_rng(self._seed, number), 1)
            if not suggestions:
                raise UserError("every configuration of the space was asked for", "take the best, or widen the space")
            configuration, tag = suggestions[0].configuration, suggestions[0].tag
        run = Run(number + 1, number, Phase.SEARCH, State.RUNNING)
        self._trials.append(Trial(number, configuration, Role.CANDIDATE, (run,), tag))
        return dict(configuration)

    def tell(self, configuration: Mapping[str, Value], value: float | None) -> None:
        """Say what a configuration gave; None where it failed.

        Raises
        ------
        UserError
            If it was not asked for, or was told already, or the value is not a number above zero.
        """
        if value is not None and not 0 < value < math.inf:
            raise UserError(
                f"the value is {value:g}, but must be above zero, because gains are ratios",
                "add a constant to what can reach zero, or tell None of a failure",
            )
        for place, trial in enumerate(self._trials):
            if trial.configuration == configuration and trial.state is State.RUNNING:
                state = State.FAILED if value is None else State.FINISHED
                run = replace(trial.runs[0], state=state, value=None if value is None else float(value))
                self._trials[place] = replace(trial, runs=(run,))
                return
        raise UserError(f"{dict(configuration)} is not waited for", "tell what ask gave, once")


def _sampler(sampler: str | Sampler, options: Mapping[str, Any] | None) -> Sampler:
    if isinstance(sampler, str):
        return make_sampler(sampler, dict(options or {}))
    if options:
        raise UserError("sampler_options is given beside a sampler", "make the sampler with its options")
    return sampler


@contextmanager
def _show_progress(progress: bool, budget: int, listener: Listener) -> Iterator[Listener]:
    """Show a bar beside telling the listener, if that is wanted."""
    if not progress:
        yield listener
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=budget)

        def told(event: Event) -> None:
            if event.kind == "ended":
                run, trials = event.data["run"], event.data["trials"]
                value = "failed" if run.value is None else f"{run.value:.4g}"
                bar.update(task, completed=event.data["spent"].runs, description=f"last {value}, {len(trials)} tried")
            listener(event)

        yield told


def _callable(
    objective: Callable[[Configuration], float] | Computable, space: Space
) -> Callable[[Configuration], float]:
    if isinstance(objective, Computable):
        computable = objective
        return lambda configuration: computable.compute([configuration[name] for name in space.names])
    if isinstance(objective, str):
        raise UserError(
            "a command is not a function",
            "tune it with: stripewise tune -- COMMAND; or give a function that runs it and returns what it took",
        )
    if not callable(objective):
        raise UserError(
            f"{type(objective).__name__} can be neither called nor computed",
            "give a function, or an object with .compute",
        )
    return objective
