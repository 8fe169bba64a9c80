"""Native parts are built once for each MPI interface, whole or not at all, from a clone as from a package."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from stripewise.errors import StripewiseError, UserError
from stripewise.runners.native.build import (
    KERNEL,
    RUNTIME,
    BuildFailed,
    BuildTarget,
    Built,
    build,
    find_built,
    source_folder,
    source_hash,
)
from stripewise.runners.native.compiler import ask_compiler, find_compiler
from stripewise.runners.program.kept import cache_folder
from stripewise.runners.program.mpi import describe, library_of_launcher
from tests.conftest import require
from tests.integration.building import ROOT
from tests.integration.conftest import Mpi

ENVIRONMENT = dict(os.environ)
SMALL = BuildTarget("small", ("native/include",), "lib/libsmall.so", "RUNTIME")
LINKED = BuildTarget("linked", ("native/include",), "lib/libsmall.so", "KERNEL")


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A project that builds in a second, and notes each time that it is configured."""
    require(shutil.which("cmake"), "no cmake: apt install cmake")
    folder = tmp_path / "sources"
    (folder / "native" / "include").mkdir(parents=True)
    (folder / "native" / "include" / "small.c").write_text(
        "#include <mpi.h>\nint small(void) { return MPI_VERSION; }\n"
    )
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(small LANGUAGES C)\n"
        f'file(APPEND "{tmp_path}/configured" "x")\n'
        "add_library(small SHARED native/include/small.c)\n"
        "set_target_properties(small PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)\n"
    )
    return folder


def make(target: BuildTarget, mpi: Mpi, sources: Path, mpicc: Path | None = None) -> Built:
    compiler = ask_compiler(mpicc or mpi.mpicc, ENVIRONMENT)
    return build(target, compiler, ENVIRONMENT, cache=sources.parent / "cache", sources=sources)


def configured(sources: Path) -> int:
    return len((sources.parent / "configured").read_text())


def test_a_second_build_is_the_first(mpich: Mpi, sources: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "stripewise")
    first = make(SMALL, mpich, sources)
    assert [record.getMessage().split(",")[0] for record in caplog.records] == [
        f"building the small with {mpich.mpicc}"
    ]
    second = make(SMALL, mpich, sources)
    assert len(caplog.records) == 1
    assert (first.reused, second.reused) == (False, True)
    assert first.path == second.path
    assert configured(sources) == 1
    about = json.loads((first.path.parent.parent / "build.json").read_text())
    assert about["abi"] == "mpich"
    assert about["path"] == str(first.path)
    assert sorted(path.name for path in (sources.parent / "cache").glob(".building-*")) == []


def test_changed_sources_and_other_interfaces_are_built_anew(mpich: Mpi, openmpi: Mpi, sources: Path) -> None:
    first = make(SMALL, mpich, sources)
    other = make(SMALL, openmpi, sources)
    assert "-openmpi-" in str(other.path)
    (sources / "native" / "include" / "new.h").write_text("")
    assert make(SMALL, mpich, sources).path != first.path


def test_mpis_of_one_interface_share_a_library_but_not_a_program(mpich: Mpi, sources: Path) -> None:
    """A wrapper elsewhere with the same compiler behind it stands for another MPI of the same interface."""
    other = sources.parent / "other" / "mpicc"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec {mpich.mpicc} "$@"\n')
    other.chmod(0o755)
    assert make(SMALL, mpich, sources, other).path == make(SMALL, mpich, sources).path
    assert make(LINKED, mpich, sources, other).path != make(LINKED, mpich, sources).path


def test_two_that_need_the_same_build_it_once(mpich: Mpi, sources: Path) -> None:
    built: list[Built] = []
    threads = [threading.Thread(target=lambda: built.append(make(SMALL, mpich, sources))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one.path for one in built}) == 1
    assert sorted(one.reused for one in built) == [False, True, True]
    assert configured(sources) == 1


