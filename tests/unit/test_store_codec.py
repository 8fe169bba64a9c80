"""Rows of older stores may hold numbers that no figure can be made with."""

import math

import pytest

from stripewise.store.codec import read_run, run_json
from stripewise.trial import Phase, Run, State

RUN = Run(0, 0, Phase.SEARCH, State.FINISHED, value=2.0, elapsed=2.0, started=1e9)


@pytest.mark.parametrize("name", ["value", "elapsed", "started"])
@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan, 1.5e308, -1e308])
def test_what_cannot_be_measured_counts_as_not_measured(name: str, odd: float) -> None:
    read = read_run({**run_json(RUN), name: odd}, "run 0")
    assert getattr(read, name) is None
    assert read_run({**run_json(RUN), name: 3.0}, "run 0").as_json() == {**RUN.as_json(), name: 3.0}
