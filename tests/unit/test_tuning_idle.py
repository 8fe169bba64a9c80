"""Parameters that did nothing by the evidence are not varied any more, and only where that is known."""

from copy import deepcopy
from dataclasses import replace

import pytest

from stripewise.catalogue.carriers import ARGUMENT, LAYOUT
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.expression import Expression
from stripewise.catalogue.parameter import Kind, Parameter
from stripewise.catalogue.space import Space
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.engine.ineffective import Narrowing, io_too_short, list_waiting
from stripewise.engine.ledger import Spent
from stripewise.engine.loop import Finish, Planned
from stripewise.engine.planner import Planner
from stripewise.requests.experiment import Budget, Experiment
from stripewise.requests.objective import Objective
from stripewise.result import Effect
from stripewise.search.base import make_sampler, sampler_rng
from stripewise.search.policy.pruning import make_pruner
from stripewise.search.policy.resampling import make_resampler
from stripewise.search.policy.stopping import make_stopping
from stripewise.trial import History, Phase, Role, Run, State, Trial
from tests.unit.reports import recorded

REPORT = recorded("romio_strided_write")["default"]
SPACE = Space.bind(
    [
        Parameter("switch", Kind.CATEGORICAL, ("automatic", "on", "off"), "automatic"),
        Parameter(
            "size", Kind.ORDINAL, (1, 2, 4, 8, 16), 4, active_if=Expression.parse("switch != 'off'")
        ),
        Parameter("other", Kind.ORDINAL, (1, 2, 3), 1),
    ]
)  # fmt: skip


def trial(number, report=REPORT, state=State.FINISHED, **settings):
    value = 1.0 if state is State.FINISHED else None
    runs = (Run(number, number, Phase.SEARCH, state, value, facts={"report": report}),)
    configuration = SPACE.canonical({**SPACE.default, **settings})
    return Trial(number, configuration, Role.CANDIDATE if settings else Role.DEFAULT, runs)


@pytest.fixture
def evidence(monkeypatch):
    """What became of each setting, by its name; all others acted."""
    statuses: dict[str, str] = {}

    def effects_of(space, of, default):
        changed = [name for name in space.names if of.configuration[name] != space[name].default]
        return [
            Effect(name, "", "", "plan", None, statuses.get(name, "effective"), f"evidence of {of.number}")
            for name in changed
        ]

    monkeypatch.setattr("stripewise.engine.ineffective.effects_of", effects_of)
    return statuses


def test_a_run_that_failed_says_nothing_about_its_settings(evidence):
    evidence["size"] = "no_effect"
    failed = trial(3, state=State.FAILED, size=1)
    trials = [trial(0), trial(1, size=8), trial(2, size=2, other=2), failed]
    (idle,) = Narrowing().idle(SPACE, trials)
    assert idle.values == (2, 8)


@pytest.mark.slow
def test_phases_are_judged_anew_as_they_double(monkeypatch):
    judged: list[int] = []
    effect = Effect("size", "", "", "plan", None, "no_effect", "evidence")
    monkeypatch.setattr(
        "stripewise.engine.ineffective.effects_of", lambda _, of, usual: judged.append(len(usual.runs)) or [effect]
    )
    narrowing, (one,) = Narrowing(), trial(0).runs
    for phases in range(1, 40):
        default = replace(trial(0), runs=tuple(replace(one, number=number) for number in range(phases)))
        narrowing.idle(SPACE, [default, trial(100, size=8)])
    assert judged == [1, 2, 3, 4, 5, 6, 7, 8, 16, 32]


def test_an_ordered_parameter_is_left_alone_between_the_values_that_did_nothing(evidence):
    evidence["size"] = "no_effect"
    trials = [trial(0), trial(1, size=8), trial(2, size=2, other=2)]
    narrowing = Narrowing()
    narrow = narrowing.of(SPACE, trials)
    default = {"switch": "automatic", "size": 4, "other": 1}
    folded = {size: narrow.canonical({**default, "size": size})["size"] for size in (1, 2, 4, 8, 16)}
    assert folded == {1: 1, 2: 4, 4: 4, 8: 4, 16: 16}
    # Where another switch is set, nobody has looked.
    assert narrow.canonical({"switch": "on", "size": 8, "other": 1})["size"] == 8
    assert narrowing.of(SPACE, trials) is narrow
    (idle,) = narrowing.idle(SPACE, trials)
    assert idle.sentence == (
        "size is no longer varied between 2 and 8 where switch is automatic: set to 2, 8 in 2 configurations, it did "
        "nothing (evidence of 1)"
    )


def test_what_did_nothing_with_one_pattern_of_the_program_is_still_varied_with_another(evidence, monkeypatch):
    pattern = Parameter("pattern", Kind.CATEGORICAL, ("", "-c"), "", role="collective", carrier=ARGUMENT)
    monkeypatch.setattr(f"{__name__}.SPACE", replace(SPACE, parameters=(*SPACE.parameters, pattern)))
    evidence["other"] = "no_effect"
    trials = [trial(0), trial(1, other=2), trial(2, other=3)]
    (idle,) = Narrowing().idle(SPACE, trials)
    assert (idle.where, "where pattern is empty" in idle.sentence) == ((("pattern", ""),), True)
    narrow = Narrowing().of(SPACE, trials)
    assert narrow.canonical({**SPACE.default, "other": 2})["other"] == 1
    assert narrow.canonical({**SPACE.default, "other": 2, "pattern": "-c"})["other"] == 2


