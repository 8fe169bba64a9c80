"""Code that shows a change to a program: one file for each change and language, which tests compile."""

from __future__ import annotations

from functools import cache
from importlib import resources

from stripewise.observe.activity import Activity

LANGUAGES = {
    "c": ("C", ".c"),
    "fortran": ("Fortran", ".f90"),
    "python": ("Python", ".python"),
    "hdf5": ("HDF5", ".hdf5.c"),
    "netcdf": ("netCDF", ".netcdf.c"),
}
"""Name to its title and the ending of its files."""


_OF_MPI = frozenset({"collective", "open_once", "striping"})
"""Topics whose code is for programs with MPI."""


def fitting(topics: tuple[str, ...], activity: Activity) -> tuple[str, ...]:
    """Give the topics whose code fits a job: to one process without MPI calls of MPI say nothing."""
    parallel = activity.job.ranks > 1 or any(file.mpiio is not None for file in activity.files)
    return tuple(topic for topic in topics if parallel or topic not in _OF_MPI)


@cache
def read_example(topic: str, language: str) -> str:
    """Read an example of a finding's kind in one of :data:`LANGUAGES`."""
    place = resources.files("stripewise.diagnose") / "examples" / f"{topic}{LANGUAGES[language][1]}"
    return place.read_text("utf-8")


def examples_of(topics: tuple[str, ...] | list[str]) -> dict[str, str]:
    """Give the examples of some topics in every language, by its title; those of one language stand together."""
    if not topics:
        return {}
    return {
        title: "\n".join(read_example(topic, language) for topic in topics)
        for language, (title, _) in LANGUAGES.items()
    }
