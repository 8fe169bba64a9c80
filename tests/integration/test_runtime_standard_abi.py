"""Programs linked to the standard ABI of MPI 5: one build of the runtime serves every library that has it."""

import os
from pathlib import Path
from typing import ClassVar

import pytest

from stripewise.runners.program.target import look
from tests.integration import test_runtime as usual
from tests.integration.conftest import Mpi
from tests.integration.runtime_support import Bench


class Small(Bench):
    """Only the runtime, compiled in the shortest time."""

    options: ClassVar[tuple[str, ...]] = (
        "-DSTRIPEWISE_KERNEL=OFF",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_C_FLAGS_DEBUG=-O1 -Wno-format-truncation",
    )


@pytest.fixture(scope="module")
def bench(standard: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Small(standard, tmp_path_factory)


def test_calls_large_counts_and_hints_are_those_of_any_mpi(bench: Bench, tmp_path: Path) -> None:
    assert bench.has("MPI_File_write_at_c")
    usual.test_every_operation_is_counted_exactly(bench, tmp_path, "own")
    usual.test_report_describes_the_job_and_the_file(bench, tmp_path)
    usual.test_plan_is_applied_and_takes_effect(bench, tmp_path)


def test_the_runtime_is_preloaded_into_such_programs(bench: Bench) -> None:
    target = look([*bench.mpi.mpiexec(2), str(bench.program("every_call.c", "-DLARGE_COUNTS"))], os.environ, Path.cwd())
    assert target.mpi is not None
    assert (target.mpi.abi, target.mpi.io, target.why_not_preloaded) == ("standard", "romio", "")
