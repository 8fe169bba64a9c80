"""The level of the machine: silent while nothing changes, found when it does, and taken off every cost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.engine.ledger import Spent
from stripewise.engine.loop import Planned
from stripewise.engine.planner import Planner
from stripewise.engine.result import machine_level
from stripewise.output.plots.trajectory import GuideLines, RunPoint, trajectory
from stripewise.requests.experiment import Experiment
from stripewise.result import LevelChange
from stripewise.search.base import make_sampler
from stripewise.search.belief.costs import Costs, RunCosts
from stripewise.search.belief.level import (
    _NOISES,
    Level,
    _Dense,
    _keep_still,
    _repeats_of,
    _Sparse,
    _step,
    _step_and_back,
    _step_and_back_factor,
    _step_factor,
)
from stripewise.search.belief.posterior import Posterior, RepeatNoise, rank_trials
from stripewise.search.policy.pruning import make_pruner
from stripewise.search.policy.resampling import make_resampler
from stripewise.search.policy.stopping import make_stopping
from stripewise.trial import History, Phase, Role, Run, State, Trial
from tests.unit.search_histories import BANDWIDTH, ELAPSED, LINE, run
from tests.unit.search_histories import trial as tried

RUNS = 30
CONTROLS = [0, 4, 9, 14, 19, 24, 29]
"""When the first configuration runs; all others run once."""


def course(level, noise=0.05, seed=0):
    """Times, configurations and costs of an experiment on a machine with a level over time."""
    rng = np.random.default_rng(seed)
    time = np.arange(float(RUNS))
    configuration = np.where(np.isin(time, CONTROLS), 0, np.arange(RUNS))
    own = rng.normal(0, 0.5, RUNS)[configuration]
    return time, configuration, own + rng.normal(0, noise, RUNS) + np.array([level(t) for t in time])


def step(t):
    return np.log(2) * (t >= 12)


def ramp(t):
    return np.log(2) * t / RUNS


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.001, 0.05, 0.15])
def test_a_quiet_machine_has_exactly_no_level(noise, seed):
    level = Level.of(*course(lambda t: 0.0, noise, seed))
    assert not level.moves
    assert not level.mean.any()
    assert level.changes == ()


def test_without_repeats_nothing_is_known():
    level = Level.of(np.arange(5.0), np.arange(5), np.array([0.0, 0.1, 0.0, 3.0, 3.1]))
    assert not level.moves
    assert not level.suspect


@pytest.mark.parametrize("seed", range(3))
def test_a_step_is_found_between_the_controls_around_it(seed):
    level = Level.of(*course(step, 0.05, seed))
    assert level.mean[20] - level.mean[5] == pytest.approx(np.log(2), abs=0.15)
    (change,) = level.changes
    assert 8 <= change.before < change.after <= 15
    assert np.exp(change.rise) == pytest.approx(2, rel=0.15)


def test_other_work_that_comes_and_goes_is_found():
    level = Level.of(*course(lambda t: np.log(2) * (7 <= t < 21)))
    came, went = level.changes
    assert (came.before, came.after) == (4, 9)
    assert (went.before, went.after) == (19, 24)
    assert np.exp(came.rise) == pytest.approx(2, rel=0.2)
    assert np.exp(went.rise) == pytest.approx(0.5, rel=0.2)


def test_a_ramp_is_followed():
    time, configuration, cost = course(ramp)
    level = Level.of(time, configuration, cost)
    true = np.array([ramp(t) for t in time])
    assert np.max(np.abs(level.mean - (true - true.mean()))) < 0.12
    (change,) = level.changes
    assert change.after - change.before > 10


@pytest.mark.parametrize("slow", [1, 3, 6])
def test_one_slow_run_is_an_outlier_and_no_change(slow):
    time, configuration, cost = course(lambda t: 0.0)
    cost[CONTROLS[slow]] += np.log(3)
    level = Level.of(time, configuration, cost)
    assert level.changes == ()
    assert np.ptp(level.mean) < 0.1


def test_the_level_does_not_depend_on_the_unit_of_time_and_a_pause_makes_it_uncertain():
    time, configuration, cost = course(step)
    seconds = Level.of(1e9 + 40 * time, configuration, cost)
    assert seconds.mean == pytest.approx(Level.of(time, configuration, cost).mean, abs=1e-6)
    paused = Level.of(
        np.where(time == RUNS - 1, time + 1000, time), np.where(time == RUNS - 1, 99, configuration), cost
    )
    sd = np.sqrt(np.diag(paused.covariance))[paused.moment]
    assert sd[RUNS - 1] > 2 * sd[RUNS - 3]


def test_of_many_repeats_the_late_ones_count_as_well():
    rng = np.random.default_rng(0)
    time = np.arange(400.0)
    configuration = np.where(time % 4 == 0, 0, np.arange(400))
    level = Level.of(time, configuration, rng.normal(0, 0.05, 400) + np.log(2) * (time >= 300))
    (change,) = level.changes
    assert np.exp(change.rise) == pytest.approx(2, rel=0.15)
    assert 250 < change.before < change.after < 350


def test_steps_and_visits_are_fitted_by_their_factors_as_by_their_covariance():
    rng = np.random.default_rng(1)
    time = np.sort(rng.choice(40, 30)).astype(float)
    configuration, cost = rng.integers(0, 5, 30), rng.normal(0, 1, 30)
    start, inside, end = np.unique(time)[[3, 4, 6]]
    coming, going = (start, inside), (end, end + 5)
    moved = partial(_step, start=start, end=end)
    kernels = [_keep_still, moved, partial(_step_and_back, coming=coming, going=going)]
    factors = [np.zeros((30, 1)), _step_factor(time, start, end), _step_and_back_factor(time, coming, going)]
    same = 100.0 * (configuration[:, None] == configuration)
    own = rng.uniform(1e-5, 0.1, (3 * len(_NOISES), 30))
    by_covariance = _Dense([kernel(time, time) + same for kernel in kernels], cost).fit(own)
    for sparse, dense in zip(_Sparse(factors, configuration, cost).fit(own), by_covariance, strict=True):
        assert sparse == pytest.approx(dense, rel=1e-6)


# -- what the search sees


def bandwidths(*runs, spread=60.0):
    """A history from (trial, MiB/s) in order of time."""
    trials = {}
    for number, (trial, value) in enumerate(runs):
        made = Run(number, trial, Phase.SEARCH, State.FINISHED, value, started=1.7e9 + spread * number)
        trials.setdefault(trial, []).append(made)
    return History(BANDWIDTH, tuple(Trial(t, Configuration({"a": t}), runs=tuple(made)) for t, made in trials.items()))


CHANGED = bandwidths(
    *((0, 83.0), (1, 60.0), (2, 128.0), (3, 70.0), (0, 85.0), (4, 75.0)),
    *((5, 200.0), (0, 170.0), (6, 190.0), (7, 205.0), (0, 166.0), (8, 150.0), (9, 201.0), (0, 168.0)),
)
"""The default is twice as fast from the seventh run on; trial 2 is the best of all, and ran before."""


def test_the_best_of_an_earlier_minute_is_chosen_though_later_runs_show_more():
    assert max(CHANGED.trials, key=lambda trial: trial.value).number == 7
    assert rank_trials(CHANGED)[0].number == 2
    cost = Costs.of(CHANGED).cost
    assert cost[0] - cost[2] == pytest.approx(np.log(128 / 84), abs=0.1)


def test_a_change_of_the_machine_is_not_noise_of_the_program():
    assert RepeatNoise.of(CHANGED).deviation() < 0.15


def test_trials_of_the_same_time_share_what_is_unknown_of_the_level():
    posterior = Posterior.of(CHANGED)
    near, far = posterior.covariance[7, 8], posterior.covariance[1, 8]
    assert near > far
    assert posterior.sd == pytest.approx(np.sqrt(np.diag(posterior.covariance)))


def test_a_quiet_history_is_read_as_it_is():
    quiet = bandwidths((0, 83.0), (1, 60.0), (2, 128.0), (0, 85.0), (3, 70.0), (0, 84.0), (2, 126.0))
    assert list(Costs.of(quiet).cost) == [
        -np.log(84.0),
        -np.log(60.0),
        np.median([-np.log(128.0), -np.log(126.0)]),
        -np.log(70.0),
    ]
    assert Posterior.of(quiet).covariance is None


def test_the_level_is_learned_once_while_only_other_runs_are_added(monkeypatch):
    asked = []
    monkeypatch.setattr(Level, "of", lambda *runs: asked.append(runs) or Level(0.0, np.zeros(len(runs[0]))))
    seen = bandwidths((0, 83.0), (1, 61.5), (0, 85.0))
    paired = replace(seen.trials[0], runs=(*seen.trials[0].runs, Run(9, 0, Phase.CONFIRMATION, State.PENDING)))
    RunCosts.of(seen)
    RunCosts.of(History(BANDWIDTH, (paired, *seen.trials[1:])))
    assert len(asked) == 1


def test_hypotheses_are_weighed_once_while_only_single_runs_are_added():
    time, configuration, cost = course(step)
    before = np.arange(RUNS) != 28
    _repeats_of.cache_clear()
    Level.of(time[before], configuration[before], cost[before])
    Level.of(time, configuration, cost)
    assert (_repeats_of.cache_info().misses, _repeats_of.cache_info().hits) == (1, 1)


def test_runs_of_one_moment_say_nothing_about_changes():
    assert not Level.of(np.zeros(6), np.array([0, 0, 1, 1, 2, 2]), np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])).suspect


# -- controls


def raced(runs, value):
    """Let racing choose between repeats and new trials; gives the run numbers at which something was repeated."""
    history, repeated = [], []
    for number in range(runs):
        again = make_resampler().next(bandwidths(*history))
        trial = len({t for t, _ in history}) if again is None else again
        if again is not None:
            repeated.append(number)
        history.append((trial, value(trial, number)))
    return repeated


def own(trial):
    """A value for each trial, none close to another."""
    return 100 * 1.3 ** ((7 * trial) % 17)


def test_a_quiet_machine_is_controlled_seldom():
    repeated = raced(48, lambda trial, number: own(trial) * (1 + 0.01 * (number % 3)))
    assert len(repeated) <= 5
    assert repeated[0] in (4, 5)
    assert repeated[-1] > 20


def test_a_machine_that_changed_is_controlled_more_often():
    repeated = raced(30, lambda trial, number: own(trial) * (1 + 0.01 * (number % 3)) * (2 if number >= 10 else 1))
    after = [number for number in repeated if number >= 10]
    assert len(after) >= 3
    assert after[1] - after[0] <= 4


def test_repeats_are_apart_in_time_and_follow_from_the_history_alone():
    close = bandwidths((0, 50.0), (1, 20.0), (2, 100.0), (3, 99.0))
    assert make_resampler().next(close) is None
    later = bandwidths((0, 50.0), (2, 100.0), (3, 99.0), (1, 20.0), (4, 30.0), (5, 25.0))
    assert make_resampler().next(later) in (1, 2)


# -- all who compare


def slowed(*roles):
    """Three configurations in turn, 10, 2 and 6 s long, on a machine that takes twice as long from run 9 on."""
    rng = np.random.default_rng(1)
    runs = {number: [] for number in range(3)}
    for number in range(18):
        seconds = (10.0, 2.0, 6.0)[number % 3] * (1 + (number >= 9)) * float(np.exp(0.005 * rng.normal()))
        runs[number % 3].append(run(number, number % 3, seconds))
    trials = (replace(tried(k), role=role, runs=tuple(runs[k])) for k, role in enumerate(roles))
    return History(ELAPSED, tuple(trials))


def test_a_bound_does_not_take_a_slower_machine_for_noise():
    seen = slowed(Role.DEFAULT, Role.CANDIDATE, Role.CANDIDATE)
    early = replace(seen.trials[1], runs=seen.trials[1].runs[:3])
    bound = make_pruner().bound(History(ELAPSED, (seen.trials[0], early, seen.trials[2])))
    assert bound.seconds == pytest.approx(3 * 2 * 2, rel=0.05), "the best ran only while the machine was fast"


def test_the_reference_competes_at_the_same_level():
    default, candidate, reference = slowed(Role.DEFAULT, Role.CANDIDATE, Role.REFERENCE).trials
    # Raw: 4 s for the candidate, 3 s for the reference, which is slower at one level.
    candidate = replace(candidate, runs=candidate.runs[3:])
    runs = tuple(replace(run, value=run.value / 2, elapsed=run.elapsed / 2) for run in reference.runs[:3])
    planner = Planner(
        Experiment(), ELAPSED, LINE, True, make_sampler("random"), make_resampler(), make_pruner(), make_stopping()
    )
    assert planner.candidate((default, candidate, replace(reference, runs=runs))) == 1
    faster = tuple(replace(run, value=run.value / 2, elapsed=run.elapsed / 2) for run in runs)
    assert planner.candidate((default, candidate, replace(reference, runs=faster))) == 2


@pytest.mark.parametrize(
    ("limit", "found", "goes_on"),
    [(100, False, True), (21, False, False), (400, False, True), (200, False, True), (200, True, False)],
)
def test_time_that_is_too_short_for_a_confirmation_goes_into_the_search(limit, found, goes_on):
    parts = (make_sampler("random"), make_resampler(), make_pruner(), make_stopping())
    planner = Planner(Experiment(budget={"runs": 40, "seconds": limit}), ELAPSED, LINE, False, *parts)
    default = replace(slowed(Role.DEFAULT).trials[0], runs=(run(0, 0, 10.0), run(1, 0, 10.0)))
    candidate = replace(tried(1, 5.0), runs=(run(2, 1, 5.0),))
    # A confirmation of eight pairs needs 160 s, besides the warm-up, the default and the run of a candidate.
    trials, used = (default, candidate)[: 1 + found], Spent(2 + found, 20.0 if limit != 200 else 60.0, 0.0)
    step = planner.next(trials, used)
    assert (isinstance(step, Planned) and step.run.phase is Phase.SEARCH) == goes_on, step
    # What a limit of time left undone was not saved.
    assert planner.count_unneeded(trials, used) == (40 - 2 - found if limit == 400 else 0)


# -- what people see


def test_a_result_says_when_the_machine_changed():
    trials = (replace(CHANGED.trials[0], role=Role.DEFAULT), *CHANGED.trials[1:])
    level = machine_level(History(BANDWIDTH, trials))
    (change,) = level.changes
    assert change.slower == pytest.approx(0.5, abs=0.05)
    assert change.sentence.startswith("The machine became 2.0 times faster between runs 4 and 7 (")
    assert level.runs[0].default == pytest.approx(84, rel=0.03)
    assert level.runs[-1].default == pytest.approx(168, rel=0.03)
    assert "at run 12;" in LevelChange(before=11, after=12, slower=1.8).sentence
    lines = trajectory(
        [RunPoint(0, 83.0, "default")], quantity="bandwidth", unit="MiB/s", maximize=True,
        guides=GuideLines(level=[(one.run, one.default) for one in level.runs]),
    )  # fmt: skip
    assert "default at the machine's level" in {trace.name for trace in lines.data}


def test_a_quiet_machine_is_not_mentioned():
    level = machine_level(bandwidths((0, 83.0), (1, 60.0), (2, 128.0), (0, 85.0), (3, 70.0), (0, 84.0)))
    assert not level.changes
    assert not level.runs
