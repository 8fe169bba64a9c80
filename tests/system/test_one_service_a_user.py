"""The service as it is meant for most: two users of one machine, each with a service of their own under systemd."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import require

ROOT = Path(__file__).resolve().parents[2]
MANAGER = Path("/lib/systemd/systemd")
USERS = ("stripewise-ann", "stripewise-ben")
# What other users can reach, wherever the clone and its environment lie.
SEEN = Path("/run/stripewise-test")
COMMAND = f"""#!/bin/sh
export PYTHONPATH={SEEN}/clone/src:{SEEN}/packages LD_LIBRARY_PATH={SEEN}/python/lib
exec {SEEN}/python/bin/python{sys.version_info[0]}.{sys.version_info[1]} -P -m stripewise "$@"
"""
PROGRAM = '#!/bin/sh\nid -un > "$HOME/who"\n'
# Only the processes of the test see these mounts, and a machine that systemd seems to have booted.
VIEW = f"""set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system {SEEN}/python {SEEN}/clone {SEEN}/packages
mount --bind "$1" {SEEN}/python
mount --bind "$2" {SEEN}/clone
mount --bind "$3" {SEEN}/packages
echo ready
exec cat
"""

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.timeout(600)]


def wait(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.3)


@dataclass(frozen=True)
class Person:
    """A user of the machine, seen from within the test's own mounts."""

    name: str
    number: int
    home: Path
    view: int

    def words(self, *command: str) -> list[str]:
        kept = {"HOME": str(self.home), "USER": self.name, "XDG_RUNTIME_DIR": f"/run/user/{self.number}"}
        values = [f"{key}={value}" for key, value in {**kept, "PATH": "/usr/bin:/bin"}.items()]
        person = ["setpriv", f"--reuid={self.number}", f"--regid={self.number}", "--clear-groups"]
        return [
            "nsenter",
            f"--target={self.view}",
            "--mount",
            *person,
            "env",
            "-i",
            "-C",
            str(self.home),
            *values,
            *command,
        ]

    def do(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(*command), capture_output=True, text=True, check=False, timeout=300)

    def stripewise(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.do(str(self.home / ".local/bin/stripewise"), *words)


def groups_of(name: str) -> list[Path]:
    """The control groups that a user's manager may divide: of version 1 and 2 both where the machine has both."""
    top = Path("/sys/fs/cgroup")
    tops = [folder for folder in (top / "systemd", top / "unified", top) if (folder / "cgroup.procs").exists()]
    return [folder / name for folder in tops]


@contextlib.contextmanager
def manager(person: Person) -> Iterator[None]:
    """Run the user's own manager, as a login does."""
    groups = groups_of(person.name)
    for group in groups:
        group.mkdir(exist_ok=True)
        for path in (group, *group.glob("cgroup.*")):
            os.chown(path, person.number, person.number)
    joined = "".join(f"echo $$ > {group}/cgroup.procs; " for group in groups)
    with (person.home / "manager.log").open("w") as log:
        process = subprocess.Popen(
            ["sh", "-c", f'{joined}exec "$@"', "sh", *person.words(str(MANAGER), "--user", "--log-target=console")],
            stdout=log,
            stderr=log,
        )
    try:
        wait(lambda: person.do("systemctl", "--user", "is-system-running").stdout.strip() == "running", 60)
        yield
    finally:
        process.terminate()
        process.wait(120)
        for group in groups:
            for folder in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                folder.rmdir()
            group.rmdir()


@pytest.fixture
def people() -> Iterator[tuple[Person, Person]]:
    """Two users, each with the command and the unit of the package where the guide puts them."""
    needed = ("useradd", "userdel", "unshare", "nsenter", "setpriv", "systemctl")
    require(os.geteuid() == 0 and MANAGER.exists() and all(map(shutil.which, needed)), "needs root and systemd")
    require(bool(groups_of("")), "needs control groups")
    base = Path("/var/tmp/stripewise-people")
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir(mode=0o755)
    view = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", VIEW, "sh", sys.base_prefix, str(ROOT), sysconfig.get_path("purelib")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert view.stdout is not None
        assert view.stdout.readline() == "ready\n"
        found = []
        for name in USERS:
            subprocess.run(["userdel", name], capture_output=True, check=False)
            subprocess.run(["useradd", "--create-home", "--home-dir", str(base / name), name], check=True)
            person = Person(name, pwd.getpwnam(name).pw_uid, base / name, view.pid)
            # As a site may have it: what keeps others out is what the service does itself.
            person.home.chmod(0o755)
            runtime = f"/run/user/{person.number}"
            within = ["nsenter", f"--target={view.pid}", "--mount"]
            subprocess.run([*within, "install", "-d", "-m", "700", "-o", name, "-g", name, runtime], check=True)
            person.do("mkdir", "-p", ".config/systemd/user", ".local/bin")
            for path, text in ((".local/bin/stripewise", COMMAND), ("program.sh", PROGRAM)):
                (person.home / path).write_text(text)
                (person.home / path).chmod(0o755)
            person.do("cp", f"{SEEN}/clone/packaging/systemd/stripewise.service", ".config/systemd/user/")
            found.append(person)
        yield found[0], found[1]
    finally:
        view.communicate()
        for name in USERS:
            subprocess.run(["userdel", name], capture_output=True, check=False)
        shutil.rmtree(base, ignore_errors=True)


def test_each_program_runs_as_the_person_who_asked(people: tuple[Person, Person]) -> None:
    ann, ben = people
    with manager(ann), manager(ben):
        for person in people:
            made = person.stripewise("service", "token", "create", "me", "--role", "admin", "--save")
            assert made.returncode == 0, made.stderr
            started = person.do("systemctl", "--user", "enable", "--now", "stripewise")
            assert started.returncode == 0, started.stderr
        sockets = {person.name: f"/run/user/{person.number}/stripewise.sock" for person in people}
        wait(lambda: all(person.do("test", "-S", sockets[person.name]).returncode == 0 for person in people))
        for person in people:
            options = ["--stack", "romio", "--objective", "elapsed", "--budget", "2"]
            at = ["--server", f"unix:{sockets[person.name]}"]
            done = person.stripewise("tune", *at, *options, "--", str(person.home / "program.sh"))
            assert (person.home / "who").exists(), done.stdout + done.stderr
            assert (person.home / "who").read_text() == f"{person.name}\n"
            assert (person.home / "who").stat().st_uid == person.number
        # Neither the token nor the experiments of the other can be read, and nobody else gets to the socket.
        for person, other in ((ann, ben), (ben, ann)):
            refused = person.stripewise("list", "--server", f"unix:{sockets[other.name]}")
            assert refused.returncode != 0
            assert other.name not in refused.stdout
            for path in (other.home / ".local/state/stripewise", other.home / ".local/share/stripewise"):
                assert person.do("ls", str(path)).returncode != 0
        for person in people:
            assert person.do("systemctl", "--user", "stop", "stripewise").returncode == 0
            assert person.do("systemctl", "--user", "is-active", "stripewise").stdout.strip() == "inactive"
            assert person.do("pgrep", "--uid", str(person.number), "--full", "stripewise serve").stdout == ""
