"""Bad input of every kind: a one-line error that says what to do, exit code 1 or 2, and never a traceback."""

import os
import sqlite3
import stat
import sys
from pathlib import Path

import pytest

from stripewise.desk.cli import main

GOOD = """
command = ["sh", "-c", "true"]
objective = "elapsed"
stacks = ["romio"]
"""

STACK = """
name = "own"
[[parameter]]
name = "x"
kind = "ordinal"
values = [1, 2, 4]
carrier = "env"
key = "X"
"""


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def experiment(text):
    return lambda folder: ["tune", write(folder, "e.toml", text)]


def stack(text, *more):
    return lambda folder: ["tune", "--stack", write(folder, "s.toml", text), *more, "--", "true"]


def plan(text):
    return lambda folder: ["run", write(folder, "p.plan", text), "--", "true"]


def words(*given):
    return lambda folder: [word.replace("{folder}", str(folder)) for word in given]


def program(text, *options):
    def make(folder):
        path = folder / "app"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        own = write(folder, "own.toml", STACK)
        return ["tune", "--budget", "6", "--stack", own, *options, "--", str(path)]

    return make


def broken_store(folder):
    path = folder / "broken.db"
    path.write_bytes(b"this is no database" * 100)
    return ["list", "--store", f"sqlite:///{path}"]


def foreign_store(folder):
    path = folder / "foreign.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table accounts (name text)")
    return ["list", "--store", f"sqlite:///{path}"]


def store_is_a_folder(folder):
    return ["list", "--store", f"sqlite:///{folder}"]


def unwritable_report(folder):
    return ["tune", "--report", str(folder / "no" / "such" / "r.html"), "--", "true"]


def million_lines(folder):
    return ["run", write(folder, "p.plan", "stripewise-plan 1\n" + "hint cb_nodes 4\n" * 1_000_000), "--", "true"]


def not_executable(folder):
    return ["tune", "--", write(folder, "app", "#!/bin/sh\ntrue\n")]


