"""Several Gaussian processes as one: what each believes, weighed by how probable it makes the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stripewise.search.costs import Floats
from stripewise.search.gp import Data, Process

_NEGLIGIBLE = 0.02


@dataclass(frozen=True)
class Averaged:
    """Processes that learned from the same data under different assumptions.

    Bayesian model averaging (Hoeting et al., Stat. Sci. 14, 1999), with the density at the most probable
    hyperparameters in place of the evidence; so few runs seldom settle which assumption holds.

    Attributes
    ----------
    processes : tuple of Process
    weights : ndarray, shape (k,)
        They sum to 1.
    """

    processes: tuple[Process, ...]
    weights: Floats

    @classmethod
    def of(cls, processes: Sequence[Process], densities: Sequence[float]) -> Averaged:
        """Weigh processes by the logarithms of their posterior densities; those that hardly count are left out."""
        odds = np.exp(np.asarray(densities) - np.max(densities))
        kept = odds / np.sum(odds) >= _NEGLIGIBLE
        return cls(
            tuple(process for process, keep in zip(processes, kept, strict=True) if keep),
            odds[kept] / np.sum(odds[kept]),
        )

    @property
    def data(self) -> Data:
        """What they learned from; stragglers may weigh differently in each."""
        return self.processes[0].data

    def predict(self, knots: NDArray[np.int64], prior: Floats) -> tuple[Floats, Floats]:
        """Give mean and standard deviation of the true cost, as :meth:`Process.predict`; they include the doubt."""
        if len(self.processes) == 1:
            return self.processes[0].predict(knots, prior)
        found = [process.predict(knots, prior) for process in self.processes]
        mean = self._weighed([one for one, _ in found])
        return mean, np.sqrt(self._weighed([sd**2 + (one - mean) ** 2 for one, sd in found]))

    def mean(self, knots: NDArray[np.int64], prior: Floats) -> Floats:
        """Give the mean alone, as :meth:`Process.mean`."""
        return self._weighed([process.mean(knots, prior) for process in self.processes])

    def seen(self) -> Floats:
        """Mean of the true cost of each observation, as :meth:`Process.seen`."""
        return self._weighed([process.seen() for process in self.processes])

    def conditioned(self, more: Data) -> Averaged:
        """Give the processes after more data, with the same hyperparameters and weights."""
        return replace(self, processes=tuple(process.conditioned(more) for process in self.processes))

    def _weighed(self, values: list[Floats]) -> Floats:
        return np.asarray(self.weights @ np.array(values), dtype=np.float64)
