"""The benchmark of truth: how statements are judged, and what is left out where one thing is switched."""

import math

import pytest
from benchmarks.truth.checks import FALSE, OPEN, TRUE, WRONG_WAY, compare, judge_calls, judge_speed
from benchmarks.truth.programs import HERE, Trace, read_programs
from benchmarks.truth.statements import NOTHING, Statement, leave_out, make_statement

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.plan import settings_of
from stripewise.catalogue.workload import Workload
from stripewise.engine.space import Circumstances, bind_space
from stripewise.requests.experiment import Experiment

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1]


def trace(times: int, size: int = 4096, sent: int = 8) -> Trace:
    """Two processes that write so many times."""
    made = ((("pwrite64", "data", "0", size), times),)
    return (made, made), (sent, sent)


@pytest.mark.parametrize(
    ("kind", "arm", "other", "word"),
    [
        ("effective", [trace(2)] * 2, [trace(8)] * 2, TRUE),
        ("no effect", [trace(2)] * 2, [trace(8)] * 2, FALSE),
        ("effective", [trace(2)] * 2, [trace(2)] * 2, FALSE),
        ("effective", [trace(2, sent=8)] * 2, [trace(2, sent=10)] * 2, TRUE),
        # Where calls differ from run to run, only a difference beyond that counts.
        ("effective", [trace(20), trace(22)], [trace(21), trace(23)], FALSE),
        ("no effect", [trace(20), trace(22)], [trace(21), trace(23)], TRUE),
        ("effective", [trace(20), trace(22)], [trace(200), trace(203)], TRUE),
    ],
)
def test_calls_tell_whether_a_setting_acts(kind: str, arm: list[Trace], other: list[Trace], word: str) -> None:
    assert judge_calls(Statement(kind, "", NOTHING, NOTHING), arm, other, None).word == word


def test_a_setting_of_an_answer_must_make_other_calls() -> None:
    one = Statement("answer", "", NOTHING, NOTHING)
    assert judge_calls(one, [trace(2)] * 2, [trace(8)] * 2, None).word == TRUE
    assert judge_calls(one, [trace(2)] * 2, [trace(2)] * 2, None).word == FALSE


def test_calls_that_the_objective_does_not_measure_do_not_refute_that_a_setting_did_nothing() -> None:
    def reads(times: int) -> Trace:
        return (*trace(2)[0], ((("pread64", "data", "0", 4096), times),)), (times,)

    says = "cb_nodes=2: the same; the objective does not measure reads"
    assert judge_calls(make_statement("no effect", says, NOTHING, NOTHING), [reads(2)], [reads(8)], None).word == TRUE
    assert judge_calls(Statement("no effect", says, NOTHING, NOTHING), [reads(2)], [reads(8)], None).word == FALSE


def test_time_shows_an_effect_that_makes_no_other_calls() -> None:
    faster = compare([value * 2 for value in STEADY], STEADY, maximize=True)
    same = compare(STEADY[::-1], STEADY, maximize=True)
    one = Statement("no effect", "", NOTHING, NOTHING)
    assert judge_calls(one, [trace(2)] * 2, [trace(2)] * 2, faster).word == FALSE
    assert judge_calls(one, [trace(2)] * 2, [trace(2)] * 2, same).word == TRUE


@pytest.mark.parametrize(
    ("low", "high", "times", "word"),
    [
        (1.8, 2.3, 2.0, TRUE),
        (1.2, 1.4, 2.0, FALSE),
        (1.2, 1.4, 0.5, WRONG_WAY),
        (0.95, math.inf, 1.0, TRUE),
        (0.95, math.inf, 0.8, FALSE),
        (-math.inf, 1.5, 2.0, FALSE),
        (-math.inf, 1.5, 1.2, TRUE),
    ],
)
def test_rounds_tell_how_many_times_as_fast(low: float, high: float, times: float, word: str) -> None:
    pairs = compare([value * times for value in STEADY], STEADY, maximize=True)
    assert pairs is not None
    assert judge_speed(Statement("speed-up", "", NOTHING, NOTHING, low, high), pairs).word == word


def test_too_few_rounds_leave_it_open() -> None:
    pairs = compare(STEADY[:4], STEADY[:4], maximize=True)
    assert pairs is not None
    assert judge_speed(Statement("speed-up", "", NOTHING, NOTHING, 2, 3), pairs).word == OPEN


def test_a_setting_goes_with_what_is_derived_from_it() -> None:
    experiment = Experiment.model_validate({"command": ["-"], "stacks": ["romio"]})
    workload = Workload(nodes=1, processes_per_node=4, collective=True, operation="write", layout="strided")
    space = bind_space(experiment, Circumstances(workload, "romio")).space
    arm = tuple(settings_of(space, Configuration({**space.default, "romio_cb_write": "enable", "cb_nodes": 2})))
    assert {setting.key for setting in arm} == {"romio_cb_write", "cb_nodes", "cb_config_list"}
    assert {setting.key for setting in leave_out(space, arm, "cb_nodes")} == {"romio_cb_write"}
    assert {setting.key for setting in leave_out(space, arm, "cb_config_list")} == {"romio_cb_write", "cb_nodes"}


def test_ten_programs_run_on_two_mpis() -> None:
    programs = read_programs(HERE / "programs.toml")
    names = {program.name for program in programs}
    assert len(names) >= 10
    assert all(len({p.mpi.name for p in programs if p.name == name}) == 2 for name in names)
