"""``run`` with modes: what it demands, and what reaches the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from stripewise.cli.main import main
from stripewise.errors import UserError
from stripewise.runner.inject import Guidance, Program, inject
from stripewise.spec.parameter import Apply
from stripewise.spec.plan import Plan, Setting
from stripewise.spec.policy import Policy, PolicyStriping

LIBRARY, FOLDER = Path("/cache/libstripewise.so"), Path("/runs/3")
MPICH = Program(abi="mpich", io="romio")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--mode", "guess"], "there is no mode guess"),
        (["--mode", "apply"], "mode apply needs a plan or an experiment"),
        ([], "there is nothing to apply"),
        (["--mode", "predict"], "mode predict needs a model"),
        (["--mode", "online"], "mode online needs candidates"),
        (["--mode", "observe", "--model", "x.swm"], "mode observe uses no model"),
        (["--model", "x.swm", "--journal", "j"], "only mode online keeps a journal"),
        (["--model", "/nonexistent.swm"], "cannot read the model"),
        (["--model", "x.swm", "--workload", "large"], "--workload 'large' is not NAME=VALUE"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words, "--", "true"]) == 2
    assert complaint in capsys.readouterr().err.replace("\n", " ")


def test_mode_model_and_journal_reach_the_program() -> None:
    guidance = Guidance("online", Path("/m.swm"), Path("/j"))
    made = inject(Plan(), MPICH, LIBRARY, FOLDER, guidance)
    assert made.environment["STRIPEWISE_MODE"] == "online"
    assert made.environment["STRIPEWISE_MODEL"] == "/m.swm"
    assert made.environment["STRIPEWISE_JOURNAL"] == "/j"
    assert "STRIPEWISE_PLAN" not in made.environment


def test_words_and_what_the_site_allows_are_in_the_plan() -> None:
    policy = Policy(striping=PolicyStriping(composite=True, pooled=True))
    guidance = Guidance.under(policy, "predict", Path("/m.swm"))
    plan = Plan(workload=(("file_size", "64 GiB"),))
    made = inject(plan, MPICH, LIBRARY, FOLDER, guidance)
    read = Plan.parse(made.files["plan"], "plan")
    assert read.workload == (("file_size", "64 GiB"),)
    assert read.allow == ("composite", "pool")
    assert made.environment["STRIPEWISE_PLAN"] == "/runs/3/plan"
    laid = Plan((Setting(Apply.STRIPING, "stripe_count", "4", "lustre"),))
    applied = inject(laid, MPICH, LIBRARY, FOLDER, Guidance.under(policy))
    assert "allow pool" in applied.files["plan"] and applied.environment["STRIPEWISE_MODE"] == "apply"
    assert "allow" not in inject(laid, MPICH, LIBRARY, FOLDER).files["plan"]


@pytest.mark.parametrize("line", ["allow everything", "workload file_size", "workload  "])
def test_plans_with_wrong_lines_are_refused(line: str) -> None:
    with pytest.raises(UserError, match="line 2"):
        Plan.parse(f"stripewise-plan 1\n{line}\n", "plan")
