"""The code that findings show compiles, in every language, without a warning."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import stripewise.diagnose.site
from stripewise.diagnose.code_examples import LANGUAGES, examples_of, read_example
from stripewise.diagnose.finding import RULES
from tests.conftest import require

TOPICS = sorted({topic for kind, _ in RULES.values() for topic in kind.examples})
NETCDF = Path("/usr/lib/x86_64-linux-gnu/netcdf/mpi/include")
STRICT = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror"]
COMPILERS = {
    "c": ("x.c", ["mpicc.mpich", "-std=c11"], "libmpich-dev"),
    "fortran": ("x.f90", ["mpifort.openmpi"], "libopenmpi-dev and gfortran"),
    "hdf5": ("x.c", ["mpicc.mpich", "-I/usr/include/hdf5/mpich"], "libhdf5-mpich-dev"),
    "netcdf": ("x.c", ["mpicc.openmpi", f"-I{NETCDF}"], "libnetcdf-mpi-dev"),
}


def test_every_topic_has_a_file_in_every_language_and_no_file_is_left_over():
    folder = Path(stripewise.diagnose.site.__file__).parent / "examples"
    assert {file.name for file in folder.iterdir() if file.is_file()} == {
        f"{topic}{ending}" for topic in TOPICS for _, ending in LANGUAGES.values()
    }
    assert list(examples_of(tuple(TOPICS))) == ["C", "Fortran", "Python", "HDF5", "netCDF"] and examples_of(()) == {}


@pytest.mark.parametrize("language", sorted(COMPILERS))
@pytest.mark.parametrize("topic", TOPICS)
def test_an_example_compiles(topic, language, tmp_path):
    name, compiler, package = COMPILERS[language]
    there = shutil.which(compiler[0]) and (language != "netcdf" or NETCDF.is_dir())
    require(bool(there), f"no compiler for this example: apt install {package}")
    (tmp_path / name).write_text(read_example(topic, language))
    done = subprocess.run([*compiler, *STRICT, name], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("topic", TOPICS)
def test_an_example_in_python_is_python(topic):
    compile(read_example(topic, "python"), topic, "exec")
