"""The command line itself: what it loads, and the commands that its messages name."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import stripewise
from stripewise.catalogue.configuration import Configuration
from stripewise.desk.cli import main, output
from stripewise.desk.cli.commands import COMMANDS, GROUPS, app
from stripewise.desk.cli.manage import print_runs
from stripewise.desk.cli.output import number
from stripewise.desk.cli.result import format_interval
from stripewise.output.experiment_view import ExperimentView
from stripewise.output.run_files import write_t4
from stripewise.requests.experiment import Experiment
from stripewise.result import Interval, Result
from stripewise.store.opening import open_store
from stripewise.trial import Phase, Role, Run, State, Trial
from tests.unit.finished_experiment import finished

SLOW = ("scipy", "sklearn", "lightgbm", "plotly", "sqlalchemy", "pandas", "stripewise.engine", "stripewise.catalogue")


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("STRIPEWISE_STORE", raising=False)


@pytest.mark.parametrize("statement", ["import stripewise", "from stripewise.desk.cli import main; main(['--help'])"])
def test_nothing_slow_is_loaded_before_it_is_needed(statement):
    code = f"import sys; {statement}; print(*[name for name in {SLOW} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.split() == []


def test_the_first_line_of_a_dry_run_needs_few_modules():
    """It took as long as the rest of the dry run: a search was loaded, and what scipy computes with."""
    code = (
        "import sys; from stripewise.desk.cli import main; code = main(['tune', '--dry-run', '--', 'true'])\n"
        "own = [name for name in sys.modules if name.partition('.')[0] == 'stripewise']\n"
        "print(code, len(own), 'scipy.special' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    code, own, special = done.stdout.splitlines()[-1].split()
    assert code == "2"
    assert int(own) <= 148
    assert special == "False"


def test_no_module_loads_what_is_slow_and_seldom_needed():
    """The service and its children took twice the time and the memory to start: few requests need scikit-learn."""
    slow = re.compile(
        r"^(?:from|import) (?:sklearn|lightgbm|pandas|scipy\.(?:stats|optimize|spatial|cluster|signal))", re.M
    )
    source = Path(stripewise.__file__).parent
    assert [path.name for path in source.rglob("*.py") if slow.search(path.read_text())] == []


def test_a_group_alone_shows_its_help(capfd):
    assert main(["site"]) == 2
    assert capfd.readouterr().err.startswith("Usage: stripewise site [OPTIONS] COMMAND [ARGS]...\n\n  Measure a site")


def test_the_summary_of_each_command_is_the_first_sentence_of_its_help():
    root = typer.main.get_command(app)
    for group in (root, *(root.commands[name] for name in GROUPS)):
        own = [name for name in group.commands if not (group is root and name in GROUPS)]
        assert own == list(COMMANDS[group.name])
        for name in own:
            command = group.commands[name]
            assert command.name == name
            assert " ".join(command.help.split("\n\n")[0].split()) == COMMANDS[group.name][name][1]


def test_help_shows_at_most_a_dozen_commands_in_the_order_of_need(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    shown = re.search(r"Commands:\n(.*?)\n\n", text, re.S)[1]
    names = re.findall(r"^  (\w+)  ", shown, re.M)
    assert len(names) <= 12 and names[:2] == ["tune", "run"] and names[-1] == "doctor"
    assert len(text.splitlines()) <= 40
    assert main(["site", "table", "--help"]) == 0
    assert "import" in capsys.readouterr().out


@pytest.mark.parametrize(("group", "name"), [(group, name) for group in GROUPS for name in COMMANDS[group]])
def test_a_command_without_its_group_is_told_where_it_is(group, name, capsys):
    assert main([name, "--help"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"write 'stripewise {group} {name}'" in " ".join(printed.err.split())


def test_types_in_help_are_plain_words(capsys):
    for path in (["tune"], ["site", "train"], ["serve"], ["list"], ["site", "table", "import"]):
        assert main([*path, "--help"]) == 0
        assert not re.search(r"<\w+|\[x[<>]|INTEGER|BOOLEAN", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["tune", "--confirm"], "tune"),
        (["tune", "--budgt", "3"], "tune"),
        (["site", "profile", "--out"], "site profile"),
    ],
)
def test_a_wrong_option_names_the_help_of_its_command(words, command, capfd):
    assert main(words) == 2
    assert f"see stripewise {command} --help" in capfd.readouterr().err


@pytest.mark.parametrize("mode", [["--array", "2"], ["--merge", "folder"]])
def test_a_mode_of_this_machine_is_no_matter_of_a_service(mode, capfd):
    assert main(["site", "profile", "quick", *mode, "--server", "unix:/nowhere"]) == 2
    assert f"{mode[0]} works on this machine alone" in capfd.readouterr().err


def test_a_mistyped_command_is_told_with_the_nearest(capfd):
    assert main(["resme"]) == 2
    assert "Did you mean 'resume'" in capfd.readouterr().err


@pytest.mark.parametrize(
    "message, complete",
    [
        ("stripewise resume 0123abcd goes on", "stripewise resume 0123abcd --store S goes on"),
        ("continue with: stripewise resume", "continue with: stripewise resume --store S"),
        ("see: stripewise list", "see: stripewise list --store S"),
        ("stripewise run 0123abcd -- COMMAND", "stripewise run 0123abcd --store S -- COMMAND"),
        ("stripewise export ID --to plan", "stripewise export ID --store S --to plan"),
        (
            "stop it with: stripewise experiment stop 0123abcd; or",
            "stop it with: stripewise experiment stop 0123abcd --store S; or",
        ),
        ("stripewise run stripewise.plan -- COMMAND", "stripewise run stripewise.plan -- COMMAND"),
        ("build it with stripewise site native build", "build it with stripewise site native build"),
    ],
)
def test_commands_in_messages_repeat_the_store(message, complete, monkeypatch):
    assert output.complete_commands(message) == message
    monkeypatch.setattr(output, "_given", {"store": "S"})
    assert output.complete_commands(message) == complete


def test_a_store_is_repeated_quoted_and_without_its_password(monkeypatch):
    monkeypatch.setattr(output, "_given", {"store": "sqlite:////data/my runs.db"})
    assert output.complete_commands("stripewise list") == "stripewise list --store 'sqlite:////data/my runs.db'"
    monkeypatch.setattr(output, "_given", {"store": "postgresql://ada:se@cret@host/runs"})
    assert output.complete_commands("stripewise list") == "stripewise list --store 'postgresql://ada:***@host/runs'"


def test_a_name_does_nothing_to_the_terminal(tmp_path, capfd):
    url = f"sqlite:///{tmp_path}/own.db"
    with open_store(url) as store:
        store.create(Experiment(name="[bold]two words", command=["true"]))
    assert main(["list", "--store", url]) == 0
    assert "[bold]two words" in capfd.readouterr().out
    for name in ("two\nlines", "\x1b[31m"):
        with pytest.raises(ValueError, match="control characters"):
            Experiment(name=name)


def test_errors_and_results_repeat_the_store_given_on_the_command_line_only(tmp_path, capfd, monkeypatch):
    url = f"sqlite:///{tmp_path}/own.db"
    with open_store(url) as store:
        identifier = store.create(Experiment(name="mine", command=["true"]))
    assert main(["show", identifier, "--store", url]) == 0
    assert f"stripewise resume {identifier} --store {url}" in capfd.readouterr().out
    assert main(["show", "zzzz", "--store", url]) == 2
    assert f"stripewise list --store {url}" in capfd.readouterr().err
    monkeypatch.setenv("STRIPEWISE_STORE", url)
    assert main(["show", identifier]) == 0
    assert "--store" not in capfd.readouterr().out


def test_runs_in_t4_are_as_its_schema_wants_them():
    """As ``results-schema.json`` 1.0.0 of T4 has it: required keys, their types, and words for what went wrong."""
    record, trials = finished()
    results = json.loads(write_t4(ExperimentView(record, trials)))["results"]
    words = {"timeout", "compile", "runtime", "correctness", "constraints", "correct"}
    assert len(results) == len({trial.number for trial in trials if any(run.state.ended for run in trial.runs)})
    for one in results:
        assert {"configuration", "times", "invalidity", "correctness"} <= one.keys()
        assert one["invalidity"] in words and isinstance(one["correctness"], float)
        assert isinstance(one["configuration"], dict) and isinstance(one["times"]["runtimes"], list)
        assert all(isinstance(each["value"], float) for each in one["measurements"])
    assert {one["invalidity"] for one in results} >= {"correct", "runtime", "timeout"}
    # The bundled benchmark is no configuration of the program.
    launch = Run(len(trials) * 99, 99, Phase.WARMUP, State.FINISHED, None, 1.0)
    more = Trial(99, Configuration({}), Role.CEILING, runs=(launch,))
    assert json.loads(write_t4(ExperimentView(record, [*trials, more])))["results"] == results


def test_runs_are_saved_by_the_ending_of_the_file(tmp_path, capfd):
    url = f"sqlite:///{tmp_path}/own.db"
    with open_store(url) as store:
        identifier = store.create(Experiment(name="mine", command=["true"]))
    for ending, begins in ((".csv", "run,trial,role"), (".t4.json", '{\n "schema_version": "1.0.0"')):
        file = tmp_path / f"runs{ending}"
        assert main(["show", identifier, "--save-runs", str(file), "--store", url]) == 0
        assert file.read_text().startswith(begins)
    assert main(["show", identifier, "--save-runs", "runs.txt", "--store", url]) == 2
    assert "end the name with .csv or .t4.json" in " ".join(capfd.readouterr().err.split())


def test_experiments_are_shown_side_by_side(tmp_path, capfd):
    url = f"sqlite:///{tmp_path}/own.db"
    with open_store(url) as store:
        found = [store.create(Experiment(name=name, command=["true"])) for name in ("first", "second")]
    assert main(["show", *found, "--store", url]) == 0
    assert capfd.readouterr().out.split("\n")[0].split() == ["first", found[0], "second", found[1]]
    assert main(["show", *found, "--runs", "--store", url]) == 2
    assert "--save-runs and --report are for one experiment" in " ".join(capfd.readouterr().err.split())


def test_an_export_without_a_name_is_refused_before_the_experiment_is_looked_for(capfd):
    assert main(["export", "zzzz", "--to", "hinst"]) == 2
    assert "did you mean hints? choose from" in capfd.readouterr().err


def test_use_and_undo_name_the_file_that_an_export_has_written(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("found.plan").write_text("stripewise-plan 1\nhint romio_cb_write disable\n")
    assert main(["export", "found.plan", "--to", "hints", "--output", "my.hints"]) == 0
    said = capfd.readouterr().err
    assert 'use: export ROMIO_HINTS="$PWD/my.hints"' in said
    assert "rm -f my.hints" in said
    assert "stripewise.hints" not in said


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.01234567, "0.01235"), (628.54, "628.5"), (12470.2, "12,470"), (3e9, "3.000e+09")],
)
def test_numbers_are_written_as_people_read_them(value: float | None, text: str) -> None:
    assert number(value) == text


def test_intervals_are_written_like_numbers() -> None:
    assert format_interval(Interval(7045.2, 11920.0)) == "7,045 to 11,920"
    assert format_interval(None) == ""


def test_nothing_is_deleted_where_nobody_answers(tmp_path, capfd, monkeypatch):
    url = f"sqlite:///{tmp_path}/own.db"
    with open_store(url) as store:
        identifier = store.create(Experiment(name="mine", command=["true"]))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["experiment", "delete", identifier, "--store", url, "--json"]) == 2
    told = capfd.readouterr()
    assert told.out == "" and "nobody answered, so nothing is deleted; add --yes" in told.err
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["experiment", "delete", identifier, "--store", url, "--json"]) == 0
    assert '"deleted": true' in capfd.readouterr().out


def test_an_experiment_is_annotated_and_listed_with_its_tags(tmp_path, capfd):
    url = f"sqlite:///{tmp_path}/own.db"
    with open_store(url) as store:
        identifier = store.create(Experiment(name="mine", command=["true"]))
    annotate = ["experiment", "annotate", identifier, "--store", url]
    assert main([*annotate, "--tag", "night", "--tag", "lustre", "--remark", "before the firmware"]) == 0
    assert main([*annotate, "--untag", "lustre"]) == 0
    assert main([*annotate, "--untag", "lustre"]) == 2
    assert "has no tag 'lustre'; its tags: night" in capfd.readouterr().err
    assert main(["list", "--store", url]) == 0
    assert "night" in capfd.readouterr().out
    assert main([*annotate, "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {
        "id": identifier, "tags": ["night"], "remark": "before the firmware",
    }  # fmt: skip


def test_a_cut_run_is_listed_with_its_configuration_and_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    cut = Run(7, 3, Phase.SEARCH, State.PRUNED, 9.0, elapsed=9.0, reason="cut after 9 s: 3 times as long as the best")
    print_runs((Trial(3, Configuration({"cb_nodes": 4}), runs=(cut,)),), Result())
    assert "cb_nodes=4 (cut after 9 s: 3 times as long as the best)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("list >&-", 0, ""),
        ("list <&- >&- 2>&-", 0, ""),
        ("list > /dev/full", 1, "stripewise: cannot write the output or a file: No space left on device; make room"),
        ("--help > /dev/full", 1, "stripewise: cannot write the output or a file: No space left on device; make room"),
        ("run -q $'./\\xff.plan' -- sh -c '! test -e /proc/self/fd/0 && ! test -e /proc/self/fd/2' 2>&- <&-", 0, ""),
        ("run -q $'./\\xff.plan' -- true", 0, ""),
        ("run $'./\\xff.plan' -- sh -c 'exit 7' 2>&-", 7, ""),
        ("run --mode observe -- sh -c 'test -e /proc/self/fd/1 || exit 7' >&- 2>&-", 7, ""),
    ],
)
def test_streams_that_are_closed_or_full_are_no_fault(tmp_path, words, code, said):
    Path(f"{tmp_path}/\udcff.plan").write_text("stripewise-plan 1\n")
    line = ["bash", "-c", f"{sys.executable} -m stripewise {words}"]
    done = subprocess.run(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (code, said)
