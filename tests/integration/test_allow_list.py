"""Lists of allowed commands under attack: a service starts only what a pattern names, however a command is written."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from stripewise.desk.server.policy import check_campaign, check_experiment
from stripewise.desk.server.problems import Refused
from stripewise.desk.server.service import Settings
from stripewise.errors import CannotExecute, StripewiseError, UserError
from stripewise.requests.campaign import parse_campaign
from stripewise.requests.experiment import Experiment
from stripewise.runners.allow_list import AllowList
from stripewise.runners.injection import words_of
from stripewise.runners.program.binary import inspect

DOCS = Path(__file__).parents[2] / "docs"
SHELL = "/bin/sh"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine in small: launchers and tools on PATH, codes of the site, a user's folder with programs and links."""
    root = tmp_path.resolve()
    for name in ("mpiexec", "srun", "env", "time", "numactl", "timeout", "solver", "sh", "python3", "gdb-13", "find"):
        _program(root / "bin" / name)
    for name in ("a/app", "b/app", "a/deep/evil", "run.py", "run.sh"):
        _program(root / "opt" / name)
    for name in ("app", "evil", "run.sh"):
        _program(root / "jobs" / name)
    (root / "jobs" / "linked").symlink_to(SHELL)
    (root / "opt" / "a" / "linked").symlink_to(SHELL)
    (root / "opt" / "current").symlink_to(root / "opt" / "a")
    monkeypatch.setenv("PATH", str(root / "bin"))
    return root


def _program(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)


def accepted(site: Path, pattern: str, command: str | list[str]) -> bool:
    """Say whether a service with one pattern takes an experiment with the command."""
    words = shlex.split(command.replace("SITE", str(site))) if isinstance(command, str) else command
    settings = Settings(data=site / "jobs", allow=(pattern.replace("SITE", str(site)),))
    try:
        check_experiment(Experiment(command=words), site / "jobs", settings)
    except Refused as refused:
        assert refused.status == 403 and "allow-list" in str(refused)
        return False
    return True


