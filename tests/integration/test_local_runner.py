"""Real launches on this machine: shells that misbehave, and MPI programs with and without the runtime."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stripewise.catalogue.carriers import ARGUMENT, ENVIRONMENT, HINT, MCA, Setting
from stripewise.catalogue.configuration import Configuration
from stripewise.catalogue.filesystems.base import mount_type
from stripewise.catalogue.plan import Plan
from stripewise.errors import StripewiseError, UserError
from stripewise.launch import Launch, Outcome
from stripewise.requests.experiment import Experiment
from stripewise.runners.base import Preflight
from stripewise.runners.local import processes, scratch
from stripewise.runners.local.runner import LocalRunner
from stripewise.runners.local.supervision import Command, CommandLimits, Look
from stripewise.runners.program.mpi import SESSIONS
from stripewise.runners.program_runner import Surroundings
from stripewise.trial import Phase, State
from tests.conftest import require
from tests.integration.building import ROOT, fresh_home, native_parts
from tests.integration.conftest import Mpi

PROGRAMS = ROOT / "tests" / "fixtures" / "programs"


def launch(number: int = 0, *settings: Setting, **more: Any) -> Launch:
    plan = Plan(settings, f"test.{number}")
    return Launch(
        "test", number, more.pop("configuration", Configuration({})), plan, Phase.SEARCH, **{"timeout": 60.0, **more}
    )


def hint(key: str, value: str) -> Setting:
    return Setting(HINT, key, value)


class Bench:
    """A working folder with a runner's folder beside it."""

    def __init__(self, folder: Path) -> None:
        self.cwd = folder / "work"
        self.runs = folder / "runs"
        self.cwd.mkdir()

    def runner(
        self, *command: str, environment: Mapping[str, str] | None = None, limit: int = 1 << 20, **fields: Any
    ) -> LocalRunner:
        experiment = Experiment.model_validate({"command": list(command), **fields})
        given = None if environment is None else {**os.environ, **environment}
        kind = type("Bounded", (LocalRunner,), {"output_limit": limit})
        return kind(experiment, self.runs, Surroundings(cwd=self.cwd, environment=given))

    def prepare(self, *command: str, **fields: Any) -> Preflight:
        return self.runner(*command, **fields).prepare()

    def run(self, *command: str, planned: Launch | None = None, **fields: Any) -> Outcome:
        with self.runner(*command, **fields) as runner:
            return run(runner, planned or launch())

    def shell(self, text: str, **fields: Any) -> Outcome:
        return self.run("bash", "-c", text, **fields)

    def leftovers(self, number: int = 0) -> list[int]:
        found = processes.members(scratch.run_id(self.runs, launch(number)))
        return [line.pid for line in found]