def test_a_failed_build_shows_the_compilers_words_and_leaves_nothing(mpich: Mpi, sources: Path) -> None:
    (sources / "native" / "include" / "small.c").write_text("int small(void) { return undeclared_thing; }\n")
    with pytest.raises(BuildFailed) as caught:
        make(SMALL, mpich, sources)
    assert "undeclared_thing" in caught.value.what
    assert any("undeclared_thing" in line for line in caught.value.lines)
    assert "--mpicc" in caught.value.fix
    assert [path for path in (sources.parent / "cache").iterdir() if not path.name.endswith(".lock")] == []


def test_half_a_build_in_the_cache_is_not_taken_for_a_whole_one(mpich: Mpi, sources: Path) -> None:
    first = make(SMALL, mpich, sources)
    first.path.unlink()
    assert not make(SMALL, mpich, sources).reused
    assert first.path.is_file()


def test_a_library_that_was_changed_in_the_cache_is_not_preloaded(mpich: Mpi, sources: Path) -> None:
    first = make(SMALL, mpich, sources)
    with first.path.open("ab") as library:
        library.write(b"evil")
    assert find_built(SMALL, "mpich", sources.parent / "cache", sources) is None
    again = make(SMALL, mpich, sources)
    assert not again.reused and not again.path.read_bytes().endswith(b"evil")
    for place in (first.path, first.path.parent, sources.parent / "cache"):
        mode = place.stat().st_mode
        place.chmod(0o777)
        with pytest.raises(UserError, match=r"others can write the .*chmod go-w"):
            make(SMALL, mpich, sources)
        place.chmod(mode)
    assert make(SMALL, mpich, sources).reused


def require_library(mpi: Mpi) -> Path:
    library = library_of_launcher(Path(mpi.launcher[0]))
    assert library is not None
    return library


def test_what_was_built_is_found_without_a_compiler(mpich: Mpi, sources: Path) -> None:
    cache = sources.parent / "cache"
    assert find_built(SMALL, "mpich", cache, sources) is None
    first = make(SMALL, mpich, sources)
    assert find_built(SMALL, "mpich", cache, sources) == first.path
    assert find_built(SMALL, "openmpi", cache, sources) is None
    standard = describe(require_library(mpich), ENVIRONMENT).standard
    assert find_built(SMALL, "mpich", cache, sources, exactly=standard) == first.path
    assert find_built(SMALL, "mpich", cache, sources, exactly="1.0") is None
    # Of a library of MPI 3, mpi4py would take its calls with MPI_Count, and each write would fail.
    assert find_built(SMALL, "mpich", cache, sources, at_most="1.0") is None
    assert find_built(SMALL, "mpich", cache, sources, at_most=standard) == first.path
    about = first.path.parent.parent / "build.json"
    about.write_text(about.read_text().replace(platform.machine(), "another"))
    assert find_built(SMALL, "mpich", cache, sources, exactly=standard) is None
    (sources / "native" / "include" / "new.h").write_text("")
    assert find_built(SMALL, "mpich", cache, sources) is None


def test_a_cache_that_cannot_be_written_is_told(mpich: Mpi, sources: Path) -> None:
    (sources.parent / "cache").write_text("a file in the way")
    with pytest.raises(StripewiseError, match=r"cannot keep the built small in .*; make room, or set STRIPEWISE_HOME"):
        make(SMALL, mpich, sources)


@pytest.mark.parametrize("name", ["my home", "my:home", "$ORIGIN"])
def test_a_folder_that_the_loader_reads_differently_holds_no_library(name: str, tmp_path: Path) -> None:
    # of "/tmp/my home/lib.so" it would load "/tmp/my", which others may have put there
    with pytest.raises(UserError, match="no library can be preloaded from"):
        find_built(SMALL, "mpich", tmp_path / name)


def test_flags_of_the_users_shell_do_not_get_into_the_build(mpich: Mpi, sources: Path) -> None:
    environment = {**ENVIRONMENT, "CFLAGS": "-DMPI_VERSION=broken -fno-such-flag"}
    compiler = ask_compiler(mpich.mpicc, ENVIRONMENT)
    assert build(SMALL, compiler, environment, cache=sources.parent / "cache", sources=sources).path.is_file()


