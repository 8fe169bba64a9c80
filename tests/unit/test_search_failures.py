"""Which failures are taken for chance, and which failed trial is run once more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stripewise.facts import RunFacts
from stripewise.search.belief.belief import believe
from stripewise.search.policy.resampling import Failures, choose_retry, find_failed_once
from stripewise.search.samplers.auto import AutoSampler
from stripewise.search.samplers.nonadaptive import RandomSampler
from stripewise.trial import History, Role, State, failures_of
from tests.unit.search_histories import ELAPSED, LINE, history


def because(seen, reasons):
    """Give the failed runs of trials their reasons, and number all runs in order of their trials."""
    trials, number = [], 0
    for trial in seen.trials:
        runs = []
        for run in trial.runs:
            reason = reasons.get(trial.number, "exit code 1") if run.state is State.FAILED else ""
            runs.append(replace(run, number=number, reason=reason))
            number += 1
        trials.append(replace(trial, runs=tuple(runs)))
    return History(seen.objective, tuple(trials))


def numbers(seen, **options):
    return [trial.number for trial in find_failed_once(seen, **options)]


def test_a_failure_is_looked_at_again_later_and_only_once():
    seen = because(history(1.0, "failed", 1.1, 1.2, ("failed", "failed"), ("failed", 1.0), "failed"), {4: "b", 6: "c"})
    assert numbers(seen) == [1]
    assert numbers(seen, at_once=True) == [1, 6]


def test_reasons_for_which_a_configuration_was_given_up_are_not_tried_again():
    reasons = {1: "ended by signal 11 (process 7)", 2: "ended by signal 11 (process 9)"}
    assert numbers(because(history(1.0, ("failed", "failed"), "failed", 1.0, 1.0, 1.0), reasons)) == []
    # Where working configurations fail in the same way, the reason says nothing about the settings.
    assert numbers(because(history((1.0, "failed"), ("failed", "failed"), "failed", 1.0, 1.0, 1.0), {})) == [2]


def breaking(trial, number):
    """Let a trial's run break a limit."""
    facts = RunFacts(subject_to={"busy_share >= 90": 80.0})
    runs = [replace(run, state=State.FAILED, facts=facts) if n == number else run for n, run in enumerate(trial.runs)]
    return replace(trial, runs=tuple(runs))


def test_what_has_broken_a_limit_once_is_no_answer_and_is_not_tried_again():
    default, once, twice, kept = history(1.0, 0.5, (0.5, 0.5), 0.8, 1.0, 1.0, 1.0).trials[:4]
    trials = (breaking(default, 0), breaking(once, 0), breaking(twice, 1), kept)
    seen = History(ELAPSED, (replace(trials[0], role=Role.DEFAULT), *trials[1:]))
    assert [trial.values for trial in seen.trials] == [(), (), (), (0.8,)]
    assert [trial.state for trial in seen.trials[1:]] == [State.FAILED, State.FAILED, State.FINISHED]
    assert not seen.trials[0].broken
    assert numbers(seen, at_once=True) == []
    assert failures_of(run for trial in seen.trials for run in trial.runs)[0].reason == "broke busy_share >= 90"


def test_chance_is_learned_from_configurations_that_work_and_from_those_given_up():
    calm, unsteady = Failures.of(history(*[1.0] * 8)), Failures.of(history(*[(1.0, "failed")] * 3, *[1.0] * 5))
    broken = Failures.of(history(*[1.0] * 4, *[("failed", "failed")] * 4))
    assert not calm.seen and unsteady.seen
    assert unsteady.chance(1) > 0.7
    assert 0.2 < calm.chance(1) < 0.4
    assert broken.chance(1) < 0.1
    assert unsteady.chance(2) < unsteady.chance(1)


def test_what_promises_most_is_run_again_if_the_gain_is_worth_a_run():
    seen = because(history(1.0, "failed", 2.0, 4.0, "failed", 1.5, 1.2, 1.1), {})
    failed = find_failed_once(seen)
    assert choose_retry(seen, failed, np.array([0.1, 0.3])) == 4
    assert choose_retry(seen, failed, np.array([0.01, 0.02])) is None
    assert choose_retry(seen, [], np.array([])) is None


@pytest.mark.parametrize("sampler", [RandomSampler(), AutoSampler()])
def test_every_sampler_can_tell_what_a_failed_configuration_would_gain(sampler):
    seen = because(history(1.0, "failed", 2.0, 4.0, 3.0), {})
    gain = sampler.gain_if_it_works(LINE, seen, LINE.levels([seen.trials[1].configuration]))
    assert gain.shape == (1,) and 0 < gain[0] < 3
    assert sampler.gain_if_it_works(LINE, History(ELAPSED), LINE.levels([LINE.default])) == [0.0]


def test_a_failure_says_less_where_the_program_fails_at_random():
    def labels(*results):
        belief = believe(LINE, because(history(*results), {}), None, trust=0.5, most=100)
        return None if belief.feasibility is None else list(belief.feasibility.data.cost)

    assert labels(1.0, 1.1, 1.2, "failed") == [-1, 1, 1, 1]
    failed, *others = labels((1.0, "failed"), (1.1, "failed"), (1.2, "failed"), "failed")
    assert 0 < failed < 1 and others == [1, 1, 1]
    assert labels(1.0, 1.1, (1.2, "failed")) is None, "what has worked does work"
