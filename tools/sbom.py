"""List the service's parts (SBOM, CycloneDX): python tools/sbom.py FILE.

The parts are those that requirements/service.lock names. pyproject.toml has no version, so it is put in here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import stripewise

LOCK, PROJECT = "requirements/service.lock", "pyproject.toml"
path = Path(sys.argv[1])
words = [
    sys.executable,
    "-W",
    "ignore",
    "-m",
    "cyclonedx_py",
    "requirements",
    LOCK,
    "--pyproject",
    PROJECT,
    "--output-reproducible",
]
subprocess.run([*words, "-o", str(path)], check=True)
listed = json.loads(path.read_text("utf-8"))
listed["metadata"]["component"]["version"] = stripewise.__version__
path.write_text(json.dumps(listed, indent=2) + "\n", "utf-8")
