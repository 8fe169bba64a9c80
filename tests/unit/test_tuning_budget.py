"""How many pairs a gain needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stripewise.spec.experiment import Experiment
from stripewise.spec.trial import Role
from stripewise.tuning.budget import pairs_to_prove
from tests.unit.search_histories import BANDWIDTH, history, trial


@pytest.mark.parametrize(("value", "pairs"), [(0.0, 1000), (50.0, 1000), (1000.0, 6)])
def test_a_reference_without_a_gain_needs_more_pairs_than_anybody_makes(value, pairs):
    seen = history((100.0, 101.0), 120.0, objective=BANDWIDTH)
    seen = replace(seen, trials=(replace(seen.trials[0], role=Role.DEFAULT), *seen.trials[1:]))
    reference = replace(trial(9, value), role=Role.REFERENCE)
    assert pairs_to_prove(Experiment(command=["-"]), seen, reference) == pairs
