"""The Gaussian processes: gradient, positive definiteness, learned noise and relevance, averaging."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Space
from stripewise.search.belief.gp import (
    GaussianProcess,
    Hyperprior,
    ModelAverage,
    NegativeLogPosterior,
    Observations,
    find_most_probable,
    fit,
)
from stripewise.search.belief.kernel import DECAYS, Decay, Geometry, with_inactive

SPACE = Space.bind(
    [
        Parameter("mode", Kind.CATEGORICAL, ("on", "off", "auto"), "on"),
        Parameter(
            "size",
            Kind.ORDINAL,
            tuple(2**k for k in range(12)),
            1,
            scale=Scale.LOG2,
            active_if=Expression.parse("mode != 'off'"),
        ),
        Parameter("count", Kind.INTEGER, range(1, 1001), 1),
        Parameter("dead", Kind.BOOLEAN, (False, True), False),
        Parameter("fixed", Kind.ORDINAL, (5,), 5),
    ]
)
GEOMETRY = Geometry(SPACE)


def data(n, seed=0, noise=0.1, runs=1):
    rng = np.random.default_rng(seed)
    levels = SPACE.sample(rng, n)
    truth = 0.7 * (levels[:, 0] == 1) + 0.05 * levels[:, 1]
    cost = truth + noise / np.sqrt(runs) * rng.standard_normal(n)
    return levels, truth, Observations(GEOMETRY.knots(levels), cost - cost.mean(), np.full(n, 1 / runs), np.zeros(n))


@pytest.mark.slow
@pytest.mark.parametrize("decay", DECAYS)
def test_gradient_is_that_of_the_value(decay: Decay):
    _, _, known = data(20)
    known = Observations(known.knots, known.cost, known.variance, known.cost * 0.3, squares=0.2, freedom=7)
    posterior = NegativeLogPosterior(GEOMETRY, known, Hyperprior(), 0.5, decay)
    rng = np.random.default_rng(1)
    for _ in range(3):
        vector = posterior.mean + 0.5 * rng.standard_normal(len(posterior.mean))
        numeric = approx_fprime(vector, lambda t: posterior(t)[0], 1e-6)
        np.testing.assert_allclose(posterior(vector)[1], numeric, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("decay", DECAYS)
def test_correlations_stay_positive_definite_with_inactive_parameters(decay: Decay):
    for axis in GEOMETRY.axes:
        table = with_inactive(decay(axis.distance, 0.7)[0])
        assert np.linalg.eigvalsh(table).min() > -1e-9
        assert np.allclose(table, table.T)


def test_inactive_parameters_contribute_nothing():
    off = SPACE.levels([{"mode": "off", "size": size, "count": 7, "dead": False, "fixed": 5} for size in (1, 64, 2048)])
    assert len(np.unique(GEOMETRY.knots(off), axis=0)) == 1
    on = SPACE.levels([{"mode": "on", "size": size, "count": 7, "dead": False, "fixed": 5} for size in (1, 64)])
    assert len(np.unique(GEOMETRY.knots(on), axis=0)) == 2


def test_many_valued_axis_is_thinned_to_knots():
    count = GEOMETRY.axes[2]
    assert len(count.distance) <= 256
    assert count.knot.max() == len(count.distance) - 1
    assert np.all(np.diff(count.knot) >= 0)


@pytest.mark.slow
def test_predicts_what_it_has_not_seen():
    _, _, known = data(60)
    process = fit(GEOMETRY, known)
    levels, truth, _ = data(300, seed=9)
    mean, sd = process.predict(GEOMETRY.knots(levels), np.zeros(300))
    assert np.corrcoef(mean, truth)[0, 1] > 0.85
    assert np.all(sd > 0)


@pytest.mark.slow
def test_noise_is_learned_from_repeats():
    _, _, known = data(30, noise=0.02)
    loud = Observations(known.knots, known.cost, known.variance, known.prior, squares=40 * 0.3**2, freedom=40)
    quiet = Observations(known.knots, known.cost, known.variance, known.prior, squares=40 * 0.01**2, freedom=40)
    assert fit(GEOMETRY, loud).noise == pytest.approx(0.3, rel=0.3)
    assert fit(GEOMETRY, quiet).noise == pytest.approx(0.01, rel=0.5)


def test_prediction_matches_the_textbook():
    _, _, known = data(15)
    process = fit(GEOMETRY, known)
    more = GEOMETRY.knots(data(5, seed=4)[0])
    both = np.concatenate([known.knots, more])
    silent = Observations(both, np.zeros(20), np.zeros(20), np.zeros(20))
    # The prior covariance of all points, from a process that knows only that its amplitude and level are the same.
    whole = GaussianProcess(GEOMETRY, silent, process.hyperparameters, 0.0)._cov_f_y(both, np.zeros(20)) + float(
        np.var(known.cost)
    )
    own = process.hyperparameters.residue_variance
    k = whole[:15, :15] + np.diag(own + process.noise**2 * known.variance)
    c, o = whole[15:, :15], np.diag(whole)[15:] + own
    mean, sd = process.predict(more, np.zeros(5))
    np.testing.assert_allclose(mean, c @ np.linalg.solve(k, known.cost), atol=1e-5)
    np.testing.assert_allclose(sd**2, o - np.einsum("ij,ij->i", c, np.linalg.solve(k, c.T).T), atol=1e-5)


@pytest.mark.slow
def test_residue_is_kept_and_noise_is_not():
    _, _, known = data(15)
    process = fit(GEOMETRY, known)
    assert np.std(process.fitted()) < np.std(known.cost)
    # Repeats that agree leave nothing to noise: then what was seen is the truth, however odd.
    exact = Observations(known.knots, known.cost, known.variance, known.prior, squares=0.0, freedom=50)
    np.testing.assert_allclose(fit(GEOMETRY, exact).fitted(), known.cost, atol=0.02)


def test_left_out_prediction_is_that_without_the_observation():
    _, _, known = data(12)
    process = fit(GEOMETRY, known)
    mean, sd = process.leave_one_out()
    rest = np.arange(12) != 5
    part = Observations(known.knots[rest], known.cost[rest], known.variance[rest], known.prior[rest])
    without = GaussianProcess(GEOMETRY, part, process.hyperparameters, process.trust)
    without._spread = process._spread
    expected, deviation = without.predict(known.knots[[5]], known.prior[[5]])
    assert mean[5] == pytest.approx(expected[0], abs=0.02)
    assert sd[5] == pytest.approx(np.hypot(deviation[0], process.noise), rel=0.05)


@pytest.mark.slow
def test_wrong_prior_is_recovered_from():
    levels, truth, known = data(60, noise=0.02)
    wrong = Observations(known.knots, known.cost, known.variance, -3 * (truth - truth.mean()))
    process = fit(GEOMETRY, wrong)
    mean, _ = process.predict(GEOMETRY.knots(levels), wrong.prior)
    assert np.corrcoef(mean, truth)[0, 1] > 0.9


def smooth_and_stepped():
    """Costs along the integers: one that rises evenly, and one whose steps follow no slope."""
    numbers = np.arange(0, 1000, 40)
    levels = np.zeros((len(numbers), 5), dtype=np.int64)
    levels[:, 2] = numbers
    even = 2e-3 * numbers
    stepped = np.random.default_rng(5).normal(0, 0.7, len(numbers)).cumsum() / 2
    nothing = np.zeros(len(numbers))
    return [Observations(GEOMETRY.knots(levels), cost - cost.mean(), nothing + 1, nothing) for cost in (even, stepped)]


@pytest.mark.slow
def test_the_decay_that_explains_the_data_counts_more():
    for known, likely in zip(smooth_and_stepped(), reversed(DECAYS), strict=True):
        found = {decay: find_most_probable(GEOMETRY, known, decay=decay) for decay in DECAYS}
        assert max(found, key=lambda decay: found[decay][1]) is likely


@pytest.mark.slow
def test_the_average_includes_the_variance_between_processes():
    _, _, known = data(30)
    one, other = (
        GaussianProcess(GEOMETRY, known, find_most_probable(GEOMETRY, known, decay=decay)[0], 0.5, decay)
        for decay in DECAYS
    )
    both = ModelAverage.of([one, other], [np.log(0.6) - 40, np.log(0.2) - 40])
    np.testing.assert_allclose(both.weights, [0.75, 0.25])
    knots, prior = GEOMETRY.knots(data(40, seed=3)[0]), np.zeros(40)
    (m, s), (n, t), (mean, sd) = (process.predict(knots, prior) for process in (one, other, both))
    np.testing.assert_allclose(mean, 0.75 * m + 0.25 * n)
    np.testing.assert_allclose(mean, both.mean(knots, prior))
    np.testing.assert_allclose(sd**2, 0.75 * s**2 + 0.25 * t**2 + 0.75 * 0.25 * (m - n) ** 2)
    np.testing.assert_allclose(both.fitted(), 0.75 * one.fitted() + 0.25 * other.fitted())
    more = Observations(knots[:5], np.zeros(5), np.ones(5), np.zeros(5))
    np.testing.assert_allclose(
        both.conditioned(more).mean(knots, prior),
        0.75 * one.conditioned(more).mean(knots, prior) + 0.25 * other.conditioned(more).mean(knots, prior),
    )
    # What is hardly probable is not worth the time.
    assert ModelAverage.of([one, other], [0.0, -5.0]).processes == (one,)


def test_one_observation_is_enough():
    _, _, known = data(1)
    mean, sd = fit(GEOMETRY, known).predict(known.knots, known.prior)
    assert np.isfinite(mean).all()
    assert np.isfinite(sd).all()
