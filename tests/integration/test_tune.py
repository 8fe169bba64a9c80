"""`stripewise tune` on real MPI programs, from the command line to what is applied afterwards."""

import contextlib
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest

from stripewise.desk.cli.main import main
from stripewise.store.opening import open_store
from tests.integration.building import cache_home
from tests.integration.forked import finished, started

STRIPEWISE = [sys.executable, "-m", "stripewise"]


@pytest.fixture
def home(tmp_path, tmp_path_factory):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STRIPEWISE")}
    environment |= {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_STATE_HOME": str(tmp_path / "state")}
    return environment | {"XDG_CACHE_HOME": str(cache_home(tmp_path_factory))}


def stripewise(*words, env, check=True):
    done = finished(words, env)
    if check and done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def told(*words, env):
    """What a command prints that launches nothing: in this process, which has loaded everything already."""
    output = io.StringIO()
    with mock.patch.dict(os.environ, env, clear=True), contextlib.redirect_stdout(output):
        assert main(list(words)) == 0
    return output.getvalue()


def strided_write(mpi, kernel, file, *more):
    words = ["--api", "mpiio", "--write", "--collective", "--layout", "strided", "--piece", "1k", "--size", "1m"]
    return [*mpi.mpiexec(4), str(kernel(mpi)), *words, "--file", str(file), *more]


def test_tune_finds_proves_and_applies(mpich, kernel, home, tmp_path):
    file = tmp_path / "checkpoint"
    command = strided_write(mpich, kernel, file)
    report = tmp_path / "report.html"
    options = ["--budget", "12", "--objective", "io_time", "--seed", "1", "--report", str(report), "--json"]
    result = json.loads(stripewise("tune", *options, "--delete", str(file), "--", *command, env=home).stdout)

    assert result["simulated"] is False
    assert result["objective"] == {"name": "io_time", "direction": "minimize", "unit": "s"}
    assert result["reference"] is None
    assert result["runs"] <= 12
    assert result["default"]["value"] > 0 and result["default"]["runs"] >= 1
    assert set(result["settings"].values()) <= {
        *("requested", "echoed", "effective", "no_effect", "refused", "unprovable"),
    }
    assert result["workload"]["operation"] == "write"
    assert result["workload"]["nodes"] == 1 and result["workload"]["processes_per_node"] == 4
    assert "romio_cb_read" in result["left_out"]
    if result["confirmed"]:
        assert result["speedup"] > 1 and result["speedup_ci95"][0] > 1
    else:
        assert result["speedup"] == 1.0 and result["best"]["configuration"] == result["default"]["configuration"]
    page = report.read_text()
    assert "<html" in page and "http://" not in re.sub(r"http://www\.w3\.org[^\"'\s]*", "", page)[:20000]

    identifier = result["experiment"]
    shown = json.loads(told("show", identifier[:6], "--json", env=home))
    assert shown["result"]["experiment"] == identifier
    runs = [run for trial in shown["trials"] for run in trial["runs"]]
    assert len(runs) == result["runs"] and all(run["state"] in ("finished", "failed", "pruned") for run in runs)
    assert identifier in told("list", env=home)

    plan = tmp_path / "best.plan"
    stripewise("export", identifier, "--to", "plan", "-o", str(plan), env=home)
    for source in (identifier, str(plan)):
        done = stripewise("run", source, "--", *command, "--verify-write", env=home)
        assert "write bandwidth" in done.stdout
    for target in ("hints", "shell", "sbatch", "cray", "intel", "openmpi", "lfs", "toml"):
        exported = json.loads(told("export", identifier, "--to", target, "--json", env=home))
        assert exported["text"]
        assert exported["undo"] or exported["text"].startswith("# ")


def test_tune_under_open_mpi(openmpi, kernel, home, tmp_path):
    file = tmp_path / "checkpoint"
    command = strided_write(openmpi, kernel, file)
    options = ["--budget", "6", "--objective", "io_time", "--json", "--delete", str(file)]
    result = json.loads(stripewise("tune", *options, "--", *command, env=home).stdout)
    assert result["environment"]["io"] == "ompio"
    layers = {parameter["layer"] for parameter in result["space"]["parameters"]}
    choice = next(one for one in result["space"]["parameters"] if one["name"] == "io")
    assert layers == {"openmpi", "ompio", "romio"}
    assert len(choice["values"]) == 2 and choice["default"] == "ompio"


def test_dry_run_starts_nothing(mpich, kernel, home, tmp_path):
    file = tmp_path / "checkpoint"
    done = stripewise("tune", "--dry-run", "--json", "--", *strided_write(mpich, kernel, file), env=home)
    document = json.loads(done.stdout)
    assert not file.exists()
    assert document["space"]["distinct"] > 10
    assert document["first"][0] == {p["name"]: p["default"] for p in document["space"]["parameters"]}
    assert document["worst_case"]["runs"] == 40
    assert json.loads(told("list", "--json", env=home)) == []


def test_a_dry_run_tells_the_cost_as_a_run_does(mpich, kernel, home, tmp_path):
    words = ("tune", "--dry-run", "--budget", "12", "--timeout", "60")
    done = stripewise(*words, "--", *strided_write(mpich, kernel, tmp_path / "checkpoint"), env=home)
    assert "worst case: 12 launches, 12 min, 0.2 node-hours\n" in done.stdout
    assert "note: the warm-up run will show" in done.stdout
    stack = tmp_path / "prefetcher.toml"
    stack.write_text(ACCELERATOR)
    program = tmp_path / "app.sh"
    program.write_text(PROGRAM % {"off": 1})
    done = stripewise(*words, "--stack", str(stack), "--", "sh", str(program), "{window}", env=home)
    assert f"program   {program} (script for " in done.stdout
    assert "no MPI library was found" in done.stdout and "the warm-up run will show" not in done.stdout


def test_plain_lines_without_a_terminal(mpich, kernel, home, tmp_path):
    file = tmp_path / "checkpoint"
    done = stripewise("tune", "--budget", "6", "--", *strided_write(mpich, kernel, file), env=home)
    assert "\x1b" not in done.stdout + done.stderr
    assert "worst case: 6 launches" in done.stdout + done.stderr
    assert "default" in done.stdout and "best" in done.stdout


def outline(document):
    return [
        (
            t["number"],
            t["role"],
            t["configuration"],
            t["tag"],
            r["number"],
            r["phase"],
            r["state"],
            r["value"],
            r["arm"],
        )
        for t in document["trials"]
        for r in t["runs"]
    ]


DUMMY = ["--api", "dummy", "--write", "--dummy-virtual", "--dummy-noise", "0.1", "--size", "1m", "--seed", "{run}"]


def carried_through_kills(options, command, env, kills, seed):
    """Run an experiment whose process group gets kill -9 at random moments, until it ends; give its identifier.

    Three runs lie between two kills, so that search and confirmation are both hit.
    """
    rng = random.Random(seed)
    store = open_store(f"sqlite:///{env['XDG_DATA_HOME']}/stripewise/stripewise.db")
    quiet = {"environment": env, "out": Path("/dev/null"), "err": Path("/dev/null")}
    process = started(["tune", *options, "--", *command], **quiet)
    ended = -2
    for _ in range(kills):
        records = store.records()
        while process.is_alive() and not (records and records[0].ended > ended + 2):
            time.sleep(0.05)
            records = store.records()
        assert process.is_alive(), f"the experiment ended after {ended} runs, before its last kill"
        ended = records[0].ended
        time.sleep(rng.uniform(0, 0.1))
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        process = started(["resume", records[0].id], **quiet)
    process.join(240)
    assert process.exitcode == 0
    store.close()
    return records[0].id


def test_kills_leave_the_history_of_an_undisturbed_experiment(mpich, kernel, home, tmp_path):
    command = [str(kernel(mpich)), *DUMMY, "--dummy-effect", "romio_cb_write=disable:1.5"]
    options = ["--budget", "28", "--stack", "romio", "--seed", "3", "--objective", "regex:write bandwidth: (\\S+)"]
    options += ["--direction", "maximize", "--name", "killed"]
    whole = {**home, "XDG_DATA_HOME": str(tmp_path / "whole")}
    first = json.loads(stripewise("tune", *options, "--json", "--", *command, env=whole).stdout)
    undisturbed = json.loads(told("show", first["experiment"], "--json", env=whole))
    identifier = carried_through_kills(options, command, home, kills=5, seed=1)
    disturbed = json.loads(told("show", identifier, "--json", env=home))
    assert outline(disturbed) == outline(undisturbed)


def test_kills_of_real_runs_leave_one_result_for_each(mpich, kernel, home, tmp_path):
    file = tmp_path / "checkpoint"
    options = ["--budget", "24", "--objective", "io_time", "--delete", str(file)]
    command = strided_write(mpich, kernel, file)
    # The gain is found in the second run and proven early: more kills would not fit in.
    identifier = carried_through_kills(options, command, home, kills=3, seed=2)
    shown = json.loads(told("show", identifier, "--json", env=home))
    runs = [run for trial in shown["trials"] for run in trial["runs"]]
    assert sorted(run["number"] for run in runs) == list(range(len(runs)))
    assert len(runs) == shown["result"]["runs"] <= 24
    assert not [run for run in runs if run["state"] != "finished" or not run["value"] > 0]


def test_interrupt_says_how_to_go_on(mpich, kernel, home, tmp_path):
    command = [*mpich.mpiexec(2), str(kernel(mpich)), *DUMMY[:-2], "--dummy-latency", "0.5"]
    process = subprocess.Popen(
        [*STRIPEWISE, "tune", "--stack", "romio", "--", *command],
        env=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = json.loads(told("list", "--json", env=home))
        if found and found[0]["state"] == "running":
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "resume" in output and "Traceback" not in output
    assert json.loads(told("list", "--json", env=home))[0]["state"] == "stopped"
    assert not [p for p in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in _read(p)]


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


ACCELERATOR = """
name = "prefetcher"
description = "a made-up accelerator that its environment controls"
env = { PREFETCHER = "on" }
[[parameter]]
name = "depth"
kind = "ordinal"
values = [1, 2, 4, 8]
default = 2
carrier = "env"
key = "PREFETCHER_DEPTH"
[[parameter]]
name = "window"
kind = "integer"
low = 10
high = 25
step = 10
carrier = "argument"
[off]
description = "without the accelerator"
env = { PREFETCHER = "off" }
"""
OFF_COMMAND = ACCELERATOR.replace('env = { PREFETCHER = "off" }', 'command = """env PREFETCHER=off\n  %s 0"""')

PROGRAM = """#!/bin/sh
if [ "$PREFETCHER" = off ]; then echo "rate %(off)s"; exit; fi
echo "rate $((100 + 10 * ${PREFETCHER_DEPTH:-2} + $1))"
"""


@pytest.mark.parametrize(("off", "winner"), [(100, "candidate"), (900, "reference")])
def test_a_component_of_the_users_own_and_its_reference(home, tmp_path, off, winner):
    stack, program = tmp_path / "prefetcher.toml", tmp_path / "app"
    stack.write_text(ACCELERATOR)
    program.write_text(PROGRAM % {"off": off})
    program.chmod(0o755)
    options = ["--stack", str(stack), "--objective", "regex:rate (\\d+)", "--direction", "maximize", "--budget", "40"]
    done = stripewise("tune", *options, "--json", "--", str(program), "{window}", env=home)
    result = json.loads(done.stdout)
    assert result["reference"]["value"] == off
    assert result["default"]["value"] == 130
    assert result["confirmed"]
    assert result["best"]["is"] == winner
    if winner == "candidate":
        assert result["best"]["configuration"] == {"depth": 8, "window": 25}
        assert result["best"]["value"] == 205
    else:
        assert result["best"]["value"] == 900


FEED = """#!/bin/sh
echo "accelerators $1"
echo "busy $((100 - $1 * 2))"
echo "$1" >> "$0.runs"
if [ "$2" = fickle ] && [ "$1" = 5 ] && [ "$(grep -c 5 "$0.runs")" -gt 2 ]; then echo "busy 89"; fi
"""
FEEDING = ["--objective", "regex:accelerators ([0-9]+)", "--direction", "maximize", "--parameter", "n=1,2,3,4,5,6,7,8"]


@pytest.mark.parametrize(("kind", "best"), [("steady", 5), ("fickle", 4)])
def test_the_most_that_keeps_a_limit_is_found_and_proven(home, tmp_path, kind, best):
    program = tmp_path / "feed"
    program.write_text(FEED)
    program.chmod(0o755)
    limit = ["--subject-to", "regex:busy ([0-9]+) >= 90", "--budget", "60", "--json"]
    done = stripewise("tune", *FEEDING, *limit, "--", str(program), "{n}", kind, env=home)
    result = json.loads(done.stdout)
    assert result["confirmed"] and result["best"]["configuration"] == {"n": best}, result["verdict"]
    assert f" runs, at worst with {100 - 2 * best}." in result["verdict"]
    assert result["confirmation"]["candidates_tested"] == (1 if kind == "steady" else 2)
    assert result["objective"]["subject_to"] == ["regex:busy ([0-9]+) >= 90"]
    assert any(entry["reason"] == "broke regex:busy ([0-9]+) >= 90" for entry in result["failures"])


def test_a_limit_that_the_default_breaks_or_a_runner_cannot_measure_is_refused(home, tmp_path):
    program = tmp_path / "feed"
    program.write_text(FEED)
    program.chmod(0o755)
    options = [*FEEDING, "--subject-to", "regex:busy ([0-9]+) >= 99"]
    done = stripewise("tune", *options, "--", str(program), "{n}", env=home, check=False)
    assert "the default broke regex:busy ([0-9]+) >= 99: it was 98; loosen the limit" in done.stderr
    file = tmp_path / "e.toml"
    file.write_text('runner = "sim:kay"\nstacks = ["lustre"]\nobjective = {subject_to = ["io_time <= 5"]}\n')
    done = stripewise("tune", str(file), env=home, check=False)
    assert "runner sim:kay does not measure what subject_to limits" in done.stderr


def test_the_reference_of_several_lines_is_told_as_one(home, tmp_path):
    stack, program = tmp_path / "prefetcher.toml", tmp_path / "app"
    program.write_text(PROGRAM % {"off": 900})
    program.chmod(0o755)
    stack.write_text(OFF_COMMAND % program)
    options = ["--stack", str(stack), "--objective", "regex:rate (\\d+)", "--direction", "maximize", "--budget", "40"]
    done = stripewise("tune", *options, "--", str(program), "{window}", env=home)
    assert f"the program is best without the component: run env PREFETCHER=off {program} 0\n" in done.stdout


def test_a_program_without_mpi_io_is_not_searched(mpich, home, tmp_path):
    source, program = tmp_path / "idle.c", tmp_path / "idle"
    source.write_text("#include <mpi.h>\nint main(void) { MPI_Init(0, 0); return MPI_Finalize(); }\n")
    subprocess.run([mpich.mpicc, source, "-o", program], check=True)
    commands = {
        "the program opened no file through MPI-IO in its first run": [str(program)],
        "the program left no report of its first run": [sys.executable, "-c", "pass"],
    }
    for seen, words in commands.items():
        done = stripewise("tune", "--budget", "20", "--", *mpich.mpiexec(2), *words, env=home, check=False)
        assert done.returncode == 2
        assert seen in done.stderr and "--parameter env:NAME=VALUE,..." in done.stderr
        assert "2/20" not in done.stderr, "no run is spent on settings that cannot act"