def run(runner: LocalRunner, planned: Launch) -> Outcome:
    runner.start(planned)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if ended := runner.poll(5.0):
            (outcome,) = ended
            return outcome
    raise AssertionError("the run gave no outcome")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Build into a cache of the session's own: a user's must neither help nor be touched."""
    patch = pytest.MonkeyPatch()
    patch.setenv("STRIPEWISE_HOME", str(fresh_home(tmp_path_factory)))
    yield
    patch.undo()


@pytest.fixture(scope="session")
def strided(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Mpi], Path]:
    """The strided program of a user, built with an MPI."""
    built: dict[str, Path] = {}

    def build(mpi: Mpi) -> Path:
        if mpi.name not in built:
            native_parts(tmp_path_factory, mpi.mpicc)
            path = tmp_path_factory.mktemp(mpi.name) / "strided"
            subprocess.run([mpi.mpicc, "-O1", "-o", path, PROGRAMS / "strided.c"], check=True)
            built[mpi.name] = path
        return built[mpi.name]

    return build


# -- what a program may do -------------------------------------------------------------------------------------


def test_a_program_runs_in_its_users_folder_and_knows_its_own(bench: Bench) -> None:
    outcome = bench.shell('pwd; echo "$STRIPEWISE_RUN $STRIPEWISE_RUN_FOLDER"; echo "$0" >&2', planned=launch(3))
    assert outcome.state is State.FINISHED
    assert outcome.folder == bench.runs / "3"
    assert (bench.runs / "3" / "stdout").read_text() == f"{bench.cwd}\n3 {bench.runs / '3'}\n"
    assert (bench.runs / "3" / "stderr").read_text() == "bash\n"
    about = json.loads((bench.runs / "3" / "process.json").read_text())
    assert {"pid", "start", "boot", "host", "run_id", "command"} <= about.keys()


def test_arguments_take_their_values_and_defaults(bench: Bench) -> None:
    fields: dict[str, Any] = {
        "parameters": {
            "block": {"kind": "ordinal", "values": [1, 2, 4], "default": 2},
            "mode": {"kind": "categorical", "values": ["a", "b"]},
        }
    }
    command = ("echo", "-b{block}", "{mode}", "{run_folder}/x", "{print}", "{run}")
    bench.run(*command, **fields)
    assert (bench.runs / "0/stdout").read_text() == f"-b2 a {bench.runs}/0/x {{print}} 0\n"
    planned = launch(1, Setting(ARGUMENT, "block", "4"), configuration=Configuration({"block": 4, "mode": "b"}))
    bench.run(*command, planned=planned, **fields)
    assert (bench.runs / "1/stdout").read_text() == f"-b4 b {bench.runs}/1/x {{print}} 1\n"


def test_an_argument_without_its_place_is_refused_and_a_stray_brace_told(bench: Bench) -> None:
    parameters = {"block": {"kind": "ordinal", "values": [1, 2]}}
    with pytest.raises(UserError, match=r"block is passed as an argument, but \{block\} does not stand in the command"):
        bench.prepare("echo", "-b", "{blok}", parameters=parameters)
    assert any("{blok}" in line for line in bench.prepare("echo", "{block}{blok}", parameters=parameters).warnings)


def test_settings_of_the_environment_reach_the_program_and_some_are_taken_away(bench: Bench) -> None:
    planned = launch(0, Setting(ENVIRONMENT, "TUNED", "a b"), unset=("GONE",))
    bench.shell(
        'echo "$TUNED|$GONE|$KEPT|$EXTRA"',
        planned=planned,
        environment={"GONE": "x", "KEPT": "y"},
        env={"EXTRA": "z{run}", "GONE": "w"},
    )
    assert (bench.runs / "0/stdout").read_text() == "a b||y|z0\n"


def test_a_reference_may_have_a_command_of_its_own(bench: Bench) -> None:
    planned = launch(0, reference=True, command="env COMPONENT=off {command}")
    bench.run("bash", "-c", 'echo "$COMPONENT $1"', "name", "two words", planned=planned)
    assert (bench.runs / "0/stdout").read_text() == "off two words\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo broken pipe dream >&2; exit 3", "exit code 3: broken pipe dream"),
        ("echo only said here; exit 1", "exit code 1: only said here"),
        ("kill -SEGV $$", "ended by SIGSEGV"),
        ("kill -KILL $$", "ended by SIGKILL, out of memory, or ended by somebody"),
        ("(kill -ABRT $BASHPID); exit $?", r"exit code 134 (ended by SIGABRT)"),
    ],
)
def test_a_failed_run_says_why(text: str, reason: str, bench: Bench) -> None:
    outcome = bench.shell(text)
    assert outcome.state is State.FAILED
    assert outcome.reason.startswith(reason)


def test_a_program_that_hangs_is_ended_with_all_that_it_started(bench: Bench) -> None:
    outcome = bench.shell(
        "trap '' TERM; setsid sleep 300 & (setsid bash -c 'sleep 300' &) ; sleep 300", planned=launch(0, timeout=1.0)
    )
    assert outcome.state is State.FAILED
    assert outcome.reason.startswith("still running at its time limit of 1 s")
    assert 1.0 <= outcome.elapsed < 60
    assert bench.leftovers() == []


def test_what_a_program_leaves_behind_is_ended_and_told(bench: Bench) -> None:
    outcome = bench.shell("setsid sleep 300 >/dev/null 2>&1 & exit 0")
    assert outcome.state is State.FINISHED
    assert outcome.elapsed < 60
    assert "1 process(es) were still running" in outcome.facts.notes[0] and outcome.facts.behind == 1
    assert bench.leftovers() == []


def test_a_program_that_prints_without_end_fills_no_disk(bench: Bench) -> None:
    outcome = bench.shell("head -c 300M /dev/zero | tr '\\0' x; echo; echo the last line", limit=1 << 20)
    assert outcome.state is State.FINISHED
    kept = (bench.runs / "0/stdout").read_bytes()
    assert len(kept) < (1 << 20) + 200
    assert kept.endswith(b"\nthe last line\n")
    assert b"bytes of 314572815 left out here]" in kept
    assert any("were not kept" in note for note in outcome.facts.notes)


def test_a_full_disk_keeps_the_experiment(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "mounting a small file system needs root")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "none", small], capture_output=True, check=False
    )
    require(mounted.returncode == 0, "mounting is not allowed here")
    try:
        runner = LocalRunner(
            Experiment(command=["bash", "-c", "head -c 1M /dev/zero; echo done >&2"]), small, Surroundings(cwd=tmp_path)
        )
        outcome = run(runner, launch())
        assert outcome.state is State.FINISHED
        assert any("No space left on device" in note for note in outcome.facts.notes)
        command = ["bash", "-c", "echo rate: 1; head -c 1M /dev/zero; echo rate: 9"]
        for kept in ("stdout", "stderr"):
            (outcome.folder / kept).write_bytes(b"")  # type: ignore[operator]
        printed = Experiment(command=command, objective="regex:rate: (.)")
        with pytest.raises(StripewiseError, match=r"run 2: its output is not whole: cannot write .*; make room"):
            run(LocalRunner(printed, small, Surroundings(cwd=tmp_path)), launch(2))
        with pytest.raises(
            StripewiseError, match=r"cannot write the run's folder .*No space left on device; make room"
        ):
            runner.start(launch(1))
        assert runner.poll(0.0) == []
        runner.close()
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_program_that_is_over_before_its_beginning_is_read_took_its_time(tmp_path: Path) -> None:
    ready = os.pipe()
    os.write(ready[1], f"{time.time() - 0.5:.6f}".replace(".", ",").encode())  # as bash writes it in some languages
    outputs = (tmp_path / "stdout", tmp_path / "stderr")
    command = Command(["true"], os.environ, run_id="x", outputs=outputs, cwd=tmp_path, limits=CommandLimits())
    command.time_from(ready)
    assert 0.5 <= command.run().elapsed < 5


# -- setup lines and hooks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("always", [False, True])
def test_a_run_while_the_tuner_was_stopped_is_made_again(bench: Bench, always: bool) -> None:
    """Ctrl-Z, or a job that its scheduler suspends: the pause counted as the run's time."""
    pause = f"kill -STOP {os.getpid()}; sleep 0.8; kill -CONT {os.getpid()}"
    script = pause if always else f"[ -e ran ] || {{ touch ran; {pause}; }}"
    with ThreadPoolExecutor() as threads:
        outcome = threads.submit(bench.run, "sh", "-c", script).result()
    assert re.match(r"stripewise was stopped for \d\.\d s while it ran, .* made again", outcome.facts.notes[0])
    if always:
        assert (outcome.state, outcome.reason) == (State.FAILED, "stripewise was stopped while it ran, each of 3 times")
    else:
        assert outcome.state is State.FINISHED and outcome.elapsed < 0.7


