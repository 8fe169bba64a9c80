"""Prescriptions: the best allowed combination, kept settings, reasons, advice, stand-ins; policies without a model."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stripewise.catalogue.carriers import ENVIRONMENT, HINT, LAYOUT, Setting
from stripewise.catalogue.stack import load_stack
from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.main import main
from stripewise.errors import UserError
from stripewise.models.cells import Data
from stripewise.models.landscape import list_landscapes
from stripewise.models.prescribe.policies import apply_policy, policy_names
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.prescription import (
    Prescription,
    carried_by,
    choose_place,
    make_plan,
    read_prescription,
)
from stripewise.models.prescribe.request import PrescriptionRequest, parse_request
from stripewise.models.registry import make_model, model_class
from stripewise.models.table import Column, Schema, read_table
from stripewise.models.tunables import SetBy, tunable_columns
from stripewise.observe.workload import Observed
from stripewise.output.export import export
from stripewise.requests.objective import Objective
from tests.fixtures.campaigns import GIB, MIB, campaign, law, schema

ROOT = Path(__file__).resolve().parents[2]
HINTS = ("stripe_count", "stripe_size", "romio_cb_write", "cb_nodes")


@functools.cache
def trained(tunables: tuple[str, ...] = ("stripe_count", "stripe_size", "transfer_size", "collective")) -> Any:
    table = campaign(tunables=tunables, noise=0.02, repeats=1)
    model = Oracle(model_class("tree").Options(max_depth=2))
    return model.fit(table), table


class Oracle(model_class("tree")):  # type: ignore[misc]
    """Knows the law, and is nearly sure of it."""

    deviation = 0.02

    def _predict(self, points: Any, x: Any) -> Any:
        names = self.domain.names
        columns = [self.domain.values(place, points[:, place]).tolist() for place in range(len(names))]
        mean = np.log([law(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)])
        return mean, np.full(len(points), self.deviation)


def prescriber(*tunables: str) -> Prescriber:
    model, table = trained(tunables) if tunables else trained()
    return Prescriber(model, table)


def workload(**words: Any) -> Workload:
    known = {"operation": "write", "nodes": 4, "processes_per_node": 4, "file_size": 8 * GIB, "transfer_size": MIB}
    return Workload.model_validate({**known, "collective": True, **words})


def lines(found: Any) -> dict[str, str]:
    return {setting.key: setting.value for setting in found.plan.settings}


@pytest.mark.slow
def test_the_best_combination_of_what_can_be_set_is_prescribed() -> None:
    found = prescriber().prescribe(PrescriptionRequest(workload()))
    row = {"operation": "write", "nodes": 4, "ppn": 4, "file_gib": 8, "transfer_size": MIB}
    values = {
        (count, size, together): law({**row, "stripe_count": count, "stripe_size": size, "collective": together})
        for count, size, together in itertools.product([1, 4, 8, 16], [MIB, 4 * MIB, 64 * MIB], [False, True])
    }
    chosen = {change.name: change.value for change in found.changes}
    reached = values[chosen["stripe_count"], chosen.get("stripe_size", MIB), chosen["collective"]]
    assert reached >= 0.97 * max(values.values())
    assert found.combinations == len(values)
    assert found.speedup is not None
    assert found.speedup == pytest.approx(max(values.values()) / values[1, MIB, True], rel=0.1)
    assert found.interval is not None
    assert found.interval[0] <= found.speedup <= found.interval[1]
    assert found.simulated


def test_the_plan_holds_the_layout_and_the_stand_in_for_the_access_pattern() -> None:
    found = prescriber().prescribe(PrescriptionRequest(workload()))
    assert lines(found)["stripe_count"] == "16"
    assert lines(found)["romio_cb_write"] == "disable"
    assert "romio_cb_read" not in lines(found)
    assert any("stands in for collective" in note for note in found.notes)
    layout = [s for s in found.plan.settings if s.carrier is LAYOUT]
    assert {s.layer for s in layout} == {"lustre"}


def test_an_independent_program_gets_no_stand_in() -> None:
    found = prescriber().prescribe(PrescriptionRequest(workload(collective=False)))
    assert not any(key.startswith("romio_cb") for key in lines(found))
    assert all(change.name != "collective" for change in found.changes)


def test_what_hints_cannot_set_is_given_as_advice() -> None:
    found = prescriber().prescribe(PrescriptionRequest(workload()))
    advice = {entry.name: entry for entry in found.advice}
    assert advice["transfer_size"].value == 256 * MIB
    assert advice["transfer_size"].speedup > 1.3
    assert "256 MiB instead of 1 MiB" in advice["transfer_size"].text
    assert "transfer_size" not in {change.name for change in found.changes}


def test_a_file_that_is_read_keeps_its_layout() -> None:
    found = prescriber().prescribe(PrescriptionRequest(workload(operation="read", collective=False)))
    assert not found.changes
    assert found.kept
    assert not found.plan.settings
    assert found.combinations == 1


def test_settings_of_today_stay_where_the_gain_is_within_the_uncertainty() -> None:
    class Unsure(Oracle):
        deviation = 9.0

    model = Unsure()
    model.__dict__ |= trained()[0].__dict__
    model._margins = None
    found = Prescriber(model).prescribe(PrescriptionRequest(workload()))
    assert not found.changes
    assert "within the uncertainty" in found.kept
    assert found.speedup is not None
    assert found.speedup > 2
    assert found.predicted == found.current
    # A little more than was measured does not prove the model wrong: the uncertainty alone keeps the settings.
    assert found.gain is not None
    model.reach = 0.9 * found.gain
    assert "within the uncertainty" in Prescriber(model).prescribe(PrescriptionRequest(workload())).kept


def test_a_prediction_outside_what_was_measured_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that was badly trained predicts less than its floor for today's settings."""
    known = Oracle._predict
    stripes = trained()[0].domain.names.index("stripe_count")

    def badly(self: Any, points: Any, x: Any) -> Any:
        mean, deviation = known(self, points, x)
        return np.where(points[:, stripes] == 1, 0.0, mean), deviation

    right = prescriber().prescribe(PrescriptionRequest(workload()))
    monkeypatch.setattr(Oracle, "_predict", badly)
    found = prescriber().prescribe(PrescriptionRequest(workload()))
    model, table = trained()
    most = max(
        own.values.max() / own.values.min() for context in table.contexts() for own in [table.take(table.of(context))]
    )
    assert found.speedup == pytest.approx(most, rel=0.01) and np.exp(model.reach) == pytest.approx(most, rel=0.01)
    assert found.interval is not None and right.interval is not None
    assert found.interval[0] < 1 < found.interval[1] <= most * 1.01
    assert not found.plan.settings and "it is wrong here" in found.kept
    assert all(entry.speedup <= most * 1.01 for entry in found.advice)
    assert right.plan.settings and right.interval[0] > 1


