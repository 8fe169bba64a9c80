"""Tables described by profiles: what a log shows of a program stands in place of its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stripewise.catalogue.workload import Workload
from stripewise.desk.cli.main import main
from stripewise.engine.campaign.observing import with_profiles
from stripewise.errors import UserError
from stripewise.models.prescribe.prescriber import Prescriber
from stripewise.models.prescribe.request import PrescriptionRequest
from stripewise.models.registry import make_model
from stripewise.models.table import Schema, Table, make_table, read_table, write_table
from stripewise.observe._darshan_sums import blocks_touched
from stripewise.observe.darshan_logs import read_log
from stripewise.observe.from_report import activity_of
from stripewise.observe.profile_features import BLOCKS, TRAITS, traits_of
from stripewise.observe.report import parse_report
from stripewise.observe.workload import describe_workload
from tests.unit.reports import changed, example_log, recorded


def profile(written: int) -> dict[str, Any]:
    """A report of a program that writes so much."""
    return changed(recorded("romio_strided_write")["default"], "files.0.operations.write_at_all.bytes", written)


def table() -> Table:
    """Two programs of which each wants another value of a setting of the user's own."""
    rows = [
        {"program": name, "cache": cache, "seconds": seconds * (1 + 0.01 * repeat), "repeat": repeat}
        for name, best in (("small", 1), ("large", 8))
        for cache, seconds in ((1, 1.0 if best == 1 else 9.0), (8, 1.0 if best == 8 else 9.0))
        for repeat in range(3)
    ]
    column = {"name": "cache", "kind": "ordinal", "values": [1, 8], "default": 8, "carrier": "env", "key": "MY_CACHE"}
    schema = {
        "name": "two",
        "objective": {"column": "seconds", "direction": "minimize", "unit": "s"},
        "context": [{"name": "program", "kind": "categorical", "values": ["small", "large"]}],
        "parameter": [column],
    }
    return make_table(Schema.model_validate(schema), rows)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.json").write_text(json.dumps(profile(32 << 10)))
    (tmp_path / "large.json").write_text(json.dumps(profile(32 << 20)))
    return tmp_path


def test_a_model_of_profiles_answers_for_another_program(folder: Path) -> None:
    made, missing = with_profiles(table(), "program", folder)
    # The two differ in nothing else.
    assert [(c.name, c.role, c.unit, c.values) for c in made.schema.context] == [
        ("write_size", "write_size", "B", [1 << 10, 1 << 20])
    ]
    assert missing == [] and made.values.tolist() == table().values.tolist()
    model = make_model("tree").fit(made)
    chosen = {}
    for written in (48 << 10, 24 << 20):
        seen = describe_workload(activity_of(parse_report(profile(written)), "report.json"))
        request = PrescriptionRequest(Workload()).with_observed(seen, model.domain)
        found = Prescriber(model).prescribe(request)
        chosen[written] = {s.key: s.value for s in found.plan.settings}
    assert chosen == {48 << 10: {"MY_CACHE": "1"}, 24 << 20: {}}


def test_the_commands_do_the_same(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(table(), folder / "measured")
    words = [str(folder / "measured"), "--column", "program", "--from", str(folder), "--out", str(folder / "described")]
    assert main(["site", "table", "observe", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["context"] == ["write_size"]
    make_model("tree").fit(read_table(folder / "described")).save(folder / "site.model")
    (folder / "new.json").write_text(json.dumps(profile(48 << 10)))
    assert main(["prescribe", str(folder / "site.model"), "--from", str(folder / "new.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == {"cache": 1}


def test_places_are_compared_by_their_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, _ = with_profiles(table(), "program", folder)
    write_table(made, folder / "home")
    write_table(
        Table(made.schema, made.levels, made.context_levels, made.repeats, made.values / 10), folder / "scratch"
    )
    (folder / "new.json").write_text(json.dumps(profile(48 << 10)))
    places = ["--place", f"/home={folder / 'home'}", "--place", f"/scratch={folder / 'scratch'}"]
    words = ["prescribe", "--from", str(folder / "new.json"), *places, "--place-by", "env:OUT_DIR", "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [place["place"] for place in found["places"]] == ["/scratch", "/home"]
    assert found["settings"] == {"cache": 1} and found["plan"].endswith("env MY_CACHE 1\nenv OUT_DIR /scratch\n")


def test_what_cannot_be_described_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="has no context file"):
        with_profiles(table(), "file", folder)
    (folder / "large.json").write_text(json.dumps(profile(32 << 10)))
    with pytest.raises(UserError, match="show no difference between the programs"):
        with_profiles(table(), "program", folder)
    (folder / "large.json").unlink()
    with pytest.raises(UserError, match="has no profile of large"):
        with_profiles(table(), "program", folder)


def test_a_trace_tells_which_blocks_were_read() -> None:
    offset, length = np.array([0, 100, 1 << 20]), np.array([100, 100, 2 << 20])
    assert blocks_touched(offset, length, 1 << 20) == 3
    assert blocks_touched(offset, length, 64 << 20) == 1


@pytest.mark.slow
def test_traits_of_a_log_with_a_trace() -> None:
    found = traits_of(read_log(example_log("dxt.darshan")))
    assert found.keys() == TRAITS.keys()
    blocks = [found[f"read_blocks_{name}"] for name in BLOCKS]
    assert blocks == sorted(blocks, reverse=True) and 0 < blocks[-1] < blocks[0] < 1
