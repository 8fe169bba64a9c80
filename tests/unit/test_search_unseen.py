"""What was asked for is never asked for again, to the last configuration of a space."""

from __future__ import annotations

import numpy as np
import pytest

from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Space
from stripewise.errors import UserError
from stripewise.search.base import Seen
from stripewise.search.belief.kernel import neighbours
from stripewise.search.samplers.nonadaptive import shuffle_places
from stripewise.testing.samplers import sample_spaces


def nothing(space):
    return Seen(space, np.empty((0, len(space.parameters)), dtype=np.int64))


@pytest.mark.parametrize("name", ["constrained", "conditional", "one parameter", "one configuration"])
def test_draw_reaches_everything_once(name):
    space = sample_spaces()[name]
    seen = nothing(space)
    drawn = []
    while len(points := seen.draw(np.random.default_rng(len(seen)), 7)):
        seen.add(points)
        drawn += [tuple(row) for row in points]
    assert sorted(drawn) == sorted(tuple(row) for row in space.enumerate())


def test_draw_finds_what_sampling_hardly_hits():
    axes = [Parameter(name, Kind.INTEGER, range(100), 7) for name in ("a", "b", "c")]
    space = Space.bind(axes, [Expression.parse("a == 7"), Expression.parse("b == 7"), Expression.parse("c >= 7")])
    points = nothing(space).draw(np.random.default_rng(0), 100)
    assert sorted(points[:, 2]) == list(range(7, 100))


def test_draw_says_why_it_cannot_in_a_grid_too_large_to_list():
    axes = [Parameter(f"a{k}", Kind.INTEGER, range(100), 7) for k in range(6)]
    space = Space.bind(axes, [Expression.parse("a0 == 7 and a1 == 7 and a2 == 7 and a3 == 7")])
    with pytest.raises(UserError, match="hardly any"):
        nothing(space).draw(np.random.default_rng(0), 1)


def test_new_folds_and_keeps_the_first_of_each():
    space = sample_spaces()["conditional"]
    disabled = [2, 0, 0, 0], [2, 5, 7, 0], [2, 3, 3, 1]
    fresh = nothing(space).new(np.array(disabled))
    assert [space.configuration(row)["sieving"] for row in fresh] == [False, True]
    seen = Seen(space, fresh[:1])
    assert len(seen.new(np.array(disabled))) == 1


def test_neighbours_reach_every_value_of_every_axis_and_nothing_inactive():
    space = sample_spaces()["conditional"]
    home = space.levels([space.default])[0]
    reached = neighbours(space, home, np.random.default_rng(0), 4000)
    for axis, size in enumerate(space.shape):
        assert set(reached[:, axis]) == set(range(size)), space.names[axis]
    assert np.all(np.any(reached != home, axis=1)), "a neighbour is another configuration"
    assert np.mean(np.sum(reached != home, axis=1) == 1) > 0.5
    off = space.levels([space.default.with_values(cb_write="disable")])[0]
    assert np.all(neighbours(space, off, np.random.default_rng(0), 500)[:, 1:3] == off[1:3])


def test_neighbours_step_from_one_end_of_a_long_axis_to_the_other():
    space = Space.bind([Parameter("a", Kind.INTEGER, range(1000), 0)])
    for home, end in ((0, 999), (999, 0)):
        steps = neighbours(space, np.array([home]), np.random.default_rng(0), 100_000)[:, 0]
        assert end in steps
        assert np.median(np.abs(steps - home)) < 100, "short steps are likelier"


def test_nothing_is_near_a_single_configuration():
    space = sample_spaces()["one configuration"]
    assert len(neighbours(space, np.array([0]), np.random.default_rng(0), 5)) == 0


@pytest.mark.parametrize("size", [1, 2, 3, 16, 17, 1000, 65_537])
def test_shuffled_is_a_permutation_that_depends_on_the_seed(size):
    places = np.arange(size)
    order = shuffle_places(places, size, seed=3)
    assert sorted(order) == list(places)
    assert np.array_equal(order[: size // 2], shuffle_places(places[: size // 2], size, seed=3))
    if size > 100:
        assert not np.array_equal(order, shuffle_places(places, size, seed=4))
        assert abs(np.corrcoef(places, order)[0, 1]) < 0.15