def test_a_prescription_survives_its_json() -> None:
    found = prescriber().prescribe(PrescriptionRequest(workload()))
    again = read_prescription(found.as_json())
    assert again.interval == pytest.approx(found.interval) and again.speedup == pytest.approx(found.speedup)


def test_the_best_settings_are_kept_as_they_are() -> None:
    first = prescriber().prescribe(PrescriptionRequest(workload(collective=False)))
    best = {change.name: change.value for change in first.changes}
    again = prescriber().prescribe(PrescriptionRequest(workload(collective=False), best))
    assert not again.changes
    assert again.kept


@pytest.mark.slow
def test_rules_of_the_stacks_are_obeyed() -> None:
    # cb_nodes: at most the processes, and a multiple of the nodes above them; nothing where buffering is off.
    found = prescriber(*HINTS).prescribe(PrescriptionRequest(workload(nodes=2, processes_per_node=1)))
    chosen = {change.name: change.value for change in found.changes}
    assert chosen["romio_cb_write"] == "disable"
    assert "cb_nodes" not in chosen
    assert found.combinations == 4 * 3 * (2 + 2 + 1), "buffers of what is switched off mean nothing"
    fixed = PrescriptionRequest(workload(nodes=8, processes_per_node=1, operation="read"), {"romio_cb_write": "enable"})
    allowed = prescriber(*HINTS).prescribe(fixed)
    assert all(change.value <= 8 for change in allowed.changes if change.name == "cb_nodes")


