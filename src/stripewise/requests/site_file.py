"""Where the site file is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PATH = Path("/etc/stripewise/site.toml")
VARIABLE = "STRIPEWISE_SITE"


def find_site_file(environment: Mapping[str, str] = os.environ, path: Path = PATH) -> Path | None:
    """Give the site file: that of the staff, or else the one that a variable names; None if there is none."""
    named = environment.get(VARIABLE, "")
    return path if path.exists() else Path(named) if named else None
