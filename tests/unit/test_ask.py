"""Commands that answer a question: what they print, how much of it, and what they leave behind."""

from __future__ import annotations

import subprocess
import time
import tracemalloc
from pathlib import Path

import pytest

from stripewise.interpreter import ask


def test_both_outputs_are_text() -> None:
    done = ask(["sh", "-c", r"printf 'a\r\nb\377'; printf c >&2; exit 3"], 10)
    assert (done.returncode, done.stdout, done.stderr) == (3, "a\nb\ufffd", "c")


@pytest.mark.parametrize("redirection", ["", " >&2"])
def test_endless_output_does_not_fill_the_memory(redirection: str) -> None:
    """All of it was kept until the time limit: 60 s of `yes` are more than 100 GB."""
    tracemalloc.start()
    try:
        with pytest.raises(OSError, match="printed more than 32 MiB"):
            ask(["sh", "-c", f"exec yes{redirection}"], 60)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("command", ["sleep 60", "exec >&- 2>&-; sleep 60", "setsid sleep 3 &"])
def test_whatever_does_not_end_is_given_up(command: str) -> None:
    start = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        ask(["sh", "-c", command], 0.5)
    assert time.monotonic() - start < 20


def test_a_group_ends_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        ask(["sh", "-c", f"(sleep 2; touch {tmp_path}/late) & sleep 60"], 0.5, group=True)
    time.sleep(2.5)
    assert not (tmp_path / "late").exists()
