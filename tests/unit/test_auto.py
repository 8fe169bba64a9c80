"""``auto``: where it starts, what it learns from failures, pruned runs and priors, and how it searches large spaces."""

from __future__ import annotations

import numpy as np
import pytest

from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Knowledge, Space
from stripewise.errors import UserError
from stripewise.search.base import Seen, make_sampler, sampler_rng
from stripewise.search.belief.belief import believe, subsample
from stripewise.search.samplers.auto import AutoSampler
from stripewise.search.samplers.surrogate import Pool, score_configurations, screen_space
from stripewise.trial import History, Phase, Run, State, Trial
from tests.unit.search_histories import ELAPSED

GRID = Space.bind([Parameter(name, Kind.INTEGER, range(10), 0) for name in ("a", "b", "c")])


def trial(space, number, row, value, state=State.FINISHED, runs=1):
    some = tuple(Run(100 * number + k, number, Phase.SEARCH, state, value) for k in range(runs))
    return Trial(number, space.configuration(np.asarray(row)), runs=some)


def history(space, rows, values, state=State.FINISHED):
    return History(
        ELAPSED, tuple(trial(space, k, r, v, state) for k, (r, v) in enumerate(zip(rows, values, strict=True)))
    )


def random_history(space, n, seed=0, cost=lambda row: 0.0):
    rng = np.random.default_rng(seed)
    rows = np.unique(space.sample(rng, n), axis=0)
    rng.shuffle(rows)
    return history(space, rows, [float(np.exp(cost(row) + 0.05 * rng.standard_normal())) for row in rows])


def search(space, cost, runs, sampler=None, fails=lambda row: False):
    """Run the sampler on a function of levels; give the rows it asked for."""
    sampler = sampler or AutoSampler()
    trials = []
    for number in range(runs):
        (suggestion,) = sampler.ask(space, History(ELAPSED, tuple(trials)), sampler_rng(0, number), 1)
        row = space.levels([suggestion.configuration])[0]
        failed = fails(row)
        state = State.FAILED if failed else State.FINISHED
        trials.append(trial(space, number, row, None if failed else float(np.exp(cost(row))), state))
    return np.array([space.levels([t.configuration])[0] for t in trials])


def test_default_comes_first():
    (first,) = AutoSampler().ask(GRID, History(ELAPSED), sampler_rng(0, 0), 1)
    assert first.configuration == GRID.default
    assert first.tag == "default"


@pytest.mark.slow
def test_finds_the_best_of_a_thousand_in_few_runs():
    def cost(row):
        return 0.05 * (row[0] - 7) ** 2 + 0.3 * (row[1] > 4)

    rows = search(GRID, cost, 20)
    assert min(map(cost, rows)) <= 0.05


@pytest.mark.slow
def test_recommends_by_belief_and_not_by_luck():
    # Noise of 20%, told by repeats; at b = 9 all is 40% slower, but one single run was lucky.
    rng = np.random.default_rng(0)
    trials = []
    for number, (a, b) in enumerate((a, b) for b in (0, 9) for a in range(8)):
        lucky = (a, b) == (3, 9)
        values = [0.7] if lucky else np.exp(0.35 * (b == 9) + 0.2 * rng.standard_normal(2))
        runs = tuple(Run(2 * number + k, number, Phase.SEARCH, State.FINISHED, float(v)) for k, v in enumerate(values))
        trials.append(Trial(number, GRID.configuration(np.array([a, b, 0])), runs=runs))
    best = AutoSampler().recommend(GRID, History(ELAPSED, tuple(trials)))
    assert len(best) == 16
    assert min(trials, key=lambda t: t.value).configuration["b"] == 9
    assert best[0].configuration["b"] == 0


@pytest.mark.slow
def test_straggler_counts_less_than_its_value():
    rows = [(a, b, 0) for a in range(5) for b in range(5)]
    values = [1.0 + 0.01 * (k % 3) for k in range(25)]
    plain = believe(GRID, history(GRID, rows, values), None, trust=0.5, most=100)
    values[12] = 20.0
    upset = believe(GRID, history(GRID, rows, values), None, trust=0.5, most=100)
    near = np.array([[2, 1, 0]])
    assert abs(upset.predict(near)[0][0] - plain.predict(near)[0][0]) < 0.5
    assert upset.process.data.variance[12] > 1.5


