"""What a phase that is far slower than expected does to an experiment within one launch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.one_job.stream import Law, StreamRunner

from stripewise.desk.cli.result import deliver
from stripewise.engine.events import Event
from stripewise.engine.schedule import Phases, schedule_of
from stripewise.engine.session import Session
from stripewise.errors import StripewiseError
from stripewise.requests.experiment import Budget, Confirmation, Experiment, ObjectiveEntry
from stripewise.result import Effect, Result
from stripewise.store.opening import open_store
from stripewise.trial import History, Phase, Role, Trial
from tests.unit.search_histories import BANDWIDTH, trial


def within(runs: int, **fields: Any) -> Experiment:
    objective = ObjectiveEntry(name="phase_bandwidth")
    return Experiment(command=["simulated"], runner="within", objective=objective, budget=Budget(runs=runs), **fields)


def carry_out(wanted: Experiment, law: Law, length: int) -> tuple[Result, tuple[Trial, ...]]:
    runner = StreamRunner(wanted, Path("/nonexistent"), law, length=length)
    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(wanted)
        return Session(store, identifier, runner, "test").run(), store.trials(identifier)


def test_after_one_large_loss_the_best_so_far_is_proven() -> None:
    wanted = within(140, seed=1)
    runner = StreamRunner(wanted, Path("/nonexistent"), Law(gain=2.0, slow=200.0), length=150)
    told: list[str] = []

    def hear(event: Event) -> None:
        if event.kind == "note":
            told.append(str(event.data["text"]))

    with open_store("sqlite:///:memory:") as store:
        result = Session(store, store.create(wanted), runner, "test", hear).run()
    slow = [phase for phase in runner.phases if phase.settings.get("mode") == "split"]
    assert len(slow) == 1  # no other is paid for
    assert len(told) == 1, told
    (loss,) = [text for text in told if "trying has lost" in text]
    assert "times as long as the default" in loss and "5% are allowed" in loss and "phases of the default" in loss
    assert result.confirmed and result.best.configuration["mode"] == "merged", result.verdict
    assert len(runner.phases) < 100


def searched_before_the_proof(seed: int) -> int:
    """Runs of the search of a program with a large gain, which is proven."""
    result, trials = carry_out(within(140, seed=seed), Law(gain=5.0), 150)
    assert result.confirmed and result.best.configuration["mode"] == "merged", result.verdict
    return sum(run.phase is Phase.SEARCH for trial in trials for run in trial.runs)


@pytest.mark.slow
def test_a_large_gain_is_proven_before_all_else_has_been_tried(monkeypatch) -> None:
    soon = searched_before_the_proof(3)
    monkeypatch.setattr(Phases, "shows_at_first_look", lambda *_, **__: False)
    late = searched_before_the_proof(3)
    assert soon < 20 < late, (soon, late)


def test_where_a_candidate_proves_no_gain_the_search_goes_on_and_another_is_tested() -> None:
    """One phase in twenty takes 3 to 15 times as long, so that the search takes a lucky phase for a gain."""
    wanted = within(400, confirmation=Confirmation(candidates=2), seed=3)
    law = Law(gain=1.35, noise=0.3, slow=3.0, disturbed=0.05)
    result, trials = carry_out(wanted, law, 400)
    runs = sorted((run for trial in trials for run in trial.runs), key=lambda run: run.number)
    proof = [run for run in runs if run.phase is Phase.CONFIRMATION]
    first = proof[0].facts.against
    later = next(run.number for run in proof if run.facts.against != first)
    before = max(run.number for run in proof if run.facts.against == first)
    assert [run.phase for run in runs[before + 1 : later]] == [Phase.SEARCH] * (later - before - 1)
    assert later > before + 1, "nothing was searched in between"
    assert result.confirmation is not None and result.confirmation.candidates_tested == 2


def test_a_lucky_phase_of_what_did_nothing_ends_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stripewise.engine.planner.effects_of", lambda *_: [Effect("any", status="no_effect")])
    result, trials = carry_out(within(400, seed=3), Law(gain=1.35, noise=0.3), 400)
    assert "no setting of what looked better did anything" in result.verdict
    assert len(next(one for one in trials if one.role is Role.DEFAULT).values) >= 4
    assert all(len(one.values) >= 2 for one in trials if one.role is Role.CANDIDATE)


def test_a_program_that_fails_after_the_answer_ends_the_command_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(StreamRunner, "conclude", lambda *_: "the program then ended with exit code 13")
    wanted = within(8, confirmation=Confirmation(pairs=0))
    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(wanted)
        result = Session(store, identifier, StreamRunner(wanted, Path("/nonexistent"), Law(), length=40), "test").run()
        with pytest.raises(StripewiseError, match=f"exit code 13; the answer is kept: stripewise show {identifier}"):
            deliver(store, identifier, result, None, json_output=True)
    assert json.loads(capsys.readouterr().out)["runs"] == result.runs


def test_no_search_that_found_nothing_ends_by_one_phase_of_the_default() -> None:
    schedule = schedule_of(Experiment(command=["-"], runner="within"))
    default = replace(trial(0, 100.0), role=Role.DEFAULT)

    def once_more(*others: Trial, runs: int = 1) -> int | None:
        again = replace(trial(0, *[100.0] * runs), role=Role.DEFAULT)
        return schedule.once_more(History(BANDWIDTH, (again, *others)))

    assert schedule.once_more(History(BANDWIDTH, (default,))) == 0
    slow, taken_back = trial(1, 10.0), replace(trial(2, 1.0), runs=())
    assert once_more(slow, trial(2, 20.0), runs=4) == 2  # the faster of those with one phase
    assert once_more(slow, taken_back, runs=4) == 2  # what was never tried
    assert once_more(trial(1, 10.0, 12.0), runs=4) is None
    assert schedule_of(Experiment(command=["-"])).once_more(History(BANDWIDTH, (default,))) is None
