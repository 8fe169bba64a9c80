"""How many pairs a gain needs."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from stripewise.engine.budget import fewest_launches, most_pairs, pairs_left
from stripewise.engine.confirmation import expected_gain, pairs_to_prove, provable_pairs
from stripewise.engine.ledger import spent
from stripewise.engine.schedule import schedule_of
from stripewise.facts import RunFacts
from stripewise.requests.experiment import Confirmation, Experiment
from stripewise.trial import Phase, Role, Run, State
from tests.unit.search_histories import BANDWIDTH, history, trial


@pytest.mark.parametrize(("value", "pairs"), [(0.0, 1000), (50.0, 1000), (1000.0, 6)])
def test_a_reference_without_a_gain_needs_more_pairs_than_anybody_makes(value, pairs):
    seen = history((100.0, 101.0), 120.0, objective=BANDWIDTH)
    seen = replace(seen, trials=(replace(seen.trials[0], role=Role.DEFAULT), *seen.trials[1:]))
    reference = replace(trial(9, value), role=Role.REFERENCE)
    assert pairs_to_prove(Confirmation(), seen, reference) == pairs


WITHIN = Experiment(command=["-"], runner="within", budget={"runs": 140})  # type: ignore[arg-type]


@pytest.mark.parametrize(("value", "block"), [(101.0, 2), (110.0, 2), (130.0, 2), (900.0, 1)])
def test_small_gains_are_proven_with_several_phases_a_run(value, block):
    seen = history((100.0, 101.0), value, objective=BANDWIDTH)
    seen = replace(seen, trials=(replace(seen.trials[0], role=Role.DEFAULT), *seen.trials[1:]))
    assert schedule_of(WITHIN).block_for(seen, seen.trials[1], 44) == block
    assert schedule_of(WITHIN).block_for(seen, seen.trials[1], 43) == 1  # too few such pairs are left
    assert schedule_of(Experiment(command=["-"])).block_for(seen, seen.trials[1], 44) == 1


def test_the_budget_of_a_launch_counts_the_phases_between_settings_too():
    assert tuple(schedule_of(WITHIN).cost_of_pair(block) for block in (1, 2)) == (3.5, 5.5)
    assert schedule_of(Experiment(command=["-"])).cost_of_pair() == 2
    assert most_pairs(WITHIN) == 23 and most_pairs(Experiment(command=["-"], budget={"runs": 140})) == 40
    searched = trial(0, *range(100, 140))
    facts = RunFacts(against=0, block=2, switched=1.0)
    proof = Run(40, 0, Phase.CONFIRMATION, State.FINISHED, 100.0, pair=0, arm="default", facts=facts)
    trials = [replace(searched, runs=(*searched.runs, proof))]
    assert spent(trials, 0.0).runs == 43 and pairs_left(WITHIN, trials, 0) == 18


def test_the_page_says_the_fewest_launches_of_either_proof():
    usual = Experiment(command=["-"])
    pairs = provable_pairs(usual.confirmation)
    small = fewest_launches(usual)
    large = next(n for n in count(small) if most_pairs(Experiment(command=["-"], budget={"runs": n})) >= pairs)
    page = Path(__file__, "../../../docs/how-to/tune-your-program.md").resolve().read_text("utf-8")
    assert f"Fewer than {small} launches cannot prove anything" in page
    assert f"{small} to {large - 1} prove large gains only" in page


@pytest.mark.parametrize(("left", "pairs"), [(7, 0), (8, 4), (9, 4), (11, 4), (12, 6), (17, 8)])
def test_what_is_left_for_a_proof_holds_no_launch_that_proves_nothing(left, pairs):
    searched = trial(0, *range(100, 105))
    assert pairs_left(Experiment(command=["-"], budget={"runs": 5 + left}), [searched], 1) == pairs
    asked = Experiment(command=["-"], budget={"runs": 5 + left}, confirmation={"pairs": 3})
    assert pairs_left(asked, [searched], 1) == 3


def test_the_gain_that_a_proof_is_expected_to_bring_follows_gain_noise_and_pairs():
    def expected(*values, pairs=16):
        seen = history(*values)
        seen = replace(seen, trials=(replace(seen.trials[0], role=Role.DEFAULT), *seen.trials[1:]))
        return expected_gain(Confirmation(), seen, seen.trials[1], pairs)

    others = [(1.3, 1.31), (0.8, 0.81), (1.5, 1.49)]
    large = expected((1.0, 1.01), (0.5, 0.51), *others)
    assert large == pytest.approx(0.68, abs=0.05), "a large gain is proven for certain"
    assert expected((1.0, 1.01), (0.5, 0.51), *others, pairs=4) == pytest.approx(large, abs=0.02)
    small = expected((1.0, 1.01), (0.99, 1.0), *others)
    assert small < 0.03 < expected((1.0, 1.01), (0.9, 0.91), *others)
    loud = [(value / 1.15, value * 1.15) for value in (1.0, 0.9, 1.3, 0.8, 1.5)]
    assert expected(*loud, pairs=4) < 0.5 * expected(*loud), "four pairs prove hardly any of what more would"
    assert expected((1.0, 1.01), "failed", *others) is None
