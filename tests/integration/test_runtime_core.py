"""The C tests of the runtime's core, with and without sanitizers; they stand alone, so ctest runs them too."""

import re
from pathlib import Path

import pytest

from tests.integration.building import ROOT, checked, native_parts
from tests.integration.conftest import Mpi

PARTS = re.findall(r"foreach\(part (.*)\)", (ROOT / "native/test/CMakeLists.txt").read_text("utf-8"))[0].split()
THREADED = ["clock", "threads"]
# Its children share the memory of the program, and the thread sanitizer takes them for forks, in which it ends threads.
CLONING = "input"


@pytest.mark.parametrize(
    ("sanitize", "parts"),
    [
        # What the fuzz targets' inputs break shows under the sanitizers of ON first.
        ("OFF", PARTS),
        ("ON", None),
        ("thread", THREADED),
    ],
    ids=["OFF", "ON", "thread"],
)
def test_core_passes_its_own_tests(
    mpich: Mpi, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, sanitize: str, parts: list[str] | None
) -> None:
    if sanitize == "OFF":
        # The core is built there already.
        folder, options = native_parts(tmp_path_factory, mpich.mpicc), ["-DSTRIPEWISE_TESTS=ON"]
    else:
        folder, options = tmp_path, ["-DSTRIPEWISE_KERNEL=OFF", "-DSTRIPEWISE_WERROR=ON", "-DSTRIPEWISE_TESTS=ON"]
        options += [f"-DSTRIPEWISE_SANITIZE={sanitize}", f"-DCMAKE_C_COMPILER={mpich.mpicc}"]
        # Its parts with tests of their own are compiled into those; the sanitizer is not for the library.
        options += ["-DSTRIPEWISE_OBSERVER=OFF", "-DSTRIPEWISE_ACCELERATOR=OFF"]
        # Building takes longer than running, and a sanitizer sees at least as much without optimisation.
        options.append("-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O0 -g1")
    checked(["cmake", "-S", str(ROOT), "-B", str(folder), *options])
    targets = ["--target", *(f"test_{part}" for part in parts)] if parts else []
    checked(["cmake", "--build", str(folder), "-j2", *targets])
    chosen = ["-R", rf"^(core|observer)\.({'|'.join(parts)})$"] if parts else []
    checked(["ctest", "--test-dir", str(folder), "--output-on-failure", "--no-tests=error", "--timeout=120", *chosen])


def test_the_thread_sanitizer_sees_all_parts_with_threads() -> None:
    tests = sorted((ROOT / "native" / "test").glob("test_*.c"))
    threaded = [path.stem for path in tests if "pthread_create" in path.read_text("utf-8")]
    assert threaded == [f"test_{part}" for part in sorted([*THREADED, CLONING])]
    assert {"plan", "threads"} <= set(PARTS)


def test_install_puts_the_library_where_the_package_looks(
    mpich: Mpi, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    checked(["cmake", "--install", str(native_parts(tmp_path_factory, mpich.mpicc)), "--prefix", str(tmp_path)])
    assert (tmp_path / "lib" / "libstripewise.so").is_file()
    assert (tmp_path / "bin" / "stripewise-kernel").is_file()
