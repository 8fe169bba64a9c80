"""``stripewise prescribe`` from the command line: output, exports, artifacts, mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.main import main
from stripewise.models.artifact.file import read_artifact
from stripewise.models.registry import make_model
from stripewise.models.table import write_table
from tests.fixtures.campaigns import campaign
from tests.unit.reports import recorded

WORKLOAD = """
[workload]
operation = "write"
nodes = 4
processes_per_node = 4
file_size = "8 GiB"
transfer_size = "1 MiB"
collective = true
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    table = campaign(noise=0.02, repeats=2)
    write_table(table, folder / "made_up")
    make_model("tree", {"max_depth": 12}).fit(table).save(folder / "site.model")
    (folder / "workload.toml").write_text(WORKLOAD, "utf-8")
    return folder


def run(folder: Path, *words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(folder)
    return main(["prescribe", *words])


def test_it_says_what_why_and_that_it_is_predicted(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["site.model", "--workload", "workload.toml", "--table", "made_up"]
    assert run(site, *words, monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert "learned from simulated runs" in out
    assert "Predicted:" in out
    assert "not measured" in out
    assert "stripe_count" in out
    assert "(near the prescribed settings, " in out and " run" in out.partition("measured nearby:")[2]
    assert " count " not in out
    assert "what no setting can do: let each call of the program move 256 MiB" in out


def test_json_holds_all_of_it(site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["site.model", "--workload", "workload.toml", "--json", "--to", "lfs"]
    assert run(site, *words, monkeypatch=monkeypatch) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["settings"]["stripe_count"] == 16
    assert found["simulated"] is True
    assert found["speedup_ci95"][0] < found["speedup"] < found["speedup_ci95"][1]
    assert "lfs setstripe -c 16" in found["export"]["text"]
    assert Plan.parse(found["plan"], "json").settings
    documented = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "prescribe.md").read_text("utf-8")
    for key in found:
        assert f"`{key}`" in documented, f"{key} is undocumented"


def test_a_plan_is_written_and_can_be_read(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["site.model", "--workload", "workload.toml", "-o", "site.plan"]
    assert run(site, *words, monkeypatch=monkeypatch) == 0
    plan = Plan.parse((site / "site.plan").read_text("utf-8"), "site.plan")
    assert {s.key for s in plan.settings} >= {"stripe_count", "romio_cb_write"}
    assert run(site, *words[:3], "--to", "hints", monkeypatch=monkeypatch) == 0
    captured = capsys.readouterr()
    assert "striping_factor 16" in captured.out


def test_a_report_takes_the_place_of_a_description(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "report.json").write_text(json.dumps(recorded("romio_strided_write")["default"]), "utf-8")
    assert run(site, "site.model", "--from", "report.json", "--json", monkeypatch=monkeypatch) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["workload"]["operation"] == "write"
    assert found["workload"]["api"] == "mpiio"


def test_a_policy_answers_without_a_model(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(site, "--workload", "workload.toml", monkeypatch=monkeypatch) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "policy knowledge" in out
    assert "Predicted: 1.97 times as fast (95% interval 0.90 to 4.30); not measured." in out
    assert "nothing was measured on this system" in out
    (site / "apart.toml").write_text(WORKLOAD.replace("collective = true", "collective = false"), "utf-8")
    assert run(site, "--workload", "apart.toml", monkeypatch=monkeypatch) == 0
    assert "Nothing is changed: no workload of this kind was measured elsewhere" in " ".join(
        capsys.readouterr().out.split()
    )
    assert run(site, "--workload", "workload.toml", "--policy", "mpi-io-study", monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert "policy mpi-io-study" in out
    assert "rule of thumb" in out
    words = ["--workload", "workload.toml", "--policy", "mpi-io-study", "--osts", "16", "--json"]
    assert run(site, *words, monkeypatch=monkeypatch) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["policy"] is True
    assert found["speedup"] is None
    assert found["settings"]["stripe_count"] == 16


def test_an_artifact_is_written(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(site, "site.model", "--artifact", "site.swm", "--json", monkeypatch=monkeypatch) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["bytes"] == (site / "site.swm").stat().st_size
    assert read_artifact(site / "site.swm").maximize


@pytest.mark.parametrize(
    "words, message",
    [
        (["site.model"], "the workload is missing"),
        (["site.model", "--workload", "missing.toml"], "cannot read the workload file missing.toml"),
        (["no.model", "--workload", "workload.toml"], "no.model"),
        (["site.model", "--workload", "workload.toml", "--policy", "mpi-io-study"], "both a model and a policy"),
        (["--workload", "workload.toml", "--policy", "guess"], "no policy is called 'guess'"),
        (["site.model", "--workload", "workload.toml", "--to", "poem"], "no export is called 'poem'"),
        (["--artifact", "x.swm"], "--artifact needs a model"),
        (["site.model", "--artifact", "no/such/x.swm"], "cannot write the artifact"),
        (["site.model", "--from", "made_up.csv"], "made_up.csv"),
    ],
)
def test_mistakes_end_in_one_line(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run(site, *words, monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1


def test_a_diagnosis_names_what_the_model_decides(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "report.json").write_text(json.dumps(recorded("romio_strided_write")["default"]), "utf-8")
    monkeypatch.chdir(site)
    assert main(["diagnose", "report.json", "--model", "site.model", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    prediction = document["prediction"]
    assert set(prediction["settings"]) <= set(prediction["decided"])
    decided = dict(line.rsplit(" ", 1) for line in prediction["decided"])
    assert "hint romio_cb_write" in decided and "layout lustre stripe_count" in decided
    for line in document["settings"]:
        target, _, value = line.rpartition(" ")
        assert decided.get(target, value) == value
