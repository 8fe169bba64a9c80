"""A campaign that is killed goes on with nothing lost and nothing made twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stripewise.engine.campaign.book import collect
from stripewise.models.table import read_table
from tests.fixtures.shell_campaign import arguments


@pytest.mark.slow
def test_killed_and_resumed_it_has_each_result_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stripewise", *arguments(tmp_path, "[1, 2, 4, 8]"), "--json"]
    killed = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    journal = tmp_path / "journal"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        lines = [
            p.read_text("ascii", "replace").count('"kind":"accept"') for p in journal.glob("experiments/*/events/*")
        ]
        if sum(lines) >= 4:
            break
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = {n: r.value for n, r in collect([journal]).runs.items()}
    assert 4 <= len(before) < 12
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["runs"] == {"planned": 12, "finished": 12, "failed": 0, "left": 0}
    after = {n: r.value for n, r in collect([journal]).runs.items()}
    assert len(after) == 12 and before.items() <= after.items()
    table = read_table(tmp_path / "out")
    assert sorted(table.values) == sorted([1.0, 2, 4, 8] * 3)
    assert not list((tmp_path / "journal" / "runs").glob("[0-9]"))