LAUNCH = "mpiexec -n * ./app ..."
SRUN = "srun -n * SITE/opt/*/app ..."


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        (LAUNCH, "mpiexec -n 4 ./app"),
        (LAUNCH, "mpiexec -n 4 ./app input -v {run}"),
        (LAUNCH, "SITE/bin/mpiexec -n 4 ./sub/../app"),
        (LAUNCH, "mpiexec -n 4 SITE/jobs/app"),
        (LAUNCH, "mpiexec -n 4 ./app x : -n 1 ./app y"),
        (SRUN, "srun -n 4 SITE/opt/a/app"),
        (SRUN, "srun -n4 SITE/opt/b/app x"),
        (SRUN, "srun -n 4 SITE/opt/current/app"),
        ("SITE/opt/current/app", "SITE/opt/a/app"),
        ("srun --ntasks=* -N * ./app", "srun -N 2 --ntasks=4 ./app"),
        ("srun --ntasks * ./app", "srun --ntasks=4 ./app"),
        ("mpiexec -n * ./app : -n 1 SITE/opt/b/app", "mpiexec -n 4 ./app : -n 1 SITE/opt/b/app"),
        ("env OMP_NUM_THREADS=* ./app", "env OMP_NUM_THREADS=4 ./app"),
        ("mpiexec -n * -genv OMP_NUM_THREADS * ./app", "mpiexec -genv OMP_NUM_THREADS 2 -n 4 ./app"),
        ("mpiexec -n * numactl -m * ./app", "mpiexec -n 2 numactl -m 0 ./app"),
        ("timeout * solver", "timeout 10 solver"),
        ("python3 SITE/opt/run.py ...", "python3 SITE/opt/a/../run.py --size 4"),
        ("python3 -u SITE/opt/run.py ...", "python3 -u SITE/opt/run.py x"),
        ("sh -c 'exec solver'", ["sh", "-c", "exec solver"]),
        ("./app -s *", "./app -s 4M"),
    ],
)
def test_what_a_pattern_names_is_allowed(site: Path, pattern: str, command: str | list[str]) -> None:
    assert accepted(site, pattern, command)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        # Another program of the same launch.
        (LAUNCH, "mpiexec -n 4 ./app : -n 1 sh -c id"),
        (LAUNCH, "mpiexec -n 4 ./app x : ./evil"),
        (LAUNCH, "mpiexec -n 4 ./app : -n 1 ./app : -n 1 ./evil"),
        (LAUNCH, "mpiexec -n 4 ./app : -n 1 -env LD_PRELOAD ./evil.so ./app"),
        ("srun -n * ./app ...", "srun -n 1 ./app : -n 1 ./evil"),
        ("unknownrun -n * ./app ...", "unknownrun -n 1 ./app : -n 1 ./evil"),
        # A wildcard across folders, folders above, links.
        (SRUN, "srun -n 4 SITE/opt/a/deep/evil/../../app/../../../jobs/evil"),
        ("SITE/opt/*", "SITE/opt/a/deep/evil"),
        ("SITE/opt/*", "SITE/opt/../jobs/evil"),
        ("SITE/opt/*/*", "SITE/opt/a/../../jobs/evil"),
        ("SITE/opt/*/*", "SITE/opt/a/linked"),
        ("./*", "./linked"),
        ("./*", "./../bin/sh"),
        # A value of the launcher's options that is another option, or more than one word's worth.
        ("mpiexec -n * ./app", "mpiexec -n -configfile ./app"),
        ("mpiexec -n * ./*", "mpiexec -n : ./app"),
        ("srun --export=OMP_NUM_THREADS=* ./app", "srun --export=OMP_NUM_THREADS=1,LD_PRELOAD=evil.so ./app"),
        # Placeholders that become something else when the program starts.
        ("./*", "./{romio_cb_write}"),
        ("mpiexec -n * ./app", "mpiexec -n {run} ./app"),
        ("./app -s *", "./app -s {run}"),
        # Programs that start others.
        ("SITE/bin/* ...", "SITE/bin/sh -c id"),
        ("SITE/bin/* ...", "SITE/bin/env ./evil"),
        ("SITE/bin/* ...", "SITE/bin/mpiexec -n 1 ./evil"),
        ("SITE/bin/* ...", "SITE/bin/python3 -c 1"),
        ("SITE/bin/* ...", "SITE/bin/gdb-13 -ex x"),
        ("SITE/bin/* ...", "SITE/bin/find . -exec id ;"),
        # No file has such a name: refused like any other, not an error of the system.
        ("mpiexec -n * SITE/bin/solver ...", f"mpiexec -n 4 {'a' * 300}"),
    ],
)
def test_no_program_is_smuggled_in(site: Path, pattern: str, command: str) -> None:
    assert not accepted(site, pattern, command)


def test_a_file_of_the_folder_does_not_stand_in_for_a_program_on_path(site: Path) -> None:
    """srun looks into the folder first, so that a bare name may mean a file there."""
    assert accepted(site, "srun -n * solver", "srun -n 1 solver")
    _program(site / "jobs" / "solver")
    assert not accepted(site, "srun -n * solver", "srun -n 1 solver")


@pytest.mark.parametrize(
    "words",
    [
        "--mca mca_base_env_list LD_PRELOAD=/tmp/evil.so",
        "x -mca mca_base_env_list LD_PRELOAD=/tmp/evil.so",
        "--gmca mca_base_env_list LD_PRELOAD=/tmp/evil.so",
        "--prtemca prte_default_hostfile hosts --prtemca plm ssh --prtemca plm_ssh_agent /tmp/evil",
        "--pmixmca mca_base_component_path /tmp",
        "--personality prte",
    ],
)
def test_options_after_the_program_do_not_reach_the_launcher(site: Path, words: str) -> None:
    """Open MPI's mpirun obeys these wherever they stand, so that they would preload a library or start an agent."""
    assert not accepted(site, LAUNCH, f"mpiexec -n 4 ./app {words}")
    assert not accepted(site, LAUNCH, f"mpiexec -n 4 ./app : -n 1 ./app {words}")
    assert accepted(site, "./app ...", f"./app {words}")
    assert accepted(site, f"mpiexec -n * ./app {words}", f"mpiexec -n 4 ./app {words}")


