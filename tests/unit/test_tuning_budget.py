"""How many pairs a gain needs."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from stripewise.engine.budget import fewest_launches, most_pairs, pairs_left
from stripewise.engine.confirmation import pairs_to_prove, provable_pairs
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
    assert spent(trials, 0.0).runs == 43 and pairs_left(WITHIN, trials) == 18


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
    assert pairs_left(Experiment(command=["-"], budget={"runs": 5 + left}), [searched]) == pairs
    asked = Experiment(command=["-"], budget={"runs": 5 + left}, confirmation={"pairs": 3})
    assert pairs_left(asked, [searched]) == 3
