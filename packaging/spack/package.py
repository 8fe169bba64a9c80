# SPDX-License-Identifier: BSD-3-Clause
"""Stripewise for Spack: copy this folder to packages/stripewise of a repository, or `spack repo add` one that has it.

The native parts are built when they are needed, with the MPI of the program to be tuned (`stripewise native build`), so
that one installation serves all MPI libraries of a site: CMake, make and a C compiler are needed at run time.
"""

from spack.package import *


class Stripewise(PythonPackage):
    """Auto-tuner for the parallel I/O of MPI programs: it measures, proves and applies better settings."""

    # From a clone: `spack dev-build stripewise@main`, or `spack develop --path CLONE stripewise@main`.
    # A release adds its line: version("X.Y.Z", sha256="..."), with the digest of the sdist (docs/release-checklist.md).
    manual_download = True

    license("BSD-3-Clause", checked_by="the Stripewise developers")

    version("main")

    variant("server", default=False, description="the web service")
    variant("ann", default=False, description="neural networks as performance models")

    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-setuptools@68:", type="build")

    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("py-scipy@1.11.1:", type=("build", "run"))
    depends_on("py-scikit-learn@1.4:", type=("build", "run"))
    depends_on("py-threadpoolctl@3.1:", type=("build", "run"))
    depends_on("lightgbm@4.3: +python", type=("build", "run"))
    depends_on("py-pydantic@2.10.1:", type=("build", "run"))
    depends_on("py-typer@0.16:", type=("build", "run"))
    depends_on("py-rich@13.9.4:", type=("build", "run"))
    depends_on("py-sqlalchemy@2.0.25:", type=("build", "run"))
    depends_on("py-alembic@1.13:", type=("build", "run"))
    depends_on("py-plotly@5.20:", type=("build", "run"))
    depends_on("py-jinja2@3.1.6:", type=("build", "run"))
    depends_on("py-psij-python@0.9.9:", type=("build", "run"))
    depends_on("py-darshan@3.4.6:", type=("build", "run"))
    depends_on("py-pandas@2.1.1:", type=("build", "run"))

    # Of the native build, at run time.
    depends_on("cmake@3.20:", type="run")
    depends_on("gmake", type="run")
    depends_on("c", type="run")

    with when("+server"):
        depends_on("py-fastapi@0.120.1:", type=("build", "run"))
        depends_on("py-starlette@0.49.1:", type=("build", "run"))
        depends_on("py-uvicorn@0.29:", type=("build", "run"))
        depends_on("py-psycopg@3.1.4:", type=("build", "run"))
        depends_on("py-python-multipart@0.0.18:", type=("build", "run"))

    depends_on("py-torch@2.6:", type=("build", "run"), when="+ann")

    import_modules = ["stripewise", "stripewise.cli", "stripewise.tuning"]
