"""Several file families of one launch, each tuned by a search of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.one_job.stream import Law, StreamRunner

from stripewise.catalogue.carriers import HINT, Setting
from stripewise.catalogue.plan import Plan
from stripewise.engine.companions import join_plans
from stripewise.engine.events import Event, ignore_event
from stripewise.engine.reconfirmation import confirm_again
from stripewise.engine.session import Session
from stripewise.errors import Stopped
from stripewise.requests.experiment import Budget, Experiment, ObjectiveEntry, Within
from stripewise.result import FamilyResult, Result
from stripewise.store.base import Store
from stripewise.store.opening import open_store

FAST, SAME = Law(gain=2.0, noise=0.05, weight=2.0), Law(noise=0.05)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store("sqlite:///:memory:") as opened:
        yield opened


def definition() -> Experiment:
    return Experiment(
        command=["simulated"],
        runner="within",
        objective=ObjectiveEntry(name="phase_bandwidth"),
        budget=Budget(runs=60),
        sampler="random",
        within=Within(families="each"),
        seed=3,
    )


def tune(store: Store, identifier: str, runner: StreamRunner, told: list[str]) -> Result:
    def hear(event: Event) -> None:
        if event.kind == "note":
            told.append(str(event.data["text"]))

    return Session(store, identifier, runner, "test", hear).run()


@pytest.mark.slow
def test_each_family_has_its_own_search_proof_and_settings(store: Store) -> None:
    wanted, told = definition(), list[str]()
    identifier = store.create(wanted)
    runner = StreamRunner(wanted, Path("/nonexistent"), FAST, SAME, length=150)
    result = tune(store, identifier, runner, told)
    costly, other = result.families
    assert (costly.family, costly.files) == ("writing /scratch/chk.#", "/scratch/chk.[0-9]*")
    assert costly.experiment == identifier and costly.confirmed and costly.configuration["mode"] == "merged"
    assert costly.speedup == result.speedup > 1.5 and costly.verdict == result.verdict
    assert other.family == "writing /scratch/diag.#" and not other.confirmed and other.configuration == {}
    plan = Plan.parse(result.plan, "the plan")
    assert plan.files == costly.files and next(setting.line() for setting in plan.settings) == "hint mode merged"
    assert plan.sections == ()
    # The other family's experiment is like any other.
    record = store.record(other.experiment)
    assert record.state == "finished" and record.result is not None and record.result.families == ()
    assert record.experiment.files == other.files and record.experiment.within.families == "costliest"
    assert any("a search of its own" in text for text in told) and any(other.experiment in text for text in told[1:])
    # Settings of one family never reach the other, and each order is carried out once.
    orders = [phase.order for phase in runner.phases if phase.order]
    assert len(orders) == len(set(orders))
    again = confirm_again(store.record(identifier))
    assert again.files == costly.files and again.within.families == "costliest"


def test_a_plan_for_both_holds_the_settings_of_each(store: Store) -> None:
    wanted = definition()
    identifier = store.create(wanted)
    runner = StreamRunner(wanted, Path("/nonexistent"), FAST, Law(gain=3.0, noise=0.05), length=150)
    result = tune(store, identifier, runner, [])
    assert [one.confirmed for one in result.families] == [True, True]
    plan = Plan.parse(result.plan, "the plan")
    ((files, settings),) = plan.sections
    assert files == result.families[1].files and "hint mode merged" in [setting.line() for setting in settings]
    assert Plan.parse(plan.text(), "again") == plan
    # The family that was decided first runs with what is proven while the other one goes on.
    first = min(result.families, key=lambda one: len(store.trials(one.experiment)))
    assert first.confirmed


def test_of_families_of_the_same_files_the_costliest_keeps_its_settings() -> None:
    def plan(files: str, **hints: str) -> Plan:
        return Plan(tuple(Setting(HINT, name, value) for name, value in hints.items()), files=files)

    writes = plan("a.*", cb_nodes="2", romio_cb_write="enable")
    whole, kept = join_plans(writes, plan("a.*", cb_nodes="1", romio_cb_read="enable"))
    assert kept == ["cb_nodes"]
    assert [line for line in whole.text().splitlines() if "cb_nodes" in line] == ["hint cb_nodes 2"]
    assert "hint romio_cb_read enable" in whole.text()
    elsewhere, none = join_plans(whole, plan("b.*", cb_nodes="1"))
    assert none == [] and elsewhere.text().endswith("file b.*\nhint cb_nodes 1\n")
    assert join_plans(writes, plan("a.*", cb_nodes="2")) == (writes, [])


def test_a_launch_that_ends_too_early_is_followed_by_another_one(store: Store) -> None:
    wanted, told = definition(), list[str]()
    identifier = store.create(wanted)
    runner = StreamRunner(wanted, Path("/nonexistent"), FAST, SAME, length=40)
    with pytest.raises(Stopped):
        tune(store, identifier, runner, told)
    (known,) = store.record(identifier).facts.families
    assert store.record(known["experiment"]).state == "stopped" and store.record(identifier).state == "stopped"
    before = {n: run.value for t in store.trials(known["experiment"]) for run in t.runs if (n := run.number) >= 0}
    longer = StreamRunner(wanted, Path("/nonexistent"), FAST, SAME, length=200)
    result = tune(store, identifier, longer, told)
    assert len(store.records()) == 2 and [one.confirmed for one in result.families] == [True, False]
    after = {run.number: run.value for t in store.trials(known["experiment"]) for run in t.runs}
    assert {n: after[n] for n, value in before.items() if value} == {n: value for n, value in before.items() if value}


@pytest.mark.slow
def test_a_family_whose_experiment_was_deleted_meanwhile_is_searched_anew(store: Store) -> None:
    wanted = definition()
    identifier = store.create(wanted)
    with pytest.raises(Stopped):
        tune(store, identifier, StreamRunner(wanted, Path("/nonexistent"), FAST, SAME, length=40), [])
    (known,) = store.record(identifier).facts.families
    store.delete(known["experiment"])
    result = tune(store, identifier, StreamRunner(wanted, Path("/nonexistent"), FAST, SAME, length=200), [])
    (again,) = store.record(identifier).facts.families
    assert again["experiment"] == result.families[1].experiment != known["experiment"]
    assert full(store, result.families[1]).verdict == result.families[1].verdict


@pytest.mark.slow
def test_each_family_starts_from_the_earlier_search_of_the_same_family(store: Store) -> None:
    def search(earlier: list[str], told: list[str]) -> Result:
        wanted = definition().model_copy(update={"warm_start": earlier})
        runner = StreamRunner(wanted, Path("/nonexistent"), FAST, SAME, length=200)
        return tune(store, store.create(wanted), runner, told)

    first = search([], [])
    costly, other = (one.experiment for one in first.families)
    second, told = search([costly], []), list[str]()
    started = [[begun["experiment"] for begun in full(store, one).warm_start] for one in second.families]
    assert started == [[costly], [other]]
    store.delete(other)
    third = search([costly], told)
    assert full(store, third.families[1]).warm_start == () and third.families[1].verdict
    assert any(f"does not start from experiment {costly}" in text for text in told)


def full(store: Store, family: FamilyResult) -> Result:
    """The result of a family's own experiment."""
    found = store.record(family.experiment).result
    assert found is not None
    return found


@pytest.mark.slow
def test_what_all_families_lose_is_limited_together(store: Store) -> None:
    wanted = definition()
    slow = Law(slow=1.2, noise=0.02)
    runner = StreamRunner(wanted, Path("/nonexistent"), slow, slow, length=60)
    with contextlib.suppress(Stopped):
        Session(store, store.create(wanted), runner, "test", ignore_event).run()
    assert runner.lost <= 0.05