@pytest.mark.parametrize("way", ["options", "wrappers", "assignments", "shells"])
@pytest.mark.parametrize("pattern", [LAUNCH, "srun -n * ./app ...", "./app ..."])
def test_options_and_wrappers_that_a_pattern_does_not_name_are_refused(site: Path, pattern: str, way: str) -> None:
    line = pattern.removesuffix(" ...").replace("*", "4")
    launcher, rest = line.partition(" ")[::2] if " " in line else ("", line)
    ways = {
        "options": [
            f"{launcher} {option} {rest}"
            for option in (
                *(
                    "-configfile x",
                    "--app x",
                    "--app=x",
                    "-env LD_PRELOAD x.so",
                    "-genv LD_PRELOAD x.so",
                    "-x LD_PRELOAD",
                ),
                *(
                    "-launcher-exec ./evil",
                    "-bootstrap-exec ./evil",
                    "--mca plm_rsh_agent ./evil",
                    "-wdir /tmp",
                    "-path .",
                ),
                *(
                    "--tune x",
                    "--am x",
                    "--prefix /tmp",
                    "--xterm 1",
                    "--multi-prog",
                    "--prolog=./evil",
                    "--prolog ./evil",
                ),
                *("--task-prolog ./evil", "--task-epilog=./evil", "--epilog=./evil", "--export=ALL,LD_PRELOAD=x.so"),
                *("-D /tmp", "--chdir=/tmp", "--bcast=x", "-n 1", "--", "-", "--unknown ./evil", "-l ./evil"),
            )
            if launcher
        ],
        "wrappers": [
            f"{wrapper} {line}"
            for wrapper in ("env", "time", "numactl -m 0", "timeout 9", "env -i", "env -S x", "nice", "sudo", "setsid")
        ],
        "assignments": [f"env LD_PRELOAD=./evil.so {line}", line.replace("./app", "env LD_PRELOAD=./evil.so ./app")],
        "shells": [
            *("sh -c id", f"sh -c '{line}'", f"'{line} x'", f"{line.replace('./app', 'sh')} -c id", f"'{line}; id'"),
            *(line.replace("./app", word) for word in ("'./app;id'", "'./app|sh'", "'$(id)'", "'`id`'", "'./app\nid'")),
            *(
                line.replace("./app", word)
                for word in ("./evil", "./app/../evil", "../jobs/evil", SHELL, "''", "./linked")
            ),
        ],
    }
    for command in ways[way]:
        assert not accepted(site, pattern, command), command


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "",
            "...",
            "*",
            "* ...",
            "mpiexec -n *",
            "mpiexec -n * ...",
            "mpiexec -n * * ...",
            "mpiexec * ./app",
            "./app 'x",
        ),
        *("sh ...", "sh -c ...", "sh -c *", "python3 * ...", "python3 -u ...", "perl -e *", "make ...", "xargs ..."),
        *("env *=* ./app", "mpiexec -env * * ./app", "mpiexec -x * ./app", "srun --export=* ./app"),
        *("mpiexec --mca * * ./app", "mpiexec -configfile * ./app", "mpiexec --app=* ./app", "srun --prolog=* ./app"),
        *(
            "mpiexec -wdir * /opt/app",
            "mpiexec -wdir /opt ./app",
            "srun --multi-prog /opt/*",
            "srun --*=4 ./app",
            "solver : ...",
        ),
        # Values and further arguments that say what is started.
        *("find /opt ...", "find /opt -name *", "gdb --args ./app ...", "gdb-13 ./app ...", "valgrind ./app ..."),
        *("strace -o /tmp/x ./app *", "awk -f /opt/x.awk *", "flock /opt/lock ...", "rsync /opt/a *", "su -c *"),
        *("/lib64/ld-linux-x86-64.so.2 ./app ...", "chroot /opt ...", "xargs -a /opt/list *", "python3.11 ..."),
        *("mpiexec -n * gdb -batch --args ./app ...", "mpiexec -n * perf record ./app ...", "php8.2 -r *"),
        *("pdsh -w * /opt/app", "clush -a ...", "dplace -s1 ./app ...", "lsrun ./app *", "stripewise ...", "socat * *"),
        *("make -f /opt/Makefile ...", "xargs -a /opt/list ...", "parallel /opt/app ...", "R -f /opt/run.R ..."),
        *("perl -I /opt/lib ...", "python3 -X /opt/lib ...", "bash --init-file /opt/lib *"),
        *("apptainer exec /opt/image.sif ...", "docker run site/image ...", "apptainer exec /opt/image.sif * ..."),
        *("env -S * ./app", "env --split-string=* ./app", "flux run -o * ./app", "flux run -o userrc=* ./app"),
        *("mpirun --mca plm_rsh_agent * ./app", "mpirun --mca mca_base_env_list * ./app"),
        *("mpirun --mca mca_base_component_path * ./app", "mpirun --prtemca prte_default_hostfile * ./app"),
    ],
)
def test_a_pattern_that_allows_any_program_is_an_error(pattern: str) -> None:
    with pytest.raises(UserError, match="pattern of commands"):
        AllowList([pattern])


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "make -f /opt/Makefile all",
            "find /opt -name x",
            "mpiexec -n * gdb -batch --args ./app input",
            "apptainer exec /opt/image.sif /opt/app ...",
            "apptainer run /opt/image.sif ...",
        ),
        *(
            "java -jar /opt/a.jar ...",
            "python3 -W ignore /opt/run.py ...",
            "bash -e /opt/run.sh ...",
            "Rscript /opt/x.R *",
        ),
        *("mpirun --mca pml * ./app", "flux run -o mpi=* ./app"),
    ],
)
def test_patterns_that_name_what_is_started_are_taken(pattern: str) -> None:
    assert AllowList([pattern]).patterns == (pattern,)