def test_an_mpi_h_of_the_working_folder_is_not_the_compilers(
    mpi: Mpi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mpi.h").write_text("#error this is a stub\n")
    monkeypatch.chdir(tmp_path)
    assert ask_compiler(mpi.mpicc, ENVIRONMENT).abi == mpi.name


def test_cmake_that_is_missing_is_named(mpich: Mpi, sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = ask_compiler(mpich.mpicc, ENVIRONMENT)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(UserError, match="cmake is not installed; install it with"):
        build(SMALL, compiler, {"PATH": "/nowhere"}, cache=sources.parent / "cache", sources=sources)


def test_a_wrapper_says_what_it_builds_for(mpi: Mpi) -> None:
    compiler = ask_compiler(mpi.mpicc, ENVIRONMENT)
    assert compiler.abi == mpi.name
    assert float(compiler.standard) >= 3.0
    assert compiler.identity


@pytest.mark.parametrize("name", ["/no/such/mpicc", "/bin/false", "/bin/true", "/bin/echo"])
def test_what_is_no_mpi_compiler_is_refused(name: str) -> None:
    with pytest.raises(UserError) as caught:
        ask_compiler(Path(name), ENVIRONMENT)
    assert name in caught.value.what
    assert caught.value.fix


def test_the_compiler_of_a_programs_mpi_is_found_beside_its_library(mpi: Mpi) -> None:
    library = library_of_launcher(Path(mpi.launcher[0]))
    assert library is not None
    found = describe(library, ENVIRONMENT)
    assert found.abi == mpi.name
    assert find_compiler(found, None, {"PATH": "/usr/bin:/bin", "HOME": "/"}).path == mpi.mpicc


def test_an_mpi_without_compiler_is_told_with_what_was_tried(openmpi: Mpi, tmp_path: Path) -> None:
    library = library_of_launcher(Path(openmpi.launcher[0]))
    assert library is not None
    lonely = tmp_path / "a" / "b" / "c" / "d" / "lib" / library.name
    lonely.parent.mkdir(parents=True)
    shutil.copy(library, lonely)
    with pytest.raises(UserError, match=r"no compiler wrapper found for .*--mpicc PATH"):
        find_compiler(describe(lonely, ENVIRONMENT), None, {"PATH": str(tmp_path)})


def test_the_cache_follows_its_variables() -> None:
    assert cache_folder({"STRIPEWISE_HOME": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a/native")
    assert cache_folder({"XDG_CACHE_HOME": "/b", "HOME": "/c"}) == Path("/b/stripewise/native")
    assert cache_folder({"HOME": "/c"}) == Path("/c/.cache/stripewise/native")


def test_the_sources_of_a_clone_are_found() -> None:
    assert source_folder() == ROOT


def test_a_package_holds_the_same_sources_and_builds_them(mpich: Mpi, tmp_path: Path) -> None:
    """What `pip install` puts in place: the package alone, without its clone."""
    made = subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "-e", tmp_path, "build_py", "--build-lib", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    code = (
        "import os, json\nfrom pathlib import Path\n"
        "from stripewise.runners.native.build import *\nfrom stripewise.runners.native.build import *\n"
        "from stripewise.runners.native.compiler import ask_compiler\n"
        f"compiler = ask_compiler(Path({str(mpich.mpicc)!r}), os.environ)\n"
        f"built = build(KERNEL, compiler, os.environ, cache=Path({str(tmp_path / 'cache')!r}))\n"
        "folder = source_folder()\n"
        "hashes = [source_hash(folder, parts) for parts in (RUNTIME.parts, KERNEL.parts)]\n"
        "print(json.dumps([str(folder), *hashes, str(built.path)]))\n"
    )
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    folder, runtime, kernel, program = json.loads(done.stdout)
    assert Path(folder) == tmp_path / "site" / "stripewise" / "_native"
    assert runtime == source_hash(ROOT, RUNTIME.parts)
    assert kernel == source_hash(ROOT, KERNEL.parts)
    assert subprocess.run([program, "--help"], capture_output=True, check=False).returncode == 0