def test_settings_that_follow_from_others_are_in_the_plan() -> None:
    model, table = trained(("cb_nodes",))
    found = Prescriber(model, table).prescribe(PrescriptionRequest(workload(nodes=4, processes_per_node=4)))
    assert lines(found) == {"cb_nodes": "8", "cb_config_list": "*:2"}
    assert found.combinations == 4
    alone = Prescriber(model, table).prescribe(PrescriptionRequest(workload(nodes=4, processes_per_node=1)))
    assert lines(alone) == {"cb_nodes": "4", "cb_config_list": "*:1"}
    assert alone.combinations == 3, "more than there are processes are not allowed"


def test_a_default_that_follows_from_the_workload_is_that_of_today_and_what_means_nothing_is_not_changed() -> None:
    """ROMIO has one aggregator per node by itself: campaigns write no default for the column."""
    whole = campaign(tunables=("stripe_count", "cb_nodes"), noise=0.0, repeats=1)
    columns = [c.model_copy(update={"default": None}) if c.name == "cb_nodes" else c for c in whole.schema.parameter]
    table = replace(whole, schema=whole.schema.model_copy(update={"parameter": columns}))
    model = Oracle(model_class("tree").Options(max_depth=2)).fit(table)
    asked = workload(nodes=4, processes_per_node=4)
    found = Prescriber(model, table).prescribe(PrescriptionRequest(asked, {"stripe_count": 16}))
    assert {change.name: (change.current, change.value) for change in found.changes} == {"cb_nodes": (4, 8)}
    assert found.speedup == pytest.approx(1.0 / 0.75)
    alone = Prescriber(model, table).prescribe(PrescriptionRequest(asked.model_copy(update={"collective": False})))
    assert {change.name for change in alone.changes} == {"stripe_count"}
    # Also where somebody says what it is set to.
    told = PrescriptionRequest(asked.model_copy(update={"collective": False}), {"cb_nodes": 2})
    assert {change.name for change in Prescriber(model, table).prescribe(told).changes} == {"stripe_count"}


def test_a_program_that_does_not_use_mpi_io_gets_no_hints() -> None:
    asked = workload(file_size=GIB)
    assert {s.carrier for s in prescriber(*HINTS).prescribe(PrescriptionRequest(asked)).plan.settings} == {HINT, LAYOUT}
    posix = asked.model_copy(update={"api": "posix", "collective": None})
    assert {s.carrier for s in prescriber(*HINTS).prescribe(PrescriptionRequest(posix)).plan.settings} == {LAYOUT}


def test_reasons_are_measured_neighbours_and_rules() -> None:
    found = prescriber().prescribe(PrescriptionRequest(workload()))
    nearest = [entry for entry in found.neighbours if entry.chosen]
    assert len(nearest) == 3
    assert nearest[0].distance == 0
    assert nearest[0].values["stripe_count"] == 16
    assert nearest[0].runs == 1
    assert {entry.chosen for entry in found.neighbours} == {True, False}
    assert any(reason.startswith("stripe_count at least") for reason in found.reasons)
    assert found.reasons[-1].startswith("so about")


def test_without_the_table_there_are_no_neighbours() -> None:
    assert Prescriber(trained()[0]).prescribe(PrescriptionRequest(workload())).neighbours == ()


def test_cells_that_a_model_remembers_without_values_are_no_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    model, table = trained()
    points = Data.of(model.domain, table).points
    # As auto keeps a table of single runs, whose noise and error cannot be told apart.
    monkeypatch.setattr(model, "memory", SimpleNamespace(points=points, estimate=np.empty(0)), raising=False)
    assert Prescriber(model).prescribe(PrescriptionRequest(workload())).neighbours == ()


def test_what_is_unknown_counts_as_its_mean_and_is_named() -> None:
    found = prescriber().prescribe(PrescriptionRequest(Workload(operation="write", nodes=4)))
    assert any(note.startswith("ppn is unknown: the mean over 1, 4") for note in found.notes)
    assert any("transfer_size of the program is unknown" in note for note in found.notes)
    assert lines(found)["stripe_count"] == "16"


def test_ranks_that_were_seen_limit_what_is_unknown() -> None:
    found = prescriber().prescribe(PrescriptionRequest(Workload(operation="write", file_size=8 * GIB), processes=2))
    alone = prescriber().prescribe(
        PrescriptionRequest(workload(nodes=2, processes_per_node=1, collective=None, transfer_size=None))
    )
    assert found.current == pytest.approx(alone.current)


