"""``run`` where it stays beside the program: signals, dispositions and ends are as if it had replaced itself."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stripewise.runners.local.processes import status
from tests.conftest import require
from tests.integration.building import fresh_home, observer_library

STRIPEWISE = [str(Path(sys.executable).with_name("stripewise"))]
OBSERVE = [*STRIPEWISE, "run", "-q", "--mode", "observe", "--"]
CAUGHT = ("ALRM", "XCPU", "RTMIN", "URG", "CONT", "HUP", "INT", "QUIT", "TERM", "PIPE", "USR1", "USR2", "WINCH", "TSTP")
PROGRAM = """
import os, signal, sys
numbers = [getattr(signal, "SIG" + name) for name in sys.argv[1:]]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
open("up.part", "w").write(str(os.getpid())); os.rename("up.part", "up")
for number in numbers:
    print(signal.sigwait(numbers) == number, flush=True)
sys.exit(5)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with the observer built."""
    observer_library(tmp_path_factory)
    return fresh_home(tmp_path_factory)


@pytest.fixture
def begun(home: Path, tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], int]]]:
    """Start commands that write their number to ``up``, and give them with it."""
    with contextlib.ExitStack() as left:

        def begin(*words: str) -> tuple[subprocess.Popen[str], int]:
            process = subprocess.Popen(
                [*OBSERVE, *words],
                env={**os.environ, "STRIPEWISE_HOME": str(home)},
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            left.callback(process.wait)
            left.callback(lambda: status(process.pid) and os.killpg(process.pid, signal.SIGKILL))
            wait_for((tmp_path / "up").exists)
            return process, int((tmp_path / "up").read_text())

        yield begin


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.02)


def state(pid: int) -> str:
    found = status(pid)
    return found.state if found else ""


def test_each_signal_reaches_the_program(
    begun: Callable[..., tuple[subprocess.Popen[str], int]], tmp_path: Path
) -> None:
    """Before, ALRM, XCPU and real-time signals ended the command, and URG and CONT were lost."""
    process, _ = begun(sys.executable, "-c", PROGRAM, *CAUGHT)
    assert process.stdout is not None
    for name in CAUGHT:
        process.send_signal(getattr(signal, f"SIG{name}"))
        assert process.stdout.readline() == "True\n", name
    assert process.wait() == 5


@pytest.mark.parametrize("name", ["ALRM", "XCPU", "RTMIN", "TERM", "KILL"])
def test_a_signal_that_ends_the_program_ends_the_command(
    begun: Callable[..., tuple[subprocess.Popen[str], int]], name: str
) -> None:
    process, program = begun("sh", "-c", "echo $$ > up.part; mv up.part up; exec sleep 60")
    os.kill(program, getattr(signal, f"SIG{name}"))
    assert process.wait() == -getattr(signal, f"SIG{name}")


def test_the_program_dies_with_a_killed_command(begun: Callable[..., tuple[subprocess.Popen[str], int]]) -> None:
    """Before, it was left as an orphan."""
    process, program = begun("sh", "-c", "echo $$ > up.part; mv up.part up; exec sleep 60")
    process.kill()
    process.wait()
    wait_for(lambda: state(program) in ("", "Z", "X"))


def test_the_program_stops_and_continues_with_the_command(
    begun: Callable[..., tuple[subprocess.Popen[str], int]],
) -> None:
    process, program = begun("sh", "-c", "echo $$ > up.part; mv up.part up; exec sleep 60")
    both = (process.pid, program)
    for first, second in ((process.pid, process.pid), (program, process.pid), (process.pid, program)):
        time.sleep(0.3)  # what watches them looks ten times a second
        os.kill(first, signal.SIGSTOP)
        wait_for(lambda: [state(one) for one in both] == ["T", "T"])
        time.sleep(0.3)
        os.kill(second, signal.SIGCONT)
        wait_for(lambda: [state(one) for one in both] == ["S", "S"])
    process.terminate()
    assert process.wait() == -signal.SIGTERM


@pytest.mark.parametrize("words", [["--mode", "observe"], ["my.plan"]], ids=["attended", "replaced"])
def test_the_program_starts_as_the_shell_would_have_started_it(home: Path, tmp_path: Path, words: list[str]) -> None:
    """Signals that are ignored stay so, as ``nohup`` wants it, and Python's own habits do not reach the program."""
    (tmp_path / "my.plan").write_text("stripewise-plan 1\nhint cb_nodes 1\n")
    command = f"{STRIPEWISE[0]} run -q {' '.join(words)} --"
    look = "grep -E '^Sig(Ign|Blk)' /proc/self/status"
    for before in ("", "trap '' HUP INT QUIT TERM PIPE USR1 CHLD XFSZ;"):
        script = f"{before} {look}; {command} {look}; {look}; ls /proc/self/fd; {command} ls /proc/self/fd; true"
        found = subprocess.run(
            ["bash", "-c", script],
            env={**os.environ, "STRIPEWISE_HOME": str(home)},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.splitlines()
        assert found[0:2] == found[2:4] == found[4:6]
        half = len(found[6:]) // 2
        assert found[6:9] == ["0", "1", "2"] and found[6 : 6 + half] == found[6 + half :]


@pytest.mark.parametrize(
    "words", [["run", "-q", "--mode", "observe"], ["run", "-q", "my.plan"], ["lab", "record", "-q"]]
)
def test_a_program_that_cannot_be_executed_has_the_exit_code_of_a_shell(
    home: Path, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "my.plan").write_text("stripewise-plan 1\nhint cb_nodes 1\n")
    (tmp_path / "text").write_text("no program\n")
    programs = [("/nonexistent", 127), ("./text", 126), ("no-such-command", 127), ("/tmp", 126)]
    for program, code in programs if words[-1] == "observe" else programs[:2]:
        found = subprocess.run(
            [*STRIPEWISE, *words, "--", program],
            env={**os.environ, "STRIPEWISE_HOME": str(home)},
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert (found.returncode, found.stderr.count("\n")) == (code, 1), (program, found.stderr)


def test_the_report_is_there_when_the_command_returns(home: Path, tmp_path: Path) -> None:
    script = "import os; open('a', 'w').write('x'); os.kill(os.getpid(), 15)"
    found = subprocess.run(
        [*STRIPEWISE, "run", "--json", "--mode", "observe", "--", sys.executable, "-c", f"{script}"],
        env={**os.environ, "STRIPEWISE_HOME": str(home)},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    require(found.stderr.startswith("{"), found.stderr)
    assert found.returncode == -signal.SIGTERM
    assert not list(Path(json.loads(found.stderr.splitlines()[0])["report"]).parent.glob("process-*"))


@pytest.mark.parametrize("words", [["--mode", "observe"], ["-q", "my.plan"], ["-q", "--mode", "observe"]])
@pytest.mark.parametrize("fault", ["unwritable", "full", "gone", "memory"])
def test_the_program_runs_where_nothing_can_be_kept_or_its_folder_is_gone(
    home: Path, tmp_path: Path, words: list[str], fault: str
) -> None:
    (plan := tmp_path / "my.plan").write_text("stripewise-plan 1\nhint cb_nodes 1\n")
    words = [str(plan) if word == plan.name else word for word in words]
    (tmp_path / "gone").mkdir()
    # What the observer is built in stays: only the state cannot be written.
    (shadow := tmp_path / "state").mkdir()
    (shadow / "native").symlink_to(home / "native")
    if fault == "unwritable":
        (shadow / "applied").symlink_to("/proc/nowhere")
    if fault == "full":
        (shadow / "applied").symlink_to("/sys")
    script = f"cd {tmp_path}/gone; {'rmdir ../gone;' if fault == 'gone' else ''}"
    script += "ulimit -v 80000;" if fault == "memory" else ""
    script += f"{sys.executable} -m stripewise run {' '.join(words)} -- sh -c 'echo out; echo err >&2; exit 7'"
    environment = {**os.environ, "STRIPEWISE_HOME": str(shadow), "TMPDIR": str(tmp_path)}
    found = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (7, "out\n"), found.stderr
    assert "err\n" in found.stderr and "fault of stripewise" not in found.stderr
    if fault == "memory":
        assert ("ulimit leaves 78 MiB" in found.stderr) == ("-q" not in words)
    elif fault != "gone" and "-q" not in words:
        assert "cannot write" in found.stderr and str(tmp_path / "stripewise-") in found.stderr.replace("\n", "")
