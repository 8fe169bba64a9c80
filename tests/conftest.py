"""What every test may use: `from tests.conftest import require`."""

import os

import pytest


def require(condition: object, reason: str) -> None:
    """Skip the test with the reason unless the condition holds; fail where nothing may be missing.

    STRIPEWISE_REQUIRE_ALL=1 marks a machine on which every optional tool is to be installed, as in CI:
    there a skipped test would hide that it never runs.
    """
    if condition:
        return
    if os.environ.get("STRIPEWISE_REQUIRE_ALL") == "1":
        pytest.fail(f"missing on a machine that is to have everything: {reason}")
    pytest.skip(reason)
