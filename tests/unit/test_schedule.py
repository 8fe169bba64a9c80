"""How an experiment is carried out is chosen once, and whatever differs is asked of the schedule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stripewise
from stripewise.engine.schedule import OnReplays, Phases, Schedule, schedule_of
from stripewise.requests.experiment import Experiment
from stripewise.runners.base import SharedLaunch
from stripewise.runners.within.runner import WithinRunner
from stripewise.trial import Phase, Role, Run, State, Trial

LAUNCHES = Experiment(command=["-"])
WITHIN = Experiment.model_validate({"command": ["-"], "runner": "within"})
REPLAYS = Experiment.model_validate({"command": ["-"], "replay": {"record": "r.record"}})


@pytest.mark.parametrize(
    ("experiment", "kind", "said", "proven"),
    [
        (LAUNCHES, Schedule, ["1 launch", "2 launches"], ""),
        (WITHIN, Phases, ["1 phase", "2 phases"], " within one launch"),
        (REPLAYS, OnReplays, ["1 launch", "2 launches"], " on the program, after a search on replays"),
    ],
)
def test_the_experiment_chooses_the_schedule(
    experiment: Experiment, kind: type[Schedule], said: list[str], proven: str
) -> None:
    schedule = schedule_of(experiment)
    assert type(schedule) is kind
    assert [schedule.counted(runs) for runs in (1, 2)] == said
    assert schedule.proven == proven
    assert bool(schedule.not_small) is (kind is not Schedule)


def test_a_search_on_replays_does_not_see_the_proof() -> None:
    runs = (Run(0, 0, Phase.SEARCH, State.FINISHED, 1.0), Run(1, 0, Phase.CONFIRMATION, State.FINISHED, 100.0))
    trials = [Trial(0, {}, Role.DEFAULT, runs)]
    assert schedule_of(LAUNCHES).searched(trials) == trials
    (searched,) = schedule_of(REPLAYS).searched(trials)
    (proof,) = schedule_of(REPLAYS).lasting(trials, Phase.CONFIRMATION)
    assert (searched.runs, proof.runs) == (runs[:1], runs[1:])


def test_only_runs_within_one_launch_share_it(tmp_path: Path) -> None:
    runner = WithinRunner(WITHIN, tmp_path)
    assert runner.shared is runner
    apart = SharedLaunch()
    assert (apart.held, apart.over, apart.seen, apart.others) == ({}, "", None, ())


def test_the_engine_asks_the_schedule() -> None:
    """A branch on the runner or on replays in the planner, the budget or the conclusion is a second home."""
    engine = Path(stripewise.__file__).parent / "engine"
    for name in ("planner", "budget", "conclusion", "result", "launching", "space", "session", "loop"):
        text = (engine / f"{name}.py").read_text("utf-8")
        assert not re.search(r'"within"|experiment\.replay\b', text), name