def test_a_workload_beyond_the_measurements_is_said_to_be() -> None:
    found = prescriber().prescribe(PrescriptionRequest(workload(file_size=100 * GIB)))
    (said,) = [note for note in found.notes if "lies outside the training" in note]
    assert said.startswith("file_gib = 100 GiB lies outside the training range 1 GiB to "), said


def test_a_pool_and_a_directory_can_be_chosen() -> None:
    made = schema(tunables=("stripe_count",))
    columns = [
        Column(name="pool", kind="categorical", role="pool", values=["disk", "flash"], default="disk"),
        Column(name="directory", kind="categorical", role="directory", values=["/slow", "/fast"], default="/slow"),
    ]
    both = Schema.model_validate({**made.model_dump(), "parameter": [*made.parameter, *columns]})
    from stripewise.models.table import make_table

    rows = []
    for values in itertools.product(*(column.values for column in both.columns)):
        row: dict[str, Any] = dict(zip((column.name for column in both.columns), values, strict=True))
        rate = law(row) * {"disk": 1.0, "flash": 2.0}[row["pool"]] * {"/slow": 1.0, "/fast": 1.5}[row["directory"]]
        rows.append({**row, "bandwidth": rate})
    table = make_table(both, rows, "pools")
    model = make_model("tree", {"max_depth": 0, "min_rows": 1}).fit(table)
    found = Prescriber(model, table).prescribe(PrescriptionRequest(workload()))
    assert found.directory == "/fast"
    assert lines(found)["pool"] == "flash"
    ways = {tunable.name: tunable.set_by for tunable in tunable_columns(both)}
    assert ways == {"stripe_count": SetBy.SETTING, "pool": SetBy.SETTING, "directory": SetBy.PLACE}


def test_stripes_of_a_ceph_file_system_are_its_own() -> None:
    found = prescriber().prescribe(PrescriptionRequest(workload(file_system="ceph", collective=False)))
    assert {s.layer for s in found.plan.settings} == {"cephfs"}


def test_stripes_of_a_file_system_without_them_are_nobody_s_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = load_stack("beegfs")
    pools = tuple(p for p in whole.parameters if p.role == "other")
    monkeypatch.setattr("stripewise.models.tunables.load_stack", lambda name: replace(whole, parameters=pools))
    table = schema(tunables=("stripe_count", "stripe_size", "cb_nodes"))
    by_name = {tunable.name: tunable.set_by for tunable in tunable_columns(table, "beegfs")}
    assert by_name["stripe_count"] is SetBy.OTHER
    assert by_name["cb_nodes"] is SetBy.SETTING


def test_many_workloads_at_once_get_what_each_gets_alone() -> None:
    model, _ = trained()
    requests = [
        PrescriptionRequest(
            workload(operation=operation, nodes=nodes),
            {"stripe_count": 4, "stripe_size": MIB, "transfer_size": MIB, "collective": True},
        )
        for operation in ("write", "read")
        for nodes in (2, 4, 8)
    ]
    together = Prescriber(model).everything(requests)
    for request, found in zip(requests, together, strict=True):
        assert Prescriber(model).everything([request]) == [found]
        assert found["transfer_size"] == 256 * MIB
        assert found["collective"] is False
        if request.workload.operation == "read":
            assert found["stripe_count"] == 4
        else:
            assert found["stripe_count"] == 16


# -- requests ------------------------------------------------------------------------------------------------------


def test_a_workload_file_is_read() -> None:
    found = parse_request(
        '[workload]\noperation = "read"\nfile_size = "1 GiB"\n[current]\nstripe_count = 4\n', "w.toml"
    )
    assert found.workload.file_size == GIB
    assert found.current == {"stripe_count": 4}


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = ", "is not valid TOML"),
        ("x = 1", r"has no \[workload\]"),
        ('[workload]\noperation = "append"', "workload.operation"),
        ("[workload]\nnodes = 0", "workload.nodes"),
    ],
)
def test_wrong_workload_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_request(text, "w.toml")


