"""Samplers by name: built in, presets, adapters, and those that other packages bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stripewise.options import parse_options
from stripewise.plugins import Plugins, imported
from stripewise.search.base import PriorMean, Sampler

ENTRY_POINTS = "stripewise.samplers"

_SAMPLERS = Plugins(
    "sampler",
    ENTRY_POINTS,
    Sampler,
    {
        "auto": "stripewise.search.samplers.auto:AutoSampler",
        "random": "stripewise.search.samplers.nonadaptive:RandomSampler",
        "latin_hypercube": "stripewise.search.samplers.nonadaptive:LatinHypercubeSampler",
        "exhaustive": "stripewise.search.samplers.nonadaptive:ExhaustiveSampler",
        "genetic": "stripewise.search.samplers.genetic:GeneticSampler",
        "annealing": "stripewise.search.samplers.annealing:AnnealingSampler",
        "surrogate": "stripewise.search.samplers.surrogate:SurrogateSampler",
    },
)
_OPTUNA = "stripewise.search.samplers.optuna_adapter:OptunaSampler"

PRESETS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    # Bagbaba and Wang, iWAPT 2021: bandwidth is the fitness, in proportion to which parents are chosen.
    "io-search": (
        "genetic",
        {"population": 10, "generations": 30, "mutation_rate": 0.15, "selection": "probabilistic", "plan": "random"},
    ),
    # Robert, Zertal and Goret, SITA 2020: 30 initial points, then one child at a time from all that was tried.
    "shaman": (
        "genetic",
        {"initial": 30, "parents": "all", "population": 1, "generations": 70, "plan": "hybrid"},
    ),
}
"""Name to sampler and the options it presets; options given by the user go on top."""


def sampler_names() -> list[str]:
    """List all names that :func:`make_sampler` knows; ``optuna:NAME`` stands for any of Optuna's samplers."""
    own = list(_SAMPLERS.built_in)
    foreign = [name for name in _SAMPLERS.names() if name not in own and name not in PRESETS]
    return [*own, *PRESETS, *foreign, "optuna:NAME"]


def sampler_class(name: str) -> type[Sampler]:
    """Find the class behind a name; its ``Options`` describe what can be set.

    Raises
    ------
    UserError
        Unknown name, or a plug-in that cannot be loaded.
    """
    if name in PRESETS:
        return sampler_class(PRESETS[name][0])
    cls: type[Sampler] = imported(_OPTUNA) if name.startswith("optuna:") else _SAMPLERS.load(name, sampler_names())
    return cls


def make_sampler(name: str, options: Mapping[str, Any] | None = None, prior: PriorMean | None = None) -> Sampler:
    """Make a sampler from its name and options.

    Parameters
    ----------
    name : str
        One of :func:`sampler_names`.
    options : mapping, optional
        By option name; texts are converted, so that ``NAME=VALUE`` of a command line can be handed on.
    prior : PriorMean, optional

    Raises
    ------
    UserError
        Unknown name or option, or a value out of bounds.
    """
    cls = sampler_class(name)
    preset: dict[str, Any] = dict(PRESETS[name][1]) if name in PRESETS else {}
    if name.startswith("optuna:"):
        preset["sampler"] = name.removeprefix("optuna:")
    return cls(parse_options(cls.Options, {**preset, **(options or {})}, f"sampler {name}"), prior=prior)


def sampler_rng(seed: int, number: int) -> np.random.Generator:
    """Give the random numbers for the trial of a number: counter-based, so no state has to be kept.

    Parameters
    ----------
    seed : int
        The experiment's.
    number : int
        Of the (first) trial asked for.
    """
    return np.random.Generator(np.random.Philox(key=np.array([seed, number], dtype=np.uint64)))
