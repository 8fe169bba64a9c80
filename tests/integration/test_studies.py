"""Every study in small, as CI runs them: what is simulated, and what launches programs on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


def study(name: str, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.studies", name, "--quick", "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["ai-for-io", "io-search", "ann", "shaman", "sctuner", "beyond"])
def test_a_study_runs_in_small_and_goes_on_where_it_was(name: str, tmp_path: Path) -> None:
    first = study(name, tmp_path)
    assert first.returncode == 0, first.stderr[-3000:]
    kept = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
    assert kept["quick"] is True
    assert kept["steps"]
    again = study(name, tmp_path)
    assert again.returncode == 0, again.stderr[-3000:]
    assert f"{name}: " not in again.stderr, "a step was done again"
    assert json.loads((tmp_path / f"{name}.json").read_text("utf-8")) == kept


def test_real_sieving_reads_and_writes_what_it_should(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT))
    from benchmarks.studies import holes

    program = holes.built(tmp_path)
    for operation in ("read", "write"):
        words = [holes.BIN / "mpiexec", "-n", "1", program, tmp_path / "data", operation, "100", "900", "50"]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert f"{operation} bandwidth: " in done.stdout