@pytest.mark.parametrize(
    "current, context, message",
    [
        ({"stripes": 4}, {}, "names stripes, which the model does not know"),
        ({}, {"site": "x"}, "names site"),
        ({"collective": "perhaps"}, {}, "was never measured"),
        ({"stripe_count": "many"}, {}, "is not a number"),
        ({"stripe_count": float("nan")}, {}, "is not a number"),
        ({"stripe_size": float("inf")}, {}, "is not a number"),
    ],
)
def test_what_the_model_does_not_know_is_refused(current: Any, context: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        prescriber().prescribe(PrescriptionRequest(workload(), current, context))


@pytest.mark.parametrize(("io", "decided"), [("romio", True), ("unknown", True), ("ompio", False)])
def test_what_the_mpi_library_does_not_read_is_not_prescribed(io: str, decided: bool) -> None:
    found = Prescriber(*trained(HINTS)).prescribe(PrescriptionRequest(workload(), io=io))
    assert any(setting.key == "romio_cb_write" for setting in found.decided) is decided
    assert any(setting.key == "stripe_count" for setting in found.decided)


def test_layout_and_hints_that_were_seen_are_the_settings_of_today() -> None:
    model, _ = trained(HINTS)
    seen = PrescriptionRequest(Workload()).with_observed(
        Observed(
            workload(),
            16,
            {"stripe_count": 8, "stripe_size": 4 * MIB},
            (Setting(HINT, "romio_cb_write", "ENABLE"), Setting(HINT, "x", "y"), Setting(ENVIRONMENT, "cb_nodes", "4")),
        ),
        model.domain,
    )
    assert seen.current == {"stripe_count": 8, "stripe_size": 4 * MIB, "romio_cb_write": "enable"}
    declared = PrescriptionRequest(Workload(nodes=2), {"stripe_count": 1}).with_observed(
        Observed(workload(), 16), model.domain
    )
    assert declared.workload.nodes == 2
    assert declared.workload.file_size == 8 * GIB
    assert declared.current == {"stripe_count": 1}


# -- policies ------------------------------------------------------------------------------------------------------


def test_the_study_s_findings_are_named_as_a_policy() -> None:
    found = apply_policy("mpi-io-study", workload(file_system="lustre", piece_size=MIB), 48)
    assert found.policy
    assert found.origin == "policy mpi-io-study"
    assert lines(found) == {"stripe_count": "48", "stripe_size": str(MIB), "romio_cb_write": "disable"}
    assert found.gain is None
    assert any("rule of thumb" in note for note in found.notes)
    assert lines(apply_policy("mpi-io-study", workload()))["stripe_count"] == "-1"


def test_policies_change_no_layout_where_there_is_none_to_change() -> None:
    for words in ({"operation": "read"}, {"file_system": "ext4"}):
        for name in policy_names():
            found = apply_policy(name, workload(**words))
            assert not [s for s in found.plan.settings if s.carrier is LAYOUT]
    small = apply_policy("mpi-io-study", workload(file_size=MIB))
    assert "stripe_count" not in lines(small)
    apart = apply_policy("mpi-io-study", workload(file_per_process=True))
    assert "stripe_count" not in lines(apart)


def test_independent_programs_get_no_hint_for_collective_calls() -> None:
    for name in policy_names():
        found = apply_policy(name, workload(collective=False))
        assert not [s for s in found.plan.settings if s.carrier is HINT]


WIDE = {"nodes": 8, "collective": True, "file_per_process": False, "file_size": GIB, "file_system": "lustre"}


def test_knowledge_sets_stripes_that_grow_with_nodes_with_an_interval() -> None:
    found = apply_policy("knowledge", workload(**WIDE))
    assert found.origin == "policy knowledge"
    assert lines(found) == {"stripe_count": "8"}
    assert found.speedup == pytest.approx(1.97 * 1.24)
    assert found.interval is not None
    low, high = found.interval
    assert low < found.speedup < high
    assert any("29 workloads" in reason for reason in found.reasons)
    assert read_prescription(found.as_json()).interval == pytest.approx(found.interval)
    assert lines(apply_policy("knowledge", workload(**WIDE | {"nodes": 4}))) == {"stripe_count": "4"}
    assert lines(apply_policy("knowledge", workload(**WIDE), 6)) == {"stripe_count": "4"}
    assert apply_policy("knowledge", workload(**WIDE), 4, {"stripe_count": 1}).changes


NOT_MEASURED = "no workload of this kind was measured elsewhere to gain for sure"


@pytest.mark.parametrize(
    "words, more, why",
    [
        ({"operation": "read"}, {}, "the program reads"),
        ({"operation": "both"}, {}, "the program also reads"),
        ({"operation": None}, {}, "the workload does not say operation"),
        ({"file_system": "ext4"}, {}, "nothing was measured on ext4"),
        ({"file_per_process": True}, {}, NOT_MEASURED),
        ({"collective": False}, {}, NOT_MEASURED),
        ({"collective": None}, {}, "the workload does not say collective"),
        ({"nodes": 2}, {}, NOT_MEASURED),
        ({"nodes": None, "file_size": None}, {}, "the workload does not say nodes and file_size"),
        ({"file_size": 10 * MIB}, {}, NOT_MEASURED),
        ({}, {"osts": 1}, NOT_MEASURED),
        ({}, {"current": {"stripe_count": 8}}, NOT_MEASURED),
        ({}, {"current": {"stripe_count": -1}}, "the file has all OSTs already"),
        ({}, {"existing": True}, "the files exist"),
    ],
)
def test_knowledge_keeps_the_default_where_gains_are_not_certain(
    words: dict[str, Any], more: dict[str, Any], why: str
) -> None:
    found = apply_policy("knowledge", workload(**{**WIDE, **words}), **more)
    assert found.changes == ()
    assert found.plan.settings == ()
    assert why in found.kept
    assert found.kept.endswith("so the default is kept")


@pytest.mark.parametrize("stripes", ["abc", True, 2.5])
def test_a_stripe_count_that_is_not_a_number_is_refused(stripes: Any) -> None:
    with pytest.raises(UserError, match=f"the current stripe_count is '{stripes}'"):
        apply_policy("knowledge", workload(**WIDE), None, {"stripe_count": stripes})


def test_measured_knowledge_holds_in_the_measured_table_that_is_kept() -> None:
    gains = []
    for one in list_landscapes(read_table(ROOT / "benchmarks/data/tables/s3d_write_lustre_hints")):
        names, points = one.space.names, one.space.points
        values = [np.array(parameter.values)[points[:, place]] for place, parameter in enumerate(one.space.parameters)]
        column = dict(zip(names, values, strict=True))
        meant = (column["stripe_count"] >= 4) & (column["stripe_count"] <= 16) & (column["romio_cb_write"] != "disable")
        default = int(one.space.index(one.space.levels([one.space.default]))[0])
        if meant.any():
            gains.append(float(np.median(one.truth[meant]) / one.truth[default]))
    assert len(gains) == 5
    assert min(gains) >= 1.02
    assert max(gains) == pytest.approx(4.20, abs=0.01)


def test_a_rule_of_thumb_leaves_out_what_may_lose_half() -> None:
    """Pieces of unknown size from several nodes: small ones are written several times slower without aggregators."""
    found = apply_policy("mpi-io-study", workload(nodes=8, collective=True, piece_size=None, layout=None))
    assert "romio_cb_write" not in lines(found)
    assert any(note.startswith("romio_cb_write = disable is left out") for note in found.notes)


def test_without_a_model_the_layout_of_a_log_counts() -> None:
    seen = PrescriptionRequest(Workload()).with_observed(Observed(workload(**WIDE), 16, {"stripe_count": 8}), None)
    assert seen.current == {"stripe_count": 8}
    assert apply_policy("knowledge", seen.workload, None, seen.current).changes == ()


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(UserError, match="no policy is called 'best'"):
        apply_policy("best", workload())


BANDWIDTH = Objective("bandwidth", "maximize", "MiB/s")
SECONDS = Objective("elapsed", "minimize", "s")


def at(predicted: float, spread: float = 0.05, objective: Objective = BANDWIDTH) -> Prescription:
    hint = make_plan([Setting(HINT, "cb_nodes", "4")], "prescribed")
    return Prescription("model", workload(), objective=objective, predicted=predicted, spread=spread, plan=hint)


def test_a_file_goes_to_the_place_that_is_predicted_to_be_fastest() -> None:
    found, places = choose_place({"/home": at(100), "/scratch": at(400), "/nvme": at(300)}, "env:OUT_DIR")
    assert [place.name for place in places] == ["/scratch", "/nvme", "/home"]
    assert found.directory == "/scratch" and "4.00 times as fast as /home" in found.reasons[0]
    assert [setting.line() for setting in found.plan.settings] == ["hint cb_nodes 4", "env OUT_DIR /scratch"]
    deviation = math.hypot(0.05, 0.05)
    assert places[0].speedup_interval[1] == pytest.approx(4 * math.exp(1.96 * deviation))
    assert places[-1].interval[0] == pytest.approx(100 * math.exp(-1.96 * 0.05))
    assert "export OUT_DIR=/scratch" in export(found.plan, "shell").text


def test_a_file_stays_where_the_gain_of_another_place_is_uncertain() -> None:
    found, places = choose_place({"/home": at(10, 0.3, SECONDS), "/scratch": at(7, 0.3, SECONDS)}, "argument:out")
    assert places[0].name == "/scratch" and places[0].speedup == pytest.approx(10 / 7)
    assert found.directory == "/home" and "not enough to move" in found.reasons[0]
    assert found.plan.settings[-1].line() == "argument out /home"
    assert "the best of 2 places" in choose_place({"a": at(2), "b": at(1)}, None)[0].reasons[0]


def test_pools_are_layouts_and_other_places_need_a_carrier() -> None:
    found, _ = choose_place({"/home": at(100), "pool:flash": at(400)}, None)
    assert found.plan.settings[-1].line() == "layout lustre pool flash"
    assert "add --place-by" in " ".join(choose_place({"/home": at(100), "/scratch": at(400)}, None)[0].reasons)
    with pytest.raises(UserError, match="predict different objectives"):
        choose_place({"/home": at(100), "/scratch": at(4, objective=SECONDS)}, None)
    for wrong in ("OUT_DIR", "hint:cb_nodes", "env:A B", "env:"):
        with pytest.raises(UserError, match="--place-by"):
            carried_by(wrong)


def test_the_command_names_what_places_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = tmp_path / "workload.toml"
    asked.write_text('[workload]\noperation = "write"\n')
    for words, text in (
        (["--place", "/home=a.model"], "one place leaves nothing to choose"),
        (["--place", "/home"], "is not NAME=VALUE"),
        (["a.model", "--place", "/home=a.model"], "--place names the models itself"),
        (["--place-by", "env:OUT"], "--place-by needs places"),
    ):
        assert main(["prescribe", "--workload", str(asked), *words]) == 2
        assert text in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("nodes", "gib", "osts", "shared", "stripes"),
    [
        (8, 16, 400, True, 32),
        (32, 128, 400, True, 128),
        (64, 128, 400, True, 256),
        (128, 1024, 40, True, 40),
        (64, 16, 400, True, None),
        (2, 1024, 400, True, None),
        (64, 1024, 400, False, None),
    ],
)
@pytest.mark.parametrize("collective", [True, False])
def test_stripes_of_large_shared_files_grow_with_the_nodes(
    nodes: int, gib: int, osts: int, shared: bool, stripes: int | None, collective: bool
) -> None:
    workload = Workload(
        operation="write", nodes=nodes, processes_per_node=16, collective=collective, file_per_process=not shared,
        file_size=gib << 30, transfer_size=1 << 20, api="mpiio", layout="segmented", file_system="lustre",
    )  # fmt: skip
    found = apply_policy("knowledge", workload, osts)
    if stripes is None and collective and shared and nodes == 64:
        stripes = 8  # what is known of collective writes of smaller files
    assert [change.value for change in found.changes] == ([] if stripes is None else [stripes])


@pytest.mark.parametrize(
    ("nodes", "gib", "now", "targets"),
    [(4, 5, 1, 4), (8, 16, 1, 4), (4, 5, None, None), (4, 0, 1, None), (1, 5, 1, None)],
)
def test_targets_of_beegfs_follow_what_was_measured(nodes: int, gib: int, now: int | None, targets: int | None) -> None:
    """Files have four targets by default, and on four nodes eight brought no more."""
    workload = Workload(
        operation="write", nodes=nodes, processes_per_node=8, collective=False, file_per_process=False,
        file_size=max(gib << 30, 1 << 20), transfer_size=1 << 20, api="posix", layout="segmented", file_system="beegfs",
    )  # fmt: skip
    found = apply_policy("knowledge", workload, 8, {} if now is None else {"stripe_count": now})
    lines = [setting.line() for setting in found.plan.settings]
    assert lines == ([] if targets is None else [f"layout beegfs stripe_count {targets}"])
