"""What the loop runs next: budgets, order of phases and progress, whatever fails and however many run side by side."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stripewise.engine.budget import fewest_launches, most_pairs
from stripewise.engine.confirmation import provable_pairs, shuffled_pairs
from stripewise.engine.events import ignore_event
from stripewise.engine.launching import run_timeout
from stripewise.engine.session import Session
from stripewise.errors import NothingWorks
from stripewise.launch import Outcome
from stripewise.observe.objectives.registry import objective_of
from stripewise.requests.experiment import Budget, Confirmation, Experiment, ObjectiveEntry
from stripewise.requests.from_python import space_of
from stripewise.requests.objective import Objective
from stripewise.result import Effect
from stripewise.runners.base import Preflight, Runner
from stripewise.search.base import sampler_rng
from stripewise.store.base import MEMORY
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.conftest import examples

ARMS = ("candidate", "default")
SPACE = space_of({"x": [1, 2, 4, 8], "mode": ["a", "b", "c"]}, {}, ())
STACK = """
name = "component"
[[parameter]]
name = "x"
kind = "ordinal"
values = [1, 2, 4, 8]
default = 1
carrier = "env"
key = "COMPONENT_X"
[[parameter]]
name = "mode"
kind = "categorical"
values = ["a", "b", "c"]
default = "a"
carrier = "env"
key = "COMPONENT_MODE"
[off]
env = { COMPONENT = "off" }
"""


@pytest.fixture(scope="module")
def component(tmp_path_factory):
    """A stack whose component can be switched off, so that there is a reference."""
    path = tmp_path_factory.mktemp("stacks") / "component.toml"
    path.write_text(STACK)
    return str(path)


class Machine(Runner):
    """Runs nothing: some runs fail, and side by side they end in any order."""

    name = "machine"
    kind = "simulated"
    simulated = True

    def __init__(self, capacity=1, failing=0.0, default_fails=False, seed=0, value=None, space=SPACE, noise=0.1):
        self.noise = noise
        self._capacity, self.failing, self.default_fails = capacity, failing, default_fails
        self.rng = sampler_rng(seed, 0)
        self.value = value or (lambda configuration: 10.0 / configuration["x"])
        self.space = space
        self.running, self.most_running, self.trials, self.result = [], 0, (), None

    def carry_out(self, experiment, listener=ignore_event):
        with open_store(MEMORY) as store:
            identifier = store.create(experiment)
            try:
                self.result = Session(store, identifier, self, "test", listener).run()
            finally:
                self.trials = store.trials(identifier)
        return self.result.reason

    @property
    def runs(self):
        return sorted((run for trial in self.trials for run in trial.runs), key=lambda run: run.number)

    @property
    def capacity(self):
        return self._capacity

    def prepare(self):
        return Preflight(space=self.space, objective=Objective("value", "minimize", "s"))

    def inspect(self):
        return self.prepare()

    def start(self, launch):
        self.running.append(launch)
        self.most_running = max(self.most_running, len(self.running))

    def poll(self, timeout):
        assert self.running, "nothing runs and nothing is planned"
        return [self.end(self.running.pop(int(self.rng.integers(len(self.running)))))]

    def cancel(self, number):
        self.running = [launch for launch in self.running if launch.number != number]

    def reap(self, launch):
        raise AssertionError("no run was interrupted")

    def end(self, launch):
        configuration = launch.configuration or SPACE.default
        is_default = configuration == SPACE.default and not launch.reference
        if self.default_fails if is_default else self.rng.random() < self.failing:
            return Outcome(launch.number, State.FAILED, 1.0, 0.0, "broken")
        value = self.value(configuration) * math.exp(self.rng.normal(0, self.noise))
        return Outcome(launch.number, State.FINISHED, 1.0, 0.0, metrics={"value": value})


experiments = st.builds(
    Experiment,
    runner=st.just("function"),
    sampler=st.sampled_from(["random", "genetic", "exhaustive"]),
    resampling=st.sampled_from([{"kind": "none"}, {"kind": "simple"}, {"kind": "racing"}]),
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
@settings(max_examples=examples(40), deadline=None)
@given(experiments, st.integers(1, 4), st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_the_budget_is_never_exceeded_and_every_experiment_ends(component, experiment, capacity, failing, reference):
    machine = Machine(capacity, failing, seed=experiment.seed, space=None if reference else SPACE)
    if reference:
        experiment = experiment.model_copy(update={"stacks": [component]})
    # The default never fails, so the program has run once, whatever the budget is.
    machine.carry_out(experiment)
    assert len(machine.runs) <= experiment.budget.runs
    assert machine.most_running <= capacity
    assert all(run.state.ended for run in machine.runs)
    confirmed = [run for run in machine.runs if run.phase is Phase.CONFIRMATION]
    searched = [run for run in machine.runs if run.phase is not Phase.CONFIRMATION]
    if confirmed:
        assert min(run.number for run in confirmed) > max(run.number for run in searched)
        limit = experiment.confirmation.pairs
        for candidate in {run.facts.against for run in confirmed}:
            pairs = {run.pair for run in confirmed if run.facts.against == candidate}
            assert limit is None or len(pairs) <= limit
    configurations = [trial.configuration for trial in machine.trials if trial.role is Role.CANDIDATE]
    assert len(set(configurations)) == len(configurations)
    assert SPACE.default not in configurations


@settings(max_examples=examples(12), deadline=None)
@given(experiments, st.integers(1, 4))
def test_a_default_that_always_fails_ends_the_experiment_early(experiment, capacity):
    machine = Machine(capacity, default_fails=True, seed=experiment.seed)
    if experiment.budget.runs >= 2:
        with pytest.raises(NothingWorks):
            machine.carry_out(experiment)
    else:
        machine.carry_out(experiment)
    assert len(machine.runs) <= 2


def test_other_runs_start_while_the_default_is_repeated():
    class Watched(Machine):
        beside = 0

        def start(self, launch):
            repeated = [one for one in self.running if one.configuration == SPACE.default]
            self.beside += bool(repeated) and launch.phase is Phase.SEARCH
            super().start(launch)

    machine = Watched(capacity=3)
    options = {"kind": "simple", "repeats": 3}
    machine.carry_out(Experiment(runner="function", sampler="random", resampling=options, budget=Budget(runs=20)))
    assert machine.beside > 0


def test_a_default_that_fails_now_and_then_does_not_end_the_experiment():
    outcomes = iter([True, False, True, True, False])

    class Flaky(Machine):
        def end(self, launch):
            self.default_fails = next(outcomes, False)
            return super().end(launch)

    machine = Flaky()
    machine.carry_out(Experiment(runner="function", sampler="random", budget=Budget(runs=30)))
    assert [run.state is State.FAILED for run in machine.runs[:5]] == [True, False, True, True, False]
    assert any(run.phase is Phase.CONFIRMATION for run in machine.runs)


def test_settings_without_effect_leave_the_answer_before_it_is_confirmed(monkeypatch):
    statuses = {"x": "effective", "mode": "no_effect"}

    def effects(space, trial, default, trials=()):
        changed = [name for name in space.names if trial.configuration[name] != space.default[name]]
        return [Effect(name, status=statuses[name]) for name in changed if trial.role is Role.CANDIDATE]

    for module in ("planner", "riders"):
        monkeypatch.setattr(f"stripewise.engine.{module}.effects_of", effects)
    begun = set()
    for seed in (0, 8):
        machine = Machine(seed=seed, value=lambda c: 100 / c["x"] ** 4 * (1 if c["mode"] == "a" else 0.7))
        machine.carry_out(Experiment(runner="function", sampler="random", budget=Budget(runs=20), seed=seed))
        confirmed = [run for run in machine.runs if run.phase is Phase.CONFIRMATION]
        (answer,) = {run.facts.against for run in confirmed}
        assert machine.trials[answer].configuration["mode"] == "a"
        assert [run.trial for run in confirmed if run.arm == "candidate"] == [answer] * (len(confirmed) // 2)
        if not machine.trials[answer].values:
            # It was not tried in the search: it enters with the pairs, whichever arm runs first.
            begun.add(confirmed[0].arm)
            assert machine.result.shown.configuration["x"] > 1
            assert machine.result.shown.value
    assert begun == {"default", "candidate"}


@pytest.mark.parametrize("sampler", ["random", "auto", "exhaustive"])
def test_what_did_nothing_is_not_varied_any_more(monkeypatch, sampler):
    def effects(narrowing, space, trial, default):
        if trial.role is not Role.CANDIDATE:
            return {}
        changed = [name for name in space.names if trial.configuration[name] != space.default[name]]
        return {name: Effect(name, status="no_effect" if name == "mode" else "effective") for name in changed}

    monkeypatch.setattr("stripewise.engine.ineffective.Narrowing._effects", effects)
    monkeypatch.setattr("stripewise.engine.ineffective.activities_of", lambda trial: [None])
    machine, told = Machine(), []
    experiment = Experiment(
        runner="function",
        sampler=sampler,
        budget=Budget(runs=16),
        resampling={"kind": "none"},
        confirmation=Confirmation(pairs=0),
    )
    machine.carry_out(experiment, lambda event: told.append(event.data.get("text", "")))
    tried = [trial.configuration for trial in machine.trials if trial.role is Role.CANDIDATE]
    modes = [configuration["mode"] for configuration in tried if configuration["mode"] != "a"]
    # The second of two values ends it.
    assert len(modes) == 8 if sampler == "exhaustive" else len(set(modes[:-1])) == 1 and len(set(modes)) == 2
    notes = [text for text in told if "no longer varied" in text]
    assert len(notes) == (sampler != "exhaustive")
    assert {c["x"] for c in tried} | {1} == {1, 2, 4, 8}


@pytest.mark.parametrize("acting", [(), ((1, "b"),)])
def test_configurations_of_which_no_setting_is_seen_to_act_are_not_confirmed(monkeypatch, acting):
    def effects(space, trial, default, trials=()):
        status = "effective" if tuple(trial.configuration.values()) in acting else "no_effect"
        return [Effect(name, status=status) for name in space.names] if trial.role is Role.CANDIDATE else []

    for module in ("planner", "riders", "result"):
        monkeypatch.setattr(f"stripewise.engine.{module}.effects_of", effects)
    machine = Machine(value=lambda c: 100 / c["x"] * (1 if c["mode"] == "a" else 0.7))
    machine.carry_out(Experiment(runner="function", sampler="exhaustive", budget=Budget(runs=40)))
    confirmed = {run.facts.against for run in machine.runs if run.phase is Phase.CONFIRMATION}
    assert [tuple(machine.trials[number].configuration.values()) for number in confirmed] == list(acting)
    assert machine.result.confirmed is bool(acting)
    if not acting:
        assert "no setting of what looked better did anything" in machine.result.verdict
        assert set(machine.result.ineffective) == set(SPACE.names)
        assert not machine.result.confirmation.more_budget


def test_pairs_that_show_a_gain_of_settings_that_did_nothing_prove_none(monkeypatch):
    monkeypatch.setattr(
        "stripewise.engine.result.effects_of",
        lambda space, trial, default, trials: [Effect(name, status="no_effect") for name in space.names],
    )
    machine = Machine(value=lambda c: 100 / c["x"])
    machine.carry_out(Experiment(runner="function", sampler="exhaustive", budget=Budget(runs=40)))
    assert not machine.result.confirmed and machine.result.best.configuration == dict(SPACE.default)
    assert machine.result.verdict.endswith("by the evidence no setting did anything, so it counts as chance.")


@pytest.mark.parametrize("limit", [{"seconds": 30.0}, {"node_hours": 30 / 3600}])
def test_time_and_node_hours_are_kept_for_the_confirmation_too(limit):
    budget = Budget(runs=1000, **limit)
    machine = Machine()
    machine.carry_out(Experiment(runner="function", sampler="random", budget=budget))
    assert len(machine.runs) <= 30
    confirmed = [run for run in machine.runs if run.phase is Phase.CONFIRMATION and not run.facts.left_out]
    assert len(confirmed) >= 8
    assert len(confirmed) % 2 == 0


def test_no_run_may_outlive_the_node_hours_that_are_left():
    class Real(Machine):
        simulated = False
        limits = ()

        def start(self, launch):
            self.limits += (launch.timeout,)
            super().start(launch)

    machine = Real()
    limit = {"runs": 60, "node_hours": 30 / 3600}
    machine.carry_out(Experiment(runner="function", sampler="random", budget=limit, seed=1))
    assert list(machine.limits) == pytest.approx([max(1, 30 - run.number) for run in machine.runs])


def test_runs_side_by_side_share_the_node_hours_that_are_left():
    class Slow(Machine):
        """Every setting makes the program hang."""

        simulated = False

        def end(self, launch):
            if not launch.configuration or launch.configuration == SPACE.default:
                return super().end(launch)
            return Outcome(launch.number, State.FAILED, launch.timeout, 0.0, "hung")

    machine = Slow(capacity=3)
    budget = Budget(runs=60, node_hours=60 / 3600)
    machine.carry_out(Experiment(runner="function", sampler="random", budget=budget, timeout=40))
    assert machine.most_running > 1
    assert machine.result.node_hours <= 61 / 3600


def test_a_large_gain_is_proven_by_eight_launches_in_one_random_order():
    orders = set()
    for seed in range(3):
        machine = Machine(seed=seed, value=lambda c: 100 / c["x"])
        machine.carry_out(Experiment(runner="function", sampler="exhaustive", budget=Budget(runs=40), seed=seed))
        confirmed = [run for run in machine.runs if run.phase is Phase.CONFIRMATION]
        assert machine.result.confirmed and machine.result.confirmation.interval.low > 1
        assert sorted((run.pair, run.arm) for run in confirmed) == [(n, a) for n in range(4) for a in ARMS]
        orders.add(tuple((run.pair, run.arm) for run in confirmed))
    assert len(orders) == 3
    # Not one pair after the other.
    assert any(one[0] != other[0] for order in orders for one, other in zip(order[::2], order[1::2], strict=True))


def test_a_small_gain_is_proven_in_pairs_side_by_side():
    machine = Machine(seed=1, value=lambda c: 10.0 if c["x"] == 8 else 11.0)
    machine.carry_out(Experiment(runner="function", sampler="exhaustive", budget=Budget(runs=40), seed=1))
    confirmed = [run for run in machine.runs if run.phase is Phase.CONFIRMATION]
    assert len(confirmed) > 8
    assert [run.pair for run in confirmed] == [number // 2 for number in range(len(confirmed))]


@pytest.mark.parametrize("runs", range(1, 60))
def test_pairs_are_kept_free_only_where_they_can_prove_something(runs):
    experiment = Experiment(runner="function", budget=Budget(runs=runs))
    pairs, rule = most_pairs(experiment), experiment.confirmation
    assert pairs in (0, shuffled_pairs(rule)) or pairs >= provable_pairs(rule) == 6
    assert (pairs > 0) == (runs >= fewest_launches(experiment) == 13)
    assert (pairs >= 6) == (runs >= 17)
    within = Experiment(command=["-"], runner="within", budget=Budget(runs=runs))
    assert most_pairs(within) == 0 or most_pairs(within) >= 6


@pytest.mark.parametrize("runs", [13, 16, 17])
@pytest.mark.parametrize("spend_all", [False, True])
def test_a_small_budget_proves_what_is_large(runs, spend_all):
    machine = Machine(value=lambda configuration: 10.0 if configuration == SPACE.default else 1.0)
    budget = Budget(runs=runs, spend_all=spend_all)
    machine.carry_out(Experiment(runner="function", sampler="random", budget=budget))
    proof = [run for run in machine.runs if run.phase is Phase.CONFIRMATION]
    assert machine.result.confirmed and len(proof) == 8
    assert len(machine.runs) == (runs if runs < 17 else 13)
    # All eight are in one random order: pairs whose runs are side by side prove nothing in that number.
    assert {run.facts.first_look for run in proof} == {4}


def test_a_small_budget_says_that_a_small_gain_is_not_proven():
    # The slowest run of the candidate is slower than the fastest of the default, in whatever order they come.
    turns = itertools.cycle([1.0, 1.0, 1.0, 0.3])
    machine = Machine(value=lambda configuration: next(turns) if configuration == SPACE.default else 0.5)
    machine.carry_out(Experiment(runner="function", sampler="random", budget=Budget(runs=13)))
    assert len(machine.runs) == 13 and not machine.result.confirmed
    assert machine.result.confirmation.decision == "not_proven" and len(machine.result.confirmation.pairs) == 4
    assert machine.result.verdict.startswith("Not proven, so the default is kept")


@pytest.mark.parametrize("spend_all", [False, True])
def test_a_proof_that_is_not_expected_to_bring_three_percent_is_not_begun(spend_all):
    machine = Machine(value=lambda configuration: 1.0 if configuration == SPACE.default else 0.99, noise=0.005)
    budget = Budget(runs=40, spend_all=spend_all)
    machine.carry_out(Experiment(runner="function", sampler="random", budget=budget))
    proof = [run for run in machine.runs if run.phase is Phase.CONFIRMATION]
    assert bool(proof) is spend_all
    said = "what is left of the budget is not expected to prove 1.03 times the default (--spend-all tries)"
    assert spend_all or machine.result.verdict == f"The default is kept: {said}, so nothing was confirmed."


def test_a_search_that_found_nothing_says_so_once():
    machine = Machine(value=lambda configuration: 1.0 if configuration == SPACE.default else 2.0, noise=0.005)
    machine.carry_out(Experiment(runner="function", sampler="random", budget=Budget(runs=40, spend_all=True)))
    assert machine.result.verdict == "No configuration looked better than the default, which is kept."


def test_no_launch_is_spent_on_pairs_that_can_prove_nothing():
    machine = Machine()
    reason = machine.carry_out(Experiment(runner="function", sampler="random", budget=Budget(runs=10)))
    assert len(machine.runs) == 10
    assert all(run.phase is not Phase.CONFIRMATION for run in machine.runs)
    assert "budget" in reason


def test_the_pairs_asked_for_are_run_even_if_few():
    rule = Confirmation(pairs=2)
    machine = Machine()
    machine.carry_out(Experiment(runner="function", sampler="random", budget=Budget(runs=10), confirmation=rule))
    assert sum(run.phase is Phase.CONFIRMATION for run in machine.runs) == 4


class Cutting(Machine):
    """A machine whose runs take their time, and end at their bound."""

    def end(self, launch):
        seconds = self.value(launch.configuration or SPACE.default)
        if launch.bound is not None and seconds > launch.bound:
            return Outcome(launch.number, State.PRUNED, launch.bound, 0.0, launch.cut_after(launch.bound))
        return Outcome(launch.number, State.FINISHED, seconds, 0.0, metrics={"value": seconds})


def test_what_cannot_win_is_cut_and_known_to_be_worse_but_never_the_default_or_the_confirmation():
    machine = Cutting(value=lambda c: {"a": 20.0, "b": 5.0, "c": 80.0}[c["mode"]] + c["x"])
    machine.carry_out(Experiment(runner="function", sampler="random", budget=Budget(runs=34), seed=4))
    cut = [run for run in machine.runs if run.state is State.PRUNED]
    assert cut
    assert all(run.phase is Phase.SEARCH and machine.trials[run.trial].role is Role.CANDIDATE for run in cut)
    assert all(run.reason.startswith("cut after ") and "times as long as the best" in run.reason for run in cut)
    # The objective is no wall time, and still each of them is known to be worse than what was best.
    assert all(run.value >= run.elapsed for run in cut)
    assert machine.result.confirmed and machine.result.best.configuration["mode"] == "b"


@pytest.mark.parametrize("pruning", [{}, {"kind": "incumbent"}])
def test_a_printed_number_with_a_limit_may_take_longer_unless_cuts_are_asked_for(tmp_path, pruning):
    class Feeding(Cutting):
        def prepare(self):
            return Preflight(space=self.space, objective=objective_of(entry))

        def end(self, launch):
            folder = tmp_path / str(launch.number)
            folder.mkdir()
            outcome = super().end(launch)
            (folder / "stdout").write_text(f"fed {outcome.elapsed}\nbusy 95\n")
            return replace(outcome, folder=folder)

    limits = ["regex:busy ([0-9]+) >= 90"]
    entry = ObjectiveEntry(name="regex:fed ([0-9.]+)", direction="maximize", subject_to=limits)
    machine = Feeding(value=lambda c: {"a": 5.0, "b": 20.0, "c": 80.0}[c["mode"]] + c["x"])
    budget = Budget(runs=34)
    machine.carry_out(Experiment(runner="function", objective=entry, sampler="random", budget=budget, pruning=pruning))
    assert any(run.state is State.PRUNED for run in machine.runs) == bool(pruning)


def test_the_time_limit_follows_the_noise_that_was_seen():
    def trials(*times):
        default = Trial(0, SPACE.default, Role.DEFAULT, (Run(0, 0, Phase.SEARCH, State.FINISHED, 1.0, elapsed=4.0),))
        runs = [Run(1 + k, 1, Phase.SEARCH, State.FINISHED, 1.0, elapsed=t) for k, t in enumerate(times)]
        return [default, Trial(1, SPACE.default, runs=tuple(runs))]

    assert run_timeout(Experiment(), trials(2.0, 2.0), None) == 120
    assert run_timeout(Experiment(), trials(2.0, 6.0), None) == 360
    assert run_timeout(Experiment(timeout=7), trials(2.0, 6.0), None) == 7


class Unsteady(Machine):
    """Now and then a run fails; the first of the best configuration does."""

    def end(self, launch):
        best = launch.configuration.get("x") == 8 and launch.configuration["mode"] == "b"
        tried = sum(run == launch.configuration for run in self.ended)
        self.ended.append(launch.configuration)
        if (best and tried == 0) or len(self.ended) == 2:
            return Outcome(launch.number, State.FAILED, 1.0, 0.0, "exit code 1: connection lost")
        return Outcome(launch.number, State.FINISHED, 1.0, 0.0, metrics={"value": 3.0 if best else 10.0})


def test_a_setting_that_failed_once_is_tried_again_and_wins():
    machine = Unsteady()
    machine.ended = []
    machine.carry_out(Experiment(runner="function", sampler="random", budget=Budget(runs=40), seed=3))
    assert machine.result.best.configuration == {"x": 8, "mode": "b"}
    failed = next(t for t in machine.trials if t.configuration == machine.result.best.configuration)
    runs = [run for run in failed.runs if run.phase is Phase.SEARCH]
    assert runs[0].state is State.FAILED and runs[1].state is State.FINISHED
    assert runs[1].number > runs[0].number + 2, "what made it fail may still hold"


def test_a_setting_that_fails_twice_is_given_up():
    machine = Machine(failing=1.0)
    machine.carry_out(Experiment(runner="function", sampler="random", budget=Budget(runs=40)))
    searched = [[run for run in trial.runs if run.phase is Phase.SEARCH] for trial in machine.trials[1:]]
    assert all(len(runs) <= 2 for runs in searched)
    assert sum(len(runs) == 2 for runs in searched) <= 2, "all fail for one reason"
