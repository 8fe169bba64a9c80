"""General knowledge in ``tune``: when it takes part, what the user is told, and that a resumed search goes on alike."""

from __future__ import annotations

import pytest

from stripewise.errors import UserError
from stripewise.objectives import parse_objective
from stripewise.report.html import render_report
from stripewise.runner.registry import make_runner
from stripewise.search.auto import AutoSampler
from stripewise.search.portfolio.proposal import TAG
from stripewise.search.registry import make_sampler
from stripewise.spec.experiment import Experiment
from stripewise.spec.parameter import Kind, Parameter
from stripewise.spec.space import Space
from stripewise.spec.workload import Workload
from stripewise.store.base import MEMORY
from stripewise.store.opening import open_store
from stripewise.tuning import general
from stripewise.tuning.definition import with_options
from stripewise.tuning.dryrun import dry_run
from stripewise.tuning.general import take_part
from stripewise.tuning.session import Session
from stripewise.tuning.space import bind_space
from tests.unit.search_histories import ELAPSED

WORKLOAD = Workload(
    operation="write", nodes=4, processes_per_node=8, layout="strided", piece_size=16384, transfer_size=4 << 20,
    collective=True, file_size=8 << 30,
)  # fmt: skip
OWN = ("romio_cb_write", "cb_nodes", "stripe_count", "stripe_size")


@pytest.fixture
def store():
    with open_store(MEMORY) as opened:
        yield opened


def definition(nodes=4, **more):
    """A search of a simulated site; a few parameters, so that each question is answered quickly."""
    stacks = ["lustre", "romio"]
    every = bind_space(Experiment(stacks=stacks), WORKLOAD, "romio").space.names
    fields = {
        "runner": "sim:kay", "stacks": stacks, "budget": {"runs": 5}, "confirmation": {"pairs": 0}, "resampling": {
        "kind": "none"}, "workload": WORKLOAD.model_copy(update={"nodes": nodes}).model_dump(),
        "parameters": {name: {"exclude": True} for name in every if name not in OWN},
    }  # fmt: skip
    return Experiment.model_validate({**fields, **more})


def carry(store, identifier, tmp_path, stop_at=None):
    """Run an experiment, or its beginning; give the result and the notes."""
    notes = []

    def told(event):
        if event.kind == "note":
            notes.append(event.data["text"])
        if event.kind == "started" and event.data["run"].number == stop_at:
            raise KeyboardInterrupt

    experiment = store.record(identifier).experiment
    with make_runner(experiment, tmp_path / "runs") as runner:
        session = Session(store, identifier, runner, "test", told)
        if stop_at is None:
            return session.run(), notes
        with pytest.raises(KeyboardInterrupt):
            session.run()
        return None, notes


def search(store, experiment, tmp_path):
    identifier = store.create(experiment)
    result, notes = carry(store, identifier, tmp_path)
    return store.trials(identifier), result, notes


def configurations(trials):
    return [dict(trial.configuration) for trial in trials]


def test_on_several_nodes_it_proposes_the_runs_after_the_default_and_says_so_in_one_line(store, tmp_path):
    trials, result, notes = search(store, definition(), tmp_path)
    assert trials[0].tag == ""
    from_it = [trial.number for trial in trials if trial.tag == TAG]
    assert from_it == list(range(1, 1 + len(from_it)))
    assert 1 <= len(from_it) <= 2
    (told,) = [text for text in notes if "general knowledge" in text]
    assert told.startswith("up to 2 runs after the default come from general knowledge")
    assert told.endswith("--no-general-knowledge searches without it")
    said = result.as_json()["general_knowledge"]
    assert said["trials"] == from_it
    assert said["members"]
    page = render_report(store.record(result.experiment), trials)
    assert page.count("(general knowledge)") == len(from_it)


def test_what_the_user_wants_to_try_first_takes_its_places(store, tmp_path):
    one, two = ("layout lustre stripe_count 4", "layout lustre stripe_count 2")
    _, _, notes = search(store, definition(try_first=[one]), tmp_path)
    assert [note for note in notes if note.startswith("up to 1 run after the default come from general knowledge")]
    _, result, notes = search(store, definition(try_first=[one, two]), tmp_path)
    assert result.general_knowledge is None
    assert not [note for note in notes if "general knowledge" in note]


def test_off_it_leaves_no_trace(store, tmp_path):
    trials, result, notes = search(store, definition(general_knowledge=False), tmp_path)
    assert TAG not in {trial.tag for trial in trials}
    assert result.as_json()["general_knowledge"] is None
    assert not any("general knowledge" in text for text in notes)


