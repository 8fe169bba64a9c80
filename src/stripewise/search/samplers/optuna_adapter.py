"""Optuna's samplers, as ``optuna:NAME``: the history is told to a study in memory, which is then asked.

An optional dependency: ``pip install stripewise[optuna]``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from stripewise.catalogue.space import Levels, Space
from stripewise.errors import UserError, import_optional
from stripewise.options import Keywords
from stripewise.search.base import Sampler, SamplerOptions, Seen, Suggestion, suggest
from stripewise.search.belief.costs import Costs
from stripewise.trial import History

_SHORT = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "random": "RandomSampler",
    "cmaes": "CmaEsSampler",
    "qmc": "QMCSampler",
    "nsgaii": "NSGAIISampler",
}
# These read all they need from the trials of a study; any other keeps notes in each trial while it is asked.
_FROM_TRIALS = ("TPESampler", "GPSampler", "RandomSampler")
_NEEDS = {"GPSampler": "torch", "CmaEsSampler": "cmaes"}
_TRIES = 32


class OptunaOptions(SamplerOptions):
    """Options of ``optuna:NAME``."""

    sampler: str = Field(default="tpe", description=f"{', '.join(_SHORT)}, or a class of optuna.samplers")
    arguments: Keywords = Field(default_factory=dict, description="arguments of the class, as n_startup_trials")

    @model_validator(mode="after")
    def _exists(self) -> OptunaOptions:
        # Checked before the first run: some samplers start at random and would only notice later what they lack.
        with _quieten_optuna():
            self.make(seed=0)
        return self

    @property
    def cls(self) -> str:
        """Name of the class."""
        return _SHORT.get(self.sampler, self.sampler)

    def make(self, seed: int) -> Any:
        """Make Optuna's sampler.

        Raises
        ------
        UserError
            If there is none of this name, it does not take the arguments, or a package that it needs is missing.
        """
        import optuna  # noqa: PLC0415  optional

        # Only what Optuna publishes: the name may come from a request.
        found = getattr(optuna.samplers, self.cls) if self.cls in optuna.samplers.__all__ else None
        if not (isinstance(found, type) and issubclass(found, optuna.samplers.BaseSampler)):
            raise UserError(
                f"Optuna has no sampler '{self.sampler}'",
                f"choose from {', '.join(_SHORT)} or a class of optuna.samplers",
            )
        if (needed := _NEEDS.get(self.cls)) and find_spec(needed) is None:
            raise UserError(f"Optuna's {self.cls} needs {needed}, which is not installed", f"pip install {needed}")
        preset = {"constant_liar": True} if self.cls == "TPESampler" else {}
        try:
            return found(**{"seed": seed, **preset, **self.arguments})
        except (TypeError, ValueError) as error:
            raise UserError(f"Optuna's {self.cls}: {error}", "correct the option 'arguments'") from error


class OptunaSampler(Sampler):
    """Asks a sampler of Optuna.

    Ordered axes are given to it as integers (the places of their values), others as categories. What it proposes is
    folded; what is infeasible or known is refused, and if all it proposes is refused, one is drawn at random.
    """

    name: ClassVar[str] = "optuna"
    Options: ClassVar[type[SamplerOptions]] = OptunaOptions
    options: OptunaOptions

    def ask(self, space: Space, history: History, rng: np.random.Generator, n: int) -> list[Suggestion]:
        """See :meth:`stripewise.search.base.Sampler.ask`."""
        seen = Seen.of(space, history)
        suggestions: list[Suggestion] = []
        with _quieten_optuna():
            study = self._study(space, history, rng)
            while len(suggestions) < n:
                point = _propose(study, space, seen)
                if len(point) == 0:
                    point = seen.draw(rng, 1)
                if len(point) == 0:
                    break
                seen.add(point)
                suggestions += suggest(space, point)
        return suggestions

    def _study(self, space: Space, history: History, rng: np.random.Generator) -> Any:
        """A study that has seen the history."""
        import optuna  # noqa: PLC0415  optional

        study = optuna.create_study(direction="minimize", sampler=self.options.make(int(rng.integers(2**31))))
        _replay(study, space, history, told=self.options.cls in _FROM_TRIALS)
        return study


def _distributions(space: Space) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution, IntDistribution  # noqa: PLC0415  optional

    return {
        parameter.name: IntDistribution(0, len(parameter.values) - 1)
        if parameter.ordered
        else CategoricalDistribution(range(len(parameter.values)))
        for parameter in space.parameters
    }


def _replay(study: Any, space: Space, history: History, *, told: bool) -> None:
    """Tell the study all trials, or have it ask for each of them again and tell the result."""
    from optuna.trial import TrialState, create_trial  # noqa: PLC0415  optional

    distributions = _distributions(space)
    levels = space.levels([trial.configuration for trial in history.trials])
    costs = Costs.of(history)
    for row, cost, failed, unfinished in zip(levels, costs.known, costs.failed, costs.open, strict=True):
        params = {name: int(position) for name, position in zip(space.names, row, strict=True)}
        # A pruned trial is told its bound as if it were its cost: the truth is worse, so it attracts no more than that.
        if unfinished or not told:
            study.enqueue_trial(params)
            trial = study.ask(distributions)
            if not unfinished:
                study.tell(trial, None if failed else float(cost), state=TrialState.FAIL if failed else None)
        elif failed:
            study.add_trial(create_trial(state=TrialState.FAIL, params=params, distributions=distributions))
        else:
            study.add_trial(create_trial(value=float(cost), params=params, distributions=distributions))


def _propose(study: Any, space: Space, seen: Seen) -> Levels:
    """Ask until something usable is proposed, shape ``(1, d)``; empty if nothing is."""
    from optuna.trial import TrialState  # noqa: PLC0415  optional

    distributions = _distributions(space)
    point = np.empty((0, len(space.parameters)), dtype=np.int64)
    for _ in range(_TRIES):
        trial = study.ask(distributions)
        point = seen.new(np.array([[trial.params[name] for name in space.names]], dtype=np.int64))
        if len(point):
            return point
        study.tell(trial, state=TrialState.FAIL)
    return point


@contextmanager
def _quieten_optuna() -> Iterator[None]:
    """Keep Optuna from announcing studies and its experimental classes, and say how to get it if it is missing."""
    with import_optional("optuna"):
        import optuna  # noqa: PLC0415
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
