"""How many pairs a gain needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stripewise.engine.budget import most_pairs, pairs_left
from stripewise.engine.confirmation import pairs_to_prove
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
