"""How an experiment is carried out is chosen once, and whatever differs is asked of the schedule."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import stripewise
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Space
from stripewise.engine.confirmation import FIRST_LOOK
from stripewise.engine.ledger import Spent
from stripewise.engine.loop import Finish, Planned, Wait
from stripewise.engine.planner import Planner
from stripewise.engine.schedule import OnReplays, Phases, Schedule, schedule_of
from stripewise.facts import RunFacts
from stripewise.requests.experiment import Budget, Experiment
from stripewise.runners.base import SharedLaunch
from stripewise.runners.within.runner import WithinRunner
from stripewise.search.base import Suggestion, make_sampler
from stripewise.search.policy.pruning import make_pruner
from stripewise.search.policy.resampling import make_resampler
from stripewise.search.policy.stopping import make_stopping
from stripewise.trial import History, Phase, Role, Run, State, Trial
from tests.unit.search_histories import ELAPSED

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


def planner_of(experiment: Experiment) -> Planner:
    parts = (make_sampler("random"), make_resampler(), make_pruner(), make_stopping())
    space = Space.bind([Parameter("stripes", Kind.ORDINAL, (1, 2, 4, 8, 16, 32), 1)])
    return Planner(experiment, ELAPSED, space, False, *parts)


def with_run(trials: list[Trial], planned: Planned, state: State, value: float | None, passed: int) -> list[Trial]:
    run = replace(planned.run, state=state, value=value, facts=planned.run.facts.with_(passed=passed))
    known = [t for t in trials if t.number != planned.trial.number]
    runs = next((t.runs for t in trials if t.number == planned.trial.number), ())
    return sorted([*known, replace(planned.trial, runs=(*runs, run))], key=lambda trial: trial.number)


def searched(passed: int) -> list[Trial]:
    """The default and something better, as so many phases had passed."""
    runs = [Run(number, number % 2, Phase.SEARCH, State.FINISHED, 10.0 - number % 2 * 3) for number in range(6)]
    runs[-1] = replace(runs[-1], facts=RunFacts(passed=passed))
    better = Configuration({"stripes": 4})
    return [
        Trial(0, Configuration({}), Role.DEFAULT, tuple(runs[::2])),
        Trial(1, better, Role.CANDIDATE, tuple(runs[1::2])),
    ]


@pytest.mark.parametrize(("passed", "phase"), [(20, Phase.SEARCH), (120, Phase.CONFIRMATION)])
def test_phases_that_pass_while_settings_wait_leave_the_proof_its_own(passed: int, phase: Phase) -> None:
    """A launch of 400 phases ended after 59 of the search without a pair."""
    planned = planner_of(WITHIN.model_copy(update={"budget": Budget(runs=140)})).next(searched(passed), Spent(6, 0, 0))
    assert isinstance(planned, Planned) and planned.run.phase is phase


@pytest.mark.parametrize(("passed", "kind"), [(120, Planned), (170, Finish)])
def test_while_nothing_looks_better_a_launch_is_searched_on_and_measured_again(
    passed: int, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slow phase each had every configuration left out for good, and 300 phases passed without a try."""
    monkeypatch.setattr(Phases, "ask", lambda *_: [])
    default, slower = searched(passed)
    default = replace(default, runs=(replace(default.runs[0], value=5.0), replace(default.runs[1], value=6.0)))
    early = replace(slower.runs[0], value=6.0, facts=RunFacts(passed=1))
    slower = replace(slower, runs=(early, replace(slower.runs[-1], value=5.8)))
    planned = planner_of(WITHIN.model_copy(update={"budget": Budget(runs=400)})).next([default, slower], Spent(4, 0, 0))
    assert isinstance(planned, kind)
    assert not isinstance(planned, Planned) or (planned.run.phase is Phase.SEARCH and not planned.new)


def test_phases_that_pass_before_anything_is_tried_do_not_end_the_search() -> None:
    """A busy machine passed all phases of a budget while the tuner started, and nothing was ever tried."""
    default = replace(searched(0)[0], runs=(Run(0, 0, Phase.SEARCH, State.FINISHED, 10.0, facts=RunFacts(passed=120)),))
    planned = planner_of(WITHIN.model_copy(update={"budget": Budget(runs=140)})).next([default], Spent(1, 0, 0))
    assert isinstance(planned, Planned) and (planned.run.phase, planned.trial.role) == (Phase.SEARCH, Role.CANDIDATE)
    # What passes from the first try on counts, and not what passed before it.
    for last, phase in ((150, Phase.SEARCH), (230, Phase.CONFIRMATION)):
        runs = tuple(replace(run, facts=RunFacts(passed=110)) for run in searched(0)[1].runs)
        runs = (*runs[:-1], replace(runs[-1], facts=RunFacts(passed=last)))
        trials = [default, replace(searched(0)[1], runs=runs)]
        planned = planner_of(WITHIN.model_copy(update={"budget": Budget(runs=140)})).next(trials, Spent(6, 0, 0))
        assert isinstance(planned, Planned) and planned.run.phase is phase


@pytest.mark.parametrize(("experiment", "ahead"), [(LAUNCHES, 1), (WITHIN, 2 * FIRST_LOOK)])
def test_pairs_within_one_launch_are_planned_up_to_the_next_look(experiment: Experiment, ahead: int) -> None:
    """Phases that came before the next order proved nothing: half of the proof's."""
    planner, trials = planner_of(experiment.model_copy(update={"budget": Budget(runs=140)})), searched(120)
    trials[1] = replace(trials[1], runs=tuple(replace(run, value=9.5) for run in trials[1].runs))
    ends = SimpleNamespace(reason=lambda *_: "enough")
    planned = []
    while isinstance(step := replace(planner, stopping=ends).next(trials, Spent(6 + len(planned), 0, 0)), Planned):
        assert step.run.phase is Phase.CONFIRMATION
        planned.append(step.run)
        trials = with_run(trials, step, State.RUNNING, None, 0)
    assert isinstance(step, Wait) and len(planned) == ahead
    assert all(
        {one.arm, other.arm} == {"default", "candidate"}
        for one, other in zip(planned[::2], planned[1::2], strict=False)
    )


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


def test_suggestions_are_kept_ahead_once_enough_is_known_and_forgotten_with_the_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search that thought after each phase kept a processor busy, and doubled the time of the program's phases."""
    space = Space.bind([Parameter("stripes", Kind.ORDINAL, tuple(range(1, 65)), 1)])
    tried = [Trial(n, Configuration({"stripes": n}), Role.CANDIDATE) for n in range(2, 22)]
    asked: list[int] = []

    def ask(_space: Space, history: History, _rng: object, count: int) -> list[Suggestion]:
        asked.append(count)
        return [Suggestion(Configuration({"stripes": 40 + len(asked) * 5 + k})) for k in range(count)]

    sampler = SimpleNamespace(ask=ask, slowdown=lambda _space, _history, levels: [0.0] * len(levels))
    schedule, told = Phases(WITHIN), []
    for number in range(3):
        history = History(ELAPSED, tuple(tried[:4] if not number else [*tried, *told]))
        (one,) = schedule.ask(sampler, space, history, lambda: None)  # type: ignore[arg-type, return-value]
        told.append(Trial(30 + number, one.configuration, Role.CANDIDATE))
    assert asked == [1, 4]
    schedule.ask(sampler, replace(space), History(ELAPSED, tuple(tried)), lambda: None)  # type: ignore[arg-type, return-value]
    assert asked == [1, 4, 4]
