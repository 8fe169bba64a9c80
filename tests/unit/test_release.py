"""One version everywhere, and packages that ask for what the program needs."""

from __future__ import annotations

import ast
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import stripewise
from stripewise.runners.native.build import ACCELERATOR, KERNEL, KERNEL_HDF5, OBSERVER, RUNTIME

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT, TOOLS = SETTINGS["project"], SETTINGS["tool"]


def found(pattern: str, path: str) -> str:
    match = re.search(pattern, (ROOT / path).read_text("utf-8"), re.MULTILINE)
    assert match, f"{path} names no version"
    return match[1]


def test_the_version_is_the_same_everywhere() -> None:
    """``stripewise.__version__`` is the one place; packages and documents read it, and what must repeat it agrees."""
    assert PROJECT["dynamic"] == ["version"]
    assert TOOLS["setuptools"]["dynamic"] == {"version": {"attr": "stripewise.__version__"}}
    repeated = {
        "CMakeLists.txt": found(r"project\(stripewise VERSION ([\d.]+)", "CMakeLists.txt"),
        "stripewise_format.h": found(r'#define SW_VERSION "([^"]+)"', "native/include/stripewise_format.h"),
        "CITATION.cff": yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"],
        "docs/conf.py": runpy.run_path(str(ROOT / "docs" / "conf.py"))["release"],
        "packaging/README.md": found(r"as `stripewise/([\d.]+)`", "packaging/README.md"),
        "for-administrators.md": found(r"root=/opt/stripewise/([\d.]+)", "docs/for-administrators.md"),
        "CHANGELOG.md": found(r"^## (\d[^ ]*)", "CHANGELOG.md"),
    }
    assert repeated == dict.fromkeys(repeated, stripewise.__version__)


def test_ci_runs_every_python_that_the_package_names() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    tried = jobs["python"]["strategy"]["matrix"]["python"]
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: Python :: 3\.", line)]
    assert tried == named
    assert PROJECT["requires-python"] == f">={tried[0]}"
    assert f">{tried[0]} to {tried[-1]}<" in (ROOT / "docs" / "images" / "badges.svg").read_text("utf-8")
    steps = {name: [step.get("run", "") for step in job["steps"]] for name, job in jobs.items()}
    assert ".ci/run" in steps["everything"]
    assert {"make demo", "make test"} <= set(steps["readme"])
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(jobs["python"]["strategy"]["matrix"]["target"]) <= targets


def test_pre_commit_runs_tools_of_the_project() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    assert repository["repo"] == "local"
    names = {hook["id"] for hook in repository["hooks"]}
    assert {"ruff", "ruff-format", "clang-format", "mypy"} <= names
    assert all(hook["entry"].startswith(".venv/bin/") for hook in repository["hooks"])
    assert all(re.compile(hook["files"]) for hook in repository["hooks"])


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_forms_and_workflows_are_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict)


def test_urls_of_the_package_are_documents_that_it_holds() -> None:
    packed = (ROOT / "MANIFEST.in").read_text("utf-8")
    for target in PROJECT["urls"].values():
        assert (ROOT / target).is_file()
        assert target in packed or f"graft {target.partition('/')[0]}" in packed


def test_the_citation_names_who_the_project_names() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["authors"] == PROJECT["authors"] == [{"name": "The Stripewise developers"}]
    assert citation["license"] == PROJECT["license"]["text"]
    assert {"cff-version", "message", "title", "type"} <= citation.keys()


def test_images_install_extras_that_there_are_from_files_that_there_are() -> None:
    folder = ROOT / "packaging" / "containers"
    (extras,) = re.findall(r'"/src\[([\w,]+)\]"', (folder / "install.sh").read_text("utf-8"))
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    copied = re.findall(r"^COPY (.+) \S+$", (folder / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    docker = {name for line in copied for name in line.split()}
    assert docker
    assert all((ROOT / name).exists() for name in docker)


def test_the_lock_of_the_service_is_in_step() -> None:
    """Every dependency has its place there, within its bounds and with hashes; the index is left to who installs."""
    text = (ROOT / "requirements" / "service.lock").read_text("utf-8")
    assert not re.search(r"://|^-|--(extra-)?index|--find-links|--trusted-host", text, re.MULTILINE)
    entries = re.findall(r"^(\S+)==(\S+)[^\n]*((?:\n    --hash=sha256:[0-9a-f]{64}[ \\]*)+)$", text, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^[^\s#]", text, re.MULTILINE)), "an entry has no hash"
    locked = {(name, version) for name, version, _ in entries}
    for line in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["server"]):
        wanted = Requirement(line)
        found = {version for name, version in locked if name == canonicalize_name(wanted.name)}
        assert found, f"{line}: make lock"
        assert all(wanted.specifier.contains(version) for version in found), f"{line}: make lock"


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """List the statements of a module; looking into their expressions would take most of the time."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for one in getattr(node, name, []):
            yield one
            yield from statements(one)


@pytest.mark.slow
def test_every_package_that_is_imported_is_asked_for() -> None:
    """What comes with another package today need not come with it tomorrow."""
    optional = PROJECT["optional-dependencies"]
    names = ("server", "mcp", "ann", "optuna", "hdf5", "files", "pandas", "parquet")
    extras = (line for name in names for line in optional[name])
    lines = [*PROJECT["dependencies"], *extras, "pytest"]
    asked = {Requirement(line).name.lower() for line in lines}
    other = {"sklearn": "scikit-learn", "ruamel": "ruamel.yaml"}
    other |= {"tree_sitter": "tree-sitter", "tree_sitter_bash": "tree-sitter-bash"}
    # Parts of pydantic and of Jinja, which ask for the exact version that they need; scikit-learn cannot do without the
    # last, and we use it for scikit-learn's libraries.
    asked |= {"pydantic_core", "annotated_types", "markupsafe", "threadpoolctl"}
    for path in (ROOT / "src").rglob("*.py"):
        for node in statements(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            for top in {name.partition(".")[0] for name in names} - {"stripewise", *sys.stdlib_module_names}:
                assert other.get(top, top).lower() in asked, (
                    f"{path} imports {top}, which pyproject.toml does not ask for"
                )


def test_an_audit_that_nobody_answered_is_not_called_one() -> None:
    judge = runpy.run_path(str(ROOT / "tools" / "audit.py"))["judge"]
    skipped = {"name": "a", "skip_reason": "not found"}
    fine = {"name": "b", "version": "1", "vulns": []}
    bad = {"name": "c", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
    assert [judge(packages)[0] for packages in ([], [skipped], [fine], [fine, bad])] == [0, 0, 0, 1]
    for packages in ([], [skipped]):
        assert "not done" in judge(packages)[1][0]
    assert judge([skipped, fine, bad])[1] == [
        "audit: 1 known vulnerabilities in 2 packages",
        "c 2: CVE-1, fixed in 3",
        "audit: not looked up: a",
    ]


def test_the_package_holds_the_sources_of_everything_that_it_builds() -> None:
    copied = re.search(r"^PARTS = \((.*)\)$", (ROOT / "setup.py").read_text("utf-8"), re.MULTILINE)
    assert copied is not None
    for target in (RUNTIME, OBSERVER, ACCELERATOR, KERNEL, KERNEL_HDF5):
        assert {f'"{part.removeprefix("native/")}"' for part in target.parts} <= set(copied[1].split(", ")), target.name