REAL = {
    "shell": "/bin/sh",
    "python": sys.executable,
    "perl": "perl",
    "find": "find",
    "env": "env",
    "solver": "true",
    "make script": "#!/usr/bin/make -f\nall:\n",
    "stdin script": "#!/bin/sh -s\n",
    "sh script": "#!/bin/sh\necho\n",
    "python script": "#!/usr/bin/env python3\nprint()\n",
}


@pytest.mark.parametrize("kind", REAL)
@pytest.mark.parametrize("way", ["copy", "link"])
def test_programs_that_start_others_are_known_by_what_they_are(site: Path, kind: str, way: str) -> None:
    """A shell, an interpreter or a tool under another name starts what its arguments say; a program of its own not."""
    program = site / "opt" / "codes" / "named"
    program.parent.mkdir()
    if REAL[kind].startswith("#!"):
        program.write_text(REAL[kind])
        program.chmod(0o755)
    else:
        path = "/usr/bin:/bin"
        real = os.path.realpath(shutil.which(REAL[kind], path=path) or pytest.skip(f"needs {kind}"))
        shutil.copy(real, program) if way == "copy" else program.symlink_to(real)
    own = kind in ("solver", "sh script", "python script")
    assert accepted(site, "SITE/opt/codes/named ...", "SITE/opt/codes/named -c id") == own
    assert accepted(site, "srun -n * SITE/opt/codes/named *", "srun -n 1 SITE/opt/codes/named id") == own
    assert accepted(site, "SITE/opt/codes/* ...", "SITE/opt/codes/named -c id") == (
        own and program.resolve().parent == program.parent
    )
    # All words are the site's own.
    assert accepted(site, "SITE/opt/codes/named -c id", "SITE/opt/codes/named -c id")
    settings = Settings(data=site / "jobs", allow=("SITE/opt/codes/named".replace("SITE", str(site)),))
    asked = Experiment(command=[str(program)], stdin={"text": "id"})
    if own:
        check_experiment(asked, site / "jobs", settings)
    else:
        with pytest.raises(Refused, match="'stdin' is not allowed"):
            check_experiment(asked, site / "jobs", settings)


