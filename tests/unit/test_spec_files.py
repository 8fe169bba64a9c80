"""Stack and experiment files, sizes, workloads, objectives: read right, or refused with the place and the fix."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.stack import load_stack, parse_stack
from stripewise.catalogue.workload import Workload
from stripewise.errors import UserError
from stripewise.observe.objectives import objective_of, parse_objective
from stripewise.requests.experiment import parse_experiment
from stripewise.requests.objective import Objective
from stripewise.sizes import format_size, parse_size

STACK = """
name = "mine"
[[parameter]]
name = "depth"
kind = "integer"
low = 1
high = 10
step = 4
"""


def test_a_users_own_stack():
    stack = parse_stack(
        STACK
        + """
carrier = "env"
key = "MY_DEPTH"
[[parameter]]
name = "buffer"
kind = "ordinal"
values = ["64 KiB", "1m"]
unit = "B"
[[parameter]]
name = "fast"
kind = "boolean"
[off]
description = "without it"
unset = ["MY_LIBRARY"]
""",
        "mine.toml",
    )
    assert [tuple(p.values) for p in stack.parameters] == [(1, 5, 9, 10), (65536, 1 << 20), (False, True)]
    assert stack.parameters[0].layer == "mine"
    assert stack.off is not None
    assert stack.off.unset == ["MY_LIBRARY"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("name = ", "is not valid TOML"),
        ("name = 'x'", "parameter"),
        ("name = 'x'\nparameter = []", "parameter"),
        (STACK + "colour = 'red'", "colour"),
        (STACK.replace("integer", "complex"), "kind"),
        (STACK.replace("high = 10", "high = 0"), "span no integers"),
        (STACK.replace("high = 10", "high = 99999999"), "values"),
        (STACK + "values = [1, 2]", "both values and low/high"),
        (STACK + "active_if = 'depth.x'", "do not allow"),
        (STACK + "default = 7", "default 7"),
        (STACK + "constraint = ['depth <']", "constraint"),
        ("constraint = ['depth <']\n" + STACK, "not an expression"),
        (STACK + "[[knowledge]]\ncondition = 'depth > 1'\ngain = 0\nsource = 's'", "gain"),
        (STACK + "[[parameter]]\nname = 'b'\nkind = 'ordinal'\nvalues = ['64 KiB']", "unit"),
        (STACK + "[[parameter]]\nname = 'b'\nkind = 'boolean'\nvalues = [1]", "boolean"),
        (STACK + "[[parameter]]\nname = 'b'\nkind = 'categorical'\nvalues = [[1]]", "number, a text"),
    ],
)
def test_broken_stacks_name_the_place(text, reason):
    with pytest.raises(UserError) as caught:
        parse_stack(text, "mine.toml")
    assert "mine.toml" in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_loading_stacks(tmp_path):
    with pytest.raises(UserError, match="unknown stack 'nfs'") as caught:
        load_stack("nfs")
    assert "romio" in caught.value.fix
    with pytest.raises(UserError, match="cannot read"):
        load_stack(str(tmp_path / "none.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not UTF-8"):
        load_stack(str(tmp_path / "binary.toml"))
    (tmp_path / "mine.toml").write_text(STACK)
    assert load_stack(str(tmp_path / "mine.toml")).name == "mine"


@given(st.integers(0, 2**50))
def test_sizes_in_every_spelling(number):
    assert parse_size(number) == parse_size(str(number)) == parse_size(f" {number} B ") == number
    assert parse_size(f"{number}k") == parse_size(f"{number} KiB") == number * 1024
    assert parse_size(f"{number} kB") == number * 1000


@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000, f"{'9' * 400} GiB", "9" * 19, "1e400", "nan"])
def test_a_size_that_nothing_has_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"cannot be right|is not a size"):
        parse_size(text)


@given(st.integers(0, 1023), st.sampled_from(["B", "KiB", "MiB", "GiB", "TiB"]))
def test_round_sizes_are_shown_as_they_are_written(number, unit):
    assert parse_size(format_size(parse_size(f"{number} {unit}"))) == parse_size(f"{number} {unit}")


HUGE = ["9" * 400, 10**400, "8192 PiB"]


@pytest.mark.parametrize("text", [*HUGE, "", "many", "-1", "1 XB", "1.5", "0.3k", "1e3", "1 K i B", "٣", True, None])
def test_what_is_no_size(text):
    with pytest.raises(UserError, match=r"size|negative"):
        parse_size(text)


def test_negative_sizes():
    with pytest.raises(UserError, match="negative"):
        parse_size(-5)


def test_an_experiment():
    experiment = parse_experiment(
        """
