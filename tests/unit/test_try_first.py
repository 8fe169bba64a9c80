"""Settings to try first: a diagnosis becomes configurations of the space, which the search runs before all others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.main import main
from stripewise.engine.definition import check
from stripewise.engine.space import Circumstances, bind_space
from stripewise.engine.try_first import configurations, proposals
from stripewise.errors import UserError
from stripewise.requests.experiment import Experiment
from stripewise.store.opening import open_store
from stripewise.trial import Role

WORKLOAD = Workload(
    operation="write", nodes=2, processes_per_node=2, layout="strided", piece_size=1024, transfer_size=65536,
    collective=True, file_system="ext4",
)  # fmt: skip
SPACE = bind_space(Experiment(stacks=["romio"]), Circumstances(WORKLOAD, "romio")).space


def test_the_proposals_of_a_diagnosis_all_together_and_one_by_one(tmp_path: Path) -> None:
    one, two = "hint romio_cb_write disable", "hint cb_nodes 2"
    file = tmp_path / "diagnosis.json"
    found = [{"settings": [one]}, {"settings": []}, {"settings": [two]}]
    file.write_text(json.dumps({"settings": [one, two], "findings": found}))
    assert proposals(file) == [f"{one}; {two}", one, two]
    for text, message in (
        ("{", "not a diagnosis"),
        ("[]", "not a diagnosis"),
        ('{"settings": [], "findings": []}', "no"),
    ):
        file.write_text(text)
        with pytest.raises(UserError, match=message):
            proposals(file)


def test_entries_become_configurations_and_others_are_named() -> None:
    entries = [
        "hint romio_cb_write disable; hint romio_ds_write disable",
        "hint cb_nodes 4; hint cb_config_list *:2",
        "hint romio_cb_write automatic",  # the default
        "hint romio_cb_read disable",  # the program writes
        "layout lustre stripe_count 4",  # not searched
    ]
    found, lost = configurations(SPACE, entries)
    assert [dict(one)["romio_cb_write"] for one in found] == ["disable", "automatic"]
    assert dict(found[0])["romio_ds_write"] == "disable"
    assert dict(found[1])["cb_nodes"] == 4
    assert lost == entries[2:]


def test_an_entry_that_is_no_plan_is_refused_before_the_first_run() -> None:
    with pytest.raises(UserError, match="try_first 'nonsense'"):
        check(Experiment(command=["true"], try_first=["nonsense"]))


@pytest.mark.slow
def test_tune_tries_what_a_diagnosis_proposes_before_anything_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, diagnosis = tmp_path / "e.toml", tmp_path / "diagnosis.json"
    words = WORKLOAD.model_dump(mode="json", exclude_none=True, exclude={"file_system"}) | {"file_size": 1 << 26}
    lines = [f"{key} = {json.dumps(value)}" for key, value in words.items()]
    file.write_text("\n".join(['runner = "sim:kay"', 'stacks = ["romio"]', 'sampler = "random"', "[workload]", *lines]))
    found = [{"settings": ["hint romio_cb_write disable"]}, {"settings": ["layout lustre stripe_count 4"]}]
    diagnosis.write_text(json.dumps({"settings": ["hint cb_nodes 4"], "findings": found}))
    store = f"sqlite:///{tmp_path / 'store.db'}"
    command = ["tune", str(file), "--from", str(diagnosis), "--store", store, "--budget", "8", "--pairs", "0", "--json"]
    assert main([*command, "--dry-run"]) == 0
    planned = json.loads(capsys.readouterr().out)["first"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "changes nothing that is searched here: layout lustre stripe_count 4" in " ".join(printed.err.split())
    opened = open_store(store)
    try:
        trials = opened.trials(json.loads(printed.out)["experiment"])
    finally:
        opened.close()
    candidates = [dict(trial.configuration) for trial in trials if trial.role is Role.CANDIDATE]
    assert candidates[0]["cb_nodes"] == 4
    assert candidates[1]["romio_cb_write"] == "disable"
    assert len(candidates) > 2
    assert planned[1:3] == candidates[:2]