@pytest.mark.slow
def test_failing_region_is_left_alone():
    def cost(row):
        return -0.3 * row[0]

    rows = search(GRID, cost, 24, fails=lambda row: row[0] >= 6)
    failed = rows[:, 0] >= 6
    assert failed.sum() < 12
    assert rows[~failed, 0].max() == 5
    belief = believe(
        GRID,
        History(
            ELAPSED,
            tuple(
                trial(GRID, k, row, None if bad else 1.0, State.FAILED if bad else State.FINISHED)
                for k, (row, bad) in enumerate(zip(rows, failed, strict=True))
            ),
        ),
        None,
        trust=0.5,
        most=100,
    )
    good, bad = belief.probability_of_success(np.array([[2, 3, 4], [9, 3, 4]]))
    assert good > 0.6
    assert bad < 0.5


@pytest.mark.slow
def test_pruned_run_teaches_more_than_its_bound():
    rows = [(a, 0, 0) for a in range(6)]
    finished = [trial(GRID, k, row, 3.0) for k, row in enumerate(rows[:5])]
    pruned = trial(GRID, 5, rows[5], 1.2, State.PRUNED)
    belief = believe(GRID, History(ELAPSED, (*finished, pruned)), None, trust=0.5, most=100)
    assert belief.predict(np.array([rows[5]]))[0][0] > np.log(1.2) + 0.2
    # A bound is no value: it must not be taken for the best.
    assert belief.best > np.log(1.2) + 0.2
    assert AutoSampler().recommend(GRID, History(ELAPSED, (*finished, pruned)))[0].number < 5


@pytest.mark.slow
def test_pending_runs_keep_others_away():
    past = random_history(GRID, 15, cost=lambda row: 0.1 * abs(row[0] - 5))
    batch = AutoSampler().ask(GRID, past, sampler_rng(0, 15), 6)
    rows = GRID.levels([s.configuration for s in batch])
    assert len(np.unique(rows, axis=0)) == 6
    assert (rows.max(axis=0) > rows.min(axis=0)).any()
    waiting = Trial(15, batch[0].configuration, runs=(Run(15, 15, Phase.SEARCH, State.PENDING),))
    (other,) = AutoSampler().ask(GRID, History(ELAPSED, (*past.trials, waiting)), sampler_rng(0, 16), 1)
    assert other.configuration != batch[0].configuration


@pytest.mark.slow
def test_model_prior_is_asked_first_and_a_wrong_one_is_recovered_from():
    def cost(row):
        return 0.1 * ((row[0] - 2) ** 2 + (row[1] - 2) ** 2)

    def right(space, levels):
        return -0.1 * ((levels[:, 0] - 2.0) ** 2 + (levels[:, 1] - 2.0) ** 2)

    assert min(map(cost, search(GRID, cost, 3, AutoSampler(prior=right)))) <= 0.1
    wrong = search(GRID, cost, 25, AutoSampler(prior=lambda space, levels: -right(space, levels)))
    assert min(map(cost, wrong)) <= 0.3


@pytest.mark.slow
def test_prior_saves_the_plan_only_while_the_runs_bear_it_out():
    def cost(row):
        return 0.1 * ((row[0] - 2) ** 2 + (row[1] - 2) ** 2)

    def right(space, levels):
        return -0.1 * ((levels[:, 0] - 2.0) ** 2 + (levels[:, 1] - 2.0) ** 2)

    def third(prior):
        sampler, trials = AutoSampler(prior=prior), []
        for number in range(3):
            (suggestion,) = sampler.ask(GRID, History(ELAPSED, tuple(trials)), sampler_rng(0, number), 1)
            row = GRID.levels([suggestion.configuration])[0]
            trials.append(trial(GRID, number, row, float(np.exp(cost(row)))))
        believed = believe(GRID, History(ELAPSED, tuple(trials[:2])), prior, trust=0.5, most=100, test_prior=True)
        assert believed is not None
        return suggestion.tag, believed.prior is not None

    assert third(right) == ("gain", True)
    assert third(lambda space, levels: -right(space, levels)) == ("plan", False)
    # The data cannot confirm a prior that expects the same of all configurations.
    assert third(lambda space, levels: np.zeros(len(levels)))[0] == "plan"


def test_knowledge_of_the_stack_is_a_prior():
    parameters = [Parameter(name, Kind.INTEGER, range(10), 0) for name in ("a", "b", "c")]
    space = Space.bind(parameters, knowledge=[Knowledge(Expression.parse("a == 8"), 2.0, "a test")])
    assert search(space, lambda row: 0.0, 2)[1, 0] == 8
    without = search(space, lambda row: 0.0, 2, make_sampler("auto", {"knowledge": False}))
    assert without[1, 0] != 8


