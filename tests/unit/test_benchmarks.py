"""Benchmarks run seldom: what they import must still be there when someone measures again."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["benchmarks", "tools"])
def test_what_scripts_import_of_stripewise_exists(folder: str) -> None:
    """Modules of the package and the names in them; what scripts import from one another is not looked at."""
    missing, seen = [], 0
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "stripewise"):
                continue
            module = importlib.import_module(str(node.module))
            for name in node.names:
                seen += 1
                submodule = f"{node.module}.{name.name}"
                known = hasattr(module, "__path__") and importlib.util.find_spec(submodule) is not None
                if not (known or hasattr(module, name.name)):
                    missing.append(f"{path.relative_to(ROOT)}: {submodule}")
    assert not missing
    assert seen, "scripts that import nothing would make this test idle"
