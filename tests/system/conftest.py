"""One test bed for all tests that run on one: it takes longer to bring up than many of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.slurm_support import Case, shared_bed, tidied
from tests.system.testbed.bed import Bed


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests of the bed itself come first: they start and end their own, and only one can be up."""
    items.sort(key=lambda item: item.path.name != "test_testbed.py")


@pytest.fixture(scope="session")
def bed_of_session() -> Iterator[Bed]:
    with shared_bed() as found:
        yield found


@pytest.fixture
def bed(bed_of_session: Bed) -> Iterator[Bed]:
    """The bed, on which no other test's job is left, whatever became of that test."""
    with tidied(bed_of_session):
        yield bed_of_session


@pytest.fixture
def case(bed: Bed, tmp_path: Path) -> Iterator[Case]:
    found = Case(bed, tmp_path)
    try:
        yield found
    finally:
        found.end()
