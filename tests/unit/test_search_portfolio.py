"""General knowledge: features by role, the choice, the points of ``auto``, and the file that ships."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stripewise.errors import UserError
from stripewise.model.trees.ensemble import Trees
from stripewise.search.acquisition import Pool
from stripewise.search.auto import AutoSampler
from stripewise.search.portfolio import proposal
from stripewise.search.portfolio.choice import PRIOR_OF_NONE, Advice, choose, resemblance
from stripewise.search.portfolio.features import UNKNOWN, encode, number_of, settings_by_role
from stripewise.search.portfolio.members import Members
from stripewise.search.portfolio.proposal import TAG, propose
from stripewise.search.portfolio.shipped import PLACE, VERSION, parse, shipped, text_of
from stripewise.search.registry import sampler_rng
from stripewise.search.unseen import Seen
from stripewise.spec.expression import Expression
from stripewise.spec.parameter import Kind, Parameter, Scale
from stripewise.spec.space import Knowledge, Space
from stripewise.spec.trial import History
from tests.unit.search_histories import ELAPSED, trial

STRIPES = Parameter("spread", Kind.ORDINAL, (1, 2, 4, 8, 16), 1, scale=Scale.LOG2, role="stripe_count")
BUFFERING = Parameter("romio_cb_write", Kind.CATEGORICAL, ("automatic", "enable", "disable"), "automatic",
                      role="collective_buffering")  # fmt: skip
READING = Parameter("romio_ds_read", Kind.BOOLEAN, (False, True), False, role="data_sieving")
OTHER = Parameter("colour", Kind.INTEGER, range(5), 2)
SPACE = Space.bind([STRIPES, BUFFERING, READING, OTHER])
FACTS = {"operation": "write", "collective": True, "layout": "strided", "nodes": 8, "processes": 64}


def column(role):
    """The place of a role among the features."""
    one, two = (encode(FACTS, "write", {role: np.array([value])}, 1)[0] for value in (3.0, 5.0))
    return int(np.flatnonzero(one != two)[0])


def stump(role, threshold, low, high):
    """A tree that says ``low`` where the role's number is at most the threshold, and else ``high``."""
    arrays = {
        "feature": [column(role), -1, -1], "threshold": [threshold, 0, 0], "left": [1, -1, -1], "right": [2, -1, -1],
        "value": [0, low, high], "gain": [0] * 3, "count": [0] * 3,
    }  # fmt: skip
    return Trees.of([0], {name: np.array(values) for name, values in arrays.items()})


MANY = stump("stripe_count", 2.5, 0.0, 1.0)
FEW = stump("stripe_count", 2.5, 0.0, -0.5)
SWITCHED = stump("collective_buffering", -0.5, 0.9, 0.0)
SOME = Trees.joined([stump("stripe_count", 0.5, 0.0, 0.9), stump("stripe_count", 2.5, 0.0, -1.2)])
MEMBERS = Members(("A, x", "B, x"), (False, True), (MANY, SOME))
ADVICE = Advice(MEMBERS, FACTS, MEMBERS.weights)


def after(*configurations, seconds=()):
    """The history of a search that ran these configurations."""
    trials = [
        trial(number, value, configuration=SPACE.canonical({**SPACE.default, **changed}))
        for number, (changed, value) in enumerate(zip(configurations, seconds, strict=True))
    ]
    return History(ELAPSED, tuple(trials))


def ask(history, advice=ADVICE, n=1, prior=None):
    sampler = AutoSampler(prior=prior)
    sampler.advice = advice
    return sampler.ask(SPACE, history, sampler_rng(0, len(history.trials)), n)


def changed(suggestion):
    return {name: value for name, value in suggestion.configuration.items() if value != SPACE.default[name]}


# -- features


def test_names_do_not_matter_and_roles_do():
    renamed = Space.bind([replace(STRIPES, name="anything")])
    found = settings_by_role(renamed, renamed.enumerate(), "write")
    assert list(found) == ["stripe_count"]
    assert found["stripe_count"].tolist() == [0, 1, 2, 3, 4]


def test_a_setting_of_the_other_operation_is_not_seen():
    rows = SPACE.levels([SPACE.default])
    assert set(settings_by_role(SPACE, rows, "write")) == {"stripe_count", "collective_buffering"}
    assert set(settings_by_role(SPACE, rows, "read")) == {"stripe_count", "data_sieving"}