def test_only_what_nothing_else_explains_is_a_pause() -> None:
    before = Look.take()
    while (spent := time.monotonic() - before.at) < 0.2:
        sum(range(1000))
    assert before.waits and before.unexplained(spent) < 0.1
    time.sleep(0.2)
    late = time.monotonic() - before.at
    assert before.unexplained(late) > 0.1
    assert replace(before, fetched=before.fetched - 9).unexplained(late) < 0, "its pages had to come from the disk"
    assert replace(before, waits={}).unexplained(late) == 0, "the kernel does not say who waited"


def test_setup_lines_share_the_programs_shell_and_are_not_timed(bench: Bench) -> None:
    setup = ["sleep 2", "export LOADEDMODULES=hdf5/1.14:mpi/4", "ulimit -n 123", "set -- changed"]
    with bench.runner(
        "bash", "-c", "ulimit -n; echo $LOADEDMODULES $WINS; exit 0", setup=setup, env={"WINS": "mine"}
    ) as runner:
        preflight = runner.prepare()
        assert preflight.environment["modules"] == ["hdf5/1.14", "mpi/4"]
        assert preflight.fingerprint["the list of loaded modules"] == "hdf5/1.14, mpi/4"
        begin = time.monotonic()
        outcome = run(runner, launch(0, timeout=1.9))
    assert outcome.state is State.FINISHED, outcome.reason
    assert outcome.elapsed <= time.monotonic() - begin - 2
    assert (bench.runs / "0/stdout").read_text() == "123\nhdf5/1.14:mpi/4 mine\n"


