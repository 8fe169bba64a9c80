"""Calibration on real storage: uncached reads are told from cached ones by their time alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stripewise.desk.cli.main import main
from stripewise.diagnose.causes.models import load
from stripewise.diagnose.causes.probe import Prober, offsets
from stripewise.errors import StripewiseError

MIB = 1 << 20


@pytest.mark.slow
def test_cached_and_uncached_reads_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "site.json"
    if main(["site", "calibrate", str(tmp_path), "--out", str(out), "--size", "16 MiB", "--repeats", "6", "--json"]):
        pytest.skip(f"no storage here whose pages can be put out of memory: {capsys.readouterr().err}")
    models = json.loads(capsys.readouterr().out)["models"]
    assert set(models["read"]) == {"memory", "discarded", "cached", "uncached"}
    assert models["read"]["uncached"]["constant"] > 5 * models["read"]["cached"]["constant"]
    assert not list(tmp_path.glob(".stripewise-calibration-*"))
    site = load(out).among("cached", "uncached")
    prober = Prober(tmp_path, 16 * MIB)
    judged = []
    try:
        for pattern in ("reverse", "strided"):
            prober.forget()
            for size in (12 * 1024, 200 * 1024):
                for truth, seconds in prober.natural(size, offsets(pattern, size, 30, 16 * MIB, 3) * 2):
                    if truth != "mixed":
                        judged.append((truth, site.classify("read", [size], [seconds])[0]))
    finally:
        prober.close()
    for truth in ("cached", "uncached"):
        own = [found == truth for expected, found in judged if expected == truth]
        assert len(own) >= 20
        # Beside other work of the machine, 116 of 139 cached reads were.
        assert sum(own) / len(own) >= 0.75, f"{truth}: {sum(own)} of {len(own)}"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StripewiseError, match="cannot make a file"):
        Prober(tmp_path / "none", 16 * MIB)
