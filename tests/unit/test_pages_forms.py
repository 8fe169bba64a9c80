"""Forms from declarations: every option of everything replaceable is in the form, and what is given arrives."""

import pytest

from stripewise.catalogue.workload import Workload
from stripewise.desk.server.child_tasks import fields
from stripewise.desk.server.forms import flatten_fields, make_inputs, nest_fields
from stripewise.desk.server.html import _indent_value
from stripewise.desk.server.resources import new_experiment as new
from stripewise.desk.server.resources.new_experiment import definition_of, samplers, values_of
from stripewise.errors import UserError
from stripewise.output.markup import measured_text
from stripewise.requests.experiment import Experiment
from stripewise.search.base import sampler_class, sampler_names
from stripewise.search.policy.resampling import ResamplingOptions
from tests.unit.test_prescribe import trained


def test_every_option_of_every_sampler_is_in_the_form():
    shown = {one["name"]: {each.name.rpartition(".")[2] for each in one["inputs"]} for one in samplers()}
    for name in sampler_names():
        if name != "optuna:NAME":
            assert shown[name] == set(sampler_class(name).Options.model_fields), name


def test_help_of_a_form_has_no_marks_of_markdown():
    told = {each.name: each for each in make_inputs(Workload, "workload")}
    assert told["workload.file_size"].help == 'bytes of a file; sizes may be written as "64 GiB"'


def test_presets_show_what_they_preset():
    own = {one["name"]: {each.label: each.default for each in one["inputs"]} for one in samplers()}
    assert own["shaman"]["population"] == "1" and own["genetic"]["population"] != "1"


def test_inputs_have_kind_bounds_choices_and_defaults():
    own = {one.label: one for one in make_inputs(ResamplingOptions, "resampling")}
    assert own["kind"].kind == "choice" and "racing" in own["kind"].choices and own["kind"].default == "racing"
    assert (own["repeats"].kind, own["repeats"].low, own["repeats"].high, own["repeats"].whole) == (
        "number", 1.0, 1000.0, True,
    )  # fmt: skip
    assert own["share"].default == "0.34" and own["share"].low == 0.0
    sizes = {one.label: one.kind for one in make_inputs(Workload, "workload")}
    assert sizes["file size"] == "text" and sizes["nodes"] == "number" and sizes["collective"] == "truth"


def test_a_zero_stays_zero_and_empty_keeps_the_default():
    given = {"runner": "local", "command": "./a", "resampling.worth": "0", "resampling.share": "", "seed": "0"}
    made, _ = definition_of(given)
    assert made.resampling == {"worth": "0"} and made.seed == 0
    assert nest_fields({"a.b.c": "1", "a.b.d": " ", "b.c": "2"}, "a") == {"b": {"c": "1"}}
    assert flatten_fields({"b": {"c": 1, "d": None}, "e": False}, "a") == {"a.b.c": "1", "a.e": "no"}


@pytest.mark.parametrize(
    "fields",
    [
        {"command": ["mpiexec", "-n", "4", "./a b"], "budget": {"runs": 7, "node_hours": 0.5}},
        {"runner": "sim:kay", "stacks": ["lustre"], "workload": {"operation": "write", "file_size": 1 << 30}},
        {"runner": "batch", "command": ["./a"], "batch": {"nodes": 2, "directives": ["--mem=1G"]}},
        {"command": ["./a"], "objective": {"name": "regex:x (.*)", "direction": "maximize"}, "override": True},
        {"command": ["./a"], "objective": {"subject_to": ["busy_share >= 90", "regex:a;b (.*) <= 1"]}},
        {"command": ["./a"], "hooks": {"before": ["a", "b"], "drop_caches": "advise"}, "env": {"A": "b=c"}},
        {"command": ["./a"], "parameters": {"cb_nodes": {"values": [1, 2]}, "x": {"exclude": True}}},
        {"command": ["./a"], "stdin": {"text": "\nunits  metal\n run 10 \n"}},
        {"command": ["./a"], "confirmation": {"pairs": 0, "confidence": 0.99}, "warmup": 0, "timeout": 5.5},
    ],
)
def test_a_definition_goes_through_the_form_unchanged(fields, tmp_path):
    original = Experiment.model_validate({"name": "n", **fields})
    again, folder = definition_of(values_of(original, "/work", tmp_path))
    assert again == original and folder == "/work"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "./a 'b"}, "quotation"),
        ({"command": "./a", "env": "NOTHING"}, "NAME=VALUE"),
        ({"command": "./a", "parameters": "[x"}, "TOML"),
        ({"command": "./a", "budget.runs": "many"}, "budget.runs"),
        (
            {"command": "./a", "objective": "regex", "objective_text_regex": "(", "objective_direction": "minimize"},
            "broken",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(given, said):
    with pytest.raises(UserError, match=said):
        definition_of(given)


def test_a_models_form_tells_sizes_as_people_write_them():
    model, _ = trained()
    told = {one["label"]: one["known"] for one in fields(model)}
    assert told["transfer_size"] == "1M to 256M" and told["nodes"] == "2 to 8" and told["operation"] == ""


def test_a_report_with_a_name_that_is_no_text_can_be_shown():
    assert _indent_value({"path": "/scratch/a\udc80"}).encode("utf-8") == b'{\n  "path": "/scratch/a\\udc80"\n}'


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (268435456, "B", "256M"),
        (1048576.0, "B", "1M"),
        (1536.5, "B", "1.5 KiB"),
        (4, "count", "4"),
        (2.5, "s", "2.5 s"),
    ],
)
def test_values_are_told_with_their_unit(value, unit, text):
    assert measured_text(value, unit) == text


def test_a_name_that_is_a_field_and_a_group_is_refused():
    with pytest.raises(UserError, match="both 'runs' and"):
        nest_fields({"budget.runs": "4", "budget.runs.more": "5"}, "budget")


def test_samplers_of_optuna_are_offered_where_it_is_installed(monkeypatch):
    for installed in (True, False):
        monkeypatch.setattr(new, "find_spec", lambda name, there=installed: name if there else None)
        assert ("optuna" in [sampler["name"] for sampler in samplers()]) is installed
