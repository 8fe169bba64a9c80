"""Spaces: folding, constraints, enumeration and sampling against brute force."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter, Safety, Scale
from stripewise.catalogue.space import Space
from stripewise.errors import UserError
from stripewise.requests.objective import Objective
from stripewise.search.base import make_sampler
from stripewise.trial import History
from tests.conftest import examples

VALUES = [0, 1, 2, 3]


def ordinal(name: str, n: int, active: str | None = None, same: str | None = None, default: int = 0) -> Parameter:
    return Parameter(
        name,
        Kind.ORDINAL,
        tuple(VALUES[:n]),
        default,
        active_if=active and Expression.parse(active),
        same_as_default=same and Expression.parse(same),
    )


@st.composite
def spaces(draw) -> Space:
    """Spaces of up to four parameters, whose conditions name any other parameter (never in a cycle) and themselves."""
    names = draw(st.permutations("abcd"))[: draw(st.integers(1, 4))]
    parameters = []
    for index, name in enumerate(names):
        n = draw(st.integers(1, 4))
        earlier = st.sampled_from(names[:index]) if index else st.nothing()
        condition = st.tuples(earlier, st.sampled_from(["==", "!=", "<", ">="]), st.sampled_from("0123")).map(" ".join)
        either = st.lists(condition, min_size=1, max_size=2).map(" or ".join)
        active = draw(st.none() | either) if index else None
        synonym = st.tuples(st.just(name), st.sampled_from([">", "=="]), st.sampled_from("123")).map(" ".join)
        same = draw(st.none() | synonym)
        parameters.append(ordinal(name, n, active, same, draw(st.sampled_from(VALUES[:n]))))
    shuffled = draw(st.permutations(parameters))
    limits = [f"{a} + {b} <= {draw(st.integers(3, 6))}" for a, b in itertools.pairwise(names) if draw(st.booleans())]
    try:
        return Space.bind(shuffled, [Expression.parse(text) for text in limits])
    except UserError:  # the default breaks a limit
        return Space.bind(shuffled)


def fold_by_hand(space: Space, values: dict[str, int]) -> dict[str, int]:
    """Fold one configuration: each parameter after those that its conditions name."""
    result: dict[str, int] = {}

    def settle(name: str) -> None:
        parameter = space[name]
        conditions = [c for c in (parameter.active_if, parameter.same_as_default) if c is not None]
        for other in set().union(*(c.names for c in conditions)) - {name}:
            if other not in result:
                settle(other)
        seen = {**result, name: values[name]}
        active = parameter.active_if is None or parameter.active_if(seen)
        same = parameter.same_as_default is not None and parameter.same_as_default(seen)
        result[name] = values[name] if active and not same else parameter.default

    for name in space.names:
        if name not in result:
            settle(name)
    return result


def grid(space: Space) -> list[dict[str, int]]:
    return [
        dict(zip(space.names, row, strict=True)) for row in itertools.product(*(p.values for p in space.parameters))
    ]


@given(spaces())
def test_folding_is_idempotent_and_right(space):
    rows = grid(space)
    levels = np.concatenate([space._encode(row) for row in rows])
    folded = space.fold(levels)
    assert np.array_equal(space.fold(folded), folded)
    for row, found in zip(rows, folded, strict=True):
        assert space.configuration(found) == fold_by_hand(space, row)


@given(spaces())
def test_enumeration_equals_brute_force(space):
    wanted = set()
    for row in grid(space):
        folded = fold_by_hand(space, row)
        if all(constraint(folded) for constraint in space.constraints):
            wanted.add(Configuration(folded))
    found = [space.configuration(row) for row in space.enumerate()]
    assert len(found) == len(set(found))
    assert set(found) == wanted
    assert space.count() == (len(wanted), True)
    assert space.default in wanted or space.canonical(space.default) in wanted


@given(spaces())
def test_live_parameters_are_those_that_vary(space):
    varying = {name for row in grid(space) for name, v in fold_by_hand(space, row).items() if v != space[name].default}
    assert space.live == varying


@given(spaces(), st.integers(0, 2**32))
@settings(max_examples=examples(50))
def test_samples_are_canonical_and_feasible(space, seed):
    levels = space.sample(np.random.default_rng(seed), 20)
    assert levels.shape == (20, len(space.names))
    assert np.array_equal(space.fold(levels), levels)
    assert space.feasible(levels).all()
    every = {space.configuration(row) for row in space.enumerate()}
    assert {space.configuration(row) for row in levels} <= every


@given(spaces())
def test_numbers_of_grid_points_go_both_ways(space):
    numbers = np.arange(space.cardinality)
    levels = space.unflat(numbers)
    assert np.array_equal(space.flat(levels), numbers)
    decoded = [space.configuration(row) for row in levels]
    assert np.array_equal(np.concatenate([space._encode(row) for row in decoded]), levels)


def test_points_of_more_than_64_parameters_have_numbers() -> None:
    shape = (1,) * 60 + (3, 2, 5, 1, 4)
    kinds = [Parameter(f"p{i}", Kind.ORDINAL, tuple(range(size)), 0) for i, size in enumerate(shape)]
    space = Space(kinds)
    assert np.array_equal(space.flat(space.unflat(np.arange(120))), np.arange(120))
    assert space.count() == (120, True)
    (first,) = make_sampler("exhaustive").ask(
        space, History(Objective("elapsed", "s", "minimize")), np.random.default_rng(0), 1
    )
    assert len(first.configuration) == len(shape)


def test_an_exhaustive_search_of_too_much_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("stripewise.search.samplers.nonadaptive._MOST_WALKED", 2000)
    for count, constraints, says in ((98, "", "cannot be walked"), (6, "p0 + p1 + p2 + p3 + p4 + p5 == 0", "in turn")):
        kinds = [Parameter(f"p{i}", Kind.ORDINAL, tuple(range(100)), 0) for i in range(count)]
        space = Space(kinds, [Expression.parse(constraints)] if constraints else [])
        with pytest.raises(UserError, match=says):
            make_sampler("exhaustive").ask(
                space, History(Objective("elapsed", "s", "minimize")), np.random.default_rng(0), 1
            )


@given(spaces())
def test_activity_agrees_with_folding(space):
    levels = space.enumerate()
    active = space.active(levels)
    for row, mask in zip(levels, active, strict=True):
        values = space.configuration(row)
        for parameter, acts in zip(space.parameters, mask, strict=True):
            assert acts == (parameter.active_if is None or bool(parameter.active_if(values)))
            assert acts or values[parameter.name] == parameter.default


def test_several_chunks_lose_nothing():
    size = 3_000
    parameters = [Parameter(n, Kind.INTEGER, range(size if n == "a" else 200), 0) for n in ("a", "b")]
    space = Space.bind(parameters, [Expression.parse("(a + b) % 7 == 0")])
    wanted = sum((a + b) % 7 == 0 for a in range(size) for b in range(200))
    assert space.count() == (wanted, True)
    assert len(np.unique(space.flat(space.enumerate()))) == wanted


def test_counts_of_huge_grids_are_estimated():
    space = Space.bind([Parameter(n, Kind.INTEGER, range(1000), 0) for n in "abc"], [Expression.parse("a <= b")])
    count, exact = space.count()
    assert not exact
    assert count == pytest.approx(500.5e6, rel=0.03)
    with pytest.raises(UserError, match="more than"):
        space.enumerate()


def bad(*parameters: Parameter, constraints: list[str] | None = None, context=None):
    with pytest.raises(UserError) as caught:
        Space.bind(parameters, [Expression.parse(text) for text in constraints or []], context=context)
    return str(caught.value)


def test_what_is_refused():
    assert "two parameters are called a" in bad(ordinal("a", 2), ordinal("a", 3))
    assert "word of the workload" in bad(ordinal("nodes", 2), context={"nodes": 4})
    assert "need one another" in bad(ordinal("a", 2, "b == 1"), ordinal("b", 2, "a == 1"))
    assert "breaks the constraint 'a > 0'" in bad(ordinal("a", 2), constraints=["a > 0"])
    assert "which nothing declares" in bad(ordinal("a", 2), constraints=["a < z"])
    corrupting = Parameter("a", Kind.BOOLEAN, (False, True), False, safety=Safety.CORRUPTING)
    assert "never searched" in bad(corrupting)


def test_impossible_constraints_end_the_sampling():
    space = Space.bind(
        [Parameter(n, Kind.INTEGER, range(10_000), 0) for n in "abc"], [Expression.parse("a + b + c == 0")]
    )
    with pytest.raises(UserError, match="hardly any configuration"):
        space.sample(np.random.default_rng(0), 10)


def test_canonical_names_what_is_wrong():
    space = Space.bind([ordinal("a", 3), ordinal("b", 3)], [Expression.parse("a + b < 4")])
    for values, reason in (
        ({"a": 1}, "no value for b"),
        ({"a": 1, "b": 1, "c": 1}, "no parameter is called c"),
        ({"a": 7, "b": 1}, "a has no value 7"),
        ({"a": "1", "b": 1}, "a has no value '1'"),
        ({"a": 2, "b": 2}, "breaks the constraint"),
    ):
        with pytest.raises(UserError, match=reason):
            space.canonical(values)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"values": ()}, "no values"),
        ({"values": (1, 1)}, "twice"),
        ({"values": (2, 1)}, "ascend"),
        ({"values": ("x", "y"), "default": "x"}, "not a number"),
        ({"values": (-1, 1), "scale": Scale.LOG2, "default": 1}, "log2"),
        ({"values": (1, 2), "default": 3}, "default"),
        ({"name": "a-b"}, "identifier"),
    ],
)
def test_impossible_parameters(arguments, reason):
    with pytest.raises(UserError, match=reason):
        Parameter(**{"name": "a", "kind": Kind.ORDINAL, "values": (1, 2), "default": 1, **arguments})


def test_binding_takes_limits_and_defaults_from_the_workload():
    parameter = Parameter(
        "a",
        Kind.ORDINAL,
        (1, 2, 4, 8),
        1,
        maximum_from=Expression.parse("processes"),
        default_from=Expression.parse("nodes"),
    )
    bound = parameter.bind({"processes": 6, "nodes": 3})
    assert (bound.values, bound.default) == ((1, 2, 3, 4), 3)
    assert bound.bind({"processes": 1, "nodes": 1}) is bound


def test_rules_without_a_table_decide_as_well():
    """A rule over many combinations, and one that cannot be computed for all of them."""
    many = Parameter("many", Kind.INTEGER, range(5000), 0)
    space = Space.bind([many, ordinal("a", 3, active="many >= 4999")], [Expression.parse("many != 7")])
    assert space.fold(np.array([[4998, 2], [4999, 2]])).tolist() == [[4998, 0], [4999, 2]]
    assert space.feasible(np.array([[6, 0], [7, 0]])).tolist() == [True, False]
    space = Space.bind([ordinal("b", 3, default=1), ordinal("a", 3, active="4 / b > 2")])
    assert space.fold(np.array([[1, 2], [2, 2]])).tolist() == [[1, 2], [2, 0]]
    with pytest.raises(UserError, match="divides by zero"):
        space.fold(np.array([[0, 2]]))
