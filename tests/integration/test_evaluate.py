"""Evaluations: the study's statistics by hand, a fair oracle, cases from a campaign, the command on a site."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stripewise.desk.cli.campaigns import _print_evaluated
from stripewise.desk.cli.main import main
from stripewise.documents import make_finite
from stripewise.engine.campaign.measured import evaluation, judge, pairs
from stripewise.errors import UserError
from stripewise.models.cases import CasePoints, EvaluationCase, cases_campaign, make_cases
from stripewise.models.registry import make_model
from stripewise.output.model_pages import evaluation_page
from stripewise.requests.campaign import Campaign
from stripewise.requests.campaign_points import Points
from stripewise.requests.objective import Objective
from tests.fixtures.campaigns import MIB, campaign

BANDWIDTH = Objective("bandwidth", "maximize", "MiB/s")
SITE = """
name = "tests"
runner = "sim:kay"
stacks = ["lustre"]
operations = ["write"]
repeats = 3
[[workload]]
name = "nodes"
values = [2, 4]
[[workload]]
name = "file_size"
values = ["4 GiB"]
[[tunable]]
name = "stripe_count"
values = [1, 4, 16]
operations = ["write"]
[[tunable]]
name = "transfer_size"
values = ["16 MiB", "64 MiB"]
"""


def made(**changes: Any) -> Campaign:
    known = {
        "name": "cases",
        "runner": "sim:kay",
        "stacks": ["lustre"],
        "operations": ["write", "read"],
        "repeats": 3,
        "workload": [
            {"name": "nodes", "values": [2, 4]},
            {"name": "ppn", "role": "processes_per_node", "values": [4]},
            {"name": "file_gib", "role": "file_size", "values": ["8 GiB"]},
        ],
        "tunable": [
            {"name": "stripe_count", "values": [1, 8], "operations": ["write"]},
            {"name": "stripe_size", "values": [MIB, 4 * MIB], "operations": ["write"]},
            {"name": "transfer_size", "values": [MIB, 16 * MIB]},
            {"name": "collective", "values": [False, True]},
        ],
    }
    return Campaign.model_validate({**known, **changes})


def case(points: Points, operation: str, before: int, after: int) -> EvaluationCase:
    every = points.of(operation)
    return EvaluationCase(every[before], every[after])


def test_the_study_s_statistics_by_hand() -> None:
    asked = made(operations=["write"])
    points = Points(asked)
    every = points.of("write")
    cases = [EvaluationCase(every[0], every[1]), EvaluationCase(every[2], every[1]), EvaluationCase(every[3], every[3])]
    values = {
        ("write", every[0].values): [10.0, 20.0, 30.0],
        ("write", every[1].values): [40.0, 40.0, 40.0],
        ("write", every[2].values): [50.0, 50.0, 50.0],
        ("write", every[3].values): [60.0, 60.0, 60.0],
    }
    found = evaluation(judge(cases, values, BANDWIDTH, asked), BANDWIDTH, asked)["write"]
    assert (found["cases"], found["improved"], found["not_improved"], found["unchanged"]) == (3, 1, 1, 1)
    assert found["improved_percent"] == pytest.approx(100 / 3)
    default, tuned = [20.0, 50.0, 60.0], [40.0, 40.0, 60.0]
    for name, numbers in (("default", default), ("tuned", tuned)):
        assert found[name] == {
            "mean": pytest.approx(np.mean(numbers)),
            "max": max(numbers),
            "min": min(numbers),
            "median": np.median(numbers),
            "standard_deviation": pytest.approx(np.std(numbers)),
            "variance": pytest.approx(np.var(numbers)),
        }
    assert found["overall_gain_percent"] == pytest.approx(100 * (140 / 130 - 1))
    assert found["oracle"]["mean"] == 60
    assert found["oracle_gain_percent"] == pytest.approx(100 * (180 / 130 - 1))
    assert found["improvable"] == 2
    assert found["improvable_improved"] == 1
    assert found["of_oracle"]["worst_percent"] == pytest.approx(100 * 40 / 60)
    (common,) = found["common"]
    assert common["selected"] == 2
    assert (common["improved"], common["not_improved"]) == (1, 1)
    assert common["settings"] == {
        name: every[1].values[name] for name in ("stripe_count", "stripe_size", "transfer_size", "collective")
    }


def test_times_are_better_when_smaller() -> None:
    asked = made(operations=["write"])
    every = Points(asked).of("write")
    elapsed = Objective("elapsed", "minimize", "s")
    values = {("write", every[0].values): [10.0] * 3, ("write", every[1].values): [5.0] * 3}
    found = evaluation(judge([EvaluationCase(every[0], every[1])], values, elapsed, asked), elapsed, asked)["write"]
    assert found["improved"] == 1
    assert found["overall_gain_percent"] == pytest.approx(100)
    assert found["oracle"]["mean"] == 5


@pytest.mark.parametrize(("before", "after", "speedup"), [(0.0, 5.0, np.inf), (5.0, 0.0, 0.0)])
def test_a_value_of_zero_does_not_end_an_evaluation(before: float, after: float, speedup: float) -> None:
    asked = made(operations=["write"])
    every = Points(asked).of("write")
    values = {("write", every[0].values): [before], ("write", every[1].values): [after]}
    found = evaluation(judge([EvaluationCase(every[0], every[1])], values, BANDWIDTH, asked), BANDWIDTH, asked)["write"]
    assert found["geometric_speedup"] == speedup
    assert found["of_oracle"]["harmonic_percent"] == 20 * after


def test_the_oracle_is_not_paid_for_luck() -> None:
    asked = made(operations=["write"])
    every = [p for p in Points(asked).of("write") if p.values["nodes"] == 2]
    rng = np.random.default_rng(0)
    oracles = []
    for _ in range(200):
        values = {("write", p.values): np.exp(0.3 * rng.normal(size=3)).tolist() for p in every}
        oracles.append(judge([EvaluationCase(every[0], every[0])], values, BANDWIDTH, asked)[0].oracle)
    # All settings are alike: the best of sixteen by its own mean would seem 30% better.
    assert np.mean(oracles) == pytest.approx(np.exp(0.3**2 / 2), abs=0.06)


def test_cases_without_a_result_are_left_out() -> None:
    asked = made(operations=["write"])
    every = Points(asked).of("write")
    values = {("write", every[0].values): [1.0]}
    assert judge([EvaluationCase(every[0], every[1])], values, BANDWIDTH, asked) == []
    with pytest.raises(UserError, match="no test case has a result"):
        evaluation([], BANDWIDTH, asked)


def trained() -> Any:
    return make_model("tree", {"max_depth": 14, "min_rows": 2}).fit(campaign(noise=0.02))


def test_cases_get_the_model_s_values_and_reads_keep_their_layout() -> None:
    asked, model = made(), trained()
    own = cases_campaign(asked, model, "0123456789")
    assert own.name == "cases-01234567"
    assert own.tunable[0].values == [1, 4, 8, 16]
    assert own.digest != asked.digest
    defaults = [point for operation in asked.operations for point in Points(asked).of(operation)]
    cases = make_cases(Points(own), defaults, model, eager=True)
    assert len(cases) == len(defaults)
    for one in cases:
        before, after = one.default.values, one.tuned.values
        assert before["nodes"] == after["nodes"]
        if one.default.operation == "read":
            assert (after["stripe_count"], after["stripe_size"]) == (before["stripe_count"], before["stripe_size"])
        else:
            assert after["stripe_count"] == 16
        assert after["collective"] is False
        assert after["transfer_size"] == 256 * MIB
        assert one.tuned.workload.transfer_size == 256 * MIB
    points = CasePoints(own, cases)
    assert {p.values for p in points.of("write")} == {
        p.values for one in cases if one.default.operation == "write" for p in (one.default, one.tuned)
    }
    assert len(points.all) == len({(p.operation, p.values) for p in points.all})


def test_what_cannot_be_evaluated_is_refused() -> None:
    model = trained()
    with pytest.raises(UserError, match="needs 3 or more"):
        cases_campaign(made(repeats=2), model, "0" * 8)
    with pytest.raises(UserError, match="sequential"):
        cases_campaign(made(design={"kind": "sequential", "size": 9}), model, "0" * 8)
    other = made(stacks=["romio"], tunable=[{"name": "cb_nodes", "values": [1, 2]}])
    with pytest.raises(UserError, match="tunes none of cb_nodes"):
        make_cases(Points(other), Points(other).of("write"), model)


def test_the_command_evaluates_on_a_simulated_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "campaign.toml").write_text(SITE, "utf-8")
    assert main(["site", "profile", "campaign.toml", "--out", "site"]) == 0
    assert main(["site", "train", "site", "--model", "tree", "--out", "site.model"]) == 0
    capsys.readouterr()
    words = [
        "site",
        "evaluate",
        "campaign.toml",
        "--model",
        "site.model",
        "--seed",
        "7",
        "--eager",
        "--report",
        "page.html",
    ]
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    table = found["operations"]["write"]
    assert found["simulated"] is True
    assert found["repeats"] == 3
    assert table["cases"] == 12
    assert table["improved"] >= 6
    assert table["overall_gain_percent"] > 20
    assert table["of_oracle"]["arithmetic_percent"] > 85
    assert len(found["pairs"]) == 12
    documented = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "prescribe.md").read_text("utf-8")
    for key in [*found, *table, *table["of_oracle"], *table["default"], *table["common"][0], *found["pairs"][0]]:
        assert f"`{key}`" in documented, f"{key} is undocumented"
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "Simulated: these runs were computed" in page
    assert 'data-figure="cases-write"' in page
    assert '"cases-write"' in page
    assert main(["site", "evaluate", "campaign.toml", "--model", "site.model"]) == 0
    assert "cases improved" in capsys.readouterr().out


def test_a_page_says_all_and_escapes_names() -> None:
    asked = made(operations=["write"])
    every = Points(asked).of("write")
    judged = judge(
        [EvaluationCase(every[0], every[1])],
        {("write", every[0].values): [1.0] * 3, ("write", every[1].values): [2.0] * 3},
        BANDWIDTH,
        asked,
    )
    document = {
        "campaign": "<script>",
        "model": {"name": "tree", "table": "t", "rows": 5},
        "simulated": False,
        "objective": {"name": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
        "repeats": 3,
        "cases": 1,
        "points": 2,
        "failed": 0,
        "left_out": 0,
        "decision_seconds": 0.1,
        "operations": evaluation(judged, BANDWIDTH, asked),
        "pairs": pairs(judged),
    }
    page = evaluation_page(document)
    assert "&lt;script&gt;" in page
    assert "Simulated" not in page.split("<script")[0]
    assert "overall gain +100.0%" in page


def test_an_answer_about_a_default_of_zero_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A service answers with null where JSON has no number."""
    asked = made(operations=["write"])
    every = Points(asked).of("write")
    values = {("write", every[0].values): [0.0] * 3, ("write", every[1].values): [2.0] * 3}
    judged = judge([EvaluationCase(every[0], every[1])], values, BANDWIDTH, asked)
    found = {
        "campaign": "c",
        "model": {"name": "tree", "table": "t", "rows": 5},
        "simulated": False,
        "objective": {"name": "bandwidth", "direction": "maximize", "unit": "MiB/s"},
        **dict.fromkeys(("repeats", "cases", "points", "failed", "left_out", "decision_seconds"), 0),
        "operations": evaluation(judged, BANDWIDTH, asked),
        "pairs": pairs(judged),
    }
    assert found["operations"]["write"]["overall_gain_percent"] == np.inf
    for document in (found, make_finite(found)):
        assert "geometric mean of the speed-ups -" in evaluation_page(document)
        _print_evaluated(document)
        assert "no gain can be stated" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, message",
    [
        (["none.toml", "--model", "m"], "none.toml"),
        (["quick", "--model", "missing.model"], "missing.model"),
        (["quick", "--model", "m", "--report", "no/such/page.html"], "does not exist"),
    ],
)
def test_mistakes_end_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["site", "evaluate", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
