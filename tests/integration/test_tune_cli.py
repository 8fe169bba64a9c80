"""`stripewise tune` from the command line on small programs: users' mistakes, interruptions, what is printed."""

import errno
import io
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stripewise.desk import carrying
from stripewise.desk.cli import main

STACK = """
name = "own"
[[parameter]]
name = "x"
kind = "ordinal"
values = [1, 2, 4, 8]
carrier = "env"
key = "X"
"""
RATE = 'echo "rate $((100 + 10 * ${X:-1}))"\n'
OPTIONS = ["--sampler", "random", "--objective", "regex:rate (\\S+)", "--direction", "maximize"]


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("STRIPEWISE_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(STACK)


def program(text=RATE, name="app"):
    path = Path(name)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"./{name}"


def tune(*options, command):
    return main(["tune", "--stack", "own.toml", *OPTIONS, *options, "--", command])


def experiments(capfd):
    capfd.readouterr()
    assert main(["list", "--json"]) == 0
    return json.loads(capfd.readouterr().out)


def test_another_unit_is_no_gain(capfd):
    slower = program('[ "${X:-1}" = 1 ] && echo "rate 1.1 GB/s" || echo "rate 950 MB/s"\n')
    assert main(["tune", "--parameter", "env:X=1,8", *OPTIONS, "--budget", "14", "--json", "--", slower]) == 0
    assert json.loads(capfd.readouterr().out)["best"]["value"] == 1.1


@pytest.mark.parametrize("budget", [1, 2, 3, 8])
def test_the_smallest_budgets_end_with_a_result(budget, capfd):
    assert tune("--budget", str(budget), "--json", command=program()) == 0
    output = capfd.readouterr()
    result = json.loads(output.out)
    assert result["runs"] <= budget and not result["confirmed"]
    assert output.err.index("worst case") < output.err.index("0  warm-up")
    assert main(["show", result["experiment"]]) == 0


@pytest.mark.parametrize("limit", [("--budget", "1"), ("--time", "0.001")])
def test_a_budget_that_ends_before_the_first_success_is_an_error_in_one_line(limit, capfd):
    assert tune(*limit, command=program("exit 3\n")) == 1
    errors = capfd.readouterr().err
    assert "before the program has run once" in errors and "Traceback" not in errors


def test_a_program_that_fails_every_second_run_loses_no_experiment(capfd):
    command = program("n=$(cat n || echo 0); echo $((n + 1)) > n; [ $((n % 2)) = 1 ] || exit 7\n" + RATE)
    assert tune("--budget", "30", "--json", command=command) == 0
    result = json.loads(capfd.readouterr().out)
    assert result["runs"] <= 30
    assert result["failures"][0]["reason"].startswith("exit code 7")
    assert "inf" not in result["verdict"] and "nan" not in result["verdict"]


def test_a_damaged_report_fails_no_experiment(capfd):
    damaged = '{"format": "stripewise-report", "job": [], "files": 3}'
    command = program(f"echo '{damaged}' > \"$STRIPEWISE_RUN_FOLDER/report.json\"\n" + RATE)
    assert tune("--budget", "4", "--json", command=command) == 0
    assert json.loads(capfd.readouterr().out)["default"]["value"] == 110


def test_a_command_that_is_not_there_leaves_no_experiment_behind(capfd):
    assert tune(command="./nowhere") == 2
    assert tune("--runner", "cloud", command="./nowhere") == 2
    assert experiments(capfd) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whatever_ends_it_says_how_to_go_on_and_that_works_from_anywhere(number, tmp_path, capfd):
    (tmp_path / "work").mkdir()
    os.chdir(tmp_path / "work")
    Path("own.toml").write_text(STACK)
    command = program("sleep 0.2\n" + RATE)
    words = [sys.executable, "-m", "stripewise", "tune", "--stack", "own.toml", *OPTIONS, "--budget", "20"]
    process = subprocess.Popen(
        [*words, "--scratch", "runs", "--", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 200
    while not (listed := experiments(capfd)) or listed[0]["runs"] < 3:
        assert time.monotonic() < deadline, "it has not come to its third run"
        time.sleep(0.3)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    (identifier, state) = (listed[0]["id"], experiments(capfd)[0]["state"])
    assert f"stripewise resume {identifier}" in output and state == "stopped"
    if number != signal.SIGINT:
        return  # a stopped experiment goes on in one way
    os.chdir("/")
    assert main(["resume", identifier, "--json", "--report", str(tmp_path / "r.html")]) == 0
    output = capfd.readouterr()
    result = json.loads(output.out)
    assert result["confirmed"] and result["best"]["configuration"] == {"x": 8}
    # Ratios to the default need its value from before the interruption.
    assert "x1.64" in output.err
    assert len(list((tmp_path / "work" / "runs" / identifier).iterdir())) >= result["runs"]
    assert (tmp_path / "r.html").stat().st_size > 100_000


def test_every_launch_reads_the_same_input_also_after_resume(tmp_path, capfd):
    deck = tmp_path / "deck"
    deck.write_text("run 10\n")
    command = program("cat > read.$STRIPEWISE_RUN; sleep 0.2\n" + RATE)
    words = [sys.executable, "-m", "stripewise", "tune", "--stack", "own.toml", *OPTIONS, "--budget", "12"]
    with deck.open() as stream:
        process = subprocess.Popen([*words, "--", command], stdin=stream, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 200
    while not (listed := experiments(capfd)) or listed[0]["runs"] < 3:
        assert time.monotonic() < deadline, "it has not come to its third run"
        time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert "7 bytes" in process.communicate(timeout=60)[1]
    deck.write_text("changed later\n")
    assert main(["resume", listed[0]["id"], "--json"]) == 0
    result = json.loads(capfd.readouterr().out)
    assert {path.read_text() for path in tmp_path.glob("read.*")} == {"run 10\n"}
    assert len(list(tmp_path.glob("read.*"))) >= result["runs"] > 3


def test_a_finished_experiment_can_still_be_reported_by_resume(tmp_path, capfd):
    assert tune("--budget", "2", command=program()) == 0
    identifier = experiments(capfd)[0]["id"]
    assert main(["resume", identifier, "--report", "late.html"]) == 0
    assert Path("late.html").exists()


def test_settings_that_another_user_found_are_used_only_with_consent(capfd, monkeypatch):
    """Whoever shares the store could have put any variable there."""
    assert tune("--budget", "2", command=program()) == 0
    identifier = experiments(capfd)[0]["id"]
    started = []
    monkeypatch.setattr("stripewise.desk.cli.plan_run.take_place", lambda words: started.append(words[-1]))
    assert main(["run", identifier, "--", "true"]) == 0
    monkeypatch.setattr("stripewise.engine.process.user_name", lambda: "ada")
    assert main(["run", identifier, "--", "false"]) == 2
    refused = " ".join(capfd.readouterr().err.split())
    assert "its settings, variables and arguments would act on a program of ada" in refused and "--yes" in refused
    assert main(["run", identifier, "--yes", "--", "true"]) == 0
    assert main(["export", identifier, "--to", "plan"]) == 0, "it is a text to read"
    assert started == ["true", "true"]


def test_a_folder_for_a_report_is_refused_before_the_first_run(tmp_path, capfd):
    assert tune("--report", str(tmp_path), command=program()) == 2
    assert "is a folder" in capfd.readouterr().err
    assert experiments(capfd) == []


def test_an_objective_on_the_command_line_drops_the_files_direction(capfd):
    Path("e.toml").write_text(
        'stacks = ["own.toml"]\ncommand = ["./app"]\nsampler = "random"\nbudget = 2\n'
        '[objective]\nname = "regex:rate (\\\\S+)"\ndirection = "maximize"\n'
    )
    program()
    assert main(["tune", "e.toml", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["objective"]["direction"] == "maximize"
    assert main(["tune", "e.toml", "--objective", "elapsed", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["objective"] == {"name": "elapsed", "direction": "minimize", "unit": "s"}


def test_names_in_any_language_and_markup_are_printed_as_they_are(capfd):
    name = "größe [bold]x[/] :smile: ☃"
    assert tune("--budget", "2", "--name", name, command=program(name="prögram ☃")) == 0
    assert experiments(capfd)[0]["name"] == name
    assert main(["list"]) == 0
    assert name in capfd.readouterr().out


def test_a_terminal_that_knows_no_such_letters_gets_escapes(monkeypatch, capfd):
    assert tune("--budget", "2", "--name", "größe", command=program()) == 0
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", narrow)
    assert main(["list"]) == 0
    narrow.flush()
    assert b"gr\\xf6\\xdfe" in narrow.buffer.getvalue()


def test_stop_and_delete_speak_json(capfd):
    assert tune("--budget", "2", command=program()) == 0
    identifier = experiments(capfd)[0]["id"]
    assert main(["experiment", "stop", identifier, "--json"]) == 2
    assert main(["experiment", "delete", identifier, "--yes", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"id": identifier, "deleted": True}


def test_a_fault_of_ours_is_one_line_too(monkeypatch, capfd):
    monkeypatch.setattr("stripewise.desk.cli.manage.desk_of", lambda *where: {}["no such key"])
    monkeypatch.delenv("STRIPEWISE_DEBUG", raising=False)
    assert main(["list"]) == 1
    errors = capfd.readouterr().err
    assert "unexpected KeyError" in errors and "STRIPEWISE_DEBUG" in errors and "Traceback" not in errors
    monkeypatch.setenv("STRIPEWISE_DEBUG", "1")
    with pytest.raises(KeyError):
        main(["list"])


def test_what_may_not_be_used_is_no_fault_of_ours(monkeypatch, capfd):
    def refuse(*where):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/home/ada/log")

    monkeypatch.setattr("stripewise.desk.cli.manage.desk_of", refuse)
    assert main(["list"]) == 2
    told = "cannot use /home/ada/log: Permission denied; check who may, and that its file system works"
    assert capfd.readouterr().err.strip() == f"stripewise: {told}"
    monkeypatch.setattr("stripewise.desk.cli.manage.desk_of", lambda *where: Path("~no.such.user").expanduser())
    assert main(["list"]) == 2 and "home folder of a user is not known here" in capfd.readouterr().err


def test_a_smaller_case_is_searched_first_and_the_whole_starts_from_it(capfd):
    whole, small = program('echo "rate $((100 + 10 * ${X:-1}))"\n'), program('echo "rate $((10 + ${X:-1}))"\n', "small")
    options = ["--stack", "own.toml", *OPTIONS[2:], "--small", small, "--small-budget", "5", "--budget", "7"]
    assert main(["tune", *options, "--json", "--", whole]) == 0
    output = capfd.readouterr()
    assert "first the small case, 5 launches of: ./small" in output.err
    result = json.loads(output.out)
    (begun,) = result["warm_start"]
    assert begun["name"] == "app (small)"
    runs = {one["name"]: one["runs"] for one in experiments(capfd)}
    assert runs["app (small)"] == 5
    assert runs["app"] == result["runs"] <= 7


def test_a_smaller_case_that_was_interrupted_is_followed_by_the_whole_when_it_is_resumed(capfd, monkeypatch):
    whole, small = program('echo "rate $((100 + 10 * ${X:-1}))"\n'), program('echo "rate $((10 + ${X:-1}))"\n', "small")
    options = ["--stack", "own.toml", *OPTIONS[2:], "--small", small, "--small-budget", "5", "--budget", "7"]

    def interrupted(session):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("stripewise.desk.carrying.Session.run", interrupted)
        assert main(["tune", *options, "--", whole]) == 130
    (begun,) = experiments(capfd)
    assert main(["resume", begun["id"], "--json"]) == 0
    output = capfd.readouterr()
    result = json.loads(output.out)
    assert [one["name"] for one in result["warm_start"]] == ["app (small)"]
    assert {one["name"] for one in experiments(capfd)} == {"app", "app (small)"}
    # Once more: what has ended is shown again, and nothing is begun twice.
    assert main(["resume", begun["id"], "--json"]) == 0
    output = capfd.readouterr()
    assert json.loads(output.out)["runs"] == result["runs"]
    assert "its full size is experiment" in output.err
    assert len(experiments(capfd)) == 2


def test_a_kill_between_the_two_leaves_no_second_experiment_at_full_size(capfd, monkeypatch):
    whole, small = program('echo "rate $((100 + 10 * ${X:-1}))"\n'), program('echo "rate $((10 + ${X:-1}))"\n', "small")
    options = ["--stack", "own.toml", *OPTIONS[2:], "--small", small, "--small-budget", "4", "--budget", "4"]
    created = carrying._create_experiment
    made = []

    def killed(*given):
        made.append(created(*given))
        if len(made) == 2:
            raise KeyboardInterrupt
        return made[-1]

    with monkeypatch.context() as patched:
        patched.setattr(carrying, "_create_experiment", killed)
        assert main(["tune", *options, "--", whole]) == 130
    searched, left = made
    assert {one["id"]: one["state"] for one in experiments(capfd)} == {searched: "finished", left: "created"}
    assert main(["resume", searched, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["experiment"] == left
    assert {one["id"] for one in experiments(capfd)} == {searched, left}


def test_the_full_size_after_another_user_s_smaller_case_needs_consent(capfd, monkeypatch):
    whole, small = program('touch ran; echo "rate 1"\n'), program('echo "rate 1"\n', "small")
    options = ["--stack", "own.toml", *OPTIONS[2:], "--small", small, "--small-budget", "4", "--budget", "4"]

    def interrupted(*_given):
        raise KeyboardInterrupt

    monkeypatch.setenv("LOGNAME", "ada")
    with monkeypatch.context() as patched:
        patched.setattr("stripewise.desk.carrying.after_small", interrupted)
        main(["tune", *options, "--", whole])
    (searched,) = experiments(capfd)
    assert searched["state"] == "finished"
    monkeypatch.setenv("LOGNAME", "eve")
    assert main(["resume", searched["id"], "--json"]) == 2
    assert "is by ada" in capfd.readouterr().err and not Path("ran").exists()
    assert main(["resume", searched["id"], "--json", "--yes"]) == 0
    assert Path("ran").exists()


def test_a_dry_run_checks_the_smaller_case(capfd):
    options = ["--stack", "own.toml", *OPTIONS[2:], "--dry-run", "--budget", "7"]
    assert main(["tune", *options, "--small", program("exit 1", "small"), "--", program()]) == 0
    said = capfd.readouterr()
    assert "first the small case, 20 launches of: ./small" in said.err
    assert "then at full size, at most 7 launches of: " in said.out
    assert main(["tune", *options, "--small", "'", "--", program()]) == 2
    assert "not a command" in capfd.readouterr().err


def test_a_smaller_case_of_nothing_is_refused(capfd):
    assert tune("--small-budget", "5", command=program()) == 2
    assert "--small COMMAND" in capfd.readouterr().err
    assert tune("--small", "'", command=program()) == 2
    assert "not a command" in capfd.readouterr().err
    assert experiments(capfd) == []
