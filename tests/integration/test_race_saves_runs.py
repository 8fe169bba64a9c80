"""What a better start saves, raced over tables with a known best."""

from __future__ import annotations

import statistics

import pytest
from benchmarks.search.transfer import prior_of_others

from stripewise.engine.race import contestant, play, race
from stripewise.models.landscape import Landscape
from tests.integration.test_race import table, workloads


@pytest.fixture(scope="module")
def landscape():
    return Landscape.of(table())


def test_auto_needs_fewer_runs_than_random_search(landscape):
    def runs(name):
        episodes = [play(landscape, name, contestant(name), budget=30, seed=s) for s in range(4)]
        return sum(episode.runs_to_within_5_percent or 60 for episode in episodes)

    assert runs("auto") < runs("random")


def test_prior_of_other_contexts_saves_runs():
    measured = workloads()
    prior = prior_of_others(measured)
    informed, plain = (
        race([measured], {"auto": contestant("auto", prior=some)}, budget=8, seeds=1) for some in (prior, None)
    )
    runs = [statistics.median(e.runs_to_within_5_percent or 16 for e in episodes) for episodes in (informed, plain)]
    assert runs[0] <= 5
    assert runs[0] < runs[1]
