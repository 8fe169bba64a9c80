"""What was never measured together is not prescribed, and what is expected to harm only if measurements allow it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.main import main
from stripewise.errors import UserError
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import load_model, make_model
from stripewise.models.table import Column, ObjectiveColumn, Schema, Table, make_table, read_table, write_table
from tests.fixtures.campaigns import GIB, KIB, MIB
from tests.fixtures.sparse import CONSTRAINT, buffered, patterns


def strided(**words: Any) -> Workload:
    told = {"operation": "write", "nodes": 4, "processes_per_node": 4, "file_size": 8 * GIB, "collective": True}
    return Workload.model_validate({**told, "layout": "strided", **words})


def prescribed(table: Table, workload: Workload, **current: Any) -> Any:
    # A tree alone puts the difference down to one of two columns that always change together.
    one = table.name != "patterns"
    model = make_model(*(("tree", {"max_depth": 0, "min_rows": 2}) if one else ("boosting", {"rounds": 60}))).fit(table)
    return Prescriber(model, table).prescribe(PrescriptionRequest(workload, {"stripe_count": 1, **current}))


@pytest.mark.parametrize("constraints", [[CONSTRAINT], []])
def test_what_was_never_measured_together_is_not_prescribed(constraints: list[str]) -> None:
    """The pattern of the bundled campaign: strided calls are collective, segmented ones are not."""
    found = prescribed(patterns(constraints), strided())
    assert {change.name: change.value for change in found.changes} == {"stripe_count": 16}
    assert not any("romio_cb" in setting.key for setting in found.plan.settings)
    (note,) = [note for note in found.notes if note.startswith("left out")]
    assert "never measured" in note
    assert "collective" in note
    assert "strided" in note
    # What a program does that was never measured has no prescription at all, and no advice.
    found = prescribed(patterns(constraints), strided(collective=False))
    assert not found.changes
    assert "was measured with this workload" in found.kept
    found = prescribed(patterns(constraints), strided())
    assert not [entry for entry in found.advice if entry.name in ("collective", "layout")]


def test_of_what_is_unknown_counts_what_was_measured_with_the_rest() -> None:
    found = prescribed(patterns([CONSTRAINT]), strided(layout=None))
    assert {change.name: change.value for change in found.changes} == {"stripe_count": 16}
    assert found.current == pytest.approx(prescribed(patterns([CONSTRAINT]), strided()).current)


def test_everything_that_an_author_may_change_was_measured_together() -> None:
    table = patterns([])
    model = make_model("tree", {"max_depth": 0, "min_rows": 2}).fit(table)
    current = {"stripe_count": 1, "collective": True, "layout": "strided"}
    (answer,) = Prescriber(model).everything([PrescriptionRequest(strided(), current)])
    assert (answer["collective"], answer["layout"], answer["stripe_count"]) == (False, "segmented", 16)


def test_a_number_was_measured_with_all_between_two_values_that_were() -> None:
    columns = [Column(name="files", kind="ordinal", values=[1, 2, 4, 8])]
    setting = Column(name="cb_nodes", kind="ordinal", role="aggregators", values=[1, 2, 4], default=1)
    rows = [(1, 1), (8, 1), (1, 2), (4, 2), (2, 4), (8, 4)]
    schema = Schema(
        name="numbers", objective=ObjectiveColumn(direction="maximize"), context=columns, parameter=[setting]
    )
    table = make_table(schema, [{"files": a, "cb_nodes": b, "objective": 100.0 + b * b} for a, b in rows])
    model = make_model("tree").fit(table)
    assert model.domain.measured is not None
    apart = {(entry.number, entry.allowed) for entry in model.domain.measured.apart}
    # Two writers were measured with 1 and 4 files, but also lie between 1 and 4 writers for 8; four begin at 2 files.
    assert apart == {(4.0, (2.0, math.inf))}


@pytest.mark.parametrize("kind", ["auto", "boosting"])
def test_models_of_an_earlier_version_load_and_say_what_they_lack(tmp_path: Path, kind: str) -> None:
    table = patterns([])
    model = make_model(kind, {"folds": 2} if kind == "auto" else {"rounds": 40}).fit(table)
    known = model.domain.measured
    model._domain = replace(model.domain, measured=None)
    model.save(tmp_path / "old.model")
    loaded = load_model(tmp_path / "old.model")
    request = PrescriptionRequest(strided(), {"stripe_count": 1})
    notes = Prescriber(loaded).prescribe(request).notes
    assert any("does not say which settings were measured together" in note for note in notes) is (kind == "boosting")
    if kind == "auto":
        assert loaded.domain.measured == known
    model._domain = replace(model.domain, measured=known)
    model.save(tmp_path / "new.model")
    assert load_model(tmp_path / "new.model").domain.measured == known


def test_what_the_stacks_expect_to_harm_needs_measurements() -> None:
    """Without buffering, small pieces from several nodes are expected to be slow."""
    small = strided(piece_size=4 * KIB, transfer_size=64 * KIB)
    # Measured was large pieces only, and there buffering costs a little.
    unmeasured = prescribed(buffered([4 * MIB], 1.3), small)
    assert "romio_cb_write" not in {change.name for change in unmeasured.changes}
    (note,) = [note for note in unmeasured.notes if note.startswith("left out")]
    assert "romio_cb_write = disable is expected to be 0.3 times as fast" in note
    assert "no measurement of such a workload says otherwise" in note
    large = prescribed(buffered([4 * MIB], 1.3), strided(piece_size=4 * MIB, transfer_size=16 * MIB))
    assert {change.name: change.value for change in large.changes}["romio_cb_write"] == "disable"
    # Measurements of small pieces overrule it.
    faster = prescribed(buffered([4 * KIB, 4 * MIB], 1.3), small)
    assert {change.name: change.value for change in faster.changes}["romio_cb_write"] == "disable"
    assert not [note for note in faster.notes if note.startswith("left out")]
    # Where it holds today, it leaves nothing out.
    held = prescribed(buffered([4 * MIB], 1.3), small, romio_cb_write="disable")
    assert {change.name: change.value for change in held.changes} == {"stripe_count": 16}


def test_the_stand_in_for_the_access_pattern_is_expected_to_harm_as_the_hint_is() -> None:
    rows = [
        {"nodes": nodes, "piece_size": 4 * MIB, "stripe_count": count, "collective": together,
         "objective": 100.0 * math.log2(2 * count) * (1.0 if together else 1.5)}
        for nodes, count, together in itertools.product([2, 4], [1, 16], [False, True])
    ]  # fmt: skip
    schema = Schema(
        name="pieces",
        objective=ObjectiveColumn(direction="maximize"),
        context=[
            Column(name="nodes", kind="ordinal", role="nodes", values=[2, 4]),
            Column(name="piece_size", kind="ordinal", role="piece_size", unit="B", values=[4 * MIB]),
        ],
        parameter=[
            Column(name="stripe_count", kind="ordinal", role="stripe_count", values=[1, 16], default=1),
            Column(name="collective", kind="categorical", role="collective", values=[False, True]),
        ],
    )
    table = make_table(schema, rows)
    for piece, expected in ((4 * MIB, {"stripe_count": 16, "collective": False}), (4 * KIB, {"stripe_count": 16})):
        found = prescribed(table, strided(piece_size=piece, transfer_size=16 * MIB))
        assert {change.name: change.value for change in found.changes} == expected


def test_tables_keep_their_constraints(tmp_path: Path) -> None:
    table = patterns([CONSTRAINT])
    write_table(table, tmp_path / "patterns")
    assert f'constraints = ["{CONSTRAINT}"]' in (tmp_path / "patterns.toml").read_text("utf-8")
    assert read_table(tmp_path / "patterns").schema == table.schema
    with pytest.raises(UserError, match=r"'colective == true' names colective, which is neither a column nor a word"):
        patterns(["colective == true"])
    with pytest.raises(UserError, match="is not an expression"):
        patterns(["collective =="])


def test_a_campaign_gives_its_constraints_to_its_table(tmp_path: Path) -> None:
    """What the table does not vary stands in a constraint with its default."""
    (tmp_path / "small.toml").write_text(
        f"""
name = "small"
runner = "sim:vulcan-like"
stacks = ["lustre", "romio"]
operations = ["write"]
repeats = 1
warmup = 0
constraints = ["{CONSTRAINT}", "romio_ds_write != 'disable' or stripe_count == 1", "nodes * stripe_count <= 8"]

[[workload]]
name = "nodes"
values = [1, 2]

[[workload]]
name = "file_size"
values = ["1 GiB"]

[[workload]]
name = "transfer_size"
values = ["64 MiB"]

[[workload]]
name = "piece_size"
values = ["1 MiB"]

[[tunable]]
name = "stripe_count"
values = [1, 4]

[[tunable]]
name = "collective"
values = [false, true]

[[tunable]]
name = "layout"
values = ["segmented", "strided"]
""",
        "utf-8",
    )
    assert main(["site", "profile", str(tmp_path / "small.toml"), "--out", str(tmp_path / "table"), "--json"]) == 0
    table = read_table(tmp_path / "table")
    # The benchmark shares one file in every run, which no column says.
    assert table.schema.constraints == [CONSTRAINT, "nodes * stripe_count <= 8", "not file_per_process"]
    assert make_model("tree").fit(table).domain.schema.constraints == table.schema.constraints
