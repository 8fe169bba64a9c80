"""The contract of runners.

Subclass :class:`RunnerContract` in a test file, give it your runner, and run the tests with pytest or any other runner
that collects methods by the name ``test_*``; they use plain assertions and need no fixture.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sysconfig
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import Plan
from stripewise.launch import Launch, Outcome
from stripewise.runners.base import Preflight, Runner
from stripewise.trial import Phase, State

_PATIENCE = 120.0


@contextlib.contextmanager
def refused_starts() -> Iterator[list[str]]:
    """Refuse to start programs and to load libraries in this process, and list what was tried."""
    tried: list[str] = []

    def refused(*given: Any, **_: Any) -> Any:
        tried.append(repr(given))
        raise AssertionError(f"a program was started or a library loaded: {given!r}")

    def loaded(library: ctypes.CDLL, name: str | None = None, *given: Any, **more: Any) -> None:
        # The interpreter's own packages load parts of themselves, and ask what is loaded.
        own = name is None or Path(name).is_relative_to(sysconfig.get_path("platlib"))
        if not own and str(name) not in Path("/proc/self/maps").read_text():
            refused(name)
        load(library, name, *given, **more)

    load = ctypes.CDLL.__init__
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(subprocess.Popen, "__init__", refused))
        patches.enter_context(mock.patch.object(ctypes.CDLL, "__init__", loaded))
        for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "execv", "execve"):
            patches.enter_context(mock.patch.object(os, name, refused))
        yield tried


class RunnerContract:
    """What the tuning loop relies on.

    A subclass defines :meth:`make`, and where runs can fail or last, how::

        class TestMyRunner(RunnerContract):
            def make(self):
                return MyRunner()

    Attributes
    ----------
    lasting : bool
        Whether :meth:`slow` is defined, so that time limits, cancellation and reaping can be checked.
    """

    lasting = False

    # -- what a subclass gives -------------------------------------------------------------------------------

    def make(self) -> Runner:
        """Make a runner of which every run succeeds within seconds; called often."""
        raise NotImplementedError("define make() in your subclass")

    def slow(self) -> Runner:
        """Make a runner of which every run would last ten minutes; needed where :attr:`lasting`."""
        raise NotImplementedError("define slow() in your subclass, or set lasting = False")

    def failing(self) -> Runner | None:
        """Make a runner of which every run fails, or None if this is impossible."""
        return None

    def configuration(self, preflight: Preflight, number: int) -> Configuration:
        """Give a configuration to run; the space's default unless a subclass says otherwise."""
        return preflight.space.default if preflight.space is not None else Configuration({})

    # -- help ------------------------------------------------------------------------------------------------

    def launch(
        self, preflight: Preflight, number: int, timeout: float | None = _PATIENCE, bound: float | None = None
    ) -> Launch:
        """Plan a run."""
        return Launch(
            experiment="contract",
            number=number,
            configuration=self.configuration(preflight, number),
            plan=Plan(identifier=f"contract.{number}"),
            phase=Phase.SEARCH,
            timeout=timeout,
            bound=bound,
        )

    def run(self, runner: Runner, launches: Iterable[Launch]) -> dict[int, Outcome]:
        """Start runs as capacity allows and collect every outcome."""
        waiting, under_way, ended = list(launches), set[int](), dict[int, Outcome]()
        deadline = time.monotonic() + _PATIENCE
        while waiting or under_way:
            assert time.monotonic() < deadline, f"runs {sorted(under_way)} gave no outcome"
            while waiting and len(under_way) < runner.capacity:
                launch = waiting.pop(0)
                runner.start(launch)
                under_way.add(launch.number)
            for outcome in runner.poll(1.0):
                assert outcome.number in under_way, f"run {outcome.number} was not under way"
                under_way.remove(outcome.number)
                ended[outcome.number] = outcome
                self.check(outcome)
        return ended

    def check(self, outcome: Outcome) -> None:
        """Check what holds for any outcome."""
        assert outcome.state.ended, f"a run ended in state {outcome.state}"
        assert outcome.elapsed >= 0
        assert (outcome.reason == "") == (outcome.state is State.FINISHED), "exactly runs without a value have a reason"
        assert "\n" not in outcome.reason, "a reason is one line"
        for name, value in outcome.metrics.items():
            assert isinstance(value, float), f"metric {name} is {value!r}"
        as_json(dict(outcome.facts))
        if outcome.report is not None:
            as_json(outcome.report.model_dump(mode="json"))
        assert outcome.facts.nodes is None or outcome.facts.nodes >= 1, "node-hours are charged by 'nodes'"

    # -- the contract ----------------------------------------------------------------------------------------

    def test_a_constructor_has_no_side_effects_and_close_may_be_called_at_once(self) -> None:
        """A runner that was never used holds nothing."""
        runner = self.make()
        runner.close()
        runner.close()

    def test_it_says_what_it_is(self) -> None:
        """Name, kind and capacity are known before the preflight."""
        runner = self.make()
        assert runner.name
        assert runner.kind in ("measured", "replayed", "simulated")
        assert runner.simulated is (runner.kind == "simulated")
        assert runner.capacity >= 1

    def test_an_inspection_starts_nothing_and_tells_what_is_certain(self) -> None:
        """A dry run, to which nobody has agreed, reads files alone; what it tells is what the preflight finds."""
        with self.make() as runner, refused_starts() as started:
            found = runner.inspect()
        assert not started, f"an inspection started {started[0]}"
        with self.make() as runner:
            known = runner.prepare().fingerprint
        assert dict(found.fingerprint).items() <= dict(known).items(), "an inspection told what does not hold"
        assert found.unknown or found.fingerprint == known, "an inspection did not say what it leaves open"

    def test_the_preflight_is_of_plain_values_and_the_same_each_time(self) -> None:
        """What is stored with the experiment is JSON, and a second preflight finds the same program."""
        with self.make() as runner:
            first = runner.prepare()
        with self.make() as another:
            second = another.prepare()
        as_json(first.environment)
        assert first.fingerprint == second.fingerprint
        assert all(isinstance(value, str) for value in first.fingerprint.values())
        for line in (*first.summary, *first.warnings):
            assert line, "an empty line says nothing"
            assert "\n" not in line

    def test_every_run_gives_exactly_one_outcome(self) -> None:
        """Runs end, each once, with a time and no reason."""
        with self.make() as runner:
            preflight = runner.prepare()
            before = time.time()
            ended = self.run(runner, [self.launch(preflight, number) for number in range(4)])
            assert sorted(ended) == [0, 1, 2, 3]
            for outcome in ended.values():
                assert outcome.state is State.FINISHED, outcome.reason
                if not runner.simulated:
                    assert before - 5 <= outcome.started <= time.time() + 5, "started is in epoch seconds"
            assert runner.poll(0.0) == [], "an outcome was given twice"

    def test_polling_with_nothing_under_way_returns_at_once(self) -> None:
        """The loop must not wait for what cannot come."""
        with self.make() as runner:
            runner.prepare()
            begin = time.monotonic()
            assert runner.poll(30.0) == []
            assert time.monotonic() - begin < 5

    def test_cancelling_what_is_not_under_way_changes_nothing(self) -> None:
        """A number that is unknown, or that has ended, is ignored."""
        with self.make() as runner:
            preflight = runner.prepare()
            runner.cancel(77)
            self.run(runner, [self.launch(preflight, 0)])
            runner.cancel(0)
            assert runner.poll(0.0) == []

    def test_a_run_that_was_never_started_can_be_reaped(self) -> None:
        """A planned run whose process never came to be is dead."""
        with self.make() as runner:
            preflight = runner.prepare()
            runner.reap(self.launch(preflight, 5))

    def test_a_failed_run_is_an_outcome_with_a_reason(self) -> None:
        """A failure of the program is an outcome, not an exception, and the next run starts as usual."""
        runner = self.failing()
        if runner is None:
            return
        with runner:
            preflight = runner.prepare()
            for outcome in self.run(runner, [self.launch(preflight, number) for number in range(2)]).values():
                assert outcome.state is State.FAILED
                assert outcome.reason

    def test_a_run_at_its_time_limit_is_failed(self) -> None:
        """A hung run costs its limit and no more."""
        if not self.lasting:
            return
        with self.slow() as runner:
            begin = time.monotonic()
            outcome = self.run(runner, [self.launch(runner.prepare(), 0, timeout=1.0)])[0]
            assert outcome.state is State.FAILED
            assert "limit" in outcome.reason
            assert runner.simulated or 1.0 <= outcome.elapsed <= time.monotonic() - begin < 30

    def test_a_run_at_its_bound_is_pruned(self) -> None:
        """A bound below the time limit counts first, and is not a failure."""
        if not self.lasting:
            return
        with self.slow() as runner:
            outcome = self.run(runner, [self.launch(runner.prepare(), 0, timeout=60.0, bound=0.5)])[0]
            assert outcome.state is State.PRUNED
            assert outcome.elapsed >= 0.5

    def test_a_cancelled_run_gives_no_outcome_and_can_be_started_again(self) -> None:
        """The loop cancels on a stop; the run is planned still."""
        if not self.lasting:
            return
        with self.slow() as runner:
            preflight = runner.prepare()
            runner.start(self.launch(preflight, 0))
            runner.cancel(0)
            assert runner.poll(0.5) == []
            again = self.launch(preflight, 0, timeout=0.5)
            assert self.run(runner, [again])[0].state is State.FAILED

    def test_close_ends_what_is_under_way(self) -> None:
        """After a close nothing runs, whatever was going on."""
        if not self.lasting:
            return
        runner = self.slow()
        runner.start(self.launch(runner.prepare(), 0))
        begin = time.monotonic()
        runner.close()
        assert time.monotonic() - begin < 30
        assert runner.poll(0.0) == []


def as_json(data: Mapping[str, object]) -> None:
    """Check that data survives the store."""
    assert json.loads(json.dumps(data, allow_nan=False)) == data, "facts must be plain JSON values"
