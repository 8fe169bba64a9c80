"""Several runs at a time: what has ended is kept, and waiting costs no processor time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.errors import StripewiseError
from stripewise.launch import Launch, Outcome
from stripewise.requests.campaign import parse_campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.experiment import Experiment
from stripewise.requests.objective import Objective
from stripewise.runners.base import Preflight
from stripewise.runners.batch.runner import BatchRunner
from stripewise.runners.batch.steps import StepsRunner
from stripewise.runners.local.runner import LocalRunner
from stripewise.runners.native.benchmark import Bench, _Lane
from stripewise.runners.schedulers.base import Allocation
from stripewise.trial import Phase, State

DONE = Outcome(1, State.FINISHED, 1.0, 0.0)


def test_a_run_that_ended_is_given_before_the_error_of_another(tmp_path: Path) -> None:
    runner: Any = LocalRunner(Experiment(command=["true"]), tmp_path)
    good, bad = (SimpleNamespace(launch=SimpleNamespace(number=number), late=0.0) for number in (1, 2))
    runner._under_way = {1: good, 2: bad}
    runner._ended.put((good, DONE))
    runner._ended.put((bad, StripewiseError("the disk is full")))
    assert runner.poll(0.0) == [DONE]
    with pytest.raises(StripewiseError, match="the disk is full"):
        runner.poll(0.0)


def test_a_job_that_ended_is_given_before_the_error_of_another(tmp_path: Path) -> None:
    def refused() -> None:
        raise StripewiseError("the scheduler refused the job")

    runner: Any = BatchRunner(Experiment(command=["true"]), tmp_path)
    runner._under_way = {
        1: SimpleNamespace(look=lambda: DONE, waiting=False),
        2: SimpleNamespace(look=refused, waiting=True),
    }
    assert runner.poll(0.0) == [DONE]
    with pytest.raises(StripewiseError, match="refused"):
        runner.poll(0.0)


def test_a_campaign_waits_for_runs_side_by_side_instead_of_asking_without_a_pause(tmp_path: Path) -> None:
    campaign = parse_campaign('name = "c"\n[[tunable]]\nname = "stripe_count"\nvalues = [1, 2]\n', "x")
    waited: list[float] = []

    def poll(timeout: float) -> list[Outcome]:
        waited.append(timeout)
        return [DONE] if len(waited) == 1 else []

    bench: Any = Bench(campaign, Points(campaign.model_copy(update={"runner": "sim:x"})), tmp_path, {})
    lanes = [
        _Lane(SimpleNamespace(poll=poll), Objective("bandwidth", "maximize", "MiB/s"), Preflight())  # type: ignore[arg-type]
        for _ in range(2)
    ]
    bench._under_way = {1: lanes[0], 2: lanes[0], 3: lanes[1]}
    assert bench.poll(0.5) == [DONE]
    assert waited == [0.25, 0.25]
    assert sorted(bench._under_way) == [2, 3]


def test_a_step_whose_allocation_cannot_be_noted_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(LocalRunner, "start", lambda self, launch: started.append(launch.number))
    runner: Any = StepsRunner(Experiment(command=["srun", "true"]), tmp_path)
    runner._allocation = Allocation("7", ("n1",))
    runner._slots = [("n1",)]
    (tmp_path / "3").write_text("a file is where the run's folder should be")
    with pytest.raises(StripewiseError, match="cannot write the run's folder"):
        runner.start(Launch("x", 3, Configuration({}), Plan(), Phase.SEARCH))
    assert started == [] and runner._taken == {}