def test_a_program_that_only_its_module_brings_is_found(bench: Bench) -> None:
    tool = bench.cwd / "modules" / "brought"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho brought\n")
    tool.chmod(0o755)
    with pytest.raises(UserError, match="command not found: brought; check its spelling, or load its module"):
        bench.prepare("brought")
    outcome = bench.run("brought", setup=[f"export PATH={tool.parent}:$PATH"])
    assert outcome.state is State.FINISHED
    assert (bench.runs / "0/stdout").read_text() == "brought\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "echo no such module >&2; false",
            "setup line 2 'echo no such module >&2; false' ended with exit code 1: no such module",
        ),
        ("exit 4", "a setup line ended with exit code 4"),
        ("for x in 1 2", "setup line 2 is not complete: for x in 1 2"),
        ("no_such_command_here", "setup line 2 'no_such_command_here' ended with exit code 127"),
    ],
)
def test_setup_lines_that_fail_are_found_beforehand(line: str, message: str, bench: Bench) -> None:
    with pytest.raises(UserError) as caught:
        bench.prepare("true", setup=["true", line])
    assert caught.value.what.startswith(message)
    assert caught.value.fix


def test_setup_lines_may_print_much_and_leave_processes_behind(bench: Bench) -> None:
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    bench.prepare("true", setup=["sleep 1000 & echo $! > left", "head -c 400000000 /dev/zero"])
    assert time.monotonic() - begin < 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
    left = processes.status(int((bench.cwd / "left").read_text()))
    assert left is None or not left.alive


def test_a_setup_line_that_fails_later_fails_its_run(bench: Bench) -> None:
    with bench.runner("echo", "never", setup=["true", "test ! -e broken"]) as runner:
        runner.prepare()
        (bench.cwd / "broken").touch()
        outcome = run(runner, launch())
    assert outcome.state is State.FAILED
    assert outcome.reason == "setup line 2 ended with exit code 1"


def test_hooks_are_outside_the_time_and_see_the_run(bench: Bench) -> None:
    (bench.cwd / "old.dat").write_text("x")
    hooks = {
        "before": ["sleep 1.5", 'ls > seen; echo "$STRIPEWISE_RUN" >> seen'],
        "after": ["sleep 0.5; cat {run_folder}/stdout > after"],
        "delete": ["old.*"],
    }
    begin = time.monotonic()
    outcome = bench.shell("echo hello > new.dat; echo ran", hooks=hooks, planned=launch(2, timeout=1.4))
    assert outcome.state is State.FINISHED, outcome.reason
    assert outcome.elapsed <= time.monotonic() - begin - 2
    assert (bench.cwd / "seen").read_text() == "seen\n2\n"
    assert (bench.cwd / "after").read_text() == "ran\n"


@pytest.mark.parametrize(
    ("hooks", "reason"),
    [
        (
            {"before": ["echo cannot stage >&2; exit 9"]},
            "the before hook 'echo cannot stage >&2; exit 9' ended with exit code 9: cannot stage",
        ),
        (
            {"after": ["echo wrong answer; false"]},
            "the after hook 'echo wrong answer; false' ended with exit code 1: wrong answer",
        ),
        ({"before": ["sleep 60"], "timeout": 0.5}, "the before hook 'sleep 60' did not end within 0.5 s"),
    ],
)
def test_a_hook_that_fails_fails_its_run(hooks: dict[str, Any], reason: str, bench: Bench) -> None:
    outcome = bench.shell("touch ran", hooks=hooks)
    assert (outcome.state, outcome.reason) == (State.FAILED, reason)
    assert (bench.cwd / "ran").exists() is ("after" in hooks)
    assert bench.leftovers() == []


# -- what an earlier or dying Stripewise leaves ----------------------------------------------------------------

TUNER = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stripewise.runners.local.runner import LocalRunner
from stripewise.runners.program.mpi import SESSIONS
from stripewise.catalogue.configuration import Configuration
from stripewise.requests.experiment import Experiment
from stripewise.launch import Launch
from stripewise.catalogue.plan import Plan
from stripewise.runners.program_runner import Surroundings
from stripewise.trial import Phase

if sys.argv[3:] == ["unguarded"]:
    from stripewise.runners.local.supervision import OrphanGuard

    OrphanGuard.began = lambda *_: None
command = ["bash", "-c", "setsid sleep 300 & (setsid bash -c 'sleep 300; true' &); touch started; sleep 300; true"]
with LocalRunner(Experiment(command=command), Path(sys.argv[1]), Surroundings(cwd=Path(sys.argv[2]))) as runner:
    runner.start(Launch("test", 0, Configuration({}), Plan(), Phase.SEARCH))
    runner.poll(300)
