"""The command blocks of the how-to pages run; those that cannot run on a plain machine say why, and are parsed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import require
from tests.unit.reports import example_log
from tests.unit.test_docs_reference import DOCS, ROOT, blocks_that_run

BIN = Path(sys.executable).parent
PROGRAM = ROOT / "tests" / "fixtures" / "programs" / "strided.c"
PAGES = sorted({page.stem for page, _ in blocks_that_run()})
# Tunes for real what others apply, list and export.
PAGES.sort(key=lambda name: name != "tune-your-program")
SMALLER = {"--budget 40": "--budget 17", "--budget 60": "--budget 20"}


@dataclass
class Sandbox:
    """A user's folder and home."""

    folder: Path
    environment: dict[str, str]
    port: int
    identifier: str = "2df67e55"

    def run(self, page: str, text: str) -> str:
        """Run a page's blocks in one shell, as a reader does."""
        ready = f"until curl -s -o up http://127.0.0.1:{self.port}/api/health; do sleep 0.2; done"
        places = {"/scratch/me": str(self.folder), "8437 &": f"8437 &\n{ready}", "8437": str(self.port)}
        changes = {**places, "2df67e55": self.identifier, **SMALLER}
        for old, new in changes.items():
            text = text.replace(old, new)
        # What is installed stays as it is, and services end with the shell.
        script = f"set -e\npip() {{ :; }}\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}"
        done = subprocess.Popen(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            told, _ = done.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            os.killpg(done.pid, signal.SIGKILL)
            raise
        assert done.returncode == 0, f"{page}:\n{text}\n{told}"
        return told


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    require(shutil.which("curl"), "there is no curl (Debian: apt install curl)")
    folder = tmp_path_factory.mktemp("reader")
    home = folder / "home"
    home.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STRIPEWISE_", "XDG_"))}
    environment |= {
        "HOME": str(home),
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(Path.home() / ".cache"),
    }
    source = folder / "my_app.c"
    source.write_text(PROGRAM.read_text("utf-8").replace("argv[1]", '"out.dat"'))
    subprocess.run([BIN / "mpicc", "-o", folder / "my_app", source], check=True)
    (folder / "input.nml").write_text("&io /\n")
    shutil.copy(example_log(), folder / "job.darshan")
    for name in ("examples", "native", "packaging"):
        shutil.copytree(ROOT / name, folder / name)
    settings = (DOCS / "how-to" / "settings-without-a-run.md").read_text("utf-8")
    workload = re.search(r"```toml\n(\[workload\].*?)```", settings, re.DOTALL)
    assert workload
    (folder / "workload.toml").write_text(workload[1])
    shutil.copy(ROOT / "examples" / "simulated-kay.toml", folder / "my-experiment.toml")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Sandbox(folder, environment, port)
    # Measured on a simulated cluster what takes a hundred launches on a real one.
    made.run(
        "a simulated campaign",
        "stripewise site profile quick --runner sim:kay --out quick\n"
        "for kind in csv toml; do cp quick.$kind quick-table.$kind; done\n"
        "stripewise site train quick --out site.model",
    )
    yield made


@pytest.mark.parametrize("name", PAGES)
def test_the_blocks_of_a_page_run(name: str, sandbox: Sandbox) -> None:
    told = sandbox.run(name, "\n".join(text for page, text in blocks_that_run() if page.stem == name))
    if name == "tune-your-program":
        listed = subprocess.run(
            ["stripewise", "list", "--json"], env=sandbox.environment, capture_output=True, text=True, check=True
        )
        sandbox.identifier = json.loads(listed.stdout)[0]["id"]
    if name == "use-the-service":
        assert '"confirmed":true' in told
        assert "lfs setstripe" in told
