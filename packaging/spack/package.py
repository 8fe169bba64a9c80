# SPDX-License-Identifier: BSD-3-Clause
"""Stripewise for Spack: copy this folder to packages/stripewise of a repository of your own, and `spack repo add` it.

The native parts are built when they are needed, with the MPI of the program to be tuned (`stripewise site native
build`), so that one installation serves all MPI libraries: CMake, make and a C compiler are needed at run time.
packaging/README.md says what of this recipe was tried, and which packages Spack's own repository lacks.
"""

import json
import os

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class Stripewise(PythonPackage):
    """Auto-tuner for the parallel I/O of MPI programs: it measures, proves and applies better settings."""

    # There is no published address yet: Spack takes a version from the sdist, and main from the clone, in the folder
    # where it is started.
    url = f"file://{os.getcwd()}/stripewise-0.2.0.tar.gz"
    git = f"file://{os.getcwd()}"
    manual_download = True

    license("BSD-3-Clause", checked_by="the Stripewise developers")

    version("main", branch="main")
    # A release adds its digest: sha256="..." of the sdist (packaging/release-checklist.md). Until then: --no-checksum.
    version("0.2.0")

    variant("mpi", default=True, description="an MPI library with which `spack test run` tries the runtime")
    variant("hdf5", default=False, description="h5py, to choose filters for datasets")
    variant("files", default=False, description="settings in TOML, YAML and namelist files of a program")
    variant("server", default=False, description="the web service")
    variant("ann", default=False, description="neural networks as performance models")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@68:", type="build")

    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-scipy@1.11.1:", type=("build", "run"))
    depends_on("py-scikit-learn@1.4:", type=("build", "run"))
    depends_on("py-lightgbm@4.3:", type=("build", "run"))
    depends_on("py-pydantic@2.10.1:", type=("build", "run"))
    depends_on("py-typer@0.16:", type=("build", "run"))
    depends_on("py-rich@13.9.4:", type=("build", "run"))
    depends_on("py-sqlalchemy@2.0.25:", type=("build", "run"))
    depends_on("py-alembic@1.13:", type=("build", "run"))
    depends_on("py-plotly@5.20:", type=("build", "run"))
    depends_on("py-tree-sitter@0.25.2:", type=("build", "run"))
    depends_on("py-tree-sitter-bash@0.25.1:", type=("build", "run"))
    depends_on("py-jinja2@3.1.6:", type=("build", "run"))
    depends_on("py-darshan@3.4.6:", type=("build", "run"))

    # Of the native build, at run time.
    depends_on("cmake@3.20:", type="run")
    depends_on("gmake", type="run")
    depends_on("c", type="run")

    depends_on("mpi", type="run", when="+mpi")
    depends_on("py-h5py@3.10:", type=("build", "run"), when="+hdf5")

    with when("+files"):
        depends_on("py-tomlkit@0.12:", type=("build", "run"))
        depends_on("py-ruamel-yaml@0.18:", type=("build", "run"))
        depends_on("py-f90nml@1.4.3:", type=("build", "run"))

    with when("+server"):
        depends_on("py-fastapi@0.120.1:", type=("build", "run"))
        depends_on("py-starlette@0.49.1:", type=("build", "run"))
        depends_on("py-uvicorn@0.29:", type=("build", "run"))
        depends_on("py-psycopg@3.1.4:", type=("build", "run"))
        depends_on("py-python-multipart@0.0.18:", type=("build", "run"))

    depends_on("py-torch@2.6:", type=("build", "run"), when="+ann")

    import_modules = ["stripewise", "stripewise.desk.cli", "stripewise.engine"]

    def test_version(self):
        """the command starts and names its version"""
        told = Executable(self.prefix.bin.stripewise)("--version", output=str.split, error=str.split)
        if self.spec.satisfies("@main"):
            assert "stripewise" in told
        else:
            assert str(self.spec.version) in told

    def test_simulated_campaign(self):
        """a campaign on a simulated cluster, which needs no MPI library"""
        os.environ["STRIPEWISE_HOME"] = os.environ["XDG_DATA_HOME"] = os.getcwd()
        Executable(self.prefix.bin.stripewise)("profile", "quick", "--runner", "sim:kay", "--out", "quick")
        assert os.path.getsize("quick.csv")

    def test_runtime(self):
        """a hint of a plan reaches an MPI program"""
        if not self.spec.satisfies("+mpi"):
            raise SkipTest("needs +mpi")
        os.environ["STRIPEWISE_HOME"] = os.getcwd()
        mpi = self.spec["mpi"].prefix.bin
        stripewise = Executable(self.prefix.bin.stripewise)
        built = json.loads(stripewise("site", "native", "build", "--mpicc", mpi.mpicc, "--json", output=str.split))
        with open("one_hint.plan", "w") as plan:
            plan.write("stripewise-plan 1\nhint romio_cb_write disable\n")
        os.environ["STRIPEWISE_PLAN"] = os.path.abspath("one_hint.plan")
        os.environ["STRIPEWISE_REPORT"] = os.path.abspath("seen.json")
        launch = f"-n 2 env LD_PRELOAD={built['library']} {built['kernel']} --write --size 1m --file out.dat"
        Executable(mpi.mpiexec)(*launch.split())
        with open("seen.json") as seen:
            (setting,) = json.load(seen)["files"][0]["settings"]
        assert setting["outcome"] == "applied"
