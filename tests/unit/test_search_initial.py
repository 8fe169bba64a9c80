"""Plans use every axis evenly, keep to the rules of the space, and can be filled up point by point."""

from __future__ import annotations

import numpy as np
import pytest

from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import parse_stack
from stripewise.search.base import Seen
from stripewise.search.belief.kernel import embed, squared_distances
from stripewise.search.samplers.initial import complete_plan, next_switch
from stripewise.testing.samplers import sample_spaces

GRID = Space.bind([Parameter(f"axis{k}", Kind.INTEGER, range(size), 0) for k, size in enumerate((8, 4, 2, 40))])
EMPTY = np.empty((0, 4), dtype=np.int64)


def uses(space, levels):
    return [np.bincount(column, minlength=size) for column, size in zip(levels.T, space.shape, strict=True)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1, 2, 7, 8, 16, 19])
def test_latin_hypercube_uses_values_evenly(size, seed):
    points = complete_plan("latin_hypercube", GRID, Seen(GRID, EMPTY), np.random.default_rng(seed), size=size, n=size)
    assert len(points) == size
    for counts in uses(GRID, points):
        assert counts.max() - counts.min() <= 1


def test_latin_hypercube_takes_one_value_of_each_range_of_a_long_axis():
    points = complete_plan("latin_hypercube", GRID, Seen(GRID, EMPTY), np.random.default_rng(0), size=10, n=10)
    assert sorted(points[:, 3] // 4) == list(range(10))


@pytest.mark.parametrize("step", [1, 3])
def test_plan_filled_up_in_steps_is_as_even(step):
    seen = Seen(GRID, GRID.levels([GRID.default]))
    while len(
        points := complete_plan("latin_hypercube", GRID, seen, np.random.default_rng(len(seen)), size=16, n=step)
    ):
        seen.add(points)
    assert len(seen) == 16
    for counts in uses(GRID, seen.levels)[:3]:
        assert counts.max() - counts.min() <= 1


def test_latin_hypercube_is_spread_wider_than_random_points():
    def nearest(plan, seed):
        points = complete_plan(plan, GRID, Seen(GRID, EMPTY), np.random.default_rng(seed), size=12, n=12)
        squares = squared_distances(embed(GRID, points), embed(GRID, points)) + np.diag(np.full(12, np.inf))
        return np.sqrt(squares.min())

    planned = [nearest("latin_hypercube", seed) for seed in range(15)]
    drawn = [nearest("random", seed) for seed in range(15)]
    assert np.median(planned) > 1.5 * np.median(drawn)


def test_hybrid_does_not_collapse_on_the_shortest_axis_then_goes_on_at_random():
    points = [
        complete_plan("hybrid", GRID, Seen(GRID, EMPTY), np.random.default_rng(seed), size=10, n=10)
        for seed in range(20)
    ]
    for plan in points:
        assert len(plan) == 10
        for column in plan[:2].T:
            assert column[0] != column[1]
    assert any(len(set(plan[:4, 1])) < 4 for plan in points), "beyond two points, the axis of four values is left alone"


@pytest.mark.parametrize("plan", ["random", "latin_hypercube", "hybrid"])
@pytest.mark.parametrize("name", sample_spaces())
def test_plans_keep_to_the_rules_of_the_space(plan, name):
    space = sample_spaces()[name]
    seen = Seen(space, space.levels([space.default]))
    points = complete_plan(plan, space, seen, np.random.default_rng(1), size=9, n=8)
    assert len(points) == min(8, space.count()[0] - 1)
    assert np.array_equal(space.fold(points), points)
    assert space.feasible(points).all()
    assert len({tuple(row) for row in [*points, *seen.levels]}) == len(points) + 1


def test_plan_gives_no_more_than_it_lacks():
    seen = Seen(GRID, GRID.levels([GRID.default]))
    assert len(complete_plan("latin_hypercube", GRID, seen, np.random.default_rng(0), size=3, n=10)) == 2
    assert len(complete_plan("random", GRID, seen, np.random.default_rng(0), size=1, n=10)) == 0


def test_tight_constraints_leave_a_full_plan():
    axes = [Parameter(name, Kind.INTEGER, range(12), 0) for name in ("a", "b", "c")]
    space = Space.bind(axes, [Expression.parse("a <= b"), Expression.parse("b <= c")])
    points = complete_plan("latin_hypercube", space, Seen(space, EMPTY[:, :3]), np.random.default_rng(0), size=20, n=20)
    assert len({tuple(row) for row in points}) == 20
    assert space.feasible(points).all()
    assert len(set(points[:, 1])) >= 9


def test_positions_follow_the_scale():
    size = Parameter("size", Kind.ORDINAL, (1, 2, 4, 16), 1, scale=Scale.LOG2)
    choice = Parameter("choice", Kind.CATEGORICAL, ("a", "b", "c"), "a")
    space = Space.bind([size, choice])
    points = embed(space, np.array([[0, 0], [2, 0], [3, 0], [3, 1], [3, 2]]))
    distance = np.sqrt(squared_distances(points, points))
    assert distance[0, 1] == pytest.approx(0.5)
    assert distance[0, 2] == pytest.approx(1.0)
    assert distance[2, 3] == distance[2, 4] == distance[3, 4] == pytest.approx(1.0)


def test_unset_lies_one_step_below_the_sizes():
    unset = Parameter("unset", Kind.ORDINAL, (0, 4, 8, 32), 0, scale=Scale.LOG2)
    space = Space.bind([unset])
    assert embed(space, np.arange(4)[:, None])[:, 0] == pytest.approx([0.0, 0.25, 0.5, 1.0])
    only = Parameter("only", Kind.ORDINAL, (0, 4), 0, scale=Scale.LOG2)
    assert embed(Space.bind([only]), np.arange(2)[:, None])[:, 0] == pytest.approx([0.0, 1.0])


# -- strong switches

STACK = """
name = "s"
constraint = ["writers != 7"]
[[parameter]]
name = "buffering"
kind = "categorical"
values = ["auto", "on", "off"]
switch = ["on", "off", "gone"]
[[parameter]]
name = "writers"
kind = "integer"
low = 1
high = 7
default = 2
switch = ["lowest", "highest"]
active_if = "buffering != 'off'"
[[parameter]]
name = "sieving"
kind = "boolean"
default = true
switch = [false]
active_if = "buffering == 'off'"
[[parameter]]
name = "size"
kind = "ordinal"
unit = "B"
values = ["1 KiB", "2 KiB", "4 KiB"]
switch = ["4 KiB"]
"""


def switched(prior=None, *, trusted=False):
    stack = parse_stack(STACK, "s.toml")
    space = Space.bind(stack.parameters, stack.constraints)
    seen = Seen(space, space.levels([space.default]))
    found = []
    while len(point := next_switch(space, seen, prior, trusted=trusted)):
        seen.add(point)
        found.append(tuple(space.configuration(point[0]).values()))
    return found


def test_strong_switches_are_covered_in_as_few_points_as_possible_where_they_act():
    # The number of writers is switched where buffering is on for certain, and sieving where it acts at all.
    assert switched() == [("on", 1, True, 4096), ("off", 2, False, 1024), ("on", 6, True, 1024)]


def test_a_trusted_prior_replaces_only_the_switches_that_it_tells_apart():
    def prior(space, levels):
        return 0.1 * levels[:, 1]

    assert switched(prior, trusted=True) == [("off", 2, False, 4096), ("on", 6, True, 1024)]
    assert {writers for _, writers, _, _ in switched(prior)} == {1, 2, 6}


def test_a_plan_begins_with_the_strong_switches():
    space = Space.bind(parse_stack(STACK.replace("constraint", "# "), "s.toml").parameters)
    seen = Seen(space, space.levels([space.default]))
    points = complete_plan("latin_hypercube", space, seen, np.random.default_rng(0), size=6, n=5)
    assert [p[0] for p in points[:3]] == [1, 2, 1]
    assert len(points) == 5