def test_operations_count_whatever_a_parameter_is_called():
    # As the two switches of OMPIO, whose names do not end with the operation.
    switches = [
        Parameter(f"fbtl_posix_{operation}_datasieving", Kind.BOOLEAN, (False, True), True, role="data_sieving",
                  operations=(operation,))
        for operation in ("write", "read")
    ]  # fmt: skip
    space = Space.bind(switches)
    rows = space.levels([{**space.default, switches[0].name: False}])
    assert settings_by_role(space, rows, "write")["data_sieving"].tolist() == [-1]
    assert settings_by_role(space, rows, "read")["data_sieving"].tolist() == [1]


def test_of_a_long_range_only_the_values_that_occur_are_looked_at():
    space = Space.bind([Parameter("spread", Kind.INTEGER, range(1, 1 << 40), 1, role="stripe_count")])
    rows = np.array([[0], [7], [7]])
    assert settings_by_role(space, rows, "write")["stripe_count"].tolist() == [0, 3, 3]


def test_what_is_not_known_is_marked():
    x = encode({}, "write", {}, 2)
    assert x.dtype == np.float32
    assert x[0, 0] == 1
    assert np.all(x[:, 1:] == UNKNOWN)
    assert np.array_equal(encode({"nodes": None, "layout": None}, "write", {}, 2), x)


@pytest.mark.parametrize(
    "value, number", [("disable", -1), ("enable", 1), (True, 1), (8, 3), (0, np.nan), (-1, np.nan), ("none", np.nan)]
)
def test_values_are_switches_or_logarithms(value, number):
    assert number_of(value) == pytest.approx(number, nan_ok=True)


# -- members


def test_gains_are_over_the_default_and_a_mean_of_read_and_write():
    members = Members(("A, x", "B, x"), (False, True), (MANY, SWITCHED))
    rows = SPACE.levels([{**SPACE.default, "spread": 16}, SPACE.default])
    assert members.gains(FACTS, SPACE, rows) == pytest.approx(np.array([[1.0, 0.0], [0.0, 0.0]]))
    rows = SPACE.levels([{**SPACE.default, "romio_cb_write": "disable"}])
    assert members.gains(FACTS | {"operation": "both"}, SPACE, rows)[1] == pytest.approx([0.45])
    assert members.only([False, False]).gains(FACTS, SPACE, rows).shape == (0, 1)


def test_measured_members_count_together_as_much_as_simulated_ones():
    assert Members(("",) * 3, (True, True, False), (MANY,) * 3).weights.tolist() == [0.25, 0.25, 0.5]
    assert Members(("",) * 2, (False, False), (MANY,) * 2).weights.tolist() == [0.5, 0.5]


# -- the choice


def test_resemblance_follows_the_runs():
    weights, gains = np.array([0.5, 0.5]), np.array([[0.0, 1.0], [0.0, -0.5]])
    before = resemblance(weights, gains, np.array([]))
    assert before.tolist() == pytest.approx([0.35, 0.35, PRIOR_OF_NONE])
    like_first = resemblance(weights, gains, np.array([0.0, -1.0]))
    assert like_first.argmax() == 0
    assert like_first[0] > 0.9
    like_none = resemblance(weights, gains, np.array([5.0, 5.0]))
    assert like_none.argmax() == 2
    assert resemblance(np.array([1.0, 0.0]), gains, np.array([0.0, 0.5]))[1] == 0


def test_the_nearest_to_the_default_of_those_alike_and_a_second_choice_helps_where_the_first_did_not():
    (first,) = ask(after({}, seconds=[10.0]))
    assert (changed(first), first.tag) == ({"spread": 8}, TAG)
    # It brought nothing, so this system is rather as the other.
    (second,) = ask(after({}, changed(first), seconds=[10.0, 10.0]))
    assert changed(second) == {"spread": 2}
    assert second.tag == TAG


def test_nothing_is_proposed_where_nothing_is_expected_to_help():
    history = after({}, seconds=[10.0])
    default = SPACE.levels([SPACE.default])
    rows = Seen(SPACE, default).new(SPACE.enumerate())
    silent = Advice(Members(("A, x",), (False,), (FEW,)), FACTS, np.ones(1))
    assert len(choose(silent, SPACE, history, default, rows)) == 0
    assert len(choose(ADVICE, SPACE, history, default, rows[:0])) == 0
    blind = Space.bind([OTHER])
    one = History(ELAPSED, (trial(0, 3.0, configuration=blind.default),))
    seen = Seen.of(blind, one)
    assert len(propose(ADVICE, Pool(blind), one, seen, sampler_rng(0, 1))) == 0


