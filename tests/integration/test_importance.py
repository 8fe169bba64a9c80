"""Importance finds what matters and stays silent on noise."""

import numpy as np
import pytest

from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Space
from stripewise.models.importance import importance
from stripewise.requests.objective import Objective
from stripewise.trial import History, Phase, Run, State, Trial

SPACE = Space.bind(
    [
        Parameter("cb_write", Kind.CATEGORICAL, ("automatic", "enable", "disable"), "automatic"),
        Parameter("cb_nodes", Kind.ORDINAL, (1, 2, 4), 1, active_if=Expression.parse("cb_write != 'disable'")),
        Parameter(
            "buffer",
            Kind.ORDINAL,
            tuple(2**i for i in range(16, 25)),
            2**24,
            active_if=Expression.parse("cb_write == 'enable'"),
        ),
        Parameter("ds_write", Kind.CATEGORICAL, ("automatic", "enable", "disable"), "automatic"),
        Parameter("sieve", Kind.ORDINAL, tuple(2**i for i in range(12, 23)), 2**19),
        Parameter("no_indep", Kind.BOOLEAN, (False, True), False),
    ]
)


def history(n, noise, seed, effect, *, runs=1, direction="maximize", space=SPACE):
    rng = np.random.default_rng(seed)
    levels = np.unique(space.sample(rng, 4 * n), axis=0)
    rng.shuffle(levels)
    trials = []
    for number, row in enumerate(levels[:n]):
        configuration = space.configuration(row)
        sign = 1 if direction == "maximize" else -1
        values = 100 * np.exp(sign * effect(configuration) + noise * rng.normal(size=runs))
        done = tuple(
            Run(number * runs + k, number, Phase.SEARCH, State.FINISHED, float(v)) for k, v in enumerate(values)
        )
        trials.append(Trial(number, configuration, runs=done))
    return History(Objective("speed", direction, "MiB/s"), tuple(trials))


def nothing(_):
    return 0.0


def collective(c):
    return 1.5 if c["cb_write"] == "enable" else 0.0


def both(c):
    return collective(c) + (0.4 * np.log2(c["cb_nodes"]) if c["cb_write"] != "disable" else 0.0)


def claimed(found):
    return {name for name, share in found.shares.items() if share > 0}


def test_a_handful_of_runs_tells_nothing():
    found = importance(SPACE, history(7, 0.0, 0, collective))
    assert found.shares == {}
    assert found.note.startswith("too few runs to tell")


def test_pure_noise_is_not_explained():
    wrong = sum(bool(claimed(importance(SPACE, history(n, 0.2, seed, nothing)))) for n in (16, 50) for seed in range(6))
    assert wrong <= 1


def test_few_runs_of_noise_say_too_few_and_many_say_no_influence():
    few = importance(SPACE, history(16, 0.2, 1, nothing))
    many = importance(SPACE, history(60, 0.2, 1, nothing))
    assert few.shares == {}
    assert "too few runs to tell" in few.note
    assert many.shares == dict.fromkeys(SPACE.names, 0.0)
    assert "no measurable influence" in many.note


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_a_large_effect_is_found_in_a_short_search(direction):
    found = [importance(SPACE, history(20, 0.15, seed, collective, direction=direction)) for seed in range(4)]
    assert all("cb_write" in claimed(one) for one in found)
    assert sum(len(claimed(one)) > 1 for one in found) <= 1
    assert all("ds_write" in one.note for one in found if "ds_write" not in claimed(one))


def test_a_child_does_not_take_its_parents_credit():
    # The buffer differs from its default only where cb_write is enabled, so it tells of cb_write without mattering.
    taken = sum("buffer" in claimed(importance(SPACE, history(40, 0.1, seed, collective))) for seed in range(5))
    assert taken <= 1


def test_two_effects_are_ranked_and_shared():
    found = importance(SPACE, history(60, 0.15, 3, both))
    assert claimed(found) == {"cb_write", "cb_nodes"}
    assert list(found.shares)[:2] == ["cb_write", "cb_nodes"]
    assert sum(found.shares.values()) == pytest.approx(1.0)
    assert found.shares["cb_write"] > 1.5 * found.shares["cb_nodes"]


def test_same_history_gives_the_same_answer():
    runs = history(24, 0.2, 5, both)
    assert importance(SPACE, runs) == importance(SPACE, runs)


def test_values_at_or_below_zero_and_bounds_are_taken():
    runs = history(24, 0.0, 2, collective)
    trials = list(runs.trials)
    stopped = Run(99, trials[0].number, Phase.SEARCH, State.PRUNED, 0.0)
    trials[0] = Trial(trials[0].number, trials[0].configuration, runs=(stopped,))
    assert "cb_write" in claimed(importance(SPACE, History(runs.objective, tuple(trials))))


def test_constant_objective_and_constant_parameters_are_said():
    assert "alike" in importance(SPACE, history(20, 0.0, 0, nothing)).note
    runs = history(200, 0.1, 0, collective)
    kept = tuple(t for t in runs.trials if t.configuration["no_indep"] is False)[:40]
    assert "never varied: no_indep" in importance(SPACE, History(runs.objective, kept)).note


def test_a_long_history_is_read_in_seconds():
    large = Space.bind([Parameter(f"p{i}", Kind.INTEGER, range(1, 1001), 1) for i in range(8)])
    rng = np.random.default_rng(0)
    trials = tuple(
        Trial(
            i,
            large.configuration(row),
            runs=(Run(i, i, Phase.SEARCH, State.FINISHED, 1 + row[0] / 100 + rng.random()),),
        )
        for i, row in enumerate(large.sample(rng, 1500))
    )
    found = importance(large, History(Objective("elapsed", "minimize", "s"), trials))
    assert next(iter(found.shares)) == "p0"


def without_collective(c):
    return 1.5 if c["cb_write"] == "disable" else 0.0


def test_what_cannot_act_beside_a_proven_answer_is_not_credited():
    def buffers(c):
        return without_collective(c) + (0.5 * np.log2(c["buffer"] / 2**24) if c["cb_write"] == "enable" else 0.0)

    answer = {**SPACE.default, "cb_write": "disable"}
    found = importance(SPACE, history(30, 0.1, 0, buffers), answer=answer, proven=["cb_write"])
    assert max(found.shares, key=found.shares.get) == "cb_write"
    assert not {"cb_nodes", "buffer"} & set(found.shares)
    assert "switched off by the best settings: cb_nodes, buffer" in found.note


def test_a_proven_setting_is_never_without_influence():
    # One trial in twelve has the winner, which the trees cannot tell from chance; the pairs can.
    runs = history(12, 0.3, 4, nothing)
    assert claimed(importance(SPACE, runs)) == set()
    found = importance(SPACE, runs, answer={**SPACE.default, "no_indep": True}, proven=["no_indep"])
    assert claimed(found) == {"no_indep"}
    assert "no_indep" not in found.note
