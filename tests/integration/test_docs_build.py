"""The documents become web pages without a warning."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import require

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_pages_are_made_without_a_warning(tmp_path: Path) -> None:
    for module in ("myst_parser", "furo", "sphinx_copybutton", "sphinx_design"):
        require(importlib.util.find_spec(module), "pip install 'stripewise[dev]'")
    words = [
        "-n",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-d",
        str(tmp_path / "read"),
        "docs",
        str(tmp_path / "html"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "html" / "index.html").read_text("utf-8")
    assert not re.search(r'<(script|link|img)[^>]+(src|href)="(https?:)?//', index), "a page loads from another host"
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (tmp_path / "html" / name).exists()
        assert name == "index.html" or f'"{name}"' in index, f"{name} is not in the navigation"
