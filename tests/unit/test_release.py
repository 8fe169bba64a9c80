"""One version everywhere, and packages that ask for what the program needs."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import yaml

import stripewise

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SPACK = (ROOT / "packaging" / "spack" / "package.py").read_text("utf-8")


def test_the_version_is_the_same_everywhere() -> None:
    cmake = re.search(r"project\(stripewise VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text("utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert cmake
    assert cmake[1] == citation["version"] == PROJECT["version"] == stripewise.__version__


def test_the_citation_names_who_the_project_names() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["authors"] == PROJECT["authors"] == [{"name": "The Stripewise developers"}]
    assert citation["license"] == PROJECT["license"]["text"]
    assert {"cff-version", "message", "title", "type"} <= citation.keys()


def test_the_spack_recipe_has_every_dependency_with_its_version() -> None:
    ast.parse(SPACK)
    asked = dict(re.findall(r'depends_on\("(?:py-)?([a-z0-9-]+)@([\d.]+):', SPACK))
    optional = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *optional["server"], *optional["ann"]]
    for requirement in wanted:
        name, version = re.fullmatch(r"([A-Za-z0-9_-]+)(?:\[\w+\])?>=([\d.]+)", requirement).groups()
        name = name.lower().replace("_", "-")
        assert asked.get(name) == version, f"packaging/spack/package.py: {name} {asked.get(name)}, not {version}"
    assert asked["python"] == PROJECT["requires-python"].removeprefix(">=")
