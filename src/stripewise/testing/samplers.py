"""The contract of samplers.

Subclass :class:`SamplerContract` in a test file, give it your sampler, and run the tests with pytest or any other
runner that collects methods by the name ``test_*``; they use plain assertions and need no fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.space import Levels, Space
from stripewise.search.base import Sampler
from stripewise.testing.rehearsal import (
    MAXIMIZE,
    MINIMIZE,
    Fate,
    Question,
    all_fail,
    ask,
    mixed,
    play,
    sample_spaces,
    smooth_value,
    stored,
)
from stripewise.trial import History, State


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

    def check(self, space: Space, *, seed: int = 0, batch: int = 1, waiting: int = 0, fate: Fate = mixed) -> None:
        """Search a space and check every answer, then ask each question again, in another order and from a store."""
        sampler = self.make()
        history, questions = play(
            sampler, space, trials=self.trials, fate=fate, batch=batch, waiting=waiting, seed=seed
        )
        self._check_end(space, questions)
        for question in reversed(questions[::3]):
            # A sampler that draws from the global generator instead of its own is caught here.
            np.random.seed(question.n + 7)
            for another in (self.make(), sampler):
                again = ask(another, space, stored(question.history), question.n, question.seed)
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
        history, _ = play(self.make(), space, trials=self.trials, waiting=1)
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
            history, _ = play(self.make(), space, trials=4, batch=n)
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
