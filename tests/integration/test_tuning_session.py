"""The loop from first run to result, over Python functions."""

import errno
import math
import random
import subprocess
import sys

import pytest

import stripewise as sw
from stripewise.engine.ledger import ExperimentLedger
from stripewise.engine.session import Session
from stripewise.errors import NothingWorks, StoreError, UserError
from stripewise.facts import RunFacts
from stripewise.launch import Outcome
from stripewise.requests.experiment import Budget, Confirmation, Experiment, ObjectiveEntry
from stripewise.requests.from_python import space_of
from stripewise.requests.objective import Objective
from stripewise.runners.base import AnsweringRunner, Preflight
from stripewise.runners.function import FunctionRunner
from stripewise.store.opening import open_store
from stripewise.store.transactions import explain_system
from stripewise.trial import Phase, Role, State

SPACE = {"x": [1, 2, 4, 8], "mode": ["a", "b"]}


def tune(function, space=SPACE, **options):
    """With a sampler that costs nothing: these tests are about the loop."""
    return sw.tune(function, space, **{"sampler": "random", **options})


def noisy(seed, best=3.0, sigma=0.05):
    rng = random.Random(seed)

    def run(configuration):
        true = 10.0 / best if (configuration["x"], configuration["mode"]) == (4, "b") else 10.0
        return true * math.exp(rng.gauss(0, sigma))

    return run


def test_a_large_gain_is_found_and_proven():
    found = tune(noisy(1), SPACE, budget=40, seed=1)
    assert found.confirmed
    assert found.best == {"x": 4, "mode": "b"}
    assert found.speedup_ci95[0] > 2 and found.speedup_ci95[1] < 4.5
    assert "Proven" in found.verdict


def test_no_gain_is_claimed_where_there_is_none():
    found = tune(noisy(12, best=1.0), SPACE, budget=40, seed=12)
    assert not found.confirmed
    assert found.best == {"x": 1, "mode": "a"}
    assert found.speedup == 1.0 and found.speedup_ci95 is None
    assert "kept" in found.verdict


def test_every_launch_counts_against_the_budget():
    calls = []
    found = tune(lambda c: calls.append(c) or random.random() + 1, SPACE, budget=25, warmup=2)
    assert len(calls) <= 25
    assert found.result["runs"] == len(calls)
    assert sum(found.result["cost"]["launches"].values()) == len(calls)


def test_search_runs_never_enter_the_confirmation():
    found = tune(noisy(3), SPACE, budget=40, seed=3)
    confirmed = [r for t in found.trials for r in t.runs if r.phase is Phase.CONFIRMATION]
    searched = [r for t in found.trials for r in t.runs if r.phase is Phase.SEARCH]
    assert confirmed and searched
    assert min(r.number for r in confirmed) > max(r.number for r in searched)
    pairs = found.result["confirmation"]["pairs"]
    assert {row["order"] for row in pairs} == {"default-first", "candidate-first"}


def test_a_failing_configuration_is_remembered_and_not_repeated():
    seen = []

    def run(configuration):
        seen.append(dict(configuration))
        if configuration["mode"] == "b":
            raise ValueError("mode b is broken")
        return 1.0 / configuration["x"]

    found = tune(run, SPACE, budget=30, seed=4)
    broken = [s for s in seen if s["mode"] == "b"]
    assert len(broken) == len({s["x"] for s in broken})
    assert any(f["reason"] == "ValueError: mode b is broken" for f in found.result["failures"])
    assert found.best["mode"] == "a"


def test_a_program_that_never_works_ends_the_experiment():
    def run(configuration):
        raise RuntimeError("no licence")

    with pytest.raises(NothingWorks, match="no licence"):
        tune(run, SPACE, budget=20)