def test_on_one_node_the_search_is_the_same_with_it_and_without(store, tmp_path):
    each = [search(store, definition(nodes=1, general_knowledge=wanted), tmp_path)[0] for wanted in (True, False)]
    assert configurations(each[0]) == configurations(each[1])
    assert [trial.tag for trial in each[0]] == [trial.tag for trial in each[1]]


@pytest.mark.parametrize("stop_at", [2, 3])
def test_a_resumed_search_proposes_the_same(store, tmp_path, stop_at):
    whole, _, _ = search(store, definition(), tmp_path)
    identifier = store.create(definition())
    _, before = carry(store, identifier, tmp_path, stop_at=stop_at)
    _, after = carry(store, identifier, tmp_path)
    trials = store.trials(identifier)
    assert configurations(trials) == configurations(whole)
    assert [trial.tag for trial in trials] == [trial.tag for trial in whole]
    assert sum("general knowledge" in text for text in (*before, *after)) == 1


def test_a_resumed_search_goes_on_without_it_where_it_has_changed(store, tmp_path, monkeypatch):
    identifier = store.create(definition())
    carry(store, identifier, tmp_path, stop_at=1)
    known = general.shipped()
    monkeypatch.setattr(general, "shipped", lambda: type(known)(known.members, known.sources, "another"))
    _, notes = carry(store, identifier, tmp_path)
    assert "general knowledge has changed since the experiment began: the search continues without it" in notes
    assert TAG not in {trial.tag for trial in store.trials(identifier)}


def test_a_damaged_file_costs_no_experiment(store, tmp_path, monkeypatch):
    def fails():
        raise UserError("it is damaged", "install Stripewise again")

    monkeypatch.setattr(general, "shipped", fails)
    trials, result, notes = search(store, definition(), tmp_path)
    assert any(text.startswith("the search starts without general knowledge: it is damaged") for text in notes)
    assert TAG not in {trial.tag for trial in trials}
    assert result.general_knowledge is None
    with make_runner(definition(), tmp_path / "dry") as runner:
        assert dry_run(definition(), runner)["first"]


def test_a_dry_run_shows_what_it_proposes(store, tmp_path):
    trials, _, _ = search(store, definition(), tmp_path)
    with make_runner(definition(), tmp_path / "dry") as runner:
        assert dry_run(definition(), runner)["first"][1] == dict(trials[1].configuration)


SPACE = bind_space(Experiment(stacks=["lustre", "romio"]), WORKLOAD, "romio").space


def taken(sampler=None, workload=WORKLOAD, objective=ELAPSED, space=SPACE, **fields):
    sampler = sampler or make_sampler("auto")
    known = take_part(Experiment(**fields), sampler, space, workload, objective)
    return known, getattr(sampler, "advice", None)


def test_a_prior_or_another_sampler_or_a_program_of_one_node_goes_without():
    assert all(taken())
    flat = AutoSampler(prior=lambda space, levels: levels[:, 0] * 0.0)
    unknown = Space.bind([Parameter("colour", Kind.INTEGER, range(5), 2)])
    for found in (
        taken(flat),
        taken(make_sampler("random")),
        taken(general_knowledge=False),
        taken(workload=WORKLOAD.model_copy(update={"nodes": 1})),
        taken(workload=WORKLOAD.model_copy(update={"nodes": None})),
        taken(space=unknown),
    ):
        assert found == (None, None)


def test_a_sampler_that_served_before_keeps_nothing():
    sampler = make_sampler("auto")
    assert all(taken(sampler))
    assert taken(sampler, workload=Workload()) == (None, None)


def test_the_operation_is_that_of_the_objective():
    both = WORKLOAD.model_copy(update={"operation": "both"})
    assert taken(workload=both)[1].facts["operation"] == "both"
    assert taken(workload=both, objective=parse_objective("write_bandwidth"))[1].facts["operation"] == "write"


def test_what_is_not_known_of_the_workload_is_no_obstacle():
    _, advice = taken(workload=Workload(nodes=2))
    assert advice.members.gains(advice.facts, SPACE, SPACE.levels([SPACE.default])).tolist() == [[0.0]] * 6


def test_the_option_of_the_command_line_turns_it_off():
    given = with_options(definition(), command=[], general_knowledge=False)
    assert not given.general_knowledge
    assert with_options(given, command=[], general_knowledge=None).general_knowledge is False
    assert with_options(given, command=[], general_knowledge=True).general_knowledge
