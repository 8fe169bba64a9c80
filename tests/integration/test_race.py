"""Races on tables: recorded noise, the record of an episode, determinism."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmarks.search.transfer import prior_of_others

from stripewise.engine.race import DRIFTS, Recorded, contestant, guest, planted_drift, play, race
from stripewise.errors import UserError
from stripewise.models.landscape import Landscape
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table
from stripewise.search.base import sampler_rng


def table(repeats=4):
    schema = Schema(
        name="hills",
        objective=ObjectiveColumn(direction="minimize", unit="s"),
        parameter=[Column(name=name, kind="ordinal", values=list(range(12)), default=0) for name in ("a", "b")],
    )
    rng = sampler_rng(1, 0)
    rows = [
        {"a": a, "b": b, "repeat": k, "objective": (1 + (a - 7) ** 2 + (b - 3) ** 2) * (1 + 0.05 * rng.random())}
        for a in range(12)
        for b in range(12)
        for k in range(repeats)
    ]
    return make_table(schema, rows)


@pytest.fixture(scope="module")
def landscape():
    return Landscape.of(table())


def test_recorded_runs_are_dealt_once_each_and_then_again(landscape):
    one, other = Recorded(landscape, 3), Recorded(landscape, 3)
    configuration = {"a": 4, "b": 4}
    dealt = [one.run(configuration) for _ in range(8)]
    point = one.point(configuration)
    assert sorted(dealt[:4]) == sorted(dealt[4:]) == sorted(landscape.runs(point))
    other.run({"a": 1, "b": 1})
    assert [other.run(configuration) for _ in range(8)] == dealt


def test_what_was_not_measured_cannot_be_run(landscape):
    partly = Landscape.of(landscape.table.take(landscape.table.levels[:, 0] != 5))
    with pytest.raises(UserError, match="was not measured"):
        Recorded(partly, 0).run({"a": 5, "b": 0})


@pytest.mark.parametrize("sampler", ["random", "auto"])
def test_episode_reports_true_values(landscape, sampler):
    episode = play(landscape, sampler, contestant(sampler), budget=15, seed=2)
    assert len(episode.evaluations) == len(episode.trajectory) == 15
    assert set(episode.evaluations) <= set(landscape.truth)
    assert set(episode.trajectory) <= set(episode.evaluations)
    assert episode.optimum == landscape.optimum
    reached = [n for n, value in enumerate(episode.evaluations, 1) if landscape.closed(value) >= 0.95]
    assert episode.runs_to_within_5_percent == (reached[0] if reached else None)
    keys = {
        "table", "context", "sampler", "seed", "evaluations", "trajectory", "optimum", "runs_to_within_5_percent",
        "ask_seconds", "drift",
    }  # fmt: skip
    assert set(json.loads(json.dumps(episode.as_json()))) == keys


def test_episode_follows_from_its_seed(landscape):
    first, again, other = (play(landscape, "auto", contestant("auto"), budget=12, seed=s) for s in (5, 5, 6))
    assert first.evaluations == again.evaluations
    assert first.trajectory == again.trajectory
    assert first.evaluations != other.evaluations


def test_small_space_ends_the_search_early(landscape):
    small = Landscape.of(landscape.table.take((landscape.table.levels < 2).all(axis=1)))
    episode = play(small, "random", contestant("random", resampling={"kind": "none"}), budget=40, seed=0)
    assert len(episode.evaluations) == 4


def test_prior_is_used(landscape):
    def informed(landscape):
        def mean(space, levels):
            return -abs(levels[:, 0] - 7.0) - abs(levels[:, 1] - 3.0)

        return mean

    episode = play(landscape, "auto", contestant("auto", prior=informed), budget=4, seed=0)
    assert episode.runs_to_within_5_percent is not None


def workloads():
    """The best place of the hills moves slowly with the size of the workload, and its level a lot."""
    axes = [Column(name=name, kind="ordinal", values=list(range(12)), default=0) for name in ("a", "b")]
    schema = Schema(
        name="workloads",
        objective=ObjectiveColumn(direction="minimize", unit="s"),
        parameter=axes,
        context=[Column(name="size", kind="ordinal", values=[1, 2, 3, 4])],
    )
    rows = [
        {"size": size, "a": a, "b": b, "objective": 10**size * (1 + (a - 5 - size) ** 2 + (b - 3) ** 2)}
        for size in (1, 2, 3, 4)
        for a in range(12)
        for b in range(12)
    ]
    return make_table(schema, rows)


def test_prior_never_sees_its_own_context():
    measured = workloads()
    landscape = Landscape.of(measured, {"size": 2})
    points = landscape.space.points
    before = prior_of_others(measured)(landscape)(landscape.space, points)
    changed = Table(
        measured.schema,
        measured.levels,
        measured.context_levels,
        measured.repeats,
        np.where(measured.of({"size": 2}), 1.0, measured.values),
    )
    np.testing.assert_array_equal(before, prior_of_others(changed)(landscape)(landscape.space, points))


def test_prior_needs_other_contexts(landscape):
    with pytest.raises(UserError, match="one context only"):
        prior_of_others(landscape.table)


def test_race_goes_over_contexts_samplers_and_seeds(landscape):
    told = []
    names = {name: contestant(name) for name in ("random", "genetic")}
    episodes = race([landscape.table], names, budget=3, seeds=2, progress=lambda *n: told.append(n))
    assert [(e.sampler, e.seed) for e in episodes] == [("random", 0), ("random", 1), ("genetic", 0), ("genetic", 1)]
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_wrong_names_are_refused_before_the_race():
    with pytest.raises(UserError, match="unknown sampler"):
        contestant("nonesuch")
    with pytest.raises(UserError, match="no option"):
        contestant("auto", {"speed": 3})
    with pytest.raises(UserError, match="at least one run"):
        race([], {}, budget=0, seeds=1)


@pytest.mark.parametrize("kind", DRIFTS)
def test_planted_drift_is_at_most_a_factor_of_two_and_the_same_for_all(kind):
    slower = planted_drift(kind, 40, 3)
    assert len(slower) == 40
    assert slower.min() == pytest.approx(1, abs=0.05)
    assert slower.max() == 2
    assert list(slower) == list(planted_drift(kind, 40, 3))


class Watcher:
    """Runs one configuration all the time and notes what it sees."""

    def __init__(self, landscape):
        self.chosen = landscape.space.default
        self.seen = []

    def propose(self):
        return self.chosen

    def observe(self, configuration, value):
        self.seen.append(value)

    def incumbent(self):
        return self.chosen


def test_drift_changes_what_is_seen_and_not_what_is_true(landscape):
    calm, moved = Watcher(landscape), Watcher(landscape)
    truth = play(landscape, "calm", guest(lambda *_: calm), budget=6, seed=0).evaluations
    episode = play(landscape, "moved", guest(lambda *_: moved), budget=6, seed=0, drift="ramp")
    assert np.array(moved.seen) / calm.seen == pytest.approx(planted_drift("ramp", 6, 0))
    assert episode.evaluations == truth
    assert episode.drift == "ramp"