CASES = {
    # -- the command line
    "no program at all": (words("tune"), "two dashes"),
    "unknown command": (words("tunee"), "tunee"),
    "unknown option": (words("tune", "--bugdet", "3", "--", "true"), "bugdet"),
    "budget of nothing": (words("tune", "--budget", "0", "--", "true"), "budget"),
    "budget that is no number": (words("tune", "--budget", "many", "--", "true"), "budget"),
    "endless time": (words("tune", "--time", "inf", "--", "true"), "finite"),
    "scratch that cannot be made": (
        lambda folder: stack(STACK, "--scratch", write(folder, "a-file", "") + "/x")(folder),
        "cannot make",
    ),
    "negative time": (words("tune", "--time", "-5", "--", "true"), "seconds"),
    "unknown stack": (words("tune", "--stack", "none", "--", "true"), "unknown stack 'none'"),
    "missing stack file": (words("tune", "--stack", "{folder}/none.toml", "--", "true"), "none.toml"),
    "unknown sampler": (words("tune", "--sampler", "magic", "--", "true"), "unknown sampler 'magic'"),
    "unknown sampler option": (words("tune", "--sampler-option", "colour=red", "--", "true"), "colour"),
    "sampler option without value": (words("tune", "--sampler-option", "colour", "--", "true"), "NAME=VALUE"),
    "unknown objective": (words("tune", "--objective", "joy", "--", "true"), "objective 'joy' is unknown"),
    "regex without direction": (words("tune", "--objective", "regex:(.*)", "--", "true"), "direction"),
    "regex without group": (words("tune", "--objective", "regex:x", "--direction", "minimize", "--", "true"), "group"),
    "broken regex": (words("tune", "--objective", "regex:(", "--direction", "minimize", "--", "true"), "broken"),
    "wrong direction": (words("tune", "--direction", "maximize", "--", "true"), "minimize"),
    "unknown direction": (words("tune", "--objective", "regex:(a)", "--direction", "up", "--", "true"), "up"),
    "unknown runner": (words("tune", "--runner", "cloud", "--", "true"), "unknown runner 'cloud'"),
    "missing table to replay": (words("tune", "--runner", "replay:{folder}/none"), "none"),
    "command for a replay": (words("tune", "--runner", "replay:{folder}/none", "--", "true"), "no command"),
    "seed that is negative": (words("tune", "--seed", "-1", "--", "true"), "seed"),
    "report in a missing folder": (unwritable_report, "does not exist"),
    # -- the program
    "command not found": (words("tune", "--", "no-such-program"), "no-such-program"),
    "name that no file can have": (words("tune", "--", "mpiexec", "./" + "x" * 3000), "too long"),
    "log that no file can be": (words("diagnose", "9" * 3000), "too long for a file"),
    "launcher without program": (words("tune", "--", "mpiexec", "-n", "4"), "program"),
    "program under launcher not found": (
        words("tune", "--", "mpiexec", "-n", "4", "./no-such-program"),
        "no-such-program",
    ),
    "program not executable": (not_executable, "execut"),
    "program that crashes": (program("exit 3\n"), "exit"),
    "program killed by a signal": (program("kill -SEGV $$\n"), "SEGV"),
    "program that hangs": (program("sleep 60\n", "--timeout", "1"), "time limit"),
    "program that prints no number": (
        program("echo hello\n", "--objective", "regex:speed (\\S+)", "--direction", "maximize"),
        "nothing that matches",
    ),
    "program that prints nonsense": (
        program("echo speed fast\n", "--objective", "regex:speed (\\S+)", "--direction", "maximize"),
        "number",
    ),
    "program that prints zero": (
        program("echo speed 0\n", "--objective", "regex:speed (\\S+)", "--direction", "maximize"),
        "0",
    ),
    "bandwidth of a program without MPI": (
        words("tune", "--objective", "write_bandwidth", "--", "true"),
        "no MPI library",
    ),
    "setup line that fails": (words("tune", "--setup", "module-that-is-not load x", "--", "true"), "setup"),
    "program without MPI": (words("tune", "--", "/bin/ls"), "/bin/ls uses no MPI library; launch an MPI program"),
    "no ranks": (words("tune", "--", "mpiexec", "-n", "0", "/bin/ls"), "ask for 1 or more"),
    "ranks of a program without MPI": (words("tune", "--", "mpiexec", "-n", "2", "/bin/ls"), "uses no MPI library"),
    "script that starts no MPI program": (words("tune", "--", "sh", "-c", "true"), "no MPI program was found"),
    "program of Python without a stack": (
        words("tune", "--", "python3", "-c", "1"),
        "; name what the program uses, --stack dask, fsspec, h5py, numpy, parquet, torch or zarr, or --stack posix",
    ),
    "program of Python without a loader": (
        words("tune", "--stack", "torch", "--objective", "sample_rate", "--", "python3", "-c", "1"),
        "the program ends well, but the default has no value: no loader was seen",
    ),
    "program of its own calls": (words("tune", "--", "cat", "x"), "Name --stack posix to tune its own reads"),
    # -- experiment files
    "experiment file missing": (words("tune", "{folder}/none.toml"), "none.toml"),
    "experiment file is not valid TOML": (experiment("command = [\n"), "not valid TOML"),
    "experiment file is binary": (experiment(b"\xff\xfe\x00\x01"), "UTF-8"),
    "experiment file with a key of many parts": (experiment("a." * 30_000 + "a = 1"), "nested too deeply"),
    "experiment file with a number of many digits": (experiment("x = " + "9" * 5000), "not valid TOML"),
    "experiment file nested deeply": (experiment("x = " + "[" * 5000), "nested too deeply"),
    "experiment file without an end": (words("tune", "/dev/zero"), "larger than 1 MiB"),
    "schema of a table without an end": (
        lambda folder: [
            "site",
            "table",
            "import",
            write(folder, "x.csv", "a\n1\n"),
            "--out",
            "y",
            "--schema",
            "/dev/zero",
        ],
        "larger",
    ),
    "diagnosis nested deeply": (
        lambda folder: ["tune", "--from", write(folder, "d.json", "[" * 100_000), "--", "true"],
        "not a diagnosis",
    ),
    "name that is not text": (words("tune", "--name", "a\udcff", "--", "true"), "can be shown"),
    "record in no folder": (words("lab", "record", "--output", "{folder}/none/x", "--", "true"), "none does not exist"),
    "command with a NUL": (experiment(GOOD.replace('"true"', '"tr\\u0000ue"')), "NUL"),
    "folder with a NUL": (experiment('scratch = "/x\\u0000"\n' + GOOD), "NUL"),
    "unknown key": (experiment(GOOD + "colour = 1\n"), "colour"),
    "wrong type": (experiment(GOOD + "seed = 'seven'\n"), "seed"),
    "unknown layout": (experiment(GOOD + "[workload]\nlayout = 'spiral'\n"), "layout"),
    "size that is none": (experiment(GOOD + "[workload]\nfile_size = '64 furlongs'\n"), "64 furlongs"),
    "impossible constraint": (experiment("constraints = ['cb_nodes > 100000']\n" + GOOD), "constraint"),
    "constraint with a call": (experiment("constraints = ['__import__(\"os\")']\n" + GOOD), "do not allow"),
    "constraint with unknown name": (experiment("constraints = ['cb_nodez < 3']\n" + GOOD), "cb_nodez"),
    "constraint that orders texts": (
        experiment("constraints = ['romio_cb_write < 3']\n" + GOOD),
        "text where a number is needed",
    ),
    "constraint that divides by zero": (experiment("constraints = ['cb_nodes / 0 > 1']\n" + GOOD), "divides by zero"),
    "misspelt parameter": (experiment(GOOD + "[parameters.cb_nodez]\nvalues = [1]\n"), "cb_nodez"),
    "misspelt hint value": (
        experiment(GOOD + "[parameters.romio_cb_write]\nvalues = ['automatic', 'enabel']\n"),
        "enabel",
    ),
    # -- stack files
    "stack that is not valid TOML": (stack("name = "), "not valid TOML"),
    "stack without parameters": (stack("name = 'x'\n"), "parameter"),
    "parameter without values": (stack(STACK.replace("values = [1, 2, 4]", "")), "no values"),
    "values out of order": (stack(STACK.replace("[1, 2, 4]", "[4, 2, 1]")), "ascend"),
    "value twice": (stack(STACK.replace("[1, 2, 4]", "[1, 1, 2]")), "twice"),
    "corrupting parameter": (stack(STACK + 'safety = "corrupting"\n', "--dry-run"), "corrupt"),
    "broken condition": (stack(STACK + 'active_if = "x >"\n'), "expression"),
    "log axis below zero": (stack(STACK.replace("[1, 2, 4]", "[-1, 1, 2]") + 'scale = "log2"\n'), "log2"),
    # -- plans
    "plan missing": (words("run", "{folder}/none.plan", "--", "true"), "none.plan"),
    "plan of a million lines": (million_lines, "larger than"),
    "plan without header": (plan("hint cb_nodes 4\n"), "first line"),
    "plan with an unknown word": (plan("stripewise-plan 1\nhit cb_nodes 4\n"), "line 2"),
    "plan with a key only": (plan("stripewise-plan 1\nhint cb_nodes\n"), "value"),
    "plan with a misspelt hint value": (plan("stripewise-plan 1\nhint romio_cb_write enabel\n"), "enabel"),
    "plan that is binary": (plan(b"\xff\xfe\x00"), "UTF-8"),
    "run without program": (words("run", "abc"), "no program"),
    # -- stores
    "store that is no database": (broken_store, "broken.db"),
    "store of another program": (foreign_store, "foreign.db"),
    "store that is a folder": (store_is_a_folder, "folder"),
    "store of unknown kind": (words("list", "--store", "mongodb://x"), "mongodb"),
    "database that does not answer": (
        words("list", "--store", "postgresql://nobody:secret@127.0.0.1:1/none"),
        "127.0.0.1",
    ),
    "unknown experiment": (words("show", "zzzz"), "zzzz"),
    "resume of an unknown experiment": (words("resume", "zzzz"), "zzzz"),
    "unknown export": (plan("stripewise-plan 1\n"), ""),
}
CASES["unknown export"] = (
    lambda folder: ["export", write(folder, "p.plan", "stripewise-plan 1\n"), "--to", "punch-cards"],
    "punch-cards",
)


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    for name in ("XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("STRIPEWISE_STORE", raising=False)
    # The mpiexec of these tests' environment, where the machine has none.
    monkeypatch.setenv("PATH", os.pathsep.join([os.environ["PATH"], str(Path(sys.prefix) / "bin")]))
    monkeypatch.chdir(tmp_path)


def test_there_are_fifty_kinds():
    assert len(CASES) >= 50


@pytest.mark.parametrize("kind", CASES)
def test_bad_input(kind, tmp_path, capfd):
    make, told = CASES[kind]
    arguments = make(tmp_path)
    code = main(arguments)
    output = capfd.readouterr()
    errors = [line for line in output.err.splitlines() if line.startswith("stripewise: ")]
    assert code in (1, 2), output
    assert len(errors) == 1, output.err
    assert told in errors[0], errors[0]
    assert "Traceback" not in output.out + output.err
    assert "secret" not in output.out + output.err


def test_the_fix_is_part_of_the_line(tmp_path, capfd):
    assert main(["tune", "--stack", "none", "--", "true"]) == 2
    assert "romio" in capfd.readouterr().err