@pytest.mark.parametrize("how", ["auto", "screened"])
def test_what_knowledge_says_nothing_about_keeps_its_default(how):
    parameters = [Parameter(name, Kind.INTEGER, range(10), 5) for name in ("a", "b", "c")]
    known = [Knowledge(Expression.parse("a >= 8"), 2.0, "a test"), Knowledge(Expression.parse("b < 7"), 1.5, "a test")]
    space = Space.bind(parameters, knowledge=known)
    second = search(space, lambda row: 0.0, 2, make_sampler("auto", {"search": how}))[1]
    assert second[0] >= 8
    assert second[1:].tolist() == [5, 5]


@pytest.mark.parametrize("how", ["auto", "screened"])
def test_a_prior_that_gives_nan_is_refused(how):
    def prior(_, levels):
        return np.where(levels[:, 0] == 3, np.nan, 0.0)

    sampler = make_sampler("auto", {"search": how}, prior)
    with pytest.raises(UserError, match="the prior of the search gives NaN for"):
        search(GRID, lambda row: 0.0, 2, sampler)


@pytest.mark.slow
def test_expected_improvement_falls_as_the_search_goes_on():
    def cost(row):
        return 0.1 * abs(row[0] - 5)

    sampler = AutoSampler()
    assert sampler.expected_improvement(GRID, History(ELAPSED)) is None
    early, late = (sampler.expected_improvement(GRID, random_history(GRID, n, cost=cost)) for n in (10, 120))
    assert early > late >= 0


LARGE = Space.bind(
    [
        Parameter("m", Kind.CATEGORICAL, tuple("abcdefghij"), "a"),
        *(Parameter(f"p{k}", Kind.INTEGER, range(10), 0) for k in range(4)),
    ]
)


@pytest.mark.slow
def test_screening_finds_nearly_the_best_acquisition():
    reached = []
    for seed in range(6):
        past = random_history(LARGE, 60, seed, lambda row: 0.05 * abs(row[1] - 6) + 0.3 * (row[0] == 2))
        belief = believe(LARGE, past, None, trust=0.5, most=400)
        seen, pool = Seen.of(LARGE, past), Pool(LARGE)
        most = np.where(pool.unseen(seen), score_configurations(belief, pool.levels, pool.knots), -1).max()
        found = screen_space(LARGE, seen, belief, sampler_rng(seed, 0))
        reached.append(score_configurations(belief, found)[0] / most)
    assert np.sum(np.array(reached) > 0.99) >= 5


@pytest.mark.slow
def test_ten_million_points_and_thousands_of_trials():
    space = Space.bind([Parameter(f"p{k}", Kind.INTEGER, range(10), 0) for k in range(7)])
    past = random_history(space, 3000, cost=lambda row: 0.05 * abs(row[0] - 5))
    (suggestion,) = AutoSampler().ask(space, past, sampler_rng(0, 3000), 1)
    assert past.find(suggestion.configuration) is None


def test_axes_that_mean_nothing_are_not_listed():
    quiet = [Parameter(f"q{k}", Kind.INTEGER, range(30), 0, active_if=Expression.parse("a > 100")) for k in range(5)]
    space = Space.bind([Parameter("a", Kind.INTEGER, range(20), 0), *quiet])
    assert space.cardinality > 10**8
    np.testing.assert_array_equal(np.sort(Pool(space).levels[:, 0]), np.arange(20))


def test_subsampling_keeps_the_best_and_the_breadth():
    cost = np.random.default_rng(0).permutation(1000).astype(float)
    cost[::10] = np.nan
    kept = subsample(cost, 100)
    assert len(kept) == len(set(kept)) == 100
    best = np.argsort(cost)[:50]
    assert set(best) <= set(kept)
    assert cost[kept].max() == np.nanmax(cost)
    np.testing.assert_array_equal(subsample(cost, 5000), np.flatnonzero(~np.isnan(cost)))


@pytest.mark.slow
@pytest.mark.parametrize("search_rule", ["auto", "exhaustive", "screened"])
def test_same_question_same_answer(search_rule):
    past = random_history(GRID, 12)
    answers = [make_sampler("auto", {"search": search_rule}).ask(GRID, past, sampler_rng(7, 12), 2) for _ in range(2)]
    assert answers[0] == answers[1]
