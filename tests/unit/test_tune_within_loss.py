"""What a phase that is far slower than expected does to an experiment within one launch."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.one_job.stream import Law, StreamRunner

from stripewise.engine.events import Event
from stripewise.engine.schedule import Phases
from stripewise.engine.session import Session
from stripewise.requests.experiment import Budget, Experiment, ObjectiveEntry
from stripewise.store.opening import open_store
from stripewise.trial import Phase


def test_after_one_large_loss_the_best_so_far_is_proven() -> None:
    wanted = Experiment(
        command=["simulated"],
        runner="within",
        objective=ObjectiveEntry(name="phase_bandwidth"),
        budget=Budget(runs=140),
        seed=1,
    )
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
    wanted = Experiment(
        command=["simulated"],
        runner="within",
        objective=ObjectiveEntry(name="phase_bandwidth"),
        budget=Budget(runs=140),
        seed=seed,
    )
    runner = StreamRunner(wanted, Path("/nonexistent"), Law(gain=5.0), length=150)
    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(wanted)
        result = Session(store, identifier, runner, "test").run()
        assert result.confirmed and result.best.configuration["mode"] == "merged", result.verdict
        return sum(run.phase is Phase.SEARCH for trial in store.trials(identifier) for run in trial.runs)


@pytest.mark.slow
def test_a_large_gain_is_proven_before_all_else_has_been_tried(monkeypatch) -> None:
    soon = searched_before_the_proof(3)
    monkeypatch.setattr(Phases, "shows_at_first_look", lambda *_, **__: False)
    late = searched_before_the_proof(3)
    assert soon < 20 < late, (soon, late)