command = "mpiexec -n 4 './my app' -x"
objective = "write_bandwidth"
budget = 60
[workload]
file_size = "64 GiB"
layout = "strided"
[parameters.cb_nodes]
values = [1, 2]
""",
        "experiment.toml",
    )
    assert experiment.command == ["mpiexec", "-n", "4", "./my app", "-x"]
    assert objective_of(experiment.objective) == Objective("write_bandwidth", "maximize", "MiB/s")
    assert experiment.budget.runs == 60
    assert experiment.workload.file_size == 64 << 30


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("command = ", "is not valid TOML"),
        ("colour = 1", "colour"),
        ("[budget]\nruns = 0", "budget.runs"),
        ("[workload]\nfile_size = 'big'", "not a size"),
        ("[workload]\nlayout = 'zigzag'", "workload.layout"),
        ('command = "mpiexec \'open"', "experiment.toml"),
        ("[confirmation]\nconfidence = 1.0", "confirmation.confidence"),
        ("seed = -1", "seed"),
    ],
)
def test_broken_experiments_name_the_place(text, reason):
    with pytest.raises(UserError, match=reason) as caught:
        parse_experiment(text, "experiment.toml")
    assert "experiment.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "direction", "reason"),
    [
        ("speed", None, "unknown"),
        ("elapsed", "maximize", "minimized"),
        ("elapsed", "sideways", "direction"),
        ("regex:(", "maximize", "broken"),
        ("regex:a", "maximize", "no group"),
        ("regex:(a)", None, "no direction"),
    ],
)
def test_impossible_objectives(name, direction, reason):
    with pytest.raises(UserError, match=reason):
        parse_objective(name, direction)


def test_objectives_compare_in_their_direction():
    time, rate = parse_objective("elapsed"), parse_objective("regex:(\\d+)", "maximize", "GB/s")
    assert time.speedup(5.0, 10.0) == rate.speedup(10.0, 5.0) == 2.0
    assert time.better(1, 2)
    assert rate.better(2, 1)
    assert rate.unit == "GB/s"


def test_unknown_workloads_rule_nothing_out():
    words = Workload().words()
    assert words["reads"] and words["writes"] and words["collective"] and words["independent"]
    assert (words["pieces"], words["interleaved"]) == ("unknown", "unknown")


FOUR = {"nodes": 2, "processes_per_node": 2}


@pytest.mark.parametrize(
    ("known", "pieces", "interleaved"),
    [
        ({"layout": "segmented"}, "no", "no"),
        ({"layout": "strided", "piece_size": 1, "transfer_size": 4}, "yes", "yes"),
        ({"layout": "strided", "piece_size": 4, "transfer_size": 4}, "no", "no"),
        ({"layout": "strided"}, "unknown", "unknown"),
        ({"layout": "tile", "piece_size": 1, "transfer_size": 4}, "yes", "unknown"),
        ({"layout": "tile", "piece_size": 1, "transfer_size": 4, "file_size": 16, **FOUR}, "yes", "yes"),
        ({"layout": "tile", "piece_size": 1, "transfer_size": 4, "file_size": 17, **FOUR}, "yes", "unknown"),
        ({"layout": "tile", "piece_size": 4, "transfer_size": 4, "file_size": 16, **FOUR}, "no", "unknown"),
        ({"layout": "strided", "piece_size": 1, "transfer_size": 4, "file_per_process": True}, "yes", "no"),
        ({"layout": "tile", "nodes": 1, "processes_per_node": 1}, "unknown", "no"),
    ],
)
def test_pieces_and_interleaving(known, pieces, interleaved):
    words = Workload(**known).words()
    assert (words["pieces"], words["interleaved"]) == (pieces, interleaved)


def test_what_was_declared_wins_over_what_was_observed():
    merged = Workload(nodes=2).merged(Workload(nodes=1, operation="read"))
    assert (merged.nodes, merged.operation) == (2, "read")


def test_configurations_are_values():
    a, b = Configuration({"x": 1, "y": "z"}), Configuration({"y": "z", "x": 1})
    assert a == b
    assert hash(a) == hash(b)
    assert a.key == b.key
    assert a.with_values(x=2) != a
    assert a.describe({"x": 1, "y": "q"}) == "y=z"
    assert a.describe(a) == "(defaults)"
