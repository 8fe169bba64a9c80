"""The C tests of the runtime's core, with and without sanitizers; they stand alone, so ctest runs them too."""

from pathlib import Path

import pytest

from tests.integration.building import ROOT, checked
from tests.integration.conftest import Mpi


@pytest.mark.parametrize("sanitize", ["OFF", "ON", "thread"])
def test_core_passes_its_own_tests(mpich: Mpi, tmp_path: Path, sanitize: str) -> None:
    options = ["-DSTRIPEWISE_KERNEL=OFF", "-DSTRIPEWISE_WERROR=ON", "-DSTRIPEWISE_TESTS=ON"]
    options += [f"-DSTRIPEWISE_SANITIZE={sanitize}", f"-DCMAKE_C_COMPILER={mpich.mpicc}"]
    checked(["cmake", "-S", str(ROOT), "-B", str(tmp_path), *options])
    checked(["cmake", "--build", str(tmp_path), "-j2"])
    checked(["ctest", "--test-dir", str(tmp_path), "--output-on-failure", "--no-tests=error"])


def test_install_puts_the_library_where_the_package_looks(mpich: Mpi, tmp_path: Path) -> None:
    checked(["cmake", "-S", str(ROOT), "-B", str(tmp_path / "build"), f"-DCMAKE_C_COMPILER={mpich.mpicc}"])
    checked(["cmake", "--build", str(tmp_path / "build"), "-j2"])
    checked(["cmake", "--install", str(tmp_path / "build"), "--prefix", str(tmp_path / "there")])
    assert (tmp_path / "there" / "lib" / "libstripewise.so").is_file()
    assert (tmp_path / "there" / "bin" / "stripewise-kernel").is_file()
