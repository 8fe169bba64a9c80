"""What runs next: budgets, order of phases and progress, whatever fails and however many runs go side by side."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stripewise.errors import NothingWorks
from stripewise.search.pruning import make_pruner
from stripewise.search.registry import make_sampler, sampler_rng
from stripewise.search.resampling import make_resampler
from stripewise.search.stopping import make_stopping
from stripewise.spec.experiment import Budget, Confirmation, Experiment
from stripewise.spec.objective import Objective
from stripewise.spec.trial import Phase, Role, State
from stripewise.tuning.api import _space
from stripewise.tuning.budget import most_pairs, provable_pairs, spent
from stripewise.tuning.planner import Finish, Planned, Planner, Wait
from tests.conftest import examples

SPACE = _space({"x": [1, 2, 4, 8], "mode": ["a", "b", "c"]}, {}, ())


def planner(experiment, reference=False):
    sampler = make_sampler(experiment.sampler, experiment.sampler_options)
    return Planner(
        experiment,
        Objective("value", "minimize", "s"),
        SPACE,
        reference,
        sampler,
        make_resampler(experiment.resampling),
        make_pruner(experiment.pruning),
        make_stopping(experiment.stopping, sampler),
    )


class Machine:
    """Carries a plan out without a program: some runs fail, and side by side they end in any order."""

    def __init__(self, capacity=1, failing=0.0, default_fails=False, seed=0, value=None, run_seconds=1.0):
        self.capacity, self.failing, self.default_fails = capacity, failing, default_fails
        self.rng = sampler_rng(seed, 0)
        self.value = value or (lambda configuration: 10.0 / configuration["x"])
        self.run_seconds = run_seconds
        self.trials, self.running, self.most_running, self.seconds = [], [], 0, 0.0

    @property
    def runs(self):
        return sorted((run for trial in self.trials for run in trial.runs), key=lambda run: run.number)

    def put(self, run):
        trial = self.trials[run.trial]
        others = [known for known in trial.runs if known.number != run.number]
        self.trials[run.trial] = replace(trial, runs=tuple(sorted([*others, run], key=lambda r: r.number)))

    def carry_out(self, plan):
        while True:
            step = self.fill(plan)
            if not self.running:
                assert isinstance(step, Finish), "nothing runs and nothing is planned"
                return step.reason
            self.end(self.running.pop(int(self.rng.integers(len(self.running)))))

    def fill(self, plan):
        while len(self.running) < self.capacity:
            step = plan.next(self.trials, spent(self.trials, self.seconds))
            if not isinstance(step, Planned):
                return step
            assert step.run.number == len(self.runs)
            if step.new:
                assert step.trial.number == len(self.trials)
                self.trials.append(step.trial)
            self.put(replace(step.run, state=State.RUNNING))
            self.running.append(step.run.number)
            self.most_running = max(self.most_running, len(self.running))
        return Wait()

    def end(self, number):
        run = next(run for run in self.runs if run.number == number)
        trial = self.trials[run.trial]
        self.seconds += self.run_seconds / self.capacity
        facts = {**run.facts, "node_hours": self.run_seconds / 3600}
        fails = trial.role is Role.DEFAULT and self.default_fails
        if fails or (trial.role is not Role.DEFAULT and self.rng.random() < self.failing):
            self.put(replace(run, state=State.FAILED, reason="broken", elapsed=self.run_seconds, facts=facts))
            return
        configuration = trial.configuration or SPACE.default
        value = self.value(configuration) * math.exp(self.rng.normal(0, 0.1))
        self.put(replace(run, state=State.FINISHED, value=value, elapsed=self.run_seconds, facts=facts))


experiments = st.builds(
    Experiment,
    runner=st.just("function"),
    sampler=st.sampled_from(["random", "genetic", "exhaustive"]),
    resampling=st.sampled_from([{"kind": "none"}, {"kind": "simple"}, {"kind": "dynamic"}, {"kind": "racing"}]),
    budget=st.builds(Budget, runs=st.integers(1, 45)),
    warmup=st.integers(0, 3),
    confirmation=st.builds(
        Confirmation,
        pairs=st.none() | st.integers(0, 8),
        candidates=st.integers(1, 3),
        minimum_effect=st.sampled_from([1.0, 1.5]),
    ),
    seed=st.integers(0, 1000),
)


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(experiments, st.integers(1, 4), st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_the_budget_is_never_exceeded_and_every_plan_ends(experiment, capacity, failing, reference):
    machine = Machine(capacity, failing, seed=experiment.seed)
    machine.carry_out(planner(experiment, reference))
    assert len(machine.runs) <= experiment.budget.runs
    assert machine.most_running <= capacity
    assert all(run.state.ended for run in machine.runs)
    confirmed = [run for run in machine.runs if run.phase is Phase.CONFIRMATION]
    searched = [run for run in machine.runs if run.phase is not Phase.CONFIRMATION]
    if confirmed:
        assert min(run.number for run in confirmed) > max(run.number for run in searched)
        limit = experiment.confirmation.pairs
        for candidate in {run.facts["against"] for run in confirmed}:
            pairs = {run.pair for run in confirmed if run.facts["against"] == candidate}
            assert limit is None or len(pairs) <= limit
    configurations = [trial.configuration for trial in machine.trials if trial.role is Role.CANDIDATE]
    assert len(set(configurations)) == len(configurations)
    assert SPACE.default not in configurations


@settings(max_examples=examples(50))
@given(experiments, st.integers(1, 4))
def test_a_default_that_always_fails_ends_the_experiment_early(experiment, capacity):
    machine = Machine(capacity, default_fails=True, seed=experiment.seed)
    if experiment.budget.runs >= 2:
        with pytest.raises(NothingWorks):
            machine.carry_out(planner(experiment))
    else:
        machine.carry_out(planner(experiment))
    assert len(machine.runs) <= 2


def test_a_default_that_fails_now_and_then_does_not_end_the_experiment():
    outcomes = iter([True, False, True, True, False])

    class Flaky(Machine):
        def end(self, number):
            self.default_fails = next(outcomes, False)
            super().end(number)

    machine = Flaky()
    machine.carry_out(planner(Experiment(runner="function", sampler="random", budget=Budget(runs=30))))
    assert [run.state is State.FAILED for run in machine.runs[:5]] == [True, False, True, True, False]
    assert any(run.phase is Phase.CONFIRMATION for run in machine.runs)


@pytest.mark.parametrize("limit", [{"seconds": 30.0}, {"node_hours": 30 / 3600}])
def test_time_and_node_hours_are_kept_for_the_confirmation_too(limit):
    budget = Budget(runs=1000, **limit)
    machine = Machine()
    machine.carry_out(planner(Experiment(runner="function", sampler="random", budget=budget)))
    assert len(machine.runs) <= 30
    confirmed = [run for run in machine.runs if run.phase is Phase.CONFIRMATION]
    assert len(confirmed) >= 12
    assert len(confirmed) % 2 == 0


@pytest.mark.parametrize("runs", range(1, 60))
def test_pairs_are_kept_free_only_where_they_can_prove_something(runs):
    experiment = Experiment(runner="function", budget=Budget(runs=runs))
    pairs = most_pairs(experiment)
    assert pairs == 0 or pairs >= provable_pairs(experiment.confirmation) == 6
    assert (pairs > 0) == (runs >= 17)


def test_a_budget_of_seventeen_proves_what_is_large():
    machine = Machine(value=lambda configuration: 10.0 if configuration == SPACE.default else 1.0)
    machine.carry_out(planner(Experiment(runner="function", sampler="random", budget=Budget(runs=17))))
    assert len(machine.runs) == 17
    assert sum(run.phase is Phase.CONFIRMATION for run in machine.runs) == 12


def test_no_launch_is_spent_on_pairs_that_can_prove_nothing():
    machine = Machine()
    reason = machine.carry_out(planner(Experiment(runner="function", sampler="random", budget=Budget(runs=10))))
    assert len(machine.runs) == 10
    assert all(run.phase is not Phase.CONFIRMATION for run in machine.runs)
    assert "budget" in reason


def test_the_pairs_asked_for_are_run_even_if_few():
    rule = Confirmation(pairs=2)
    machine = Machine()
    machine.carry_out(
        planner(Experiment(runner="function", sampler="random", budget=Budget(runs=10), confirmation=rule))
    )
    assert sum(run.phase is Phase.CONFIRMATION for run in machine.runs) == 4
