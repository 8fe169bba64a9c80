"""The sections of the page, one a study: text from the results of its steps."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.studies.sections import ai_for_io, ann, beyond, io_search, sctuner, shaman
from benchmarks.studies.sections.writing import Steps

SECTIONS: dict[str, tuple[str, Callable[[Steps], str]]] = {
    "ann": ("Neural networks (study 000)", ann.section),
    "io-search": ("Genetic search (study 001)", io_search.section),
    "shaman": ("An accelerator (study 002)", shaman.section),
    "ai-for-io": ("AI for I/O (study 003)", ai_for_io.section),
    "sctuner": ("Good under load (study 004)", sctuner.section),
    "beyond": ("Beyond: the whole chain", beyond.section),
}
