"""A simulated program whose phases take time by a law that is known, under the runner that serves real ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stripewise.catalogue.carriers import HINT
from stripewise.catalogue.parameter import Kind, Parameter, Scale
from stripewise.catalogue.plan import Plan
from stripewise.catalogue.space import Space
from stripewise.observe.journal import JournalPhase
from stripewise.observe.orders import Given, Order
from stripewise.requests.experiment import Experiment
from stripewise.runners.base import Preflight
from stripewise.runners.within.launched import Launched
from stripewise.runners.within.runner import WithinRunner

SPACE = Space(
    (
        Parameter("mode", Kind.CATEGORICAL, ("plain", "merged", "split"), "plain", carrier=HINT, key="mode"),
        Parameter("buffer", Kind.ORDINAL, (1, 2, 4, 8), 1, scale=Scale.LOG2, carrier=HINT, key="buffer"),
        Parameter("depth", Kind.ORDINAL, (1, 2), 1, carrier=HINT, key="depth"),
    )
)
_BYTES = float(1 << 30)
_SITES = ("/scratch/chk.#", "/scratch/diag.#", "/scratch/log.#")


@dataclass(frozen=True)
class Law:
    """What a phase takes.

    Attributes
    ----------
    gain : float
        How many times as fast a phase is with ``mode=merged``, once the phases before it have it too.
    noise : float
        Standard deviation of the logarithm of a phase's time.
    carried : float
        Logarithm of what a phase with ``mode=merged`` puts on the next one; its own time is shorter by as much.
    slow : float
        How many times as long a phase takes with ``mode=split``.
    drift : float
        Logarithm of how much slower the machine is at the end of the launch.
    spread : float
        Standard deviation of the logarithm of a phase's size.
    weight : float
        Seconds that a phase of the usual size takes.
    disturbed : float
        Chance that something else makes a phase take 3 to 15 times as long.
    """

    gain: float = 1.0
    noise: float = 0.1
    carried: float = 0.0
    slow: float = 1.0
    drift: float = 0.0
    spread: float = 0.0
    weight: float = 1.0
    disturbed: float = 0.0


class _Stream(Launched):
    """A launch whose phases are computed, one each time that the tuner waits: of each of its file families in turn."""

    def __init__(self, folder: Path, laws: Sequence[Law], length: int, seed: int) -> None:
        super().__init__(folder)
        self._laws, self._length = dict(zip(_SITES, laws, strict=False)), length
        self._rng = np.random.default_rng((seed, 77))
        self._queues: dict[str, list[Order]] = {site: [] for site in self._laws}
        self._before: dict[str, Mapping[str, str]] = {site: {} for site in self._laws}
        self.process = self  # type: ignore[assignment]
        self.returncode = 0
        self._costs: list[float] = []

    @property
    def lost(self) -> float:
        """What the phases took more than with the default, as a part of that, without noise and drift."""
        return float(np.mean(self._costs))

    def poll(self) -> int | None:
        """As a process: None while it runs."""
        return None if len(self.phases) < self._length * len(self._laws) else 0

    def look(self) -> None:
        """Nothing to read."""

    def order(self, orders: Sequence[Order]) -> None:
        """Keep them for the next phases."""
        self._note([Given(one.number, one.site, one.operation, one.run) for one in orders])
        for one in orders:
            self._queues[one.site].append(one)

    def step(self) -> None:
        """Carry out a phase."""
        if self.poll() is not None:
            return
        site = _SITES[len(self.phases) % len(self._laws)]
        law, order = self._laws[site], self._queues[site].pop(0) if self._queues[site] else None
        settings = {setting.key: setting.value for setting in order.settings} if order else {}
        merged, before = settings.get("mode") == "merged", self._before[site].get("mode") == "merged"
        moved = _BYTES * math.exp(self._rng.normal(0, law.spread))
        cost = -math.log(law.gain) * merged + law.carried * (before - merged)
        cost += math.log(law.slow) * (settings.get("mode") == "split")
        self._costs.append(math.exp(cost) - 1)
        cost += law.drift * len(self.phases) / self._length + self._rng.normal(0, law.noise)
        first = len(self.phases) < len(self._laws)
        seconds = law.weight * moved / _BYTES * math.exp(cost) * (3.0 if first else 1.0)
        if law.disturbed and self._rng.random() < law.disturbed:
            seconds *= self._rng.uniform(3, 15)
        began = self.phases[-1].time if self.phases else 1.7e9
        number = order.number if order else 0
        self.phases.append(
            JournalPhase(
                site, "write", True, False, 64, 8, moved, seconds, began + seconds, settings=settings, order=number
            )
        )
        self._before[site] = settings


class StreamRunner(WithinRunner):
    """The runner of phases within one launch, with a simulated program in place of the command.

    Parameters
    ----------
    experiment, folder
        See :class:`~stripewise.runners.within.runner.WithinRunner`.
    *laws : Law
        Of each file family that the program writes.
    length : int
        Phases of each.
    """

    simulated = True
    kind = "simulated"

    def __init__(self, experiment: Experiment, folder: Path, *laws: Law, length: int) -> None:
        super().__init__(experiment, folder)
        self._laws, self._length = laws, length

    def prepare(self) -> Preflight:
        """Nothing is to be checked."""
        return Preflight(space=SPACE)

    def conclude(self, plan: Plan) -> None:
        """The rest of the program is of no interest."""

    @property
    def phases(self) -> list[JournalPhase]:
        """Those of all launches."""
        return [phase for launched in self._launches for phase in launched.phases]

    @property
    def lost(self) -> float:
        """What trying cost; see :class:`_Stream`."""
        stream = self._launches[-1]
        assert isinstance(stream, _Stream)
        return stream.lost

    def _begin(self) -> None:
        seed = self.experiment.seed + 1000 * len(self._launches)
        self._launches.append(_Stream(self.folder, self._laws, self._length, seed))

    def _pause(self) -> None:
        stream = self._launches[-1]
        assert isinstance(stream, _Stream)
        stream.step()