def test_a_program_that_never_worked_gets_another_try_on_resuming(tmp_path):
    url, calls, fixed = f"sqlite:///{tmp_path}/s.db", [], []

    def run(configuration):
        calls.append(configuration)
        if not fixed:
            raise RuntimeError("no licence")
        return 1.0 / configuration["x"]

    with pytest.raises(NothingWorks, match="no licence"):
        tune(run, SPACE, budget=20, store=url)
    identifier = open_store(url).records()[0].id
    once = len(calls)
    with pytest.raises(NothingWorks, match="no licence"):
        tune(run, SPACE, store=url, resume=identifier)
    assert len(calls) == 2 * once
    fixed.append(True)
    found = tune(run, SPACE, store=url, resume=identifier)
    assert found.confirmed
    assert found.result["runs"] == len(calls) <= 20


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_a_value_that_is_no_measurement_fails_the_run(value):
    with pytest.raises(NothingWorks):
        tune(lambda c: value, SPACE, budget=10)


def test_an_object_with_compute_gets_a_vector():
    class Box:
        def __init__(self):
            self.vectors = []

        def compute(self, values):
            self.vectors.append(values)
            return float(values[0])

    box = Box()
    found = tune(box, SPACE, budget=12, direction="maximize", pairs=0)
    assert found.result["candidate"]["configuration"]["x"] == 8
    assert all(len(v) == 2 and v[1] in ("a", "b") for v in box.vectors)


def test_something_that_cannot_be_called_is_refused():
    with pytest.raises(UserError, match="stripewise tune -- COMMAND"):
        sw.tune("mpiexec ./app", SPACE)
    with pytest.raises(UserError, match="neither called nor computed"):
        sw.tune(3, SPACE)


def test_the_same_seed_gives_the_same_history():
    def history(seed):
        found = tune(
            lambda c: 1.0 + c["x"] + (c["mode"] == "a"), {"x": range(1, 30), "mode": ["a", "b"]}, budget=20, seed=seed
        )
        return [(t.configuration, r.phase, r.value, r.arm) for t in found.trials for r in t.runs]

    assert history(5) == history(5)
    assert history(5) != history(6)


class Interrupt(BaseException):
    """Stands for a kill: nothing catches it."""


RESUMED = space_of({"x": [1, 2, 4, 8, 16, 32], "mode": ["a", "b", "c"]}, {}, ())
RESUMABLE = Experiment(
    name="f",
    runner="function",
    sampler="genetic",
    resampling={"kind": "simple", "repeats": 2},
    budget=Budget(runs=40),
    seed=7,
    warmup=1,
)


def steady(configuration):
    return 5.0 + configuration["x"] + 3 * (configuration["mode"] == "c") - 2 * (configuration["mode"] == "b")


class Abreast(FunctionRunner):
    """Takes several calls at a time, and gives the outcome of the latest first."""

    capacity = 3

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.started, self.reaped = [], []

    def start(self, launch):
        assert len(self._ended) < self.capacity
        self.started.append((launch.number, launch.attempt))
        super().start(launch)

    def reap(self, launch):
        self.reaped.append((launch.number, launch.attempt))

    def poll(self, timeout):
        return [self._ended.pop()] if self._ended else []


def session(store, identifier, function, runner=FunctionRunner):
    made = runner(function, RESUMED, Objective("value", "minimize", ""))
    return Session(store, identifier, made, "test"), made


def outline(store, identifier):
    return [
        (t.number, t.role, t.configuration, t.tag, [(r.number, r.phase, r.state, r.value, r.arm) for r in t.runs])
        for t in store.trials(identifier)
    ]


@pytest.fixture(scope="module")
def undisturbed():
    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(RESUMABLE)
        session(store, identifier, steady)[0].run()
        return outline(store, identifier)


def dying(calls):
    """The function, killed in each of some calls."""
    count = [0]

    def run(configuration):
        count[0] += 1
        if count[0] in calls:
            raise Interrupt
        return steady(configuration)

    return run


