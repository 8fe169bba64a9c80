"""Prior means: the expert knowledge of the stack files, and the trials of earlier experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stripewise.catalogue.configuration import Configuration, Value, place_of
from stripewise.catalogue.parameter import Parameter, Scale, logarithms
from stripewise.catalogue.space import Levels, Space
from stripewise.catalogue.workload import Workload
from stripewise.search.base import PriorMean
from stripewise.search.belief.belief import Belief, believe
from stripewise.trial import History, Role, Trial

_OBSERVATIONS = 200
_TRUST = 0.5
_DOUBLINGS = 4.0
_UNKNOWN = 0.25
_KINDS = ("operation", "layout", "collective", "file_per_process", "api", "driver", "file_system")
_SIZES = ("nodes", "processes_per_node", "file_size", "transfer_size", "piece_size")


def knowledge_prior(space: Space, levels: Levels) -> NDArray[np.float64]:
    """Expected log-performance from :attr:`stripewise.catalogue.space.Space.knowledge`; a :class:`PriorMean`.

    Parameters
    ----------
    space : Space
    levels : ndarray, shape (n, d)

    Returns
    -------
    ndarray, shape (n,)
        Sum of the logarithms of the gains whose condition holds; 0 where nothing is known.
    """
    gain = np.zeros(len(levels))
    columns = space.columns(space.fold(levels))
    for piece in space.knowledge:
        holds = np.broadcast_to(np.asarray(piece.condition(columns), dtype=bool), gain.shape)
        gain += np.log(piece.gain) * holds
    return gain


@dataclass(frozen=True)
class Earlier:
    """An experiment that has ended.

    Attributes
    ----------
    workload : Workload
    default : mapping
        What acted there where nothing was set, by name.
    history : History
        Of the same objective; its configurations may lack parameters of this experiment's space and have others.
    """

    workload: Workload
    default: Mapping[str, Value]
    history: History


def similarity(one: Workload, other: Workload) -> float:
    """How much a workload says about another, 1 for the same.

    It falls to 1/e with each word of the field that differs, and with each size that differs by a factor of 16.
    """
    a, b = one.model_dump(), other.model_dump()
    apart = sum(_apart(a[name], b[name], a[name] != b[name]) for name in _KINDS)
    for name in _SIZES:
        both = a[name] and b[name]
        apart += _apart(a[name], b[name], min(1.0, abs(np.log2(a[name] / b[name])) / _DOUBLINGS) if both else 1.0)
    return float(np.exp(-apart))


def _apart(a: object, b: object, distance: float) -> float:
    if a is None and b is None:
        return 0.0
    return _UNKNOWN if a is None or b is None else float(distance)


def translate(space: Space, earlier: Earlier) -> History:
    """Translate earlier trials to this experiment's space, as a history; those that it cannot express are left out.

    A withdrawn number becomes the nearest that is offered. Trials that have become one keep all their runs.
    """
    found: dict[bytes, Trial] = {}
    for trial in earlier.history.trials:
        if trial.role is Role.REFERENCE or not (trial.values or trial.bounds):
            continue
        values = earlier.default if trial.role is Role.DEFAULT else trial.configuration
        near = {p.name: _nearest(p, values.get(p.name, p.default)) for p in space.parameters}
        known = {name: value for name, value in near.items() if value is not None}
        if len(known) < len(near):
            continue
        row = space.levels([known])
        same = found.get(row.tobytes())
        if same is None:
            number = len(found)
            found[row.tobytes()] = Trial(number, Configuration(space.configuration(row[0])), runs=trial.runs)
        else:
            found[row.tobytes()] = replace(same, runs=(*same.runs, *trial.runs))
    return History(earlier.history.objective, tuple(found.values()))


def _nearest(parameter: Parameter, value: Value) -> Value | None:
    place = place_of(value, parameter.values)
    if place is not None:
        return parameter.values[place]
    if not parameter.ordered or isinstance(value, str | bool):
        return None
    offered = np.asarray(parameter.values, dtype=np.float64)
    if parameter.scale is Scale.LOG2 and value > 0:
        return parameter.values[int(np.argmin(np.abs(logarithms(offered) - np.log2(float(value)))))]
    return parameter.values[int(np.argmin(np.abs(offered - float(value))))]


class EarlierPrior:
    """The prior mean of earlier experiments, each weighed by the similarity of its workload to this one's.

    Each experiment has a belief of its own, which says nothing where it has not been. What the weights leave open up
    to one goes to the base: a single experiment with a distant workload moves it only a little. (Weighted ensembles of
    processes: Wistuba, Schilling, Schmidt-Thieme, Machine Learning 107, 2018.)

    Parameters
    ----------
    space : Space
    workload : Workload
        This experiment's.
    earlier : sequence of Earlier
    base : PriorMean, optional
        What is expected without them.
    """

    def __init__(
        self, space: Space, workload: Workload, earlier: Sequence[Earlier], base: PriorMean | None = None
    ) -> None:
        self.base = base
        self.default = space.levels([space.default])
        parts: list[tuple[float, Belief]] = []
        for one in earlier:
            belief = believe(space, translate(space, one), base, trust=_TRUST, most=_OBSERVATIONS)
            if belief is not None:
                parts.append((similarity(one.workload, workload), belief))
        total = max(1.0, sum(weight for weight, _ in parts))
        self.parts = [(weight / total, belief) for weight, belief in parts]

    def __call__(self, space: Space, levels: Levels) -> NDArray[np.float64]:
        """See :class:`stripewise.search.base.PriorMean`: relative to the default of each experiment."""
        left = 1.0 - sum(weight for weight, _ in self.parts)
        expected = np.zeros(len(levels))
        if self.base is not None:
            expected += left * (self.base(space, levels) - self.base(space, self.default))
        for weight, belief in self.parts:
            expected -= weight * (belief.mean(levels) - belief.mean(self.default))
        return expected
