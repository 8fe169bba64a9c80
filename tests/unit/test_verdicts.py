"""The first line of what is printed: whether there is anything to gain, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.configuration import Configuration
from stripewise.desk.cli.main import main
from stripewise.diagnose.site import diagnose
from stripewise.engine.conclusion import conclusion_of
from stripewise.engine.confirmation import Decision, Pair
from stripewise.engine.protocol import find_less_work
from stripewise.engine.session import explain_objective
from stripewise.observe.activity import Activity
from stripewise.observe.from_report import activity_of
from stripewise.observe.objectives import objective_of
from stripewise.observe.report import parse_report
from stripewise.output.summaries import Default, FiveNumbers, SettingGain, SummaryReport
from stripewise.requests.experiment import Confirmation, Experiment, ObjectiveEntry
from stripewise.result import Interval
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.unit.finished_experiment import finished

REPORTS = Path(__file__).parents[1] / "fixtures" / "reports"
REPORT = json.loads((REPORTS / "romio_strided_write.json").read_text("utf-8"))["default"]


def of_length(share: float) -> Activity:
    """The activity of a run that its I/O has a share of."""
    activity = activity_of(parse_report(REPORT), "report.json")
    assert activity.io_time
    return activity.model_copy(update={"job": activity.job.model_copy(update={"elapsed": activity.io_time / share})})


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0002, "I/O is 0.02% of this run: nothing to gain"),
        (0.03, "I/O is 3% of this run: little to gain; "),
        (0.63, "I/O is 63% of this run; "),
    ],
)
def test_a_diagnosis_begins_with_what_is_to_be_gained(share: float, said: str) -> None:
    found = diagnose(of_length(share))
    assert found.verdict.startswith(said) and found.as_json()["verdict"] == found.verdict
    if found.problems and share > 0.01:
        assert found.problems[0].kind.title in found.verdict


def test_an_experiment_can_be_diagnosed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path / 's.db'}"
    with open_store(url) as store:
        identifier = store.create(Experiment(name="mine", command=["true"]))
        claim = store.claim(identifier, "ada@host:1", 60.0)
        for number, value in enumerate((3.0, 1.0, 2.0)):
            trial = Trial(0, Configuration({}), Role.DEFAULT) if not number else None
            store.plan(identifier, claim, trial, Run(number, 0, Phase.SEARCH))
            ended = Run(number, 0, Phase.SEARCH, State.FINISHED, value, 2.0, 1.7e9, facts={"report": REPORT})
            store.accept(identifier, claim, ended)
        bare = store.create(Experiment(name="bare", command=["true"]))
    assert main(["diagnose", identifier, "--store", url]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(("I/O is", "How much"))
    record, _ = finished(confirmed=True, speedup=3.28)
    with open_store(url) as store:
        store.update(identifier, claim=claim, result=record.result)
    assert main(["diagnose", identifier, "--store", url]) == 0
    assert "has proven settings that are 3.28 times as fast as this default" in capsys.readouterr().err
    assert main(["diagnose", identifier[:6], "--store", url, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == f"run 2 of experiment {identifier}", "the median"
    assert main(["diagnose", bare, "--store", url]) == 2
    assert "has no report of a run of the default" in capsys.readouterr().err


def summary(gain: float = 0.0, of: int = 4, **known: Any) -> SummaryReport:
    pair = tuple(FiveNumbers({}, {"size": size}, (1.0,) * 5, 1) for size in (1024, 2048))
    brought = SettingGain(gain, Interval(gain * 0.9, gain * 1.1)) if gain else None
    known = {"changed": {"size": 262144}, "gain": brought, **known}
    best = Default(
        {}, {"size": 262144, "idle": None}, min(of, 4), of, 0.8, 0.7, 0.5, known.pop("declared", None), **known
    )
    return SummaryReport("write", pair, None, (), (), (best,))


BEST = "best single default for writes: size=256K"


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (summary(4.0), f"{BEST}, 4.00 times today's (3.60 to 4.40)"),
        (summary(1.05), f"{BEST}, 1.05 times today's (0.95 to 1.16, not proven)"),
        (summary(changed={}), "no single default for writes is measurably better than today's settings"),
        (
            summary(changed={}, alone=True),
            "only today's settings were measured in all workloads for writes, so let a model prescribe",
        ),
        (summary(), f"{BEST}; it reaches 80% of the best, at worst 50%"),
        (summary(of=7), f"{BEST} (measured in 4 of 7 workloads); it reaches 80% of the best, at worst 50%"),
        # One workload has one best: that it reaches itself says nothing.
        (summary(of=1), BEST),
        (summary(of=1, declared=0.5), f"{BEST}; without repeats, nothing tells how far it is from today's"),
        (
            summary(of=1, changed={"size": 262144, "mode": "b"}, untold=("mode",)),
            f"{BEST}. The measurements do not tell whether mode would help too",
        ),
        (
            summary(of=1, untold=("size",)),
            f"{BEST}. The measurements do not tell whether these settings help",
        ),
        (
            SummaryReport("all", summary().summaries[:1], None, (), (), ()),
            "nothing to compare: no workload was measured with two configurations",
        ),
    ],
)
def test_a_summary_begins_with_the_best_default(report: SummaryReport, said: str) -> None:
    assert report.verdict({"size": "B"}) == said


@pytest.mark.parametrize(
    ("default", "found", "said"),
    [
        ((0, 60 * 2**20), (0, 0), "wrote 0 B, by default 60 MiB: check that it did all its work."),
        ((2**30, 2**20), (2**20, 2**20), "read 1 MiB, by default 1 GiB: check that it did all its work."),
        ((2**30, 2**20), (2**28, 2**20), ""),  # as a cache of chunks does
        ((0, 0), (0, 0), ""),
        (None, (0, 0), ""),
    ],
)
def test_a_program_that_did_less_is_not_called_faster_without_a_word(
    default: tuple[int, int] | None, found: tuple[int, int], said: str
) -> None:
    def run(moved: tuple[int, int] | None) -> Run:
        if moved is None:
            return Run(1, 0, Phase.CONFIRMATION)
        totals = {**REPORT["totals"], "bytes_read": moved[0], "bytes_written": moved[1]}
        return Run(1, 0, Phase.CONFIRMATION, facts={"report": {**REPORT, "totals": totals}})

    assert find_less_work([(run(default), run(found)), (run(default), None)]).endswith(said)
    assert find_less_work([(run(default), run(found))] * 3) == (
        f"With the settings found the program {said}" * bool(said)
    )
    assert find_less_work([]) == ""


def pairs_in(order: str, seconds: Callable[[str, str], float]) -> list[Pair]:
    """Pairs of runs, in this order of arms (d and c), whose time depends on the arm and on that of the run before."""
    made, before = [], "d"
    for number in range(len(order) // 2):
        runs = {}
        for place, arm in enumerate(order[2 * number : 2 * number + 2]):
            wobble = 1 + 0.01 * ((7 * number + place) % 5)
            value = seconds(arm, before) * wobble
            runs[arm], before = Run(2 * number + place, 0, Phase.CONFIRMATION, State.FINISHED, value=value), arm
        made.append(Pair(number, "default", runs["d"], runs["c"]))
    return made


@pytest.mark.parametrize(
    ("cost", "decision", "carried"),
    [
        (lambda arm, before: (2.0 if arm == "d" else 1.8) + 2.0 * (before == "c"), Decision.SHIFTED, True),
        # A gain stays, whatever is left behind, if runs are faster after their own kind, too.
        (lambda arm, before: (2.0 if arm == "d" else 1.0) + 0.5 * (before == "c"), Decision.PROVEN, True),
        (lambda arm, before: 2.0 if arm == "d" else 1.0, Decision.PROVEN, False),
    ],
)
def test_settings_that_leave_their_work_to_the_next_run_are_no_gain(cost: Any, decision: str, carried: bool) -> None:
    pairs = pairs_in("dccddcdcdccddcdcdcdccddc", cost)
    found = conclusion_of(pairs, objective_of(ObjectiveEntry()), Confirmation(pairs=12), 12)
    assert found is not None and found.decision is decision and (found.shift is not None) == carried
    assert decision == "proven" or found.more is None


@pytest.mark.parametrize(
    ("order", "decision"),
    [
        ("cdcdcdcdcdcdcdcd", Decision.NOT_PROVEN),
        ("dcdcdcdcdccdcdcd", Decision.NOT_PROVEN),  # the candidate follows itself, the default never
        ("dcdcdccddcdcdcdc", Decision.PROVEN),
    ],
)
def test_pairs_prove_nothing_before_each_arm_followed_itself(order: str, decision: str) -> None:
    pairs = pairs_in(order, lambda arm, _: 2.0 if arm == "d" else 1.0)
    found = conclusion_of(pairs, objective_of(ObjectiveEntry()), Confirmation(pairs=8), 8)
    assert found is not None and found.decision is decision and found.ordered == (decision == "proven")


def test_a_program_whose_processes_were_ended_is_not_called_faster_without_a_word() -> None:
    plain, left = (Run(1, 0, Phase.CONFIRMATION, facts=facts) for facts in ({}, {"behind": 2}))
    assert find_less_work([(plain, left), (plain, left), (plain, plain)]).endswith("their work is not in these times.")
    assert not find_less_work([(left, plain), (plain, left), (plain, plain)])
    assert not find_less_work([(left, left)] * 3)
    (said,) = explain_objective(objective_of(ObjectiveEntry()), left)
    assert said.startswith("2 processes were still running")