def test_looking_at_files_ends_soon_whatever_they_are(site: Path) -> None:
    """A pipe that nobody writes, a device without end, and programs to which 1 TiB of nothing is appended."""
    (codes := site / "opt" / "codes").mkdir()
    os.mkfifo(codes / "pipe", 0o755)
    (codes / "script").write_text(f"#!{codes}/pipe\n")
    codes.joinpath("zero").symlink_to("/dev/zero")
    for name, real in (("shell", os.path.realpath(SHELL)), ("find", shutil.which("find", path="/usr/bin:/bin"))):
        shutil.copy(str(real), codes / name)
        os.truncate(codes / name, 1 << 40)
    (codes / "find").rename(codes / "finder")
    began = time.process_time()
    for name in ("shell", "finder"):
        assert not accepted(site, "SITE/opt/codes/* ...", f"SITE/opt/codes/{name} -c id")
    settings = Settings(data=site / "jobs", allow=("/bin/cat ...",))
    for name in ("pipe", "zero"):
        given = Experiment(command=["/bin/cat", str(codes / name)], stdin={"text": "a"})
        check_experiment(given, site / "jobs", settings)
    with pytest.raises(CannotExecute, match="not a regular file"):
        inspect(codes / "pipe", {}, site)
    assert inspect(codes / "script", {}, site).elf is None
    assert time.process_time() - began < 10


def test_a_name_on_path_that_leads_to_a_shell_is_no_program_of_its_own(site: Path) -> None:
    (site / "bin" / "tool").symlink_to(SHELL)
    assert not accepted(site, "tool ...", "tool -c id")
    assert not accepted(site, "srun -n * tool ...", "srun -n 1 tool -c id")
    assert accepted(site, "solver ...", "solver -c id")


def test_a_value_does_not_divide_the_command() -> None:
    """With a colon as its value, the words after a placeholder would be another program."""
    experiment = Experiment(command=["mpiexec", "-n", "4", "./app", "{x}", "-n", "1", "sh"])
    assert words_of(experiment, None, {"x": "a"})[4] == "a"
    with pytest.raises(UserError, match="becomes a colon"):
        words_of(experiment, None, {"x": ":"})
    with pytest.raises(UserError, match="becomes '--mca', an option of the launcher"):
        words_of(experiment, None, {"x": "--mca"})


# -- other ways to name what is started ----------------------------------------------------------------------------

STACK = """
name = "own"
[[parameter]]
name = "x"
kind = "categorical"
values = ["a", "/evil.so"]
carrier = "env"
key = "LD_PRELOAD"
"""


@pytest.mark.parametrize("name", ["own.toml", "own", "own.txt"])
def test_a_stack_file_is_refused_whatever_its_name(site: Path, name: str) -> None:
    (site / "jobs" / name).write_text(STACK)
    settings = Settings(data=site / "jobs", allow=("./app",))
    with pytest.raises(Refused, match="'stack files' is not allowed"):
        check_experiment(Experiment(command=["./app"], stacks=[str(site / "jobs" / name)]), site / "jobs", settings)


def test_a_file_beside_the_service_is_confined_though_its_name_has_no_slash(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site / "own").write_text(STACK)
    monkeypatch.chdir(site)
    settings = Settings(data=site / "jobs")
    for changes in ({"stacks": ["own"]}, {"runner": "sim:own"}, {"command": ["./app", "{adios2:../own}"]}):
        with pytest.raises(StripewiseError, match=r"absolute path|outside"):
            check_experiment(Experiment.model_validate({"command": ["./app"], **changes}), site / "jobs", settings)


def test_a_shell_that_is_allowed_gets_no_standard_input(site: Path) -> None:
    settings = Settings(data=site / "jobs", allow=("/bin/sh", "/bin/cat"))
    for command, given in (("/bin/sh", None), ("/bin/cat", {"text": "a"})):
        check_experiment(Experiment(command=[command], stdin=given), site / "jobs", settings)
    with pytest.raises(Refused, match="'stdin' is not allowed"):
        check_experiment(Experiment(command=["/bin/sh"], stdin={"text": "id"}), site / "jobs", settings)