@pytest.mark.parametrize(
    ("status", "trials", "idle"),
    [
        ("no_effect", [trial(0), trial(1, switch="on"), trial(2, switch="off")], True),
        ("refused", [trial(0), trial(1, switch="on"), trial(2, switch="off")], True),
        ("no_effect", [trial(0), trial(1, switch="on")], False),
        ("no_effect", [trial(0), trial(1, switch="on"), trial(2, switch="on", other=2)], False),
        ("unprovable", [trial(0), trial(1, switch="on"), trial(2, switch="off")], False),
        ("no_effect", [trial(0), trial(1, None, switch="on"), trial(2, None, switch="off")], False),
        ("no_effect", [trial(1, switch="on"), trial(2, switch="off")], False),
    ],
)
def test_a_parameter_is_idle_after_two_of_its_values_and_no_doubt(evidence, status, trials, idle):
    evidence["switch"] = status
    found = Narrowing().idle(SPACE, trials)
    assert [one.name for one in found] == (["switch"] if idle else [])
    narrow = Narrowing().of(SPACE, trials)
    assert (narrow is SPACE) == (not idle)
    switches = {narrow.canonical({**SPACE.default, "switch": s, "size": 4})["switch"] for s in ("on", "off")}
    assert switches == ({"automatic"} if idle else {"on", "off"})


def test_one_run_in_which_it_acted_is_enough_to_vary_it(monkeypatch, evidence):
    trials = [trial(0), trial(1, other=2), trial(2, other=3), trial(3, other=3, size=8)]
    evidence["other"] = "no_effect"
    assert [one.name for one in Narrowing().idle(SPACE, trials)] == ["other"]
    everywhere = Narrowing()._effects

    def acted_once(self, space, of, default):
        found = everywhere(space, of, default)
        return {**found, "other": found["size"]} if of.number == 3 else found

    monkeypatch.setattr(Narrowing, "_effects", acted_once)
    assert Narrowing().idle(SPACE, trials) == ()


def test_samplers_ask_for_nothing_that_differs_in_what_did_nothing_alone(evidence):
    evidence.update({"switch": "no_effect", "size": "no_effect"})
    trials = [trial(0), trial(1, switch="on"), trial(2, switch="off"), trial(3, size=1), trial(4, size=16)]
    narrow = Narrowing().of(SPACE, trials)
    history = History(Objective("value", "minimize", "s"), tuple(trials))
    for sampler in ("auto", "random"):
        asked = make_sampler(sampler).ask(narrow, history, sampler_rng(0, 5), 10)
        assert sorted(one.configuration["other"] for one in asked) == [2, 3]
        assert {(one.configuration["switch"], one.configuration["size"]) for one in asked} == {("automatic", 4)}


@pytest.mark.parametrize("sampler", ["auto", "random", "latin_hypercube", "exhaustive", "genetic", "surrogate"])
def test_what_ran_before_its_setting_was_known_to_do_nothing_is_not_repeated(evidence, sampler):
    """Inside a condition, too: with the switch at its default, a size of 8 with 2 is 2 with the default's size."""
    evidence["size"] = "no_effect"
    trials = [trial(0), trial(1, size=8, other=2), trial(2, size=2, other=3), trial(3, size=8, other=3)]
    narrow = Narrowing().of(SPACE, trials)
    history = History(Objective("value", "minimize", "s"), tuple(trials))
    tried = {tuple(row) for row in narrow.fold(narrow.levels([one.configuration for one in trials]))}
    assert len(tried) == 3
    asked = make_sampler(sampler).ask(narrow, history, sampler_rng(0, 5), 40)
    found = [tuple(narrow.fold(narrow.levels([one.configuration]))[0]) for one in asked]
    assert found and len({*found}) == len(found)
    assert not {*found} & tried


def test_recorded_runs_of_romio_say_that_a_larger_buffer_does_nothing():
    workload = Workload(nodes=1, processes_per_node=4, operation="write", collective=True, api="mpiio")
    stack = load_stack("romio")
    space = Space.bind(stack.parameters, (), stack.derived, workload.words())
    larger = recorded("romio_strided_write")["hint cb_buffer_size 4194304"]
    default = space.default
    usual = default["cb_buffer_size"]
    trials = [
        Trial(0, default, Role.DEFAULT, (Run(0, 0, Phase.SEARCH, State.FINISHED, 1.0, facts={"report": REPORT}),))
    ]
    sizes = [size for size in space["cb_buffer_size"].values if size not in (usual, 1 << 20)][-2:]
    for number, size in enumerate(sizes, 1):
        run = Run(number, number, Phase.SEARCH, State.FINISHED, 1.0, facts={"report": larger})
        trials.append(Trial(number, Configuration({**default, "cb_buffer_size": size}), Role.CANDIDATE, (run,)))
    (idle,) = Narrowing().idle(space, trials)
    assert idle.name == "cb_buffer_size"
    assert "1 MiB" in idle.evidence


