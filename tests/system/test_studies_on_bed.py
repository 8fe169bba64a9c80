"""The parts of the repeated studies that need the test bed, in small."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from tests.system.testbed.bed import Bed

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.studies.on_bed import Site  # noqa: E402
from benchmarks.studies.steps import Study  # noqa: E402

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.testbed, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", ["beyond", "ann", "shaman"])
def test_the_part_on_the_bed_runs_in_small(name: str, bed: Bed, tmp_path: Path) -> None:
    study = Study(name, tmp_path, tmp_path / "work", quick=True)
    importlib.import_module(f"benchmarks.studies.{name}").bed(study, Site(bed, study))
    steps = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))["steps"]
    assert steps
    assert {step["kind"] for step in steps.values()} == {"measured"}
