"""Puts the native sources into the package, so that an installed Stripewise can build its runtime for any MPI.

They stay at the root of the repository, where CMake and compilers expect them; only a built package holds a copy.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PARTS = ("include", "core", "shim", "vol", "kernel", "observer", "accelerator")


class BuildWithSources(build_py):
    """Copies ``CMakeLists.txt`` and ``native/`` to ``stripewise/_native``; an editable install uses the clone's."""

    def run(self) -> None:
        """Build the package, then add the sources."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib) / "stripewise" / "_native"
        shutil.rmtree(target, ignore_errors=True)
        for part in PARTS:
            shutil.copytree(ROOT / "native" / part, target / "native" / part)
        shutil.copy2(ROOT / "CMakeLists.txt", target / "CMakeLists.txt")


setup(cmdclass={"build_py": BuildWithSources})
