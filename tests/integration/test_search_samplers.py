"""What each sampler is for: that it learns, and that each of its options does what it says."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec

import numpy as np
import pytest

from stripewise import plugins
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.space import Space
from stripewise.errors import UserError
from stripewise.observe.objectives import parse_objective
from stripewise.search.base import PRESETS, make_sampler, sampler_class, sampler_names, sampler_rng
from stripewise.search.samplers.surrogate import ENTRY_POINTS as REGRESSORS
from stripewise.search.samplers.surrogate import regressor_names
from stripewise.testing.samplers import MAXIMIZE, Pace, ask, mix_fates, play, sample_spaces, smooth_value
from stripewise.trial import History, State
from tests.conftest import require
from tests.unit.search_histories import BANDWIDTH, trial

PEAK = Space.bind(
    [
        Parameter("stripes", Kind.ORDINAL, tuple(1 << k for k in range(8)), 1, scale=Scale.LOG2),
        Parameter("nodes", Kind.INTEGER, range(1, 17), 1),
        Parameter("cb", Kind.CATEGORICAL, ("automatic", "enable", "disable"), "automatic"),
        Parameter("sieving", Kind.BOOLEAN, (False, True), False),
    ]
)


def bandwidth(space, configuration):
    levels = space.levels([configuration])[0]
    height = (levels[0] / 7 - 0.8) ** 2 + (levels[1] / 15 - 0.4) ** 2
    return [(State.FINISHED, float(100 * np.exp(-4 * height) * (1.5 if configuration["cb"] == "disable" else 1.0)))]


def found(name, options=None, *, trials=32, seed=0):
    history, _ = play(make_sampler(name, options), PEAK, trials=trials, fate=bandwidth, seed=seed)
    return max(trial.value for trial in history.finished)


def generations(history):
    return [int(re.fullmatch(r"generation (\d+)", t.tag)[1]) if t.tag else None for t in history.trials]


# -- learning


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("genetic", {"population": 6}),
        ("genetic", {"population": 6, "selection": "probabilistic", "crossover": "double"}),
        ("annealing", {"temperature": 0.1}),
        ("surrogate", {"regressor": "random_forest", "regressor_options": {"n_estimators": 8}, "acquisition": "pi"}),
    ],
)
def test_learning_beats_chance(name, options):
    seeds = range(5)
    learned = np.median([found(name, options, seed=seed) for seed in seeds])
    assert learned > by_chance()


@cache
def by_chance():
    return np.median([found("random", seed=seed) for seed in range(15)])


@pytest.mark.parametrize("acquisition", ["ei", "pi"])
def test_surrogate_comes_close_to_the_peak(acquisition):
    options = {"acquisition": acquisition, "candidates": 512}
    best = max(bandwidth(PEAK, PEAK.configuration(row))[0][1] for row in PEAK.enumerate())
    assert found("surrogate", options, trials=24) > 0.95 * best


# -- genetic


def test_generations_have_their_sizes_and_end():
    sampler = make_sampler("genetic", {"population": 4, "initial": 6, "generations": 3})
    history, questions = play(sampler, PEAK, trials=100, fate=bandwidth)
    assert generations(history) == [None, *[0] * 5, *[1] * 4, *[2] * 4, *[3] * 4]
    assert questions[-1].answer == ()


def test_no_generations_means_the_first_population_only():
    history, _ = play(make_sampler("genetic", {"population": 5, "generations": 0}), PEAK, trials=100, fate=bandwidth)
    assert len(history.trials) == 5


def test_children_have_the_values_of_their_parents_without_mutation():
    levels = [(7, 7, 2, 1), (6, 6, 1, 0), (5, 5, 2, 0)]
    parents = tuple(
        replace(trial(k, 10.0 * k + 1), configuration=PEAK.configuration(np.array(row)), tag="generation 0")
        for k, row in enumerate(levels)
    )
    for crossover in ("single", "double"):
        sampler = make_sampler(
            "genetic", {"population": 3, "mutation_rate": "0", "crossover": crossover, "selection": "probabilistic"}
        )
        children = [ask(sampler, PEAK, History(BANDWIDTH, parents), seed=seed)[0] for seed in range(30)]
        for child in children:
            row = PEAK.levels([child.configuration])[0]
            pairs = [
                sum(int(a != b) for a, b in zip(origin[:-1], origin[1:], strict=True))
                for origin in _origins(row, levels)
            ]
            assert pairs, f"{row} has a value of no parent"
            assert min(pairs) <= (1 if crossover == "single" else 2)
        assert len({child.configuration for child in children}) > 4


def _origins(row, levels):
    """All ways to say from which parent each value came."""
    ways = [[]]
    for axis, value in enumerate(row):
        ways = [[*way, parent] for way in ways for parent, own in enumerate(levels) if own[axis] == value]
    return [way for way in ways if len(set(way)) <= 2]


def test_mutation_of_everything_leaves_no_value_of_a_parent():
    parents = tuple(
        replace(trial(k, 1.0), configuration=PEAK.configuration(np.array(row)), tag="generation 0")
        for k, row in enumerate([(3, 3, 1, 0), (3, 3, 1, 1)])
    )
    sampler = make_sampler("genetic", {"population": 2, "mutation_rate": 1.0})
    for seed in range(10):
        row = PEAK.levels([ask(sampler, PEAK, History(BANDWIDTH, parents), seed=seed)[0].configuration])[0]
        assert row[0] != 3
        assert row[1] != 3
        assert row[2] != 1


def test_failed_trials_are_no_parents_and_elites_stay_parents():
    best = replace(trial(0, 100.0), configuration=PEAK.configuration(np.array((7, 15, 2, 1))), tag="generation 0")
    old = replace(trial(1, 1.0), configuration=PEAK.configuration(np.array((0, 0, 0, 0))), tag="generation 0")
    young = [
        replace(trial(k, result), configuration=PEAK.configuration(np.array((k, 1, 1, 0))), tag="generation 1")
        for k, result in ((2, 50.0), (3, "failed"))
    ]
    history = History(BANDWIDTH, (best, old, *young))
    options = {"population": 2, "mutation_rate": 0, "crossover": "double"}
    with_elite, without = set(), set()
    for seed in range(20):
        for chosen, elitism in ((with_elite, 1), (without, 0)):
            sampler = make_sampler("genetic", {**options, "elitism": elitism})
            suggestion = ask(sampler, PEAK, history, seed=seed)[0]
            assert suggestion.tag == "generation 2"
            chosen.add(suggestion.configuration["cb"])
    assert "disable" in with_elite
    assert 7 not in {PEAK.levels([t.configuration])[0][0] for t in young}


def test_presets_have_the_settings_of_their_papers():
    options = make_sampler("io-search").options.model_dump()
    assert {k: options[k] for k in ("population", "generations", "mutation_rate")} == {
        "population": 10,
        "generations": 30,
        "mutation_rate": 0.15,
    }
    history, _ = play(make_sampler("shaman"), PEAK, trials=34, fate=bandwidth)
    assert generations(history)[1:] == [*[0] * 29, 1, 2, 3, 4]
    assert make_sampler("io-search", {"population": 3}).options.population == 3


# -- annealing


def steps(history):
    notes = [re.fullmatch(r"step (\d+) temperature (\S+) draw (\S+)", t.tag) for t in history.trials]
    return [(int(note[1]), float(note[2])) for note in notes if note]


def test_temperature_is_in_the_tag_and_falls():
    history, _ = play(make_sampler("annealing", {"initial": 3}), PEAK, trials=20, fate=bandwidth)
    numbers, temperatures = zip(*steps(history), strict=True)
    assert numbers == tuple(range(17))
    assert temperatures == pytest.approx([0.3 * 0.95**k for k in range(17)])


def home_after(temperature, draw, value):
    """Whether the walk, at a configuration worth 100, goes on from a neighbour that was worth less."""
    start = replace(trial(0, 100.0), configuration=PEAK.configuration(np.array((0, 0, 0, 0))))
    step = replace(
        trial(1, value),
        configuration=PEAK.configuration(np.array((7, 15, 0, 0))),
        tag=f"step 0 temperature {temperature} draw {draw}",
    )
    sampler = make_sampler("annealing", {"initial": 1})
    answers = [ask(sampler, PEAK, History(BANDWIDTH, (start, step)), seed=seed)[0] for seed in range(20)]
    rows = PEAK.levels([answer.configuration for answer in answers])
    return np.median(np.abs(rows[:, :2] - [7, 15]).sum(axis=1)) < 11


def test_acceptance_follows_from_the_tag():
    assert home_after(0.1, 0.999, 110.0), "a better step is always taken"
    assert home_after(0.1, 0.3, 90.0), "exp(-0.105 / 0.1) = 0.35"
    assert not home_after(0.1, 0.4, 90.0)
    assert not home_after(0.0, 1e-9, 99.9), "a temperature of zero only climbs"
    assert not home_after(0.1, 0.3, "failed")


# -- surrogate


def test_surrogate_starts_from_a_prior():
    def prior(space, levels):
        return -100.0 * np.abs(levels[:, 0] - 5)

    sampler = make_sampler(
        "surrogate", {"initial": 2, "candidates": 2000, "regressor_options": {"optimizer": None}}, prior
    )
    history, _ = play(sampler, PEAK, trials=2, fate=bandwidth)
    assert PEAK.levels([ask(sampler, PEAK, history)[0].configuration])[0][0] == 5


def test_surrogate_keeps_away_from_failing_regions_and_spreads_a_batch():
    def fails_above(space, configuration):
        return [(State.FAILED, None)] if configuration["nodes"] > 8 else bandwidth(space, configuration)

    sampler = make_sampler("surrogate", {"initial": 10, "candidates": 512})
    history, _ = play(sampler, PEAK, trials=30, fate=fails_above)
    failed = [t.configuration["nodes"] > 8 for t in history.trials]
    assert np.mean(failed[18:]) < 0.5 * np.mean(failed[1:10])
    batch = ask(sampler, PEAK, history, n=4)
    assert len({answer.configuration for answer in batch}) == 4


def test_surrogate_thins_long_histories():
    rows = PEAK.enumerate()[::3]
    trials = tuple(
        replace(trial(k, smooth_value(PEAK, c)), configuration=c) for k, c in enumerate(map(PEAK.configuration, rows))
    )
    sampler = make_sampler(
        "surrogate", {"observations": 20, "candidates": 64, "regressor_options": {"optimizer": None}}
    )
    assert ask(sampler, PEAK, History(BANDWIDTH, trials))


def test_expected_improvement_falls_as_the_space_is_explored():
    sampler = make_sampler("surrogate", {"initial": 6, "candidates": 512})
    early, _ = play(sampler, PEAK, trials=6, fate=bandwidth)
    late, _ = play(sampler, PEAK, trials=40, fate=bandwidth)
    assert sampler.expected_improvement(PEAK, History(MAXIMIZE, early.trials[:3])) is None
    assert 0 <= sampler.expected_improvement(PEAK, late) < sampler.expected_improvement(PEAK, early)


def test_any_regressor():
    # Their names are asked for here: scikit-learn is looked through for a second, which every worker would do.
    names = set(regressor_names()) - {"gaussian_process"}
    assert len(names) > 3
    for regressor in sorted(names):
        options = {"regressor": regressor, "initial": 4, "candidates": 64, "copies": 3}
        history, _ = play(make_sampler("surrogate", options), PEAK, trials=7)
        assert len(history.trials) == 7, regressor


# -- exhaustive, Latin hypercube


def test_exhaustive_order_is_the_same_for_all_seeds_and_spread():
    first, _ = play(make_sampler("exhaustive"), PEAK, trials=40, fate=bandwidth, seed=1)
    second, _ = play(make_sampler("exhaustive"), PEAK, trials=40, fate=bandwidth, seed=2, pace=Pace(3, 2))
    other, _ = play(make_sampler("exhaustive", {"order": 1}), PEAK, trials=40, fate=bandwidth, seed=1)
    order = [[t.configuration for t in history.trials] for history in (first, second, other)]
    assert order[0] == order[1]
    assert order[0] != order[2]
    rows = PEAK.levels(order[0])
    assert len(set(rows[:, 0])) == 8
    assert len(set(rows[:, 1])) >= 12


def test_latin_hypercube_goes_on_with_another_plan():
    history, _ = play(make_sampler("latin_hypercube", {"points": 8}), PEAK, trials=24, fate=bandwidth)
    counts = np.bincount(PEAK.levels([t.configuration for t in history.trials])[:, 0], minlength=8)
    assert list(counts) == [3] * 8


# -- registry


def test_names_load_lazily_and_unknown_ones_list_the_choices():
    assert {"auto", "random", "genetic", "io-search", "shaman", "optuna:NAME"} <= set(sampler_names())
    with pytest.raises(UserError, match="unknown sampler 'hill'; choose from auto, random"):
        make_sampler("hill")


def test_options_are_declared_with_description_default_and_bounds():
    for name in set(sampler_names()) - {"optuna:NAME"} | {"optuna:tpe"}:
        if name.startswith("optuna") and not find_spec("optuna"):
            continue
        cls = sampler_class(name)
        for option, field in cls.Options.model_fields.items():
            assert field.description, f"{name}: option {option} has no description"
            assert not field.is_required(), f"{name}: option {option} has no default"
        cls.Options.model_json_schema()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"popluation": 3}, "sampler genetic has no option 'popluation'; its options: population,"),
        ({"population": 0}, "option population = 0: must be at least 1"),
        ({"mutation_rate": "often"}, "option mutation_rate = 'often'"),
        ({"selection": "lottery"}, "'tournament' or 'probabilistic'"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(UserError) as caught:
        make_sampler("genetic", options)
    assert message in str(caught.value)


def test_options_come_as_text_from_a_command_line_and_a_zero_stays():
    options = make_sampler("genetic", {"mutation_rate": "0", "elitism": "0", "population": "7"}).options
    assert (options.mutation_rate, options.elitism, options.population) == (0.0, 0, 7)
    assert make_sampler("annealing", {"temperature": 0, "cooling_factor": 0}).options.cooling_factor == 0
    regressor = make_sampler("surrogate", {"regressor": "random_forest", "regressor_options": '{"n_estimators": 5}'})
    assert regressor.options.regressor_options == {"n_estimators": 5}


@pytest.mark.parametrize(
    "options",
    [
        {"regressor": "forest"},
        {"regressor": "sklearn.ensemble.ExtraTreesRegressor"},
        {"regressor": "planted:Regressor"},
        {"regressor": "random_forest", "regressor_options": {"n_trees": 5}},
        {"regressor_options": "{"},
    ],
)
def test_wrong_regressors_are_refused_before_the_first_run(options):
    with pytest.raises(UserError, match="regressor"):
        make_sampler("surrogate", options)


def test_a_regressor_names_no_module_and_nothing_is_called(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("planted", "planted.Regressor", "planted:Regressor"):
        with pytest.raises(UserError, match=f"unknown regressor '{name}'; choose from gaussian_process, random_forest"):
            make_sampler("surrogate", {"regressor": name})
    mark = tmp_path / "called"
    with pytest.raises(UserError, match=r"unknown regressor 'subprocess\.call'"):
        make_sampler("surrogate", {"regressor": "subprocess.call", "regressor_options": {"args": ["touch", str(mark)]}})
    assert not mark.exists() and not (tmp_path / "imported").exists()


def test_other_packages_bring_regressors(monkeypatch):
    point = EntryPoint("ridge", "sklearn.linear_model:Ridge", REGRESSORS)
    stranger = EntryPoint("stranger", "subprocess:Popen", REGRESSORS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point, stranger] if group == REGRESSORS else [])
    assert regressor_names()[-2:] == ["ridge", "stranger"]
    sampler = make_sampler("surrogate", {"regressor": "ridge", "regressor_options": {"alpha": 0.5}, "initial": 4})
    assert len(play(sampler, PEAK, trials=6)[0].trials) == 6
    with pytest.raises(UserError, match="regressor 'stranger'"):
        make_sampler("surrogate", {"regressor": "stranger", "regressor_options": {"args": "true"}})


def test_cooling_that_heats_is_refused():
    with pytest.raises(UserError, match="cooling_factor = 2: must be at most 1"):
        make_sampler("annealing", {"cooling_factor": 2})


def test_random_numbers_are_keyed_by_seed_and_number():
    def draw(seed, number):
        return sampler_rng(seed, number).random()

    assert draw(1, 2) == draw(1, 2)
    assert len({draw(1, 2), draw(2, 1), draw(1, 3), draw(2**63 - 1, 0)}) == 4


def test_presets_are_valid():
    for name, (sampler, options) in PRESETS.items():
        assert make_sampler(name).name == sampler
        assert make_sampler(name).options.model_dump().items() >= dict(options).items()


# -- Optuna


def test_optuna_learns():
    require(find_spec("optuna"), "the package optuna")
    assert np.median([found("optuna:tpe", seed=seed) for seed in range(3)]) > np.median(
        [found("random", seed=seed) for seed in range(15)]
    )


def test_optuna_is_told_every_state_and_leaves_its_verbosity_alone():
    require(find_spec("optuna"), "the package optuna")
    import optuna

    from stripewise.search.samplers.optuna_adapter import _replay

    before = optuna.logging.get_verbosity()
    space = sample_spaces()["conditional"]
    history, _ = play(make_sampler("random"), space, trials=25, fate=mix_fates, pace=Pace(waiting=2))
    assert ask(make_sampler("optuna:tpe"), space, history)
    assert optuna.logging.get_verbosity() == before
    for told in (True, False):
        study = optuna.create_study()
        _replay(study, space, history, told=told)
        states = [t.state.name for t in study.trials]
        assert len(states) == 25
        assert states[-2:] == ["RUNNING", "RUNNING"]
        failed = [t.state is State.FAILED for t in history.trials]
        assert [state == "FAIL" for state in states] == failed
        assert min(t.value for t in study.trials if t.value is not None) == pytest.approx(
            -np.log(max(max(t.values) for t in history.finished)), rel=0.05
        )


@pytest.mark.parametrize(
    ("name", "options"),
    [("optuna:Nothing", {}), ("optuna:BaseSampler2", {}), ("optuna:tpe", {"arguments": {"speed": 3}})],
)
def test_optuna_mistakes_are_named_before_the_first_run(name, options):
    require(find_spec("optuna"), "the package optuna")
    with pytest.raises(UserError, match="Optuna"):
        make_sampler(name, options)


def test_objectives_to_be_minimised_are_minimised():
    seconds = parse_objective("elapsed")
    history, _ = play(
        make_sampler("surrogate", {"candidates": 512}),
        PEAK,
        trials=24,
        objective=seconds,
        fate=lambda space, configuration: [(State.FINISHED, 1000 / bandwidth(space, configuration)[0][1])],
    )
    best = min(1000 / bandwidth(PEAK, PEAK.configuration(row))[0][1] for row in PEAK.enumerate())
    assert min(trial.value for trial in history.finished) < 1.05 * best
