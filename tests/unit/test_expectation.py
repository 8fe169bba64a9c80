"""What settings are expected to bring; findings and policies ask alike, so that they never contradict each other."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from stripewise.catalogue.carriers import HINT, LAYOUT, Setting
from stripewise.catalogue.expectation import Expected, expect, list_cautions, propose
from stripewise.catalogue.workload import Workload
from stripewise.diagnose.site import diagnose
from stripewise.errors import UserError
from stripewise.models.prescribe.policies import apply_policy, policy_names
from stripewise.observe.activity import Activity
from stripewise.observe.workload import describe_workload
from tests.unit.test_diagnosis_findings import CASES, activity, calls

KIB, MIB = 1024, 1 << 20
ON, OFF = ((Setting(HINT, "romio_cb_write", word),) for word in ("enable", "disable"))


def collective(**more: Any) -> Workload:
    known = {"operation": "write", "collective": True, "transfer_size": 64 * KIB, "file_system": "ext4", **more}
    return Workload.model_validate(known)


def test_contiguous_collective_calls_are_never_sent_through_aggregators() -> None:
    for nodes in (None, 1, 4):
        workload = collective(
            layout="segmented", **({} if nodes is None else {"nodes": nodes, "processes_per_node": 4})
        )
        assert not expect(ON, workload, {}, processes=4).gains


def test_what_is_not_known_is_not_guessed() -> None:
    assert expect(OFF, collective(layout="segmented", nodes=1, processes_per_node=4), {}) == Expected(
        1.5, 1.5, expect(OFF, collective(layout="segmented"), {}, processes=4).reasons
    )
    unknown = expect(OFF, collective(layout="segmented"), {}, processes=4)
    assert (unknown.low, unknown.high) == (1.0, 1.5)
    assert not unknown.gains and not unknown.loses
    # One process is on one node.
    assert expect(OFF, collective(layout="segmented"), {}, processes=1).gains


def test_the_settings_in_effect_count() -> None:
    small = collective(layout="strided", piece_size=4 * KIB, nodes=4, processes_per_node=2)
    assert expect(OFF, small, {}).loses
    assert expect(ON, small, {"romio_cb_write": "disable"}).low == pytest.approx(1 / 0.3)
    assert expect(OFF, small, {"romio_cb_write": "disable"}) == Expected()


def test_settings_that_do_not_reach_the_file_bring_nothing() -> None:
    small = collective(layout="strided", piece_size=4 * KIB, nodes=4, processes_per_node=2)
    assert expect(OFF, small, {}, io="ompio") == Expected()
    assert expect(OFF, small.model_copy(update={"operation": "read"}), {}) == Expected()
    assert expect(OFF, small.model_copy(update={"collective": False}), {}) == Expected()
    assert expect((Setting(HINT, "no_such_hint", "1"),), small, {}) == Expected()


def test_the_best_candidate_is_proposed_with_its_factor() -> None:
    large = Workload(operation="write", file_size=2 << 30, nodes=2, processes_per_node=2, file_system="lustre")
    wide = [(Setting(LAYOUT, "stripe_count", str(count), "lustre"),) for count in (1, 8)]
    found = propose(wide, large, {"stripe_count": "1"})
    assert found.settings == wide[1]
    assert found.expected.says.startswith("1.6 times as fast")
    assert found.expected.reasons[0].startswith("project notes")
    assert propose(wide, large, {"stripe_count": "8"}).settings == ()


def test_a_policy_leaves_out_what_is_expected_to_lose() -> None:
    small = collective(layout="strided", piece_size=4 * KIB, nodes=4, processes_per_node=2)
    found = apply_policy("mpi-io-study", small)
    assert "romio_cb_write" not in {change.name for change in found.changes}
    assert any(note.startswith("romio_cb_write = disable is left out") for note in found.notes)
    # Independent calls are what it stands in for: they would harm as well.
    assert not found.advice and not any("non-collective" in reason for reason in found.reasons)
    assert any(reason.startswith("romio_cb_write = disable: ") for reason in found.reasons)


def seen() -> list[Activity]:
    """The cases of all findings, and collective writes of every kind, on one node and on more."""
    made = [case for pair in CASES.values() for case in pair]
    for nodes, piece, way, switched, kind in itertools.product(
        (None, 1, 4), (512, 4 * KIB, 64 * KIB, MIB), ("read", "write"), ("", "enable", "disable"), ("ext4", "lustre")
    ):
        file = {
            "mpiio": {way: calls(400, 16 * piece)}, "posix": {way: calls(6400, piece, consecutive=0)},
            "file_system": kind,
            "modes": {f"collective_{way}s": 400}, "info": {f"romio_cb_{way}": switched} if switched else {},
        }  # fmt: skip
        one = activity(file)
        made.append(one.model_copy(update={"job": one.job.model_copy(update={"nodes": nodes})}))
    return made


@pytest.mark.slow
def test_diagnose_and_prescribe_never_contradict_each_other() -> None:
    proposed = 0
    for one in seen():
        mine = {setting.key: setting.value for setting in diagnose(one).settings()}
        proposed += bool(mine)
        for name in policy_names():
            try:
                plan = apply_policy(name, describe_workload(one).workload).plan
            except UserError:
                continue  # without bytes or nodes there is nothing to prescribe from
            theirs = {setting.key: setting.value for setting in plan.settings}
            for key in mine.keys() & theirs.keys():
                both_wide = key == "stripe_count" and mine[key] != "1" and theirs[key] != "1"
                assert mine[key] == theirs[key] or both_wide, (name, key, mine, theirs)
    assert proposed >= 20


def test_a_piece_that_is_named_changes_nothing_where_pieces_lie_one_after_the_other() -> None:
    """Declared beside a layout, or seen where the layout was declared, it left no workload to judge by."""
    segmented = collective(layout="segmented", nodes=4, processes_per_node=4, transfer_size=64 * KIB)
    for settings in (ON, OFF):
        found = expect(settings, segmented.model_copy(update={"piece_size": 4 * KIB}), {}, io="romio")
        assert found == expect(settings, segmented, {}, io="romio")


def test_what_the_page_cache_hid_is_said_of_runs_on_local_files_alone() -> None:
    pieces: dict[str, Any] = {"nodes": 4, "processes_per_node": 4, "layout": "strided", "piece_size": KIB}
    sieving = Setting(HINT, "romio_ds_write", "disable")
    local = collective(**pieces)
    (said,) = list_cautions([OFF[0], sieving], local.model_copy(update={"nodes": 1}), io="romio")[1:]
    assert said == (
        "On network storage, romio_ds_write=disable is expected to reach at most 0.7 times the speed; "
        "this was not measured here."
    )
    (several, *_) = list_cautions([OFF[0], sieving], local.model_copy(update={"nodes": 1}), io="romio")
    assert several.startswith(
        "On network storage and several nodes, romio_cb_write=disable is expected to reach at most 0.3"
    )
    for system in ("lustre", "nfs", "fuse.cephfs", None):
        assert list_cautions([OFF[0], sieving], local.model_copy(update={"file_system": system}), io="romio") == ()
    assert list_cautions(ON, local, io="romio") == ()
