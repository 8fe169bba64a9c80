"""What users get: a wheel that, alone in a bare environment, builds its native parts and runs the demo."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

import stripewise
from tests.conftest import require

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


HASHES = """
import importlib.metadata, json
files = importlib.metadata.files("stripewise")
print(json.dumps({str(file): file.hash.value for file in files if file.hash and file.parts[0] == "stripewise"}))
"""


def run(words: list[str], folder: Path, **more: str) -> str:
    # Nothing of this environment may help: neither its packages nor the clone.
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "STRIPEWISE_"))}
    done = subprocess.run(
        words, cwd=folder, env={**kept, **more}, capture_output=True, text=True, check=False, timeout=1200
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages, built from a copy of what is under version control."""
    require(importlib.util.find_spec("build"), "pip install build")
    folder = tmp_path_factory.mktemp("release")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    require(listed.returncode == 0, "no clone: git ls-files fails")
    clone = folder / "clone"
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name)
    run([sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(clone)], folder)
    return folder / "dist"


def test_the_packages_hold_the_native_sources_and_all_data(dist: Path) -> None:
    wheels, sdists = list(dist.glob("*.whl")), list(dist.glob("*.tar.gz"))
    assert len(wheels) == len(sdists) == 1
    assert wheels[0].name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheels[0]) as archive:
        wheel = set(archive.namelist())
    clone = dist.parent / "clone"
    # Modules, and all that they read: stacks, sites, campaigns, pages, migrations.
    for source in (clone / "src" / "stripewise").rglob("*"):
        if source.is_file():
            assert source.relative_to(clone / "src").as_posix() in wheel
    for part in ("include", "core", "shim", "kernel"):
        for source in (clone / "native" / part).rglob("*.*"):
            assert f"stripewise/_native/{source.relative_to(clone).as_posix()}" in wheel
    with tarfile.open(sdists[0]) as packed:
        sdist = {name.split("/", 1)[-1] for name in packed.getnames()}
    assert {"LICENSE", "README.md", "CMakeLists.txt", "setup.py", "native/include/stripewise_format.h"} <= sdist


def canonical(line: str) -> tuple[str, Version | None]:
    name, _, version = re.sub(" @ ", "==", line).partition("==")
    try:
        return canonicalize_name(name), Version(version)
    except InvalidVersion:
        # A file or folder that was installed.
        return canonicalize_name(name), None


def locked(lock: Path) -> set[tuple[str, Version | None]]:
    return {canonical(line.split()[0]) for line in lock.read_text("utf-8").splitlines() if re.match(r"\w", line)}


def test_the_list_of_parts_names_what_is_locked(dist: Path, tmp_path: Path) -> None:
    """`make dist` writes it with the same command."""
    require(importlib.util.find_spec("cyclonedx_py"), "pip install cyclonedx-bom")
    clone = dist.parent / "clone"
    lock = clone / "requirements" / "service.lock"
    run([sys.executable, "tools/sbom.py", str(tmp_path / "parts.json")], clone)
    sbom = json.loads((tmp_path / "parts.json").read_text("utf-8"))
    assert sbom["bomFormat"] == "CycloneDX"
    component = sbom["metadata"]["component"]
    assert (component["name"], component["version"]) == ("stripewise", stripewise.__version__)
    assert {canonical(f"{part['name']}=={part['version']}") for part in sbom["components"]} == locked(lock)


def test_the_wheel_runs_the_demo_in_a_bare_environment(dist: Path, tmp_path: Path) -> None:
    run([sys.executable, "-m", "venv", str(tmp_path / "bare")], tmp_path)
    python = str(tmp_path / "bare" / "bin" / "python")
    wheel = next(dist.glob("*.whl"))
    # Most of what is installed is never imported here: compiling all of it takes longer than anything else.
    options = ["--quiet", "--disable-pip-version-check", "--no-compile"]
    # As a service is installed: what the lock names, each checked by its hash, and nothing else.
    lock = dist.parent / "clone" / "requirements" / "service.lock"
    run([python, "-m", "pip", "install", *options, "--require-hashes", "--requirement", str(lock)], tmp_path)
    run([python, "-m", "pip", "install", *options, f"{wheel}[mpich,server]"], tmp_path)
    frozen = run([python, "-m", "pip", "freeze"], tmp_path).splitlines()
    assert {canonical(line)[0] for line in frozen if canonical(line) not in locked(lock)} == {
        "mpich",
        "stripewise",
    }
    where = run([python, "-c", "import stripewise; print(stripewise.__file__)"], tmp_path)
    assert where.startswith(str(tmp_path))
    command = str(tmp_path / "bare" / "bin" / "stripewise")
    home = str(tmp_path / "home")
    out = run([command, "demo"], tmp_path, STRIPEWISE_HOME=home, XDG_DATA_HOME=home)
    assert "default" in out
    assert "open demo-report.html" in out
    page = (tmp_path / "demo-report.html").read_text("utf-8")
    assert "demo" in page
    # The sdist installs the same files, so that it runs the demo too.
    before = json.loads(run([python, "-c", HASHES], tmp_path))
    sdist = next(dist.glob("*.tar.gz"))
    run([python, "-m", "pip", "install", *options, "--no-deps", "--force-reinstall", str(sdist)], tmp_path)
    assert json.loads(run([python, "-c", HASHES], tmp_path)) == before and len(before) > 400