"""


def tuner(bench: Bench, *more: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", TUNER, str(bench.runs), str(bench.cwd), *more])
    deadline = time.monotonic() + 60
    while not (bench.cwd / "started").exists() or len(bench.leftovers()) < 4:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    return process


def test_an_interrupt_ends_children_and_grandchildren(bench: Bench) -> None:
    process = tuner(bench)
    process.send_signal(signal.SIGINT)
    process.wait(120)
    assert bench.leftovers() == []


def test_the_guard_ends_what_a_killed_tuner_left(bench: Bench) -> None:
    process = tuner(bench)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    while bench.leftovers():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_a_killed_tuner_left_is_reaped_before_the_next_attempt(bench: Bench) -> None:
    process = tuner(bench, "unguarded")
    process.kill()
    process.wait()
    assert len(bench.leftovers()) >= 4
    with bench.runner("true") as runner:
        runner.reap(launch(0))
        assert bench.leftovers() == []
        outcome = run(runner, launch(0, attempt=1))
    assert outcome.folder == bench.runs / "0.1"


def note(bench: Bench, **changes: Any) -> None:
    folder = bench.runs / "0"
    folder.mkdir(parents=True)
    who = {"boot": processes.boot_id(), "host": processes.host_name(), "run_id": "old", **changes}
    (folder / "process.json").write_text(json.dumps(who))


@pytest.mark.parametrize("stale", [{"start": 1}, {"boot": "another"}])
def test_a_process_that_got_an_old_number_is_spared(stale: dict[str, Any], bench: Bench) -> None:
    innocent = subprocess.Popen(["sleep", "300"], start_new_session=True)
    try:
        found = processes.Identity.of(innocent.pid)
        note(bench, **{"pid": innocent.pid, "start": found.start, **stale})
        bench.runner("true").reap(launch(0))
        assert innocent.poll() is None
        (bench.runs / "0" / "process.json").unlink()
        (bench.runs / "0").rmdir()
        note(bench, pid=innocent.pid, start=found.start)
        bench.runner("true").reap(launch(0))
        assert innocent.wait(10) == -signal.SIGKILL
    finally:
        innocent.kill()
        innocent.wait()


def test_a_run_of_another_host_is_not_taken_for_dead(bench: Bench) -> None:
    note(bench, host="elsewhere", pid=1, start=1)
    with pytest.raises(StripewiseError, match=r"started on host elsewhere.*resume on elsewhere"):
        bench.runner("true").reap(launch(0))


# -- MPI programs ----------------------------------------------------------------------------------------------


def carried(outcome: Outcome) -> dict[str, str]:
    return {entry["key"]: entry["by"] for entry in outcome.facts["carried"]}


def settings_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.report is not None
    return {entry.key: entry for entry in outcome.report.files[0].settings}


def test_a_plan_reaches_an_unmodified_program(mpi: Mpi, strided: Callable[[Mpi], Path], bench: Bench) -> None:
    command = [*mpi.mpiexec(3), str(strided(mpi)), "data"]
    extra = [Setting(MCA, "io", "^ompio")] if mpi.name == "openmpi" else []
    with bench.runner(*command) as runner:
        preflight = runner.prepare()
        observed = run(runner, launch(0))
        applied = run(runner, launch(1, hint("romio_cb_write", "enable"), *extra))
    assert preflight.io == ("romio" if mpi.name == "mpich" else "ompio")
    assert preflight.workload.processes == 3
    assert str(preflight.environment["mpi_path"]).startswith(str(mpi.mpicc.parent.parent.resolve()))
    assert "the program" in preflight.fingerprint
    assert observed.state is State.FINISHED, observed.reason
    assert observed.report is not None
    assert observed.report.runtime.mode == "observe"
    assert observed.report.job.ranks == 3
    assert applied.state is State.FINISHED, applied.reason
    assert applied.report is not None
    assert applied.report.runtime.plan_id == "test.1"
    assert applied.report.mpi.io == "romio"
    assert settings_of(applied)["romio_cb_write"].given == "enable"
    assert carried(applied)["romio_cb_write"] == "runtime"
    assert applied.facts.nodes == 1


def test_the_plan_wins_over_mca_on_the_command_line(openmpi: Mpi, strided: Callable[[Mpi], Path], bench: Bench) -> None:
    command = [*openmpi.launcher, "--mca", "io", "ompio", "-n", "2", str(strided(openmpi)), "data"]
    with bench.runner(*command) as runner:
        assert runner.prepare().io == "ompio"
        outcome = run(runner, launch(0, Setting(MCA, "io", "romio341")))
    assert outcome.report is not None
    assert outcome.report.mpi.io == "romio"


@pytest.mark.parametrize("chosen", [False, True])
def test_what_a_killed_launch_left_does_not_end_a_later_one_with_its_process_number(
    openmpi: Mpi, strided: Callable[[Mpi], Path], bench: Bench, monkeypatch: pytest.MonkeyPatch, chosen: bool
) -> None:
    for variable in SESSIONS:
        monkeypatch.delenv(variable)
    folder = bench.runs.parent / "tmp"
    folder.mkdir()
    fake = bench.cwd / "mpiexec"
    left = 'mkdir "$TMPDIR/ompi.$$" && touch "$TMPDIR/ompi.$$/pmix.$(hostname).tool"'
    fake.write_text(f'#!/bin/bash\n{left}\necho "$PRTE_MCA_prte_tmpdir_base"\nexec {openmpi.launcher[0]} "$@"\n')
    fake.chmod(0o755)
    environment = {"TMPDIR": str(folder)} | ({"PRTE_MCA_prte_tmpdir_base": str(folder)} if chosen else {})
    command = [str(fake), *openmpi.launcher[1:], "-n", "1", str(strided(openmpi)), "data"]
    outcome = bench.run(*command, environment=environment)
    base = Path((bench.runs / "0/stdout").read_text().splitlines()[0])
    if chosen:
        assert base == folder
        assert "exit code 213" in outcome.reason
    else:
        assert outcome.state is State.FINISHED, outcome.reason
        assert base.parent == folder
        assert not base.exists()


def test_only_the_program_is_preloaded(mpich: Mpi, strided: Callable[[Mpi], Path], bench: Bench) -> None:
    fake = bench.cwd / "mpiexec"
    fake.write_text(f'#!/bin/bash\necho "launcher: $LD_PRELOAD"\nexec {mpich.launcher[0]} "$@"\n')
    fake.chmod(0o755)
    outcome = bench.run(str(fake), "-n", "2", str(strided(mpich)), "data")
    assert outcome.report is not None
    assert "launcher: \n" in (bench.runs / "0/stdout").read_text()


def test_the_runtime_reaches_through_a_script(mpich: Mpi, strided: Callable[[Mpi], Path], bench: Bench) -> None:
    script = bench.cwd / "job.sh"
    script.write_text(f"#!/bin/bash\n# a job\ncd {bench.cwd}\n{mpich.launcher[0]} -n 2 {strided(mpich)} data\n")
    for command in (["bash", "job.sh"], ["./job.sh"]):
        script.chmod(0o755)
        with bench.runner(*command, objective="write_bandwidth") as runner:
            preflight = runner.prepare()
            outcome = run(runner, launch(0, hint("romio_cb_write", "disable")))
        assert any(line.startswith("MPI ") and "named in job.sh" in line for line in preflight.summary)
        assert outcome.state is State.FINISHED, outcome.reason
        assert settings_of(outcome)["romio_cb_write"].given == "disable"


@pytest.mark.parametrize("how", ["setuid", "capabilities"])
def test_a_privileged_program_gets_a_hints_file_and_it_acts(
    how: str, mpich: Mpi, strided: Callable[[Mpi], Path], bench: Bench
) -> None:
    program = bench.cwd / "strided"
    shutil.copy(strided(mpich), program)
    if how == "setuid":
        program.chmod(0o4755)
        require(program.stat().st_mode & 0o4000, "this file system drops set-id bits")
    else:
        require(shutil.which("setcap", path="/sbin:/usr/sbin:/bin"), "no setcap: apt install libcap2-bin")
        made = subprocess.run(["setcap", "cap_net_raw+p", program], env={"PATH": "/sbin:/usr/sbin:/bin"}, check=False)
        require(made.returncode == 0, "file capabilities cannot be set here")
    command = [*mpich.mpiexec(2), str(program), "data"]
    # ROMIO prints the hints in use: evidence that does not come from the runtime, which is not there.
    with bench.runner(*command, env={"ROMIO_PRINT_HINTS": "1"}) as runner:
        preflight = runner.prepare()
        outcome = run(runner, launch(0, hint("romio_cb_write", "disable"), hint("cb_config_list", "*:1 x")))
    assert any("cannot be preloaded" in line and how[:6] in line for line in preflight.warnings)
    assert "settings  by ROMIO_HINTS" in preflight.summary
    wins = {entry["key"]: (entry["by"], entry["wins"]) for entry in outcome.facts["carried"]}
    assert wins["romio_cb_write"] == ("ROMIO_HINTS", "the program's own hints win")
    assert outcome.state is State.FINISHED, outcome.reason
    assert outcome.report is None
    assert carried(outcome) == {"romio_cb_write": "ROMIO_HINTS", "cb_config_list": "none"}
    printed = (bench.runs / "0/stdout").read_text()
    assert any("romio_cb_write" in line and "disable" in line for line in printed.splitlines()), printed
    with pytest.raises(
        UserError, match=r"objective write_bandwidth is measured by the preloaded runtime.*use --objective elapsed"
    ):
        bench.prepare(*command, objective="write_bandwidth")


def test_files_that_runs_used_leave_the_memory_before_the_next(
    mpich: Mpi, strided: Callable[[Mpi], Path], bench: Bench
) -> None:
    require(mount_type(bench.cwd) not in ("tmpfs", "ramfs"), f"{bench.cwd} lies in memory, whose pages cannot leave it")
    command = [*mpich.mpiexec(2), str(strided(mpich)), "data"]
    with bench.runner(*command, hooks={"drop_caches": "advise"}) as runner:
        first, second = run(runner, launch(0)), run(runner, launch(1))
    assert (first.facts["cache"], second.facts["cache"]) == ("unknown", "advised")


def test_a_darshan_log_is_asked_for_in_the_runs_folder(bench: Bench) -> None:
    bench.shell("echo $DARSHAN_LOGFILE", objective="darshan_bandwidth")
    assert (bench.runs / "0/stdout").read_text() == f"{bench.runs}/0/run.darshan\n"


FAULTS = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1 && !strcmp(argv[1], "segv"))
        *(volatile int *)0 = 1;
    if (rank == 1 && !strcmp(argv[1], "abort"))
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (rank == 1 && !strcmp(argv[1], "hang"))
        for (;;)
            pause();
    if (!strcmp(argv[1], "quit")) {
        MPI_Barrier(MPI_COMM_WORLD);
        _exit(0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="session")
def faults(mpich: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "faults.c").write_text(FAULTS)
    subprocess.run([mpich.mpicc, "-o", folder / "faults", folder / "faults.c"], check=True)
    return folder / "faults"


@pytest.mark.parametrize(
    ("fault", "limit", "reason"),
    [
        ("segv", 60.0, "ended by SIGSEGV"),
        ("abort", 60.0, "exit code 5"),
        ("hang", 3.0, "still running at its time limit of 3 s"),
    ],
)
def test_a_rank_that_fails_fails_the_run_with_its_reason(
    fault: str, limit: float, reason: str, mpich: Mpi, faults: Path, bench: Bench
) -> None:
    outcome = bench.run(*mpich.mpiexec(2), str(faults), fault, planned=launch(0, timeout=limit))
    assert outcome.state is State.FAILED
    assert reason in outcome.reason
    assert bench.leftovers() == []


def test_a_run_without_its_report_is_failed_where_the_report_is_needed(mpich: Mpi, faults: Path, bench: Bench) -> None:
    command = [*mpich.mpiexec(2), str(faults), "quit"]
    needed = bench.run(*command, objective="write_bandwidth")
    assert needed.state is State.FAILED
    assert needed.reason.startswith("no report: the runtime wrote none, and objective write_bandwidth needs one")
    tuned = bench.run(*command, planned=launch(1, hint("cb_nodes", "2")))
    assert tuned.state is State.FAILED
    assert "nothing shows that cb_nodes was applied" in tuned.reason
    plain = bench.run(*command, planned=launch(2))
    assert plain.state is State.FINISHED
    assert plain.facts["no_report"] == "the runtime wrote none"


def test_a_full_disk_without_room_for_the_report_is_no_failure_of_settings(
    mpich: Mpi, faults: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stripewise.runners.judge._FULL", 1 << 62)
    with pytest.raises(StripewiseError, match=r"run 0: the runtime wrote none; the file system of .* is full; make"):
        bench.run(*mpich.mpiexec(2), str(faults), "quit", objective="write_bandwidth")


def test_a_report_cut_off_is_told(mpich: Mpi, faults: Path, bench: Bench) -> None:
    script = bench.cwd / "cut.sh"
    script.write_text(f'{mpich.launcher[0]} -n 1 {faults} ok; truncate -s 40 "$STRIPEWISE_REPORT"\n')
    outcome = bench.run("bash", "cut.sh", objective="io_time")
    assert outcome.state is State.FAILED
    assert "is not JSON" in outcome.reason


def test_a_launcher_of_another_mpi_is_refused(
    mpich: Mpi, openmpi: Mpi, strided: Callable[[Mpi], Path], bench: Bench
) -> None:
    with pytest.raises(UserError, match="belongs to MPICH, but the program is built with Open MPI"):
        bench.prepare(*mpich.mpiexec(2), str(strided(openmpi)), "data")


def test_a_missing_mpi_library_is_found_beforehand(mpich: Mpi, bench: Bench) -> None:
    subprocess.run([mpich.mpicc, "-o", bench.cwd / "app", PROGRAMS / "strided.c", "-Wl,-rpath-link,/"], check=True)
    content = (bench.cwd / "app").read_bytes()
    (bench.cwd / "app").write_bytes(content.replace(b"libmpi.so.12\0", b"libmpi.so.99\0"))
    with pytest.raises(UserError, match=r"asks for libmpi\.so\.99, which is not found; load its module .tune --setup"):
        bench.prepare(*mpich.mpiexec(2), "./app", "data")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ([], "the command names no program"),
        (["mpiexec-nonesuch", "-n", "2", "true"], "command not found: mpiexec-nonesuch"),
        (["env", "A=b", "./absent"], r"command not found: \./absent"),
        (["apptainer", "exec", "image.sif", "./app"], "started in a container by apptainer"),
    ],
)
def test_commands_that_cannot_run_are_refused(command: list[str], message: str, bench: Bench) -> None:
    (bench.cwd / "apptainer").write_text("#!/bin/sh\n")
    (bench.cwd / "apptainer").chmod(0o755)
    with pytest.raises(UserError, match=message):
        bench.prepare(*command, environment={"PATH": f"{bench.cwd}:{os.environ['PATH']}"})


def test_the_text_of_a_shell_is_looked_into_as_a_script_is(
    mpich: Mpi, strided: Callable[[Mpi], Path], bench: Bench
) -> None:
    (bench.cwd / "deck").write_text("a deck\n")
    start, program = shlex.join(mpich.mpiexec(2)), strided(mpich)
    for text in (f"{start} {program} data < deck 2> errors", f"true; for i in 1; do {start} {program} data$i; done"):
        found = bench.prepare("bash", "-c", text)
        assert found.command == (
            f"command   {program} {'data' if 'deck' in text else repr('data$i')}, 2 ranks by mpiexec, behind bash -c",
        )
        assert found.environment["mpi_path"]
    outcome = bench.run("bash", "-c", f"{start} {program} data < deck 2> errors", objective="write_bandwidth")
    assert outcome.state is State.FINISHED, outcome.reason
    assert outcome.report is not None
    each = [*mpich.mpiexec(2), "bash", "-c", f"exec {program} data < deck 2>&1"]
    outcome = bench.run(*each, planned=launch(1), objective="write_bandwidth")
    assert outcome.state is State.FINISHED, outcome.reason


def test_settings_reach_a_program_behind_a_wrapper_of_the_user(
    mpich: Mpi, strided: Callable[[Mpi], Path], bench: Bench
) -> None:
    (bench.cwd / "pick").write_text('#!/bin/bash\nexport DEVICE=0\nexec "$@"\n')
    (bench.cwd / "pick").chmod(0o755)
    command = [*mpich.mpiexec(2), "./pick", str(strided(mpich)), "data"]
    assert bench.prepare(*command).command[0].endswith("2 ranks by mpiexec, behind pick")
    assert bench.run(*command, objective="write_bandwidth").state is State.FINISHED


def test_signs_of_a_shell_are_told(bench: Bench) -> None:
    assert any("no shell reads the command" in line for line in bench.prepare("echo", "a", ">", "b").warnings)


def test_a_machine_without_compiler_uses_what_was_built_before(
    mpich: Mpi, strided: Callable[[Mpi], Path], bench: Bench
) -> None:
    command = [*mpich.mpiexec(2), str(strided(mpich)), "data"]
    bench.prepare(*command)
    bare = bench.cwd / "bare"
    bare.mkdir()
    without = bench.prepare(*command, environment={"PATH": str(bare)})
    # Another compiler may have built the same sources for the same interface: any of these builds serves.
    (settings,) = [line for line in without.summary if "by the preloaded runtime" in line]
    assert "/runtime-mpich-" in settings


def test_darshan_like_libraries_stay_behind_ours(mpich: Mpi, strided: Callable[[Mpi], Path], bench: Bench) -> None:
    (bench.cwd / "spy.c").write_text(
        textwrap.dedent("""
        #include <stdio.h>
        #include <stdlib.h>
        __attribute__((constructor)) static void say(void) { printf("preload %s\\n", getenv("LD_PRELOAD")); }
    """)
    )
    spy = bench.cwd / "libspy.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", spy, bench.cwd / "spy.c"], check=True)
    command = [*mpich.launcher, "-n", "1", "env", f"LD_PRELOAD={spy}", str(strided(mpich)), "data"]
    outcome = bench.run(*command)
    assert outcome.report is not None
    printed = (bench.runs / "0/stdout").read_text()
    assert f"libstripewise.so:{spy}\n" in printed