@pytest.mark.parametrize("at", [{1}, {2}, {5, 6, 7}, {14}, {26, 28}, {29}])
def test_an_interrupted_experiment_goes_on_as_if_undisturbed(undisturbed, at):
    assert any(run[1] is Phase.CONFIRMATION for trial in undisturbed for run in trial[4])
    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(RESUMABLE)
        function = dying(at)
        for _ in at:
            with pytest.raises(Interrupt):
                session(store, identifier, function)[0].run()
            assert store.record(identifier).state == "stopped"
        session(store, identifier, function)[0].run()
        assert outline(store, identifier) == undisturbed


def test_each_relaunch_of_a_run_is_another_attempt():
    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(RESUMABLE)
        function = dying({4, 5, 6})
        attempts = []
        for _ in range(3):
            interrupted, runner = session(store, identifier, function, Abreast)
            with pytest.raises(Interrupt):
                interrupted.run()
            attempts.append((runner.reaped, runner.started[-1]))
        # Run 3 starts beside run 2, which repeats the default: both are interrupted, and the earlier one comes first.
        assert [started for _, started in attempts] == [(3, 0), (2, 1), (2, 2)]
        assert attempts[2][0] == [(2, 2), (3, 1)]


def test_no_more_interrupted_runs_are_relaunched_at_once_than_the_runner_takes():
    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(RESUMABLE)
        interrupted, _ = session(store, identifier, dying({12}), Abreast)
        with pytest.raises(Interrupt):
            interrupted.run()
        left = [run.number for trial in store.trials(identifier) for run in trial.runs if not run.state.ended]
        assert len(left) == 3

        class OneByOne(Abreast):
            capacity = 1

        resumed, runner = session(store, identifier, steady, OneByOne)
        result = resumed.run().as_json()
        assert {number for number, _ in runner.reaped} == set(left)
        assert {number for number, attempt in runner.started if attempt} == set(left)
        assert result["cost"]["repeated"] == 3
        assert sum(result["cost"]["launches"].values()) == result["runs"], "each run counts once"
        runs = [run for trial in store.trials(identifier) for run in trial.runs]
        assert result["runs"] == len(runs) <= 40
        assert all(run.state is State.FINISHED for run in runs)


def test_a_run_that_was_planned_and_never_launched_is_not_repeated(monkeypatch):
    def killed(ledger, run, attempt):
        raise Interrupt

    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(RESUMABLE)
        with monkeypatch.context() as patch:
            patch.setattr(ExperimentLedger, "begin", killed)
            with pytest.raises(Interrupt):
                session(store, identifier, steady)[0].run()
        told = []
        resumed, _ = session(store, identifier, steady)
        resumed._listener = told.append
        assert resumed.run().cost.repeated == 0
        assert not [event for event in told if "again" in str(event.data.get("text"))]


@pytest.mark.parametrize("budget", [1, 2])
def test_a_budget_that_ends_before_the_program_ever_ran_is_said(budget):
    class Unknown(FunctionRunner):
        """Like a real program: its workload is known only once it has run."""

        def prepare(self):
            return Preflight(objective=self._objective)

    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(RESUMABLE.model_copy(update={"budget": Budget(runs=budget)}))
        with pytest.raises(NothingWorks, match="unlucky"):
            session(store, identifier, broken, Unknown)[0].run()
        assert store.record(identifier).state == "failed"


def broken(configuration):
    raise ValueError("unlucky")


def test_the_worst_case_is_told_before_the_first_run():
    told = []
    tune(lambda c: 1.0, budget=5, listener=told.append)
    kinds = [event.kind for event in told]
    assert kinds.index("worst_case") < kinds.index("started")
    worst = next(event.data for event in told if event.kind == "worst_case")
    # How long runs take is not known before one has run.
    assert worst["runs"] == 5 and worst["seconds"] is None