def test_runs_that_failed_are_no_evidence_and_not_proposed_again():
    (first,) = ask(after({}, seconds=[10.0]))
    (second,) = ask(after({}, changed(first), seconds=[10.0, "failed"]))
    assert second.configuration != first.configuration


def test_a_large_space_is_climbed(monkeypatch):
    history = after({}, seconds=[10.0])
    monkeypatch.setattr(proposal, "_MOST_SCORED", 10)
    monkeypatch.setattr(proposal, "_SAMPLE", 5)
    found = propose(ADVICE, Pool(SPACE), history, Seen.of(SPACE, history), sampler_rng(0, 1))
    assert SPACE.configuration(found[0]) == {**SPACE.default, "spread": 8}


# -- auto


def test_it_never_comes_before_the_default_and_has_two_points():
    first = ask(History(ELAPSED))
    assert first[0].tag == "default"
    tags = [one.tag for one in ask(after({}, seconds=[10.0]), n=4)]
    assert tags[:2] == [TAG, TAG]
    assert TAG not in tags[2:]


def test_the_favourite_of_the_stack_files_follows():
    known = [Knowledge(Expression.parse("colour == 4"), 2.0, "a test")]
    space = Space.bind(SPACE.parameters, knowledge=known)
    history = History(ELAPSED, (trial(0, 10.0, configuration=space.default),))
    sampler = AutoSampler()
    sampler.advice = ADVICE
    found = sampler.ask(space, history, sampler_rng(0, 1), 4)
    assert [one.tag for one in found[:3]] == [TAG, TAG, "prior"]
    assert changed(found[2]) == {"colour": 4}
    assert found[3].tag != "prior"


def test_without_it_and_with_a_prior_nothing_changes():
    history = after({}, seconds=[10.0])
    assert ask(history, advice=None)[0].tag != TAG
    assert ask(history, prior=lambda space, levels: levels[:, 0].astype(float))[0].tag == "prior"


# -- the file


def test_what_ships_is_small_and_says_where_it_comes_from():
    assert PLACE.stat().st_size < 2 << 20
    document = json.loads(PLACE.read_text("utf-8"))
    assert document["made"] == "python benchmarks/search/portfolio.py make"
    known = shipped()
    assert 0 < sum(known.members.simulated) < len(known.members.groups)
    assert known.members.weights.sum() == pytest.approx(1)
    assert not any("HPC2010" in text for text in (*known.sources, *known.members.groups))
    assert all("MIT" in text or "of this project" in text for text in known.sources)


def test_what_is_written_is_read_back():
    text = text_of(MEMBERS, ["a source"], "a command")
    found = parse(text, "here")
    assert (found.sources, found.members.groups, found.members.simulated) == (
        ("a source",), MEMBERS.groups, MEMBERS.simulated,
    )  # fmt: skip
    rows = SPACE.enumerate()
    assert np.array_equal(found.members.gains(FACTS, SPACE, rows), MEMBERS.gains(FACTS, SPACE, rows))
    assert text_of(found.members, found.sources, "a command") == text


def test_another_version_is_refused():
    text = PLACE.read_text("utf-8").replace(f'"version": {VERSION}', f'"version": {VERSION + 1}', 1)
    with pytest.raises(UserError, match=f"there has format version {VERSION + 1}, this program reads {VERSION}"):
        parse(text, "there")


@pytest.mark.parametrize(
    "wrong, told",
    [
        ("", "not a file of general knowledge"),
        ("[]", "not a file of general knowledge"),
        ('{"format": "other", "version": 1}', "not a file of general knowledge"),
        ('{"format": "stripewise-general-knowledge", "version": 1}', "damaged"),
    ],
)
def test_anything_else_is_refused(wrong, told):
    with pytest.raises(UserError, match=told):
        parse(wrong, "there")


@pytest.mark.parametrize(
    "name, values", [("left", [0, -1, -1]), ("feature", [999, -1, -1]), ("value", ["x"]), ("value", [0, 1, 1e999])]
)
def test_damaged_trees_are_refused(name, values):
    document = json.loads(text_of(MEMBERS, [], ""))
    document["members"][0]["trees"][name] = values
    with pytest.raises(UserError, match="damaged"):
        parse(json.dumps(document), "there")


@pytest.mark.slow
def test_what_ships_is_what_the_sources_give():
    script = Path(__file__).resolve().parents[2] / "benchmarks" / "search" / "portfolio.py"
    checked = subprocess.run(
        [sys.executable, str(script), "make", "--check"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