# -- what cannot matter


HINTS = Space.bind(
    [
        replace(one, active_if=None, same_as_default=None)
        for one in load_stack("romio").parameters
        if one.name in ("romio_cb_write", "romio_ds_read")
    ]
)


def weighed(elapsed, io_time):
    """The default, whose first report says how long its run and the calls in it took."""
    report = deepcopy(REPORT)
    report["job"] |= {"elapsed": elapsed, "io_time": io_time}
    return Trial(0, HINTS.default, Role.DEFAULT, trial(0, report).runs)


@pytest.mark.parametrize(("elapsed", "told"), [(100.0, "I/O takes 0.6% of the run"), (10.0, ""), (1.1, "")])
def test_nothing_is_searched_where_all_that_can_be_set_touches_a_small_part_of_the_run(elapsed, told):
    default = weighed(elapsed, 0.577)
    assert io_too_short(HINTS, default).startswith(told) and bool(io_too_short(HINTS, default)) == bool(told)
    assert io_too_short(SPACE, default) == "", "an argument may change what the program computes"
    assert io_too_short(HINTS, trial(0, None)) == "", "without a report nothing is known"


def test_parameters_of_a_direction_that_takes_hardly_any_time_wait():
    default = weighed(1.1, 0.577)
    assert list_waiting(HINTS, default) == ("romio_ds_read",)
    assert list_waiting(SPACE, default) == ()
    narrow = Narrowing().of(HINTS, [default], ("romio_ds_read",))
    row = {**HINTS.default, "romio_cb_write": "disable", "romio_ds_read": "enable"}
    assert narrow.canonical(row) == {**HINTS.default, "romio_cb_write": "disable"}
    assert HINTS.canonical(row) == row


@pytest.mark.parametrize(
    ("objective", "spend_all", "ends"), [("elapsed", False, True), ("elapsed", True, False), ("io_time", False, False)]
)
def test_the_first_run_is_the_last_where_nothing_that_can_be_set_matters(objective, spend_all, ends):
    experiment = Experiment(command=["-"], budget=Budget(runs=20, spend_all=spend_all), sampler="random")
    parts = (make_sampler("random"), make_resampler(), make_pruner(), make_stopping())
    planner = Planner(experiment, Objective(objective, "minimize", "s"), HINTS, False, *parts)
    default = weighed(100.0, 0.577)
    warmed = replace(default, runs=(replace(default.runs[0], phase=Phase.WARMUP),))
    step = planner.next([warmed], Spent(1, 100.0, 0.0))
    assert isinstance(step, Finish if ends else Planned)
    assert not ends or step.reason.endswith("(--spend-all searches all the same)")


def test_layouts_that_files_keep_are_no_longer_varied_and_what_set_them_is_no_answer():
    stripes = Parameter("stripes", Kind.ORDINAL, (1, 2, 4), 1, carrier=LAYOUT, key="lustre stripe_count")
    space = Space.bind([Parameter("other", Kind.ORDINAL, (1, 2, 3), 1), stripes])

    def tried(number, *, kept, **settings):
        state = State.FAILED if kept else State.FINISHED
        run = Run(number, number, Phase.SEARCH, state, None if kept else 1.0 / number, facts={"kept_layout": kept})
        return Trial(number, space.canonical({**space.default, **settings}), Role.CANDIDATE, (run,))

    default = Trial(0, space.default, Role.DEFAULT, (Run(0, 0, Phase.SEARCH, State.FINISHED, 1.0),))
    made, other = tried(1, kept=False, stripes=2), tried(2, kept=False, other=2)
    first, second = tried(3, kept=True, stripes=4), tried(4, kept=True, stripes=2, other=3)
    experiment = Experiment(command=["-"], runner="within", budget=Budget(runs=60), sampler="random")
    parts = (make_sampler("random"), make_resampler(), make_pruner(), make_stopping())
    planner = Planner(experiment, Objective("phase_bandwidth", "minimize", "s"), space, False, *parts)
    assert planner.kept_layouts([default, made, other, first]) == ()
    assert planner.kept_layouts([default, first, second, tried(5, kept=False, stripes=4)]) == ()
    trials = [default, made, other, first, second]
    assert planner.kept_layouts(trials) == ("stripes",)
    assert [trial.number for trial in planner.history(trials).trials] == [0, 2]
    for number in range(5, 12):
        step = planner.next(trials, Spent(len(trials), 1.0, 0.0))
        if not isinstance(step, Planned) or step.run.phase is not Phase.SEARCH:
            break
        assert step.trial.configuration["stripes"] == 1
        trials.append(replace(step.trial, runs=(replace(step.run, state=State.FINISHED, value=1.0 / number),)))
    assert len(trials) > 5
