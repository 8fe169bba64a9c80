"""Every example is executed, and the commands that guides show for machines that everybody has."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stripewise.desk.cli import main
from tests.integration.building import fresh_home
from tests.integration.conftest import Mpi

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.toml") if "[[parameter]]" not in path.read_text("utf-8"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def script(path: Path, text: str) -> None:
    path.write_text("#!/bin/sh\n" + text, "utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all examples."""
    return fresh_home(tmp_path_factory)


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mpich: Mpi, kernel: Callable[[Mpi], Path], home: Path
) -> Path:
    """A folder with the examples, in which the programs that they name are found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "stripewise-kernel").symlink_to(kernel(mpich))
    # A cluster's launcher, modules and program, as far as the example sees them.
    script(folder / "srun", f'shift 2\nexec {mpich.mpiexec(4)[0]} -n 4 "$@"\n')
    climate = f"exec {kernel(mpich)} --write --collective --layout strided --piece 16k --size 4m --file restart.dat\n"
    script(tmp_path / "climate", climate)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "modules.sh").write_text("module() { :; }\n", "utf-8")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "modules.sh"))
    monkeypatch.setenv("PATH", f"{folder}:{mpich.mpicc.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("STRIPEWISE_HOME", str(home))
    monkeypatch.setenv("STRIPEWISE_STORE", f"sqlite:///{tmp_path / 'store.db'}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_ends_with_a_result(path: Path, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = path.read_text("utf-8").replace("--size 32m", "--size 4m")
    if "srun" in text:
        # Lustre is not here: what is left of the example is its hints.
        text = re.sub(r"^\[parameters\.(?:over)?stripe_\w+\]\n(?:\w.*\n)*", "", text, flags=re.M)
        text = text.replace('"romio", "lustre"', '"romio"').replace('"lustre"', '"ext4"').replace("LUSTRE:", "UFS:")
    file = place / path.name
    file.write_text(text, "utf-8")
    code = main(["tune", str(file), "--budget", "6", "--json"])
    output = capfd.readouterr()
    assert code == 0, output.err
    told = json.loads(output.out)
    assert told["runs"] <= 6
    assert told["default"]["value"] > 0


def test_the_accelerator_is_tuned_as_its_guide_says(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = subprocess.run(
        ["make", "-C", str(ROOT / "examples" / "accelerator"), f"BUILD={place / 'build'}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    guide = (ROOT / "docs" / "how-to" / "tune-a-component-of-your-own.md").read_text("utf-8")
    (command,) = re.findall(r"^stripewise tune (--stack .*?(?:\\\n.*?)*)$", guide.replace("--dry-run ", ""), re.M)[1:]
    stack = place / "smallread.toml"
    text = (ROOT / "examples" / "accelerator" / "smallread.toml").read_text("utf-8")
    stack.write_text(text.replace("examples/accelerator/build", str(place / "build")), "utf-8")
    words = command.replace("\\\n", " ").replace("examples/accelerator/smallread.toml", str(stack))
    words = words.replace("examples/accelerator/build", str(place / "build")).replace("/scratch/me/data", "data")
    words = words.replace("--budget 60", "--budget 8 --json").replace("268435456", "8388608")
    assert main(["tune", *shlex.split(words)]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["reference"]["value"] > 0
    assert told["default"]["value"] > 0
    assert told["runs"] <= 8


def test_the_programs_of_the_accelerator_are_ninety_in_nine_classes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "accelerator" / "programs.py")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == len(set(lines)) == 90
    classes = [re.sub(r"_\d+$", "", line.split()[0]) for line in lines]
    assert all(classes.count(name) == 10 for name in classes)
    ratios = {line.split()[3] for line in lines if line.startswith("read07_")}
    assert ratios == {"0.7"}


def test_commands_of_the_guide_to_simulated_clusters_run(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    guide = (ROOT / "docs" / "how-to" / "try-without-a-cluster.md").read_text("utf-8")
    shown = [line for line in re.findall(r"^stripewise (tune .+)$", guide, re.M) if "examples/simulated-kay" in line]
    assert len(shown) >= 3
    for line in shown:
        words = shlex.split(line)
        assert main([*words, "--budget", "6", "--json"]) == 0, capfd.readouterr().err
        assert json.loads(capfd.readouterr().out)["simulated"] is True
