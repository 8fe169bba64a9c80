"""What an experiment improves: one class per kind of objective, by name, open to entry points."""

from stripewise.observe.objectives.base import Conditions, ObjectiveKind, Phases
from stripewise.observe.objectives.registry import (
    ended_run,
    kind_of,
    kinds,
    kinds_of,
    measure,
    objective_of,
    parse_objective,
    timing,
    usages,
)

__all__ = [
    "Conditions",
    "ObjectiveKind",
    "Phases",
    "ended_run",
    "kind_of",
    "kinds",
    "kinds_of",
    "measure",
    "objective_of",
    "parse_objective",
    "timing",
    "usages",
]
