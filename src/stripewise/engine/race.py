"""Race samplers over measured tables: each run is answered by a recorded one, so the noise is the recorded noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration, Value
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.engine.ledger import Ledger, spent
from stripewise.engine.loop import Finish, Loop, Planned, Wait
from stripewise.engine.planner import Planner
from stripewise.errors import UserError
from stripewise.launch import Launch, Outcome
from stripewise.models.landscape import Landscape, list_landscapes
from stripewise.models.table import Table
from stripewise.requests.experiment import Budget, Confirmation, Experiment
from stripewise.requests.objective import Objective
from stripewise.search.base import PriorMean, Sampler, make_sampler
from stripewise.search.policy.pruning import make_pruner
from stripewise.search.policy.resampling import make_resampler
from stripewise.search.policy.stopping import make_stopping
from stripewise.trial import History, Phase, Run, State, Trial

_CLOSE = 0.95
_ENDLESS = 1_000_000
"""Runs of an experiment that somebody else ends."""

Drift = Literal["steps", "ramp", "bursts"]
DRIFTS: tuple[Drift, ...] = get_args(Drift)
_DRIFT_STREAM = 7
_FACTOR = 2.0


def planted_drift(kind: Drift, runs: int, seed: int) -> NDArray[np.float64]:
    """How many times slower a machine is at each run than at its fastest: between 1 and 2, the same for all samplers.

    Parameters
    ----------
    kind : {"steps", "ramp", "bursts"}
        Other work comes and stays for a third of the runs or longer; grows or shrinks all the time; comes for a few
        runs at once, again and again.
    """
    rng = np.random.default_rng([seed, _DRIFT_STREAM])
    if kind == "ramp":
        rising = np.linspace(0, 1, runs)
        return np.asarray(_FACTOR ** (rising if rng.random() < 0.5 else 1 - rising))
    stays, least = (runs // 3, runs // 3) if kind == "steps" else (4, 3)
    slow: list[bool] = []
    ends = -int(rng.integers(least))
    busy = bool(rng.random() < 0.5)
    while ends < runs:
        ends += int(least + rng.integers(stays + 1))
        slow += [busy] * max(0, ends - len(slow))
        busy = not busy
    return np.where(slow[:runs], _FACTOR, 1.0)


class Racer(Protocol):
    """A planner that plays for itself, as :class:`Search` does with one of our samplers and :class:`Guest` with a tool.

    Attributes
    ----------
    ledger : Ledger
        Its runs so far.
    """

    @property
    def ledger(self) -> Ledger:
        """See above."""

    def next(self) -> Planned | Wait | Finish:
        """Say what runs next, a repeat included."""

    def incumbent(self) -> Configuration:
        """Say what would be chosen if the search ended now."""


class Search:
    """One of our samplers in the planner that ``tune`` uses, with the default first, and no warm-up or proof.

    Parameters
    ----------
    resampling : mapping, optional
        As in an experiment's ``[resampling]``.
    """

    def __init__(
        self,
        space: Space,
        objective: Objective,
        sampler: Sampler,
        seed: int,
        resampling: Mapping[str, Any] | None = None,
    ) -> None:
        self.ledger = Ledger()
        self._space = space
        self._planner = Planner(
            Experiment(seed=seed, warmup=0, budget=Budget(runs=_ENDLESS), confirmation=Confirmation(pairs=0)),
            objective,
            space,
            False,
            sampler,
            make_resampler(resampling or {}),
            make_pruner(),
            make_stopping(),
        )

    @property
    def history(self) -> History:
        """What the sampler sees."""
        return self._planner.history(self.ledger.trials)

    def next(self) -> Planned | Wait | Finish:
        """See :class:`Racer`."""
        return self._planner.next(self.ledger.trials, spent(self.ledger.trials, 0.0))

    def incumbent(self) -> Configuration:
        """See :class:`Racer`: what ``tune`` would confirm; the default where nothing looks better."""
        best = self._planner.candidate(self.ledger.trials)
        return self._space.default if best is None else self.ledger.trials[best].configuration


class Player(Protocol):
    """Another tool, as ``benchmarks/search`` adapts some."""

    def propose(self) -> Configuration | None:
        """Choose what to run next, a repeat included; None to end early."""

    def observe(self, configuration: Configuration, value: float) -> None:
        """Learn the value of the run that was proposed."""

    def incumbent(self) -> Configuration:
        """Say what would be chosen if the search ended now."""


class Guest:
    """A player as a planner."""

    def __init__(self, player: Player) -> None:
        self.ledger = Ledger()
        self._player = player
        self._observed = 0

    def _observe(self) -> None:
        for run in list(self.ledger.runs.values())[self._observed :]:
            assert run.value is not None, "every answer is a value"
            self._player.observe(self.ledger.trials[run.trial].configuration, run.value)
            self._observed += 1

    def next(self) -> Planned | Wait | Finish:
        """See :class:`Racer`."""
        self._observe()
        configuration = self._player.propose()
        if configuration is None:
            return Finish("the player has nothing left to run")
        trials = self.ledger.trials
        known = next((trial for trial in trials if trial.configuration == configuration), None)
        trial = known or Trial(len(trials), configuration)
        return Planned(trial, Run(len(self.ledger.runs), trial.number, Phase.SEARCH), new=known is None)

    def incumbent(self) -> Configuration:
        """See :class:`Racer`."""
        self._observe()
        return self._player.incumbent()


Answer = Callable[[Configuration], float]
"""Gives the value of one more run of a configuration."""


class _Answers:
    """A rig whose runs are answered at once; see :class:`stripewise.engine.loop.Rig`."""

    def __init__(self, answer: Answer, default: Configuration) -> None:
        self._answer = answer
        self._default = default
        self._ended: list[tuple[int, float]] = []

    def has_room(self, running: Mapping[int, Launch]) -> bool:
        return not running

    def make(self, trial: Trial, run: Run, running: Mapping[int, Launch]) -> Launch:
        return Launch("race", run.number, trial.configuration or self._default, Plan(), run.phase)

    def start(self, launch: Launch) -> None:
        self._ended.append((launch.number, self._answer(launch.configuration)))

    def poll(self, timeout: float) -> list[Outcome]:
        ended, self._ended = self._ended, []
        return [
            Outcome(number, State.FINISHED, 0.0, float(number), metrics={"value": value}) for number, value in ended
        ]

    def cancel(self, number: int) -> None:
        self._ended = []

    def result(self, run: Run, outcome: Outcome) -> Run:
        return replace(run, state=State.FINISHED, value=outcome.metrics["value"], started=outcome.started)


def moves(
    racer: Racer, answer: Answer, default: Configuration, budget: int
) -> Iterator[tuple[Configuration, float, float]]:
    """Play a search, run by run.

    Parameters
    ----------
    answer : callable
    default : Configuration
        What a run of the default runs.
    budget : int
        Runs, repeats included; fewer only if the racer has nothing left to run.

    Yields
    ------
    tuple of (Configuration, float, float)
        What ran, its value, and the seconds that choosing it took.
    """
    loop, asking = Loop(racer.ledger, _Answers(answer, default)), 0.0

    def plan() -> Planned | Wait | Finish:
        nonlocal asking
        if len(racer.ledger.runs) >= budget:
            return Finish("the budget is used up")
        start = time.perf_counter()
        step = racer.next()
        asking = time.perf_counter() - start
        return step

    while not isinstance(loop.fill(plan), Finish):
        for run, outcome in loop.collect():
            yield racer.ledger.trials[run.trial].configuration or default, outcome.metrics["value"], asking


Contestant = Callable[[Landscape, int], Racer]
"""Makes a racer for a landscape and a seed."""


def guest(make: Callable[[Landscape, int], Player]) -> Contestant:
    """Let a player race."""
    return lambda landscape, seed: Guest(make(landscape, seed))


@dataclass(frozen=True)
class Episode:
    """One sampler's search of one context with one seed.

    Attributes
    ----------
    table, context, sampler, seed
        What was raced.
    evaluations : list of float
        True value of each configuration run, in order.
    trajectory : list of float
        True value of the incumbent after each run.
    optimum : float
        See :attr:`stripewise.models.landscape.Landscape.best`.
    runs_to_within_5_percent : int or None
        The first evaluation (from 1) that closes at least 95% of the gap between the table's median and its optimum.
    ask_seconds : float
        Time spent choosing what to run, in all.
    drift : str or None
        What was planted (:func:`planted_drift`).
    """

    table: str
    context: Mapping[str, Value]
    sampler: str
    seed: int
    evaluations: list[float]
    trajectory: list[float]
    optimum: float
    runs_to_within_5_percent: int | None
    ask_seconds: float
    drift: Drift | None = None

    def as_json(self) -> dict[str, Any]:
        """Give the object that ``race --json`` prints."""
        return asdict(self)


class Recorded:
    """Answers runs from the recorded ones.

    The repeats of a point are dealt in an order that depends on the seed and the point alone, so that every sampler
    meets the same luck; when all are used up they are dealt again.
    """

    def __init__(self, landscape: Landscape, seed: int) -> None:
        self._landscape = landscape
        self._seed = seed
        self._dealt: dict[int, int] = {}

    def point(self, configuration: Mapping[str, Value]) -> int:
        """Find a configuration among the landscape's points.

        Raises
        ------
        UserError
            If it was not measured.
        """
        point = int(self._landscape.space.index(self._landscape.space.levels([configuration]))[0])
        if point < 0:
            raise UserError(f"{dict(configuration)} was not measured in table {self._landscape.table.name}")
        return point

    def run(self, configuration: Mapping[str, Value]) -> float:
        """Give the value of one more run of a configuration."""
        point = self.point(configuration)
        values = self._landscape.runs(point)
        turn = self._dealt.get(point, 0)
        self._dealt[point] = turn + 1
        rounds, place = divmod(turn, len(values))
        rng = np.random.default_rng([self._seed, point, rounds])
        return float(rng.permutation(values)[place])


def contestant(
    sampler: str,
    options: Mapping[str, Any] | None = None,
    *,
    resampling: Mapping[str, Any] | None = None,
    prior: Callable[[Landscape], PriorMean] | None = None,
) -> Contestant:
    """Make one of our samplers ready to race.

    Parameters
    ----------
    sampler, options
        As for :func:`stripewise.search.base.make_sampler`.
    resampling : mapping, optional
        As in an experiment's ``[resampling]``.
    prior : callable, optional
        Makes the prior mean of a landscape (from other contexts, say).

    Raises
    ------
    UserError
        Unknown names or options, at once rather than in the middle of a race.
    """
    make_sampler(sampler, options)
    make_resampler(resampling or {})

    def make(landscape: Landscape, seed: int) -> Racer:
        made = make_sampler(sampler, options, None if prior is None else prior(landscape))
        return Search(landscape.space, landscape.table.objective, made, seed, resampling)

    return make


def play(
    landscape: Landscape, name: str, contestant: Contestant, *, budget: int, seed: int, drift: Drift | None = None
) -> Episode:
    """Run one search.

    Parameters
    ----------
    name : str
        Of the contestant, for the record.
    budget : int
        Runs, repeats included.
    drift : {"steps", "ramp", "bursts"}, optional
        Slows runs down by :func:`planted_drift`; the truth stays what it is.

    Returns
    -------
    Episode
        Shorter than the budget only if the player found nothing left to run.
    """
    racer, recorded, truth = contestant(landscape, seed), Recorded(landscape, seed), landscape.truth
    evaluations: list[float] = []
    trajectory: list[float] = []
    asking = 0.0
    slower = np.ones(budget) if drift is None else planted_drift(drift, budget, seed)
    factors = iter(1 / slower if landscape.table.objective.maximize else slower)

    def answer(configuration: Configuration) -> float:
        return recorded.run(configuration) * float(next(factors))

    for configuration, _, asked in moves(racer, answer, landscape.space.default, budget):
        asking += asked
        evaluations.append(float(truth[recorded.point(configuration)]))
        trajectory.append(float(truth[recorded.point(racer.incumbent())]))
    close = (number for number, value in enumerate(evaluations, 1) if landscape.closed(value) >= _CLOSE)
    return Episode(
        landscape.table.name,
        dict(landscape.context),
        name,
        seed,
        evaluations,
        trajectory,
        landscape.optimum,
        next(close, None),
        asking,
        drift,
    )


def race(
    tables: Sequence[Table],
    contestants: Mapping[str, Contestant],
    *,
    budget: int,
    seeds: int,
    drift: Drift | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Episode]:
    """Race contestants on every context of every table, each with seeds 0, 1, ...

    Parameters
    ----------
    contestants : mapping
        By name; :func:`contestant` makes them of our samplers.
    budget : int
        Runs of each search.
    seeds : int
        Searches of each contestant on each context.
    drift : {"steps", "ramp", "bursts"}, optional
        As for :func:`play`.
    progress : callable
        Told after each search how many are done, and how many there are.
    """
    if budget < 1 or seeds < 1:
        raise UserError("a race needs at least one run and one seed", "raise --budget and --seeds")
    episodes: list[Episode] = []
    found = [landscape for table in tables for landscape in list_landscapes(table)]
    for landscape in found:
        for name, make in contestants.items():
            for seed in range(seeds):
                episodes.append(play(landscape, name, make, budget=budget, seed=seed, drift=drift))
                progress(len(episodes), len(found) * len(contestants) * seeds)
    return episodes