@pytest.mark.parametrize(
    "given",
    [
        'setup = ["id"]',
        'launcher = "sh -c id"',
        'program = "command"\ncommand = "sh"',
        'env = {LD_PRELOAD = "/evil.so"}',
        'stacks = ["SITE/jobs/own"]',
        '[batch]\ndirectives = ["--export=ALL,LD_PRELOAD=/evil.so"]',
    ],
)
def test_a_campaign_names_nothing_that_starts_programs(site: Path, given: str) -> None:
    (site / "jobs" / "own").write_text(STACK)
    given = given.replace("SITE", str(site))
    text = f'name = "c"\n{given}\n[files]\nfolder = "{site}/jobs"\n[[tunable]]\nname = "x"\nvalues = ["a"]\n'
    settings = Settings(data=site / "jobs", allow=("./app",))
    with pytest.raises(Refused, match="allow-list"):
        check_campaign(parse_campaign(text, "c"), settings)


def test_the_table_of_a_replay_is_confined_whatever_follows_it(site: Path) -> None:
    """Text after @, and links in the place of a table's two files, led to other files."""
    text = 'name = "c"\nrunner = "replay:{}"\n[[tunable]]\nname = "x"\nvalues = ["a"]\n'
    with pytest.raises(UserError, match="leave out '@'"):
        parse_campaign(text.format(f"{site}/jobs/t@/../../secret"), "c")
    for name in ("", "/"):
        with pytest.raises(StripewiseError, match=r"absolute path|outside"):
            check_experiment(Experiment(runner=f"replay:{name}"), site / "jobs", Settings(data=site / "jobs"))
    (site / "jobs" / "t.csv").symlink_to(site / "secret.csv")
    settings = Settings(data=site / "jobs")
    with pytest.raises(Refused, match="outside the folders"):
        check_campaign(parse_campaign(text.format(f"{site}/jobs/t"), "c"), settings)
    with pytest.raises(Refused, match="outside the folders"):
        check_experiment(Experiment(runner=f"replay:{site}/jobs/t.toml@x=1"), site / "jobs", settings)


# -- the examples of the guides ------------------------------------------------------------------------------------


def examples() -> list[str]:
    """Every pattern that the documentation shows."""
    guide = (DOCS / "how-to" / "run-the-service.md").read_text()
    sites = (DOCS / "reference" / "sites.md").read_text()
    found = re.findall(r"--allow '([^']+)'", guide + (DOCS / "reference" / "commands.md").read_text())
    found += re.findall(r"--allow \"([^\"]+)\"", guide)
    for block in re.findall(r"```toml\n(.*?)```", sites, re.DOTALL):
        found += tomllib.loads(block).get("applications", [])
    return sorted(set(found))


ATTACKS: dict[str, Callable[[list[str], int], list[str]]] = {
    "another program": lambda words, at: [*words[:at], SHELL, *words[at + 1 :]],
    "a shell": lambda words, at: [*words[:at], "sh", "-c", "id"],
    "a second program": lambda words, at: [*words, ":", "-n", "1", SHELL, "-c", "id"],
    "folders above": lambda words, at: [*words[:at], f"{words[at]}/../../../../../../../../../../../../bin/sh"],
    "a folder below": lambda words, at: [*words[:at], f"{words[at]}/x/y/sh"],
    "a wrapper": lambda words, at: [*words[:at], "env", "LD_PRELOAD=/evil.so", *words[at:]],
    "a wrapper before": lambda words, at: ["env", "LD_PRELOAD=/evil.so", *words],
    "a preloaded library": lambda words, at: [words[0], "-genv", "LD_PRELOAD", "/evil.so", *words[1:]],
    "a file of commands": lambda words, at: [words[0], "-configfile", "/evil", *words[1:]],
    "a prolog": lambda words, at: [words[0], "--task-prolog=/evil", *words[1:]],
    "a file of programs": lambda words, at: [words[0], "--multi-prog", *words[1:]],
    "another launcher": lambda words, at: ["/tmp/" + words[0], *words[1:]],
    "the launcher's options": lambda words, at: ["-x" if word == "4" else word for word in words],
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("pattern", examples())
def test_the_guides_own_examples_stand(site: Path, pattern: str, attack: Callable[..., Any]) -> None:
    words = [word.replace("*", "4") for word in shlex.split(pattern) if word != "..."]
    at = next(at for at, word in enumerate(words) if "/" in word)
    assert accepted(site, pattern, words)
    assert not accepted(site, pattern, attack(words, at))


def test_the_guides_show_patterns() -> None:
    assert len(examples()) >= 3
