"""Ask for known vulnerabilities of the packages in requirements/service.lock, and say plainly where nobody answers.

``pip-audit`` calls a package that it cannot look up skipped, and ends well. So a machine that does not reach the
advisory database would pass without having been audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path("requirements/service.lock")
SECONDS = 180


def ask(lock: Path) -> list[dict[str, Any]]:
    """Return what pip-audit says of each package; nothing where it fails as a whole."""
    words = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--require-hashes", "--disable-pip"]
    try:
        done = subprocess.run(
            [*words, "--format=json", "--progress-spinner=off"],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        return list(json.loads(done.stdout)["dependencies"])
    except (subprocess.TimeoutExpired, ValueError):
        return []


def judge(packages: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Return the exit code and the lines to print."""
    known = [package for package in packages if "vulns" in package]
    if not known:
        return 0, ["audit: not done, because the advisory database does not answer on this machine"]
    faults = [
        f"{package['name']} {package['version']}: {fault['id']}, "
        f"fixed in {', '.join(fault['fix_versions']) or 'no version'}"
        for package in known
        for fault in package["vulns"]
    ]
    unknown = [package["name"] for package in packages if "vulns" not in package]
    lines = [f"audit: {len(faults)} known vulnerabilities in {len(known)} packages", *faults]
    if unknown:
        lines.append(f"audit: not looked up: {', '.join(unknown)}")
    return int(bool(faults)), lines


if __name__ == "__main__":
    code, said = judge(ask(LOCK))
    print("\n".join(said))
    sys.exit(code)
