"""The contract of samplers.

Subclass :class:`SamplerContract` in a test file, give it your sampler, and run the tests with pytest or any other
runner that collects methods by the name ``test_*``; they use plain assertions and need no fixture. Searches are
rehearsed in spaces of every shape (:func:`sample_spaces`) by :func:`play`, which decides what becomes of each run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Levels, Space
from stripewise.observe.objectives import parse_objective
from stripewise.requests.objective import Objective
from stripewise.search.base import Sampler, Suggestion, sampler_rng
from stripewise.trial import History, Phase, Role, Run, State, Trial

MAXIMIZE = parse_objective("bandwidth")
MINIMIZE = parse_objective("elapsed")

Fate = Callable[[Space, Configuration], Sequence[tuple[State, float | None]]]
"""What becomes of the runs of a configuration: their states and values."""


def smooth_value(space: Space, configuration: Configuration) -> float:
    """A positive objective with one peak, a little rough, the same for each configuration at every call."""
    levels = space.levels([configuration])[0]
    places = [level / max(1, size - 1) for level, size in zip(levels, space.shape, strict=True)]
    height = sum((place - 0.7) ** 2 for place in places)
    return float(100.0 * np.exp(-height) * (1 + 0.05 * _chance(configuration)))


def all_fail(space: Space, configuration: Configuration) -> Sequence[tuple[State, float | None]]:
    """Every run fails."""
    return [(State.FAILED, None)]


def mix_fates(space: Space, configuration: Configuration) -> Sequence[tuple[State, float | None]]:
    """Some configurations fail, some are pruned, some are run twice, some work only every other time."""
    value = smooth_value(space, configuration)
    fates: list[Sequence[tuple[State, float | None]]] = [
        [(State.FAILED, None)],
        [(State.PRUNED, value)],
        [(State.FINISHED, value), (State.FINISHED, value * 1.1)],
        [(State.FINISHED, value), (State.FAILED, None)],
        [(State.FINISHED, value), (State.RUNNING, None)],
    ]
    place = int(_chance(configuration) * 10)
    return fates[place] if place < len(fates) else [(State.FINISHED, value)]


def sample_spaces() -> dict[str, Space]:
    """Spaces of every shape that a sampler has to cope with, by name."""
    number = Parameter("cb_nodes", Kind.INTEGER, range(1, 9), 4)
    size = Parameter("cb_buffer_size", Kind.ORDINAL, tuple(1 << k for k in range(20, 26)), 1 << 24, scale=Scale.LOG2)
    switch = Parameter("cb_write", Kind.CATEGORICAL, ("automatic", "enable", "disable"), "automatic")
    flag = Parameter("sieving", Kind.BOOLEAN, (False, True), False)
    zero = Parameter("readahead", Kind.ORDINAL, (0, 1, 2), 0)
    fixed = Parameter("hashing", Kind.CATEGORICAL, ("on",), "on")
    dependent = replace(size, active_if=Expression.parse("cb_write != 'disable'"))
    nested = replace(number, active_if=Expression.parse("cb_write != 'disable' and cb_buffer_size > 1048576"))
    wide = [Parameter(f"axis{k}", Kind.INTEGER, range(12), 3) for k in range(7)]
    return {
        "one configuration": Space.bind([fixed]),
        "two configurations": Space.bind([fixed, flag]),
        "one parameter": Space.bind([number]),
        "only categories": Space.bind([switch, replace(switch, name="cb_read"), flag]),
        "values that are zero or false": Space.bind([zero, flag]),
        "conditional": Space.bind([switch, dependent, nested, flag]),
        "constrained": Space.bind(
            [number, zero, replace(number, name="stripes")],
            constraints=[Expression.parse("cb_nodes <= stripes"), Expression.parse("readahead < 2 or stripes == 8")],
        ),
        "large": Space.bind([*wide, switch], constraints=[Expression.parse("axis0 + axis1 < 20")]),
    }


@dataclass(frozen=True)
class Question:
    """A question that was put to a sampler, with its answer."""

    history: History
    seed: int
    n: int
    answer: tuple[Suggestion, ...]


def ask(sampler: Sampler, space: Space, history: History, n: int = 1, seed: int = 0) -> tuple[Suggestion, ...]:
    """Ask as the tuning loop does, and check that the answer keeps the promises of :meth:`Sampler.ask`."""
    answer = tuple(sampler.ask(space, history, sampler_rng(seed, len(history.trials)), n))
    known = {trial.configuration for trial in history.trials}
    assert len(answer) <= n, f"{len(answer)} suggestions, asked for {n}"
    for suggestion in answer:
        configuration = suggestion.configuration
        assert isinstance(suggestion.tag, str), f"tag {suggestion.tag!r} is not text"
        assert configuration not in known, f"{configuration} was asked for before"
        known.add(configuration)
        assert space.canonical(configuration) == configuration, f"{configuration} is not folded"
    return answer


@dataclass(frozen=True)
class Pace:
    """How trials are asked for: so many at a time, while so many of the latest are still pending."""

    batch: int = 1
    waiting: int = 0


def play(
    sampler: Sampler,
    space: Space,
    *,
    trials: int,
    fate: Fate = mix_fates,
    pace: Pace = Pace(),
    objective: Objective = MAXIMIZE,
    seed: int = 0,
) -> tuple[History, list[Question]]:
    """Search a space: the default first, then what the sampler asks for, until it has nothing more or it is enough.

    Parameters
    ----------
    sampler : Sampler
    space : Space
    trials : int
        When to stop.
    fate : callable
        What becomes of each configuration.
    pace : Pace
    objective : Objective
    seed : int
    """
    done = [Trial(0, space.default, Role.DEFAULT)]
    questions: list[Question] = []
    while True:
        done = [_make_ended(t, space, fate) if t.number < len(done) - pace.waiting else _make_pending(t) for t in done]
        history = History(objective, tuple(done))
        if len(done) >= trials:
            return history, questions
        n = min(pace.batch, trials - len(done))
        answer = ask(sampler, space, history, n, seed)
        questions.append(Question(history, seed, n, answer))
        if not answer:
            return history, questions
        done += [Trial(len(done) + k, s.configuration, tag=s.tag) for k, s in enumerate(answer)]


def store_and_load(history: History) -> History:
    """The history after a trip through JSON, as a store would give it back."""
    trials = []
    for trial in history.trials:
        values = json.loads(json.dumps(dict(trial.configuration)))
        trials.append(replace(trial, configuration=Configuration(values), tag=json.loads(json.dumps(trial.tag))))
    return History(history.objective, tuple(trials))


def _chance(configuration: Configuration) -> float:
    return int(configuration.key, 16) / 16**12


def _make_pending(trial: Trial) -> Trial:
    return replace(trial, runs=(Run(trial.number, trial.number, Phase.SEARCH),))


def _make_ended(trial: Trial, space: Space, fate: Fate) -> Trial:
    runs = tuple(
        Run(1000 * trial.number + k, trial.number, Phase.SEARCH, state, value, elapsed=value)
        for k, (state, value) in enumerate(fate(space, trial.configuration))
    )
    return replace(trial, runs=runs)


class SamplerContract:
    """What the tuning loop relies on.

    A subclass defines :meth:`make`::

        class TestMySampler(SamplerContract):
            def make(self):
                return MySampler()

    Attributes
    ----------
    complete : bool
        Whether the sampler tries everything before it gives up; set it to False for one that may end earlier.
    trials : int
        Length of the searches: enough to leave the sampler's first points behind.
    """

    complete = True
    trials = 14

    def make(self) -> Sampler:
        """Make the sampler; called often, so that nothing can be carried over in an instance."""
        raise NotImplementedError("define make() in your subclass")

    def check(self, space: Space, *, seed: int = 0, batch: int = 1, waiting: int = 0, fate: Fate = mix_fates) -> None:
        """Search a space and check every answer, then ask each question again, in another order and from a store."""
        sampler = self.make()
        history, questions = play(sampler, space, trials=self.trials, fate=fate, pace=Pace(batch, waiting), seed=seed)
        self._check_end(space, questions)
        for question in reversed(questions[::3]):
            # A sampler that draws from the global generator instead of its own is caught here.
            np.random.seed(question.n + 7)
            for another in (self.make(), sampler):
                again = ask(another, space, store_and_load(question.history), question.n, question.seed)
                assert again == question.answer, f"asked again: {again}, before: {question.answer}"
        self._check_recommendation(space, history)

    def _check_end(self, space: Space, questions: Sequence[Question]) -> None:
        for question in questions:
            if self.complete and len(question.answer) < question.n:
                tried = len(question.history.trials) + len(question.answer)
                assert tried == space.count()[0], f"gave up after {tried} of {space.count()[0]} configurations"

    def _check_recommendation(self, space: Space, history: History) -> None:
        finished = {trial.number for trial in history.finished}
        recommended = [trial.number for trial in self.make().recommend(space, history)]
        assert len(set(recommended)) == len(recommended), "a trial is recommended twice"
        assert set(recommended) <= finished, "a trial without a value is recommended"
        assert bool(recommended) == bool(finished), "nothing is recommended although something worked"
        gain = self.make().expected_improvement(space, history)
        assert gain is None or (np.isfinite(gain) and gain >= 0), f"expected improvement {gain}"

    def _spaces(self, *, small: bool = False) -> Iterator[tuple[str, Space]]:
        for name, space in sample_spaces().items():
            if not small or space.cardinality <= 24:
                yield name, space

    def test_pure_in_history_and_rng(self) -> None:
        """The same question has the same answer, from a new sampler, after other questions and from a store."""
        for _, space in self._spaces():
            self.check(space)

    def test_pure_with_pending_trials_and_batches(self) -> None:
        """So it is with several runners side by side."""
        for name in ("conditional", "constrained"):
            self.check(sample_spaces()[name], batch=3, waiting=2, seed=5)

    def test_any_prefix_is_a_history(self) -> None:
        """A search can be taken up after any of its trials, whatever came of them."""
        space = sample_spaces()["conditional"]
        history, _ = play(self.make(), space, trials=self.trials, pace=Pace(waiting=1))
        for length in range(0, len(history.trials) + 1, 3):
            prefix = History(history.objective, history.trials[:length])
            first, second = (ask(self.make(), space, prefix, n=2) for _ in range(2))
            assert first == second
            assert first, f"nothing is proposed after {length} trials"

    def test_ends_when_everything_was_tried(self) -> None:
        """A small space is tried without a repeat, then the answer is empty."""
        for name, space in self._spaces(small=True):
            total = space.count()[0]
            history, questions = play(self.make(), space, trials=total + 1)
            assert not questions[-1].answer, f"{name}: more than {total} configurations"
            if self.complete:
                assert len(history.trials) == total, f"{name}: {len(history.trials)} of {total} were tried"

    def test_a_prior_makes_another_sampler(self) -> None:
        """A prior is given to a new sampler of the same options; the one without it stays as it was."""
        plain = self.make()
        before = plain.prior

        def none(space: Space, levels: Levels) -> NDArray[np.float64]:
            return np.zeros(len(levels))

        made = plain.starting_from(none)
        assert type(made) is type(plain), f"a {type(made).__name__} in place of a {type(plain).__name__}"
        assert made.options == plain.options, "the options changed with the prior"
        assert made.prior is none, "the prior is not kept"
        assert plain.prior is before, "the sampler without a prior changed"
        assert ask(made, sample_spaces()["conditional"], History(MINIMIZE), n=1), "nothing is proposed with a prior"

    def test_batch_larger_than_what_is_left(self) -> None:
        """Asked for more than there is, a sampler gives what is left."""
        for name, space in self._spaces(small=True):
            history, _ = play(self.make(), space, trials=1)
            answer = ask(self.make(), space, history, n=100)
            if self.complete:
                assert len(answer) == space.count()[0] - 1, (
                    f"{name}: {len(answer)} of {space.count()[0] - 1} were proposed"
                )

    def test_batch_is_as_large_as_asked(self) -> None:
        """While there is enough left, no runner stays without work."""
        space = sample_spaces()["large"]
        for n in (1, 2, 5):
            history, _ = play(self.make(), space, trials=4, pace=Pace(batch=n))
            assert len(ask(self.make(), space, history, n)) == n

    def test_survives_failure_of_everything(self) -> None:
        """If nothing has worked yet, not even the default, the search goes on."""
        self.check(sample_spaces()["conditional"], fate=all_fail)

    def test_everything_pruned_pending_or_alike(self) -> None:
        """Nor do runs without contrast stop it."""
        space = sample_spaces()["constrained"]
        self.check(space, fate=lambda _space, _configuration: [(State.PRUNED, 3.0)])
        self.check(space, fate=lambda _space, _configuration: [(State.FINISHED, 3.0)])
        self.check(space, waiting=self.trials)

    def test_any_number_may_be_an_objective(self) -> None:
        """Zero, negative, tiny and huge values are learned from, whether minimised or maximised."""
        space = sample_spaces()["conditional"]
        transforms: list[Callable[[float], float]] = [
            lambda v: v - 80,
            lambda v: 0.0,
            lambda v: v * 1e-9,
            lambda v: v * 1e9,
        ]
        for transform in transforms:
            for objective in (MINIMIZE, MAXIMIZE):
                fate = _with_values(transform)
                play(self.make(), space, trials=self.trials // 2, objective=objective, fate=fate)

    def test_works_without_a_default_in_the_history(self) -> None:
        """The first question of all may come with an empty history."""
        for name, space in self._spaces():
            assert ask(self.make(), space, History(MAXIMIZE)), f"{name}: nothing is proposed"


def _with_values(transform: Callable[[float], float]) -> Fate:
    return lambda space, configuration: [(State.FINISHED, transform(smooth_value(space, configuration)))]
