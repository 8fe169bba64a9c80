"""Costs and beliefs: what the objective becomes, how noise is learned, and that luck is discounted."""

from __future__ import annotations

import numpy as np
import pytest

from stripewise.catalogue.expression import Expression
from stripewise.catalogue.space import Knowledge, Space
from stripewise.search.belief.belief import knowledge_prior
from stripewise.search.belief.costs import Costs, CostScale
from stripewise.search.belief.posterior import TYPICAL_NOISE, Posterior, learn_noise, rank_trials
from stripewise.trial import History, Phase
from tests.unit.search_histories import BANDWIDTH, LINE, history, run, trial


def test_costs_are_logarithms_and_smaller_is_better():
    assert Costs.of(history(1.0, np.e)).cost == pytest.approx([0, 1])
    assert Costs.of(history(1.0, np.e, objective=BANDWIDTH)).cost == pytest.approx([0, -1])


def test_costs_of_every_state():
    costs = Costs.of(history((1.0, 4.0, 2.0), "failed", "pending", "running", "pruned 8", (2.0, "pruned 8", 2.0)))
    assert costs.cost == pytest.approx([np.log(2), *[np.nan] * 4, np.log(2)], nan_ok=True)
    assert list(costs.failed) == [False, True, False, False, False, False]
    assert list(costs.open) == [False, False, True, True, False, False]
    assert costs.bound[4] == pytest.approx(np.log(8))
    assert list(costs.runs) == [3, 0, 0, 0, 1, 3]
    assert costs.known == pytest.approx([np.log(2), *[np.nan] * 3, np.log(8), np.log(2)], nan_ok=True)


def test_what_often_fails_costs_nearly_as_many_times_as_it_takes_to_work_once_and_one_failure_costs_little():
    costs = Costs.of(history((3.0, "failed"), 3.0, tuple([3.0, "failed"] * 30)))
    once, often = costs.cost[[0, 2]] - costs.cost[1]
    assert once == pytest.approx(np.log(6 / 5))
    assert often == pytest.approx(np.log(64 / 34))


def test_warmup_and_confirmation_teach_nothing():
    search = trial(0, 5.0)
    taught = History(
        BANDWIDTH,
        (
            type(search)(
                0,
                search.configuration,
                runs=(run(1, 0, 1.0, Phase.WARMUP), *search.runs, run(2, 0, 900.0, Phase.CONFIRMATION)),
            ),
        ),
    )
    assert Costs.of(taught).cost == pytest.approx([-np.log(5)])


@pytest.mark.parametrize("values", [(-3.0, 1.0, 5.0), (0.0, 1.0, 2.0), (0.0, 0.0, 0.0)])
def test_values_without_logarithm_keep_their_order(values):
    cost = Costs.of(history(*values)).cost
    assert np.all(np.isfinite(cost))
    assert list(np.argsort(cost, kind="stable")) == [0, 1, 2]
    assert CostScale.of(history(*values, objective=BANDWIDTH)).sign == -1


def test_noise_is_typical_without_repeats_and_learned_from_them():
    assert learn_noise(history(1.0, 2.0)) == pytest.approx(TYPICAL_NOISE)
    rng = np.random.default_rng(0)
    for true in (0.02, 0.3):
        repeats = [tuple(np.exp(rng.normal(0, true, size=4)) * 10**k) for k in range(10)]
        assert learn_noise(history(*repeats)) == pytest.approx(true, rel=0.25)


def test_one_silent_pair_is_no_proof_of_silence_but_exact_repeats_are():
    assert learn_noise(history((1.0, 1.0001))) > TYPICAL_NOISE / 2
    assert learn_noise(history((1.0, 1.0), (3.0, 3.0))) == pytest.approx(1e-3)


def test_posterior_shrinks_single_runs_more_than_repeated_ones():
    posterior = Posterior.of(history(0.80, (0.82, 0.80, 0.81, 0.82, 0.83), 1.0, 1.1, 1.2, 1.1, 0.95, 1.05))
    assert posterior.sd[0] > 1.5 * posterior.sd[1]
    assert posterior.mean[0] > np.log(0.80)


def test_recommendation_prefers_the_proven_to_the_lucky():
    lucky, proven = 0.80, (0.75, 0.90, 0.82, 0.74, 0.90)
    seen = history(1.0, 1.1, lucky, proven, 1.2, 1.1, 0.95, 1.05, "failed", "pending", "pruned 9")
    assert min(seen.finished, key=lambda trial: trial.value).number == 2
    order = [t.number for t in rank_trials(seen)]
    assert order[0] == 3
    assert sorted(order) == list(range(8))


def test_recommendation_of_nothing_is_empty():
    assert rank_trials(history()) == []
    assert rank_trials(history("failed", "pending")) == []


def test_knowledge_adds_the_logarithms_of_gains_whose_condition_holds():
    knowledge = (
        Knowledge(Expression.parse("a >= 50"), 2.0, "test"),
        Knowledge(Expression.parse("b == 3"), 0.5, "test"),
        Knowledge(Expression.parse("ranks > 1"), 3.0, "test"),
    )
    space = Space.bind(LINE.parameters, context={"ranks": 4}, knowledge=knowledge)
    assert knowledge_prior(space, np.array([[0, 0], [60, 0], [60, 3]])) == pytest.approx(np.log([3, 6, 3]))
    assert list(knowledge_prior(LINE, np.zeros((2, 2), dtype=np.int64))) == [0, 0]
