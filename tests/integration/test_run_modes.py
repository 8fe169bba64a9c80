"""``run`` with modes: what it demands, and what reaches the program."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.carriers import HINT, LAYOUT, Program, Setting
from stripewise.catalogue.plan import Plan
from stripewise.desk.cli.main import main
from stripewise.errors import UserError
from stripewise.formats import TUNABLE
from stripewise.models.artifact.content import Artifact, ArtifactInput, Member, Texts
from stripewise.models.artifact.content import InputValue as Choice
from stripewise.models.artifact.file import read_artifact, restrict_artifact, save_artifact
from stripewise.requests.policy import Policy, PolicyStriping
from stripewise.requests.site import site_allowances
from stripewise.runners.injection import Foreground, Guidance, Injection, inject
from tests.unit.reports import recorded

LIBRARY, FOLDER = Path("/cache/libstripewise.so"), Path("/runs/3")
MPICH = Program(abi="mpich", io="romio")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--mode", "guess"], "mode guess does not exist"),
        (["--mode", "apply"], "mode apply needs a plan or an experiment"),
        ([], "there is nothing to apply"),
        (["--mode", "predict"], "mode predict needs a model"),
        (["--mode", "online"], "mode online needs candidates"),
        (["--mode", "observe", "--model", "x.swm"], "mode observe uses no model"),
        (["--model", "x.swm", "--journal", "j"], "only the modes online and orders keep a journal"),
        (["--mode", "orders"], "mode orders needs a file of orders"),
        (["--mode", "observe", "--orders", "o"], "mode observe reads no orders"),
        (["--mode", "observe", "--settle"], "--settle belongs to orders"),
        (["x.plan", "--where"], "--where belongs to the mode observe"),
        (["x.plan", "--trace", "t.csv"], "--trace belongs to the mode observe"),
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
    guidance = Guidance("predict", Path("/m.swm"), allow=policy.allowances)
    plan = Plan(workload=(("file_size", "64 GiB"),))
    made = inject(plan, MPICH, LIBRARY, FOLDER, guidance)
    read = Plan.parse(made.files["plan"], "plan")
    assert read.workload == (("file_size", "64 GiB"),)
    assert read.allow == ("composite", "pool")
    assert made.environment["STRIPEWISE_PLAN"] == "/runs/3/plan"
    laid = Plan((Setting(LAYOUT, "stripe_count", "4", "lustre"),))
    applied = inject(laid, MPICH, LIBRARY, FOLDER, Guidance(allow=policy.allowances))
    assert "allow pool" in applied.files["plan"] and applied.environment["STRIPEWISE_MODE"] == "apply"
    assert "allow" not in inject(laid, MPICH, LIBRARY, FOLDER).files["plan"]
    hint = Plan((Setting(HINT, "romio_cb_write", "enable"),))
    assert "allow" not in inject(hint, MPICH, LIBRARY, FOLDER, Guidance(allow=policy.allowances)).files["plan"]


def test_without_a_site_file_as_much_is_allowed_as_by_one_that_says_nothing() -> None:
    assert site_allowances({}) == Policy().allowances == ("composite",)


def stripes(most: int | None) -> Policy:
    return Policy(striping=PolicyStriping(stripe_count=most))


def layouts() -> Artifact:
    """An artifact whose layouts are a number of stripes and a pool."""
    texts = Texts()
    counts = tuple(Choice(float(n), str(n)) for n in (1, 2, 4, 8))
    pools = tuple(Choice(float(texts.code(name)), name) for name in ("", "flash", "disk"))
    return Artifact(
        *("layouts", "bandwidth", "MiB/s", True),
        (
            ArtifactInput(
                "stripes", TUNABLE, "stripe_count", values=counts, default=1, carrier="layout", key="stripe_count"
            ),
            ArtifactInput(
                "pool", TUNABLE, categorical=True, values=pools, carrier="layout", layer="lustre", key="pool"
            ),
            ArtifactInput("cb_nodes", TUNABLE, "aggregators", values=counts, carrier="hint", key="cb_nodes"),
        ),
        (Member(()),),
        texts=texts,
    )


def test_a_models_layouts_keep_what_the_site_allows() -> None:
    made = layouts()
    assert restrict_artifact(Policy(), made) is made
    assert restrict_artifact(stripes(8), made) is made
    few = restrict_artifact(Policy(striping=PolicyStriping(stripe_count=4, pools=["disk"])), made).inputs
    assert [[value.spelling for value in entry.values] for entry in few] == [
        ["1", "2", "4"],
        ["", "disk"],
        ["1", "2", "4", "8"],
    ]
    # A folder's default beyond the limit is what files have anyway.
    one = restrict_artifact(stripes(1), made).inputs[0]
    assert [value.spelling for value in one.values] == ["1", "2"] and one.default == 1


@pytest.mark.parametrize(("most", "kept"), [(None, 4), (2, 2)])
def test_run_gives_the_runtime_a_model_within_the_sites_limits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int | None, kept: int
) -> None:
    given: list[Guidance] = []

    def prepared(*_: object, guidance: Guidance, **_others: object) -> None:
        given.append(guidance)
        raise UserError("enough", "for a test")

    save_artifact(layouts(), tmp_path / "site.swm")
    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    monkeypatch.setattr("stripewise.desk.cli.apply.load_policy", lambda: stripes(most))
    monkeypatch.setattr("stripewise.desk.cli.plan_run.prepare", prepared)
    assert main(["run", "--model", str(tmp_path / "site.swm"), "--", "true"]) == 2
    model = given[0].model
    assert model is not None and len(read_artifact(model).inputs[0].values) == kept
    assert (model == tmp_path / "site.swm") == (most is None)


@pytest.mark.parametrize(
    ("ends", "code", "observed"),
    [
        ("exit 3", 3, False),
        ("exit 3", 3, True),
        ("kill -USR1 $PPID; wait", 5, False),
        ("sleep 0.3; kill -USR1 $PPID; wait", 5, False),
    ],
)
def test_mode_online_says_at_the_end_what_it_did(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    ends: str,
    code: int,
    observed: bool,
) -> None:
    """The exit code is the program's, and signals reach it, also those that come as soon as it runs.

    A plan with a layout brings the observer as well, whose parts are merged before.
    """
    begin = subprocess.Popen

    def slowly(words: tuple[str, ...], **how: Any) -> subprocess.Popen[bytes]:
        child = begin(words, **how)
        time.sleep(0.1)
        return child

    def prepared(_plan: Plan, _command: list[str], folder: Path, **_: object) -> Foreground:
        report = recorded("romio_strided_write")["default"]
        candidates = [{"settings": "", "bandwidth": 4.0}, {"settings": "hint cb_nodes 1", "bandwidth": 2.0}]
        site = {"site": "/c.#", "phases": 4, "settled": True, "candidates": candidates}
        (tmp_path / "made.json").write_text(json.dumps({**report, "online": [site]}))
        script = f"trap 'exit 5' USR1; cp {tmp_path}/made.json {folder}/report.json; sleep 5 & {ends}"
        folder.mkdir(parents=True, exist_ok=True)
        return Foreground(("sh", "-c", script), Injection({}, {}, ()), (), observed)

    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    monkeypatch.setattr("stripewise.desk.cli.plan_run.prepare", prepared)
    monkeypatch.setattr("stripewise.runners.local.foreground.subprocess.Popen", slowly)
    (tmp_path / "my.plan").write_text("stripewise-plan 1\nhint cb_nodes 1\n")
    assert main(["run", str(tmp_path / "my.plan"), "--mode", "online", "--", "true"]) == code
    said = capsys.readouterr().err
    assert "writing /c.#, 4 phases: 1 candidate tried, and settled on the default (4 MiB/s)" in said
    assert "also tried: cb_nodes=1 (0.50 times the default's 4 MiB/s" in said


@pytest.mark.parametrize("quiet", [False, True])
def test_a_run_says_at_the_end_what_acted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], quiet: bool
) -> None:
    """By the report of the run alone, also for what a model has chosen."""
    (tmp_path / "made.json").write_text(json.dumps(recorded("romio_strided_write")["hint romio_cb_write disable"]))
    asked: list[str] = []

    def prepared(_plan: Plan, _command: list[str], folder: Path, **_: object) -> Foreground:
        folder.mkdir(parents=True, exist_ok=True)
        asked.append(f"cp {tmp_path}/made.json {folder}/report.json")
        injection = Injection({"STRIPEWISE_REPORT": str(folder / "report.json")}, {}, ())
        return Foreground(("sh", "-c", f"{asked[-1]}; exit 3"), injection, (), False)

    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    monkeypatch.setattr("stripewise.desk.cli.plan_run.prepare", prepared)
    if quiet:
        monkeypatch.setattr("stripewise.desk.cli.plan_run.take_place", end_test)
    (tmp_path / "my.plan").write_text("stripewise-plan 1\nhint romio_cb_write disable\nlayout lustre stripe_count 8\n")
    save_artifact(layouts(), tmp_path / "site.swm")
    for source in ([str(tmp_path / "my.plan")], ["--model", str(tmp_path / "site.swm"), "--mode", "predict"]):
        with pytest.raises(InPlace) if quiet else contextlib.nullcontext():
            assert main(["run", *source, *(["-q"] if quiet else []), "--", "true"]) == 3
        said = " ".join(capsys.readouterr().err.split())
        assert ("stripewise: romio_cb_write=disable: echoed, MPI_File_get_info returns disable" in said) is not quiet


class InPlace(BaseException):
    """The command has been put in the place of this process."""


def end_test(_words: object) -> None:
    raise InPlace


def test_run_shows_the_settings_of_each_group_of_files_and_leaves_no_older_report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def prepared(_plan: Plan, _command: list[str], folder: Path, **_: object) -> Foreground:
        (folder / "report.json.2").write_text("of the second program of an earlier run")
        return Foreground(("true",), Injection({}, {}, ()), (), True)

    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    monkeypatch.setattr("stripewise.desk.cli.plan_run.prepare", prepared)
    lines = ("file a.*", "hint cb_nodes 1", "file b.*", "hint cb_nodes 2", "hint romio_ds_read disable")
    (tmp_path / "my.plan").write_text("\n".join(("stripewise-plan 1", *lines, "")))
    assert main(["run", str(tmp_path / "my.plan"), "--", "true"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "stripewise: cb_nodes=1; files b.*: cb_nodes=2 romio_ds_read=disable" in said
    assert not list(tmp_path.glob("applied/*/report.json*"))


@pytest.mark.parametrize("observed", [False, True])
def test_a_run_beside_another_of_the_same_plan_has_files_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], observed: bool
) -> None:
    """The program holds the folder, also where nothing of stripewise is left, and a kill frees it."""
    folders: list[Path] = []

    def prepared(_plan: Plan, _command: list[str], folder: Path, **_: object) -> Foreground:
        folders.append(folder)
        return Foreground(("true",), Injection({}, {}, ()), (), True)

    monkeypatch.setenv("STRIPEWISE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("my.plan").write_text("stripewise-plan 1\nposix advice random\n")
    words = ("sh", "-c", "echo up; exec sleep 60")
    script = (
        "from stripewise.desk.cli import main, plan_run\n"
        "from stripewise.runners.injection import Foreground\n"
        "from stripewise.runners.injection import Injection\n"
        f"plan_run.prepare = lambda *_, **__: Foreground({words}, Injection({{}}, {{}}, ()), (), {observed})\n"
        "main(['run', 'my.plan', '--', 'true'])\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        assert other.stdout is not None and other.stdout.readline() == b"up\n"
        monkeypatch.setattr("stripewise.desk.cli.plan_run.prepare", prepared)
        assert main(["run", "my.plan", "--", "true"]) == 0
        said = capsys.readouterr().err.replace("\n", " ")
        assert "another run has these settings now" in said and "my.plan-2" in said
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()
    until = time.monotonic() + 60
    while folders[-1].name != "my.plan" and time.monotonic() < until:
        assert main(["run", "my.plan", "--", "true"]) == 0
    assert {folder.name for folder in folders} >= {"my.plan-2", "my.plan"}


@pytest.mark.parametrize("line", ["allow everything", "workload file_size", "workload  "])
def test_plans_with_wrong_lines_are_refused(line: str) -> None:
    with pytest.raises(UserError, match="line 2"):
        Plan.parse(f"stripewise-plan 1\n{line}\n", "plan")
