"""Race samplers over measured tables: each run is answered by a recorded one, so the noise is the recorded noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration, Value
from stripewise.errors import UserError
from stripewise.models.landscape import Landscape, landscapes
from stripewise.models.table import Table
from stripewise.search.base import PriorMean, Sampler, make_sampler, sampler_rng
from stripewise.search.policy.resampling import Resampler, make_resampler
from stripewise.trial import History, Phase, Run, State, Trial

_CLOSE = 0.95

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
    runs, seed : int
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


class Player(Protocol):
    """Whatever can be raced: our samplers (:class:`SamplerPlayer`) and, in ``benchmarks/search``, others' tools."""

    def propose(self) -> Configuration | None:
        """Choose what to run next, a repeat included; None to end early."""

    def observe(self, configuration: Configuration, value: float) -> None:
        """Learn the value of the run that was proposed."""

    def incumbent(self) -> Configuration:
        """Say what would be chosen if the search ended now."""


Contestant = Callable[[Landscape, int], Player]
"""Makes a player for a landscape and a seed."""


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

    Parameters
    ----------
    landscape : Landscape
    seed : int
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


class SamplerPlayer:
    """One of our samplers with its resampling rule, as the tuning loop would run them.

    Parameters
    ----------
    landscape : Landscape
    sampler : Sampler
    resampler : Resampler
    seed : int
    """

    def __init__(self, landscape: Landscape, sampler: Sampler, resampler: Resampler, seed: int) -> None:
        self.space = landscape.space
        self.sampler = sampler
        self.resampler = resampler
        self.seed = seed
        self.history = History(landscape.table.objective)
        self.runs = 0
        self._tag = ""

    def propose(self) -> Configuration | None:
        """See :class:`Player`."""
        rng = sampler_rng(self.seed, self.runs)
        again = self.resampler.next(self.history)
        if again is not None:
            return self.history.trials[again].configuration
        suggestions = self.sampler.ask(self.space, self.history, rng, 1)
        if not suggestions:
            return None
        self._tag = suggestions[0].tag
        return suggestions[0].configuration

    def observe(self, configuration: Configuration, value: float) -> None:
        """See :class:`Player`."""
        trials = list(self.history.trials)
        known = self.history.find(configuration)
        trial = known or Trial(len(trials), configuration, tag=self._tag)
        run = Run(self.runs, trial.number, Phase.SEARCH, State.FINISHED, value, started=float(self.runs))
        grown = replace(trial, runs=(*trial.runs, run))
        if known is None:
            trials.append(grown)
        else:
            trials[trial.number] = grown
        self.history = History(self.history.objective, tuple(trials))
        self.runs += 1

    def incumbent(self) -> Configuration:
        """See :class:`Player`."""
        return self.sampler.recommend(self.space, self.history)[0].configuration


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

    def make(landscape: Landscape, seed: int) -> Player:
        mean = None if prior is None else prior(landscape)
        return SamplerPlayer(landscape, make_sampler(sampler, options, mean), make_resampler(resampling or {}), seed)

    return make


def play(
    landscape: Landscape, name: str, contestant: Contestant, *, budget: int, seed: int, drift: Drift | None = None
) -> Episode:
    """Run one search.

    Parameters
    ----------
    landscape : Landscape
    name : str
        Of the contestant, for the record.
    contestant : Contestant
    budget : int
        Runs, repeats included.
    seed : int
    drift : {"steps", "ramp", "bursts"}, optional
        Slows runs down by :func:`planted_drift`; the truth stays what it is.

    Returns
    -------
    Episode
        Shorter than the budget only if the player found nothing left to run.
    """
    player = contestant(landscape, seed)
    recorded = Recorded(landscape, seed)
    truth = landscape.truth
    evaluations: list[float] = []
    trajectory: list[float] = []
    asking = 0.0
    slower = np.ones(budget) if drift is None else planted_drift(drift, budget, seed)
    if landscape.table.objective.maximize:
        slower = 1 / slower
    for factor in slower:
        start = time.perf_counter()
        configuration = player.propose()
        asking += time.perf_counter() - start
        if configuration is None:
            break
        player.observe(configuration, recorded.run(configuration) * float(factor))
        evaluations.append(float(truth[recorded.point(configuration)]))
        trajectory.append(float(truth[recorded.point(player.incumbent())]))
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
    tables : sequence of Table
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
    found = [landscape for table in tables for landscape in landscapes(table)]
    for landscape in found:
        for name, make in contestants.items():
            for seed in range(seeds):
                episodes.append(play(landscape, name, make, budget=budget, seed=seed, drift=drift))
                progress(len(episodes), len(found) * len(contestants) * seeds)
    return episodes
