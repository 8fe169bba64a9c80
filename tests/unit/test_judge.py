"""What a run's standard error says of libraries that were to be preloaded, as glibc 2.36 and 2.31 wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stripewise.runners.judge import find_unloaded
from stripewise.sizes import format_seconds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "ERROR: ld.so: object './libnot.so' from LD_PRELOAD cannot be preloaded (cannot open shared object file): "
            "ignored.\n",
            "./libnot.so was not preloaded: ld.so says 'cannot open shared object file'; name one that exists, by its "
            "whole path",
        ),
        (
            "starting\nERROR: ld.so: object '/opt/lib/fast.so' from LD_PRELOAD cannot be preloaded (file too short): "
            "ignored.\n",
            "/opt/lib/fast.so was not preloaded: ld.so says 'file too short'; name one that exists",
        ),
        (
            "ERROR: ld.so: object '/opt/lib/fast.so' from LD_PRELOAD cannot be preloaded (wrong ELF class: "
            "ELFCLASS64): ignored.\n",
            "",
        ),
        ("the program says: object 'x' cannot be preloaded\n", ""),
    ],
    ids=["relative", "broken", "other processor", "the program's own words"],
)
def test_a_library_that_was_not_preloaded_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "stderr").write_text(text, "utf-8")
    assert find_unloaded(tmp_path / "stderr") == said
    assert find_unloaded(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("seconds", "said"), [(4.40768, "4.41 s"), (1.0, "1 s"), (999.4, "999 s"), (14400.0, "14,400 s")]
)
def test_seconds_of_a_cut_run_are_never_a_power_of_ten(seconds: float, said: str) -> None:
    assert format_seconds(seconds) == said
