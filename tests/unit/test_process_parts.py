"""Parts that processes left damaged or with what cannot be looked up are merged, or passed over, without an error."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from stripewise.measure.processes import _FILE, _FILES, _HEAD, _MAGIC, _OPERATIONS, PREFIX, merge_parts
from stripewise.spec.report import read_report_file


def part(path: bytes, least: int) -> bytes:
    """What a process leaves that wrote ten bytes into one file."""
    head, files = np.zeros(1, _HEAD), np.zeros(_FILES, _FILE)
    head["magic"], head["record_size"], head["rank"] = _MAGIC, _FILE.itemsize, -1
    files[0]["state"], files[0]["path"] = 2, path
    files[0]["calls"][_OPERATIONS.index("write")] = (1, 10, 5, least, least)
    return head.tobytes() + files.tobytes()


@pytest.mark.parametrize(
    ("path", "least", "shown"),
    [
        (b"/" + b"n" * 250 + b" (deleted)", 11, "/" + "n" * 250 + " (deleted)"),  # longer than names may be
        (b"/a\0b", 11, "/a"),
        (b"/killed", 0, "/killed"),  # before it noted the size
        (b"/caf\xe9", 11, "/caf\udce9"),
    ],
)
def test_what_is_odd_in_a_part_does_not_lose_the_report(tmp_path: Path, path: bytes, least: int, shown: str) -> None:
    (tmp_path / f"{PREFIX}1-1").write_bytes(part(path, least))
    os.mkfifo(tmp_path / f"{PREFIX}2-1")
    (tmp_path / f"{PREFIX}3-1").write_bytes(part(path, least)[:-1])
    assert merge_parts(tmp_path, tmp_path / "report.json")
    (file,) = read_report_file(tmp_path / "report.json").files
    assert (file.path, file.size, file.operations["write"].bytes) == (shown, None, 10)
    assert file.operations["write"].min_size == (10 if least else None)