def test_a_full_disk_says_which_experiment_to_resume(monkeypatch):
    def full(*given, **named):
        raise explain_system(OSError(errno.ENOSPC, "No space left on device"), "x")

    with open_store("sqlite:///:memory:") as store:
        identifier = store.create(Experiment(runner="function"))
        runner = FunctionRunner(float, space_of(SPACE, {}, ()), Objective("value", "minimize", ""))
        monkeypatch.setattr(store, "claim", full)
        with pytest.raises(StoreError, match=rf"make room, then continue with: stripewise resume {identifier}$"):
            Session(store, identifier, runner, "ada").run()


def test_a_stop_is_obeyed_and_the_experiment_resumed(tmp_path):
    space = space_of(SPACE, {}, ())
    store = open_store(f"sqlite:///{tmp_path}/s.db")
    identifier = store.create(
        Experiment(name="f", runner="function", sampler="random", budget=Budget(runs=20), warmup=0)
    )
    calls = []

    def run(configuration):
        calls.append(1)
        if len(calls) == 5:
            store.request_stop(identifier)
        return float(configuration["x"])

    from stripewise.errors import Stopped

    objective = Objective("value", "minimize", "")
    with pytest.raises(Stopped):
        Session(store, identifier, FunctionRunner(run, space, objective), "test").run()
    assert len(calls) == 5
    result = Session(store, identifier, FunctionRunner(run, space, objective), "test").run().as_json()
    assert result["runs"] <= 20


class OtherPrograms(AnsweringRunner):
    """A command that starts other MPI programs than the one that is to be measured."""

    name = "other"

    def __init__(self):
        super().__init__()
        self.launches = []

    def prepare(self):
        return Preflight()

    def answer(self, launch):
        self.launches.append(launch)
        facts = RunFacts(no_report="no program of the command is called c: it started a, b")
        return Outcome(launch.number, State.FAILED, 1.0, 0.0, "no report", exit_code=0, facts=facts)


def test_a_program_that_the_command_does_not_start_ends_the_experiment_after_one_run(tmp_path):
    store, runner = open_store(f"sqlite:///{tmp_path}/s.db"), OtherPrograms()
    measured = ObjectiveEntry(name="io_time", program="c")
    identifier = store.create(Experiment(command=["./x"], objective=measured))
    with pytest.raises(UserError, match="the first run cannot be measured: no program of the command is called c"):
        Session(store, identifier, runner, "test").run()
    assert [launch.program for launch in runner.launches] == ["c"]


def test_no_confirmation_when_none_is_wanted():
    experiment = Experiment(runner="function", budget=Budget(runs=10), confirmation=Confirmation(pairs=0))
    assert experiment.confirmation.pairs == 0
    found = tune(lambda c: float(c["x"]), SPACE, budget=9, pairs=0, direction="maximize")
    assert not found.confirmed
    assert found.result["confirmation"]["pairs"] == []


def test_roles_of_trials():
    found = tune(noisy(9), SPACE, budget=30, seed=9)
    assert found.trials[0].role is Role.DEFAULT
    assert all(t.role is Role.CANDIDATE for t in found.trials[1:])


_JUMPS = """
import time
ahead, real, even = [0.0], time.time, time.monotonic
passed = [0.0]
time.time, time.monotonic = lambda: real() + ahead[0] + passed[0], lambda: even() + passed[0]
from stripewise.engine.ledger import ExperimentLedger
from stripewise.requests.experiment import Experiment
from stripewise.store.opening import open_store
store = open_store("sqlite:///:memory:")
ledger = ExperimentLedger(store, store.create(Experiment()), "me")
renewed = []
renew, store.renew = store.renew, lambda claim: (renewed.append(claim), renew(claim))
for jump in (86400.0, -86400.0):
    ahead[0] = jump
    assert 0 <= ledger.spent().seconds < 3600, ledger.spent()
    passed[0] += 50.0
    ledger.keep()
assert len(renewed) == 2, renewed
"""


def test_the_time_of_day_may_be_set_while_an_experiment_runs() -> None:
    done = subprocess.run([sys.executable, "-c", _JUMPS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
